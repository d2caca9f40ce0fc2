"""The job of `fit-screen`: texts of some directions through a model, into the screens of its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sharpbeam.decoding.languages import LanguageTags
from sharpbeam.decoding.loading import Parts, find_model, load_parts
from sharpbeam.fit.preview import fit_preview
from sharpbeam.fit.screen import fit as fitting
from sharpbeam.fit.screen.collect import Collection, Collector
from sharpbeam.fit.screen.fit import Fitted, Say
from sharpbeam.fit.screen.output import Output
from sharpbeam.fit.screen.scopes import scopes, shared, shares
from sharpbeam.fit.texts import DirectedText, directed_texts
from sharpbeam.jobs.paths import check_folder
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.options.screen import ScreenOptions
from sharpbeam.storage.artifacts import OUTPUT, output_digest
from sharpbeam.storage.model_folder import read_config
from sharpbeam.storage.previews import save_preview
from sharpbeam.storage.screens import save_screens
from sharpbeam.text.lines import read_all
from sharpbeam.types import Languages, Per, Screens

PREVIEW_SHARE = 10  # a preview needs only the moments of hidden vectors: those of every tenth sentence


@dataclass(frozen=True)
class ScreenJob:
    """What is fitted, checked and loaded."""

    folder: Path
    place: Path  # of the hidden vectors; each direction that has a name has a folder there
    texts: Sequence[DirectedText]
    per: Per
    groups: Mapping[str, list[Languages]]  # the directions of each screen, by its scope
    parts: Parts
    options: ScreenOptions
    language: bool  # a language model
    threads: int

    @classmethod
    def open(
        cls,
        model: str,
        text: Sequence[str],
        per: str,
        work: Path | None,
        options: ScreenOptions,
        machine: MachineOptions,
    ) -> ScreenJob:
        """Raise OptionError, InputError, OutputError or ModelError, where it can be before the model is loaded."""
        folder = find_model(model)
        config = read_config(folder)
        language_tags, task = LanguageTags.of(config), architecture_of(config).task
        texts, language = directed_texts(text, language_tags), task == "language"
        chosen, groups = scopes([text.direction.languages for text in texts], per, bool(language_tags.tokens))
        place = work or folder.with_name(folder.name + ".vectors")
        require(place.resolve() != folder.resolve(), "work", str(place), "another folder than the model's")
        check_folder(place, f"hidden vectors to {place}", "another --work folder")
        resolved = options.resolved(language, config.target_vocab_size)
        parts = load_parts(folder, machine, task)
        return cls(folder, place, texts, chosen, groups, parts, resolved, language, machine.workers)

    def fit(self, say: Say) -> dict[str, Fitted]:
        """The screens by their scopes; writes the preview."""
        weight, bias = self.parts.model.output()
        wanted = shares(self.groups, self.options.vectors)
        collections = {
            own: self._collect(text, wanted[own]) for text in self.texts for own in [text.direction.languages]
        }
        fitted: dict[str, Fitted] = {}
        for scope, collection in shared(self.groups, collections).items():
            if scope:
                say(f"{scope}:")
            output = Output(weight, bias)
            fitted[scope] = fitting.fit_screen(collection, output, self.parts.model.eos_id, self.options, say)
        everything = Collection.of(list(collections.values()))
        samples = everything.read(lambda sentence: sentence % PREVIEW_SHARE == 0)["hidden"]
        save_preview(self.folder, fit_preview(weight, bias, samples).arrays(), weight, bias)
        return fitted

    def save(self, fitted: Mapping[str, Fitted]) -> None:
        """Write the screens into the model folder."""
        facts = {
            scope: fitting.facts_of(found, self.options) | {"text": self._files(self.groups[scope])}
            for scope, found in fitted.items()
        }
        screens = Screens(self.per, {scope: found.screen for scope, found in fitted.items()})
        save_screens(self.folder, screens, *self.parts.model.output(), facts)

    def _files(self, directions: Sequence[Languages]) -> list[dict[str, object]]:
        return [file for text in self.texts if text.direction.languages in directions for file in text.facts()]

    def _collect(self, text: DirectedText, vectors: int) -> Collection:
        """The hidden vectors of one direction."""
        parts, options = self.parts, self.options
        identity = {OUTPUT: output_digest(*parts.model.output()), "text_sha256": [f["sha256"] for f in text.facts()]}
        identity |= {"direction": text.name} if text.name else {}
        home = self.place / text.name if text.name else self.place
        sizes = (options.beam_size, options.top_k, self.threads)
        collector = Collector(parts, home, *sizes, self.language, text.direction)
        with progress_bar(f"collecting {text.name}".rstrip(), vectors, unit="vectors") as bar:
            return collector.collect(read_all(text.files), identity, vectors, bar)
