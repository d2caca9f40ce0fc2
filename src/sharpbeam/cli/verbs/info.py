"""`sharpbeam info`: what this installation has, or what a model is."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sharpbeam.version import program_version


def info(
    model: Annotated[
        str | None, typer.Argument(help="A model folder, or the name of a bundled model. Default: the installation.")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Hash the weights, whatever their size.")] = False,
) -> None:
    """Describe the installation, or a model: architecture, sizes, vocabularies, what was fitted for it, and card.

    Of a model's facts those that are no, none or 0 are shown with `--json` only.

    Examples:

    * `sharpbeam info`
    * `sharpbeam info de-en`
    * `sharpbeam info runs/de-en/best --json --verify`
    """
    facts = _installation() if model is None else _model(model, verify)
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    card = facts.pop("card", "")
    said = {name: _plain(value) for name, value in facts.items()} if model is None else _for_people(facts)
    width = max(map(len, said)) + 2
    for name, value in said.items():
        print(f"{name.replace('_', ' '):<{width}}{value}")
    if card:
        print(f"\n{card.strip()}")


def _installation() -> dict[str, Any]:
    from sharpbeam.decoding.loading import bundled_models

    facts: dict[str, Any] = {"version": program_version(), "python": platform.python_version()}
    try:
        from sharpbeam import _core

        facts |= {"kernel_tables": list(_core.table_names()), "kernel_table_in_use": _core.table_name()}
    except ImportError as error:
        facts["native_core"] = f"missing ({error})"
    return facts | {"bundled_models": list(bundled_models())}


def _model(model: str, verify: bool) -> dict[str, Any]:
    from sharpbeam.decoding.loading import find_model
    from sharpbeam.models.registry import architecture_of
    from sharpbeam.storage.low_bit import FILE as PREVIEW
    from sharpbeam.storage.model_folder import read_facts, read_tensors, verify_weights, weight_types
    from sharpbeam.storage.screens import SCREEN
    from sharpbeam.storage.shortlists import SHORTLIST
    from sharpbeam.text.vocabulary import read_vocabularies

    folder = find_model(model)
    facts = read_facts(folder)
    config = facts.config
    parameters = sum(tensor.size for tensor in read_tensors(folder, config, facts).values())
    source, target = read_vocabularies(folder)
    fitted = {SCREEN.name: SCREEN.tensors, "preview": PREVIEW, SHORTLIST.name: SHORTLIST.tensors}
    known = dataclasses.asdict(config)
    card = folder / "README.md"
    verified = {"verified": verify_weights(folder)} if verify else {}
    files = [path for path in folder.iterdir() if path.is_file()]
    return {
        "folder": str(folder),
        "architecture": architecture_of(config).name,
        "parameters": parameters,
        "weights": ", ".join(weight_types(folder)),
        **verified,
        "memory_mib": round(parameters * 4 / 2**20, 1),  # weights as float32
        "disk_mib": round(sum(path.stat().st_size for path in files) / 2**20, 1),
        "source_vocabulary": f"{type(source).__name__}, {len(source)} entries",
        "target_vocabulary": "the same" if target is source else f"{type(target).__name__}, {len(target)} entries",
        "fitted": [name for name, file in fitted.items() if (folder / file).is_file()],
        **_screen(folder),
        "decoding": facts.decoding,
        **{name: value for name, value in known.items() if not name.endswith("vocab_size")},
        "special_words": {name: target.piece(token) for name, token in known.items() if name.endswith("_id")},
        "card": _text(card) if card.is_file() else "",
    }


def _screen(folder: Path) -> dict[str, str]:
    """The scopes of the screen, where there is one, or its fault."""
    from sharpbeam.errors import ModelError
    from sharpbeam.storage.screens import FACTS, SCREEN, screens_in

    if not (folder / FACTS).is_file():
        return {}
    try:
        per, each = screens_in(folder, SCREEN.read_facts(folder))
    except ModelError as error:
        return {"screen": str(error)}
    return {"screen": "for all" if per == "all" else f"per {per}: {', '.join(each)}"}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _for_people(facts: Mapping[str, Any]) -> dict[str, str]:
    """The facts of a model that say what it has, not what it lacks; ids with their words."""
    from sharpbeam.convert.converted import START

    words: dict[str, str] = facts["special_words"]
    said: dict[str, str] = {}
    for name, value in facts.items():
        if name in words:
            begins = ", what the decoder begins with" if name == "bos_id" else ""
            added = "; added when it was converted, and never in a text" if words[name] == START else ""
            said[name] = f"{value} ({words[name]}{begins}{added})"
        elif value and value != "none" and name != "special_words":
            said[name] = _plain(value)
    return said | {"not shown": "what is no, none or 0; --json has all"}


def _plain(value: Any) -> str:
    """A value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and not all(type(item) is int for item in value.values()):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, (list, tuple, Mapping)):  # of languages their codes
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
