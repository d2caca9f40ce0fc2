"""`fit_screen`: unlabelled text in, the screens of a model folder out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sharpbeam.decoding.languages import LanguageTags
from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.errors import InputError, OptionError
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.screen.collect import Collection, Collector
from sharpbeam.fit.screen.forecast import ENOUGH, forecast
from sharpbeam.fit.screen.output import OutputMatrix
from sharpbeam.fit.screen.scopes import scopes, shared, shares
from sharpbeam.fit.screen.search import Fitted, facts_of, find_screen
from sharpbeam.fit.texts import DirectedText, directed_texts
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.fit import ScreenOptions
from sharpbeam.options.keywords import ScreenKeywords, Unpack
from sharpbeam.options.schema import changed, require
from sharpbeam.output_layers.artifact import OUTPUT
from sharpbeam.output_layers.screen import Screens
from sharpbeam.storage.atomic import check_folder
from sharpbeam.storage.model_folder import read_config
from sharpbeam.text.lines import read_all
from sharpbeam.types import Languages, Per


@dataclass(frozen=True)
class ScreenFit:
    """The screens of a fit."""

    folder: Path  # the model's, which they were written to
    screens: dict[str, Fitted]  # by scope: "de-en" per direction, "en" per target language, "" for one screen for all
    vectors: Path | None  # folder of the hidden vectors; None where they were removed
    fidelity: float  # that was asked for
    scan_cost: int  # bytes that an int8 scan of all tokens reads for a row

    def summary(self) -> str:
        """Figures of each screen on sentences that it was not fitted on, for people."""
        return "\n".join(self._summary(scope, fitted) for scope, fitted in self.screens.items())

    def _summary(self, scope: str, fitted: Fitted) -> str:
        setting, found = fitted.setting, fitted.held_out
        text = (
            f"{self.folder}: {_prefix(scope)}{setting.method}, {setting.clusters} clusters, "
            f"{found.average_set:.0f} tokens on average.\n"
            f"On {found.sentences} sentences ({found.steps} steps) that it was not fitted on: P@1 "
            f"{found.precision_1:.4f}, P@k {found.precision_k:.4f}, all that matter right in {found.sufficient:.4f} of "
            f"the rows, normalizers in {found.within:.4f}. With {found.fallback:.1%} of the rows falling back to the "
            f"exact layer, {found.fidelity:.5f} of all steps are right (at least {found.bound:.5f} with 95% "
            f"confidence). Normalizers are off by {found.normalizer_error:.4f} on average, "
            f"{found.normalizer_error_99:.3f} in the worst hundredth."
        )
        if self.fidelity and not fitted.reached:
            text += (
                f"\nNo setting reaches a fidelity of {self.fidelity} with confidence on {setting.measure.sentences} "
                "sentences; this is the best one."
            )
        if setting.measure.cost >= self.scan_cost:
            text += "\nIt reads no less than an int8 scan of all tokens, so it does not pay at this fidelity."
        return text


def fit_screen(
    model: str | Path,
    text: str | Path | Sequence[str | Path],
    *,
    per: str = "auto",
    work: str | Path | None = None,
    keep_best: bool = False,
    options: ScreenOptions | None = None,
    machine: MachineOptions | None = None,
    progress: Listener | None = None,
    **keywords: Unpack[ScreenKeywords],
) -> ScreenFit:
    """Fit the screen of a model: the few tokens that are scored, so that the output is the same in less time.

    The text is decoded with the exact output layer (a language model reads it), and the hidden vectors are kept in a
    work folder; they are clustered, and each cluster keeps the tokens that it needs. Of all settings that may win the
    cheapest is chosen whose fidelity, with 95% confidence, is at least `options.fidelity` on sentences that it was not
    fitted on. screen.json says what was measured.

    `model` is a model folder, which the screen is written to. `text` names files with one source sentence a line (.gz
    too); those of a multilingual model with their direction, as "de-en=news.de". `per` is "all", "target" or
    "direction": what has a screen of its own; "auto" is each direction of a multilingual model, or each target language
    where texts come without a source language. `work` is the folder for hidden vectors, which are kept there for
    another fit; by default it is MODEL.vectors next to the model, and removed after the fit. A fit that was
    interrupted resumes there. With `keep_best` the best screen is written even where none reaches the fidelity.
    `progress` is called with reports, among them a forecast of the gain after the first 20,000 vectors. The fields
    of ScreenOptions may be given by name (`fidelity=0.99`) and change `options`.

    Raises OptionError for options that do not fit the model, ModelError for a model that cannot be read, OutputError
    for folders that cannot be written to, and InputError for text that cannot be read or is too short, and where no
    setting reaches the fidelity and reads less than a scan of all tokens: then an old screen stays.
    """
    given = [text] if isinstance(text, str | Path) else list(text)
    if not given:
        raise OptionError("text is empty; give a file of source sentences, one a line.")
    chosen = changed(options or ScreenOptions(), keywords, "fit_screen")
    folder, texts = find_model(str(model)), [str(one) for one in given]
    job = _Job.open(folder, texts, per, work, chosen, machine or MachineOptions())
    return job.run(Reporter(progress), keep_best)


@dataclass(frozen=True)
class _Job:
    """The model and options of a fit, checked and loaded."""

    folder: Path
    place: Path  # of the hidden vectors; each direction that has a name has a folder there
    temporary: bool  # whether the vectors are removed after the fit
    texts: Sequence[DirectedText]
    per: Per
    groups: Mapping[str, list[Languages]]  # the directions of each screen, by its scope
    parts: LoadedModel
    options: ScreenOptions
    language: bool  # a language model
    threads: int

    @classmethod
    def open(
        cls,
        folder: Path,
        text: Sequence[str],
        per: str,
        work: str | Path | None,
        options: ScreenOptions,
        machine: MachineOptions,
    ) -> _Job:
        """Check as much as can be before the model is loaded, and load it."""
        config = read_config(folder)
        language_tags, task = LanguageTags.of(config), architecture_of(config).task
        texts, language = directed_texts(text, language_tags), task == "language"
        chosen, groups = scopes([text.direction.languages for text in texts], per, bool(language_tags.tokens))
        place = Path(work) if work else folder.with_name(folder.name + ".vectors")
        require(place.resolve() != folder.resolve(), "work", str(place), "another folder than the model's")
        check_folder(place, f"hidden vectors to {place}", "another --work folder")
        resolved = options.resolved(language, config.target_vocab_size)
        parts = load_model(folder, machine, task)
        return cls(folder, place, not work, texts, chosen, groups, parts, resolved, language, machine.workers)

    def run(self, report: Reporter, keep_best: bool) -> ScreenFit:
        """Collect, fit and save."""
        output = self.parts.model.output()
        collections = self._collect(report)
        fitted = dict[str, Fitted]()
        for scope, collection in shared(self.groups, collections).items():
            if scope:
                report.note(f"{scope}:")
            eos_id = self.parts.model.eos_id
            fitted[scope] = find_screen(collection, OutputMatrix(*output), eos_id, self.options, report)
        if not keep_best:
            for scope, found in fitted.items():
                self._check_good(found, scope, output[0].size)
        facts = {
            scope: facts_of(found, self.options) | {"text": self._files(self.groups[scope])}
            for scope, found in fitted.items()
        }
        screens = Screens(self.per, {scope: found.screen for scope, found in fitted.items()})
        self.parts.artifacts.save("screen", screens, facts[""] if self.per == "all" else {"screens": facts})
        if self.temporary:
            for text in self.texts:
                self._collector(text).remove()
        kept = None if self.temporary else self.place
        return ScreenFit(self.folder, fitted, kept, self.options.fidelity, output[0].size)

    def _collect(self, report: Reporter) -> dict[Languages, Collection]:
        """The hidden vectors of each direction, with a forecast once there are enough for one."""
        wanted = shares(self.groups, self.options.vectors)
        for_forecast = shares(self.groups, ENOUGH)
        if self.options.fidelity and self.options.vectors >= 2 * ENOUGH:
            first = {text.direction.languages: self._vectors(text, for_forecast, report) for text in self.texts}
            output, eos_id = OutputMatrix(*self.parts.model.output()), self.parts.model.eos_id
            for scope, collection in shared(self.groups, first).items():
                if len(collection) >= ENOUGH // 2:
                    report.note(_prefix(scope) + str(forecast(collection, output, eos_id, self.options)))
        return {text.direction.languages: self._vectors(text, wanted, report) for text in self.texts}

    def _vectors(self, text: DirectedText, wanted: Mapping[Languages, int], report: Reporter) -> Collection:
        """The hidden vectors of one direction."""
        vectors = wanted[text.direction.languages]
        identity: dict[str, object] = {OUTPUT: self.parts.artifacts.output}
        identity |= {"text_sha256": [file["sha256"] for file in text.facts()]}
        identity |= {"direction": text.name} if text.name else {}
        with report.stage(f"collecting {text.name}".rstrip(), vectors, "vectors") as advance:
            return self._collector(text).collect(read_all(text.files), identity, vectors, advance)

    def _collector(self, text: DirectedText) -> Collector:
        home = self.place / text.name if text.name else self.place
        sizes = (self.options.beam_size, self.options.top_k, self.threads)
        return Collector(self.parts, home, *sizes, self.language, text.direction)

    def _files(self, directions: Sequence[Languages]) -> list[dict[str, object]]:
        return [file for text in self.texts if text.direction.languages in directions for file in text.facts()]

    def _check_good(self, fitted: Fitted, scope: str, scan_cost: int) -> None:
        """Raise InputError where the fidelity is not reached, or only by reading as much as a scan of all tokens."""
        found, fidelity = fitted.setting.measure, self.options.fidelity
        if not fidelity or (fitted.reached and found.cost < scan_cost):
            return
        what = "and reads less than a scan of all tokens" if fitted.reached else "with confidence"
        raise InputError(
            f"{_prefix(scope)}no setting reaches a fidelity of {fidelity} {what}, on {found.sentences} sentences: the "
            f"best one, {fitted.setting.method} with {fitted.setting.clusters} clusters, has a lower bound of "
            f"{found.bound:.5f} with {found.fallback:.1%} of the rows falling back. No screen was written to "
            f"{self.folder}; give more --text and --vectors, ask for a lower --fidelity, or take that one with "
            f"--keep-best. The hidden vectors are in {self.place}."
        )


def _prefix(scope: str) -> str:
    return f"{scope}: " if scope else ""
