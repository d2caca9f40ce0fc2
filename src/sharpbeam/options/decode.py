"""The choices of a decoding run. Names and meanings follow Hugging Face and CTranslate2 where those agree."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from sharpbeam.errors import OptionError, nearest
from sharpbeam.options.machine import COMPUTE_TYPES, MachineOptions
from sharpbeam.options.schema import build, fields_of, option, require, type_hints

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

# Tables are as long as the longest answer, and each hypothesis takes memory: what is beyond is a slip of the hand.
LONGEST = 100_000  # tokens of an answer
MOST_ANSWERS = 10_000  # hypotheses of a beam, samples of a request


@dataclass(frozen=True)
class SearchOptions:
    """How hypotheses are kept and ranked."""

    beam_size: int = option(5, "hypotheses kept at each step; 1 = greedy")
    num_hypotheses: int = option(1, "answers for each request; a beam has at most beam_size")
    length_penalty: float = option(1.0, "score = log_prob / length ** length_penalty; length counts eos")
    early_stopping: Literal["true", "false", "never", "proven", "exhaustive"] = option(
        "false",
        "when a request is done. As in Hugging Face: true = beam_size hypotheses are finished; "
        "false = the live ones are unlikely to beat them; never = nor with max_length. "
        "exhaustive = at max_length only; proven = as early as is sure to give the same answers as exhaustive",
    )
    patience: float = option(
        1.0, "true, false and never: beam_size * patience hypotheses have to be finished (Kasai et al. 2022)"
    )
    stop_margin: float | None = option(
        None, "stop when the best live log probability is this far below the best finished one; 3.0 is usual"
    )
    max_score_margin: float | None = option(
        None, "variable width: drop what is this much less likely (log probability) than the best of its request"
    )
    max_score_ratio: float | None = option(
        None, "variable width: drop what has more than this many times the negative log probability of the best"
    )
    max_children: int | None = option(None, "variable width: keep at most this many continuations of one hypothesis")
    finishing: Literal["leave", "stay"] = option(
        "leave",
        "leave: a finished hypothesis frees its place on the beam (Hugging Face, fairseq); "
        "stay: it keeps the place until beam_size better ones push it off",
    )
    repetition_penalty: float = option(
        1.0, "multiplies the log probability of every word that the hypothesis has already; 1.0 = none"
    )
    no_repeat_ngram_size: int = option(0, "no hypothesis has so many words in a row twice; 0 = no such rule")
    coverage_penalty: float = option(
        0.0,
        "beta of GNMT: of the finished hypotheses those rank lower that left source words without attention; 0 = none. "
        "Scores contain it; needs a model with attention",
    )
    prefix_bias_beta: float = option(
        0.0,
        "the target prefix is not forced but made likelier: probabilities are (1 - beta) times the model's, and beta "
        "more for its next word, while a hypothesis follows it; 0 = forced",
    )
    return_alternatives: bool = option(
        False,
        "the answers differ at the place behind the target prefix (or at the beginning): num_hypotheses likeliest "
        "words there, each completed by itself",
    )
    min_alternative_expansion_prob: float = option(
        0.0, "return_alternatives: leave out words that are less probable, but for the likeliest"
    )
    return_attention: bool = option(
        False, "give for each answer what every token attended to in the source; takes one more pass over the answers"
    )
    sampling: bool = option(
        False, "draw num_hypotheses answers at random, each by itself, in place of beam search; beam_size is not used"
    )
    cube_pruning: Literal["none", "exact", "approximate"] = option(
        "none",
        "hypotheses that are alike share one prediction of the next words (Zhang et al. 2018). approximate: and its "
        "scores; exact: what is taken from it is scored anew, so scores are those of `score`",
    )
    merge_by: Literal["word", "likeness", "both"] = option(
        "word",
        "cube pruning: alike are hypotheses with the same last word (word); with hidden vectors that point the same "
        "way, which spares the output layer only (likeness); both = one after the other",
    )
    merge_threshold: float = option(
        0.95, "cube pruning by likeness: least cosine of hidden vectors; the higher, the closer to plain beam search"
    )
    min_length: int = option(0, "tokens before eos is allowed, eos not counted")
    max_length: int = option(256, "tokens after which a hypothesis is ended, eos counted")

    def __post_init__(self) -> None:
        require(1 <= self.beam_size <= MOST_ANSWERS, "beam_size", self.beam_size, f"between 1 and {MOST_ANSWERS}")
        if self.sampling:
            self._check_sampling()
        self._check_answers()
        require(abs(self.length_penalty) <= 10, "length_penalty", self.length_penalty, "between -10 and 10")
        allowed = ("true", "false", "never", "proven", "exhaustive")
        require(self.early_stopping in allowed, "early_stopping", self.early_stopping, " or ".join(allowed))
        require(self.stop_margin is None or self.stop_margin >= 0, "stop_margin", self.stop_margin, "0 or more")
        margin, ratio, children = self.max_score_margin, self.max_score_ratio, self.max_children
        require(margin is None or margin >= 0, "max_score_margin", margin, "0 or more")
        require(ratio is None or 1 <= ratio < math.inf, "max_score_ratio", ratio, "1 or more, and finite")
        require(children is None or children >= 1, "max_children", children, "1 or more")
        require(self.finishing in ("leave", "stay"), "finishing", self.finishing, "leave or stay")
        penalty, ngram = self.repetition_penalty, self.no_repeat_ngram_size
        require(1 <= penalty <= 1000, "repetition_penalty", penalty, "between 1 (none) and 1000")
        require(ngram >= 0, "no_repeat_ngram_size", ngram, "0 or more")
        self._check_biases()
        kinds = ("none", "exact", "approximate")
        require(self.cube_pruning in kinds, "cube_pruning", self.cube_pruning, " or ".join(kinds))
        merges = ("word", "likeness", "both")
        require(self.merge_by in merges, "merge_by", self.merge_by, " or ".join(merges))
        require(-1 <= self.merge_threshold <= 1, "merge_threshold", self.merge_threshold, "between -1 and 1")
        self._check_merging()
        require(1 <= self.max_length <= LONGEST, "max_length", self.max_length, f"between 1 and {LONGEST}")
        require(
            0 <= self.min_length < self.max_length,
            "min_length",
            self.min_length,
            f"at least 0 and below max_length ({self.max_length})",
        )

    @property
    def most_rows(self) -> int:
        """How many rows a request may have at a time."""
        return self.num_hypotheses if self.sampling else self.beam_size

    @property
    def attends(self) -> bool:
        """Whether the attention of finished hypotheses is needed."""
        return self.return_attention or self.coverage_penalty > 0

    def for_coverage(self) -> SearchOptions:
        """The same search for all finished hypotheses that a coverage penalty chooses from; as it is without one."""
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
        require(1 <= answers <= most, "num_hypotheses", answers, allowed)
        least = (1 if single else answers) / self.beam_size
        require(least <= self.patience <= 1000, "patience", self.patience, f"between {least:.4g} and 1000")
        heeded = self.patience == 1 or self.early_stopping not in ("proven", "exhaustive")
        require(heeded, "patience", self.patience, "1.0 with early_stopping proven or exhaustive, which do not count")
        lowest, alternatives = self.min_alternative_expansion_prob, self.return_alternatives
        allowed = "at least 0 and below 1, and 0 unless return_alternatives is chosen"
        require(0 <= lowest < 1 and (alternatives or not lowest), "min_alternative_expansion_prob", lowest, allowed)

    def _check_biases(self) -> None:
        """Raise OptionError for a coverage penalty or a bias that would not be heeded."""
        beta, bias = self.coverage_penalty, self.prefix_bias_beta
        require(0 <= beta <= 100, "coverage_penalty", beta, "between 0 (none) and 100")
        chooses = self.beam_size > 1 or not beta
        require(chooses, "coverage_penalty", beta, "0 with beam_size 1, which has no two hypotheses to choose from")
        require(0 <= bias < 1, "prefix_bias_beta", bias, "at least 0 (the prefix is forced) and below 1")
        free = not bias or (self.cube_pruning == "none" and not self.return_alternatives)
        require(free, "prefix_bias_beta", bias, "0 with cube_pruning or return_alternatives")

    def _check_merging(self) -> None:
        """Raise OptionError for an option of cube pruning without it."""
        for name, default in (("merge_by", "word"), ("merge_threshold", 0.95)):
            value = getattr(self, name)
            allowed = f"left at {default!r} unless cube_pruning is chosen too"
            require(self.cube_pruning != "none" or value == default, name, value, allowed)
        alike = self.merge_by != "word" or self.merge_threshold == 0.95
        require(
            alike, "merge_threshold", self.merge_threshold, "left at 0.95 with merge_by word, which does not use it"
        )

    def _check_sampling(self) -> None:
        """Raise OptionError for an option that sampling would not heed."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            allowed = f"left at {field.default!r} with sampling, which keeps no beam"
            require(field.name in _FOR_SAMPLING or value == field.default, field.name, value, allowed)


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
class SamplingOptions:
    """What answers are drawn from: log probabilities are divided by temperature, then top_k applies, then top_p."""

    temperature: float = option(1.0, "log probabilities are divided by it: below 1 likelier words, above 1 rarer ones")
    top_k: int = option(0, "draw from this many of the likeliest words; 0 = all, which is slow for large vocabularies")
    top_p: float = option(1.0, "draw from the fewest of the likeliest words that have this probability together")
    seed: int = option(0, "the same seed draws the same answers for a text, whatever else is in the batch")

    def __post_init__(self) -> None:
        require(0 < self.temperature <= 1000, "temperature", self.temperature, "above 0, and at most 1000")
        require(self.top_k >= 0, "top_k", self.top_k, "0 or more")
        require(0 < self.top_p <= 1, "top_p", self.top_p, "above 0, and at most 1")
        require(0 <= self.seed < 2**64, "seed", self.seed, "at least 0 and below 2**64")


@dataclass(frozen=True)
class ScheduleOptions:
    """Which requests are decoded together, and how long one may be.

    With the native backend the answer depends on max_input_length alone, and the rest decides time and memory. With
    PyTorch other batches have other padding, which may change the last bits of a score.
    """

    schedule: Literal["batches", "stream", "stream-shortest", "stream-longest"] = option(
        "batches",
        "batches: the next batch starts when the last one is done. Streams refill while they run; stream: every "
        "request takes each step; stream-shortest, stream-longest: those with fewest or most tokens so far go first",
    )
    batch_tokens: int = option(
        0,
        "batches: source tokens (longest x number) of the requests decoded together; 0 = 512, shared by the "
        "workers, or less where that would leave some of them without any",
    )
    max_rows: int = option(160, "streams: hypotheses of all requests in flight that a refill aims at, for each thread")
    refill_at: float = option(1 / 6, "streams: refill when at most this share of these hypotheses is left")
    max_step_rows: int | None = option(
        None, "streams: hypotheses run in one step; no request is split. stream-shortest without: equal lengths only"
    )
    max_wait: int | None = option(
        None, "streams: steps after which a request that waits goes first, the oldest before all; bounds latency"
    )
    max_memory: int | None = option(
        None,
        "bytes that hypotheses, their candidates and encoded sources may take, for all threads together; an estimate "
        "that leaves out the model's weights, and counts 64 words for a transformer's hypothesis, as those of a beam "
        "share most of theirs: with beam_size 1 and long answers it is up to max_length / 64 times too low. A "
        "request that is too large on its own is decoded alone",
    )
    max_input_length: int = option(
        1024, "source tokens, eos counted; what is beyond is cut off, and said. 0 = no limit"
    )

    def __post_init__(self) -> None:
        allowed = ("batches", "stream", "stream-shortest", "stream-longest")
        require(self.schedule in allowed, "schedule", self.schedule, " or ".join(allowed))
        require(self.max_rows >= 1, "max_rows", self.max_rows, "1 or more")
        require(0 <= self.refill_at < 1, "refill_at", self.refill_at, "at least 0 and below 1")
        rows = self.max_step_rows
        require(rows is None or rows >= 1, "max_step_rows", rows, "1 or more")
        longest = self.schedule == "stream-longest" and rows is None
        require(not longest, "max_step_rows", rows, "given for schedule stream-longest, which else runs all")
        wait, memory = self.max_wait, self.max_memory
        require(wait is None or wait >= 1, "max_wait", wait, "1 or more")
        bounded = wait is None or self.schedule != "batches"
        require(bounded, "max_wait", wait, "left out with schedule batches, which cannot promise it")
        require(memory is None or memory >= 1, "max_memory", memory, "1 or more")
        require(self.batch_tokens >= 0, "batch_tokens", self.batch_tokens, "0 (chosen for you) or more")
        require(self.max_input_length >= 0, "max_input_length", self.max_input_length, "0 (no limit) or more")


@dataclass(frozen=True)
class OutputLayerOptions:
    """The output layer: how the next words are found."""

    output_layer: Literal[
        "exact", "scan", "certified", "screen", "shortlist", "screen-and-shortlist", "screen-or-shortlist"
    ] = option(
        "exact",
        "exact: every word is scored; scan: the same words from int8 scores of all; certified: from a preview of all "
        "(the model needs one); screen: from those that the model's screen picks (see fit-screen); shortlist: from the "
        "likely translations of the source's words (see fit-shortlist); screen-and-shortlist: from those in both; "
        "screen-or-shortlist: from those in either",
    )
    normalise: bool = option(
        True,
        "if not, the logit stands for the log probability, no softmax; for models trained with self_normalisation, and "
        "output_layer exact or scan. A model does not say how it was trained: of any other the scores mean little and "
        "the answers are worse",
    )

    def __post_init__(self) -> None:
        joined = ("screen-and-shortlist", "screen-or-shortlist")
        allowed = ("exact", "scan", "certified", "screen", "shortlist", *joined)
        require(self.output_layer in allowed, "output_layer", self.output_layer, " or ".join(allowed))


@dataclass(frozen=True)
class LanguageOptions:
    """From which language into which one, for a model with several; whether it has them, the model says."""

    source_language: str = option(
        "", "code of the text's language, for a multilingual model; empty: the model's default"
    )
    target_language: str = option("", "code of the language to translate into; empty: the model's default")


@dataclass(frozen=True)
class DecodeOptions:
    """Search, schedule, output layer and languages of one decoding run."""

    search: SearchOptions = SearchOptions()
    sampling: SamplingOptions = SamplingOptions()
    schedule: ScheduleOptions = ScheduleOptions()
    output: OutputLayerOptions = OutputLayerOptions()
    languages: LanguageOptions = LanguageOptions()

    def __post_init__(self) -> None:
        if not self.search.sampling:
            for name, field in fields_of(SamplingOptions).items():
                value = getattr(self.sampling, name)
                require(value == field.default, name, value, f"left at {field.default!r} unless sampling is chosen too")
        if not self.output.normalise:
            stopping, ratio = self.search.early_stopping, self.search.max_score_ratio
            why = "with normalise False: logits may be above 0"
            require(stopping != "proven", "early_stopping", stopping, f"another rule than proven {why}")
            require(ratio is None, "max_score_ratio", ratio, f"left out {why}; give a max_score_margin")

    def by_name(self) -> dict[str, Any]:
        """The fields of all groups side by side, as `from_names` takes them."""
        return {name: value for group in dataclasses.asdict(self).values() for name, value in group.items()}

    @classmethod
    def from_names(cls, values: Mapping[str, Any]) -> DecodeOptions:
        """Options from keyword arguments: the fields of all groups side by side, early_stopping a bool if liked.

        Raises OptionError for an unknown name (with the nearest one) or a wrong type.
        """
        names = _groups()
        tables: dict[str, dict[str, Any]] = {group: {} for group in names.values()}
        for name, value in values.items():
            if name not in names:
                known = ", ".join(sorted(names))
                raise OptionError(f"unknown option {name!r}.{nearest(name, names)} Allowed are {known}.")
            tables[names[name]][name] = value
        early = tables["search"].get("early_stopping")
        if isinstance(early, bool):
            tables["search"]["early_stopping"] = str(early).lower()
        return cls(
            build(SearchOptions, tables["search"], "search options"),
            build(SamplingOptions, tables["sampling"], "sampling options"),
            build(ScheduleOptions, tables["schedule"], "schedule options"),
            build(OutputLayerOptions, tables["output"], "output_layer options"),
            build(LanguageOptions, tables["languages"], "language options"),
        )


@cache
def _groups() -> Mapping[str, str]:
    """To which group of DecodeOptions an option belongs, by name."""
    return {name: group for group, options in type_hints(DecodeOptions).items() for name in fields_of(options)}
