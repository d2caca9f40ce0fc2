"""API keys: accepted by their digests, and never kept, logged or counted as they are."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from sharpbeam.errors import InputError, OptionError
from sharpbeam.server.refusals import Refused

DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


class Keys:
    """The digests of the accepted keys; without any, every request is accepted."""

    def __init__(self, path: str = "") -> None:
        """Read the file: one key a line, as it is or as `sha256:` and its digest; lines with # are comments."""
        self._digests = _read(Path(path)) if path else []

    @property
    def required(self) -> bool:
        """Whether requests need a key."""
        return bool(self._digests)

    def check(self, key: object) -> str:
        """A short name of the client's key, or "" where none is needed; raises Refused for a wrong or missing key."""
        if not self._digests:
            return ""
        if not key or not isinstance(key, str):
            raise Refused(403, "Please contact the server operator to get an API key")
        digest = sha256(key.strip().encode(errors="replace")).hexdigest()
        equal = [hmac.compare_digest(digest, known) for known in self._digests]  # all of them: no end to be timed
        if True not in equal:
            raise Refused(403, "Invalid API key")
        return digest[:8]


def header_key(headers: Mapping[str, str]) -> str:
    """The key in the headers of a request: `Authorization: Bearer KEY` or `DeepL-Auth-Key KEY`, or `X-API-Key: KEY`."""
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key if kind.lower() in ("bearer", "deepl-auth-key") and key else headers.get("x-api-key", "")


def _read(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise InputError(f"cannot read the API keys in {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"the API keys in {path} are not UTF-8.") from error
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise OptionError(f"api_keys is {str(path)!r}; it must be a file with at least one key.")
    return [found[1] if (found := DIGEST.fullmatch(key)) else sha256(key.encode()).hexdigest() for key in keys]
