"""The catalog: which models are served, in which directions they translate, and the route between two languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sharpbeam.decoding.languages import LanguageTags
from sharpbeam.decoding.loading import find_models
from sharpbeam.errors import OptionError
from sharpbeam.hub.cache import check
from sharpbeam.hub.names import name_of
from sharpbeam.server.refusals import bad_request
from sharpbeam.storage.model_folder import read_facts
from sharpbeam.text.languages import direction_in

ALIASES = {"zh": "zh-Hans", "zt": "zh-Hant", "pb": "pt-BR"}  # of LibreTranslate


@dataclass(frozen=True)
class Entry:
    """A model that is served."""

    name: str  # without its direction
    pairs: frozenset[tuple[str, str]]  # of languages, source and target
    multilingual: bool  # whether requests must name the languages


@dataclass(frozen=True)
class Hop:
    """One model's part of a route."""

    model: str
    languages: dict[str, str] = field(default_factory=dict)  # keywords of a request: source_language, target_language


class Catalog:
    """The models by direction; the first one that translates a direction serves it."""

    def __init__(self, models: Sequence[str], pivot: str = "") -> None:
        """Read the facts of `models`: bundled names, folders, or `de-en=FOLDER` where its name tells no direction.

        Raises ModelError for what is no model, OptionError where a direction is missing.
        """
        self.entries = dict[str, Entry]()
        for entry in map(_entry, models):
            known = self.entries.get(entry.name, entry)
            self.entries[entry.name] = replace(entry, pairs=known.pairs | entry.pairs)
        self.pivot = pivot
        self._direct: dict[tuple[str, str], Hop] = {}
        for entry in self.entries.values():
            for source, target in sorted(entry.pairs):
                keywords = {"source_language": source, "target_language": target} if entry.multilingual else {}
                self._direct.setdefault((source, target), Hop(entry.name, keywords))
        self.languages = sorted({code for pair in self._direct for code in pair})  # of sources and targets
        self._codes = {each.lower().replace("_", "-"): each for each in self.languages}
        self._targets = {source: self._reachable(source) for source, _ in self._direct}
        self.sources = sorted(self._targets)  # that can be translated

    def targets(self, source: str) -> list[str]:
        """Codes of the languages into which `source` can be translated, directly or through the pivot; maybe none."""
        return self._targets.get(source, [])

    def code_of(self, code: str) -> str:
        """The code of a served language for one that a client sent: other case, an alias, or with a region.

        Raises Refused.
        """
        plain = code.lower().replace("_", "-")
        for each in (plain, ALIASES.get(plain, "").lower(), plain.split("-")[0]):
            if each in self._codes:
                return self._codes[each]
        raise bad_request(f"{code[:40]} is not supported")

    def route(self, source: str, target: str) -> tuple[Hop, ...]:
        """The models from `source` to `target`, codes of served languages: none, one or two. Raises Refused."""
        if source == target:
            return ()
        if (source, target) in self._direct:
            return (self._direct[source, target],)
        if target in self._targets.get(source, ()):
            return (self._direct[source, self.pivot], self._direct[self.pivot, target])
        raise bad_request(f"{target} is not available as a target language from {source}")

    def _reachable(self, source: str) -> list[str]:
        direct = {target for begin, target in self._direct if begin == source}
        if self.pivot in direct:
            direct |= {target for begin, target in self._direct if begin == self.pivot}
        return sorted(direct - {source})


def _entry(argument: str) -> Entry:
    """The entry of a model as it is named on the command line."""
    direction, equals, name = argument.partition("=")
    said = bool(equals) and not Path(argument).exists()
    direction, name = (direction, name) if said else (argument, argument)
    fetched = name_of(name)  # of one direction, and fetched at the first use
    if lazy := fetched is not None and fetched.registry in ("firefox", "bergamot"):
        check(fetched)
    tags = LanguageTags() if lazy else LanguageTags.of(read_facts(find_models(name)[0]).config)
    if tags.tokens:
        pairs = {(source, target) for source in tags.tokens for target in tags.tokens if source != target}
        return Entry(name, frozenset(pairs), True)
    pair = [*fetched.pair[:2]] if lazy and fetched is not None and not said else direction_in(direction, known=not said)
    if not pair:
        raise OptionError(
            f"the model {name!r} has one direction, and {direction!r} does not say which; write SOURCE-TARGET=FOLDER, "
            f"for example de-en={name}"
        )
    return Entry(name, frozenset({(pair[0], pair[1])}), False)
