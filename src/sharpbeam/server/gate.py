"""The gate of all endpoints: keys and bodies of requests, and work that ends when its client leaves.

API keys are accepted by their digests, and never kept, logged or counted as they are.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Coroutine, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request

from sharpbeam.errors import InputError, OptionError
from sharpbeam.server.bodies import read_fields
from sharpbeam.server.deadline import Deadline
from sharpbeam.server.refusals import Refused
from sharpbeam.server.service import Query, Service, TranslatedText

T = TypeVar("T")
DIGEST = re.compile(r"sha256:([0-9a-f]{64})", re.IGNORECASE)


class Gate:
    """Lets requests in: their key, their body."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._digests = _read_keys(Path(service.options.api_keys)) if service.options.api_keys else []
        self.key_required = bool(self._digests)

    async def fields(self, request: Request) -> dict[str, Any]:
        """The fields of the body of a request that may come in; raises Refused."""
        options = self.service.options
        admitted = self.admit_by_head(request)
        fields = await read_fields(request, options.body_limit, options.body_timeout)
        if not admitted:
            self.admit_by_body(request, fields)
        return fields

    def admit_by_head(self, request: Request) -> bool:
        """Admit a request before its body is read; false where only the body can have the key."""
        if self._digests and not _key_before_body(request):
            return False
        self.admit(request)
        return True

    def admit_by_body(self, request: Request, fields: Mapping[str, Any]) -> None:
        """Admit a request by a key in the fields of its body; raises Refused."""
        self.admit(request, fields.get("api_key") or fields.get("auth_key"))  # DeepL's name for it

    def admit(self, request: Request, key: object = None) -> None:
        """Raise Refused unless the client has a key, where one is needed; `key` counts where the head has none."""
        if not self._digests:
            note(request, key="")
            return
        key = _key_before_body(request) or key
        if not key or not isinstance(key, str):
            raise Refused(403, "Please contact the server operator to get an API key")
        digest = sha256(key.strip().encode(errors="replace")).hexdigest()
        equal = [hmac.compare_digest(digest, known) for known in self._digests]  # all of them: no end to be timed
        if True not in equal:
            raise Refused(403, "Invalid API key")
        note(request, key=digest[:8])

    def client(self, request: Request) -> str:
        """The client of a request that was admitted: the name of its key, or its address."""
        return request.scope["sharpbeam.log"]["key"] or (request.client.host if request.client else "")

    async def translate(self, request: Request, query: Query) -> list[TranslatedText]:
        """The translations of the texts of a request; raises Refused."""
        note(request, texts=len(query.texts), characters=sum(map(len, query.texts)))
        return await self.answer(request, self.service.translate(query))

    async def answer(self, request: Request, work: Coroutine[Any, Any, T], seconds: float = 0.0) -> T:
        """The result of `work`, which is cancelled when the client leaves or the time is over; raises Refused."""
        seconds = seconds or self.service.options.timeout
        with Deadline(seconds, request.receive) as deadline:
            return await work
        if deadline.absent:
            raise Refused(499, "the client left")
        raise Refused(503, f"no answer within {seconds:g} seconds", seconds)


def note(request: Request, **facts: Any) -> None:
    """Add facts to the line that is logged for a request. Never text, never a key."""
    request.scope.setdefault("sharpbeam.log", {}).update(facts)


def _key_before_body(request: Request) -> str:
    """The key in a head: `Authorization: Bearer KEY` or `DeepL-Auth-Key KEY`, `X-API-Key: KEY`, or in the address."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    named = key if kind.lower() in ("bearer", "deepl-auth-key") and key else request.headers.get("x-api-key", "")
    return named or request.query_params.get("api_key") or request.query_params.get("auth_key", "")


def _read_keys(path: Path) -> list[str]:
    """The digests in a file: one key a line, as it is or as `sha256:` and its digest; lines with # are comments."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise InputError(f"cannot read the API keys in {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"the API keys in {path} are not UTF-8.") from error
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise OptionError(f"api_keys is {str(path)!r}; it must be a file with at least one key.")
    digests = [match and match[1].lower() for match in map(DIGEST.fullmatch, keys)]
    for key, digest in zip(keys, digests, strict=True):
        if digest is None and key.lower().startswith("sha256:"):  # as a key it would let in all who can read the file
            raise OptionError(f"{path} has a line that begins with sha256: and is not exactly that and 64 hex digits.")
    return [digest or sha256(key.encode()).hexdigest() for key, digest in zip(keys, digests, strict=True)]
