"""Glossaries of clients, each for one direction, until they are deleted or the server ends."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sharpbeam.errors import InputError
from sharpbeam.server.catalog import Catalog
from sharpbeam.server.files import Files
from sharpbeam.server.refusals import Refused, bad_request
from sharpbeam.text.glossary import Glossary

LARGEST = 4 * 2**20  # bytes of a glossary of which there is space for 16; a small one takes less
MOST_TERMS = 10_000  # of a glossary
SUFFIX = ".json"


class Glossaries:
    """The glossaries of a server, in all its processes; each belongs to the client that made it."""

    def __init__(self, catalog: Catalog, folder: Path) -> None:
        self._catalog, self._files = catalog, Files(LARGEST, folder, math.inf)

    def add(self, client: str, name: str, source: str, target: str, terms: Mapping[str, str]) -> dict[str, Any]:
        """Add a glossary from `source` to `target`; returns its facts with its `id`. Raises Refused."""
        source, target = self._catalog.code_of(source), self._catalog.code_of(target)
        self._catalog.route(source, target)
        if not 0 < len(terms) <= MOST_TERMS:
            raise bad_request(f"entries has {len(terms)} terms; give 1 to {MOST_TERMS}")
        try:
            Glossary(terms)
        except InputError as error:
            raise bad_request(f"Invalid request: {error}") from None
        facts = {"name": name, "source": source, "target": target, "time": time.time(), "count": len(terms)}
        content = "\n".join(json.dumps(part) for part in (facts, dict(terms)))  # a list reads the first line
        return facts | {"id": self._files.put(content.encode(), SUFFIX, client).removesuffix(SUFFIX)}

    def all(self, client: str) -> list[dict[str, Any]]:
        """The facts of all glossaries of a client, the oldest first."""
        each = (self.facts(client, name.removesuffix(SUFFIX)) for name in self._files.names(client))
        return sorted(each, key=lambda facts: (facts["time"], facts["id"]))

    def facts(self, client: str, id: str) -> dict[str, Any]:
        """The facts of a glossary, as `add` returns them; raises Refused if the client has none with this `id`."""
        with self._path(client, id).open() as file:
            return dict(json.loads(file.readline()), id=id)

    def entries(self, client: str, id: str) -> dict[str, str]:
        """The terms of a glossary and their translations; raises Refused if the client has none with this `id`."""
        return _terms(self._path(client, id))

    def glossary(self, client: str, id: str, source: str, target: str) -> Glossary | None:
        """The glossary with an `id`, for texts from `source` to `target`; None without an `id`. Raises Refused."""
        if not id:
            return None
        facts, (own, other) = self.facts(client, id), (self._catalog.code_of(code) for code in (source, target))
        if (facts["source"], facts["target"]) != (own, other):
            raise bad_request(f"the glossary is from {facts['source']} to {facts['target']}, not {own} to {other}")
        return _glossary(self._path(client, id))

    def delete(self, client: str, id: str) -> None:
        """Delete a glossary; raises Refused if the client has none with this `id`."""
        self._path(client, id).unlink(missing_ok=True)

    def _path(self, client: str, id: str) -> Path:
        try:
            return self._files.path(id + SUFFIX, client)
        except Refused:
            raise Refused(404, "there is no such glossary") from None


def _terms(path: Path) -> dict[str, str]:
    return dict(json.loads(path.read_bytes().partition(b"\n")[2]))


@lru_cache(maxsize=32)
def _glossary(path: Path) -> Glossary:
    """The glossary of a file, which never changes."""
    return Glossary(_terms(path))
