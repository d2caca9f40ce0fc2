"""Documents that are translated while their clients ask from time to time how far they are."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from sharpbeam.server.deadline import Deadline
from sharpbeam.server.files import Files
from sharpbeam.server.refusals import Refused, places
from sharpbeam.server.service import Service
from sharpbeam.storage.atomic import write_bytes
from sharpbeam.text.glossary import Glossary

SUFFIX = ".state"

log = logging.getLogger("sharpbeam.server")


class Documents:
    """The documents of a server; any of its processes knows the state of each."""

    def __init__(self, service: Service, files: Files, states: Files) -> None:
        """`files` take translations, `states` how far they are."""
        self._service, self._files, self._states = service, files, states
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(
        self, client: str, content: bytes, format: str, suffix: str, languages: tuple[str, str], terms: Glossary | None
    ) -> tuple[str, str]:
        """Begin to translate a document from one language (or "auto") to another; returns its id and its key."""
        state = {"key": secrets.token_urlsafe(24), "status": "translating"}
        name = self._states.put(json.dumps(state).encode(), SUFFIX, client)

        async def work() -> None:
            outcome: dict[str, Any] = {"status": "error", "message": "it took too long"}
            try:
                with Deadline(self._service.options.file_timeout):
                    translation = await self._service.translate_file(content, format, *languages, terms)
                    outcome = {"status": "done", "file": self._files.put(translation, suffix, client)}
            except Refused as error:
                outcome["message"] = error.message
            except Exception as error:
                log.error("%s", json.dumps({"event": "fault", **places(error)}))
                outcome["message"] = "internal error"
            with suppress(Refused, OSError):  # the server ends, or the state was too old
                write_bytes(self._states.path(name), json.dumps(state | outcome).encode())

        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return name.removesuffix(SUFFIX), state["key"]

    def state(self, id: str, key: str) -> dict[str, Any]:
        """The `status` of a document, with a `message` if that is "error"; raises Refused for a wrong id or key."""
        with suppress(Refused):
            state: dict[str, Any] = json.loads(self._states.path(id + SUFFIX).read_bytes())
            if hmac.compare_digest(state["key"].encode(), key.encode()):
                return state
        raise Refused(404, "there is no such document, or no longer")

    def result(self, id: str, key: str) -> Path:
        """The file of a translated document; raises Refused while there is none."""
        state = self.state(id, key)
        if state["status"] != "done":
            raise Refused(503, "Document translation is not done")
        return self._files.path(state["file"])
