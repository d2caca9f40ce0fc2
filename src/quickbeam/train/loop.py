"""The training loop: a recipe in, a model folder out; killed at any moment it goes on with the same losses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from quickbeam.errors import OptionError, QuickbeamError
from quickbeam.models.recurrent.config import RecurrentConfig
from quickbeam.models.recurrent.module import RecurrentModule
from quickbeam.options.schema import build
from quickbeam.options.train import Recipe, TrainOptions
from quickbeam.text.sentencepiece import SentencePieceVocabulary, train_sentencepiece
from quickbeam.train.checkpoint import Progress, read_checkpoint, write_checkpoint
from quickbeam.train.data import Batch, ParallelData, read_pairs
from quickbeam.train.interrupt import Interrupt
from quickbeam.train.loss import output_loss
from quickbeam.train.report import Report
from quickbeam.train.validate import save_average, validate


def learning_rate(options: TrainOptions, step: int) -> float:
    """Rate of step `step` (from 1): a linear warm-up to the peak, then the schedule."""
    peak, warmup = options.learning_rate, options.warmup_steps
    if step <= warmup:
        return peak * step / max(warmup, 1)
    if options.schedule == "linear":
        return peak * max(options.max_steps - step, 0) / max(options.max_steps - warmup, 1)
    if options.schedule == "inverse_sqrt":
        return peak * float((max(warmup, 1) / step) ** 0.5)
    return peak


class Trainer:
    """One run of a recipe in one output folder: vocabularies, checkpoint, metrics, and the best model so far."""

    def __init__(self, recipe: Recipe, base: Path, output: Path) -> None:
        self.recipe, self.options, self.output = recipe, recipe.train, output
        if self.options.device == "cuda" and not torch.cuda.is_available():
            raise OptionError("train.device is 'cuda', but PyTorch finds no CUDA device here; set it to 'cpu'.")
        output.mkdir(parents=True, exist_ok=True)
        if self.options.threads:
            torch.set_num_threads(self.options.threads)
        data = recipe.data
        pairs = read_pairs(data.train, data.train_target, data, base)
        self.valid_pairs = read_pairs(data.valid, data.valid_target, data, base)
        self.source, self.target = self._vocabularies(pairs)
        self.train_data = ParallelData(pairs, self.source, self.target, data.max_length)
        self.valid_data = ParallelData(self.valid_pairs, self.source, self.target, 1 << 20)
        facts = {"source_vocab_size": len(self.source), "target_vocab_size": len(self.target)} | recipe.model
        facts.pop("architecture", None)
        self.config = build(RecurrentConfig, facts, "recipe: model")
        torch.manual_seed(self.options.seed)
        torch.set_flush_denormal(True)  # tiny softmax values would take the slow path of the CPU
        self.device = torch.device(self.options.device)
        self.model = RecurrentModule(self.config, self.options.dropout).to(self.device)
        self.average = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=0.0, betas=(0.9, self.options.adam_beta2), eps=1e-8, fused=True
        )
        self.progress = Progress()
        self.checkpoint = output / "checkpoint.safetensors"
        if self.checkpoint.exists():
            self.progress = read_checkpoint(self.checkpoint, self.model, self.average, self.optimizer)

    def _vocabularies(self, pairs: list[tuple[str, str]]) -> tuple[SentencePieceVocabulary, SentencePieceVocabulary]:
        """Train the vocabularies once; a resumed run reads them back."""
        sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
        apart = {"source.spm": sources, "target.spm": targets}
        texts = {"source.spm": sources + targets} if self.recipe.vocabulary.shared else apart
        vocabularies = [self._vocabulary(self.output / name, lines) for name, lines in texts.items()]
        return vocabularies[0], vocabularies[-1]

    def _vocabulary(self, path: Path, lines: list[str]) -> SentencePieceVocabulary:
        options = self.recipe.vocabulary
        if not path.exists():
            try:
                train_sentencepiece(lines, path, options.size, options.character_coverage, self.options.seed)
            except RuntimeError as error:  # SentencePiece says which sizes the text allows
                raise OptionError(f"vocabulary.size is {options.size}; the text does not allow it: {error}") from error
        vocabulary = SentencePieceVocabulary(path)
        if len(vocabulary) != options.size:
            raise OptionError(
                f"vocabulary.size is {options.size}, but {path} of an earlier run has {len(vocabulary)} pieces; "
                "start in another --output folder."
            )
        return vocabulary

    @property
    def finished(self) -> bool:
        """Whether max_steps are done, or patience has run out without a better validation BLEU."""
        patience, progress = self.options.patience, self.progress
        return progress.step >= self.options.max_steps or 0 < patience <= progress.since_best

    def run(self) -> None:
        """Train until `finished`.

        Ctrl-C ends after the step at work with a checkpoint, and raises KeyboardInterrupt; a write that fails (a full
        disk) raises QuickbeamError and leaves the checkpoint before. Either way a new run goes on from the checkpoint.
        """
        try:
            with Report(self.output, self.options.max_steps, self.progress.step) as report, Interrupt() as interrupt:
                self._run(report, interrupt)
        except (OSError, SafetensorError) as error:
            raise QuickbeamError(
                f"training stopped at step {self.progress.step}, since {self.output} cannot be written: {error}. Make "
                "room, then give the same command again: it goes on from the last checkpoint."
            ) from error

    def _run(self, report: Report, interrupt: Interrupt) -> None:
        """Step by step; what happens between two steps, in this order: metrics, validation, checkpoint, the end."""
        options, progress = self.options, self.progress
        for batch in self._batches():
            began = time.perf_counter()
            figures = self._step(batch)
            progress.seconds += time.perf_counter() - began
            report.step(progress, figures, learning_rate(options, progress.step), options.log_every)
            if progress.step % options.validate_every == 0 or progress.step >= options.max_steps:
                self._validate(report)
            if progress.step % options.checkpoint_every == 0 or self.finished or interrupt.wanted:
                write_checkpoint(self.checkpoint, self.model, self.average, self.optimizer, progress)
            if self.finished:
                return
            if interrupt.wanted:
                report.say(f"Stopped at step {progress.step} with a checkpoint; the same command goes on from there.")
                raise KeyboardInterrupt

    def _batches(self) -> Iterator[Batch]:
        """Batches from where the run stands, epoch after epoch; progress counts each before it is trained on."""
        while not self.finished:
            options, progress = self.options, self.progress
            for batch in self.train_data.epoch(options.batch_tokens, options.seed, progress.epoch, progress.batch):
                progress.batch += 1
                yield batch
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _step(self, batch: Batch) -> tuple[Tensor, int]:
        """One optimiser step; returns the sums of `output_loss` and the number of target tokens."""
        options = self.options
        low = options.precision == "bfloat16"
        self.model.train()
        mask = None if batch.source_mask is None else batch.source_mask.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=low):
            hidden = self.model(batch.source.to(self.device), mask, batch.target.to(self.device))
        keep = batch.label_mask.to(self.device)
        label = batch.label.to(self.device)[keep]
        weight, bias = self.model.output()
        dtype = torch.bfloat16 if low else torch.float32
        figures = output_loss(
            hidden.float()[keep], weight, bias, label, options.label_smoothing, options.self_normalisation, dtype
        )
        (figures[0] / label.numel()).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), options.clip_norm)
        self.progress.step += 1
        self.progress.words += label.numel()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(options, self.progress.step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._update_average()
        return figures.detach(), label.numel()

    @torch.no_grad()
    def _update_average(self) -> None:
        """Exponential running average of the weights, with a shorter memory at the start."""
        step = self.progress.step
        decay = min(self.options.average_decay, (1 + step) / (10 + step)) if self.options.average_decay else 0.0
        parameters = [p.detach() for p in self.model.parameters()]
        torch._foreach_lerp_(list(self.average.values()), parameters, 1 - decay)

    def _validate(self, report: Report) -> None:
        """Measure the averaged weights, keep them if they are the best so far."""
        loss, bleu = validate(self.config, self.average, self.valid_data, self.valid_pairs, self.target, self.device)
        better = bleu > self.progress.best_bleu
        self.progress.since_best = 0 if better else self.progress.since_best + 1
        self.progress.best_bleu = max(self.progress.best_bleu, bleu)
        report.validation(self.progress, loss, bleu)
        if better:
            vocabularies = {"source.spm": self.source.serialized}
            if self.target is not self.source:
                vocabularies["target.spm"] = self.target.serialized
            save_average(self.output / "best", self.config, self.average, vocabularies, self.recipe, self.progress)
