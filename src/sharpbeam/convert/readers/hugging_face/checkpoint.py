"""A folder of Hugging Face as all families of models see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.hugging_face import read_hugging_face_weights
from sharpbeam.convert.formats.weights import Weights
from sharpbeam.text.json import read_json


@dataclass(frozen=True)
class Checkpoint:
    """config.json and generation_config.json of `folder`, and its weights which are read when they are used."""

    folder: Path
    kind: str  # model_type
    facts: Facts  # config.json, with the defaults of the class
    generation: Facts  # generation_config.json, then config.json, then the defaults of the class

    @classmethod
    def open(cls, folder: Path, kind: str, config: Mapping[str, Any], defaults: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint whose config.json is `config`; raises ModelError if generation_config.json is no JSON."""
        path, generation_path = folder / "config.json", folder / "generation_config.json"
        own = read_json(generation_path) if generation_path.is_file() else {}
        facts = {**defaults, **config, **own}
        for name in ("eos_token_id", "forced_eos_token_id"):
            if isinstance(facts.get(name), list) and len(facts[name]) == 1:
                (facts[name],) = facts[name]
        generation = Facts(generation_path if own else path, facts)
        return cls(folder, kind, Facts(path, config, defaults), generation)

    @cached_property
    def weights(self) -> Weights:
        """The weights; raises ModelError if they cannot be read."""
        return read_hugging_face_weights(self.folder)
