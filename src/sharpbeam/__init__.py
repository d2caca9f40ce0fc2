"""Sharpbeam: fast decoding of large-vocabulary sequence models.

>>> from sharpbeam import Translator
>>> Translator("de-en").translate(["Guten Morgen."], beam_size=5)[0].text  # doctest: +SKIP
'Good morning.'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sharpbeam.errors import InputError, ModelError, OptionError, SharpbeamError

if TYPE_CHECKING:
    from sharpbeam.engine.generator import Generation, Generator
    from sharpbeam.engine.head import Head
    from sharpbeam.engine.scorer import Scorer
    from sharpbeam.engine.trace import Trace
    from sharpbeam.engine.translation import Answer, Translation
    from sharpbeam.engine.translator import Translator
    from sharpbeam.options.decode import MachineOptions
    from sharpbeam.train.screen.head import fit_head

__all__ = [
    "Answer",
    "Generation",
    "Generator",
    "Head",
    "InputError",
    "MachineOptions",
    "ModelError",
    "OptionError",
    "SharpbeamError",
    "Scorer",
    "Trace",
    "Translation",
    "Translator",
    "fit_head",
]

_HOMES = {
    "Answer": "sharpbeam.engine.translation",
    "Generation": "sharpbeam.engine.generator",
    "Generator": "sharpbeam.engine.generator",
    "Head": "sharpbeam.engine.head",
    "MachineOptions": "sharpbeam.options.decode",
    "Scorer": "sharpbeam.engine.scorer",
    "Trace": "sharpbeam.engine.trace",
    "Translation": "sharpbeam.engine.translation",
    "Translator": "sharpbeam.engine.translator",
    "fit_head": "sharpbeam.train.screen.head",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import sharpbeam` is quick, and training needs no native core."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sharpbeam' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
