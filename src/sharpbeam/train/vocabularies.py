"""The vocabularies of a model: made once from the training text, read again by a run that resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sharpbeam.errors import OptionError
from sharpbeam.options.schema import require
from sharpbeam.options.train import VocabularyOptions
from sharpbeam.storage.atomic import write_bytes
from sharpbeam.text.lines import Pair
from sharpbeam.text.sentencepiece import SentencePieceVocabulary, train_sentencepiece
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.text.words import WordVocabulary

ENDINGS = {"pieces": "spm", "words": "vocab.json"}


def tag(language: str) -> str:
    """The piece that says which language is asked for."""
    return f"<2{language}>"


class Vocabularies:
    """Source and target of a translation model, which are one object if the options share them."""

    def __init__(
        self, pairs: list[Pair], options: VocabularyOptions, seed: int, output: Path, languages: Sequence[str] = ()
    ) -> None:
        """Files lie in the folder `output`. Raises OptionError if an earlier run there has others.

        With `languages`, the vocabulary is one of pieces for all, and has a tag for each.
        """
        self._ending, self._languages = ENDINGS[options.kind], languages
        one = options.shared and options.kind == "pieces"
        require(not languages or one, "data.languages", tuple(languages), "empty unless both sides share pieces")

        def vocabulary(side: str, lines: list[str], option: str, size: int) -> Vocabulary:
            path, symbols = output / f"{side}.{self._ending}", [tag(code) for code in languages]
            return vocabulary_at(path, lambda: lines, options, seed, option, size, symbols)

        sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
        if options.shared:
            self.source = self.target = vocabulary("source", sources + targets, "size", options.size)
            return
        self.source = vocabulary("source", sources, "size", options.size)
        option = "target_size" if options.target_size else "size"
        self.target = vocabulary("target", targets, option, options.target_size or options.size)

    def tags(self) -> dict[str, int]:
        """The token of each language."""
        if not isinstance(self.source, SentencePieceVocabulary):
            return {}
        return {code: self.source.token(tag(code)) for code in self._languages}

    def files(self) -> dict[str, bytes]:
        """Names and bytes of the files in a model folder: one, or two if the sides have their own."""
        files = {f"source.{self._ending}": self.source.serialized}
        if self.target is not self.source:
            files[f"target.{self._ending}"] = self.target.serialized
        return files


def vocabulary_at(
    path: Path,
    lines: Callable[[], Iterable[str]],
    options: VocabularyOptions,
    seed: int,
    option: str,
    size: int,
    symbols: Sequence[str] = (),
) -> Vocabulary:
    """The vocabulary in the file `path`, made of `lines` if there is no file.

    Raises OptionError if that of an earlier run has another size than `vocabulary.OPTION`, `size`, asks for.
    """
    words = options.kind == "words"
    if not path.exists() and words:
        write_bytes(path, WordVocabulary.build(lines(), size, options.least_count).serialized)
    elif not path.exists():
        coverage = options.character_coverage
        write_bytes(path, train_sentencepiece(list(lines()), path.name, size, coverage, seed, list(symbols)))
    vocabulary = WordVocabulary.load(path) if words else SentencePieceVocabulary(path)
    if len(vocabulary) > size or (len(vocabulary) < size and not words):  # a text may have fewer words than that
        raise OptionError(
            f"vocabulary.{option} is {size}, but {path} of an earlier run has {len(vocabulary)} {options.kind}; "
            "start in another --output folder."
        )
    return vocabulary
