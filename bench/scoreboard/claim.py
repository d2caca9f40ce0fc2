"""A claim and its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How the claims of a part are to be measured."""

    data: str  # folder of the text
    model: str
    quick: bool  # fewer sentences and rounds, under ten minutes for a part
    models: tuple[str, ...] = ()  # folders in which a part that is about several models looks for them


@dataclass(frozen=True)
class Verdict:
    """The outcome."""

    holds: bool
    figure: str


@dataclass(frozen=True)
class Claim:
    """One promise: its number in the part's list, what it says, its target, and how it is measured."""

    number: str
    says: str
    target: str
    measure: Callable[[Settings], Verdict]
