"""The vocabularies of a model: made once from the training text, read again by a run that resumes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sharpbeam.errors import OptionError
from sharpbeam.options.schema import require
from sharpbeam.options.train import VocabularyOptions
from sharpbeam.storage.atomic import write_bytes
from sharpbeam.text.lines import Pair
from sharpbeam.text.sentencepiece import SPECIAL_IDS, UNK_ID, SentencePieceVocabulary, train_sentencepiece
from sharpbeam.text.vocabulary import Vocabulary, read_vocabularies
from sharpbeam.text.words import WordVocabulary

VOCABULARIES = ("source.spm", "target.spm", "source.vocab.json", "target.vocab.json", "vocab.json")
ENDINGS = {"pieces": "spm", "words": "vocab.json"}


def tag(language: str) -> str:
    """The piece that says which language is asked for."""
    return f"<2{language}>"


def vocabulary_files(options: VocabularyOptions) -> list[str]:
    """Names of the vocabularies of a translation model: the source's, and the target's unless they share one."""
    return [f"{side}.{ENDINGS[options.kind]}" for side in (("source",) if options.shared else ("source", "target"))]


def check_vocabularies(folder: Path, options: VocabularyOptions) -> None:
    """Raise OptionError if the model in `folder` has other vocabularies than `options` ask for."""
    own, needed = [name for name in VOCABULARIES if (folder / name).exists()], vocabulary_files(options)
    if own not in (needed, ["vocab.json"]):
        raise OptionError(
            f"train.start is {folder}, with {' and '.join(own)}; the table [vocabulary] asks for "
            f"{' and '.join(needed)}. Give it the kind of that model, and shared."
        )


def translation_vocabularies(
    pairs: list[Pair], options: VocabularyOptions, seed: int, output: Path, languages: Sequence[str] = ()
) -> dict[str, Vocabulary]:
    """Source and target of a translation model by their files in the folder `output`; one if the options share them.

    With `languages`, the vocabulary is one of pieces for all, and has a tag for each. Raises OptionError if an earlier
    run there has others.
    """
    one = options.shared and options.kind == "pieces"
    require(not languages or one, "data.languages", tuple(languages), "empty unless both sides share pieces")
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
    sides = [(sources + targets if options.shared else sources, "size", options.size)]
    if not options.shared:
        option = "target_size" if options.target_size else "size"
        sides.append((targets, option, options.target_size or options.size))
    vocabularies, symbols = {}, [tag(code) for code in languages]
    for name, (lines, option, size) in zip(vocabulary_files(options), sides, strict=True):
        vocabularies[name] = vocabulary_at(output / name, lines, options, seed, option, size, symbols)
    return vocabularies


def language_tags(vocabulary: Vocabulary, languages: Sequence[str]) -> dict[str, int]:
    """The token of each language; none for words, which have no tags. OptionError if the vocabulary lacks one."""
    if not isinstance(vocabulary, SentencePieceVocabulary):
        return {}
    tags = {code: vocabulary.token(tag(code)) for code in languages}
    missing = [tag(code) for code, token in tags.items() if token == UNK_ID]
    allowed = f"languages whose tags the vocabulary has, not {' '.join(missing)}; without train.start it gets them"
    require(not missing, "data.languages", list(languages), allowed)
    return tags


def check_special_ids(folder: Path, name: str, instead: str) -> None:
    """Raise OptionError if the model in `folder`, given as `name`, numbers its tokens otherwise than training does.

    `instead` says what to do. Lists of pieces, which other programs' models have, are not read in training.
    """
    others: list[object] = [one.special_ids for one in read_vocabularies(folder) if one.special_ids != SPECIAL_IDS]
    others += [path.name for path in folder.glob("*.pieces.json")]
    if others:
        needed = f"a model with {SPECIAL_IDS} and no list of pieces, as `sharpbeam train` makes them"
        raise OptionError(f"{name} is {folder}, which has {others[0]}; it must be {needed}. {instead}")


def vocabulary_at(
    path: Path,
    lines: Iterable[str],
    options: VocabularyOptions,
    seed: int,
    option: str,
    size: int,
    symbols: Sequence[str] = (),
) -> Vocabulary:
    """The vocabulary in the file `path`, made of `lines` if there is no file.

    Raises OptionError if one that was there has another size than `vocabulary.OPTION`, `size`, asks for.
    """
    words = options.kind == "words"
    if not path.exists() and words:
        write_bytes(path, WordVocabulary.build(lines, size, options.least_count).serialized)
    elif not path.exists():
        coverage = options.character_coverage
        write_bytes(path, train_sentencepiece(list(lines), path.name, size, coverage, seed, list(symbols)))
    vocabulary = WordVocabulary.load(path) if words else SentencePieceVocabulary(path)
    if len(vocabulary) > size or (len(vocabulary) < size and not words):  # a text may have fewer words than that
        raise OptionError(
            f"vocabulary.{option} is {size}, but {path} of train.start or the run that resumes has {len(vocabulary)} "
            f"{options.kind}; set it to that, or start in another --output folder."
        )
    return vocabulary
