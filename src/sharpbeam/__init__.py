"""Sharpbeam: fast decoding of large-vocabulary sequence models.

>>> from sharpbeam import Translator
>>> Translator("de-en").translate(["Guten Morgen."], beam_size=5)[0].text  # doctest: +SKIP
'Good morning.'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sharpbeam.errors import InputError, ModelError, OptionError, OutputError, RequestCancelledError, SharpbeamError

if TYPE_CHECKING:
    from pathlib import Path

    __version__: str

    from sharpbeam.api.generator import Generator
    from sharpbeam.api.head import Head
    from sharpbeam.api.scorer import Scorer
    from sharpbeam.api.translator import Translator
    from sharpbeam.convert.conversion import convert_model
    from sharpbeam.decoding.handle import Handle
    from sharpbeam.decoding.results import Answer, Generation, Partial, Translation
    from sharpbeam.decoding.session import Session
    from sharpbeam.fit.head import fit_head
    from sharpbeam.fit.layer import fit_layer
    from sharpbeam.jobs.translate_file import translate_file
    from sharpbeam.options.decode import DecodeOptions, MachineOptions
    from sharpbeam.output_layers.registry import register_output_layer
    from sharpbeam.report.profile import profile
    from sharpbeam.report.tune import tune
    from sharpbeam.search.registry import register_search

__all__ = [
    "Answer",
    "DecodeOptions",
    "Generation",
    "Generator",
    "Handle",
    "Head",
    "InputError",
    "MachineOptions",
    "ModelError",
    "OptionError",
    "OutputError",
    "Partial",
    "RequestCancelledError",
    "Scorer",
    "Session",
    "SharpbeamError",
    "Translation",
    "Translator",
    "__version__",
    "convert_model",
    "fit_head",
    "fit_layer",
    "profile",
    "register_output_layer",
    "register_search",
    "translate_file",
    "tune",
]

_NAMES = {  # of each module, those that are public here
    "api.generator": "Generator",
    "api.head": "Head",
    "api.scorer": "Scorer",
    "api.translator": "Translator",
    "convert.conversion": "convert_model",
    "decoding.handle": "Handle",
    "decoding.results": "Answer Generation Partial Translation",
    "decoding.session": "Session",
    "fit.head": "fit_head",
    "fit.layer": "fit_layer",
    "jobs.translate_file": "translate_file",
    "options.decode": "DecodeOptions MachineOptions",
    "output_layers.registry": "register_output_layer",
    "report.profile": "profile",
    "report.tune": "tune",
    "search.registry": "register_search",
}


def _make_model(files: Path, folder: Path) -> None:
    """Make a model folder of another program's files: for `hub`, which is a layer below conversion and fits."""
    import_module("sharpbeam.fit.new_model").make_model(files, folder)


def __getattr__(name: str) -> Any:
    """Import on first use: `import sharpbeam` is quick."""
    if name == "__version__":
        from sharpbeam.version import program_version

        return program_version()
    for module, names in _NAMES.items():
        if name in names.split():
            return getattr(import_module(f"sharpbeam.{module}"), name)
    raise AttributeError(f"module 'sharpbeam' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
