"""Quickbeam: fast decoding of large-vocabulary sequence models.

>>> from quickbeam import Translator
>>> Translator("de-en").translate(["Guten Morgen."], beam_size=5)[0].text  # doctest: +SKIP
'Good morning.'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quickbeam.errors import InputError, ModelError, OptionError, QuickbeamError

if TYPE_CHECKING:
    from quickbeam.engine.generator import Generation, Generator
    from quickbeam.engine.head import Head
    from quickbeam.engine.scorer import Scorer
    from quickbeam.engine.trace import Trace
    from quickbeam.engine.translation import Answer, Translation
    from quickbeam.engine.translator import Translator
    from quickbeam.options.decode import MachineOptions
    from quickbeam.train.screen.head import fit_head

__all__ = [
    "Answer",
    "Generation",
    "Generator",
    "Head",
    "InputError",
    "MachineOptions",
    "ModelError",
    "OptionError",
    "QuickbeamError",
    "Scorer",
    "Trace",
    "Translation",
    "Translator",
    "fit_head",
]

_HOMES = {
    "Answer": "quickbeam.engine.translation",
    "Generation": "quickbeam.engine.generator",
    "Generator": "quickbeam.engine.generator",
    "Head": "quickbeam.engine.head",
    "MachineOptions": "quickbeam.options.decode",
    "Scorer": "quickbeam.engine.scorer",
    "Trace": "quickbeam.engine.trace",
    "Translation": "quickbeam.engine.translation",
    "Translator": "quickbeam.engine.translator",
    "fit_head": "quickbeam.train.screen.head",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import quickbeam` is quick, and training needs no native core."""
    if name not in _HOMES:
        raise AttributeError(f"module 'quickbeam' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
