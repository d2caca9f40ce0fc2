"""`screen_report`: what the screens of a model do, on the text of their fit and on other text, and why."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.decoding.languages import LanguageTags
from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.fit.screen.collect import Collection as Vectors
from sharpbeam.fit.screen.collect import Collector
from sharpbeam.fit.screen.fidelity import Demand, matters, measure
from sharpbeam.fit.screen.output import OutputMatrix
from sharpbeam.fit.texts import DirectedText, directed_texts
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.output_layers.by_language import find_scope
from sharpbeam.output_layers.registry import find_artifact
from sharpbeam.output_layers.screen import Screen, screen_facts
from sharpbeam.report.screens import fallback_reasons, set_sizes, shared_tokens, show_clusters
from sharpbeam.storage.artifacts import read_facts
from sharpbeam.storage.model_folder import read_config
from sharpbeam.text.lines import read_all
from sharpbeam.types import Ids, Per

CONFIDENCE = 0.95
BAR = 40  # characters of the longest bar of the histogram


@dataclass(frozen=True)
class ScreenReport:
    """Facts and figures of the screens of a model."""

    model: str  # name of its folder
    per: Per  # what has a screen of its own
    screens: Mapping[str, Mapping[str, Any]]
    """The report of each screen by its scope ("" for the one screen of all), as JSON has it: `method`, `held_out`,
    `sets`, `tokens` and, where text was given, `measured`."""

    def record(self) -> Mapping[str, Any]:
        """The report as JSON: of one screen for all its own."""
        return self.screens[""] if self.per == "all" else dataclasses.asdict(self)

    def summary(self, tokens: int = 15) -> str:
        """For people, with at most `tokens` of the tokens that nearly every set has."""
        return "\n\n".join(_text(report, tokens) for report in self.screens.values())


def screen_report(
    model: str | Path,
    text: str | Path | Sequence[str | Path] = (),
    *,
    vectors: int = 20_000,
    clusters: int = 5,
    tokens: int = 15,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Callable[[int], None] | None = None,
) -> ScreenReport:
    """Report what the screens of a model do: how often they are right, what they save, what their clusters hold.

    Without `text`, the figures are those of the fit's held-out sentences. With `text` (files of source sentences, of a
    multilingual model as "de-en=FILE"; not what the screen was fitted on) they are measured on at least `vectors`
    hidden vectors: P@1, P@k, the share of rows that fall back, and why. The screens that serve the text are
    reported, without text all of them. `tokens` tokens are shown of each of `clusters` clusters, from small to large.
    `progress` is called with numbers of vectors.

    Raises ModelError for a model without a screen, OptionError for text in a direction that no screen serves, and
    InputError for text that cannot be read.
    """
    require(vectors >= 1, "vectors", vectors, "1 or more")
    folder = find_model(str(model))
    config = read_config(folder)
    given = [str(one) for one in ([text] if isinstance(text, str | Path) else text)]
    texts, language = directed_texts(given, LanguageTags.of(config)), architecture_of(config).task == "language"
    per, facts = screen_facts(read_facts(folder, find_artifact("screen")))
    asked = _by_scope(texts, per, facts)
    parts = load_model(folder, machine, architecture_of(config).task)
    screens, reports = parts.artifacts.read("screen").by_scope, dict[str, dict[str, Any]]()
    for scope in asked or screens:
        name, screen = f"{folder.name} {scope}".rstrip(), screens[scope]
        reports[scope] = _describe(name, parts, screen, facts[scope], clusters, tokens)
        if asked:
            records, k, tolerance = _collect(parts, asked[scope], vectors, facts[scope], language, machine, progress)
            reports[scope]["measured"] = _measure(parts, screen, records, k, tolerance)
    return ScreenReport(folder.name, per, reports)


def _by_scope(texts: Sequence[DirectedText], per: Per, there: Collection[str]) -> dict[str, list[DirectedText]]:
    """The texts that each of the screens serves; raises OptionError for one that none does."""
    found: dict[str, list[DirectedText]] = {}
    for text in texts:
        found.setdefault(find_scope(per, there, text.direction.languages), []).append(text)
    return found


def _describe(
    name: str, parts: LoadedModel, screen: Screen, facts: Mapping[str, Any], clusters: int, tokens: int
) -> dict[str, Any]:
    """The content of the folder: the fit's figures, the sets and the tokens."""

    def pieces(ids: Ids) -> list[str]:
        return [parts.target.piece(token) for token in ids.tolist()]

    weight, bias = parts.model.output()
    return {
        "model": name,
        "method": facts.get("method", "unknown method"),
        "fitted_on": facts.get("text", []),
        "options": facts.get("options", {}),
        "held_out": facts.get("held_out", {}),
        "scan_bytes": weight.size,
        "sets": dataclasses.asdict(set_sizes(screen)),
        "shared_tokens": pieces(shared_tokens(screen, len(bias))),
        "tokens": [
            {"cluster": c.number, "size": c.size, "tokens": pieces(c.telling)}
            for c in show_clusters(screen, len(bias), clusters, tokens)
        ],
        "curve": facts.get("curve", []),
    }


def _collect(
    parts: LoadedModel,
    texts: Sequence[DirectedText],
    vectors: int,
    facts: Mapping[str, Any],
    language: bool,
    machine: MachineOptions,
    progress: Callable[[int], None] | None,
) -> tuple[Any, int, float]:
    """Hidden vectors of `texts`, decoded with the exact layer as for the fit; its k and its tolerance."""
    options = facts.get("options", {})
    k, beam_size = int(options.get("top_k", 5)), int(options.get("beam_size", 5))
    found, say = [], progress or (lambda number: None)
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as work:
        for text in texts:
            place = Path(work) / text.name
            collector = Collector(parts, place, beam_size, k, machine.workers, language, text.direction)
            found.append(collector.collect(read_all(text.files), {}, -(-vectors // len(texts)), say))
        records = Vectors.of(found).read(lambda n: np.ones(len(n), np.bool_))
    # Screens of older versions were fitted without a tolerance.
    return records, k, float(options.get("tolerance") or np.inf)


def _measure(parts: LoadedModel, screen: Screen, records: Any, k: int, tolerance: float) -> dict[str, Any]:
    weight, bias = parts.model.output()
    result = measure(screen, OutputMatrix(weight, bias), records, Demand(k, tolerance), CONFIDENCE)
    hidden = np.ascontiguousarray(records["hidden"])
    why = fallback_reasons(screen, weight, bias, hidden, records["token"], matters(records, k))
    return dataclasses.asdict(result) | {"k": k, "fallback_reasons": None if why is None else dataclasses.asdict(why)}


def _text(report: Mapping[str, Any], tokens: int) -> str:
    """The report, for people."""
    sets = report["sets"]
    files = ", ".join(str(file.get("name")) for file in report["fitted_on"]) or "unknown text"
    lines = [f"{report['model']}: {report['method']}, {sets['clusters']} clusters, fitted on {files}", ""]
    if report["held_out"]:
        lines += ["When it was fitted, on held-out sentences", *_figures(report["held_out"], report["scan_bytes"]), ""]
    if "measured" in report:
        lines += ["On the given text", *_figures(report["measured"], report["scan_bytes"])]
        lines += [*_reasons(report["measured"]["fallback_reasons"]), ""]
    largest = max(count for _, _, count in sets["histogram"])
    lines += [
        f"Sets: {sets['least']} to {sets['most']} tokens, {sets['mean']:.0f} on average, median {sets['median']:.0f}; "
        f"{sets['distinct']} different tokens",
        *(
            f"  {f'{least}-{most}':>13}  {'#' * round(BAR * count / largest):<{BAR}} {count}"
            for least, most, count in sets["histogram"]
        ),
        "",
    ]
    shared = report["shared_tokens"]
    more = f" and {len(shared) - tokens} more" if len(shared) > tokens else ""
    lines.append(f"In nearly every set: {'  '.join(shared[:tokens]) or 'none'}{more}")
    lines += [f"Cluster {c['cluster']}, {c['size']} tokens: {'  '.join(c['tokens'])}" for c in report["tokens"]]
    return "\n".join(lines)


def _figures(found: Mapping[str, Any], scan_bytes: int) -> list[str]:
    return [
        f"  {found['sentences']} sentences, {found['steps']} steps, {found['rows']} rows",
        f"  alone          P@1 {found['precision_1']:.4f}, P@k {found['precision_k']:.4f}, all k right "
        f"{found['agreement']:.4f}, normalizer within the tolerance {found.get('within', 1):.4f}; sets of "
        f"{found['average_set']:.0f} tokens",
        f"  with fallback  {found['fallback']:.1%} of the rows fall back; steps as with the exact layer "
        f"{found['fidelity']:.5f} (at least {found['bound']:.5f} with 95% confidence)",
        f"  bytes a row    {found['cost'] / 1024:.0f} KiB, {scan_bytes / max(found['cost'], 1):.1f} times fewer than "
        "an int8 scan of all tokens",
    ]


def _reasons(why: Mapping[str, int] | None) -> list[str]:
    if why is None:
        return ["  It has no fallback test: no row falls back."]
    rows, fallen_back = why["rows"], max(why["fallen_back"], 1)
    return [
        f"  {why['fallen_back']} of {rows} rows fell back: {why['few']} have a set of fewer than k "
        f"tokens, {why['low']} a low logit that matters, {why['far']} are far from the center, {why['loose']} have too "
        "much of the normalizer outside the set",
        f"  {why['needless']} of them ({why['needless'] / fallen_back:.0%}) had every token that matters; "
        f"{why['missed']} rows were answered with a token missing ({why['missed'] / max(rows, 1):.3%})",
    ]
