"""The pool: models in memory, each with one session whose threads decode the requests of all clients."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from sharpbeam.api.translator import Translator
from sharpbeam.decoding.results import Translation
from sharpbeam.decoding.session import Session
from sharpbeam.errors import SharpbeamError
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.machine import MachineOptions
from sharpbeam.server.refusals import Refused


@dataclass
class Engine:
    """A model in memory."""

    translator: Translator
    session: Session[Translation]


class Pool:
    """The models in memory, each loaded for its first request. Its methods belong to the event loop."""

    def __init__(self, machine: MachineOptions | None, defaults: DecodeKeywords) -> None:
        """`machine` and `defaults` as of `Translator`."""
        self._machine, self._defaults = machine, defaults
        self.engines: dict[str, Engine] = {}
        """The models in memory by name."""
        self._loading: dict[str, asyncio.Task[Engine]] = {}

    async def take(self, names: Collection[str]) -> dict[str, Engine]:
        """The models `names`; raises Refused if one cannot be loaded."""
        return {name: self.engines.get(name) or await self._load(name) for name in names}

    async def close(self) -> None:
        """Unload all models."""
        await asyncio.gather(*(self._load(name) for name in list(self._loading)), return_exceptions=True)
        for engine in self.engines.values():
            await asyncio.to_thread(engine.session.close)
        self.engines.clear()
        gc.collect()  # sessions, lanes and requests refer to each other

    async def _load(self, name: str) -> Engine:
        """Load a model in another thread; requests that come meanwhile wait for the same one."""
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.create_task(asyncio.to_thread(self._open, name))
        try:
            self.engines[name] = await asyncio.shield(task)  # a client may leave, and others wait
        except SharpbeamError as error:
            logging.getLogger("sharpbeam").error("the model %s cannot be loaded: %s", name, error)
            raise Refused(500, f"the model {Path(name).name} cannot be loaded") from error
        finally:
            if task.done():
                self._loading.pop(name, None)
        return self.engines[name]

    def _open(self, name: str) -> Engine:
        translator = Translator(name, machine=self._machine, **self._defaults)
        session = translator.session()
        session.prepare()  # which may take seconds, and not those of the event loop
        session.start()
        return Engine(translator, session)
