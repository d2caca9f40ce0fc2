"""`sharpbeam screen-report`: what a screen does, and why."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.errors import OptionError, needs_extra
from sharpbeam.fit.texts import HELP, DirectedText, directed_texts
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.options.decode import MachineOptions
from sharpbeam.storage.atomic import write_text
from sharpbeam.text.lines import read_all

if TYPE_CHECKING:
    from sharpbeam.decoding.loading import LoadedModel
    from sharpbeam.output_layers.fitted import Screen
    from sharpbeam.types import Ids, Per

CONFIDENCE = 0.95
BAR = 40  # characters of the longest bar of the histogram
REPORT, PICTURE = "screen-report.json", "screen-report.png"


@with_options(without=("backend",))
def screen_report(
    model: Annotated[str, typer.Argument(help="A model folder with a screen (see fit-screen).")],
    *,
    text: Annotated[list[str], typer.Option(metavar="[SOURCE-TARGET=]FILE", help=HELP)] = [],  # noqa: B006
    vectors: Annotated[int, typer.Option(min=1, help="Hidden vectors of --text to measure on, at least.")] = 20_000,
    clusters: Annotated[int, typer.Option(min=0, help="Clusters whose words are shown, from small to large.")] = 5,
    words: Annotated[int, typer.Option(min=1, help="Words shown of each.")] = 15,
    output: Annotated[
        Path | None, typer.Option(help=f"Folder for {REPORT} and {PICTURE}; made where it is not there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    machine: MachineOptions,
) -> None:
    """Say what the screen of a model does: how often it is right, what it saves, and what its clusters hold.

    Without `--text`, the figures are those of fit-screen's held-out sentences. With `--text` (which the screen
    should not have been fitted on), they are measured: P@1, P@k, the share of rows that go to the exact layer, and why.
    There are three reasons: the set has *few* words, fewer than k; the lowest logit that matters is *low*; or the row
    is *far* from the vectors that its set was made from, so that a word outside might score higher than it seems.

    Words that nearly every set has are shown once; of each cluster those words that the fewest others have.

    Of a multilingual model every screen is reported; with `--text de-en=FILE` that one which serves the direction.

    Of a model with a low-bit preview (fit-preview) and no screen, what the preview leaves of each row of `--text`.

    The picture needs Matplotlib: `pip install 'sharpbeam[train]'`.

    Examples:

    * `sharpbeam screen-report runs/de-en/best`
    * `sharpbeam screen-report runs/de-en/best --text test.de.gz --output report`
    * `sharpbeam screen-report runs/de-fr-es-en/best --text de-en=test.de --text en-fr=test.en`
    * `sharpbeam screen-report runs/de-en/best --json | jq .sets`
    """
    from sharpbeam.decoding.languages import LanguageTags
    from sharpbeam.decoding.loading import find_model, load_model
    from sharpbeam.models.registry import architecture_of
    from sharpbeam.storage.low_bit import FILE as LOW_BIT
    from sharpbeam.storage.model_folder import read_config
    from sharpbeam.storage.screens import FACTS, SCREEN, read_screens, screens_in

    folder = find_model(model)
    config = read_config(folder)
    texts, task = directed_texts(text, LanguageTags.of(config)), architecture_of(config).task
    if (folder / LOW_BIT).is_file() and not (folder / FACTS).is_file():
        return _report_previews(load_model(folder, machine, task), texts, vectors, output, as_json)
    per, facts = screens_in(folder, SCREEN.read_facts(folder))
    asked = _by_scope(texts, per, facts)
    parts = load_model(folder, machine, task)
    screens, reports = read_screens(folder, *parts.model.output()).by_scope, dict[str, dict[str, Any]]()
    for scope in asked or screens:
        name, screen = f"{folder.name} {scope}".rstrip(), screens[scope]
        reports[scope] = report = _describe(name, parts, screen, facts[scope], clusters, words)
        if asked:
            measured = _measure(parts, task == "language", screen, asked[scope], vectors, facts[scope], machine.workers)
            report["measured"] = measured
    whole = reports[""] if per == "all" else {"model": folder.name, "per": per, "screens": reports}
    if output is not None:
        _write(whole, reports, output)
    every = "\n\n".join(_text(report, words) for report in reports.values())
    print(json.dumps(whole, ensure_ascii=False) if as_json else every)


def _report_previews(
    parts: LoadedModel, texts: Sequence[DirectedText], vectors: int, output: Path | None, as_json: bool
) -> None:
    """Print the tokens that each stage of the model's low-bit preview leaves on the text."""
    from sharpbeam.report.previews import draw_previews, report_previews

    if not texts:
        raise OptionError("text is empty; a preview is measured on source sentences: give --text.")
    reports = report_previews(parts, read_all(texts[0].files), vectors)
    whole = {"model": parts.folder.name, "layers": [dataclasses.asdict(one) for one in reports]}
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        write_text(output / REPORT, json.dumps(whole, indent=1) + "\n")
        with needs_extra("the picture of a preview", "train"):
            draw_previews(reports, output / PICTURE)
    print(json.dumps(whole) if as_json else "\n".join(one.text() for one in reports))


def _by_scope(texts: Sequence[DirectedText], per: Per, there: Collection[str]) -> dict[str, list[DirectedText]]:
    """The texts that each of the screens serves; raises OptionError for one that none does."""
    from sharpbeam.output_layers.by_language import find_scope

    found: dict[str, list[DirectedText]] = {}
    for text in texts:
        found.setdefault(find_scope(per, there, text.direction.languages), []).append(text)
    return found


def _describe(
    name: str, parts: LoadedModel, screen: Screen, facts: Mapping[str, Any], clusters: int, words: int
) -> dict[str, Any]:
    """The content of the folder: the fit's figures, the sets and the words."""
    from sharpbeam.report.screens import set_sizes, shared_words, show_clusters

    weight, bias = parts.model.output()
    return {
        "model": name,
        "method": facts.get("method", "unknown method"),
        "fitted_on": facts.get("text", []),
        "options": facts.get("options", {}),
        "held_out": facts.get("held_out", {}),
        "scan_bytes": weight.size,
        "sets": dataclasses.asdict(set_sizes(screen)),
        "shared_words": _pieces(parts, shared_words(screen, len(bias))),
        "words": [
            {"cluster": c.number, "size": c.size, "words": _pieces(parts, c.telling)}
            for c in show_clusters(screen, len(bias), clusters, words)
        ],
        "curve": facts.get("curve", []),
    }


def _pieces(parts: LoadedModel, ids: Ids) -> list[str]:
    return [parts.target.piece(token) for token in ids.tolist()]


def _measure(
    parts: LoadedModel,
    given: bool,
    screen: Screen,
    texts: Sequence[DirectedText],
    vectors: int,
    facts: Mapping[str, Any],
    threads: int,
) -> dict[str, Any]:
    """The screen on `texts`, decoded with the exact layer."""
    import numpy as np

    from sharpbeam.fit.screen import collect
    from sharpbeam.fit.screen.fidelity import Demand, matters, measure
    from sharpbeam.fit.screen.output import Output
    from sharpbeam.report.screens import fallback_reasons

    options = facts.get("options", {})
    k, beam_size = int(options.get("top_k", 5)), int(options.get("beam_size", 5))
    tolerance = options.get("tolerance") or np.inf  # screens of older versions were fitted without one
    with (
        tempfile.TemporaryDirectory(prefix="sharpbeam-") as work,
        progress_bar("decoding", vectors, unit="vectors") as bar,
    ):
        found = []
        for text in texts:
            collector = collect.Collector(parts, Path(work) / text.name, beam_size, k, threads, given, text.direction)
            found.append(collector.collect(read_all(text.files), {}, -(-vectors // len(texts)), bar))
        records = collect.Collection.of(found).read(lambda n: np.ones(len(n), np.bool_))
    weight, bias = parts.model.output()
    result = measure(screen, Output(weight, bias), records, Demand(k, float(tolerance)), CONFIDENCE)
    hidden = np.ascontiguousarray(records["hidden"])
    why = fallback_reasons(screen, weight, bias, hidden, records["token"], matters(records, k))
    return dataclasses.asdict(result) | {"k": k, "fallback_reasons": None if why is None else dataclasses.asdict(why)}


def _write(whole: Mapping[str, Any], reports: Mapping[str, Mapping[str, Any]], output: Path) -> None:
    """The whole report, and the picture of each screen's, written under a temporary name and renamed."""
    with needs_extra("the picture of a screen", "train"):
        from matplotlib import pyplot  # noqa: F401  (before anything is written)
    from sharpbeam.report.screen_picture import draw_screen

    output.mkdir(parents=True, exist_ok=True)
    write_text(output / REPORT, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    for scope, report in reports.items():
        draw_screen(report, output / (PICTURE.replace(".png", f"-{scope}.png") if scope else PICTURE))


def _text(report: Mapping[str, Any], words: int) -> str:
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
        f"Sets: {sets['least']} to {sets['most']} words, {sets['mean']:.0f} on average, median {sets['median']:.0f}; "
        f"{sets['distinct']} different words",
        *(
            f"  {f'{least}-{most}':>13}  {'#' * round(BAR * count / largest):<{BAR}} {count}"
            for least, most, count in sets["histogram"]
        ),
        "",
    ]
    shared = report["shared_words"]
    more = f" and {len(shared) - words} more" if len(shared) > words else ""
    lines.append(f"In nearly every set: {'  '.join(shared[:words]) or 'none'}{more}")
    lines += [f"Cluster {c['cluster']}, {c['size']} words: {'  '.join(c['words'])}" for c in report["words"]]
    return "\n".join(lines)


def _figures(found: Mapping[str, Any], scan_bytes: int) -> list[str]:
    return [
        f"  {found['sentences']} sentences, {found['steps']} steps, {found['rows']} rows",
        f"  alone          P@1 {found['precision_1']:.4f}, P@k {found['precision_k']:.4f}, all k right "
        f"{found['agreement']:.4f}, normaliser within the tolerance {found.get('within', 1):.4f}; sets of "
        f"{found['average_set']:.0f} words",
        f"  with fallback  {found['fallback']:.1%} of the rows go to the exact layer; steps as with it "
        f"{found['fidelity']:.5f} (at least {found['bound']:.5f} with 95% confidence)",
        f"  bytes a row    {found['cost'] / 1024:.0f} KiB, {scan_bytes / max(found['cost'], 1):.1f} times fewer than "
        "an int8 scan of all words",
    ]


def _reasons(why: Mapping[str, int] | None) -> list[str]:
    if why is None:
        return ["  It has no test: no row goes to the exact layer."]
    rows, fallen_back = why["rows"], max(why["fallen_back"], 1)
    return [
        f"  {why['fallen_back']} of {rows} rows fell back to the exact layer: {why['few']} have a set of fewer than k "
        f"words, {why['low']} a low logit that matters, {why['far']} are far from the center, {why['loose']} have too "
        "much of the normaliser outside the set",
        f"  {why['needless']} of them ({why['needless'] / fallen_back:.0%}) had every word that matters; "
        f"{why['missed']} rows were answered with a word missing ({why['missed'] / max(rows, 1):.3%})",
    ]
