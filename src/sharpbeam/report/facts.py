"""Facts of an installation and of a model folder, as `sharpbeam info` prints them."""

from __future__ import annotations

import dataclasses
import platform
from pathlib import Path
from typing import Any

from sharpbeam.decoding.loading import bundled_models, find_model
from sharpbeam.errors import ModelError
from sharpbeam.models.registry import architecture_of
from sharpbeam.storage.low_bit import FILE as PREVIEW
from sharpbeam.storage.model_folder import read_facts, read_tensors, verify_weights, weight_types
from sharpbeam.storage.nets import NET
from sharpbeam.storage.precision import read_precision
from sharpbeam.storage.screens import FACTS, SCREEN, screens_in
from sharpbeam.storage.shortlists import SHORTLIST
from sharpbeam.text.vocabulary import read_vocabularies
from sharpbeam.version import program_version


def describe_installation() -> dict[str, Any]:
    """Version, kernel tables and bundled models."""
    facts: dict[str, Any] = {"version": program_version(), "python": platform.python_version()}
    try:
        from sharpbeam import _core

        facts |= {"kernel_tables": list(_core.table_names()), "kernel_table_in_use": _core.table_name()}
    except ImportError as error:
        facts["native_core"] = f"missing ({error})"
    return facts | {"bundled_models": list(bundled_models())}


def describe_model(model: str | Path, *, verify: bool = False) -> dict[str, Any]:
    """Architecture, sizes, vocabularies, fitted artifacts, options and card of a model; raises ModelError.

    `verify` hashes the weights, whatever their size.
    """
    folder = find_model(str(model))
    facts = read_facts(folder)
    config = facts.config
    parameters = sum(tensor.size for tensor in read_tensors(folder, config, facts).values())
    source, target = read_vocabularies(folder)
    fitted = {SCREEN.name: SCREEN.tensors, "preview": PREVIEW, SHORTLIST.name: SHORTLIST.tensors, NET.name: NET.tensors}
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
        **_precision(folder),
        "decoding": facts.decoding,
        **{name: value for name, value in known.items() if not name.endswith("vocab_size")},
        "special_words": {name: target.piece(token) for name, token in known.items() if name.endswith("_id")},
        "card": card.read_text(encoding="utf-8", errors="replace") if card.is_file() else "",
    }


def _precision(folder: Path) -> dict[str, str]:
    """The number type that auto means and its evidence, or its fault; nothing where it was not measured."""
    try:
        found = read_precision(folder)
    except ModelError as error:
        return {"compute_type": str(error)}
    return {} if found is None else {"compute_type": found.summary()}


def _screen(folder: Path) -> dict[str, str]:
    """The scopes of the screen, where there is one, or its fault."""
    if not (folder / FACTS).is_file():
        return {}
    try:
        per, each = screens_in(folder, SCREEN.read_facts(folder))
    except ModelError as error:
        return {"screen": str(error)}
    return {"screen": "for all" if per == "all" else f"per {per}: {', '.join(each)}"}
