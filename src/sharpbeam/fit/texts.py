"""Text that is given with its direction, as `--text de-en=news.de.gz`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from sharpbeam.decoding.languages import Direction, LanguageTags
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.sample import sample_of
from sharpbeam.errors import InputError, OptionError
from sharpbeam.options.decode import LanguageOptions
from sharpbeam.options.schema import require
from sharpbeam.text.lines import TextInput, check_readable, file_digest, is_standard_input, read_lines

OPEN = 100  # files at a time, at most
Texts = str | Path | Sequence[str | Path]  # files with one sentence a line, some with a direction: "de-en=news.de"


@dataclass(frozen=True)
class DirectedText:
    """All files of one direction."""

    direction: Direction
    files: tuple[Path, ...]

    @property
    def name(self) -> str:
        """As the command line has it: "de-en"; "en" where the source's language was not said, "" where neither was."""
        return self.direction.languages.scope("direction").strip("-")

    def facts(self) -> list[dict[str, object]]:
        """The identity of these files."""
        named = {"direction": self.name} if self.name else {}
        return [{"name": f.name, "bytes": f.stat().st_size, "sha256": file_digest(f), **named} for f in self.files]


def directed_texts(text: Texts, language_tags: LanguageTags) -> list[DirectedText]:
    """The files of `text`, for a model with the languages `language_tags`, in the order of their first files.

    Raises OptionError for a direction that the model lacks, or that it needs and was not given; InputError for a file
    that cannot be read, has no sentence, or is none: standard input cannot be read again.
    """
    files: dict[Direction, list[Path]] = {}
    for entry in map(str, [text] if isinstance(text, str | Path) else text):
        name, equals, rest = entry.partition("=")
        if equals and language_tags.tokens and not Path(entry).is_file():
            direction, path = language_tags.named(name), Path(rest)
        else:
            direction, path = None, Path(entry)
        form = "the name of a file, or SOURCE-TARGET=FILE for a multilingual model"
        require(path != Path() and not is_standard_input(path), "text", entry, form)
        check_readable([path])
        if not (first := next((line for line in read_lines(path) if line.strip()), "")):
            raise InputError(f"{path} has no sentence; give a file with one sentence a line.")
        try:
            direction = direction or language_tags.of_text(LanguageOptions(), first)
        except OptionError as error:
            raise OptionError(f"text is {entry!r}; give it with its direction, as de-en={entry}. {error}") from None
        files.setdefault(direction, []).append(path)
    return [DirectedText(direction, tuple(own)) for direction, own in files.items()]


def texts_or_sample(loaded: LoadedModel, text: Texts) -> list[tuple[Direction, Iterable[str]]]:
    """The lines of the texts by direction, read anew each time; without any, sample sentences in the model's own."""
    if not text:
        return [(loaded.language_tags.direction(loaded.options.languages), sample_of(loaded))]
    lines = TextInput if loaded.task == "language" else _Interleaved  # what a language model reads is connected
    return [(one.direction, lines(one.files)) for one in directed_texts(text, loaded.language_tags)]


@dataclass(frozen=True)
class _Interleaved:
    """The lines of files alternately, so that each counts where not all lines are needed."""

    files: tuple[Path, ...]

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self.files), OPEN):
            for lines in zip_longest(*map(read_lines, self.files[first : first + OPEN]), fillvalue=""):
                yield from lines


def sentences_or_sample(loaded: LoadedModel, lines: Iterable[str] | None, count: int) -> list[str]:
    """The first `count` of `lines` that are not empty, or of the sample sentences; InputError if there is none."""
    lines = list(islice((line for line in lines or sample_of(loaded) if line.strip()), count))
    if not lines:
        raise InputError("the text has no sentence; give a file with one source sentence a line.")
    loaded.language_tags.of_text(loaded.options.languages, lines[0])  # raises for a missing tag
    return lines
