"""The choices of a decoding run. Names and meanings follow Hugging Face and CTranslate2 where those agree."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from sharpbeam.options.machine import COMPUTE_TYPES, MachineOptions
from sharpbeam.options.schema import Schema, fields_of, option, type_hints, unknown

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sharpbeam.options.keywords import DecodeKeywords

__all__ = [
    "COMPUTE_TYPES",
    "DecodeOptions",
    "LanguageOptions",
    "MachineOptions",
    "OutputLayerOptions",
    "SamplingOptions",
    "ScheduleOptions",
    "SearchOptions",
]

# Tables are as long as the longest answer, and each hypothesis takes memory: more than this is a slip of the hand.
LONGEST = 100_000  # tokens of an answer
MOST_ANSWERS = 10_000  # hypotheses of a beam, samples of a request

EarlyStopping = Literal["true", "false", "never", "proven", "exhaustive"]
Finishing = Literal["leave", "stay"]
CubePruning = Literal["none", "exact", "approximate"]
MergeBy = Literal["word", "likeness", "both"]
ScheduleName = Literal["batches", "stream", "stream-shortest", "stream-longest"]


@dataclass(frozen=True)
class SearchOptions(Schema):
    """How hypotheses are kept and ranked."""

    beam_size: int = option(
        5, "hypotheses kept at each step; 1 = greedy", ge=1, le=MOST_ANSWERS, other_names=("num_beams", "beam")
    )
    num_hypotheses: int = option(
        1,
        "answers for each request; beam search gives at most beam_size",
        ge=1,
        le=MOST_ANSWERS,
        other_names=("num_return_sequences", "n_best", "nbest"),
    )
    length_penalty: float = option(
        1.0,
        "score = log_prob / length ** length_penalty; length counts eos",
        ge=-10,
        le=10,
        other_names=("lenpen", "normalize"),
    )
    early_stopping: EarlyStopping = option(
        "false",
        "when a request is done. As in Hugging Face: true = beam_size hypotheses are finished; "
        "false = no live hypothesis is likely to win; never = none could win even at max_length. "
        "exhaustive = at max_length only; proven = as early as is sure to give the same answers as exhaustive",
        advanced=True,
    )
    patience: float = option(
        1.0,
        "true, false and never: beam_size * patience hypotheses have to be finished (Kasai et al. 2022)",
        le=1000,
        advanced=True,
    )
    stop_margin: float | None = option(
        None,
        "stop when the best live log probability is this far below the best finished one; 3.0 is usual",
        ge=0,
        advanced=True,
    )
    max_score_margin: float | None = option(
        None,
        "variable width: drop hypotheses whose log probability is this far below the best of their request",
        ge=0,
        advanced=True,
    )
    max_score_ratio: float | None = option(
        None,
        "variable width: drop hypotheses with more than this many times the negative log probability of the best",
        ge=1,
        lt=math.inf,
        advanced=True,
    )
    max_children: int | None = option(
        None, "variable width: keep at most this many continuations of one hypothesis", ge=1, advanced=True
    )
    finishing: Finishing = option(
        "leave",
        "leave: a finished hypothesis frees its slot on the beam (Hugging Face, fairseq); "
        "stay: it keeps the slot until beam_size better ones push it off",
        advanced=True,
    )
    repetition_penalty: float = option(
        1.0,
        "multiplies the log probability of every token that the hypothesis already has; 1.0 = none",
        ge=1,
        le=1000,
        advanced=True,
    )
    no_repeat_ngram_size: int = option(
        0, "no hypothesis repeats a sequence of this many tokens; 0 = no such rule", ge=0, advanced=True
    )
    coverage_penalty: float = option(
        0.0,
        "beta of GNMT: finished hypotheses that leave source tokens without attention rank lower; 0 = none. "
        "Scores contain it; needs a model with attention",
        ge=0,
        le=100,
        advanced=True,
    )
    prefix_bias_beta: float = option(
        0.0,
        "the target prefix is not forced but made likelier: while a hypothesis follows it, probabilities are (1 - "
        "beta) times the model's, and the prefix's next token gets beta more; 0 = forced",
        ge=0,
        lt=1,
        advanced=True,
    )
    return_alternatives: bool = option(
        False,
        "the answers differ at the position after the target prefix (or at the start): the num_hypotheses likeliest "
        "tokens there, each completed by itself",
        advanced=True,
    )
    min_alternative_expansion_prob: float = option(
        0.0,
        "return_alternatives: leave out tokens that are less probable, except the likeliest",
        ge=0,
        lt=1,
        advanced=True,
    )
    return_attention: bool = option(
        False,
        "return for each answer what every token attended to in the source; takes one more pass over the answers",
        advanced=True,
    )
    search: str = option(
        "beam", "how hypotheses are chosen: beam, or a search added by register_search from Python", advanced=True
    )
    sampling: bool = option(
        False,
        "draw num_hypotheses answers at random, independently, instead of beam search; beam_size is not used",
        advanced=True,
        other_names=("do_sample",),
    )
    cube_pruning: CubePruning = option(
        "none",
        "hypotheses that are alike share one prediction of the next tokens (Zhang et al. 2018). approximate: also its "
        "scores; exact: what is chosen from it is scored again, so scores are those of `score`",
        advanced=True,
    )
    merge_by: MergeBy = option(
        "word",
        "cube pruning: alike are hypotheses with the same last token (word); with hidden vectors that point the same "
        "way, which saves the output layer only (likeness); both = one after the other",
        advanced=True,
    )
    merge_threshold: float = option(
        0.95,
        "cube pruning by likeness: least cosine of hidden vectors; the higher, the closer to plain beam search",
        ge=-1,
        le=1,
        advanced=True,
    )
    min_length: int = option(
        0,
        "tokens before eos is allowed, eos not counted",
        ge=0,
        advanced=True,
        other_names=("min_new_tokens", "min_decoding_length"),
    )
    max_length: int = option(
        256,
        "tokens after which a hypothesis is ended, eos counted",
        ge=1,
        le=LONGEST,
        other_names=("max_new_tokens", "max_decoding_length"),
    )

    def check(self) -> None:
        """Raise OptionError where the options of the search do not fit together."""
        if self.sampling:
            self._check_sampling()
        self._check_answers()
        self._check_biases()
        self._check_merging()
        below = f"at least 0 and below max_length ({self.max_length})"
        self.require(self.min_length < self.max_length, "min_length", below)

    @property
    def most_rows(self) -> int:
        """How many rows a request may have at a time."""
        return self.num_hypotheses if self.sampling else self.beam_size

    @property
    def attends(self) -> bool:
        """Whether the attention of finished hypotheses is needed."""
        return self.return_attention or self.coverage_penalty > 0

    def for_coverage(self) -> SearchOptions:
        """The same search for all finished hypotheses that a coverage penalty chooses from; itself without one."""
        if not self.coverage_penalty:
            return self
        found = min(self.beam_size, round(self.beam_size * self.patience))
        return dataclasses.replace(self, num_hypotheses=max(self.num_hypotheses, found))

    def for_one_answer(self) -> SearchOptions:
        """The same search, without alternatives and for the best answer only."""
        return dataclasses.replace(
            self, num_hypotheses=1, return_alternatives=False, min_alternative_expansion_prob=0.0
        )

    def _check_answers(self) -> None:
        """Raise OptionError where there cannot be so many answers."""
        answers, single = self.num_hypotheses, self.sampling or self.return_alternatives  # each by itself
        most = MOST_ANSWERS if single else self.beam_size
        allowed = f"between 1 and {most}" if single else f"between 1 and beam_size ({most})"
        self.require(answers <= most, "num_hypotheses", allowed)
        least = (1 if single else answers) / self.beam_size
        self.require(least <= self.patience, "patience", f"between {least:.4g} and 1000")
        counts = self.patience == 1 or self.early_stopping not in ("proven", "exhaustive")
        self.require(counts, "patience", "1.0 with early_stopping proven or exhaustive, which do not count")
        lowest, alternatives = self.min_alternative_expansion_prob, self.return_alternatives
        self.require(alternatives or not lowest, "min_alternative_expansion_prob", "0 unless return_alternatives is on")

    def _check_biases(self) -> None:
        """Raise OptionError for a coverage penalty or a bias that would have no effect."""
        chooses = self.beam_size > 1 or not self.coverage_penalty
        self.require(chooses, "coverage_penalty", "0 with beam_size 1, which has no two hypotheses to choose from")
        free = not self.prefix_bias_beta or (self.cube_pruning == "none" and not self.return_alternatives)
        self.require(free, "prefix_bias_beta", "0 with cube_pruning or return_alternatives")

    def _check_merging(self) -> None:
        """Raise OptionError for an option of cube pruning without it."""
        for name, default in (("merge_by", "word"), ("merge_threshold", 0.95)):
            unchanged = self.cube_pruning != "none" or getattr(self, name) == default
            self.require(unchanged, name, f"left at {default!r} unless cube_pruning is chosen too")
        compares = self.merge_by != "word" or self.merge_threshold == 0.95
        self.require(compares, "merge_threshold", "left at 0.95 with merge_by word, which does not use it")

    def _check_sampling(self) -> None:
        """Raise OptionError for an option that sampling would ignore."""
        for name, field in fields_of(SearchOptions).items():
            unchanged = name in _FOR_SAMPLING or getattr(self, name) == field.default
            self.require(unchanged, name, f"left at {field.default!r} with sampling, which keeps no beam")


_FOR_SAMPLING = (
    "sampling",
    "beam_size",
    "num_hypotheses",
    "length_penalty",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "return_alternatives",
    "return_attention",
    "min_alternative_expansion_prob",
    "min_length",
    "max_length",
)


@dataclass(frozen=True)
class SamplingOptions(Schema):
    """The distribution that samples are drawn from: temperature first, then top_k, then top_p."""

    temperature: float = option(
        1.0,
        "log probabilities are divided by it: below 1 favours likely tokens, above 1 rare ones",
        gt=0,
        le=1000,
        advanced=True,
        other_names=("sampling_temperature",),
    )
    top_k: int = option(
        0,
        "draw from this many of the likeliest tokens; 0 = all, which is slow for large vocabularies",
        ge=0,
        advanced=True,
        other_names=("sampling_topk",),
    )
    top_p: float = option(
        1.0,
        "draw from the fewest of the likeliest tokens that have this probability together",
        gt=0,
        le=1,
        advanced=True,
        other_names=("sampling_topp",),
    )
    seed: int = option(
        0,
        "the same seed draws the same answers for a text, whatever else is in the batch",
        ge=0,
        lt=2**64,
        advanced=True,
    )


@dataclass(frozen=True)
class ScheduleOptions(Schema):
    """Which requests are decoded together, and how long one may be.

    With the native backend the answer depends on max_input_length alone, and the rest decides time and memory. With
    PyTorch other batches have other padding, which may change the last bits of a score.
    """

    schedule: ScheduleName = option(
        "batches",
        "batches: the next batch starts when the last one is done. Streams refill while they run; stream: every "
        "request takes each step; stream-shortest, stream-longest: those with fewest or most tokens so far go first",
        advanced=True,
    )
    batch_tokens: int = option(
        0,
        "batches: source tokens (longest x number) of the requests decoded together; 0 = 512, shared by the "
        "workers, or less where that would leave some of them without any",
        ge=0,
        other_names=("max_batch_size", "batch_size"),
    )
    max_rows: int = option(
        160,
        "streams: hypotheses of all requests in flight that a refill aims at, for each thread",
        ge=1,
        advanced=True,
    )
    refill_at: float = option(
        1 / 6, "streams: refill when at most this share of these hypotheses is left", ge=0, lt=1, advanced=True
    )
    max_step_rows: int | None = option(
        None,
        "streams: hypotheses run in one step; no request is split. stream-shortest without it: equal lengths only",
        ge=1,
        advanced=True,
    )
    max_wait: int | None = option(
        None,
        "streams: steps after which a waiting request goes first, the oldest before all; bounds latency",
        ge=1,
        advanced=True,
    )
    max_memory: int | None = option(
        None,
        "bytes that hypotheses, their candidates and encoded sources may take, for all threads together; an estimate "
        "that leaves out the model's weights, and counts 64 tokens for a transformer's hypothesis, as those of a beam "
        "share most of theirs: with beam_size 1 and long answers it is up to max_length / 64 times too low. A "
        "request that is too large on its own is decoded alone",
        ge=1,
        advanced=True,
    )
    max_input_length: int = option(
        1024,
        "source tokens, eos counted; longer texts are cut, with a warning. 0 = no limit",
        ge=0,
        advanced=True,
    )

    def check(self) -> None:
        """Raise OptionError where the options of the schedule do not fit together."""
        runs_all = self.schedule == "stream-longest" and self.max_step_rows is None
        self.require(not runs_all, "max_step_rows", "given for schedule stream-longest, which otherwise runs all rows")
        bounded = self.max_wait is None or self.schedule != "batches"
        self.require(bounded, "max_wait", "left out with schedule batches, which cannot promise it")


def _output_layers() -> Mapping[str, str]:
    """The summaries of output layers by name. They are registered above this package, which cannot import them."""
    found: Mapping[str, str] = import_module("sharpbeam.output_layers.registry").summaries()
    return {"auto": "what `sharpbeam tune` found, or scan", **found}


@dataclass(frozen=True)
class OutputLayerOptions(Schema):
    """The output layer: how the next tokens are found."""

    output_layer: str = option(
        "auto",
        "; ".join(f"{name}: {summary}" for name, summary in _output_layers().items()),
        choices=_output_layers,
        other_names=("projection",),
    )
    normalise: bool = option(
        True,
        "if not, the logit stands for the log probability, no softmax; for models trained with self_normalisation, and "
        "output_layer exact or scan. A model does not say how it was trained: of any other the scores mean little and "
        "the answers are worse",
        advanced=True,
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
        other_names=("tgt_lang", "target_lang"),
    )


@dataclass(frozen=True)
class DecodeOptions(Schema):
    """Search, sampling, schedule, output layer and languages of a decoding run.

    Built once, it may be passed to any number of calls: `translator.translate(texts, options=options)`.
    """

    search: SearchOptions = SearchOptions()
    sampling: SamplingOptions = SamplingOptions()
    schedule: ScheduleOptions = ScheduleOptions()
    output: OutputLayerOptions = OutputLayerOptions()
    languages: LanguageOptions = LanguageOptions()

    def check(self) -> None:
        """Raise OptionError where the groups do not fit together."""
        if not self.search.sampling:
            for name, field in fields_of(SamplingOptions).items():
                unchanged = getattr(self.sampling, name) == field.default
                self.sampling.require(unchanged, name, f"left at {field.default!r} unless sampling is chosen too")
        if not self.output.normalise:
            why = "with normalise False: logits may be above 0"
            search = self.search
            search.require(search.early_stopping != "proven", "early_stopping", f"another rule than proven {why}")
            search.require(
                search.max_score_ratio is None, "max_score_ratio", f"left out {why}; give a max_score_margin"
            )

    @classmethod
    def of(cls, **names: Unpack[DecodeKeywords]) -> DecodeOptions:
        """Options by name, the fields of all groups side by side; raises OptionError."""
        return cls().changed(**names)

    def changed(self, **names: Unpack[DecodeKeywords]) -> DecodeOptions:
        """These options with those that are named changed; raises OptionError for an unknown name or a wrong value."""
        groups: dict[str, dict[str, Any]] = {}
        for name, value in names.items():
            if name not in _groups():
                raise unknown(name, type_hints(DecodeOptions).values())
            groups.setdefault(_groups()[name], {})[name] = value
        new = {group: dataclasses.replace(getattr(self, group), **values) for group, values in groups.items()}
        return dataclasses.replace(self, **new) if new else self

    def by_name(self) -> dict[str, Any]:
        """The fields of all groups side by side, as in a record of a run."""
        return {name: value for group in dataclasses.asdict(self).values() for name, value in group.items()}


@cache
def _groups() -> Mapping[str, str]:
    """To which group of DecodeOptions an option belongs, by name."""
    return {name: group for group, options in type_hints(DecodeOptions).items() for name in fields_of(options)}
