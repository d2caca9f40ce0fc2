"""The choices of a search and of sampling. Names follow Hugging Face and CTranslate2 where those agree."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from sharpbeam.options.schema import Schema, advanced_option, fields_of, option

# Tables are as long as the longest answer, and each hypothesis takes memory: more than this is a slip of the hand.
LONGEST = 100_000  # tokens of an answer
MOST_ANSWERS = 10_000  # hypotheses of a beam, samples of a request

EarlyStopping = Literal["true", "false", "never", "proven", "exhaustive"]
Finishing = Literal["leave", "stay"]
CubePruning = Literal["none", "exact", "approximate"]
MergeBy = Literal["word", "likeness", "both"]


@dataclass(frozen=True)
class SearchOptions(Schema):
    """How hypotheses are kept and ranked."""

    beam_size: int = option(
        5, "hypotheses kept; 1 = greedy; models may set it", ge=1, le=MOST_ANSWERS, other_names=("num_beams", "beam")
    )
    num_hypotheses: int = option(
        1,
        "answers for each request; beam search gives at most beam_size",
        ge=1,
        le=MOST_ANSWERS,
        other_names=("num_return_sequences", "n_best", "nbest"),
    )
    length_penalty: float = option(
        1.0, "score = log_prob / length ** length_penalty; length counts eos", ge=-10, le=10, other_names=("lenpen",)
    )
    early_stopping: EarlyStopping = advanced_option(
        "false",
        "when a request is done: true, false or never as in Hugging Face; proven: nothing better can come",
        internal=("exhaustive",),
    )
    patience: float = advanced_option(
        1.0, "true, false and never: beam_size * patience hypotheses have to be finished", gt=0, le=1000
    )
    stop_margin: float | None = advanced_option(
        None, "stop when the best live log probability is this far below the best finished one; 3.0 is usual", ge=0
    )
    max_score_margin: float | None = advanced_option(
        None, "variable width: drop hypotheses whose log probability is this far below the best of their request", ge=0
    )
    max_score_ratio: float | None = advanced_option(
        None,
        "variable width: drop hypotheses with more than this many times the negative log probability of the best",
        ge=1,
        lt=math.inf,
    )
    max_children: int | None = advanced_option(
        None, "variable width: keep at most this many continuations of one hypothesis", ge=1, lt=2**63
    )
    finishing: Finishing = advanced_option(
        "leave",
        "leave: a finished hypothesis frees its slot (Hugging Face); stay: it keeps it until beam_size better "
        "ones exist",
    )
    repetition_penalty: float = advanced_option(
        1.0, "makes tokens that the hypothesis already has less likely, as in Hugging Face; 1.0 = none", ge=1, le=1000
    )
    no_repeat_ngram_size: int = advanced_option(
        0, "no hypothesis repeats a sequence of this many tokens; 0 = no such rule", ge=0, le=LONGEST
    )
    forced_eos: bool = advanced_option(False, "force eos at max_length (forced_eos_token_id of Hugging Face)")
    coverage_penalty: float = advanced_option(
        0.0,
        "rank finished hypotheses lower that leave source tokens without attention (beta of GNMT); 0 = none",
        ge=0,
        le=100,
    )
    prefix_bias_beta: float = advanced_option(
        0.0,
        "bias toward the target prefix instead of forcing it: its next token gets this much probability; 0 = forced",
        ge=0,
        lt=1,
    )
    return_alternatives: bool = advanced_option(
        False,
        "answers differ after the target prefix: the num_hypotheses likeliest tokens there, each completed by itself",
    )
    min_alternative_expansion_prob: float = advanced_option(
        0.0, "return_alternatives: leave out tokens that are less probable, except the likeliest", ge=0, lt=1
    )
    return_attention: bool = advanced_option(
        False, "return for each answer what every token attended to in the source; takes one more pass"
    )
    return_scores: bool = advanced_option(
        False, "return scores of greedy search too, which then sums over all tokens; otherwise they are None"
    )
    search: str = advanced_option(
        "beam", "how hypotheses are chosen: beam, or a search added by register_search from Python"
    )
    sampling: bool = advanced_option(
        False,
        "draw num_hypotheses answers at random, independently, instead of beam search; beam_size is not used",
        other_names=("do_sample",),
    )
    cube_pruning: CubePruning = advanced_option(
        "none",
        "hypotheses that are alike share one prediction; exact: what is chosen is scored again, approximate: it is not",
    )
    merge_by: MergeBy = advanced_option(
        "word",
        "cube pruning: alike are hypotheses with the same last token (word), similar hidden vectors (likeness), both",
    )
    merge_threshold: float = advanced_option(
        0.95,
        "cube pruning by likeness: least cosine of hidden vectors; the higher, the closer to plain beam search",
        ge=-1,
        le=1,
    )
    min_length: int = advanced_option(
        0, "tokens before eos is allowed, eos not counted", ge=0, other_names=("min_new_tokens", "min_decoding_length")
    )
    max_length: int = option(
        256,
        "tokens after which a hypothesis is ended, eos counted",
        ge=1,
        le=LONGEST,
        other_names=("max_new_tokens", "max_decoding_length"),
    )
    max_length_factor: float | None = advanced_option(
        None,
        "also end a hypothesis at this many tokens for each source token, if that is below max_length",
        gt=0,
        le=LONGEST,
    )

    def check(self) -> None:
        """Raise OptionError if the options of the search do not fit together."""
        if self.sampling:
            for name, field in fields_of(SearchOptions).items():
                value = getattr(self, name)
                unchanged = name in _FOR_SAMPLING.split() or value == field.default
                own = (name, value) == ("early_stopping", "true")  # as models may have it
                self.require(unchanged or own, name, f"left at {field.default!r} with sampling, which keeps no beam")
        answers, single = self.num_hypotheses, self.sampling or self.return_alternatives  # each by itself
        most = MOST_ANSWERS if single else self.beam_size
        allowed = f"between 1 and {most}" if single else f"between 1 and beam_size ({most})"
        self.require(answers <= most, "num_hypotheses", allowed)
        least = (1 if single else answers) / self.beam_size
        self.require(least <= self.patience, "patience", f"between {least:.4g} and 1000")
        counts = self.patience == 1 or self.early_stopping not in ("proven", "exhaustive")
        self.require(counts, "patience", "1.0 with early_stopping proven, which does not count")
        lowest, alternatives = self.min_alternative_expansion_prob, self.return_alternatives
        self.require(alternatives or not lowest, "min_alternative_expansion_prob", "0 unless return_alternatives is on")
        self.require(self.beam_size > 1 or not self.coverage_penalty, "coverage_penalty", "0 with beam_size 1")
        free = not self.prefix_bias_beta or (self.cube_pruning == "none" and not self.return_alternatives)
        self.require(free, "prefix_bias_beta", "0 with cube_pruning or return_alternatives")
        for name, default in (("merge_by", "word"), ("merge_threshold", 0.95)):
            unchanged = self.cube_pruning != "none" or getattr(self, name) == default
            self.require(unchanged, name, f"left at {default!r} unless cube_pruning is chosen too")
        compares = self.merge_by != "word" or self.merge_threshold == 0.95
        self.require(compares, "merge_threshold", "left at 0.95 with merge_by word, which does not use it")
        self.require(self.min_length <= self.max_length, "min_length", f"between 0 and max_length ({self.max_length})")

    @property
    def most_rows(self) -> int:
        """How many rows a request may have at a time."""
        return self.num_hypotheses if self.sampling else self.beam_size

    @property
    def attends(self) -> bool:
        """Whether the attention of finished hypotheses is needed."""
        return self.return_attention or self.coverage_penalty > 0

    @property
    def needs_log_prob(self) -> bool:
        """Whether log probabilities matter: greedy search without scores needs the best token only."""
        kinds = self.search != "beam" or self.sampling or self.cube_pruning != "none" or self.return_alternatives
        compared = self.beam_size > 1 or self.early_stopping == "proven" or self.max_score_ratio is not None
        return kinds or compared or self.return_scores or self.attends or self.prefix_bias_beta > 0

    @property
    def settles(self) -> bool:
        """Whether scores may be estimates, of which close ones are settled: `BeamSearch` in csrc/search/beam.cpp."""
        limits = self.stop_margin, self.max_score_margin, self.max_score_ratio
        adds = self.repetition_penalty > 1 or self.prefix_bias_beta > 0 or self.cube_pruning != "none"
        return not adds and self.finishing == "leave" and limits == (None, None, None)

    def for_coverage(self) -> SearchOptions:
        """The same search for all finished hypotheses that a coverage penalty chooses from; itself without one."""
        if not self.coverage_penalty:
            return self
        finished = min(self.beam_size, round(self.beam_size * self.patience))
        answers, patience = max(self.num_hypotheses, finished), max(self.patience, finished / self.beam_size)
        return dataclasses.replace(self, num_hypotheses=answers, patience=patience, return_scores=True)

    def for_one_answer(self) -> SearchOptions:
        """The same search, without alternatives and for the best answer only."""
        return dataclasses.replace(
            self, num_hypotheses=1, return_alternatives=False, min_alternative_expansion_prob=0.0
        )


_FOR_SAMPLING = (
    "sampling beam_size num_hypotheses length_penalty repetition_penalty no_repeat_ngram_size forced_eos "
    "return_alternatives return_attention return_scores min_alternative_expansion_prob min_length max_length "
    "max_length_factor"
)


@dataclass(frozen=True)
class SamplingOptions(Schema):
    """The distribution that samples are drawn from: temperature first, then top_k, then top_p."""

    temperature: float = advanced_option(
        1.0, "log probabilities are divided by it: below 1 favors likely tokens, above 1 rare ones",
        gt=0, le=1000, other_names=("sampling_temperature",),
    )  # fmt: skip
    top_k: int = advanced_option(
        0, "draw from this many of the likeliest tokens; 0 = all, which is slow for large vocabularies",
        ge=0, lt=2**63, other_names=("sampling_topk",),
    )  # fmt: skip
    top_p: float = advanced_option(
        1.0, "draw from the fewest of the likeliest tokens that have this probability together",
        gt=0, le=1, other_names=("sampling_topp",),
    )  # fmt: skip
    seed: int = advanced_option(
        0, "the same seed draws the same answers for a text, whatever else is in the batch", ge=0, lt=2**64
    )
