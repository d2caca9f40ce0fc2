"""The cache of models that were fetched by name: each once, whole or not there, whatever is killed when.

A model is made in `work`, next to `models`, and renamed into place; a lock of its own lets one process do it while
others wait. What a killed run left in `work` is used by the next one: downloads continue.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sharpbeam
from sharpbeam.errors import InputError, ModelError, OutputError
from sharpbeam.hub.names import Name, name_of
from sharpbeam.storage.atomic import lock_file, replacing_file, write_text
from sharpbeam.text.json import read_json

if TYPE_CHECKING:
    from sharpbeam.hub.registries import ListedModel

HOME = "SHARPBEAM_CACHE"  # variable that names the cache's folder; "" for none
ORIGIN = "origin.json"  # in a model folder: where it came from
PATIENCE = 0.2  # seconds between two looks at a lock


@dataclass(frozen=True)
class Installed:
    """A model in the cache."""

    name: str
    folder: Path
    facts: dict[str, Any]  # as `ListedModel.facts`

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(path.stat().st_size for path in self.folder.iterdir())


def folder_of(name: Name) -> Path:
    """The model folder of `name`: fetched and converted if it is not in the cache."""
    folder = _home() / "models" / name.place
    if _is_whole(folder):
        return folder
    from sharpbeam.hub.download import OFFLINE, is_offline  # the network's modules take a while
    from sharpbeam.hub.registries import resolve

    if is_offline():
        raise InputError(f"{name} is not in the cache, and with --offline or {OFFLINE} nothing is fetched.")
    with _locked(name):
        if not _is_whole(folder):
            _install(resolve(name), folder)
    return folder


def check(name: Name) -> None:
    """Raise InputError for a model that is neither in the cache nor in its registry, or one that does not answer."""
    from sharpbeam.hub.registries import resolve

    if not _is_whole(_home() / "models" / name.place):
        resolve(name)


@contextmanager
def source_files(name: Name) -> Iterator[Path]:
    """A folder with the files of `name` as its registry has them, for the block."""
    from sharpbeam.hub.registries import resolve

    with _locked(name):
        entry = resolve(name)
        work = _work_of(entry)
        try:
            files = _download(entry, work / "files")
        finally:
            _show("")
        yield files
        shutil.rmtree(work)


def get(text: str) -> Path:
    """The folder of a model by its name, or of one in an archive that `sharpbeam models pack` has made."""
    name = name_of(text)
    if name is not None:
        return folder_of(name)
    if not Path(text).is_file():
        raise InputError(f"the model is {text!r}; give a name such as firefox:en-pt, or an archive of models pack.")
    from sharpbeam.hub.archives import unpack

    with _temporary() as work:
        unpack(Path(text), work)
        origin = name_of(str(read_json(work / ORIGIN).get("name")))
        if origin is None or not _is_whole(work):
            raise ModelError(f"{text} is no archive of sharpbeam models pack.")
        folder = _home() / "models" / origin.place
        with _locked(origin):
            if not _is_whole(folder):
                folder.parent.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(folder, ignore_errors=True)
                os.replace(work, folder)
    return folder


def installed() -> list[Installed]:
    """The models in the cache, by name."""
    paths = sorted((_home() / "models").glob(f"**/{ORIGIN}"))
    return [Installed(str(facts.get("name")), path.parent, facts) for path in paths if (facts := read_json(path))]


def remove(text: str) -> None:
    """Remove a model from the cache; raises InputError for one that is not there."""
    folder = _installed(text)
    with _temporary() as trash:
        os.replace(folder, trash)


def pack_model(text: str, archive: Path) -> None:
    """Write a model of the cache as an archive, which `get` reads where there is no network."""
    import tarfile

    if archive.exists():
        raise OutputError(f"{archive} is there already; give another name.")
    folder = _installed(text)
    with replacing_file(archive) as temporary, tarfile.open(temporary, "w") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, f"{folder.name}/{path.name}", recursive=False)


def _installed(text: str) -> Path:
    models = {model.name: model.folder for model in installed()}
    if text not in models:
        raise InputError(f"{text!r} is not in the cache; it has {', '.join(models) or 'no models'}.")
    return models[text]


def _home() -> Path:
    home = os.environ.get(HOME)
    with suppress(RuntimeError):  # there is no home folder
        if home is None:
            return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sharpbeam"
    if home:
        return Path(home)
    raise OutputError(f"there is no place for models: {HOME} is empty, or there is no home folder; set {HOME}.")


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {folder} ({error.strerror}); {HOME} names another folder.") from error
    return folder


def _is_whole(folder: Path) -> bool:
    return (folder / "config.json").is_file()  # folders are renamed when they are whole


@contextmanager
def _locked(name: Name) -> Iterator[None]:
    """Run the block in one process at a time; others wait."""
    place = _made(_home() / "work") / ("-".join(name.place.parts) + ".lock")
    with place.open("ab") as file:
        while True:
            try:
                lock_file(file.fileno())
            except BlockingIOError:
                _show(f"another process gets {name}; waiting")
                time.sleep(PATIENCE)
                continue
            break
        yield


@contextmanager
def _temporary() -> Iterator[Path]:
    """A path for a folder that is removed at the end, if it is still there."""
    with tempfile.TemporaryDirectory(dir=_made(_home() / "work"), prefix="new-") as folder:
        yield Path(folder) / "model"


def _work_of(entry: ListedModel) -> Path:
    """The folder in which a model is made, with what a killed run fetched of the very same files."""
    work, facts = _made(_home() / "work" / "-".join(entry.name.place.parts)), json.dumps(entry.facts(), indent=2) + "\n"
    note = work / ORIGIN
    if not note.is_file() or note.read_text(encoding="utf-8") != facts:
        shutil.rmtree(work)
        work.mkdir()
        write_text(note, facts)
    return work


def _install(entry: ListedModel, folder: Path) -> None:
    """Fetch, convert and put in place; the downloads are removed only then."""
    try:
        work = _work_of(entry)
        files, model = _download(entry, work / "files"), work / "new" / folder.name
        _show(f"converting {entry.name}")
        shutil.rmtree(model.parent, ignore_errors=True)
        sharpbeam._make_model(files, model)
        os.replace(work / ORIGIN, model / ORIGIN)
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.replace(model, folder)
        shutil.rmtree(work)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutputError(f"the disk of {_home()} is full; {HOME} names another folder for models.") from error
        raise
    finally:
        _show("")


def _download(entry: ListedModel, folder: Path) -> Path:
    """Fetch the files of a model that are not in `folder` yet; the folder that they, or those of an archive, are in."""
    from sharpbeam.hub.archives import unpack
    from sharpbeam.hub.download import fetch

    free = shutil.disk_usage(_made(folder)).free
    if free < 3 * entry.size:  # packed, unpacked and converted
        raise OutputError(
            f"{folder} has {free >> 20} MiB free, and {3 * entry.size >> 20} are needed; {HOME} names another folder."
        )
    whole, count, shown = entry.size / 1e6, 0, 0.0

    def report(number: int) -> None:
        nonlocal count, shown
        count += number
        if time.monotonic() - shown > 0.1:
            shown = time.monotonic()
            _show(f"fetching {entry.name}: {count / 1e6:.1f}{f' of {whole:.1f}' if whole else ''} MB")

    for file in entry.files:
        if not (folder / file.name).exists():
            fetch(file, folder / file.name, report)
    if [file.name for file in entry.files] != ["archive"]:
        return folder
    unpacked = folder / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    try:
        unpack(folder / "archive", unpacked)
    except ModelError:
        (folder / "archive").unlink()  # the next call fetches it again
        raise
    return unpacked


def _show(text: str) -> None:
    """One line of progress, on a terminal only; "" clears it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
