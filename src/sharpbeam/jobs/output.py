"""Where the results of a job go: standard output, or a file that appears only when it is complete.

FILE is written as FILE.part, and a journal FILE.part.json next to it (journal.py) says which job this is, how much of
the part is done, and a digest of the input lines done. A chunk (chunks.py) is on the disk before the journal counts it,
and the journal is replaced by renaming, so at any moment the part begins with the lines of the journal. A resumed run
checks job and digests, cuts the part to those lines and continues with the next one. Each chunk of .gz and .zst is a
member of its own, so that a cut file can be continued. Answers do not depend on chunks, or chunks have one length.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sharpbeam.errors import InputError, OptionError, OutputError, failing, needs_extra
from sharpbeam.jobs.journal import Job, Journal
from sharpbeam.storage.atomic import POSIX, flush, lock_file
from sharpbeam.text.lines import is_standard_input

log = logging.getLogger("sharpbeam.jobs")

_RESUME, _RESTART = "--resume (resume=True)", "--restart (restart=True)"
_ANYWHERE = sum(getattr(os, f"O_{name}", 0) for name in ["RDWR", "APPEND", "CREAT", "NOFOLLOW", "NONBLOCK", "BINARY"])


class StandardOutput:
    """Results on stdout: line by line if a reader may be waiting for them, else in blocks."""

    def __init__(self) -> None:
        try:
            self._interactive = not stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
        except (OSError, ValueError):  # closed, or replaced by something that is no file
            self._interactive = True

    def __enter__(self) -> StandardOutput:
        return self

    def __exit__(self, *error: Any) -> None:
        """Release the place, also after a failure, which may be Ctrl-C."""

    def begin(self, job: Callable[[], Job]) -> int | None:
        """Be ready to write; returns the number of input lines that are done already, or None for all of them."""
        return 0

    def skip(self, line: str) -> None:
        """Take note of an input line that is done already."""

    def write(self, line: str, result: str) -> None:
        """Append the result of the next input line; a pipe or a terminal is flushed."""
        binary = getattr(sys.stdout, "buffer", None)  # what stands for standard output may have none
        if binary is None:
            sys.stdout.write(result)
        else:
            binary.write(result.encode(errors="replace"))
        if self._interactive:
            sys.stdout.flush()

    def commit(self) -> None:
        """Make the output so far durable."""
        sys.stdout.flush()

    def finish(self) -> None:
        """Take note that this was all."""


class OutputFile(StandardOutput):
    """Results in FILE, by way of FILE.part."""

    def __init__(self, path: Path, resume: bool = False, restart: bool = False, inputs: Sequence[Path] = ()) -> None:
        """Check that FILE can be written, before any slow work; raises OutputError or OptionError.

        `inputs` are the files that will be read (none = standard input); FILE and its part must not be among them.
        """
        self.path = Path(os.path.realpath(path))  # a link stays a link
        self.part = self.path.with_name(self.path.name + ".part")
        self.journal_path = self.path.with_name(self.path.name + ".part.json")
        if resume and restart:
            raise OptionError("--resume and --restart exclude each other; give one.")
        if self.path.is_dir():
            raise OutputError(f"--output {path} is not a regular file but a folder; give the name of a file.")
        if self.path.exists() and not self.path.is_file():
            raise OutputError(f"{path} is not a regular file; use '> {path}' instead of --output.")
        self._pack = _packer(self.path)
        self._refuse_inputs(inputs)
        interrupted = self.part.exists()  # without a line, if it is empty
        self._file = self._claim()
        try:
            begun, journal = self._find(resume, restart)
        except OutputError:
            os.close(self._file)
            raise
        self._old = journal if begun and resume else None
        self._journal = self._old or Journal({})
        self._read, self._written = hashlib.sha256(), hashlib.sha256()  # input lines; bytes of the part
        self._lines: list[str] = []  # that were written, but are not in the journal
        self._results: list[str] = []
        self._ours = not begun  # the part may be removed while nothing is done
        self._resumable = True  # the same command with --resume would continue
        self._again = "again" if resume else f"with {_RESUME}"
        self._complete = resume and not begun and not interrupted and self.path.exists()
        self._inputs = inputs

    def _refuse_inputs(self, inputs: Sequence[Path]) -> None:
        """Raise OptionError if an input is what would be overwritten."""
        for place in (self.path, self.part, self.journal_path):
            for source in inputs or [Path("-")]:
                try:
                    status = os.fstat(0) if is_standard_input(source) else source.stat()
                    same = os.path.samestat(status, place.stat())
                except OSError:  # one of them does not exist, or standard input is closed
                    continue
                if same:
                    raise OptionError(f"--output {self.path} would overwrite the input {place}; give another name.")

    def _claim(self) -> int:
        """Open the part and lock it. The journal is read only then, or a run that continues could change it."""
        if not self.path.parent.is_dir():  # the path is absolute
            raise OutputError(f"cannot write {self.path}: there is no folder {self.path.parent}.")
        while True:
            with failing(OutputError, f"write {self.part}"):
                file = os.open(self.part, _ANYWHERE, 0o666)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise OutputError(f"{self.part} is not a regular file; remove it, or give another --output.")
                lock_file(file)
                if not POSIX or os.path.samestat(os.fstat(file), self.part.stat()):
                    return file
            except BlockingIOError as error:
                os.close(file)
                raise OutputError(f"{self.part} is being written by another process.") from error
            except OutputError:
                os.close(file)
                raise
            except FileNotFoundError:
                pass
            os.close(file)  # meanwhile another run ended, and this file is its result

    def _find(self, resume: bool, restart: bool) -> tuple[bool, Journal | None]:
        """Whether the part holds an interrupted run, and its journal; raises OutputError unless that is wanted."""
        size = os.fstat(self._file).st_size
        journal = Journal.load(self.journal_path) if size else None  # that of an empty part is from an earlier run
        begun = journal.lines > 0 if journal else size > 0  # a kill before the first chunk leaves an empty part
        if begun and not resume and not restart:
            raise OutputError(
                f"{self.part} holds an interrupted run; continue it with {_RESUME}, or begin again with {_RESTART}."
            )
        if begun and resume and journal is None:
            raise OutputError(f"{self.journal_path} is missing or damaged; begin again with {_RESTART}.")
        return begun, journal

    def begin(self, job: Callable[[], Job]) -> int | None:
        """Take up the old run if there is one; returns its lines done, or None if FILE is there and no run to resume.

        Raises OptionError if the part is that of another job, OutputError if it is not as it was left.
        """
        if self._complete:
            self._remove_part()
            written = self.path.stat().st_mtime_ns
            if newer := next(
                (each for each in self._inputs if each.is_file() and each.stat().st_mtime_ns > written), None
            ):
                raise OptionError(f"{self.path} is older than {newer}; to translate that, begin again with {_RESTART}.")
            log.info("%s is there, with nothing to resume. To translate it again, say --restart instead.", self.path)
            return None
        if self._old:
            self._check_same(self._old, job())
        self._journal = self._old or Journal(dict(job()))
        self._ours = True
        if self.path.exists():
            self.part.chmod(stat.S_IMODE(self.path.stat().st_mode))
        os.ftruncate(self._file, self._journal.bytes)
        self._save(self._journal)
        return self._journal.lines

    def _check_same(self, old: Journal, job: Job) -> None:
        """Raise OptionError if this is not the interrupted job, OutputError if its part is not as it was."""
        changed = old.differences(job)
        if changed:
            self._resumable = False
            raise OptionError(
                f"cannot resume {self.part}: {changed}. Use the options of the interrupted run, "
                f"or begin again with {_RESTART}."
            )
        left = old.bytes
        os.lseek(self._file, 0, os.SEEK_SET)  # writes append wherever it is
        while left and (block := os.read(self._file, min(left, 1 << 20))):
            self._written.update(block)
            left -= len(block)
        wrong = "is shorter than" if left else "differs from what"
        if left or old.output_sha256 != self._written.hexdigest():
            self._resumable = False
            raise OutputError(f"{self.part} {wrong} its journal says; begin again with {_RESTART}.")

    def skip(self, line: str) -> None:
        """Check that the input lines done are those of the interrupted run, once all have been seen."""
        self._read.update(line.encode() + b"\n")

    def write(self, line: str, result: str) -> None:
        """Hold the result until the chunk is complete."""
        self._lines.append(line)
        self._results.append(result)

    def commit(self) -> None:
        """Append to the part, wait until it is on the disk, then count it in the journal."""
        if self._old:
            self._check_skipped()
        whole = self._pack("".join(self._results).encode(errors="replace"))
        data = memoryview(whole)
        with failing(OutputError, f"write {self.part}"):
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        for line in self._lines:
            self.skip(line)
        self._written.update(whole)
        lines, size = self._journal.lines + len(self._lines), self._journal.bytes + len(whole)
        self._save(Journal(self._journal.job, lines, size, self._read.hexdigest(), self._written.hexdigest()))
        self._lines, self._results = [], []

    def _check_skipped(self) -> None:
        """Raise InputError unless the input began with the lines that are done."""
        old, self._old = self._old, None
        if old and old.input_sha256 != self._read.hexdigest():
            self._resumable = False
            raise InputError(
                f"cannot resume {self.part}: the first {old.lines} input lines are not those of the interrupted run; "
                f"give the same input, or begin again with {_RESTART}."
            )

    def finish(self) -> None:
        """Rename the part to FILE and remove the journal; a packed result without a line is a whole archive too."""
        if self._journal.bytes:
            self._check_skipped()
        else:
            self.commit()
        with failing(OutputError, f"rename {self.part} to {self.path}"):
            self._let_go()
            os.replace(self.part, self.path)
            self.journal_path.unlink(missing_ok=True)
            flush(self.path.parent)

    def __exit__(self, *error: Any) -> None:
        """Close the part and log how many lines are kept. A failed run without a line leaves no file."""
        try:
            if error[1] is not None and (note := self._leave(isinstance(error[1], KeyboardInterrupt))):
                log.warning(note)
        finally:
            if self._file >= 0:
                os.close(self._file)  # last, since this releases the lock

    def _let_go(self) -> None:
        """Close the part on Windows, where an open file can be neither renamed nor removed."""
        if not POSIX and self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _leave(self, interrupted: bool) -> str:
        """Notes for the user about the part after a failure; removes an empty one."""
        if self._journal.lines:
            note = f"{self._journal.lines} lines are kept in {self.part}; run the same job {self._again} to continue."
            return note if self._resumable else ""
        if self._ours and not (self._journal.job and self.path.exists()):  # which would be the result of another job
            self._remove_part()
        outcome = "so nothing is kept" if self._ours else f"and {self.part} is as it was"
        return f"no line was done yet, {outcome}." if interrupted else ""

    def _remove_part(self) -> None:
        self._let_go()
        self.part.unlink(missing_ok=True)
        self.journal_path.unlink(missing_ok=True)

    def _save(self, journal: Journal) -> None:
        before, self._journal = self._journal, journal  # first, or Ctrl-C could part them, and lose finished lines
        try:
            with failing(OutputError, f"write {self.journal_path}"):
                journal.save(self.journal_path)
        except OutputError:
            self._journal = before
            raise


def _packer(path: Path) -> Callable[[bytes], bytes]:
    """The function that packs a chunk for a file, by its suffix."""
    if path.suffix == ".gz":
        return lambda data: gzip.compress(data, mtime=0)
    if path.suffix == ".zst":
        with needs_extra("writing .zst files", "bulk"):
            import zstandard
        compress: Callable[[bytes], bytes] = zstandard.ZstdCompressor().compress
        return compress
    return lambda data: data
