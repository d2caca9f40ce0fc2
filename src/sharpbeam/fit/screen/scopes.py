"""Which directions of a multilingual model share a screen: all, those into one language, or none (CVP section 2.2).

Vectors of directions that share a screen are clustered together, an equal number of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from sharpbeam.errors import OptionError
from sharpbeam.fit.screen.collect import Collection
from sharpbeam.options.schema import require
from sharpbeam.types import Languages, Per


def scopes(directions: Sequence[Languages], per: str, multilingual: bool) -> tuple[Per, dict[str, list[Languages]]]:
    """The unit that a screen is fitted per, and the directions of each by its scope.

    `per` may also be "auto": a direction for a `multilingual` model, a target where a source's language was left
    unsaid, as models with >>fra<< before a source do, and all for a model of one direction. Raises OptionError
    for what the model has not, and for a direction without the language that its scope is called by.
    """
    automatic: Per = "all" if not multilingual else "direction" if all(one.source for one in directions) else "target"
    for chosen in get_args(Per):
        if chosen == (automatic if per == "auto" else per):
            break
    else:
        raise OptionError(f"per is {per!r}; it must be auto, all, target or direction.")
    require(multilingual or chosen == "all", "per", per, "all for a model with one direction only")
    groups: dict[str, list[Languages]] = {}
    for languages in directions:
        said = (languages.source or chosen != "direction") and (languages.target or chosen == "all")
        wanted = "SOURCE-TARGET=FILE" if chosen == "direction" else "TARGET=FILE"
        named = languages.scope("direction").strip("-")
        where = f"given as {wanted} where each {chosen} has a screen"
        if chosen == "direction":
            where += "; --per target needs no SOURCE"
        require(bool(said), "direction of --text", named, where)
        groups.setdefault(languages.scope(chosen), []).append(languages)
    return chosen, groups


def shares(groups: Mapping[str, list[Languages]], vectors: int) -> dict[Languages, int]:
    """How many of the `vectors` of a screen are of each direction."""
    return {languages: -(-vectors // len(group)) for group in groups.values() for languages in group}


def shared(groups: Mapping[str, list[Languages]], collections: Mapping[Languages, Collection]) -> dict[str, Collection]:
    """The collection that each screen is fitted on, by its scope."""
    return {scope: Collection.of([collections[languages] for languages in group]) for scope, group in groups.items()}
