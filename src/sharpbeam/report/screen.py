"""The report on the screens of a model: how often they are right, what they save, and why rows fall back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.decoding.loading import LoadedModel, load_model
from sharpbeam.fit.screen.collect import Collection, collect_once
from sharpbeam.fit.screen.fidelity import Demand, View, figure_lines
from sharpbeam.fit.screen.output import OutputMatrix, Steps
from sharpbeam.fit.texts import DirectedText
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.machine import MachineOptions
from sharpbeam.output_layers.by_language import find_scope
from sharpbeam.output_layers.registry import find_artifact
from sharpbeam.output_layers.screen import Screen, screen_facts
from sharpbeam.report.layer import LayerReport
from sharpbeam.storage.artifacts import read_facts
from sharpbeam.storage.model_folder import read_config
from sharpbeam.text.lines import read_all

CONFIDENCE = 0.95


def build_report(
    folder: Path,
    texts: Sequence[DirectedText],
    vectors: int,
    machine: MachineOptions,
    progress: Callable[[int], None],
) -> LayerReport:
    """Report on the screens that serve `texts`, measured on these; without any, on all, as their fit measured them."""
    per, facts = screen_facts(read_facts(folder, find_artifact("screen")))
    groups: dict[str, list[DirectedText]] = {}
    for text in texts:
        groups.setdefault(find_scope(per, facts, text.direction.languages), []).append(text)
    loaded = load_model(folder, machine, architecture_of(read_config(folder)).task)
    reports = dict[str, dict[str, Any]]()
    for scope, screen in loaded.artifacts.read("screen").by_scope.items():
        if scope in groups or not groups:
            reports[scope] = _facts(f"{folder.name} {scope}".rstrip(), loaded, screen, facts[scope])
        if scope in groups:
            reports[scope]["measured"] = _measured(loaded, screen, facts[scope], groups[scope], vectors, progress)
    figures = reports[""] if per == "all" else {"model": folder.name, "per": per, "screens": reports}
    return LayerReport(figures, "\n\n".join(map(_text, reports.values())))


def _facts(name: str, loaded: LoadedModel, screen: Screen, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the folder: the fit's figures and the sets."""
    size = np.diff(screen.start)
    return {
        "model": name,
        "method": facts.get("method", "unknown method"),
        "fitted_on": facts.get("text", []),
        "options": facts.get("options", {}),
        "held_out": facts.get("held_out", {}),
        "scan_bytes": loaded.model.output()[0].size,
        "sets": {
            "clusters": len(size),
            "least": int(size.min()),
            "median": float(np.median(size)),
            "mean": float(size.mean()),
            "most": int(size.max()),
            "distinct": len(np.unique(screen.token)),  # tokens in any set; the others come from the exact layer only
        },
        "curve": facts.get("curve", []),
    }


def _measured(
    loaded: LoadedModel,
    screen: Screen,
    facts: Mapping[str, Any],
    texts: Sequence[DirectedText],
    vectors: int,
    progress: Callable[[int], None],
) -> dict[str, Any]:
    """The figures on hidden vectors of `texts`, which are decoded with the exact layer as for the fit."""
    options, output = facts.get("options", {}), OutputMatrix(*loaded.model.output())
    k, beam_size = int(options.get("top_k", 5)), int(options.get("beam_size", 5))
    tolerance = float(options.get("tolerance") or np.inf)  # screens of older versions were fitted without one
    parts, share = [], -(-vectors // len(texts))
    for text in texts:
        records = collect_once(loaded, read_all(text.files), share, beam_size, k, text.direction, progress)
        parts.append(Collection([records]))
    view = View.of(screen, output, Steps.of(Collection.of(parts).read(), output), Demand(k, tolerance))
    return dataclasses.asdict(view.measure(CONFIDENCE)) | {"k": k, "fallback_reasons": fallback_reasons(view)}


def fallback_reasons(view: View) -> dict[str, int] | None:
    """Counts of rows: those that fall back (`fallen_back`), and why; None if the screen has no test.

    The set has fewer than k tokens, and the k-th best counts (`few`); the lowest logit that matters is so low that the
    test would fail at the median distance too (`low`); the row is too far from its cluster's center (`far`); more of
    the normalizer is outside the set than the test allows (`loose`). Of those that fall back, `needless` had all tokens
    that matter; `missed` were answered by the screen, though one is missing.
    """
    test, features = view.screen.fallback, view.features
    if test is None or not view.tested:
        return None
    certainty = features.certainty(test.margin, test.mass_weight, test.distance_weight)
    nearer = certainty + np.float32(test.distance_weight) * (features.distance - np.median(features.distance))
    threshold, falls_back = np.float32(test.threshold), features.uncertain(test)
    margin_fails = ~(certainty >= threshold)
    few = margin_fails & ~np.isfinite(certainty)
    low = margin_fails & ~few & (nearer < threshold)
    masks = {
        "rows": np.ones(len(view.miss), np.bool_),
        "fallen_back": falls_back,
        "few": few,
        "low": low,
        "far": margin_fails & ~few & ~low,
        "loose": falls_back & ~margin_fails,
        "needless": falls_back & ~view.miss,
        "missed": ~falls_back & view.miss,
    }
    return {name: int(np.count_nonzero(mask)) for name, mask in masks.items()}


def _text(report: Mapping[str, Any]) -> str:
    """The report on one screen, human-readable."""
    sets, scan_bytes = report["sets"], report["scan_bytes"]
    files = ", ".join(str(file.get("name")) for file in report["fitted_on"]) or "unknown text"
    lines = [f"{report['model']}: {report['method']}, {sets['clusters']} clusters, fitted on {files}"]
    if report["held_out"]:
        lines += ["", "When it was fitted, on held-out sentences", *figure_lines(report["held_out"], scan_bytes)]
    if measured := report.get("measured"):
        lines += ["", "On the given text", *figure_lines(measured, scan_bytes)]
        lines += _reasons(measured["fallback_reasons"])
    lines += [
        "",
        f"Sets: {sets['least']} to {sets['most']} tokens, {sets['mean']:.0f} on average, median {sets['median']:.0f}; "
        f"{sets['distinct']} different tokens",
    ]
    return "\n".join(lines)


def _reasons(reasons: Mapping[str, int] | None) -> list[str]:
    if reasons is None:
        return ["  It has no fallback test: no row falls back."]
    fallen_back, needless, missed = reasons["fallen_back"], reasons["needless"], reasons["missed"]
    return [
        f"  {fallen_back} of {reasons['rows']} rows fell back: {reasons['few']} have a set of fewer than k "
        f"tokens, {reasons['low']} a low logit that matters, {reasons['far']} are far from the center, "
        f"{reasons['loose']} have too much of the normalizer outside the set",
        f"  {needless} of them ({needless / max(fallen_back, 1):.0%}) had every token that matters; {missed} rows were "
        f"answered with a token missing ({missed / max(reasons['rows'], 1):.3%})",
    ]
