"""The pool: models in memory, each with one session whose threads decode the requests of all clients."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Collection
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
    """The models in memory: loaded for their first request, unloaded when others need the place.

    Its methods belong to the event loop; loading happens in another thread, one model at a time.
    """

    def __init__(
        self, catalog: Catalog, options: ServerOptions, machine: MachineOptions | None, defaults: DecodeKeywords
    ) -> None:
        """`machine` and `defaults` as of `Translator`."""
        self._catalog, self._options, self._machine, self._defaults = catalog, options, machine, defaults
        self.engines: dict[str, Engine] = {}
        """The models in memory by name."""
        self._changing = asyncio.Lock()  # held while models come and go
        self._freed = asyncio.Event()  # a model is not held any more

    @asynccontextmanager
    async def hold(self, names: Collection[str]) -> AsyncIterator[dict[str, Engine]]:
        """The models `names`, which stay in memory during the context; waits until there is a place for them.

        All are taken at once, so no two requests wait for each other. Raises Refused if one cannot be loaded.
        """
        if not self.engines.keys() >= set(names):
            async with self._changing:
                for name in names:
                    await self._load(name, names)
        engines = {name: self.engines[name] for name in names}
        for engine in engines.values():
            engine.users += 1
        try:
            yield engines
        finally:
            for engine in engines.values():
                engine.users -= 1
                engine.used = time.monotonic()
            self._freed.set()

    async def close(self) -> None:
        """Unload all models."""
        async with self._changing:
            await self._close([self.engines.pop(name) for name in list(self.engines)])

    async def _load(self, name: str, staying: Collection[str]) -> None:
        """Load a model as soon as there is a place for it; those of `staying` are not unloaded for it."""
        while name not in self.engines:
            self._freed.clear()
            leaving = self._leaving(staying)
            if leaving is None:
                await self._freed.wait()
                continue
            removed = [self.engines.pop(each) for each in leaving]  # at once: from now on no request can hold them
            task = asyncio.create_task(self._replace(removed, name))
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:  # the client left; others may wait for the same model
                await asyncio.wait([task])
                raise

    async def _replace(self, removed: list[Engine], name: str) -> None:
        await self._close(removed)
        try:
            self.engines[name] = await asyncio.to_thread(self._open, name)
        except SharpbeamError as error:
            logging.getLogger("sharpbeam").error("the model %s cannot be loaded: %s", name, error)
            raise Refused(500, f"the model {Path(name).name} cannot be loaded") from error

    def _open(self, name: str) -> Engine:
        translator = Translator(name, machine=self._machine, **self._defaults)
        session = translator.session()
        session.prepare()  # which may take seconds, and not those of the event loop
        session.start()
        try:
            translator.loaded.open_attending()
        except OptionError:
            return Engine(translator, session, attends=False)
        return Engine(translator, session)

    def _leaving(self, staying: Collection[str]) -> list[str] | None:
        """The models to unload so that there is a place for another one; None while too many are held by requests."""
        excess = len(self.engines) + 1 - self._options.max_models if self._options.max_models else 0
        others = {name: engine for name, engine in self.engines.items() if name not in staying}
        number = min(max(0, excess), len(others))  # what one request needs is loaded, however many they are
        idle = sorted((engine.used, name) for name, engine in others.items() if not engine.users)
        return [name for _, name in idle[:number]] if len(idle) >= number else None

    @staticmethod
    async def _close(engines: list[Engine]) -> None:
        for engine in engines:
            await asyncio.to_thread(engine.session.close)
        if engines:
            engines.clear()
            gc.collect()  # sessions, lanes and requests refer to each other
