"""Small JSON files of facts in a model folder, each with the version of its format."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from sharpbeam.errors import ModelError
from sharpbeam.storage.atomic import replacing_files
from sharpbeam.text.json import WORDS, read_any_json


def save_record(folder: Path, file: str, version: int, facts: Mapping[str, Any]) -> None:
    """Write `facts` into `folder`/`file`; raises OutputError."""
    with replacing_files(folder, file) as staging:
        text = json.dumps({"format_version": version, **facts}, indent=1)
        (staging / file).write_text(text + "\n", encoding="utf-8")


def read_record(path: Path, versions: Collection[int], advice: str) -> dict[str, Any]:
    """The facts in `path`; raises ModelError, with `advice`, if it is no JSON object of one of these versions."""
    try:
        facts = read_any_json(path, WORDS)
    except ModelError as error:
        raise ModelError(f"{error} {advice}") from error
    version = facts.pop("format_version", None) if isinstance(facts, dict) else None
    if version not in versions:
        raise ModelError(f"{path}: format_version is {version!r}; this Sharpbeam reads {max(versions)}. {advice}")
    return dict(facts)
