"""A translation job: chunks of lines through a translator into an output, from where an interrupted run stopped."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharpbeam.jobs.journal import Job, Output
from sharpbeam.jobs.memory import peak_memory
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.jobs.warnings import engine_warnings
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.storage.model_folder import WEIGHTS, read_facts
from sharpbeam.text.lines import DecodingErrors, is_standard_input, read_all
from sharpbeam.version import program_version

if TYPE_CHECKING:
    from sharpbeam.api.translator import Answer, Translation

CHUNK = 512  # lines that are read, translated and written together, at most: bounds memory, and what a kill can cost
CHUNK_SECONDS = 10.0  # that a chunk should take, at most: what a kill can cost where models are slow
FIRST_CHUNK = 16  # lines: nobody knows yet how long they take
GROWTH = 4  # of a chunk to the next: lines may become longer


def next_chunk(lines: int, seconds: float) -> int:
    """How many lines to take together after a chunk of `lines`, 1 or more, that took `seconds`, above 0."""
    return int(max(1, min(CHUNK, GROWTH * lines, lines * CHUNK_SECONDS / seconds)))


@dataclass
class Count:
    """What one run did."""

    sentences: int = 0
    source_words: int = 0  # separated by spaces
    target_words: int = 0  # of the best hypotheses
    seconds: float = 0.0  # translating and writing, without loading the model
    steps: int = 0  # runs of the decoder and the output layer
    expansions: int = 0  # hypotheses in all of them
    merging_rate: float | None = None  # hypotheses for each one that next words were predicted for, with cube pruning
    fallback_share: float | None = None  # of the rows that a screen had to pass on to the exact layer
    python_step: str | None = None  # why steps ran in Python, several times slower; None where all were native

    def stats(self) -> str:
        """One JSON object with speeds (words are source words) and peak memory; what is not known is left out."""
        rates = {
            "sentences_per_second": round(self.sentences / self.seconds, 2) if self.seconds else None,
            "words_per_second": round(self.source_words / self.seconds, 2) if self.seconds else None,
            "peak_memory_mib": round(peak_memory() / 2**20, 1),
        }
        facts = dataclasses.asdict(self) | {"seconds": round(self.seconds, 6)} | rates
        return json.dumps({name: value for name, value in facts.items() if value is not None})


@dataclass(frozen=True)
class TranslationJob:
    """What is to be translated, and how."""

    model: str
    files: Sequence[Path]  # none = standard input
    format: str  # text, jsonl or pharaoh
    errors: DecodingErrors
    target_prefix: str | None  # of every line
    choices: DecodeOptions
    machine: MachineOptions

    def run(self, output: Output) -> Count:
        """Translate everything that is not done yet."""
        from sharpbeam.api.translator import Translator
        from sharpbeam.decoding.loading import find_models

        identity = self._identity(find_models(self.model))
        whole, said = output.compare(identity, read_all(self.files, self.errors) if self._read_twice() else None)
        if said:
            print(f"sharpbeam: {said}", file=sys.stderr)
        if whole:
            return Count()
        translator = Translator(self.model, machine=self.machine)
        options = self.choices.by_name()
        done = output.begin(identity)
        count, number = Count(), done
        lines = read_all(self.files, self.errors)
        self._skip(lines, done, output)
        began = time.perf_counter()
        typed = all(map(is_standard_input, self.files)) and sys.stdin.isatty()  # a person waits
        # Where chunks may change last bits, all are as long, for the same result in every run.
        fixed = 1 if typed else 0 if self.machine.batch_invariant else CHUNK
        size = fixed or min(FIRST_CHUNK, CHUNK)
        if typed:
            print("sharpbeam: type text, one sentence a line; Ctrl-D ends.", file=sys.stderr)
        bar_of = progress_bar("translating", self._total(), done, not typed)
        with engine_warnings(logging.NullHandler()), bar_of as bar:  # `_warn` says it with the number of the line
            while chunk := list(islice(lines, size)):
                since = time.perf_counter()
                translations = translator.translate(chunk, target_prefix=self.target_prefix, progress=bar, **options)
                result = "".join(self._render(number + i, t) for i, t in enumerate(translations))
                with bar.aside():
                    output.write(chunk, result)
                    self._warn(number, translations)
                size = fixed or next_chunk(len(chunk), time.perf_counter() - since)
                number += len(chunk)
                count.sentences += len(chunk)
                count.source_words += sum(len(line.split()) for line in chunk)
                count.target_words += sum(len(t.text.split()) for t in translations)
        output.finish()
        count.seconds = time.perf_counter() - began
        count.steps, count.expansions = translator.work.steps, translator.work.expansions
        count.python_step = translator.work.reason or None
        if self.choices.search.cube_pruning != "none":
            count.merging_rate = round(translator.work.merging_rate, 4)
        layer = translator.output_layer(self.choices.output)
        count.fallback_share = layer.fallback_share
        return count

    def _identity(self, folders: Sequence[Path]) -> Job:
        """Everything but the input that decides the bytes of the result.

        Threads, schedules and kernel tables other than plain do not. With PyTorch or a BLAS the schedule does.
        """
        schedule = dataclasses.asdict(self.choices.schedule)
        if self.machine.batch_invariant:
            schedule = {"max_input_length": self.choices.schedule.max_input_length}
        return {
            "program": f"sharpbeam {program_version()}",
            "model": "+".join(map(_fingerprint, folders)),
            **dataclasses.asdict(self.choices.search),
            **dataclasses.asdict(self.choices.sampling),
            **schedule,
            **dataclasses.asdict(self.choices.output),
            **dataclasses.asdict(self.choices.languages),
            "format": self.format,
            "errors": self.errors,
            "target_prefix": self.target_prefix,
            "backend": self.machine.backend,
            "compute_type": self.machine.compute_type,
            "plain": self.machine.isa == "plain",
            **self.machine.shortcuts(),
        }

    def _total(self) -> int | None:
        """The number of input lines for the progress bar, where it is shown and no input is a pipe."""
        if not self._read_twice() or not sys.stderr.isatty():
            return None
        return sum(1 for _ in read_all(self.files, "replace"))

    def _read_twice(self) -> bool:
        """Whether all input is in files, which can be read once more."""
        return bool(self.files) and all(path.is_file() and not is_standard_input(path) for path in self.files)

    def _warn(self, number: int, translations: Sequence[Translation]) -> None:
        """Name the lines whose end was cut off."""
        most = self.choices.schedule.max_input_length
        for line, translation in enumerate(translations, number + 1):
            if translation.truncated:
                print(
                    f"sharpbeam: line {line} has more than {most} tokens (max_input_length); its end was cut off.",
                    file=sys.stderr,
                )

    @staticmethod
    def _skip(lines: Iterator[str], done: int, output: Output) -> None:
        """Pass over the lines that an interrupted run has done; whether they are the same, `output` will say."""
        while done > 0 and (passed := list(islice(lines, min(done, CHUNK)))):
            output.skip(passed)
            done -= len(passed)

    def _render(self, index: int, translation: Translation) -> str:
        """The output of one input line; ends in a line feed and, but for jsonl, has exactly num_hypotheses of them."""
        hypotheses = translation.hypotheses
        if self.format == "jsonl":
            record = {"index": index, "source": translation.source, "hypotheses": [_record(h) for h in hypotheses]}
            if self.choices.search.return_attention:
                record["source_tokens"] = translation.source_tokens
            return json.dumps(record, ensure_ascii=False) + "\n"
        texts = [h.text.replace("\n", " ").replace("\r", " ") for h in hypotheses]
        texts += [""] * (self.choices.search.num_hypotheses - len(texts))  # a vocabulary may be too small for so many
        if self.format == "pharaoh":
            alignments = [*map(_pharaoh, hypotheses), *([""] * (len(texts) - len(hypotheses)))]
            texts = [f"{text} ||| {alignment}" for text, alignment in zip(texts, alignments, strict=True)]
        return "".join(text + "\n" for text in texts)


def _record(answer: Answer) -> dict[str, Any]:
    """A hypothesis for JSON; shares of attention with six digits, alignment in Pharaoh form (source-target)."""
    record: dict[str, Any] = {"text": answer.text, "score": answer.score, "token_scores": answer.token_scores}
    if answer.attention is not None and answer.alignment is not None:
        record["tokens"] = answer.tokens
        record["attention"] = [[round(share, 6) for share in row] for row in answer.attention]
        record["alignment"] = _pharaoh(answer)
    return record


def _pharaoh(answer: Answer) -> str:
    """The alignment as "0-0 1-2": places of pieces, source-target."""
    return " ".join(f"{source}-{target}" for source, target in answer.alignment or ())


def _fingerprint(folder: Path) -> str:
    """SHA-256 over the names and bytes of the files that decide what the model says.

    Gigabytes of weights are not read for it where config.json has their digest, which is checked when they are loaded.
    """
    digest, named = hashlib.sha256(), read_facts(folder).digest is not None
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".safetensors", ".spm") and not (named and path.name == WEIGHTS):
            digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
