"""From the name of a model to its parts, checked to fit together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from sharpbeam.decoding.backend import load_model
from sharpbeam.decoding.languages import LanguageTags
from sharpbeam.decoding.layers import build_row_layer, exact_layer, screened_layer
from sharpbeam.errors import ModelError, nearest
from sharpbeam.models.ensemble import EnsembleModel, sum_of
from sharpbeam.models.interface import Model
from sharpbeam.models.registry import Config, Task, architecture_of
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.decode import MachineOptions
from sharpbeam.output_layers.by_language import for_screens
from sharpbeam.output_layers.interface import OutputLayer, RowLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.shortlist import Join, JoinedLayer, ShortlistLayer
from sharpbeam.storage.model_folder import FOREIGN, read_config
from sharpbeam.storage.screens import read_screens
from sharpbeam.storage.shortlists import read_shortlist
from sharpbeam.storage.shortlists import shortlist_identity as identity_of_shortlist
from sharpbeam.text.vocabulary import Vocabulary, read_vocabularies
from sharpbeam.types import Footprint

USES: dict[Task, str] = {
    "translation": "Use it with Translator, or `sharpbeam translate`.",
    "language": "Use it with Generator and Scorer, or `sharpbeam generate` and `sharpbeam score`.",
}


@dataclass(frozen=True)
class Parts:
    """A loaded model folder, or several as one. Threads may share all of it; each run opens the model for itself."""

    model: Model
    output_layer: RowLayer  # the exact one
    source: Vocabulary
    target: Vocabulary
    footprint: Footprint  # of what the model has in flight
    language_tags: LanguageTags = field(default_factory=LanguageTags)
    suppressed: tuple[int, ...] = ()  # words that it must never produce
    max_positions: int = 0  # of a source with its tags, and of a target; 0 = no bound


def bundled_models() -> dict[str, Path]:
    """Names and folders of the models that travel with the package, in its folder `bundled`; in a checkout `models`."""
    home = Path(str(resources.files("sharpbeam") / "bundled"))
    if not home.is_dir():
        home = Path(__file__).parents[3] / "models"
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
    if model == "":
        raise ModelError("the name of the model is empty; give a folder, or the name of a bundled model.")
    folder = Path(model)
    if folder.is_dir():
        return folder if folder.name not in ("", "..") else folder.resolve()  # what is kept beside it needs a name
    if folder.exists():
        raise ModelError(f"the model {folder} is no folder; give the one that it lies in. {FOREIGN.format(folder)}")
    names = ", ".join(bundled) if bundled else "none in this installation"
    hub = " One of the Hugging Face hub is converted first: sharpbeam convert." if str(model).count("/") == 1 else ""
    raise ModelError(
        f"there is no model {str(model)!r}: no such folder, and no bundled model of that name."
        f"{nearest(str(model), bundled)} Bundled are: {names}.{hub}"
    )


def find_models(model: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """The folders of a model, or of the members of an ensemble: a list of models, or a str with "+" between them.

    Raises ModelError.
    """
    if isinstance(model, str) and "+" in model and not Path(model).exists():
        model = model.split("+")
    if not isinstance(model, Sequence) or isinstance(model, str):
        return (find_model(model),)
    if not model or "" in model:
        what = "a name in the list of models" if model else "the list of models"
        raise ModelError(f"{what} is empty; give one model, or the members of an ensemble.")
    return tuple(map(find_model, model))


def load_parts(folder: Path, machine: MachineOptions, task: Task = "translation") -> Parts:
    """Read the model folder and check that it is for `task` and that vocabularies, weights and output layer fit.

    Raises ModelError.
    """
    return _parts(_load_member(folder, machine, task), machine)


def load_ensemble(folders: Sequence[Path], machine: MachineOptions, task: Task = "translation") -> Parts:
    """The models in `folders`, one or more, as one; ModelError unless they have the same vocabularies."""
    if len(folders) == 1:
        return load_parts(folders[0], machine, task)
    first, *others = members = [_load_member(folder, machine, task) for folder in folders]
    for folder, other in zip(folders[1:], others, strict=True):
        for side in ("source", "target"):
            if getattr(first, side).serialized != getattr(other, side).serialized:
                raise ModelError(
                    f"{folders[0]} and {folder} have different {side} vocabularies; the members of an ensemble must "
                    "have the same ones, piece for piece."
                )
        if LanguageTags.of(first.config) != LanguageTags.of(other.config) or _suppressed(first) != _suppressed(other):
            raise ModelError(f"{folders[0]} and {folder} have different languages; they cannot be one ensemble.")
    model = EnsembleModel([member.model for member in members])
    return replace(
        _parts(first, machine),
        model=model,
        output_layer=exact_layer(*model.output(), machine.backend, machine.isa),
        footprint=sum_of([member.config.footprint for member in members]),
        max_positions=_max_positions(members),
    )


def _parts(member: _Member, machine: MachineOptions) -> Parts:
    config, exact = member.config, exact_layer(*member.model.output(), machine.backend, machine.isa)
    language_tags, suppressed, most = LanguageTags.of(config), _suppressed(member), _max_positions([member])
    return Parts(member.model, exact, member.source, member.target, config.footprint, language_tags, suppressed, most)


def _max_positions(members: Sequence[_Member]) -> int:
    configs = [member.config for member in members]
    bounds = [c.max_positions for c in configs if isinstance(c, TransformerConfig) and c.max_positions]
    return min(bounds, default=0)


def _suppressed(member: _Member) -> tuple[int, ...]:
    return member.config.suppressed_ids if isinstance(member.config, TransformerConfig) else ()


@dataclass(frozen=True)
class _Member:
    """A loaded model folder, without an output layer."""

    model: Model
    source: Vocabulary
    target: Vocabulary
    config: Config


def _load_member(folder: Path, machine: MachineOptions, task: Task) -> _Member:
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
    model = load_model(folder, machine.backend, machine.isa, machine.compute_type, **machine.shortcuts())
    return _Member(model, source, target, config)


def load_output_layer(
    name: str, folder: Path, parts: Parts, machine: MachineOptions, layers: dict[str, OutputLayer]
) -> OutputLayer:
    """The output layer `name` for the model in `folder`, one of OutputLayerOptions; `layers` keeps those there are.

    What one layer needs of another is not built twice. Raises ModelError where that layer needs a screen, preview or
    shortlist, and the folder has no sound one.
    """
    if name not in layers:
        layers[name] = _build(name, folder, parts, machine, layers)
    return layers[name]


def _build(
    name: str, folder: Path, parts: Parts, machine: MachineOptions, layers: dict[str, OutputLayer]
) -> OutputLayer:
    if name == "exact":
        return parts.output_layer
    weight, bias = parts.model.output()
    if "shortlist" in name:
        shortlist = read_shortlist(folder, shortlist_identity(parts), len(parts.source), len(parts.target))
        if name == "shortlist":
            return ShortlistLayer(weight, bias, shortlist, machine.isa)
        join: Join = "and" if name == "screen-and-shortlist" else "or"
        return for_screens(
            read_screens(folder, weight, bias),
            lambda screen: JoinedLayer(weight, bias, screen, shortlist, join, machine.isa),
        )
    if name != "screen":
        return build_row_layer(name, folder, weight, bias, machine.isa)

    def scan() -> ScanLayer:
        layer = load_output_layer("scan", folder, parts, machine, layers)
        assert isinstance(layer, ScanLayer)
        return layer

    return for_screens(
        read_screens(folder, weight, bias), lambda screen: screened_layer(weight, bias, screen, scan, machine.isa)
    )


def shortlist_identity(parts: Parts) -> dict[str, str]:
    """Digests of what a shortlist of the model is made for."""
    return identity_of_shortlist(*parts.model.output(), parts.source.serialized, parts.target.serialized)
