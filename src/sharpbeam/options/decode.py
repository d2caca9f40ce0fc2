"""The choices of a decoding run. Names and meanings follow Hugging Face and CTranslate2 where those agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from sharpbeam.errors import OptionError
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.schema import (
    Schema,
    advanced_option,
    check_value,
    fields_of,
    option,
    require,
    type_hints,
    unknown,
)
from sharpbeam.options.search import SamplingOptions, SearchOptions

if TYPE_CHECKING:
    from sharpbeam.options.keywords import DecodeKeywords, Unpack

__all__ = [
    "DecodeOptions",
    "LanguageOptions",
    "MachineOptions",
    "OutputLayerOptions",
    "SamplingOptions",
    "ScheduleOptions",
    "SearchOptions",
]
ScreenSets = Literal["tested", "alone", "union"]
ScheduleName = Literal["batches", "stream", "stream-shortest", "stream-longest"]


@dataclass(frozen=True)
class ScheduleOptions(Schema):
    """Which requests are decoded together, and how long one may be.

    On a CPU the answer depends on max_input_length alone, and the rest decides time and memory. On a GPU other batches
    have other padding, which may change the last bits of a score. `max_memory` counts 64 tokens
    for a transformer's hypothesis, as those of a beam share most of theirs: with beam_size 1 and long answers it is up
    to max_length / 64 times too low. A request that is too large on its own is decoded alone.
    """

    schedule: ScheduleName = advanced_option(
        "batches",
        "batches: one after another; stream: refilled while running; stream-shortest, stream-longest: fewest or "
        "most tokens go first",
    )
    batch_tokens: int = option(
        0,
        "source tokens (longest x number) of requests decoded together; 0 = 512, or less to keep all workers busy",
        ge=0,
        other_names=("max_batch_size", "batch_size"),
    )
    max_rows: int = advanced_option(
        160, "streams: hypotheses of all requests in flight that a refill aims at, for each thread", ge=1
    )
    refill_at: float = advanced_option(
        1 / 6, "streams: refill when at most this share of these hypotheses is left", ge=0, lt=1
    )
    max_step_rows: int | None = advanced_option(
        None,
        "streams: most hypotheses in one step; no request is split. stream-shortest without it: equal lengths only",
        ge=1,
    )
    max_wait: int | None = advanced_option(
        None, "streams: steps that a request in flight may be passed over; then the oldest goes first", ge=1
    )
    max_memory: int | None = advanced_option(
        None,
        "bytes for hypotheses, candidates and encoded sources of all threads, an estimate without the weights",
        ge=1,
    )
    max_input_length: int = advanced_option(
        1024, "source tokens, eos counted; longer texts are cut, with a warning. 0 = no limit", ge=0
    )

    def check(self) -> None:
        """Raise OptionError where the options of the schedule do not fit together."""
        runs_all = self.schedule == "stream-longest" and self.max_step_rows is None
        self.require(not runs_all, "max_step_rows", "given for schedule stream-longest, which otherwise runs all rows")
        bounded = self.max_wait is None or self.schedule != "batches"
        self.require(bounded, "max_wait", "left out with schedule batches, which cannot promise it")


def _output_layers() -> Mapping[str, str]:
    """The summaries of output layers by name. They are registered above this package, which cannot import them."""
    layers: Mapping[str, str] = import_module("sharpbeam.output_layers.registry").summaries()
    return {"auto": "the choice of `sharpbeam tune`, else preview or scan, the one measured to be faster", **layers}


@dataclass(frozen=True)
class OutputLayerOptions(Schema):
    """The output layer: how the next tokens are found."""

    output_layer: str = option(
        "auto", f"how next tokens are found: {', '.join(_output_layers())}", choices=_output_layers
    )
    fidelity: float | None = advanced_option(
        None,
        "least share of rows with all tokens that matter; 1: proven; less: as it was measured for the layer",
        gt=0,
        le=1,
    )
    screen_sets: ScreenSets = advanced_option(
        "tested",
        "tokens of a screen. tested: uncertain rows fall back; alone: the row's set (L2S); union: all rows' (CVP)",
    )
    normalize: bool = advanced_option(
        True,
        "divide by the sum over the vocabulary (softmax); off, the logit stands for the log probability",
        off="take logits for log probabilities, without a softmax: only for models trained with self_normalization",
    )


@dataclass(frozen=True)
class LanguageOptions(Schema):
    """Source and target language, for a model with several; the model says whether it has them."""

    source_language: str = option(
        "",
        "code of the text's language, for a multilingual model; empty: the model's default",
        other_names=("src_lang", "source_lang"),
    )
    target_language: str = option(
        "",
        "code of the language to translate into; empty: the model's default",
        other_names=("tgt_lang", "target_lang", "forced_bos_token_id"),
    )


@dataclass(frozen=True)
class DecodeOptions(Schema):
    """Search, sampling, schedule, output layer and languages of a decoding run.

    Built once, it may be passed to any number of calls: `translator.translate(texts, options=options)`.
    """

    search: SearchOptions = SearchOptions()  # noqa: RUF009 (frozen)
    sampling: SamplingOptions = SamplingOptions()  # noqa: RUF009
    schedule: ScheduleOptions = ScheduleOptions()
    output: OutputLayerOptions = OutputLayerOptions()
    languages: LanguageOptions = LanguageOptions()

    @property
    def batch_invariant(self) -> bool:
        """Whether a text's answer is the same whatever is decoded with it: not with the union of a step's sets."""
        return self.output.screen_sets != "union"

    def check(self) -> None:
        """Raise OptionError where the groups do not fit together."""
        if not self.search.sampling:
            for name, field in fields_of(SamplingOptions).items():
                unchanged = getattr(self.sampling, name) == field.default
                self.sampling.require(unchanged, name, f"left at {field.default!r} unless sampling is chosen too")
        if not self.output.normalize:
            why = "with normalize False: logits may be above 0"
            search = self.search
            search.require(search.early_stopping != "proven", "early_stopping", f"another rule than proven {why}")
            search.require(
                search.max_score_ratio is None, "max_score_ratio", f"left out {why}; give a max_score_margin"
            )
            for name in ("prefix_bias_beta", "min_alternative_expansion_prob"):  # which are probabilities
                search.require(not getattr(search, name), name, f"0 {why}")

    def __hash__(self) -> int:
        """A hash of the options that differ most, since a hash of all takes longer than a call of the core."""
        search, languages = self.search, self.languages
        return hash((search.beam_size, search.max_length, self.output.output_layer, languages.target_language))

    @classmethod
    def of(cls, **names: Unpack[DecodeKeywords]) -> DecodeOptions:
        """Options by name, the fields of all groups side by side; raises OptionError."""
        return cls().changed(**names)

    def changed(self, **names: Unpack[DecodeKeywords]) -> DecodeOptions:
        """These options with those that are named changed; raises OptionError for an unknown name or a wrong value."""
        try:
            return _changed(self, **names) if names else self
        except TypeError:  # a value that cannot be hashed is no valid option either
            return _changed.__wrapped__(self, **names)

    @staticmethod
    def check_values(names: DecodeKeywords) -> None:
        """Raise OptionError for an unknown name, and for a value that is wrong whatever the other options are."""
        for name, value in names.items():
            if name not in _groups():
                raise _unknown(name)
            check_value(type_hints(DecodeOptions)[_groups()[name]], name, value, name)

    def by_name(self) -> dict[str, Any]:
        """The fields of all groups side by side, as in a record of a run."""
        return {name: value for group in dataclasses.asdict(self).values() for name, value in group.items()}


def given_options(options: DecodeOptions | None, default: DecodeOptions) -> DecodeOptions:
    """The options that were given, or else the `default`; raises OptionError for anything else."""
    right = options is None or isinstance(options, DecodeOptions)
    require(right, "options", options, "DecodeOptions, such as DecodeOptions.of(beam_size=1)")
    return options or default


@cache
def _groups() -> Mapping[str, str]:
    """To which group of DecodeOptions an option belongs, by name."""
    return {name: group for group, options in type_hints(DecodeOptions).items() for name in fields_of(options)}


def _unknown(name: str) -> OptionError:
    if name in fields_of(MachineOptions):
        return OptionError(f"{name} is an option of the model, where it is opened: Translator(MODEL, {name}=...).")
    if name in ("keep", "glossary", "raw"):
        return OptionError(f"{name} is for translate; a session decodes each text as it stands.")
    return unknown(name, type_hints(DecodeOptions).values())


def choice_summaries(name: str) -> Mapping[str, str]:
    """The choices of an option, each with a line on it; none for an option without such lines."""
    group = type_hints(DecodeOptions).get(_groups().get(name, ""))
    choices = group and fields_of(group)[name].metadata["choices"]
    return choices() if choices else {}


@lru_cache(maxsize=64, typed=True)  # checking options takes longer than decoding a token
def _changed(options: DecodeOptions, **names: Any) -> DecodeOptions:
    groups: dict[str, dict[str, Any]] = {}
    for name, value in names.items():
        if name not in _groups():
            raise _unknown(name)
        groups.setdefault(_groups()[name], {})[name] = value
    new = {group: dataclasses.replace(getattr(options, group), **values) for group, values in groups.items()}
    return dataclasses.replace(options, **new)
