"""`fit_screen`: unlabelled text in, the screens of a model folder out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import get_args

from sharpbeam.decoding.languages import LanguageTags
from sharpbeam.decoding.loading import LoadedModel, folder_to_fill, load_model
from sharpbeam.errors import InputError, OptionError
from sharpbeam.fit.collect import Collection, Collector, OutputMatrix
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.screen.clusters import Tally
from sharpbeam.fit.screen.counting import Source, count_more
from sharpbeam.fit.screen.search import Fitted, facts_of, find_screen
from sharpbeam.fit.texts import DirectedText, Texts, directed_texts
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.fit import ScreenOptions
from sharpbeam.options.keywords import ScreenKeywords, Unpack
from sharpbeam.options.schema import changed, require
from sharpbeam.output_layers.screen import Screens
from sharpbeam.storage.atomic import check_folder
from sharpbeam.storage.model_folder import WEIGHTS, read_config
from sharpbeam.text.lines import TextInput, file_digest
from sharpbeam.types import Languages, Per

STORED = 400_000  # hidden vectors of a screen, at most: what is beyond is counted


@dataclass(frozen=True)
class ScreenFit:
    """The screens of a fit."""

    folder: Path  # the model's, which they were written to
    screens: dict[str, Fitted]  # by scope: "de-en" per direction, "en" per target language, "" for one screen for all
    vectors: Path | None  # folder of the hidden vectors; None where they were removed
    fidelity: float  # the least that was allowed
    scan_cost: int  # bytes that an int8 scan of all tokens reads for a row

    def summary(self) -> str:
        """Figures of each screen on sentences that it was not fitted on, human-readable."""
        return "\n".join(self._summary(scope, fitted) for scope, fitted in self.screens.items())

    def _summary(self, scope: str, fitted: Fitted) -> str:
        setting, m = fitted.setting, fitted.held_out
        lines = [
            f"{self.folder}: {_prefix(scope)}{setting.method}, {setting.clusters} clusters; on held-out sentences",
            f"  {m.sentences} sentences, {m.steps} steps, {m.rows} rows",
            f"  alone          P@1 {m.precision_1:.4f}, P@k {m.precision_k:.4f}, all k right {m.agreement:.4f}, "
            f"normalizer within the tolerance {m.within:.4f}; sets of {m.average_set:.0f} tokens",
            f"  with fallback  {m.fallback:.1%} of the rows fall back; steps as with the exact layer {m.fidelity:.5f} "
            f"(at least {m.bound:.5f} with 95% confidence)",
            f"  bytes a row    {m.cost / 1024:.0f} KiB, {self.scan_cost / max(m.cost, 1):.1f} times fewer "
            "than an int8 scan of all tokens",
        ]
        if self.fidelity and not fitted.reached:
            lines.append(
                f"No setting reaches a fidelity of {self.fidelity} with confidence on {setting.measure.sentences} "
                "sentences; this is the best one."
            )
        if setting.measure.cost >= self.scan_cost:
            lines.append("It reads no less than an int8 scan of all tokens, so it does not pay at this fidelity.")
        return "\n".join(lines)


def fit_screen(
    model: str | Path,
    text: Texts = (),
    *,
    per: str = "auto",
    work: str | Path | None = None,
    keep_best: bool = False,
    options: ScreenOptions | None = None,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Listener | None = None,
    **keywords: Unpack[ScreenKeywords],
) -> ScreenFit:
    """Fit the screen of a model: the few tokens that are scored, so that the output is the same in less time.

    The text is decoded with the exact output layer (a language model reads it), and the hidden vectors are kept in a
    work folder; they are clustered, and each cluster keeps the tokens that it needs. Of all settings that may win the
    cheapest is chosen whose fidelity, with 95% confidence, is at least `options.fidelity` on sentences that it was not
    fitted on. screen.json says what was measured. Vectors beyond 400,000 are counted in the clusters, and not kept.

    `model` is a model folder, which the screen is written to. `text` names files with one source sentence a line (.gz
    too); those of a multilingual model with their direction, as "de-en=news.de". `per` is "all", "target" or
    "direction": what has a screen of its own; "auto" is each direction of a multilingual model, or each target language
    where texts come without a source language. `work` is the folder for hidden vectors, which are kept there for
    another fit; by default it is MODEL.vectors next to the model, and removed after the fit. A fit that was
    interrupted resumes there. With `keep_best` the best screen is written even where none reaches the fidelity.
    `progress` is called with reports. The fields of ScreenOptions may be given by name (`fidelity=0.99`) and change
    `options`.

    Raises OptionError for options that do not fit the model, ModelError for a model that cannot be read, OutputError
    for folders that cannot be written to, and InputError for text that cannot be read or is too short, and where no
    setting reaches the fidelity and reads less than a scan of all tokens: then an old screen stays.
    """
    if not text:
        raise OptionError("text is empty; give a file of source sentences, one a line.")
    options, report = changed(options or ScreenOptions(), keywords, "fit_screen"), Reporter(progress)
    config = read_config(folder := folder_to_fill(str(model)))
    language_tags, task = LanguageTags.of(config), architecture_of(config).task
    texts = directed_texts(text, language_tags)
    unit = unit_of([one.direction.languages for one in texts], per, bool(language_tags.tokens))
    home = Path(work) if work else folder.with_name(folder.name + ".vectors")
    require(home.resolve() != folder.resolve(), "work", str(home), "another folder than the model's")
    check_folder(home, f"hidden vectors to {home}", "another --work folder")
    options = options.resolved(task == "language", config.target_vocab_size)
    loaded = load_model(folder, machine, task)
    groups = _groups(loaded, texts, home, unit, options)
    samples = {scope: _collect(group, min(options.vectors, STORED), report) for scope, group in groups.items()}
    output, screens, facts = OutputMatrix(*loaded.model.output()), dict[str, Fitted](), {}
    for scope, sources in samples.items():
        if scope:
            report.note(f"{scope}:")
        screens[scope] = _find(sources, output, loaded.model.eos_id, options, report)
        files = [file for one, _ in groups[scope] for file in one.facts()]
        facts[scope] = facts_of(screens[scope], options) | {"text": files}
    fit = ScreenFit(folder, screens, home if work else None, options.fidelity, output.weight.size)
    if not keep_best:
        _check_good(fit, home)
    artifact = Screens(unit, {scope: fitted.screen for scope, fitted in screens.items()})
    loaded.artifacts.save("screen", artifact, facts[""] if unit == "all" else {"screens": facts})
    for _, collector in () if work else chain.from_iterable(groups.values()):
        collector.remove()
    return fit


def _groups(
    loaded: LoadedModel, texts: Sequence[DirectedText], home: Path, unit: Per, options: ScreenOptions
) -> dict[str, list[tuple[DirectedText, Collector]]]:
    """The texts of each scope, with what collects their vectors."""
    groups = dict[str, list[tuple[DirectedText, Collector]]]()
    for one in texts:
        collector = Collector(loaded, home / one.name, options.beam_size, options.top_k, one.direction)
        groups.setdefault(one.direction.languages.scope(unit), []).append((one, collector))
    return groups


def _find(
    sources: Sequence[Source], output: OutputMatrix, eos_id: int, options: ScreenOptions, report: Reporter
) -> Fitted:
    """The screen of a scope, with the vectors beyond those that are stored."""
    more = partial(_count, sources, options, report) if options.vectors > STORED else None
    return find_screen(Collection.of([source.sample for source in sources]), output, eos_id, options, report, more)


def unit_of(directions: Sequence[Languages], per: str, multilingual: bool) -> Per:
    """The unit that has a screen of its own: `per`, or the one that "auto" stands for (CVP section 2.2).

    That is a direction for a `multilingual` model, a target where a source's language was left unsaid, as models with
    >>fra<< before a source do, and all for a model of one direction. Raises OptionError for a unit that the model has
    not, and for a direction without the language that its scope is called by.
    """
    automatic: Per = "all" if not multilingual else "direction" if all(one.source for one in directions) else "target"
    units = {"auto": automatic} | {unit: unit for unit in get_args(Per)}
    require(per in units, "per", per, "auto, all, target or direction")
    unit: Per = units[per]
    require(multilingual or unit == "all", "per", per, "all for a model with one direction only")
    for languages in directions:
        complete = (languages.source or unit != "direction") and (languages.target or unit == "all")
        form = "SOURCE-TARGET=FILE" if unit == "direction" else "TARGET=FILE"
        remedy = "; --per target needs no SOURCE" if unit == "direction" else ""
        name = languages.scope("direction").strip("-")
        require(bool(complete), "direction of --text", name, f"given as {form} where each {unit} has a screen{remedy}")
    return unit


def _collect(group: Sequence[tuple[DirectedText, Collector]], vectors: int, report: Reporter) -> list[Source]:
    """The stored hidden vectors of texts that share a screen: an equal number of each."""
    sources, share = list[Source](), -(-vectors // len(group))
    for text, collector in group:
        names, parts = ("config.json", WEIGHTS, "source.*", "target.*", "vocab.*"), collector.parts
        identity: dict[str, object] = {p.name: file_digest(p) for name in names for p in parts.folder.glob(name)}
        identity |= {"compute_type": parts.machine.compute_type}
        identity |= {"text_sha256": [file["sha256"] for file in text.facts()]}
        identity |= {"direction": text.name} if text.name else {}
        lines = TextInput(text.files)
        with report.stage(f"collecting {text.name}".rstrip(), share, "vectors") as advance:
            sources.append(Source(collector, lines, collector.collect(lines, identity, share, advance)))
    return sources


def _count(sources: Sequence[Source], options: ScreenOptions, report: Reporter, method: str, tally: Tally) -> None:
    """Add to `tally` the vectors beyond those that are stored."""
    learned = (options.budget, options.rounds) if method == "l2s" else ()
    identity = [method, len(tally.weight), options.seed, tally.top_k, tally.neighbors, learned]
    number = count_more(sources, [tally], identity, options.vectors, report)
    report.note(f"{method}, {len(tally.weight)} clusters: {number:,} vectors, {tally.rows.sum():,} of them in the sets")


def _check_good(fit: ScreenFit, vectors: Path) -> None:
    """Raise InputError where the fidelity is not reached, or only by reading as much as a scan of all tokens."""
    for scope, fitted in fit.screens.items():
        measure = fitted.setting.measure
        if not fit.fidelity or (fitted.reached and measure.cost < fit.scan_cost):
            continue
        what = "and reads less than a scan of all tokens" if fitted.reached else "with confidence"
        raise InputError(
            f"{_prefix(scope)}no setting reaches a fidelity of {fit.fidelity} {what}, on {measure.sentences} "
            f"sentences: the best one, {fitted.setting.method} with {fitted.setting.clusters} clusters, has a lower "
            f"bound of {measure.bound:.5f} with {measure.fallback:.1%} of the rows falling back. No screen was "
            f"written to {fit.folder}; give more --text and --vectors, ask for a lower --fidelity, or take that one "
            f"with --keep-best. The hidden vectors are in {vectors}; remove it before you give other text."
        )


def _prefix(scope: str) -> str:
    return f"{scope}: " if scope else ""
