"""Names of models that are fetched: firefox:en-pt, opus:de-en, hf:owner/name, or the address of an archive.

cache.py fetches and keeps them, registries.py finds their files.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from sharpbeam.errors import OptionError

# After hf and ct2 there is OWNER/NAME[@REVISION], after opus SOURCE-TARGET, after the others SOURCE-TARGET[/KIND].
REGISTRIES = ("firefox", "bergamot", "opus", "hf", "ct2")
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w.-]+)?", re.ASCII)  # with a branch, tag or commit
_REGION = r"(?:[-_][A-Za-z0-9]{2,8})"  # or script
PAIR = re.compile(rf"([a-z]{{2,3}}{_REGION}??)-([a-z]{{2,3}}{_REGION}?)(/[a-z][\w-]*)?", re.ASCII)
_URL = re.compile(r"https?://[^#]*(#sha256=[0-9a-f]{64})?")
_ARCHIVE = re.compile(r"\.(tar|tar\.gz|tgz|zip)$")


@dataclass(frozen=True)
class Name:
    """A checked name of a model to fetch."""

    registry: str  # one of REGISTRIES, or "url"
    rest: str  # what follows it; of "url" the whole address

    def __str__(self) -> str:
        return self.rest if self.registry == "url" else f"{self.registry}:{self.rest}"

    @property
    def place(self) -> PurePosixPath:
        """Its folder in the cache; the last part is the model's title."""
        if self.registry in ("hf", "ct2"):
            return PurePosixPath(self.registry, self.rest)
        if self.registry != "url":
            return PurePosixPath(self.registry, self.rest.replace("/", "-"))
        stem = _ARCHIVE.sub("", PurePosixPath(urlsplit(self.rest).path).name)
        title = re.sub(r"[^\w.-]", "_", stem, flags=re.ASCII).lstrip(".")[:80] or "model"
        return PurePosixPath("url", hashlib.sha256(self.rest.encode()).hexdigest()[:16], title)

    @property
    def pair(self) -> tuple[str, str, str]:
        """Source, target, and the kind after them, such as "tiny"; "" for the registry's choice."""
        match = PAIR.fullmatch(self.rest)
        assert match is not None  # `name_of` has checked it
        return match[1], match[2], (match[3] or "")[1:]


def name_of(text: str) -> Name | None:
    """The name that `text` is; None for what is no name of a model to fetch. Raises OptionError for a wrong one."""
    if text.startswith(("http://", "https://")):
        if not _URL.fullmatch(text):
            raise OptionError(f"the model is {text!r}; after # write sha256= and 64 hexadecimal digits.")
        return Name("url", text)
    registry, colon, rest = text.partition(":")
    if not colon or registry not in REGISTRIES:
        return None
    in_hub = registry in ("hf", "ct2")
    if not (HUB_NAME if in_hub else PAIR).fullmatch(rest) or ".." in rest:
        form = "OWNER/NAME" if in_hub else "SOURCE-TARGET in small letters, for example de-en"
        raise OptionError(f"the model is {text!r}; after {registry}: write {form}.")
    return Name(registry, rest)
