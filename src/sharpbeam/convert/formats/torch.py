"""Tensors of files that `torch.save` wrote, without PyTorch and without unpickling: zip archives and the older form.

A zip archive has an entry PREFIX/data.pkl, whose tensors refer to entries PREFIX/data/KEY of raw numbers, all stored
as they are. The older form (PyTorch before 1.6, and so many models of 2020) is a row of pickles: a magic number, a
version, facts of the machine, the data, the keys of the storages; then each storage as its length and raw numbers.
Arrays are views of the mapped file; every size is held against the file's before anything is made of it.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.convert.formats.floats import widened
from sharpbeam.convert.formats.pickle_file import MOST_BYTES, Names, Record, read_plain_pickle
from sharpbeam.errors import ModelError

Array = NDArray[Any]
_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
_LOCAL_HEADER = 30
_MOST_VALUES = 1 << 22  # a model has some hundred, one with its vocabulary some hundred thousand
_STORAGES = {
    "torch FloatStorage": "float32",
    "torch HalfStorage": "float16",
    "torch BFloat16Storage": "bfloat16",
    "torch DoubleStorage": "float64",
    "torch LongStorage": "int64",
    "torch IntStorage": "int32",
    "torch ShortStorage": "int16",
    "torch CharStorage": "int8",
    "torch ByteStorage": "uint8",
    "torch BoolStorage": "bool",
}


@dataclass(frozen=True)
class _Kind:
    """The type of the numbers of a storage."""

    name: str

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype("<u2" if self.name == "bfloat16" else self.name).newbyteorder("<")


@dataclass(frozen=True)
class _Storage:
    """Numbers kept outside the pickle."""

    kind: _Kind
    key: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage, not read yet."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def read(self, storage: Array) -> Array:
        """A view of the numbers of its storage [count]."""
        return np.lib.stride_tricks.as_strided(
            storage[self.offset :], self.shape, [step * storage.itemsize for step in self.stride], writeable=False
        )


def read_torch(path: Path, classes: tuple[str, ...] = ()) -> Any:
    """What `torch.save` wrote: dicts, lists, texts and numbers, with an array for each tensor.

    Objects of `classes` ("module name") become a dict of their attributes. Raises ModelError, saying why, for anything
    else, and for a damaged file.
    """
    try:
        file = np.memmap(path, np.uint8, "r")
        return _read_zip(path, file, classes) if zipfile.is_zipfile(path) else _read_legacy(file, classes)
    except ModelError as error:
        cut = " A zip archive that lacks its end: copy it again." if _is_cut(path) else ""
        raise ModelError(f"{path} cannot be read as a file of PyTorch tensors: {error}.{cut}") from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, zipfile.BadZipFile, struct.error, NotImplementedError, OverflowError, RuntimeError) as error:
        raise ModelError(f"{path} cannot be read as a file of PyTorch tensors: it is damaged ({error}).") from error


def _is_cut(path: Path) -> bool:
    """Whether it begins as a zip archive, whose directory stands at the end, and has none."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\3\4" and not zipfile.is_zipfile(path)


def _read_zip(path: Path, file: Array, classes: tuple[str, ...]) -> Any:
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
    found = [name for name in entries if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(found) != 1:
        raise ModelError("the zip archive does not have one entry data.pkl")
    home = found[0].removesuffix("data.pkl")

    def content(name: str) -> Array:
        if name not in entries:
            raise ModelError(f"the zip archive lacks the entry {name!r}")
        return _stored(entries[name], file)

    if home + "byteorder" in entries and content(home + "byteorder").tobytes() != b"little":
        raise ModelError("its numbers are not little-endian")
    pickled = content(found[0])
    if len(pickled) > MOST_BYTES:
        raise ModelError(f"its data.pkl has {len(pickled)} bytes; at most {MOST_BYTES} are read")
    names = _names(classes, {})
    value, _ = read_plain_pickle(pickled.tobytes(), 0, names)
    return _Reading(lambda storage: _numbers(storage, content(f"{home}data/{storage.key}"))).value(value)


def _stored(entry: zipfile.ZipInfo, file: Array) -> Array:
    """The bytes of an entry, which must be stored as they are and lie inside the file."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
        raise ModelError(f"the entry {entry.filename!r} is compressed or encrypted")
    start = entry.header_offset
    header = file[start : start + _LOCAL_HEADER].tobytes() if start >= 0 else b""
    if len(header) < _LOCAL_HEADER or header[:4] != b"PK\3\4":
        raise ModelError(f"the entry {entry.filename!r} does not begin where it should")
    name, extra = struct.unpack("<HH", header[26:30])
    start += _LOCAL_HEADER + name + extra
    if entry.file_size < 0 or start + entry.file_size > len(file):
        raise ModelError(f"the entry {entry.filename!r} reaches beyond the end of the file")
    return file[start : start + entry.file_size]


def _read_legacy(file: Array, classes: tuple[str, ...]) -> Any:
    storages: dict[str, _Storage] = {}
    head, place = file[: min(len(file), MOST_BYTES)].tobytes(), 0
    values = []
    for wanted in (_MAGIC, _VERSION, None, None, None):
        value, place = read_plain_pickle(head, place, _names(classes, storages))
        if wanted is not None and value != wanted:
            raise ModelError("it does not begin as such files do")
        values.append(value)
    machine, data, keys = values[2:]
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise ModelError("its numbers are not little-endian")
    if not isinstance(keys, list):
        raise ModelError("it has no list of storages")
    raw: dict[str, Array] = {}
    for key in keys:
        if not isinstance(key, str) or key not in storages or key in raw:
            raise ModelError("its list of storages does not belong to its tensors")
        storage = storages[key]
        count = int.from_bytes(file[place : place + 8].tobytes(), "little")
        size, place = storage.count * storage.kind.dtype.itemsize, place + 8
        if count != storage.count or place + size > len(file):
            raise ModelError(f"storage {key!r:.40} has another size than its tensors ask for, or the file ends early")
        raw[key] = file[place : place + size]
        place += size
    missing = storages.keys() - raw.keys()
    if missing:
        raise ModelError(f"storage {min(missing)!r:.40} is missing")
    return _Reading(lambda storage: _numbers(storage, raw[storage.key])).value(data)


def _numbers(storage: _Storage, raw: Array) -> Array:
    """The numbers of a storage, which has to have as many as its tensors were told."""
    dtype = storage.kind.dtype
    if len(raw) != storage.count * dtype.itemsize:
        raise ModelError(f"storage {storage.key!r:.40} has {len(raw)} bytes, not {storage.count} numbers of {dtype}")
    return np.frombuffer(raw, dtype) if len(raw) else np.empty(0, dtype)


def _names(classes: tuple[str, ...], storages: dict[str, _Storage]) -> Names:
    """What a file of tensors may name; `storages` is filled with those that are met."""

    def persistent(value: Any) -> _Storage:
        if not isinstance(value, tuple) or not 5 <= len(value) <= 6 or value[0] != "storage":
            raise ValueError("an id that is no storage")
        _, kind, key, _, count, *view = value
        good = isinstance(kind, _Kind) and isinstance(key, str) and type(count) is int and count >= 0
        if not good or (view and view[0] is not None):
            raise ValueError("a storage that is no whole one")
        storage = _Storage(kind, key, count)
        if storages.setdefault(key, storage) != storage:
            raise ValueError("two storages of one name")
        return storage

    build: dict[str, Callable[..., Any]] = {
        "collections OrderedDict": _ordered,
        "torch._utils _rebuild_tensor_v2": _tensor,
        "torch._utils _rebuild_parameter": lambda data, *_: data,
    }
    build |= {name: lambda *_: Record({}) for name in classes}
    return Names(build, {name: _Kind(kind) for name, kind in _STORAGES.items()}, persistent)


def _ordered(*items: Any) -> dict[Any, Any]:
    if items:
        raise ValueError("a dict made of something")
    return {}


def _tensor(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> _Tensor:
    """A tensor, whose numbers must lie inside its storage, each at one place."""
    sizes = isinstance(shape, tuple) and isinstance(stride, tuple) and len(shape) == len(stride) <= 8
    if not isinstance(storage, _Storage) or not sizes or not all(type(n) is int for n in (offset, *shape, *stride)):
        raise ValueError("a tensor without a storage, an offset, a shape and strides")
    if min(offset, *shape, *stride, 0) < 0:
        raise ValueError("a negative size")
    last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) if all(shape) else 0
    if math.prod(shape) > storage.count or (all(shape) and last >= storage.count):
        raise ValueError(f"a tensor of shape {shape!r:.60} in a storage of {storage.count} numbers")
    if offset > storage.count:
        raise ValueError("a tensor that begins behind its storage")
    return _Tensor(storage, offset, shape, stride)


class _Reading:
    """Puts an array in the place of each tensor, and a dict in that of each record."""

    def __init__(self, numbers: Callable[[_Storage], Array]) -> None:
        self._numbers = numbers
        self._storages: dict[_Storage, Array] = {}  # bfloat16 is widened, and that once, however many tensors share it
        self._left = _MOST_VALUES  # lists that hold one list many times may stand for more than any memory

    def value(self, value: Any, depth: int = 0) -> Any:
        """`value`, without anything that the reader has no use for."""
        self._left -= 1
        if depth > 8 or self._left < 0:
            raise ModelError("its values are too many, or nested too deeply")
        if isinstance(value, _Tensor):
            if (storage := value.storage) not in self._storages:
                self._storages[storage] = widened(self._numbers(storage), storage.kind.name)
            return value.read(self._storages[storage])
        if isinstance(value, Record):
            value = value.items
        if isinstance(value, dict):
            return {key: self.value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item, depth + 1) for item in value]
        return value if isinstance(value, (str, int, float, bool, type(None))) else None
