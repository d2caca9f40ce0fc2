"""An output layer for each target language, or each direction, of a multilingual model (CVP section 2.2).

A request goes to the layer of its languages, so that rows of several directions may stand in one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from sharpbeam.errors import OptionError
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.output_layers.screen import ScreenLayer
from sharpbeam.types import Floats, Ids, Languages, Per, Request, Screen, Screens, TopK


def for_screens(screens: Screens, build: Callable[[Screen], OutputLayer]) -> OutputLayer:
    """The layer that `build` makes of the one screen for all; of several, the layer that chooses by language."""
    if screens.per == "all":
        return build(screens.by_scope[""])
    return ByLanguage(screens.per, {scope: build(screen) for scope, screen in screens.by_scope.items()})


def find_scope(per: Per, there: Collection[str], languages: Languages) -> str:
    """The scope, one of those that are `there`, whose screen serves `languages`.

    Where the source's language is not said, the only direction into the target is taken. Raises OptionError where there
    is none, or more than one could be meant: no other screen was measured in these languages.
    """
    scope = languages.scope(per)
    if scope in there:
        return scope
    if not languages.target:
        raise OptionError(f"target_language is missing; the model has a screen for each of {', '.join(there)}.")
    if per == "direction" and not languages.source:
        into = [other for other in there if other.endswith(scope)]  # "-en"
        if len(into) == 1:
            return into[0]
        if into:
            raise OptionError(f"source_language is missing; the model has a screen for each of {', '.join(into)}.")
    what = "target_language" if per == "target" else "direction"
    raise OptionError(
        f"{what} is {scope.removeprefix('-')!r}; the model has a screen for each of {', '.join(there)}. Choose another "
        "output_layer, such as scan, or fit the screens again with text of this one too."
    )


class ByLanguage:
    """`output_layers.interface.OutputLayer`: the layers that it chooses from, by scope (`types.Languages`)."""

    def __init__(self, per: Per, layers: Mapping[str, OutputLayer]) -> None:
        """`layers` has at least one entry, and all of them score the same vocabulary."""
        self._per, self.layers = per, layers
        self.vocab_size = next(iter(layers.values())).vocab_size

    def scope(self, languages: Languages) -> str:
        """Which layer answers a request in `languages`; raises OptionError as `find_scope`."""
        return find_scope(self._per, self.layers, languages)

    @property
    def fallback_share(self) -> float | None:
        """Share of the rows so far that went to the exact layer; None where the layers have none."""
        counts = [layer.counts for layer in self.layers.values() if isinstance(layer, ScreenLayer)]
        seen, doubtful = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
        return doubtful / max(seen, 1) if counts else None

    def open(self) -> OutputLayerRun:
        """The layers in a new decoding run; each is opened by its first request."""
        return _Run(self)


class _Run:
    """`output_layers.interface.OutputLayerRun`: each row has the bits that the layer of its request gives."""

    def __init__(self, layer: ByLanguage) -> None:
        self._layer = layer
        self._runs: dict[str, OutputLayerRun] = {}
        self._scope: dict[int, str] = {}  # of each request in flight
        self._flying: Counter[str] = Counter()  # requests of each scope

    def admit(self, requests: Sequence[Request]) -> None:
        """Tell each layer of its requests; raises OptionError as `ByLanguage.scope`."""
        mine: dict[str, list[Request]] = {}
        for request in requests:
            scope = self._scope[request.index] = self._layer.scope(request.languages)
            mine.setdefault(scope, []).append(request)
        for scope, group in mine.items():
            if scope not in self._runs:
                self._runs[scope] = self._layer.layers[scope].open()
            self._runs[scope].admit(group)
            self._flying[scope] += len(group)

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], by the layers of its `request` [R]."""
        if len(self._flying) == 1:
            return self._runs[next(iter(self._flying))].topk(hidden, k, request)
        log_prob, token = np.empty((len(hidden), k), np.float32), np.empty((len(hidden), k), np.int32)
        for scope, rows in self._rows(request).items():
            top = self._runs[scope].topk(hidden[rows], k, request[rows])
            log_prob[rows], token[rows] = top.log_prob, top.token
        return TopK(log_prob, token)

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        """Log probability [R] of the given token [R] of each row."""
        log_prob = np.empty(len(hidden), np.float32)
        for scope, rows in self._rows(request).items():
            log_prob[rows] = self._runs[scope].log_prob(hidden[rows], token[rows], request[rows])
        return log_prob

    def evict(self, request: Ids) -> None:
        """Forget the requests named by index, [n] int32."""
        scopes = {index: self._scope.pop(index) for index in request.tolist()}
        for scope in set(scopes.values()):
            mine = [index for index, own in scopes.items() if own == scope]
            self._runs[scope].evict(np.array(mine, np.int32))
            self._flying[scope] -= len(mine)
        self._flying = +self._flying  # without those that have none

    def _rows(self, request: Ids) -> dict[str, list[int]]:
        """The places of the rows of each scope."""
        rows: dict[str, list[int]] = {}
        for place, index in enumerate(request.tolist()):
            rows.setdefault(self._scope[index], []).append(place)
        return rows
