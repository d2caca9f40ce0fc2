"""Translate whole files: lines in, translations out in the same order; an interrupted run can be resumed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sharpbeam.api.translator import Translator
from sharpbeam.decoding.results import Translation
from sharpbeam.jobs import chunks
from sharpbeam.jobs.formats import Format, renderer
from sharpbeam.jobs.journal import job_identity
from sharpbeam.jobs.memory import peak_memory
from sharpbeam.jobs.output import OutputFile, StandardOutput
from sharpbeam.jobs.records import Fields, Shard
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.options.schema import choice, require
from sharpbeam.search.work import Work
from sharpbeam.text.encodings import check_encoding
from sharpbeam.text.glossary import Glossary, Terms
from sharpbeam.text.lines import DecodingErrors, StandardInput, check_readable, is_standard_input, read_all

log = logging.getLogger("sharpbeam.jobs")

Model = str | Path | Sequence[str | Path] | Translator


def translate_file(
    model: Model,
    source: str | Path | Sequence[str | Path],
    output: str | Path | None,
    *,
    resume: bool = False,
    restart: bool = False,
    format: Format = "text",
    encoding: str = "utf-8",
    errors: DecodingErrors = "strict",
    target_prefix: str | None = None,
    glossary: Glossary | Terms | None = None,
    raw: bool = False,
    keep: Sequence[str] = (),
    flags: bool = False,
    field: str = "",
    into: str = "translation",
    shard: str = "1/1",
    progress: Callable[[int], None] | None = None,
    machine: MachineOptions | None = None,
    options: DecodeOptions | None = None,
    **keywords: Unpack[DecodeKeywords],
) -> JobStats:
    """Translate a file line by line into the file `output`, so that a kill or a crash loses some 10 seconds of work.

    `model` is a Translator, or what one is made from, with `machine`. `source` is a file of text, line by line,
    or several, one after another; .gz and .zst are packed, as `output` may be; `-`, or no file, is standard input, and
    an `output` of None standard output. Every line gives exactly `num_hypotheses` lines (format text, or pharaoh:
    text ||| 0-0 1-2) or one JSON object (jsonl), in UTF-8. Bytes that are not of the `encoding` are an InputError or,
    with errors="replace", become U+FFFD. All translations begin with `target_prefix`. `glossary`,
    `raw` and `keep` are those of `Translator.translate`. With `flags` lines of text end in a tab and the flags of the
    translation (`Translation.flags`), which jsonl has where there are any; and jsonl has `confidence` and `unsure`.

    With `field` each line of the source and of the result is a JSON object; the field `into` of the result has the
    translation of that field. `shard` "2/8" translates the second eighth of the lines; the results of all, one after
    another, are that of the whole.

    The result grows in `output`.part, and becomes `output` when it is complete. With `resume` an interrupted run of the
    same job is continued: the result is the same, byte for byte. Without one it begins, unless `output` is there: then
    nothing is done. `restart` discards an interrupted run, and replaces an `output`.

    `progress` is called with the number of lines that were just done; resuming, first with that of the interrupted run.
    Options are those of `Translator.translate`.

    Raises OptionError, InputError, OutputError or ModelError, most of them before any slow work.
    """
    files = [Path(source)] if isinstance(source, (str, Path)) else [Path(path) for path in source]
    choice("format", format, Format)
    choice("errors", errors, DecodingErrors)
    encoding = check_encoding(encoding)
    part, terms = Shard.of(shard), Glossary.of(glossary)
    require(part.count == 1 or _read_twice(files), "shard", shard, "1/1 for input from no file")
    check_readable(files)
    place = StandardOutput() if output is None else OutputFile(Path(output), resume, restart, files)
    with place:
        translator = open_translator(model, machine)
        chosen = (options or translator.defaults).changed(**keywords).changed(return_scores=format == "jsonl" or flags)
        if format == "pharaoh":
            chosen = chosen.changed(return_attention=True)
        fields = Fields(field, into)
        own = terms, encoding, raw, (*keep,), flags
        job = TranslationJob(translator, chosen, files, format, errors, target_prefix, fields, part, *own)
        return job.run(place, progress)


def count_lines(files: Sequence[Path], shard: str = "1/1", encoding: str = "utf-8") -> int | None:
    """The number of lines in a shard of files; None for standard input, whose lines are not known yet."""
    if not _read_twice(files):
        return None
    first, last = Shard.of(shard).lines(sum(1 for _ in read_all(files, "replace", encoding=encoding)))
    return last - first


def _read_twice(files: Sequence[Path]) -> bool:
    """Whether all input is in files, which can be read once more."""
    return bool(files) and all(path.is_file() and not is_standard_input(path) for path in files)


def open_translator(model: Model, machine: MachineOptions | None = None) -> Translator:
    """The Translator, loaded unless it is one; raises OptionError if it is one and `machine` is given too."""
    if not isinstance(model, Translator):
        return Translator(model, machine=machine)
    require(machine is None, "machine", machine, "left out with a Translator, which has its own")
    return model


@dataclass
class JobStats:
    """The outcome of one run of a job."""

    sentences: int = 0  # without those of an interrupted run
    source_words: int = 0  # separated by spaces
    target_words: int = 0  # of the best hypotheses
    seconds: float = 0.0  # translating and writing, without loading the model
    steps: int = 0  # of the decoder and the output layer
    expansions: int = 0  # hypotheses in all of them
    merging_rate: float | None = None  # hypotheses for each prediction of next tokens, with cube pruning
    fallback_share: float | None = None  # of the rows that fell back to another layer
    flagged: int = 0  # translations that have flags
    flags: dict[str, int] = field(default_factory=dict)  # translations by flag
    python_step: str | None = None  # why steps ran in Python, several times slower; None if all were native

    def json(self) -> str:
        """One JSON object with speeds (words are source words) and peak memory, without unknown figures."""
        rates = {
            "sentences_per_second": round(self.sentences / self.seconds, 2) if self.seconds else None,
            "words_per_second": round(self.source_words / self.seconds, 2) if self.seconds else None,
            "peak_memory_mib": round(peak_memory() / 2**20, 1),
        }
        facts = dataclasses.asdict(self) | {"seconds": round(self.seconds, 6)} | rates
        return json.dumps({name: value for name, value in facts.items() if value is not None})


@dataclass
class TranslationJob:
    """Lines of files through a translator into an output, resuming an interrupted run."""

    translator: Translator
    options: DecodeOptions
    files: Sequence[Path]
    format: Format
    errors: DecodingErrors
    target_prefix: str | None
    fields: Fields
    shard: Shard
    glossary: Glossary | None
    encoding: str
    raw: bool
    keep: tuple[str, ...]
    flags: bool

    def __post_init__(self) -> None:
        """Raises OptionError if the format cannot hold a result that the options ask for."""
        self._render = renderer(self.format, self.options.search, self.flags)

    def run(self, output: StandardOutput, progress: Callable[[int], None] | None = None) -> JobStats:
        """Translate everything that is not done yet; `progress` is called with the number of lines just done."""
        stats, stdin = JobStats(), StandardInput()
        finished = output.begin(self._identity())
        if finished is None:
            return stats
        lines = self._lines(stdin)
        for line in islice(lines, finished):  # whether they are the same, `output` will tell
            output.skip(line)
        self._number, first = finished, 0
        if progress is not None and finished:
            progress(finished)
        before = dataclasses.replace(self.translator.work)
        began = time.perf_counter()
        # If chunks may change last bits, all are equally long, for the same result in every run.
        fixed = 0 if self.translator.loaded.machine.batch_invariant else chunks.CHUNK
        results = chunks.chunked_answers(lines, self._translate, commit=output.commit, ready=stdin.ready, fixed=fixed)
        with chunks.engine_warnings(None), closing(results):  # `_warn` says it with the number of the line
            for number, (line, translation) in enumerate(results, finished + 1):
                output.write(line, self._result(number, line, translation))
                self._warn(number, translation)
                if flags := translation.flags:
                    stats.flagged += 1
                    stats.flags |= {flag: stats.flags.get(flag, 0) + 1 for flag in flags}
                    first = first or number
                stats.sentences += 1
                stats.source_words += len(line.split())
                stats.target_words += len(translation.text.split())
                if progress is not None:
                    progress(1)
        output.finish()
        if stats.flags:
            counts = ", ".join(f"{flag} {count}" for flag, count in sorted(stats.flags.items()))
            count = f"{stats.flagged} of {stats.sentences} translations have flags ({counts})"
            log.warning("%s; the first is that of line %d.", count, first)
        stats.seconds = time.perf_counter() - began
        self._count_work(stats, before)
        return stats

    def _result(self, number: int, line: str, translation: Translation) -> str:
        if self.fields.field:
            return self.fields.filled(number, line, translation)
        return self._render(number - 1, translation)

    def _translate(self, lines: list[str]) -> Generator[tuple[int, Translation], None, None]:
        if self.fields.field:
            lines = [self.fields.text(self._number + number, line) for number, line in enumerate(lines, 1)]
        self._number += len(lines)
        how: Any = {"target_prefix": self.target_prefix, "glossary": self.glossary, "options": self.options}
        return self.translator.translate_iter(lines, raw=self.raw, keep=self.keep, **how)

    def _lines(self, stdin: StandardInput | None = None) -> Iterator[str]:
        lines = read_all(self.files, self.errors, stdin, self.encoding)
        if self.shard.count == 1:
            return lines
        return islice(lines, *self.shard.lines(count_lines(self.files, encoding=self.encoding) or 0))

    def _identity(self) -> dict[str, Any]:
        others: dict[str, Any] = {"format": self.format, "errors": self.errors, "target_prefix": self.target_prefix}
        if self.fields.field or self.shard.count > 1:
            others |= dataclasses.asdict(self.fields) | {"shard": f"{self.shard.index}/{self.shard.count}"}
        if self.raw:
            others["raw"] = True
        if self.keep:
            others["keep"] = list(self.keep)
        if self.flags:
            others["flags"] = True
        if self.encoding != "utf-8":
            others["encoding"] = self.encoding
        if self.glossary is not None:
            terms = json.dumps(sorted(self.glossary.terms.items())).encode()
            others["glossary"] = hashlib.sha256(terms).hexdigest()
        return job_identity(self.translator.loaded, self.options, **others)

    def _warn(self, line: int, translation: Translation) -> None:
        """Name a line whose end was cut off."""
        if translation.truncated:
            most = self.options.schedule.max_input_length
            log.warning("line %d has more than %d tokens (max_input_length); its end was cut off.", line, most)

    def _count_work(self, stats: JobStats, before: Work) -> None:
        """Add the work of the searches since `before`."""
        work = self.translator.work.since(before)
        stats.steps, stats.expansions, stats.python_step = work.steps, work.expansions, work.reason or None
        if self.options.search.cube_pruning != "none":
            stats.merging_rate = round(work.merging_rate, 4)
        layer = self.translator.output_layer(self.options)
        stats.fallback_share = layer.fallback_share
