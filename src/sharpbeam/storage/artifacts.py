"""Fitted parts of a model, kept in its folder: NAME.safetensors with NAME.json, replaced as a whole.

NAME.json holds the digest of NAME.safetensors, so that a crash between the two renames is seen, and digests of what it
was fitted for, so that it is refused for others. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from sharpbeam import _core
from sharpbeam.errors import ModelError
from sharpbeam.storage.atomic import replacing_files
from sharpbeam.storage.tensors import save_tensors
from sharpbeam.text.json import WORDS, read_any_json
from sharpbeam.text.lines import file_digest
from sharpbeam.types import Floats

OUTPUT = "output_sha256"  # key of the digest of the output layer
_SUFFIX = "_sha256"
_ROWS = 1024  # that are hashed together


def output_digest(weight: Floats, bias: Floats) -> str:
    """SHA-256 over the output matrix and its bias, as float32."""
    digest, matrix = hashlib.sha256(), np.ascontiguousarray(weight, np.float32)
    for first in range(0, len(matrix), _ROWS):
        rows = matrix[first : first + _ROWS]
        digest.update(rows.data)
        _core.release_pages(rows)  # all of a mapped file would fill the memory
    digest.update(np.ascontiguousarray(bias, np.float32).data)
    return digest.hexdigest()


def check_made_for(path: Path, facts: Mapping[str, Any], identity: Mapping[str, str], again: str) -> None:
    """Raise ModelError where a digest of `identity` is another one in `facts`, which `path` holds."""
    for name, digest in identity.items():
        if facts.get(name) != digest:
            what = "output weights" if name == OUTPUT else name.removesuffix(_SUFFIX).replace("_", " ")
            raise ModelError(f"{path} was fitted for other {what} than this model has. {again}")


@dataclass(frozen=True)
class Fitted:
    """The pair of files of one kind."""

    name: str
    version: int  # of the format
    command: str  # that makes it, and its options: "fit-screen", "--text FILE"
    options: str
    older: tuple[int, ...] = ()  # versions that are read too

    @property
    def tensors(self) -> str:
        """Name of the file of tensors."""
        return f"{self.name}.safetensors"

    @property
    def facts(self) -> str:
        """Name of the file of facts."""
        return f"{self.name}.json"

    @property
    def again(self) -> str:
        """Advice where the files are not sound."""
        return f"Make the {self.name} again: sharpbeam {self.command}."

    def save(
        self, folder: Path, tensors: Mapping[str, NDArray[Any]], identity: Mapping[str, str], facts: Mapping[str, Any]
    ) -> None:
        """Write both files into the model folder; `identity` holds digests of what they are fitted for, by name."""
        with replacing_files(folder, self.tensors, self.facts) as temporary:
            save_tensors(temporary / self.tensors, tensors)
            digest = {f"{self.name}{_SUFFIX}": file_digest(temporary / self.tensors)}
            record = {"format_version": self.version, **identity, **digest, **facts}
            (temporary / self.facts).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")

    def read(self, folder: Path, identity: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Facts and tensors in the model folder, checked by their digests; raises ModelError."""
        facts, path = self.read_facts(folder), folder / self.tensors
        check_made_for(folder / self.facts, facts, identity, self.again)
        if not path.is_file():
            raise ModelError(f"{path} is missing, though {self.facts} is there. {self.again}")
        try:
            if file_digest(path) != facts.get(f"{self.name}{_SUFFIX}"):
                raise ModelError(
                    f"{path} is not the file that {self.facts} belongs to: its SHA-256 differs. {self.again}"
                )
            return facts, load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise ModelError(f"{path} cannot be read as safetensors ({error}). {self.again}") from error

    def read_facts(self, folder: Path) -> dict[str, Any]:
        """The content of the file of facts; raises ModelError where there is none, or one of another version."""
        path = folder / self.facts
        if not path.exists():
            how = f"sharpbeam {self.command} {folder} {self.options}"
            raise ModelError(f"{folder} has no {self.name}; make one: {how}.")
        try:
            facts = read_any_json(path, WORDS)
        except ModelError as error:
            raise ModelError(f"{error} {self.again}") from error
        version = facts.get("format_version") if isinstance(facts, dict) else None
        if version != self.version and version not in self.older:
            raise ModelError(
                f"{path}: format_version is {version!r}; this Sharpbeam reads {self.version}. {self.again}"
            )
        return dict(facts)
