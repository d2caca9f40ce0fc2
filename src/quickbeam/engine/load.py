"""From the name of a model to its parts, checked to fit together."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from quickbeam.errors import ModelError, nearest
from quickbeam.models.architectures import Task, architecture_of
from quickbeam.models.door import Model
from quickbeam.models.folder import read_config
from quickbeam.models.load import load_model
from quickbeam.models.preview_folder import read_preview
from quickbeam.models.screen_folder import output_digest, read_screen
from quickbeam.models.shortlist_folder import read_shortlist
from quickbeam.options.decode import MachineOptions
from quickbeam.projections.certified import CertifiedProjection, Preview
from quickbeam.projections.door import Projection, RowProjection
from quickbeam.projections.exact import ExactProjection
from quickbeam.projections.joined import Join, JoinedProjection
from quickbeam.projections.scan import ScanProjection
from quickbeam.projections.screened import ScreenedProjection
from quickbeam.projections.shortlist import ShortlistProjection
from quickbeam.text.vocabulary import Vocabulary, read_vocabularies
from quickbeam.types import Footprint

USES: dict[Task, str] = {
    "translation": "Use it with Translator, or `quickbeam translate`.",
    "language": "Use it with Generator and Scorer, or `quickbeam generate` and `quickbeam score`.",
}


@dataclass(frozen=True)
class Parts:
    """A loaded model folder. All of it may be shared by threads; each decoding run opens the model for itself."""

    model: Model
    projection: RowProjection  # the exact one
    source: Vocabulary
    target: Vocabulary
    footprint: Footprint  # of what the model has in flight


def bundled_models() -> dict[str, Path]:
    """Names and folders of the models that travel with the package, in its folder `bundled`."""
    home = Path(str(resources.files("quickbeam") / "bundled"))
    if not home.is_dir():
        return {}
    return {folder.name: folder for folder in sorted(home.iterdir()) if (folder / "config.json").is_file()}


def find_model(model: str | Path) -> Path:
    """The folder of a model: a bundled name comes first, anything else is a path. Raises ModelError."""
    bundled = bundled_models()
    if not isinstance(model, (str, os.PathLike)):
        raise ModelError(f"the model is {model!r}; give a folder, or the name of a bundled model as a str.")
    if isinstance(model, str) and model in bundled:
        return bundled[model]
    folder = Path(model)
    if folder.is_dir():
        return folder if folder.name not in ("", "..") else folder.resolve()  # what is kept beside it needs a name
    names = ", ".join(bundled) if bundled else "none in this installation"
    raise ModelError(
        f"there is no model {str(model)!r}: no such folder, and no bundled model of that name."
        f"{nearest(str(model), bundled)} Bundled are: {names}."
    )


def load_parts(folder: Path, machine: MachineOptions, task: Task = "translation") -> Parts:
    """Read the model folder and check that it is for `task` and that vocabularies, weights and projection fit.

    Raises ModelError.
    """
    config = read_config(folder)
    found = architecture_of(config).task
    if found != task:
        raise ModelError(f"{folder} is a {found} model; a {task} model is needed here. {USES[found]}")
    source, target = read_vocabularies(folder)
    sides = (("source", source, config.source_vocab_size), ("target", target, config.target_vocab_size))
    for side, vocabulary, size in sides:
        if len(vocabulary) != size:
            raise ModelError(
                f"{folder}: the {side} vocabulary has {len(vocabulary)} entries, but config.json says {size}; "
                f"restore the vocabulary that the model was trained with."
            )
        for name, own in vocabulary.special_ids.items():
            if getattr(config, name) != own:
                raise ModelError(
                    f"{folder}: {name} is {getattr(config, name)} in config.json, but {own} in the {side} vocabulary; "
                    f"restore the vocabulary that the model was trained with."
                )
    model = load_model(folder, machine.backend, machine.isa)
    return Parts(model, _exact(model, machine), source, target, config.footprint)


def _exact(model: Model, machine: MachineOptions) -> RowProjection:
    """The exact output layer of the machine's backend."""
    if machine.backend == "native":
        return ExactProjection.build(*model.output(), machine.isa)
    from quickbeam.projections.torch_exact import TorchProjection  # PyTorch is an extra

    return TorchProjection(*model.output())


def load_projection(name: str, folder: Path, parts: Parts, machine: MachineOptions) -> Projection:
    """The output layer `name` for the model in `folder`, one of ProjectionOptions.

    Raises ModelError where that layer needs a screen, preview or shortlist, and the folder has no sound one.
    """
    if name == "exact":
        return parts.projection
    weight, bias = parts.model.output()
    if name == "scan":
        return ScanProjection.build(weight, bias, machine.isa)
    if name == "certified":
        preview = Preview.from_arrays(read_preview(folder, weight, bias))
        return CertifiedProjection.build(weight, bias, preview, machine.isa)
    if "shortlist" in name:
        shortlist = read_shortlist(folder, shortlist_identity(parts), len(parts.source), len(parts.target))
        if name == "shortlist":
            return ShortlistProjection(weight, bias, shortlist, machine.isa)
        join: Join = "and" if name == "screen-and-shortlist" else "or"
        return JoinedProjection(weight, bias, read_screen(folder, weight, bias), shortlist, join, machine.isa)
    screen = read_screen(folder, weight, bias)
    return ScreenedProjection.build(weight, bias, screen, ScanProjection.build(weight, bias, machine.isa), machine.isa)


def shortlist_identity(parts: Parts) -> dict[str, str]:
    """Digests of what a shortlist is made for: the output weights and both vocabularies."""
    return {
        "output_sha256": output_digest(*parts.model.output()),
        "source_vocabulary_sha256": hashlib.sha256(parts.source.serialized).hexdigest(),
        "target_vocabulary_sha256": hashlib.sha256(parts.target.serialized).hexdigest(),
    }
