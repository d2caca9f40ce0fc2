"""Ctrl-C during training: the loop ends between two steps, so that what it saves is whole."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interrupt:
    """While entered, the first SIGINT or SIGTERM sets `wanted`; another one raises KeyboardInterrupt at once.

    Signals reach the main thread only; in any other thread this does nothing.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.wanted = False

    def __enter__(self) -> Interrupt:
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = [signal.signal(number, self._handle) for number in self.SIGNALS]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._main:
            for number, handler in zip(self.SIGNALS, self._before, strict=True):
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
