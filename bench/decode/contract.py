"""The text contract on a test set: spans and faults, case, paragraphs, numbers, plain and random lines, confidence.

`python -m bench decode.contract MODEL --text FILE`, lines of a source, a tab and its reference; for faults also
references in other languages. Spans of 20 kinds are planted between words of the sources; their share that comes out
byte for byte as often as it went in, and BLEU without them, is compared with the answers to the plain sentences. Plain
lines must have the bytes of `raw`: 10,000 of them. Random lines are of Unicode, tags, control characters and parts of
sentences; one in four has a planted span.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.decode.faults import confidence, faults, planted
from bench.flags import Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import spread
from sharpbeam import Translator
from sharpbeam.contract.lines import is_plain
from sharpbeam.report.quality import quality
from sharpbeam.text.case import titled
from sharpbeam.text.flags import lost_numbers
from sharpbeam.text.lines import read_lines
from sharpbeam.text.spelling import Spelling

PARAGRAPH, PARAGRAPHS = 5, 1000  # sentences, at equal distances
PLAIN = 10_000  # lines
RANDOM = 50_000  # lines
MADE_OF = (
    " |  |\t|<b>|</b>|<br/>|<a href='x'>|&amp;|\0|\x07|\x1b[0m|\u202e|\ufeff|😀|中文。|привет|é|“|”|(|)|`|```|..."
    "|1. |- |%|{|}|=|#"
)
FAULTS = 1000


def without(text: str, span: str) -> str:
    """The text without a span and the space around it."""
    return re.sub(r" +(?=[.,;:!?]|$)", "", re.sub("  +", " ", text.replace(span, "", 1))).strip()


def spans(translator: Translator, texts: list[str], references: list[str], count: int) -> dict[str, Any]:
    """Spans that come out, and BLEU of the answers without them next to that of the plain sentences."""
    draw = random.Random(11)
    chosen = [index % len(texts) for index in range(count)]
    pairs = [planted(texts[index], draw) for index in chosen]
    answers = [answer.text for answer in translator.translate([text for text, _ in pairs])]
    whole = [answer.count(span) == text.count(span) for answer, (text, span) in zip(answers, pairs, strict=True)]
    bare = [without(answer, span) for answer, (_, span) in zip(answers, pairs, strict=True)]
    plain = [answer.text for answer in translator.translate(texts, raw=True)]
    own = [references[index] for index in chosen]
    bleu, best = quality(bare, own).bleu, quality([plain[index] for index in chosen], own).bleu
    return {"spans": count, "whole": sum(whole), "bleu": round(bleu, 2), "bleu_plain": round(best, 2)}


def cases(translator: Translator, texts: list[str], references: list[str]) -> dict[str, Any]:
    """BLEU of text in capitals and of titles, in the case of the source, next to that of the plain sentences."""
    ways: dict[str, Callable[[str], str]] = {
        "plain": str,
        "capitals": str.upper,
        "titles": lambda text: titled(text.lower(), False, ""),
    }
    figures = {}
    for name, change in ways.items():
        answers = [answer.text for answer in translator.translate([change(text) for text in texts])]
        same: Callable[[str], str] = str.lower if name == "titles" else str.upper if name == "capitals" else str
        own = quality(list(map(same, answers)), list(map(same, references)))
        figures[f"bleu_{name}"] = round(own.bleu, 2)
    plain = [answer.text.lower() for answer in translator.translate(texts)]
    return figures | {"bleu_lower": round(quality(plain, [text.lower() for text in references]).bleu, 2)}


def paragraphs(translator: Translator, texts: list[str], references: list[str]) -> dict[str, Any]:
    """BLEU of paragraphs, next to that of their sentences one by one; and those whose answer is much shorter."""
    single = [answer.text for answer in translator.translate(texts)]
    starts = [index * (len(texts) - PARAGRAPH) // PARAGRAPHS for index in range(PARAGRAPHS)]
    joined, own, parts = (
        [" ".join(side[start : start + PARAGRAPH]) for start in starts] for side in (texts, references, single)
    )
    answers = [answer.text for answer in translator.translate(joined)]
    short = sum(len(answer) < 0.85 * len(part) for answer, part in zip(answers, parts, strict=True))
    bleu, best = quality(answers, own).bleu, quality(parts, own).bleu
    return {"paragraphs": len(joined), "bleu": round(bleu, 2), "bleu_sentences": round(best, 2), "short": short}


def random_lines(translator: Translator, texts: list[str]) -> dict[str, Any]:
    """Lines of anything: those that lost or doubled a planted span, and those of them without a flag."""
    draw, lines, spans = random.Random(31), list[str](), list[str]()
    for _ in range(RANDOM):
        parts = [draw.choice(MADE_OF.split("|")) for _ in range(draw.randint(0, 8))]
        parts += [chr(draw.choice((draw.randrange(32, 0x500), draw.randrange(0x500, 0xD800)))) for _ in range(2)]
        for _ in range(draw.randint(0, 3)):
            words = draw.choice(texts).split()
            start = draw.randrange(len(words))
            parts.append(f" {' '.join(words[start : start + draw.randint(1, 8)])} ")
        draw.shuffle(parts)
        line, span = planted("".join(parts), draw) if draw.random() < 0.25 else ("".join(parts), "")
        lines.append(line)
        spans.append(span)
    lost = unflagged = broken = 0
    for line, span, answer in zip(lines, spans, translator.translate(lines), strict=True):
        whole = not span or answer.text.count(span) == line.count(span)
        lost += not whole
        unflagged += not whole and "span" not in answer.flags
        broken += len(f"{answer.text}.".splitlines()) != len(f"{line}.".splitlines())
    return {"lines": RANDOM, "spans": sum(map(bool, spans)), "lost": lost, "unflagged": unflagged, "broken": broken}


def numbers(translator: Translator, texts: list[str]) -> dict[str, Any]:
    """Lines with a number, and those that lost one."""
    chosen = [text for text in texts if re.search(r"\d", text)]
    lost = {}
    for name, raw in (("lost", False), ("lost_raw", True)):
        answers = translator.translate(chosen, raw=raw)
        lost[name] = sum(bool(lost_numbers(answer.source, answer.text)) for answer in answers)
    return {"lines": len(chosen), **lost}


def plain_lines(translator: Translator, texts: list[str], rounds: int) -> dict[str, Any]:
    """Lines in which there is nothing to protect: those with the bytes of `raw`, and the ratio of times."""
    spelling = Spelling(lambda: translator.loaded.source)
    chosen = list(islice((text for text in texts if is_plain(text, spelling)), PLAIN))
    runs = {
        "raw": lambda: [answer.text for answer in translator.translate(chosen, raw=True)],
        "contract": lambda: [answer.text for answer in translator.translate(chosen)],
    }
    same = [0]

    def check(answers: dict[str, list[str]]) -> None:
        same[0] = sum(map(str.__eq__, answers["raw"], answers["contract"]))

    timings = interleave(runs, "raw", rounds, check, time.process_time)
    return {"lines": len(chosen), "same": same[0], **timings["contract"].ratios()}


def main(
    model: Annotated[Path, typer.Argument(help="a model folder")],
    text: Annotated[Path, typer.Option(help="sources; after tabs a reference, and others in wrong languages")],
    lines: Annotated[Path | None, typer.Option(help="more lines, for the plain ones")] = None,
    name: Annotated[str, typer.Option(help="what to call the model in the results")] = "",
    count: Annotated[int, typer.Option(help="planted spans")] = 5000,
    sentences: Sentences = 0,
    rounds: Rounds = 3,
    parts: Annotated[str, typer.Option(help="some of the parts, with commas between; default: all")] = "",
    target: Annotated[str, typer.Option(help="language of the references, which faults are not in")] = "",
) -> None:
    """Measure, print and record."""
    pairs = spread([line.split("\t") for line in read_lines(text)], sentences)
    texts, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    more = list(read_lines(lines)) if lines else []
    translator = Translator(model, threads=1)
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "spans": lambda: spans(translator, texts, references, count),
        "case": lambda: cases(translator, texts, references),
        "paragraphs": lambda: paragraphs(translator, texts, references),
        "numbers": lambda: numbers(translator, texts),
        "plain": lambda: plain_lines(translator, [*texts, *more], rounds),
        "random": lambda: random_lines(translator, texts),
        "faults": lambda: faults(translator, pairs, FAULTS, target),
        "confidence": lambda: confidence(translator, texts, references),
    }
    figures = {part: measures[part]() for part in (parts.split(",") if parts else measures)}
    options = {"model": name or model.name, "text": text.name, "sentences": len(pairs), "rounds": rounds}
    options |= {"lines": lines.name} if lines else {}
    print(json.dumps(record.write("contract", figures, threads=1, options=options)), flush=True)
