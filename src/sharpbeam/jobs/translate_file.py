"""Translate whole files: lines in, translations out in the same order; an interrupted run can be resumed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sharpbeam.api.translator import Translator
from sharpbeam.decoding.results import Translation
from sharpbeam.jobs import chunks
from sharpbeam.jobs.formats import Format, Records, Render, renderer
from sharpbeam.jobs.journal import Job, job_identity
from sharpbeam.jobs.memory import peak_memory
from sharpbeam.jobs.output import OutputFile, StandardOutput
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.options.schema import choice, require
from sharpbeam.search.work import Work
from sharpbeam.text.glossary import Glossary, Terms
from sharpbeam.text.lines import DecodingErrors, TextInput, is_standard_input

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

    With `field` each line of both is a JSON object; the field `into` of the result has the translation of that field.

    The result grows in `output`.part, and becomes `output` when it is complete. With `resume` an interrupted run of the
    same job is continued: the result is the same, byte for byte (.gz, .zst: unpacked). Without one it begins, unless
    `output` is there: then nothing is done. `restart` discards an interrupted run, and replaces an `output`.

    `progress` is called with the number of lines that were just done; resuming, first with that of the interrupted run.
    Options: `Translator.translate`. Raises OptionError, InputError, OutputError or ModelError, mostly before slow work.
    """
    files = [Path(source)] if isinstance(source, (str, Path)) else [Path(path) for path in source]
    choice("format", format, Format)
    lines, terms = TextInput(files, errors, encoding), Glossary.of(glossary)
    place = StandardOutput() if output is None else OutputFile(Path(output), resume, restart, files)
    with place:
        if not isinstance(model, Translator):
            model, machine = Translator(model, machine=machine), None
        require(machine is None, "machine", machine, "left out with a Translator, which has its own")
        chosen = (options or model.defaults).changed(**keywords).changed(return_scores=format == "jsonl" or flags)
        if format == "pharaoh":
            chosen = chosen.changed(return_attention=True)
        keep = [keep] if isinstance(keep, str) else [*keep]
        how = {"target_prefix": target_prefix, "glossary": terms, "raw": raw, "keep": keep}
        plain = format == "text" and not flags
        require(plain or not field, "field", field, "left out with another format than text, and with flags")
        require(bool(field) or into == "translation", "into", into, "left out without field")
        render = renderer(format, chosen.search, flags)
        job = TranslationJob(model, chosen, how, render, Records(field, into) if field else None)
        form = {"format": format, "flags": flags, "field": field, "into": into}
        return job.run(lines, place, {"errors": errors, "encoding": lines.encoding, **form}, progress)


def count_lines(files: Sequence[Path], encoding: str = "utf-8") -> int | None:
    """The number of lines of files; None where one of them is standard input or a pipe, which is read once."""
    if not files or not all(path.is_file() and not is_standard_input(path) for path in files):
        return None
    return sum(1 for _ in TextInput(files, "replace", encoding))


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
    fallback_share: float | None = None  # of the rows that fell back to another layer, since the model was loaded
    flagged: int = 0  # translations that have flags
    flags: dict[str, int] = field(default_factory=dict)  # translations by flag
    python_step: str | None = None  # why steps ran in Python, several times slower; None if all were native

    def count(self, translation: Translation) -> None:
        """Count a text and its translation."""
        self.sentences += 1
        self.source_words += len(translation.source.split())
        self.target_words += len(translation.text.split())
        flags = translation.flags
        self.flagged += bool(flags)
        for flag in flags:
            self.flags[flag] = self.flags.get(flag, 0) + 1

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
    """Lines through a translator into an output, resuming an interrupted run."""

    translator: Translator
    options: DecodeOptions
    how: dict[str, Any]  # other arguments of `Translator.translate`
    render: Render
    records: Records | None  # None: the lines themselves are texts

    def identity(self, **others: Any) -> Job:
        """All that decides the bytes of the result, except the input; `others`: how that is read, and this written."""
        how, terms = self.how | {"keep": [*self.how["keep"]]}, self.how["glossary"]
        if terms:
            how["glossary"] = hashlib.sha256(json.dumps(sorted(terms.terms.items())).encode()).hexdigest()
        return job_identity(self.translator.loaded, self.options, **how, **others)

    def run(
        self, source: TextInput, output: StandardOutput, others: dict[str, Any], progress: Callable[[int], None] | None
    ) -> JobStats:
        """Translate what is not done yet (`others`: of `identity`); `progress` gets the number of lines just done."""
        stats, lines = JobStats(), iter(source)
        finished = output.begin(lambda: self.identity(**others))  # files read the model's digest for it
        if finished is None:
            return stats
        for line in islice(lines, finished):  # whether they are the same, `output` will tell
            output.skip(line)
        if progress is not None and finished:
            progress(finished)
        before, began, first = self.translator.work, time.perf_counter(), 0
        # If chunks may change answers, all are equally long, for the same result in every run.
        invariant = self.translator.loaded.machine.batch_invariant and self.options.batch_invariant
        fixed = 0 if invariant else chunks.CHUNK
        items = enumerate(lines, finished + 1)
        results = chunks.chunked_answers(items, self._translate, commit=output.commit, ready=source.ready, fixed=fixed)
        with chunks.without_warnings(), closing(results):  # `_warn` says it with the number of the line
            for (number, line), translation in results:
                output.write(line, self._result(number, line, translation))
                self._warn(number, translation)
                stats.count(translation)
                first = first or (number if stats.flagged else 0)
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

    def _translate(self, chunk: list[tuple[int, str]]) -> Generator[tuple[int, Translation], None, None]:
        texts = [self.records.text(number, line) if self.records else line for number, line in chunk]
        return self.translator.translate_iter(texts, options=self.options, **self.how)

    def _result(self, number: int, line: str, translation: Translation) -> str:
        if self.records:
            return self.records.render(number, line, translation)
        return self.render(number - 1, translation)

    def _warn(self, line: int, translation: Translation) -> None:
        """Name a line whose end was cut off."""
        if translation.truncated:
            log.warning("line %d is longer than max_input_length or the model allow; its end was cut off.", line)

    def _count_work(self, stats: JobStats, before: Work) -> None:
        """Add the work of the searches since `before`."""
        work = self.translator.work.since(before)
        stats.steps, stats.expansions, stats.python_step = work.steps, work.expansions, work.reason or None
        if self.options.search.cube_pruning != "none":
            stats.merging_rate = round(work.merging_rate, 4)
        layer = self.translator.output_layer(self.options)
        stats.fallback_share = layer.fallback_share
