"""Read the data of a pickle without running any of it: a stack machine of our own over a list of allowed opcodes.

A pickle is a program that may call any function by name. This machine knows the few opcodes that PyTorch writes for
numbers, texts, lists, tuples and dicts, and calls nothing: a name is looked up among those that the caller gives, and
what the caller gives for it builds plain values only. Everything else is refused. PyTorch itself is not needed.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sharpbeam.errors import ModelError

MOST_BYTES = 1 << 28  # of one pickle; that of a model has about 100 KB, with a vocabulary a few MB
Build = Callable[..., Any]


@dataclass(frozen=True)
class Names:
    """What a pickle may name ("module name"): what may be called, and what is only passed on."""

    build: Mapping[str, Build]
    constants: Mapping[str, Any]
    persistent: Callable[[Any], Any]  # what an id of something kept outside the pickle stands for


class _Mark:
    """The place in the stack that MARK leaves."""


@dataclass(frozen=True)
class _Callable:
    """A name that may be called."""

    build: Build


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_plain_pickle(data: bytes, start: int, names: Names) -> tuple[Any, int]:
    """The value of the pickle that begins at `start` of `data`, and the place behind it.

    Raises ModelError for anything but plain values of allowed names.
    """
    stream = io.BytesIO(data)
    stream.seek(start)
    machine = _Machine(names)
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            machine.run(opcode.name, argument)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelError(f"it is not a sound pickle of plain values ({error})") from error
    return machine.result, stream.tell()


class _Machine:
    """The stack and the memo of one pickle; a method for each of OPCODES."""

    OPCODES = frozenset(
        {"PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE", "APPEND", "APPENDS"}
        | {"SETITEM", "SETITEMS", "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET", "GLOBAL"}
        | {"STACK_GLOBAL", "BINPERSID", "NEWOBJ", "REDUCE", "BUILD"}
    )

    def __init__(self, names: Names) -> None:
        self._names = names
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self.result: Any = None

    def run(self, name: str, argument: Any) -> None:
        """One opcode."""
        if name in _LITERALS:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            self._stack.append(self._pop_many(_TUPLES[name]))
        elif name in _Machine.OPCODES:
            getattr(self, "_" + name.lower())(argument)
        else:
            raise ModelError(f"it holds the pickle opcode {name}, which no file of plain tensors needs; it is refused")

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _Mark:
            raise ValueError("a mark where a value should be")
        return value

    def _pop_many(self, count: int) -> tuple[Any, ...]:
        return tuple(reversed([self._pop() for _ in range(count)]))

    def _to_mark(self) -> list[Any]:
        values: list[Any] = []
        while (value := self._stack.pop()) is not _Mark:
            values.append(value)
        return values[::-1]

    def _proto(self, argument: Any) -> None:
        if not 2 <= argument <= 5:
            raise ValueError(f"protocol {argument}; 2 to 5 are read")

    def _frame(self, argument: Any) -> None:
        """A hint for readers of streams."""

    def _stop(self, argument: Any) -> None:
        self.result = self._pop()

    def _mark(self, argument: Any) -> None:
        self._stack.append(_Mark)

    def _empty_dict(self, argument: Any) -> None:
        self._stack.append({})

    def _empty_list(self, argument: Any) -> None:
        self._stack.append([])

    def _empty_tuple(self, argument: Any) -> None:
        self._stack.append(())

    def _tuple(self, argument: Any) -> None:
        self._stack.append(tuple(self._to_mark()))

    def _append(self, argument: Any) -> None:
        value = self._pop()
        self._list().append(value)

    def _appends(self, argument: Any) -> None:
        values = self._to_mark()
        self._list().extend(values)

    def _setitem(self, argument: Any) -> None:
        key, value = self._pop_many(2)
        self._set([key, value])

    def _setitems(self, argument: Any) -> None:
        self._set(self._to_mark())

    def _binput(self, argument: Any) -> None:
        self._memo[argument] = self._top()

    _long_binput = _binput

    def _memoize(self, argument: Any) -> None:
        self._memo[len(self._memo)] = self._top()

    def _binget(self, argument: Any) -> None:
        self._stack.append(self._memo[argument])

    _long_binget = _binget

    def _global(self, argument: Any) -> None:
        self._stack.append(self._named(argument))

    def _stack_global(self, argument: Any) -> None:
        module, name = self._pop_many(2)
        self._stack.append(self._named(f"{module} {name}"))

    def _binpersid(self, argument: Any) -> None:
        self._stack.append(self._names.persistent(self._pop()))

    def _newobj(self, argument: Any) -> None:
        self._reduce(argument)

    def _reduce(self, argument: Any) -> None:
        called, arguments = self._pop_many(2)
        if not isinstance(called, _Callable) or not isinstance(arguments, tuple):
            raise ValueError("a call of something that is no allowed name")
        self._stack.append(called.build(*arguments))

    def _build(self, argument: Any) -> None:
        """The attributes of the value below: those of a record are its items, a dict's are of no use to us."""
        state, target = self._pop(), self._top()
        if isinstance(target, Record):
            if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
                raise ValueError("attributes that are no dict of names")
            target.items.update(state)
        elif type(target) is not dict:
            raise ValueError(f"attributes of a {type(target).__name__}")

    def _named(self, name: str) -> Any:
        if name in self._names.constants:
            return self._names.constants[name]
        if name in self._names.build:
            return _Callable(self._names.build[name])
        raise ModelError(
            f"it names {name.replace(' ', '.')!r:.80}, which no file of plain tensors needs; it is refused"
        )

    def _top(self) -> Any:
        if self._stack[-1] is _Mark:
            raise ValueError("a mark where a value should be")
        return self._stack[-1]

    def _list(self) -> list[Any]:
        if type(self._top()) is not list:
            raise ValueError("items for something that is no list")
        return self._stack[-1]  # type: ignore[no-any-return]

    def _set(self, flat: list[Any]) -> None:
        target = self._top()
        if type(target) is not dict or len(flat) % 2:
            raise ValueError("items for something that is no dict")
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if type(key) not in (str, int):  # to hash nested tuples may take forever
                raise ValueError(f"a key of type {type(key).__name__}")
            target[key] = value


@dataclass
class Record:
    """An object of which only the attributes are read."""

    items: dict[str, Any]
