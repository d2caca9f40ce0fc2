"""Searches by name. `register_search` adds one from outside of the package, as a choice of the option `search`:

>>> from sharpbeam import register_search
>>> register_search("mine", lambda run: MySearch(run.options, run.eos_id))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sharpbeam.errors import OptionError, nearest
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.interface import Search


@dataclass(frozen=True)
class SearchInputs:
    """The decoding run that a search is made for."""

    options: DecodeOptions
    bos_id: int
    eos_id: int
    vocab_size: int


Build = Callable[[SearchInputs], Search]


_SEARCHES: dict[str, Build] = {
    "beam": lambda run: BeamSearch(run.options.search, run.bos_id, run.eos_id, run.vocab_size)
}


def register_search(name: str, build: Build) -> None:
    """Make `name` a choice of the option `search`.

    `build` is called for each decoding run and returns a `search.interface.Search`, which may have up to `beam_size`
    rows for each request. Raises OptionError if the name is taken.
    """
    if name in _SEARCHES:
        raise OptionError(f"name is {name!r}; it must be another: there is a search of that name.")
    _SEARCHES[name] = build


def find_search(name: str) -> Build:
    """The search `name`; raises OptionError if there is none."""
    if name not in _SEARCHES:
        raise OptionError(f"search is {name!r}; it must be {' or '.join(_SEARCHES)}.{nearest(name, _SEARCHES)}")
    return _SEARCHES[name]
