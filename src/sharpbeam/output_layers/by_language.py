"""An output layer for each target language, or each direction, of a multilingual model (CVP section 2.2).

A request goes to the layer of its languages, so that one batch may hold rows of several directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sharpbeam import _core
from sharpbeam.errors import OptionError
from sharpbeam.output_layers.native import AnyNativeLayer, NativeLayer, NativeRun
from sharpbeam.types import Languages, Per, Request


class ByLanguage(NativeLayer[_core.LayerByLanguage]):
    """The layers that it chooses from, by scope (`types.Languages`); each row has the bits of its request's layer."""

    def __init__(self, per: Per, layers: Mapping[str, AnyNativeLayer]) -> None:
        """`layers` has at least one entry, and all of them score the same vocabulary; `per` is not "all"."""
        self._per, self.layers = per, layers
        super().__init__(_core.LayerByLanguage(per, list(layers), tuple(layer.native for layer in layers.values())))

    def check_languages(self, languages: Languages) -> None:
        """Raise OptionError unless one layer is for `languages`: no other was measured in these languages.

        Where the source's language is not said, the only direction into the target is taken.
        """
        scope, names = languages.scope(self._per), ", ".join(self.layers)
        if scope in self.layers:
            return
        if not languages.target:
            raise OptionError(f"target_language is missing; the model has a screen for each of {names}.")
        if self._per == "direction" and not languages.source:
            into = [other for other in self.layers if other.endswith(scope)]  # "-en"
            if len(into) == 1:
                return
            if into:
                raise OptionError(f"source_language is missing; the model has a screen for each of {', '.join(into)}.")
        what = "target_language" if self._per == "target" else "direction"
        raise OptionError(
            f"{what} is {scope.removeprefix('-')!r}; the model has a screen for each of {names}. Choose another "
            "output_layer, such as scan, or fit the screens again with text of this one too."
        )

    @property
    def fallback_counts(self) -> tuple[int, int] | None:
        """Rows so far, and those of them that fell back; None where the layers never do."""
        counts = [own for layer in self.layers.values() if (own := layer.fallback_counts)]
        return (sum(rows for rows, _ in counts), sum(fallen for _, fallen in counts)) if counts else None

    def open(self) -> NativeRun:
        """The layers in a new decoding run."""
        return _RunByLanguage(self)


class _RunByLanguage(NativeRun):
    def __init__(self, layer: ByLanguage) -> None:
        super().__init__(layer.native.open())
        self._layer = layer

    def admit(self, requests: Sequence[Request]) -> None:
        """Prepare for rows of `requests`; raises OptionError as `check_languages`."""
        for request in requests:
            self._layer.check_languages(request.languages)
        super().admit(requests)
