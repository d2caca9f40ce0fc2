"""`sharpbeam info`: what this installation has, or what a model is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer


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
    from sharpbeam.report.facts import describe_installation, describe_model

    facts = describe_installation() if model is None else describe_model(model, verify=verify)
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
