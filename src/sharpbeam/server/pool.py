"""The pool: models in memory, each with one session whose threads decode the requests of all clients."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Collection
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


class Held:
    """Models by name, which stay in memory until the end of the context."""

    def __init__(self, engines: dict[str, Engine], freed: asyncio.Event) -> None:
        self._engines, self._freed = engines, freed
        for engine in engines.values():
            engine.users += 1

    def __enter__(self) -> dict[str, Engine]:
        return self._engines

    def __exit__(self, *error: object) -> None:
        for engine in self._engines.values():
            engine.users -= 1
            engine.used = time.monotonic()
        self._freed.set()


class Pool:
    """The models in memory: loaded when they are first asked for, unloaded when others need the place or when idle.

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

    async def hold(self, names: Collection[str]) -> Held:
        """The models `names`, which stay in memory while they are held; waits until there is a place for them.

        `with await pool.hold(names) as engines`. All are taken at once, so no two requests wait for each other. Raises
        Refused if one cannot be loaded.
        """
        if not self.engines.keys() >= set(names):
            async with self._changing:
                for name in names:
                    await self._load(name, names)
                return self._take(names)
        return self._take(names)

    async def unload_idle(self) -> None:
        """Unload what was not used for `idle_unload` seconds; does not return."""
        seconds = self._options.idle_unload
        while seconds:
            await asyncio.sleep(min(1.0, seconds / 2))
            async with self._changing:
                before = time.monotonic() - seconds
                idle = [name for name, engine in self.engines.items() if not engine.users and engine.used < before]
                await self._close(self._removed(idle))

    async def close(self) -> None:
        """Unload all models."""
        async with self._changing:
            await self._close(self._removed(list(self.engines)))

    def _take(self, names: Collection[str]) -> Held:
        return Held({name: self.engines[name] for name in names}, self._freed)

    async def _load(self, name: str, staying: Collection[str]) -> None:
        """Load a model as soon as there is a place for it; those of `staying` are not unloaded for it."""
        while name not in self.engines:
            self._freed.clear()
            leaving = self._leaving(name, staying)
            if leaving is None:
                await self._freed.wait()
                continue
            task = asyncio.create_task(self._replace(self._removed(leaving), name))
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

    def _leaving(self, name: str, staying: Collection[str]) -> list[str] | None:
        """The models to unload so that there is a place for `name`; None while too many are held by requests."""
        sizes, options = {each: entry.size for each, entry in self._catalog.entries.items()}, self._options
        there, leaving = list(self.engines), []
        idle = sorted((e.used, other) for other, e in self.engines.items() if not e.users and other not in staying)
        while not set(there) <= set(staying):  # what one request needs is loaded, whatever its size
            size = sum(sizes[each] for each in (*there, name))
            too_many = 0 < options.max_models <= len(there)
            if not too_many and not 0 < options.max_model_memory * 2**20 < size:
                break
            if not idle:
                return None
            _, other = idle.pop(0)
            there.remove(other)
            leaving.append(other)
        return leaving

    def _removed(self, names: list[str]) -> list[Engine]:
        """The models, taken out at once: from now on no request can take hold of them, and they can be closed."""
        return [self.engines.pop(name) for name in names]

    @staticmethod
    async def _close(engines: list[Engine]) -> None:
        for engine in engines:
            await asyncio.to_thread(engine.session.close)
        if engines:
            engines.clear()
            gc.collect()  # sessions, lanes and requests refer to each other
