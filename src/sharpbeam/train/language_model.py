"""The task of language modeling: text as one long stream of words, cut into columns, its state carried along.

Truncated back-propagation through time as in Zaremba et al. (2014): the stream is cut into `batch_tokens` / `unroll`
columns that are read side by side, `unroll` words at a time; a batch begins with the states in which the one before
it has ended, and gradients end at its border.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sharpbeam.api.scorer import perplexity
from sharpbeam.errors import InputError, OptionError
from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.lstm_lm.module import LstmLmModule, State
from sharpbeam.options.schema import build, require
from sharpbeam.options.train import Recipe
from sharpbeam.text.lines import read_lines
from sharpbeam.text.sentencepiece import EOS_ID
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.train.checkpoint import Progress
from sharpbeam.train.loss import training_loss, word_frequency
from sharpbeam.train.task import TrainingTask
from sharpbeam.train.vocabularies import vocabulary_at

VALID_COLUMNS, VALID_WORDS = 10, 32  # of validation: ten cold starts cost next to nothing


def read_stream(files: tuple[str, ...], base: Path, vocabulary: Vocabulary) -> Tensor:
    """Ids of all lines one after the other, [N] int64: eos, then each line's words and eos."""
    ids = [EOS_ID]
    for name in files:
        for line in read_lines(base / name):
            ids += [*vocabulary.encode(line), EOS_ID]
    return torch.from_numpy(np.array(ids))


@dataclass(frozen=True)
class Window:
    """Some positions of every column: the tokens read and the tokens to predict, [B, T] each."""

    read: Tensor
    target: Tensor
    first: bool  # the columns begin here


def windows(stream: Tensor, columns: int, words: int, skip: int = 0) -> Iterator[Window]:
    """The stream in `columns` columns, `words` positions at a time without the first `skip`; a remainder is left out.

    Raises InputError if the stream is shorter than one position of every column.
    """
    length = (len(stream) - 1) // columns
    if length < 1:
        raise InputError(f"the text has {len(stream) - 1} words; at least one for each of {columns} columns is needed.")
    read = stream[: length * columns].view(columns, length)
    target = stream[1 : length * columns + 1].view(columns, length)
    for start in range(skip * words, length, words):
        part = slice(start, start + words)
        yield Window(read[:, part], target[:, part], start == 0)


class LanguageTask(TrainingTask):
    """Training of the LSTM language model."""

    measure = ("perplexity", "validation perplexity")

    def __init__(self, recipe: Recipe, base: Path, output: Path) -> None:
        """Read the text; the vocabulary is made once, a resumed run reads it back from `output`."""
        self.options = recipe.train
        self.device = torch.device(self.options.device)
        tokens, unroll = self.options.batch_tokens, self.options.unroll
        self.columns = tokens // unroll
        require(self.columns >= 1, "train.batch_tokens", tokens, f"at least train.unroll, {unroll}")
        if recipe.data.train_target or recipe.data.valid_target:
            raise OptionError("data.train_target and data.valid_target are for translation; leave them out.")
        options, files = replace(recipe.vocabulary, kind="words"), recipe.data.train
        self.vocabulary = vocabulary_at(
            output / "vocab.json",
            (line for name in files for line in read_lines(base / name)),
            *(options, self.options.seed, "size", options.size),
        )
        self.vocabularies = {"vocab.json": self.vocabulary.serialized}
        self.train_stream = read_stream(recipe.data.train, base, self.vocabulary)
        self.valid_stream = read_stream(recipe.data.valid, base, self.vocabulary)
        next(windows(self.valid_stream, 1, VALID_WORDS))  # an error now for a text without words
        facts = {"vocab_size": len(self.vocabulary)} | recipe.model
        facts.pop("architecture", None)
        self.config = build(LstmLmConfig, facts, "recipe: model")
        self.frequency = word_frequency(self.train_stream, len(self.vocabulary)).to(self.device)
        self._state: State | None = None

    def module(self) -> LstmLmModule:
        """A fresh model."""
        return LstmLmModule(self.config, self.options.dropout)

    def epoch(self, epoch: int, skip: int) -> Iterator[Window]:
        """The whole stream, in its own order in every epoch."""
        return windows(self.train_stream, self.columns, self.options.unroll, skip)

    def loss(self, model: LstmLmModule, batch: Window) -> tuple[Tensor, int]:
        """Sums over the words of a window, and their number; the state after it is kept for the next one."""
        options = self.options
        state = model.begin(self.columns) if batch.first or self._state is None else self._state
        with torch.autocast(self.device.type, torch.bfloat16, enabled=options.precision == "bfloat16"):
            hidden, (outputs, cells) = model(batch.read.to(self.device), state)
        self._state = outputs.detach().float(), cells.detach().float()
        label = batch.target.to(self.device).flatten()
        figures = training_loss(hidden.float().flatten(0, 1), *model.output(), label, self.frequency, options)
        return figures, label.numel()

    def carried(self) -> dict[str, Tensor]:
        """The states of the columns."""
        return {} if self._state is None else dict(zip(("outputs", "cells"), self._state, strict=True))

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Continue the states of the columns."""
        if tensors:
            self._state = tensors["outputs"].to(self.device), tensors["cells"].to(self.device)

    @torch.no_grad()
    def validate(self, weights: dict[str, Tensor]) -> dict[str, float]:
        """Perplexity of the words and sentence ends, all lines as one text."""
        model = LstmLmModule(self.config).to(self.device)
        model.load_state_dict(weights)
        model.eval()
        columns = min(VALID_COLUMNS, len(self.valid_stream) - 1)
        state, nats, words = model.begin(columns), 0.0, 0
        for window in windows(self.valid_stream, columns, VALID_WORDS):
            hidden, state = model(window.read.to(self.device), state)
            logits = F.linear(hidden.flatten(0, 1), *model.output())
            nats += float(F.cross_entropy(logits, window.target.to(self.device).flatten(), reduction="sum"))
            words += window.target.numel()
        return {"valid_nll": nats / words, "perplexity": perplexity(-nats, words)}

    def better(self, figures: dict[str, float], progress: Progress) -> bool:
        """Whether the perplexity is lower than any before."""
        best = progress.best_nll
        progress.best_nll = min(best, figures["valid_nll"])
        return figures["valid_nll"] < best
