"""Fitted artifacts of a model, kept in its folder: NAME.safetensors with NAME.json, replaced as a whole.

NAME.json holds the digest of NAME.safetensors, so that a crash between the two renames is seen, and digests of the
parts that it was fitted for, so that it is refused for others. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from sharpbeam import _core
from sharpbeam.errors import ModelError, OptionError, OutputError, failing
from sharpbeam.output_layers.artifact import OUTPUT, SOURCE, TARGET, Artifact, Stored
from sharpbeam.output_layers.registry import ARTIFACTS, find_artifact, find_output_layer
from sharpbeam.storage.atomic import replacing_files
from sharpbeam.storage.records import read_record
from sharpbeam.storage.tensors import Int8Matrix, save_tensors
from sharpbeam.text.lines import file_digest
from sharpbeam.types import Floats

_ROWS = 1024  # that are hashed together


def output_digest(weight: Floats | Int8Matrix, bias: Floats) -> str:
    """SHA-256 over the output matrix and its bias, as float32."""
    digest = hashlib.sha256()
    for first in range(0, weight.shape[0], _ROWS):
        part = weight[first : first + _ROWS]
        rows = np.ascontiguousarray(part.values() if isinstance(part, Int8Matrix) else part, np.float32)
        digest.update(rows.data)
        _core.release_pages(rows)  # all of a mapped file would fill the memory
    digest.update(np.ascontiguousarray(bias, np.float32).data)
    return digest.hexdigest()


class FolderArtifacts:
    """The artifacts of one model, in its folder: `output_layers.registry.Artifacts`. Digests are computed once."""

    def __init__(
        self,
        folder: Path,
        weight: Floats | Int8Matrix,
        bias: Floats,
        vocabularies: tuple[bytes, bytes] | None = None,
        sources: int = 0,
    ) -> None:
        """`vocabularies` are source and target, serialized, if the model has any; the source's has `sources` tokens."""
        self.folder, self._weight, self._bias = folder, weight, bias
        self._vocabularies, self._sources = vocabularies, sources
        self._faults: dict[str, str] = {}

    @cached_property
    def output(self) -> str:
        """The digest of the output matrix and its bias."""
        return output_digest(self._weight, self._bias)

    def read(self, name: str) -> Any:
        """The artifact `name`; raises ModelError if there is no sound one that was made for this model."""
        kind = find_artifact(name)
        identity, facts = self._identity(kind), read_facts(self.folder, kind)
        path, advice = self.folder / f"{name}.safetensors", _advice(kind, self.folder)
        for key, digest in identity.items():
            if facts.get(key) != digest:
                part = "output weights" if key == OUTPUT else key.removesuffix("_sha256").replace("_", " ")
                raise ModelError(f"{path} was fitted for other {part} than this model has. {advice}")
        try:
            path.open("rb").close()
            if file_digest(path) != facts.get(f"{name}_sha256"):
                raise ModelError(f"{path} is not the file that {name}.json belongs to: its SHA-256 differs. {advice}")
            arrays = load_file(path)
        except OSError as error:
            remedy = "Let this user read it (chmod a+r)." if isinstance(error, PermissionError) else advice
            raise ModelError(f"{path} cannot be read ({error.strerror or error}). {remedy}") from error
        except (SafetensorError, ValueError) as error:
            raise ModelError(f"{path} cannot be read as safetensors ({error}). {advice}") from error
        sizes = {"V": len(self._bias), "D": self._weight.shape[1], "S": self._sources}
        try:
            return kind.read(Stored(str(path), advice, facts, arrays, sizes))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{path} or its .json is not sound ({error!r}). {advice}") from error

    def has(self, name: str) -> bool:
        """Whether there is a sound one; the user is warned of one that is not, once."""
        kind = find_artifact(name)
        if name not in self._faults:
            usable = kind.made_for == (OUTPUT,) or self._vocabularies is not None
            self._faults[name] = self.fault(name) if usable and kind_files(self.folder, kind) else "absent"
            if self._faults[name] not in ("", "absent"):
                logging.getLogger("sharpbeam").warning("Not used: %s", self._faults[name])
        return not self._faults[name]

    def fault(self, name: str) -> str:
        """Why `read` raises ModelError; empty if it does not."""
        try:
            self.read(name)
        except ModelError as error:
            return str(error)
        return ""

    def facts(self, name: str) -> dict[str, Any]:
        """The record of the artifact: how it was fitted, and how good it is; raises ModelError."""
        return read_facts(self.folder, find_artifact(name))

    def digests(self, layer: str) -> dict[str, str]:
        """The digests of the records of the sound artifacts that an output layer reads, by name."""
        entry = find_output_layer(layer)
        return {
            name: file_digest(self.folder / f"{name}.json") for name in entry.needs + entry.can_use if self.has(name)
        }

    def gains(self) -> dict[str, float]:
        """Times that the preview was measured to be faster than a scan, by kind of search."""
        gains = self.facts("preview").get("gains") if self.has("preview") else None
        found = gains.items() if isinstance(gains, dict) else ()
        return {str(name): round(float(gain), 3) for name, gain in found if isinstance(gain, int | float)}

    @cached_property
    def directions(self) -> list[str]:
        """The directions that the preview was fitted to, as "de-en"; an old one does not say."""
        found = self.facts("preview").get("directions")
        return found if isinstance(found, list) else []

    def save(self, name: str, value: Any, facts: Mapping[str, Any]) -> None:
        """Write the artifact; `facts` are its training text and quality. Raises OutputError."""
        kind, tensors, record = find_artifact(name), f"{name}.safetensors", f"{name}.json"
        arrays, own = kind.write(value)
        place = replacing_files(self.folder, tensors, record)
        with failing(OutputError, f"write {self.folder / record}"), place as temporary:
            save_tensors(temporary / tensors, arrays)
            digest = {f"{name}_sha256": file_digest(temporary / tensors)}
            content = {"format_version": kind.version, **self._identity(kind), **digest, **_merged(own, facts)}
            (temporary / record).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        self._faults.pop(name, None)

    def _identity(self, kind: Artifact) -> dict[str, str]:
        """Digests of the parts that an artifact of this kind is made for."""
        if kind.made_for != (OUTPUT,) and self._vocabularies is None:
            raise OptionError(
                f"{self.folder} holds an output matrix without a source; a {kind.layer} is for the sources of a "
                "translation model."
            )
        identity = {}
        for key in kind.made_for:
            if key == OUTPUT:
                identity[key] = self.output
            elif key in (SOURCE, TARGET) and self._vocabularies is not None:
                identity[key] = hashlib.sha256(self._vocabularies[key == TARGET]).hexdigest()
            else:  # the digest of another artifact
                identity[key] = str(read_facts(self.folder, find_artifact(key.removesuffix("_sha256"))).get(key))
        return identity


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both together; tables that both have are merged too."""
    both = {name for name in one.keys() & other.keys() if isinstance(one[name], dict)}
    return {**one, **other, **{name: _merged(one[name], other[name]) for name in both}}


def kind_files(folder: Path, kind: Artifact) -> list[Path]:
    """The files of an artifact that are there."""
    names = (f"{kind.name}.json", f"{kind.name}.safetensors")
    return [folder / name for name in names if (folder / name).exists()]


def present_artifacts(folder: Path) -> tuple[str, ...]:
    """The names of the artifacts that have files in `folder`, sound or not."""
    return tuple(name for name in ARTIFACTS if kind_files(folder, find_artifact(name)))


def read_facts(folder: Path, kind: Artifact) -> dict[str, Any]:
    """The content of the file of facts; raises ModelError if there is none, or one of another version."""
    path, advice = folder / f"{kind.name}.json", _advice(kind, folder)
    if not path.exists():
        raise ModelError(f"{folder} has no {kind.name.replace('_', ' ')}. {advice}")
    return read_record(path, {kind.version}, advice)


def _advice(kind: Artifact, folder: Path) -> str:
    if (folder / "head.safetensors").exists() and not (folder / "config.json").exists():
        return "Make it again with sharpbeam.fit_head."
    return f"Make it with: sharpbeam fit {kind.layer} {folder} {kind.options}".rstrip() + "."
