"""Where results go: standard output, or a file that appears only when it is whole and that survives a kill.

FILE is written as FILE.part, beside it a journal FILE.part.json that says which job this is and how much of the part
is done. A chunk is on the disk before the journal counts it, and the journal is replaced by renaming, so at any moment
the part begins with what the journal says. To resume is to cut the part to that and to go on.

The last journal is kept as a note about FILE in the user's cache (`notes.py`), so that to resume a job that is finished
takes no work.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from sharpbeam.errors import InputError, OptionError, OutputError
from sharpbeam.jobs.paths import check_home
from sharpbeam.storage.atomic import write_text
from sharpbeam.storage.cache import file_state, read_note, write_note
from sharpbeam.text.lines import is_standard_input

Job = Mapping[str, Any]  # what decides the bytes of the result: options, model, program version
_KIND = "finished"  # of the notes about finished files
_INSTEAD = "Give another --output, or replace it with --restart."  # of resuming what is finished


class Output(Protocol):
    """A place for results, chunk by chunk."""

    def compare(self, job: Job, lines: Iterable[str] | None) -> tuple[bool, str]:
        """Whether the result of `job` on `lines` (None = not known yet) is there; and what to tell the person of it.

        Raises OptionError or InputError where another result is there, which is not to be lost.
        """

    def begin(self, job: Job) -> int:
        """Be ready to write; returns how many input lines are done already."""

    def skip(self, lines: Sequence[str]) -> None:
        """Take note of input lines that are done already."""

    def write(self, lines: Sequence[str], result: str) -> None:
        """Append the result of the next input lines."""

    def finish(self) -> None:
        """Say that this was all."""

    def close(self, failed: bool, interrupted: bool = False) -> str:
        """Let go, also after a failure, which may be Ctrl-C; returns what the person should know about the kept part,
        or nothing."""


class StandardOutput:
    """Results on stdout, flushed chunk by chunk."""

    def compare(self, job: Job, lines: Iterable[str] | None) -> tuple[bool, str]:
        """There is never anything done."""
        return False, ""

    def begin(self, job: Job) -> int:
        """There is never anything done."""
        return 0

    def skip(self, lines: Sequence[str]) -> None:
        """Nothing is ever skipped."""

    def write(self, lines: Sequence[str], result: str) -> None:
        """Write and flush."""
        sys.stdout.buffer.write(result.encode())
        sys.stdout.buffer.flush()

    def finish(self) -> None:
        """Nothing is left to do."""

    def close(self, failed: bool, interrupted: bool = False) -> str:
        """Nothing is kept."""
        return ""


@dataclass(frozen=True)
class Journal:
    """How far the part is."""

    job: dict[str, Any]
    lines: int = 0  # input lines done
    bytes: int = 0  # of the part
    input_sha256: str = field(default_factory=lambda: hashlib.sha256().hexdigest())  # of those input lines
    version: int = 1

    def save(self, path: Path) -> None:
        """Write the journal whole, or leave the old one."""
        write_text(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Journal | None:
        """The journal at `path`, or None where there is none that can be read."""
        try:
            journal = cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return journal if journal.version == cls.version else None

    @classmethod
    def of_finished(cls, path: Path) -> Journal | None:
        """The last journal of a FILE that has not changed since; None where that is not known."""
        try:
            journal = cls(**(read_note(_KIND, path) or {}))
        except TypeError:
            return None
        return journal if journal.version == cls.version else None

    def differences(self, job: Job) -> str:
        """What differs between the job of this journal and another one; nothing where they are the same."""
        changed = (
            f"{key} was {self.job.get(key)!r} and is {job.get(key)!r}"
            for key in sorted(self.job.keys() | job.keys())
            if self.job.get(key) != job.get(key)
        )
        return "; ".join(changed)


class OutputFile:
    """Results in FILE, by way of FILE.part."""

    def __init__(self, path: Path, *, resume: bool, restart: bool, inputs: Sequence[Path] = ()) -> None:
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
        self._refuse_inputs(inputs)
        self._file = self._claim()
        try:
            begun, found = self._find(resume, restart)
        except OutputError:
            self._file.close()
            raise
        self._old = found if begun and resume else None
        self._journal = self._old or Journal({})
        self._digest = hashlib.sha256()
        self._ours = not begun  # the part may be removed while nothing is done
        self._resumable = True  # the same command with --resume would go on
        self._anew = resume and not begun and self.path.exists()  # nothing to resume, and a whole FILE

    def _refuse_inputs(self, inputs: Sequence[Path]) -> None:
        """Raise OptionError where an input is what would be overwritten."""
        for place in (self.path, self.part, self.journal_path):
            for source in inputs or [Path("-")]:
                try:
                    given = os.fstat(0) if is_standard_input(source) else source.stat()
                    same = os.path.samestat(given, place.stat())
                except OSError:  # one of them is not there, or standard input is closed
                    continue
                if same:
                    raise OptionError(f"--output {self.path} would overwrite the input {place}; give another name.")

    def _claim(self) -> BinaryIO:
        """Open the part and lock it. The journal is read only then, or a run that goes on could change it."""
        check_home(self.path)
        while True:
            try:
                file = cast(BinaryIO, open(self.part, "ab", buffering=0))  # noqa: SIM115  (held until close)
            except OSError as error:
                raise OutputError(f"cannot write {self.part}: {error.strerror or error}.") from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file.fileno()), self.part.stat()):
                    return file
            except BlockingIOError as error:
                file.close()
                raise OutputError(f"{self.part} is being written by another process.") from error
            except FileNotFoundError:
                pass
            file.close()  # meanwhile another run ended, and what was opened is its result

    def _find(self, resume: bool, restart: bool) -> tuple[bool, Journal | None]:
        """Whether the part holds an interrupted run, and its journal; raises OutputError unless that is wanted."""
        size = os.fstat(self._file.fileno()).st_size
        found = Journal.load(self.journal_path) if size else None  # that of an empty part is from an earlier run
        begun = found.lines > 0 if found else size > 0  # a kill before the first chunk leaves an empty part
        if begun and not resume and not restart:
            raise OutputError(
                f"{self.part} holds an interrupted run; go on with --resume, or begin again with --restart."
            )
        if begun and resume and found is None:
            raise OutputError(f"{self.journal_path} is missing or damaged; begin again with --restart.")
        return begun, found

    def compare(self, job: Job, lines: Iterable[str] | None) -> tuple[bool, str]:
        """Whether FILE is the result of `job` on `lines`, where an old run was to be resumed and none is begun.

        Then the part is gone. Raises OptionError or InputError where FILE is known to be the result of another job, or
        of other lines: to resume is not to throw it away. Where nothing is known of FILE, a new result replaces it.
        """
        if not self._anew:
            return False, ""
        last = Journal.of_finished(self.path)
        changed = last.differences(job) if last else ""
        if changed:
            raise OptionError(f"cannot resume {self.path}: it is finished, but {changed}. {_INSTEAD}")
        if last is None or lines is None:
            return False, f"no interrupted run of {self.path}; starting anew."
        if _digest_of(lines) != last.input_sha256:
            raise InputError(f"cannot resume {self.path}: it is finished, but its input has changed. {_INSTEAD}")
        self._remove_part()
        return True, f"{self.path} is finished; there is nothing to resume. To translate it again, give --restart."

    def begin(self, job: Job) -> int:
        """Take up the old run if there is one, which must be the same job; returns its lines done."""
        if self._old:
            self._check_same(self._old, job)
            if os.fstat(self._file.fileno()).st_size < self._old.bytes:
                self._resumable = False
                raise OutputError(f"{self.part} is shorter than its journal says; begin again with --restart.")
        self._journal = self._old or Journal(dict(job))
        self._ours = True
        self._file.truncate(self._journal.bytes)
        self._save()
        return self._journal.lines

    def skip(self, lines: Sequence[str]) -> None:
        """Check that the input lines done are those of the interrupted run, once all have been seen."""
        self._note(lines)

    def write(self, lines: Sequence[str], result: str) -> None:
        """Append to the part, wait until it is on the disk, then count it in the journal."""
        journal = self._journal
        if self._old:
            self.check_skipped()
        data = memoryview(result.encode())
        size = len(data)
        try:
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"cannot write {self.part}: {error.strerror or error}.") from error
        self._note(lines)
        self._journal = Journal(journal.job, journal.lines + len(lines), journal.bytes + size, self._digest.hexdigest())
        self._save()

    def check_skipped(self) -> None:
        """Raise InputError unless the input began with the lines that are done."""
        old, self._old = self._old, None
        if old and old.input_sha256 != self._digest.hexdigest():
            self._resumable = False
            raise InputError(
                f"cannot resume {self.part}: the first {old.lines} input lines are not those of the interrupted run; "
                "give the same input, or begin again with --restart."
            )

    def finish(self) -> None:
        """Rename the part to FILE and drop the journal."""
        self.check_skipped()
        try:
            os.replace(self.part, self.path)
            self.journal_path.unlink(missing_ok=True)
            write_note(_KIND, self.path, file_state(self.path), asdict(self._journal))
        except OSError as error:
            raise OutputError(f"cannot rename {self.part} to {self.path}: {error.strerror or error}.") from error

    def close(self, failed: bool, interrupted: bool = False) -> str:
        """Close the part. A failed run that has nothing done leaves nothing behind; interrupted, it says so."""
        try:
            return self._leave(interrupted) if failed else ""
        finally:
            self._file.close()  # last, since it gives the lock back

    def _leave(self, interrupted: bool) -> str:
        if self._journal.lines:
            hint = f"{self._journal.lines} lines are kept in {self.part}; run the same command with --resume to go on."
            return hint if self._resumable else ""
        if self._ours:
            self._remove_part()
        kept = "so nothing is kept" if self._ours else f"and {self.part} is as it was"
        return f"no line was done yet, {kept}." if interrupted else ""

    def _remove_part(self) -> None:
        self.part.unlink(missing_ok=True)
        self.journal_path.unlink(missing_ok=True)

    def _note(self, lines: Sequence[str]) -> None:
        for line in lines:
            _add(self._digest, line)

    def _save(self) -> None:
        try:
            self._journal.save(self.journal_path)
        except OSError as error:
            raise OutputError(f"cannot write {self.journal_path}: {error.strerror or error}.") from error

    def _check_same(self, old: Journal, job: Job) -> None:
        """Raise OptionError naming what differs between the interrupted job and this one."""
        changed = old.differences(job)
        if changed:
            self._resumable = False
            raise OptionError(
                f"cannot resume {self.part}: {changed}. Use what the interrupted run used, "
                "or begin again with --restart."
            )


def _digest_of(lines: Iterable[str]) -> str:
    """SHA-256 of input lines, as journals have it."""
    digest = hashlib.sha256()
    for line in lines:
        _add(digest, line)
    return digest.hexdigest()


def _add(digest: Any, line: str) -> None:
    digest.update(line.encode() + b"\n")
