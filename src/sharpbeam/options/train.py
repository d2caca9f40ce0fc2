"""The choices of a training run, as they stand in a recipe (TOML)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from sharpbeam.options.schema import require


@dataclass(frozen=True)
class DataOptions:
    """Where the text is. Paths are relative to the recipe; names ending in .gz are read through gzip."""

    train: tuple[str, ...]  # tab-separated files, the source sides of line-parallel files, or a language model's text
    valid: tuple[str, ...]
    train_target: tuple[str, ...] = ()  # target sides of line-parallel files, in the order of `train`
    valid_target: tuple[str, ...] = ()
    source_column: int = 0  # columns of tab-separated files, from 0
    target_column: int = 1
    # One model of many directions, a transformer: the languages of the two columns of each file, as "en-de", of `train`
    # and `valid` alike. Each file is read both ways, and the token of the target's language stands before a source.
    languages: tuple[str, ...] = ()
    max_length: int = 100  # longer pairs (in tokens, either side) are left out of training

    def __post_init__(self) -> None:
        require(bool(self.train), "data.train", self.train, "a list of at least one file")
        require(bool(self.valid), "data.valid", self.valid, "a list of at least one file")
        for name, sides, targets in (
            ("train_target", self.train, self.train_target),
            ("valid_target", self.valid, self.valid_target),
        ):
            require(not targets or len(targets) == len(sides), f"data.{name}", targets, "one file for each source file")
        for files in (self.train, self.valid):
            fits = not self.languages or len(files) == len(self.languages)
            require(fits, "data.languages", self.languages, "one entry for each file of train, and of valid")
        two = all(len(set(entry.split("-"))) == 2 for entry in self.languages)
        require(two, "data.languages", self.languages, "two different codes in each entry, as 'en-de'")
        require(not (self.languages and self.train_target), "data.train_target", self.train_target, "empty here")
        require(self.source_column >= 0, "data.source_column", self.source_column, "0 or more")
        require(self.target_column >= 0, "data.target_column", self.target_column, "0 or more")
        require(self.max_length >= 1, "data.max_length", self.max_length, "1 or more")


@dataclass(frozen=True)
class VocabularyOptions:
    """How the vocabulary is made from the training text."""

    kind: Literal["pieces", "words"] = "pieces"  # of translation: SentencePiece, or the words between spaces
    size: int = 16384  # pieces or words, special tokens included; of words at most so many
    shared: bool = True  # one vocabulary for both sides
    target_size: int = 0  # of the target's own vocabulary; 0 = size
    least_count: int = 1  # words: rarer ones are unknown
    character_coverage: float = 1.0  # pieces: share of characters that must be covered

    def __post_init__(self) -> None:
        require(self.size >= 8, "vocabulary.size", self.size, "8 or more")
        own = self.target_size >= 8 and not self.shared
        require(
            own or not self.target_size, "vocabulary.target_size", self.target_size, "0, or 8 or more if not shared"
        )
        require(self.kind in ("pieces", "words"), "vocabulary.kind", self.kind, "pieces or words")
        rare = self.least_count
        counted = rare == 1 or (rare > 1 and self.kind == "words")
        require(counted, "vocabulary.least_count", rare, "1, or more with kind words")
        require(0 < self.character_coverage <= 1, "vocabulary.character_coverage", self.character_coverage, "in (0, 1]")


@dataclass(frozen=True)
class TrainOptions:
    """Optimisation, validation and checkpoints."""

    max_steps: int
    start: str = ""  # fine-tuning: a model folder, relative to the recipe, whose weights and vocabularies to begin with
    start_matching: bool = False  # of `start`, take the tensors whose names and shapes fit; the others begin fresh
    batch_tokens: int = 2048  # longer side of a batch, padding included
    unroll: int = 35  # of a language model: words of a column in a batch, which has batch_tokens / unroll columns
    optimizer: Literal["adam", "sgd"] = "adam"  # sgd without momentum
    learning_rate: float = 1e-3  # the peak
    warmup_steps: int = 500
    schedule: Literal["linear", "inverse_sqrt", "constant", "epochs"] = "linear"  # after the warm-up; linear ends at 0
    hold_epochs: int = 4  # of the schedule "epochs": so many at the peak,
    epoch_decay: float = 0.5  # then each one's rate is the one's before, times this
    adam_beta2: float = 0.98
    clip_norm: float = 1.0
    dropout: float = 0.2  # translation: one mask for all positions of a sequence; language: one for each position
    label_smoothing: float = 0.1
    self_normalisation: float = 0.0  # alpha of CUBE-4: loss + alpha (log Z)^2
    output_samples: int = 0  # draws for a sampled softmax; 0 = the whole vocabulary
    average_decay: float = 0.999  # of the running average of the weights that is validated and saved; 0 = none
    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = 1
    threads: int = 0  # PyTorch threads; 0 = PyTorch's choice
    device: Literal["cpu", "cuda"] = "cpu"
    log_every: int = 50
    validate_every: int = 1000
    checkpoint_every: int = 250
    patience: int = 0  # stop after so many validations without a better one; 0 = never

    def __post_init__(self) -> None:
        require(bool(self.start) or not self.start_matching, "train.start_matching", True, "false without train.start")
        for name in ("max_steps", "batch_tokens", "unroll", "log_every", "validate_every", "checkpoint_every"):
            require(getattr(self, name) >= 1, f"train.{name}", getattr(self, name), "1 or more")
        for name in ("warmup_steps", "hold_epochs", "threads", "patience", "self_normalisation", "output_samples"):
            require(getattr(self, name) >= 0, f"train.{name}", getattr(self, name), "0 or more")
        require(self.learning_rate > 0, "train.learning_rate", self.learning_rate, "above 0")
        require(0 < self.epoch_decay <= 1, "train.epoch_decay", self.epoch_decay, "in (0, 1]")
        require(self.clip_norm > 0, "train.clip_norm", self.clip_norm, "above 0")
        for name in ("dropout", "label_smoothing", "average_decay", "adam_beta2"):
            require(0 <= getattr(self, name) < 1, f"train.{name}", getattr(self, name), "in [0, 1)")


@dataclass(frozen=True)
class Recipe:
    """A whole training run: text, vocabulary, model facts and optimisation."""

    name: str  # of the model, for its card
    data: DataOptions
    model: dict[str, Any]  # facts of the architecture, without the vocabulary sizes
    train: TrainOptions
    vocabulary: VocabularyOptions = field(default_factory=VocabularyOptions)
