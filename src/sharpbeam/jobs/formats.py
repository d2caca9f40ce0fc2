"""How translations are written: as text, with Pharaoh alignments, as JSON lines, or as a field of records."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from sharpbeam.contract.confidence import UNSURE, mean_confidence, word_confidences
from sharpbeam.decoding.inputs import check_texts
from sharpbeam.decoding.results import Answer, Translation
from sharpbeam.errors import InputError
from sharpbeam.options.decode import SearchOptions
from sharpbeam.options.schema import require
from sharpbeam.text.json import HALF, json_object

Format = Literal["text", "jsonl", "pharaoh"]
Render = Callable[[int, Translation], str]


def renderer(format: Format, search: SearchOptions, flags: bool = False) -> Render:
    """The function from the index of an input line, from 0, and its translation to output lines, each with its end.

    Text and Pharaoh have exactly `num_hypotheses` lines for each input line, JSON has one. With `flags` those of
    text end in a tab and the flags of the translation, which the first of its lines has, and JSON has `confidence`, the
    mean of its words', and `unsure`, the ranges of characters of those below UNSURE. Raises OptionError if the format
    cannot hold the results of the search.
    """
    holds = format != "text" or not search.return_attention
    require(holds, "format", format, "jsonl or pharaoh with return_attention, which text cannot hold")
    require(not flags or format != "pharaoh", "flags", flags, "left out with pharaoh, whose lines cannot hold them")
    if format == "jsonl":
        return partial(_as_json, unsure=flags)
    write = _text if format == "text" else lambda answer: f"{_text(answer)} ||| {_pharaoh(answer)}"
    missing = "\n" if format == "text" else " ||| \n"  # a vocabulary may be too small for that many hypotheses

    def render(index: int, translation: Translation) -> str:
        lines = [write(answer) + "\n" for answer in translation.hypotheses]
        lines += [missing] * (search.num_hypotheses - len(lines))
        if flags:
            columns = [" ".join(translation.flags), *[""] * len(lines)]
            lines = [f"{line[:-1]}\t{column}\n" for line, column in zip(lines, columns, strict=False)]
        return "".join(lines)

    return render


def _as_json(index: int, translation: Translation, unsure: bool) -> str:
    hypotheses = [answer_record(answer) for answer in translation.hypotheses]
    record: dict[str, Any] = {"index": index, "source": translation.source, "hypotheses": hypotheses}
    if flags := translation.flags:
        record["flags"] = flags
    if unsure:
        words = word_confidences(translation.hypotheses[0])
        record["confidence"] = round(mean_confidence(words), 4)
        record["unsure"] = [(word.start, word.end) for word in words if word.confidence < UNSURE]
    if translation.hypotheses[0].attention is not None:
        record["source_tokens"] = translation.source_tokens
    return json.dumps(record, ensure_ascii=False) + "\n"


def _text(answer: Answer) -> str:
    return answer.text.replace("\n", " ").replace("\r", " ")


def answer_record(answer: Answer) -> dict[str, Any]:
    """A hypothesis for JSON; shares of attention with six digits, alignment in Pharaoh form (source-target)."""
    record: dict[str, Any] = {"text": answer.text, "score": answer.score, "token_scores": answer.token_scores}
    if answer.attention is not None and answer.alignment is not None:
        record["tokens"] = answer.tokens
        record["attention"] = [[round(share, 6) for share in row] for row in answer.attention]
        record["alignment"] = _pharaoh(answer)
    return record


def _pharaoh(answer: Answer) -> str:
    """The alignment as "0-0 1-2": positions of tokens, source-target."""
    return " ".join(f"{source}-{target}" for source, target in answer.alignment or ())


@dataclass(frozen=True)
class Records:
    """Lines that are JSON objects: a field of each is translated, and `into` another one."""

    field: str
    into: str

    def text(self, number: int, line: str) -> str:
        """The text of line `number`; empty lines, and fields that are null, have none. Raises InputError."""
        record = self._record(number, line)
        text = record.get(self.field)
        if text is None and (not record or self.field in record):
            return ""
        if not isinstance(text, str):
            have = f"{type(text).__name__} there" if self.field in record else ", ".join(record)
            raise InputError(f"line {number}: the record has no text {self.field!r}; it has {have}.")
        check_texts([text], f"line {number}: {self.field}")
        return text

    def render(self, number: int, line: str, translation: Translation) -> str:
        """The record with its translation, or the list of its hypotheses, as a line."""
        if not line.strip():
            return "\n"
        texts = [answer.text for answer in translation.hypotheses]
        record, own = self._record(number, line), {self.into: texts if len(texts) > 1 else translation.text}
        as_written = record and self.into not in record  # JSON's numbers and doubled names would not stay
        result = json.dumps(own if as_written else record | own, ensure_ascii=False)
        result = json.dumps(own if as_written else record | own) if HALF.search(result) else result
        return f"{line.rstrip()[:-1].rstrip()}, {result[1:]}\n" if as_written else result + "\n"

    @staticmethod
    def _record(number: int, line: str) -> dict[str, Any]:
        return json_object(line, f"line {number}", InputError) if line.strip() else {}
