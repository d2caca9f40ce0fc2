"""`sharpbeam info`: describe the installation, or a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sharpbeam.cli.command import verb
from sharpbeam.cli.flags import argument
from sharpbeam.options.schema import option


@verb()
def info(
    model: str | None = argument(
        "A model folder, or the name of a bundled model. Default: the installation.", default=None
    ),
    *,
    json_: bool = option(False, "One JSON object."),
    verify: bool = option(False, "Hash the weights, whatever their size."),
) -> None:
    """Describe the installation, or a model: architecture, sizes, vocabularies, fitted layers and model card.

    Fields of a model that are off, empty or 0 are hidden; `--json` shows all.

    Examples:

    * `sharpbeam info de-en`
    * `sharpbeam info runs/de-en/best --json --verify`
    """
    from sharpbeam.report.facts import describe_installation, describe_model

    facts = describe_installation() if model is None else describe_model(model, verify=verify)
    if json_:
        print(json.dumps(facts, ensure_ascii=False))
        return
    card = facts.pop("card", "")
    shown = {name: _plain(value) for name, value in facts.items()} if model is None else _readable(facts)
    width = max(map(len, shown)) + 2
    for name, value in shown.items():
        print(f"{name.replace('_', ' '):<{width}}{value}")
    if card:
        print(f"\n{card.strip()}")


def _readable(facts: Mapping[str, Any]) -> dict[str, str]:
    """Facts of a model that are not off, empty or 0; ids with their tokens."""
    from sharpbeam.convert.readers.tokens import START

    tokens: dict[str, str] = facts["special_words"]
    shown: dict[str, str] = {}
    for name, value in facts.items():
        if name in tokens:
            begins = ", which the decoder begins with" if name == "bos_id" else ""
            added = "; added when it was converted, and never in a text" if tokens[name] == START else ""
            shown[name] = f"{value} ({tokens[name]}{begins}{added})"
        elif value and value != "none" and name != "special_words":
            shown[name] = _plain(value)
    return shown | {"hidden": "fields that are off, empty or 0; --json shows all"}


def _plain(value: Any) -> str:
    """A value as readable text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and not all(type(item) is int for item in value.values()):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, (list, tuple, Mapping)):  # of languages their codes
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
