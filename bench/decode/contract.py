"""The text contract on a test set: planted spans, capitals, titles, paragraphs, numbers, plain lines.

`python -m bench decode.contract MODEL --text FILE`, lines of a source, a tab and its reference. Spans of 20 kinds are
planted between words of the sources; their share that comes out byte for byte as often as it went in, and BLEU without
them, is compared with the answers to the plain sentences. Plain lines must have the bytes of `raw`: 10,000 of them.
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

from bench.flags import Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from sharpbeam import Translator
from sharpbeam.contract.lines import is_plain
from sharpbeam.report.quality import quality
from sharpbeam.text.case import titled
from sharpbeam.text.lines import read_lines
from sharpbeam.text.numbers import lost_numbers

SPANS = (
    *("https://ab{0}.org/x?y={1}#z", "anna.b{0}@mail-{1}.com", "@user_{0}x{1}", "#tag{0}y{1}", "/usr/lib/x{0}/y{1}.so"),
    *("report_{0}-{1}.pdf", "`f({0}, {1})`", "pip install pkg{0}=={1}", "v{0}.{1}.1", "AB-{0}-{1}X", "20{1}-0{0}-11"),
    *("#{1}f{0}{1}", "{{name{0}_{1}}}", "%({0}n{1})s", "${{v{0}_{1}}}", "<{0}{1}/>", "[{0}{1}]", ":icon{0}-{1}:"),
    *("C:\\d{0}\\e{1}.txt", "&#{0}{1};"),
)
PARAGRAPH = 5  # sentences
PLAIN = 10_000  # lines


def planted(text: str, draw: random.Random) -> tuple[str, str]:
    """A text with a span between two of its words, and the span."""
    span = draw.choice(SPANS).format(draw.randint(1, 9), draw.randint(10, 99))
    words = text.split(" ")
    place = draw.randint(1, len(words))
    if place < len(words):
        return " ".join([*words[:place], span, *words[place:]]), span
    end = len(text.rstrip(".!?\"'"))
    return f"{text[:end]} {span}{text[end:]}", span


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
    """BLEU of paragraphs, next to that of their sentences one by one."""
    starts = range(0, len(texts), PARAGRAPH)
    joined, own = ([" ".join(side[start : start + PARAGRAPH]) for start in starts] for side in (texts, references))
    answers = [answer.text for answer in translator.translate(joined)]
    single = [answer.text for answer in translator.translate(texts)]
    parts = [" ".join(single[start : start + PARAGRAPH]) for start in starts]
    short = sum(len(answer) < 0.8 * len(part) for answer, part in zip(answers, parts, strict=True))
    bleu, best = quality(answers, own).bleu, quality(parts, own).bleu
    return {"paragraphs": len(joined), "bleu": round(bleu, 2), "bleu_sentences": round(best, 2), "short": short}


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
    chosen = list(islice(filter(is_plain, texts), PLAIN))
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
    text: Annotated[Path, typer.Option(help="sources, one a line; after a tab their references")],
    lines: Annotated[Path | None, typer.Option(help="more lines, for the plain ones")] = None,
    name: Annotated[str, typer.Option(help="what to call the model in the results")] = "",
    count: Annotated[int, typer.Option(help="planted spans")] = 5000,
    sentences: Sentences = 0,
    rounds: Rounds = 3,
) -> None:
    """Measure, print and record."""
    pairs = [line.split("\t") for line in islice(read_lines(text), sentences or None)]
    texts, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    more = list(read_lines(lines)) if lines else []
    translator = Translator(model, threads=1)
    figures = {
        "spans": spans(translator, texts, references, count),
        "case": cases(translator, texts, references),
        "paragraphs": paragraphs(translator, texts, references),
        "numbers": numbers(translator, texts),
        "plain": plain_lines(translator, [*texts, *more], rounds),
    }
    options = {"model": name or model.name, "text": text.name, "sentences": len(pairs), "rounds": rounds}
    options |= {"lines": lines.name} if lines else {}
    print(json.dumps(record.write("contract", figures, threads=1, options=options)), flush=True)
