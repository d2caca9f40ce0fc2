"""Faults planted into translations of a test set, and how well the confidence of words holds."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam import Translator
from sharpbeam.contract.confidence import confidence as word_confidence
from sharpbeam.contract.confidence import word_log_probs
from sharpbeam.contract.words import words
from sharpbeam.decoding.results import EMPTY, Answer, answer_flags
from sharpbeam.text.spans import find_spans

SPANS = (
    *("https://ab{0}.org/x?y={1}#z", "anna.b{0}@mail-{1}.com", "@user_{0}x{1}", "#tag{0}y{1}", "/usr/lib/x{0}/y{1}.so"),
    *("report_{0}-{1}.pdf", "`f({0}, {1})`", "pip install pkg{0}=={1}", "v{0}.{1}.1", "AB-{0}-{1}X", "20{1}-0{0}-11"),
    *("#{1}f{0}{1}", "{{name{0}_{1}}}", "%({0}n{1})s", "${{v{0}_{1}}}", "<{0}{1}/>", "[{0}{1}]", ":icon{0}-{1}:"),
    *("C:\\d{0}\\e{1}.txt", "&#{0}{1};"),
)
Judged = NDArray[np.float64]  # [words, 3]: log probability, words of the answer, whether the word is right
BINS = 10  # of the calibration error, of equal width


def planted(text: str, draw: random.Random) -> tuple[str, str]:
    """A text with a span between two of its words, and the span."""
    span = draw.choice(SPANS).format(draw.randint(1, 9), draw.randint(10, 99))
    words = text.split(" ")
    place = draw.randint(1, len(words))
    if place < len(words):
        return " ".join([*words[:place], span, *words[place:]]), span
    end = len(text.rstrip(".!?\"'"))
    return f"{text[:end]} {span}{text[end:]}", span


def loop(source: str, answer: str, draw: random.Random) -> str:
    """The last one to four words again and again."""
    tokens, period = answer.split(), draw.randint(1, 4)
    return " ".join([*tokens, *(tokens[-period:] * draw.randint(4, 8))])


def partial_copy(source: str, answer: str, draw: random.Random) -> str:
    """The second half is that of the source."""
    ours, theirs = source.split(), answer.split()
    return " ".join([*theirs[: len(theirs) // 2], *ours[len(ours) // 2 :]])


def cut(source: str, answer: str, draw: random.Random) -> str:
    """Nothing, or the first third."""
    tokens = answer.split()
    return " ".join(tokens[: len(tokens) // 3]) if draw.random() < 0.5 else ""


def other_number(source: str, answer: str, draw: random.Random) -> str:
    """The first number has other digits, or is not there."""
    other = "".join(str((int(digit) + draw.randint(1, 9)) % 10) for digit in re.findall(r"\d", answer))
    digits = iter(other)
    changed = re.sub(r"\d", lambda _: next(digits), answer)
    return changed if draw.random() < 0.5 else re.sub(r"\d+(?:[.,:]\d+)*", "", answer, count=1)


SIMPLE: dict[str, Callable[[str, str, random.Random], str]] = {
    "loop": loop,
    "copy": lambda source, answer, draw: source,
    "partial copy": partial_copy,
    "cut": cut,
    "number": other_number,
}


def faults(translator: Translator, lines: Sequence[Sequence[str]], count: int, target: str) -> dict[str, Any]:
    """Planted faults of eight kinds that are flagged, and lines that are flagged without one.

    `lines` have a source, its reference, and others in wrong languages. Garbage is random words of references, with the
    scores that the model gives them.
    """
    draw, each = random.Random(29), count // 8
    texts = [line[0] for line in lines]
    answers = translator.translate(texts, return_scores=True)

    def flagged(source: str, answer: Answer) -> bool:
        return bool(answer_flags(source, answer, find_spans(source), target=target))

    def drawn(fit: Callable[[int], bool] = lambda _: True) -> list[int]:
        return draw.choices([index for index in range(len(lines)) if fit(index)], k=each)

    numbers = [all(re.search(r"\d", text) for text in (one.source, one.text)) for one in answers]
    figures: dict[str, Any] = {}
    for kind, plant in SIMPLE.items():
        chosen = drawn(numbers.__getitem__) if kind == "number" else drawn()
        pairs = [(texts[index], plant(texts[index], answers[index].text, draw)) for index in chosen]
        figures[kind] = sum(flagged(source, replace(EMPTY, text=text)) for source, text in pairs)
    figures["language"] = sum(
        flagged(texts[index], replace(EMPTY, text=draw.choice(lines[index][2:]))) for index in drawn()
    )
    pool = [word for line in lines for word in line[1].split()]
    chosen = drawn()
    salads = [" ".join(draw.choices(pool, k=max(1, len(lines[index][1].split())))) for index in chosen]
    scored = translator.score([texts[index] for index in chosen], salads)
    figures["garbage"] = sum(flagged(texts[index], answer) for index, answer in zip(chosen, scored, strict=True))
    spanned = [planted(texts[index], draw) for index in drawn()]
    whole = translator.translate([text for text, _ in spanned])
    figures["span"] = sum(
        flagged(one.source, replace(EMPTY, text=one.text.replace(span, draw.choice(["", span[:-1], f"{span} {span}"]))))
        for one, (_, span) in zip(whole, spanned, strict=True)
    )
    own = [
        {*one.flags, *answer_flags(one.source, one.hypotheses[0], find_spans(one.source), target=target)}
        for one in answers
    ]
    return {
        "each": each,
        "flagged": figures,
        "share": round(sum(figures.values()) / (8 * each), 4),
        "lines": len(lines),
        "lines_flagged": sum(map(bool, own)),
        "flags": dict(Counter(flag for flags in own for flag in sorted(flags))),
    }


def judged(translator: Translator, texts: Sequence[str], references: Sequence[str]) -> Judged:
    """Log probability of each word of the answers, words of its answer, and whether the reference has it, as often."""
    rows = list[tuple[float, int, bool]]()
    for one, reference in zip(translator.translate(texts, raw=True, return_scores=True), references, strict=True):
        left = Counter(reference[start:end].casefold() for start, end in words(reference))
        own = word_log_probs(one.hypotheses[0])
        for start, end, log_prob in own:
            form = one.text[start:end].casefold()
            rows.append((log_prob, len(own), left[form] > 0))
            left[form] -= 1
    return np.array(rows)


def calibration_error(sure: Judged, right: Judged) -> float:
    """The mean distance between probabilities and shares of right words, over bins of equal width."""
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    return sum(abs(float((sure - right)[bins == place].sum())) for place in range(BINS)) / len(sure)


def confidence(translator: Translator, texts: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """The calibration error of the confidence of words."""
    rows = judged(translator, texts, references)
    sure = np.array([word_confidence(log_prob, int(length)) for log_prob, length, _ in rows])
    figures = {"mean": sure.mean(), "right": rows[:, 2].mean(), "error": calibration_error(sure, rows[:, 2])}
    return {"words": len(sure), **{name: round(float(value), 4) for name, value in figures.items()}}
