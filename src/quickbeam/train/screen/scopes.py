"""Which directions of a multilingual model share a screen: all, those into one language, or none (CVP section 2.2).

Vectors of directions that share a screen are clustered together, an equal number of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quickbeam.errors import OptionError
from quickbeam.options.schema import require
from quickbeam.train.screen.collect import Collection
from quickbeam.types import Languages, Per


def scopes(directions: Iterable[Languages], per: str, multilingual: bool) -> tuple[Per, dict[str, list[Languages]]]:
    """What there will be a screen per, and the directions of each by its scope.

    `per` may also be "auto": a direction for a `multilingual` model, and all for another one. Raises OptionError for
    what the model has not, and for a direction without the language that its scope is called by.
    """
    for chosen in ("all", "target", "direction"):
        if chosen == per or (per == "auto" and chosen == ("direction" if multilingual else "all")):
            break
    else:
        raise OptionError(f"per is {per!r}; it must be auto, all, target or direction.")
    require(multilingual or chosen == "all", "per", per, "all for a model with one direction only")
    groups: dict[str, list[Languages]] = {}
    for languages in directions:
        said = (languages.source or chosen != "direction") and (languages.target or chosen == "all")
        wanted = "SOURCE-TARGET=FILE" if chosen == "direction" else "TARGET=FILE"
        named = languages.scope("direction").strip("-")
        require(bool(said), "direction of --text", named, f"given as {wanted} where each {chosen} has a screen")
        groups.setdefault(languages.scope(chosen), []).append(languages)
    return chosen, groups


def shares(groups: Mapping[str, list[Languages]], vectors: int) -> dict[Languages, int]:
    """How many of the `vectors` of a screen are of each direction."""
    return {languages: -(-vectors // len(group)) for group in groups.values() for languages in group}


def shared(groups: Mapping[str, list[Languages]], collections: Mapping[Languages, Collection]) -> dict[str, Collection]:
    """The collection that each screen is fitted on, by its scope."""
    return {scope: Collection.of([collections[languages] for languages in group]) for scope, group in groups.items()}
