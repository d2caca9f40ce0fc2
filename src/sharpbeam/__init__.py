"""Sharpbeam: fast decoding of large-vocabulary sequence models.

>>> from sharpbeam import Translator
>>> Translator("de-en").translate(["Guten Morgen."], beam_size=5)[0].text  # doctest: +SKIP
'Good morning.'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sharpbeam.errors import InputError, ModelError, OptionError, OutputError, RequestCancelledError, SharpbeamError

if TYPE_CHECKING:
    __version__: str

    from sharpbeam.api.generator import Generator
    from sharpbeam.api.head import Head
    from sharpbeam.api.scorer import Scorer
    from sharpbeam.api.translator import Translator
    from sharpbeam.convert.conversion import Conversion, convert_model, export_model
    from sharpbeam.decoding.handle import Handle
    from sharpbeam.decoding.results import Answer, Generation, Partial, Translation
    from sharpbeam.decoding.session import Session
    from sharpbeam.decoding.trace import Trace
    from sharpbeam.fit.head import fit_head
    from sharpbeam.fit.low_bit_job import PreviewFit, fit_preview
    from sharpbeam.fit.model_head import fit_model_head
    from sharpbeam.fit.progress import FitProgress
    from sharpbeam.fit.screen.job import ScreenFit, fit_screen
    from sharpbeam.fit.shortlist.job import ShortlistFit, export_shortlist, fit_shortlist
    from sharpbeam.jobs.translate_file import JobStats, translate_file
    from sharpbeam.options.decode import DecodeOptions, MachineOptions
    from sharpbeam.options.fit import ScreenOptions, ShortlistOptions
    from sharpbeam.output_layers.registry import register_output_layer
    from sharpbeam.report.assessment import Assessment, assess, write_sheets
    from sharpbeam.report.compare import Comparison, compare
    from sharpbeam.report.profile_report import ProfileReport, profile
    from sharpbeam.report.screen_report import ScreenReport, screen_report
    from sharpbeam.report.tune import Tuning, tune
    from sharpbeam.search.registry import register_search

__all__ = [
    "Answer",
    "Assessment",
    "Comparison",
    "Conversion",
    "DecodeOptions",
    "FitProgress",
    "Generation",
    "Generator",
    "Handle",
    "Head",
    "InputError",
    "JobStats",
    "MachineOptions",
    "ModelError",
    "OptionError",
    "OutputError",
    "Partial",
    "PreviewFit",
    "ProfileReport",
    "RequestCancelledError",
    "Scorer",
    "ScreenFit",
    "ScreenOptions",
    "ScreenReport",
    "Session",
    "SharpbeamError",
    "ShortlistFit",
    "ShortlistOptions",
    "Trace",
    "Translation",
    "Translator",
    "Tuning",
    "__version__",
    "assess",
    "compare",
    "convert_model",
    "export_model",
    "export_shortlist",
    "fit_head",
    "fit_model_head",
    "fit_preview",
    "fit_screen",
    "fit_shortlist",
    "profile",
    "register_output_layer",
    "register_search",
    "screen_report",
    "translate_file",
    "tune",
    "write_sheets",
]

_HOMES = {
    "Answer": "sharpbeam.decoding.results",
    "Assessment": "sharpbeam.report.assessment",
    "Comparison": "sharpbeam.report.compare",
    "Conversion": "sharpbeam.convert.conversion",
    "DecodeOptions": "sharpbeam.options.decode",
    "FitProgress": "sharpbeam.fit.progress",
    "Generation": "sharpbeam.decoding.results",
    "Generator": "sharpbeam.api.generator",
    "Handle": "sharpbeam.decoding.handle",
    "Head": "sharpbeam.api.head",
    "JobStats": "sharpbeam.jobs.translate_file",
    "MachineOptions": "sharpbeam.options.decode",
    "Partial": "sharpbeam.decoding.results",
    "PreviewFit": "sharpbeam.fit.low_bit_job",
    "ProfileReport": "sharpbeam.report.profile_report",
    "Scorer": "sharpbeam.api.scorer",
    "ScreenFit": "sharpbeam.fit.screen.job",
    "ScreenOptions": "sharpbeam.options.fit",
    "ScreenReport": "sharpbeam.report.screen_report",
    "Session": "sharpbeam.decoding.session",
    "ShortlistFit": "sharpbeam.fit.shortlist.job",
    "ShortlistOptions": "sharpbeam.options.fit",
    "Trace": "sharpbeam.decoding.trace",
    "Translation": "sharpbeam.decoding.results",
    "Translator": "sharpbeam.api.translator",
    "Tuning": "sharpbeam.report.tune",
    "assess": "sharpbeam.report.assessment",
    "compare": "sharpbeam.report.compare",
    "convert_model": "sharpbeam.convert.conversion",
    "export_model": "sharpbeam.convert.conversion",
    "export_shortlist": "sharpbeam.fit.shortlist.job",
    "fit_head": "sharpbeam.fit.head",
    "fit_model_head": "sharpbeam.fit.model_head",
    "fit_preview": "sharpbeam.fit.low_bit_job",
    "fit_screen": "sharpbeam.fit.screen.job",
    "fit_shortlist": "sharpbeam.fit.shortlist.job",
    "profile": "sharpbeam.report.profile_report",
    "register_output_layer": "sharpbeam.output_layers.registry",
    "register_search": "sharpbeam.search.registry",
    "screen_report": "sharpbeam.report.screen_report",
    "translate_file": "sharpbeam.jobs.translate_file",
    "tune": "sharpbeam.report.tune",
    "write_sheets": "sharpbeam.report.assessment",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import sharpbeam` is quick, and training needs no native core."""
    if name == "__version__":
        from sharpbeam.version import program_version

        return program_version()
    if name not in _HOMES:
        raise AttributeError(f"module 'sharpbeam' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
