"""Loading a model by name: weights, vocabularies, output layers, checked to fit together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import resources
from pathlib import Path
from threading import RLock
from typing import Any

from sharpbeam.decoding.automatic import automatic_layer, tuned_layer
from sharpbeam.decoding.languages import Direction, LanguageTags
from sharpbeam.decoding.loop import Run
from sharpbeam.decoding.workers import Teams
from sharpbeam.errors import ModelError, OptionError, OutputError, computing, nearest
from sharpbeam.gpu.device import find_device
from sharpbeam.hub.cache import folder_of
from sharpbeam.hub.names import HUB_NAME, PAIR, REGISTRIES, name_of
from sharpbeam.models.ensemble import EnsembleModel
from sharpbeam.models.interface import Attending, Model
from sharpbeam.models.native import NativeModel
from sharpbeam.models.registry import Config, Task, architecture_of
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.decode import DecodeOptions, LanguageOptions, MachineOptions, OutputLayerOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.options.schema import require
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import Normalizing, OutputLayer, RowLayer
from sharpbeam.output_layers.registry import LayerInputs, find_output_layer, output_layers
from sharpbeam.search.beam import check_width
from sharpbeam.search.interface import Search
from sharpbeam.search.registry import find_search
from sharpbeam.search.work import Work
from sharpbeam.storage.artifacts import FolderArtifacts
from sharpbeam.storage.atomic import check_folder
from sharpbeam.storage.model_folder import FOREIGN, FolderFacts, read_facts, read_tensors
from sharpbeam.storage.records import read_precision, read_tuned
from sharpbeam.text.vocabulary import Vocabulary, read_vocabularies
from sharpbeam.types import Footprint

ModelName = str | Path | Sequence[str | Path]
"""A model folder, the name of a bundled model, or the members of an ensemble: a list, or a str with "+" between them"""
USES: dict[Task, str] = {
    "translation": "Use it with Translator, or `sharpbeam translate`.",
    "language": "Use it with Generator and Scorer, or `sharpbeam generate` and `sharpbeam score`.",
}


@dataclass(frozen=True)
class LoadedModel:
    """A model folder, or several as one ensemble, ready to use. Any number of threads may share one."""

    folders: tuple[Path, ...]  # of the members, one or more
    machine: MachineOptions
    config: Config  # of the first member
    model: Model
    exact: RowLayer  # the exact output layer
    source: Vocabulary
    target: Vocabulary
    footprint: Footprint  # memory for requests in flight
    language_tags: LanguageTags = field(default_factory=LanguageTags)
    suppressed: tuple[int, ...] = ()  # tokens that it must never produce
    max_positions: int = 0  # of a source with its tags, and of a target; 0 = no bound
    tuned: dict[str, Any] = field(default_factory=dict)  # what `sharpbeam tune` found, as `read_tuned` returns it
    gains: dict[str, float] = field(default_factory=dict)  # times that the preview is faster than a scan
    options: DecodeOptions = DecodeOptions()  # noqa: RUF009 (frozen): defaults that come with the model
    closed_work: Work = field(default_factory=Work)  # of the searches that are closed
    open_work: dict[int, Work] = field(default_factory=dict)  # of those that are not, by their id
    workers: int = field(init=False)
    """How many workers decode next to each other: those of `machine`, when the model was loaded."""
    teams: Teams = field(init=False)
    idle: dict[DecodeOptions, tuple[OutputLayer, Run]] = field(init=False, default_factory=dict)
    """Decoding runs of closed sessions, and their output layers, for the next session with these options."""
    reached: dict[OutputLayerOptions, bool] = field(init=False, default_factory=dict)
    """Whether the tuned layer has a fidelity, of those asked for so far."""
    _directions: dict[LanguageOptions, Direction] = field(init=False, default_factory=dict)  # those asked for so far
    _layers: dict[OutputLayerOptions, OutputLayer] = field(init=False, default_factory=dict)  # those built so far
    _lock: Any = field(init=False, default_factory=RLock)  # one layer may be built of another

    def __post_init__(self) -> None:
        object.__setattr__(self, "workers", self.machine.workers)
        object.__setattr__(self, "teams", Teams(self.workers if self.machine.device == "cpu" else 1))
        self._layers[OutputLayerOptions("exact")] = self.exact

    @property
    def folder(self) -> Path:
        """The folder of the model, or of the first member of an ensemble."""
        return self.folders[0]

    @cached_property
    def task(self) -> Task:
        """The task of the model: "translation" or "language"."""
        return architecture_of(self.config).task

    @property
    def vocab_size(self) -> int:
        """V, the number of target tokens."""
        return self.exact.vocab_size

    def direction(self, options: LanguageOptions) -> Direction:
        """Tokens for the languages of a request; raises OptionError for one that the model lacks, or does not get."""
        direction = self._directions.get(options)
        if direction is None:
            direction = self.language_tags.direction(options)
            self.language_tags.check_named(direction, self.source.piece)
            self._directions[options] = direction
        return direction

    @property
    def work(self) -> Work:
        """Work of all searches so far."""
        total = Work()
        with self._lock:
            for work in (self.closed_work, *self.open_work.values()):
                total.add(work)
        return total

    def begin_work(self, search: Search) -> None:
        """Let `work` have what a search does, until `end_work`."""
        with self._lock:
            self.open_work[id(search)] = search.work

    def end_work(self, search: Search) -> None:
        """Keep the counts of a search that is closed; it counts from 0 again."""
        with self._lock:
            self.closed_work.add(self.open_work.pop(id(search)))
        search.work = Work()

    @cached_property
    def artifacts(self) -> FolderArtifacts:
        """The fitted artifacts in the model's folder."""
        vocabularies = (self.source.serialized, self.target.serialized)
        return FolderArtifacts(self.folder, *self.model.output(), vocabularies, len(self.source))

    def layer_named(self, name: str, options: OutputLayerOptions | None = None) -> OutputLayer:
        """The output layer `name` with `options`, built when it is first needed.

        Raises ModelError if the model has none, OptionError if an ensemble can have none of that name.
        """
        entry = find_output_layer(name)
        options = replace(options or OutputLayerOptions(), output_layer=name, normalize=True)
        if not entry.needs:
            options = OutputLayerOptions(name)  # it has one form alone
        if len(self.folders) > 1 and entry.needs:
            allowed = " or ".join(output_layers(artifacts=()))
            raise OptionError(
                f"output_layer is {name!r}; it must be {allowed} for an ensemble: other layers are fitted to one "
                "model, and kept in its folder."
            )
        with self._lock:
            if options not in self._layers:
                with computing(ModelError, f"make the output layer {name!r} of {self.folder}"):
                    if self.machine.device == "cpu":
                        self._layers[options] = entry.build(self._layer_inputs(options))
                    else:
                        from sharpbeam.gpu.layers import build_layer

                        exact: Any = self.exact
                        self._layers[options] = build_layer(name, partial(self._layer_inputs, options), exact)
            return self._layers[options]

    def _layer_inputs(self, options: OutputLayerOptions) -> LayerInputs:
        isa = self.machine.isa
        return LayerInputs(*self.model.output(), self.artifacts, self.folder, self.layer_named, isa, options)

    def layer_name(self, options: DecodeOptions) -> str:
        """The output layer that the options name; auto is exact for the reference, else the fastest one."""
        if options.output.output_layer != "auto":
            return options.output.output_layer
        if self.machine.reference or self.machine.device != "cpu":
            return "exact"
        return automatic_layer(self, options)

    @cached_property
    def fastest(self) -> str:
        """The output layer that auto means, where `sharpbeam tune` found one and it still is what was measured."""
        return tuned_layer(self)

    def output_layer(self, options: DecodeOptions, *, log_prob: bool = True) -> OutputLayer:
        """The output layer that the options ask for; raises ModelError if the model has none.

        Without `log_prob` logits may stand for log probabilities.
        """
        name = self.layer_name(options)
        layer = self.layer_named(name, options.output)
        if isinstance(layer, Normalizing):
            return layer if log_prob and options.output.normalize else layer.unnormalized()
        require(options.output.normalize, "normalize", False, f"true with output_layer {name}")
        return layer

    def check(self, options: DecodeOptions) -> None:
        """Raise OptionError or ModelError, before any work, if the options do not fit the model."""
        search = options.search
        if self.machine.device != "cpu" and search.cube_pruning != "none":
            allowed = f"word with device {self.machine.device}, where hidden vectors stay"
            require(search.merge_by == "word", "merge_by", search.merge_by, allowed)
        if not search.sampling:
            check_width(search, self.vocab_size)
            find_search(search.search)
        most, length = self.max_positions, search.max_length
        require(not most or length <= most, "max_length", length, f"at most {most}, for which the model has positions")
        if search.attends and not self.attends:
            name = "return_attention" if search.return_attention else "coverage_penalty"
            raise OptionError(f"{name} is given; it must be left out for a model without attention to a source.")

    @cached_property
    def attends(self) -> bool:
        """Whether the model has attention to a source."""
        return isinstance(self.model.open(), Attending)


def bundled_models() -> dict[str, Path]:
    """Names and folders of the models that travel with the package, in its folder `bundled`; in a checkout `models`."""
    home = Path(str(resources.files("sharpbeam") / "bundled"))
    if not home.is_dir():
        home = Path(__file__).parents[3] / "models"
    return {config.parent.name: config.parent for config in sorted(home.glob("*/config.json"))}


def folder_to_fill(model: str | Path) -> Path:
    """As `find_model`, for a folder to write to; raises OutputError if that is impossible, or it is the package's."""
    if (folder := find_model(model)) in bundled_models().values():
        raise OutputError(f"{folder} belongs to the package and is not written to; give a copy, or tune --dry-run.")
    check_folder(folder, f"to {folder}", "a copy of the model")
    return folder


def find_model(model: str | Path) -> Path:
    """The folder of a model: a model folder, a bundled name, or a name of `sharpbeam.hub`, which is fetched once.

    Raises ModelError, and InputError for what cannot be fetched.
    """
    bundled = bundled_models()
    if not isinstance(model, (str, os.PathLike)):
        raise ModelError(f"the model is {model!r}; give a folder, or the name of a bundled model as a str.")
    if isinstance(model, str) and model in bundled and not (os.path.isdir(model) and os.listdir(model)):
        return bundled[model]
    name = name_of(model) if isinstance(model, str) and not os.path.exists(model) else None
    if name is not None:
        return folder_of(name)
    if model == "":
        raise ModelError("the name of the model is empty; give a folder, or the name of a bundled model.")
    folder = Path(model)
    if os.path.isdir(folder):  # False also for a name that is too long
        return folder if folder.name not in ("", "..") else folder.resolve()  # what is kept next to it needs a name
    if os.path.exists(folder):
        raise ModelError(f"the model {folder} is a file; pass the folder that contains it. {FOREIGN.format(folder)}")
    others = [*bundled, *(f"{registry}:{str(model).partition(':')[2]}" for registry in REGISTRIES)]
    names = ", ".join(bundled) if bundled else "none in this installation"
    hub = f" Of the Hugging Face hub it is hf:{model}." if HUB_NAME.fullmatch(str(model)) else ""
    if pair := PAIR.fullmatch(str(model)):
        names_of = f"sharpbeam models find {pair[1]} {pair[2]} lists those there are"
        hub = f" To fetch one, try firefox:{model}, bergamot:{model} or opus:{model}; {names_of}."
    raise ModelError(
        f"there is no model {str(model)!r}: no such folder, and no bundled model of that name."
        f"{nearest(str(model), others)} Bundled are: {names}.{hub}"
    )


def find_models(model: ModelName) -> tuple[Path, ...]:
    """The folders of a model, or of the members of an ensemble: a list of models, or a str with "+" between them.

    Raises ModelError.
    """
    if isinstance(model, str) and "+" in model and "://" not in model and not os.path.exists(model):
        model = model.split("+")
    if not isinstance(model, Sequence) or isinstance(model, (str, bytes)):
        return (find_model(model),)
    if not model or "" in model:
        what = "a name in the list of models" if model else "the list of models"
        raise ModelError(f"{what} is empty; give one model, or the members of an ensemble.")
    return tuple(map(find_model, model))


def task_of(folder: Path) -> Task:
    """The task of the model in `folder`, by its config.json; raises ModelError."""
    return architecture_of(read_facts(folder).config).task


def load_model(
    model: ModelName,
    machine: MachineOptions | None = None,
    task: Task | None = None,
    **keywords: Unpack[DecodeKeywords],
) -> LoadedModel:
    """Load a model, or the members of an ensemble (as `find_models`) with the same vocabularies and languages.

    `keywords` change the options that the model itself brings along. Raises OptionError for those, and ModelError where
    a folder is not a sound model, or is not for `task` (None: any).
    """
    DecodeOptions.check_values(keywords)  # before anything is read; against each other with the model's own, below
    folders, machine = find_models(model), machine or MachineOptions()
    facts = [read_facts(folder) for folder in folders]
    options = _own_options(folders[0], facts[0]).changed(**keywords)  # raises before weights are read
    tuned = read_tuned(folders[0]) if len(folders) == 1 and machine.device == "cpu" and not machine.reference else {}
    if machine.device != "cpu":
        find_device(machine.device)
        require(len(folders) == 1, "device", machine.device, "cpu for an ensemble")
        half = machine.device == "cuda" and isinstance(facts[0].config, TransformerConfig)
        machine = machine.resolved("float16" if half else "float32")
    # The type that lost nothing when each of the models was converted or trained; int8 where none was tried.
    types = {each.compute_type for folder in folders if (each := read_precision(folder)) is not None}
    measured = next((kind for kind in ("float32", "int16") if kind in types), "int8")
    machine = machine.resolved(tuned.get("compute_type") or measured)
    first, *others = members = [
        _load_member(folder, one, machine, task) for folder, one in zip(folders, facts, strict=True)
    ]
    for folder, other in zip(folders[1:], others, strict=True):
        for side in ("source", "target"):
            if getattr(first, side).serialized != getattr(other, side).serialized:
                raise ModelError(
                    f"{folders[0]} and {folder} have different {side} vocabularies; the members of an ensemble must "
                    "have the same ones, piece for piece."
                )
        if (first.language_tags, first.suppressed) != (other.language_tags, other.suppressed):
            raise ModelError(f"{folders[0]} and {folder} have different languages; they cannot be one ensemble.")
    if not others:
        loaded = replace(first, options=options, tuned=tuned)
        if machine.device == "cpu" and not machine.reference:
            loaded.gains.update(loaded.artifacts.gains())
        return loaded
    ensemble = EnsembleModel([member.model for member in members])
    most = min((m.max_positions for m in members if m.max_positions), default=0)
    footprint = Footprint(sum(m.footprint.row for m in members), sum(m.footprint.position for m in members))
    exact = ExactLayer.build(*ensemble.output(), machine.isa, deferred=True)
    return replace(
        first, folders=folders, model=ensemble, exact=exact, footprint=footprint, max_positions=most, options=options
    )


def _load_member(folder: Path, facts: FolderFacts, machine: MachineOptions, task: Task | None) -> LoadedModel:
    config = facts.config
    own_task = architecture_of(config).task
    if task is not None and own_task != task:
        raise ModelError(f"{folder} is a {own_task} model; a {task} model is needed here. {USES[own_task]}")
    source, target = checked_vocabularies(folder, config)
    model = load_weights(folder, machine, facts)
    exact = getattr(model, "exact", None) or ExactLayer.build(*model.output(), machine.isa, deferred=True)
    return LoadedModel(
        (folder,), machine, config, model, exact, source, target, config.footprint,
        language_tags=LanguageTags.of(config),
        suppressed=getattr(config, "suppressed_ids", ()),
        max_positions=getattr(config, "max_positions", 0),
        options=_own_options(folder, facts),
    )  # fmt: skip


def checked_vocabularies(folder: Path, config: Config) -> tuple[Vocabulary, Vocabulary]:
    """Source and target vocabulary; raises ModelError if they are not those of the config."""
    vocabularies = read_vocabularies(folder)
    for side, vocabulary in zip(("source", "target"), vocabularies, strict=True):
        for name, own in {f"{side}_vocab_size": len(vocabulary), **vocabulary.special_ids}.items():
            if getattr(config, name) != own:
                told = f"{getattr(config, name)} in config.json, but {own} in the {side} vocabulary"
                raise ModelError(f"{folder}: {name} is {told}; restore the vocabulary it was trained with.")
    return vocabularies


def _own_options(folder: Path, facts: FolderFacts) -> DecodeOptions:
    """The options that the model in `folder` brings along; raises ModelError where they are not sound.

    A model with fewer positions than the default max_length has tokens gets a lower one.
    """
    positions = getattr(facts.config, "max_positions", 0)
    try:
        own = DecodeOptions.of(**facts.decoding)
        return own.changed(max_length=positions) if 0 < positions < own.search.max_length else own
    except OptionError as error:
        raise ModelError(f"{folder / 'config.json'}: decoding: {error}") from None


def load_weights(folder: Path, machine: MachineOptions | None = None, facts: FolderFacts | None = None) -> Model:
    """The model in `folder` without vocabularies; `facts` are those of its config.json, if they were read already.

    Raises ModelError where the folder is not a sound model, OptionError where this machine lacks device or `isa`, and
    for options that this model cannot take.
    """
    machine, facts = (machine or MachineOptions()).resolved(), facts or read_facts(folder)
    config = facts.config
    if (load := architecture_of(config).load) is not None:
        require(machine.device == "cpu", "device", machine.device, "cpu for a model with a function of its own to load")
        own: Model = load(config, read_tensors(folder, config, facts))
        return own
    takes = machine.device == "cpu" and architecture_of(config).shortcuts
    for name, default in MachineOptions().shortcuts().items():
        value = machine.shortcuts()[name]
        require(takes or value == default, name, value, f"{default} except for GRU models on a CPU")
    count, most = machine.precomputed_embeddings, config.target_vocab_size
    require(count <= most, "precomputed_embeddings", count, f"at most {most}, the tokens that the model can say")
    tensors = read_tensors(folder, config, facts, widen=machine.device != "cpu")
    if machine.device != "cpu":
        from sharpbeam.gpu.model import DeviceModel

        return DeviceModel(config, tensors, find_device(machine.device), machine.compute_type)
    model = NativeModel(config, tensors, machine.isa, machine.compute_type, **machine.shortcuts())
    tensors.forget()  # what it packed
    return model
