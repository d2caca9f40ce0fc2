"""What the translator gives back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """One text with what the model thinks of it."""

    text: str
    score: float  # log_prob / length ** length_penalty, where length counts eos; higher is better
    log_prob: float  # sum of token_scores
    tokens: tuple[str, ...]  # pieces of the target vocabulary, without eos
    token_scores: tuple[float, ...]  # log probability of each token, and of eos as a last one where it was reached


EMPTY = Answer("", 0.0, 0.0, (), ())


@dataclass(frozen=True, slots=True)
class Translation:
    """The translations of one text, best first; the attributes are those of the best one."""

    source: str  # the text as it was given
    hypotheses: tuple[Answer, ...]  # at least one
    truncated: bool = False  # the text was longer than max_input_length, and its end was cut off

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        """Its log probability divided by length ** length_penalty."""
        return self.hypotheses[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        """Its pieces."""
        return self.hypotheses[0].tokens

    @property
    def token_scores(self) -> tuple[float, ...]:
        """Log probability of each piece, and of eos as a last one where it was reached."""
        return self.hypotheses[0].token_scores
