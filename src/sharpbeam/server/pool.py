"""The pool: models in memory, each with one session whose threads decode the requests of all clients."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sharpbeam.api.translator import Translator
from sharpbeam.decoding.results import Translation
from sharpbeam.decoding.session import Session
from sharpbeam.errors import OptionError, SharpbeamError
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.server import ServerOptions
from sharpbeam.server.catalog import Catalog
from sharpbeam.server.refusals import Refused

if TYPE_CHECKING:
    from sharpbeam.options.keywords import DecodeKeywords


@dataclass
class Engine:
    """A model in memory."""

    translator: Translator
    session: Session[Translation]
    attends: bool = True  # whether the model has attention to a source
    users: int = 0  # requests that hold it
    used: float = field(default_factory=time.monotonic)  # when the last one let go


class Pool:
    """The models in memory: loaded when they are first asked for, unloaded when others need the place or when idle.

    Its methods belong to the event loop; loading happens in another thread.
    """

    def __init__(
        self, catalog: Catalog, options: ServerOptions, machine: MachineOptions | None, defaults: DecodeKeywords
    ) -> None:
        """`machine` and `defaults` as of `Translator`."""
        self._catalog, self._options, self._machine, self._defaults = catalog, options, machine, defaults
        self.engines: dict[str, Engine] = {}
        """The models in memory by name."""
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._freed = asyncio.Event()  # set, and replaced, when there may be a place

    @asynccontextmanager
    async def engine(self, name: str) -> AsyncIterator[Engine]:
        """The model `name`, which stays in memory while it is held; waits until there is a place for it.

        Raises Refused if it cannot be loaded.
        """
        while (engine := self.engines.get(name)) is None:
            await self._load(name)
        engine.users += 1
        try:
            yield engine
        finally:
            engine.users -= 1
            engine.used = time.monotonic()
            if not engine.users:
                self._free()

    async def unload_idle(self) -> None:
        """Unload what was not used for `idle_unload` seconds; does not return."""
        seconds = self._options.idle_unload
        while seconds:
            await asyncio.sleep(min(1.0, seconds / 2))
            before = time.monotonic() - seconds
            idle = [name for name, engine in self.engines.items() if not engine.users and engine.used < before]
            await self._close([self.engines.pop(name) for name in idle])

    async def close(self) -> None:
        """Unload all models."""
        for task in list(self._loading.values()):
            await asyncio.wait([task])
        await self._close([self.engines.pop(name) for name in list(self.engines)])

    async def _load(self, name: str) -> None:
        """Wait until the model is loaded, or until there may be a place for it."""
        if name not in self._loading:
            leaving = self._leaving(name)
            if leaving is None:
                await self._freed.wait()
                return
            # A task of its own: a client that leaves does not stop what others wait for.
            task = asyncio.create_task(self._replace([self.engines.pop(other) for other in leaving], name))
            task.add_done_callback(lambda done: done.exception())  # it may be that no request waits for it any more
            self._loading[name] = task
        await asyncio.shield(self._loading[name])

    async def _replace(self, leaving: list[Engine], name: str) -> None:
        try:
            await self._close(leaving)
            self.engines[name] = await asyncio.to_thread(self._open, name)
        except SharpbeamError as error:
            logging.getLogger("sharpbeam").error("the model %s cannot be loaded: %s", name, error)
            raise Refused(500, f"the model {Path(name).name} cannot be loaded") from error
        finally:
            del self._loading[name]
            self._free()

    def _open(self, name: str) -> Engine:
        translator = Translator(name, machine=self._machine, **self._defaults)
        session = translator.session()
        session.start()
        try:
            translator.loaded.open_attending()
        except OptionError:
            return Engine(translator, session, attends=False)
        return Engine(translator, session)

    def _leaving(self, name: str) -> list[str] | None:
        """The models to unload so that there is a place for `name`; None while too many are held by requests."""
        entries, options = self._catalog.entries, self._options
        idle = sorted((engine.used, other) for other, engine in self.engines.items() if not engine.users)
        staying, leaving = [*self.engines, *self._loading], []
        while staying:  # alone, a model of any size may be loaded
            size = sum(entries[each].size for each in (*staying, name))
            too_many = 0 < options.max_models <= len(staying)
            if not too_many and not 0 < options.max_model_memory * 2**20 < size:
                break
            if not idle:
                return None
            _, other = idle.pop(0)
            staying.remove(other)
            leaving.append(other)
        return leaving

    @staticmethod
    async def _close(engines: list[Engine]) -> None:
        for engine in engines:
            await asyncio.to_thread(engine.session.close)
        if engines:
            engines.clear()
            gc.collect()  # sessions, lanes and requests refer to each other

    def _free(self) -> None:
        self._freed.set()
        self._freed = asyncio.Event()
