"""The choices of a training run: the tables and keys of a recipe (TOML)."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar, Literal

from sharpbeam.options.schema import Schema, option


@dataclass(frozen=True)
class DataOptions(Schema):
    """Files of text. Names are relative to the recipe, or to the folder given as --data; .gz is read through gzip."""

    table: ClassVar[str] = "data"

    train: tuple[str, ...] = option(
        MISSING, "tab-separated files, the source sides of line-parallel files, or a language model's text"
    )
    valid: tuple[str, ...] = option(MISSING, "the same for validation")
    train_target: tuple[str, ...] = option((), "target sides of line-parallel files, in the order of train")
    valid_target: tuple[str, ...] = option((), "the same for validation")
    source_column: int = option(0, "column of the source in tab-separated files, from 0", ge=0)
    target_column: int = option(1, "column of the target in tab-separated files, from 0", ge=0)
    languages: tuple[str, ...] = option(
        (), "languages of the two columns of each file, as 'en-de', for one transformer of many directions"
    )
    max_length: int = option(100, "longer pairs (in tokens, either side) are left out of training", ge=1)

    def check(self) -> None:
        """Raise OptionError if there are no files, or their number does not fit."""
        for name in ("train", "valid"):
            files, targets = getattr(self, name), getattr(self, f"{name}_target")
            self.require(bool(files), name, "a list of at least one file")
            fits = not targets or len(targets) == len(files)
            self.require(fits, f"{name}_target", "one file for each source file")
            fits = not self.languages or len(files) == len(self.languages)
            self.require(fits, "languages", "one entry for each file of train, and of valid")
        two = all(re.fullmatch(r"(\w+)-(?!\1\Z)\w+", entry) for entry in self.languages)
        self.require(two, "languages", "two different codes in each entry, as 'en-de'")
        self.require(not (self.languages and self.train_target), "train_target", "empty with languages")


@dataclass(frozen=True)
class VocabularyOptions(Schema):
    """How the vocabulary is made from the training text."""

    table: ClassVar[str] = "vocabulary"

    kind: Literal["pieces", "words"] = option(
        "pieces", "of translation: SentencePiece pieces, or the words between spaces"
    )
    size: int = option(16384, "pieces or words, special tokens included; for words an upper bound", ge=8)
    shared: bool = option(True, "one vocabulary for both sides")
    target_size: int = option(0, "size of the target's own vocabulary; 0 = size", ge=0)
    least_count: int = option(1, "words: rarer ones are unknown", ge=1)
    character_coverage: float = option(1.0, "pieces: share of characters that must be covered", gt=0, le=1)

    def check(self) -> None:
        """Raise OptionError for options that the kind of vocabulary does not have."""
        own = self.target_size >= 8 and not self.shared
        self.require(own or not self.target_size, "target_size", "0, or 8 or more if not shared")
        self.require(self.least_count == 1 or self.kind == "words", "least_count", "1, or more with kind words")


@dataclass(frozen=True)
class TrainOptions(Schema):
    """Optimization, validation and checkpoints."""

    table: ClassVar[str] = "train"

    max_steps: int = option(MISSING, "optimizer steps", ge=1)
    start: str = option(
        "", "fine-tuning: a model folder, relative to the recipe, whose weights and vocabularies to begin with"
    )
    start_matching: bool = option(
        False, "of `start`, take the tensors whose names and shapes fit; the others begin fresh"
    )
    batch_tokens: int = option(2048, "longer side of a batch, padding included", ge=1)
    unroll: int = option(
        35, "of a language model: tokens of a column in a batch, which has batch_tokens / unroll columns", ge=1
    )
    optimizer: Literal["adam", "muon", "sgd"] = option(
        "adam", "muon: for matrices of hidden vectors, where a student learned in half the steps; sgd has no momentum"
    )
    learning_rate: float = option(1e-3, "the peak", gt=0)
    warmup_steps: int = option(500, "steps in which the learning rate rises to its peak", ge=0)
    schedule: Literal["linear", "inverse_sqrt", "constant", "epochs"] = option(
        "linear", "of the learning rate after the warm-up; linear ends at 0"
    )
    cooldown_steps: int = option(0, "the last of max_steps, in which the learning rate falls to 0", ge=0)
    hold_epochs: int = option(4, "of the schedule epochs: this many at the peak,", ge=0)
    epoch_decay: float = option(0.5, "then each epoch's rate is the last one's times this", gt=0, le=1)
    adam_beta2: float = option(0.98, "of Adam", ge=0, lt=1)
    clip_norm: float = option(1.0, "largest norm of the gradient", gt=0)
    dropout: float = option(
        0.2, "translation: one mask for all positions of a sequence; language: one for each position", ge=0, lt=1
    )
    label_smoothing: float = option(0.1, "share of the target distribution spread over all tokens", ge=0, lt=1)
    self_normalization: float = option(
        0.0,
        "alpha of loss + alpha (log Z)^2, which trains for decoding without a softmax",
        ge=0,
        other_names=("self_normalisation",),
    )
    expert_balance: float = option(
        0.01, "mixture of experts: weight of the load-balancing loss, which is 1 if all are chosen alike", ge=0
    )
    output_samples: int = option(0, "draws for a sampled softmax; 0 = the whole vocabulary", ge=0)
    average_decay: float = option(
        0.999, "of the running average of the weights that is validated and saved; 0 = none", ge=0, lt=1
    )
    exportable: bool = option(
        False, "for `convert --format firefox`: keeps at zero what Marian lacks, the embedding of bos, the SSRU's bias"
    )
    precision: Literal["auto", "float32", "bfloat16"] = option(
        "auto", "of matmuls; auto: bfloat16 if the processor has instructions for it, else float32"
    )
    seed: int = option(1, "of weights, order and dropout", ge=0, lt=2**32)
    threads: int = option(
        0, "PyTorch threads; 0: one, or one for each core if that is faster (measured)", ge=0, le=1024
    )
    device: Literal["cpu", "cuda"] = option("cpu", "where PyTorch computes")
    log_every: int = option(50, "steps between lines of metrics", ge=1)
    validate_every: int = option(1000, "steps between validations", ge=1)
    checkpoint_every: int = option(250, "steps between checkpoints", ge=1)
    patience: int = option(0, "stop after this many validations without a better one; 0 = never", ge=0)

    def check(self) -> None:
        """Raise OptionError for an option of fine-tuning without a model to start from."""
        self.require(bool(self.start) or not self.start_matching, "start_matching", "false without train.start")


@dataclass(frozen=True)
class Recipe(Schema):
    """A whole training run: text, vocabulary, model and optimization."""

    name: str = option(MISSING, "of the model, for its card")
    data: DataOptions = option(MISSING, "text")
    model: dict[str, Any] = option(MISSING, "config of the architecture, without the vocabulary sizes")
    train: TrainOptions = option(MISSING, "optimization")
    vocabulary: VocabularyOptions = option(VocabularyOptions(), "how the vocabulary is made")
