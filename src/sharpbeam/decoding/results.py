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
    # [T][S]: for each of token_scores what it attended to, a share for each source token and a last one for eos and the
    # tags of languages; they sum to 1. None unless return_attention was chosen.
    attention: tuple[tuple[float, ...], ...] | None = None

    @property
    def alignment(self) -> tuple[tuple[int, int], ...] | None:
        """(place of the source token, place of the token) for each token, the source token with the largest share.

        The first one on ties. Tokens that attend to the source's eos and tags more than to any one of its tokens stand
        for no word and are left out.
        """
        if self.attention is None:
            return None
        rows = self.attention[: len(self.tokens)]
        best = [(max(range(len(row)), key=row.__getitem__), place) for place, row in enumerate(rows)]
        return tuple((source, place) for source, place in best if source < len(rows[place]) - 1)


EMPTY = Answer("", 0.0, 0.0, (), ())


@dataclass(frozen=True, slots=True)
class Translation:
    """The translations of one text, best first; the attributes are those of the best one."""

    source: str  # the text as it was given
    hypotheses: tuple[Answer, ...]  # at least one
    truncated: bool = False  # the text was longer than max_input_length, and its end was cut off
    source_tokens: tuple[str, ...] = ()  # pieces of the source, no eos or tags; with return_attention only

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

    @property
    def attention(self) -> tuple[tuple[float, ...], ...] | None:
        """What each of token_scores attended to, T rows of S shares; None unless return_attention was chosen."""
        return self.hypotheses[0].attention

    @property
    def alignment(self) -> tuple[tuple[int, int], ...] | None:
        """Places of tokens that belong together, (source, target); None unless return_attention was chosen."""
        return self.hypotheses[0].alignment
