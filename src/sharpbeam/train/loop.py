"""The training loop: a recipe in, a model folder out; killed at any moment it resumes with the same losses."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from sharpbeam.errors import InputError, OptionError, SharpbeamError
from sharpbeam.fit.new_model import measure_and_fit
from sharpbeam.fit.progress import Listener
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.models.registry import Config, find_architecture
from sharpbeam.options.schema import require
from sharpbeam.options.train import DataOptions, Recipe, TrainOptions, VocabularyOptions
from sharpbeam.storage.atomic import check_folder, lock_file, write_bytes
from sharpbeam.storage.model_folder import read_config, read_tensors, save_model
from sharpbeam.train.checkpoint import Progress, read_checkpoint, read_settings, write_checkpoint
from sharpbeam.train.language_model import LanguageTask
from sharpbeam.train.machine import fastest_precision, fastest_threads
from sharpbeam.train.muon import Muon
from sharpbeam.train.recipe import identity
from sharpbeam.train.report import Metrics, say
from sharpbeam.train.task import TrainingTask
from sharpbeam.train.translation import TranslationTask
from sharpbeam.train.vocabularies import VOCABULARIES, check_special_ids, check_vocabularies

TASKS: dict[str, Callable[[Recipe, Path, Path], TrainingTask]] = {
    "translation": TranslationTask,
    "language": LanguageTask,
}
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def learning_rate(options: TrainOptions, step: int, epoch: int = 0) -> float:
    """Rate of step `step` (from 1) in epoch `epoch` (from 0): warm-up, the schedule, cool-down."""
    peak, warmup, left = options.learning_rate, options.warmup_steps, max(options.max_steps - step, 0)
    peak *= min(1.0, (left + 1) / max(options.cooldown_steps, 1))
    if step <= warmup:
        return peak * step / max(warmup, 1)
    if options.schedule == "linear":
        return peak * left / max(options.max_steps - warmup, 1)
    if options.schedule == "inverse_sqrt":
        return peak * float((max(warmup, 1) / step) ** 0.5)
    if options.schedule == "epochs":
        return peak * float(options.epoch_decay ** max(epoch + 1 - options.hold_epochs, 0))
    return peak


def make_optimizers(model: nn.Module, options: TrainOptions) -> list[torch.optim.Optimizer]:
    """The optimizers of the parameters of `model`, each parameter in one of them; their rates are set at each step.

    Muon is for matrices between hidden vectors; embeddings, output matrix and vectors are left to Adam, as its authors
    have it, and so are mixtures of experts. The gates of a cell, and queries, keys and values, which lie one below the
    other, are one matrix to it.
    """
    if options.optimizer == "sgd":
        return [torch.optim.SGD(model.parameters(), lr=0.0)]
    mixed = {p for part in model.modules() if getattr(part, "experts", 1) > 1 for p in part.parameters()}
    matrices, others = list[nn.Parameter](), list[nn.Parameter]()
    for name, parameter in model.named_parameters():
        apart = parameter in mixed or any(word in name for word in ("embedding", "output", "position"))
        (matrices if parameter.ndim == 2 and not apart and options.optimizer == "muon" else others).append(parameter)
    result: list[torch.optim.Optimizer] = [
        torch.optim.Adam(others, lr=0.0, betas=(0.9, options.adam_beta2), eps=1e-8, fused=True)
    ]
    if matrices:
        result.append(Muon(matrices, torch.bfloat16 if options.precision == "bfloat16" else torch.float32))
    return result


class Trainer:
    """One run of a recipe in one output folder: vocabularies, checkpoint, metrics, and the best model so far."""

    def __init__(self, recipe: Recipe, base: Path, output: Path, teacher: Path | None = None) -> None:
        """With the model folder of a `teacher`, the model gets the teacher's vocabularies."""
        self.output, self.checkpoint = output, output / "checkpoint.safetensors"
        self.recipe = recipe = _with_precision(recipe, self.checkpoint)
        self.options = recipe.train
        if self.options.device == "cuda" and not torch.cuda.is_available():
            raise OptionError("train.device is 'cuda', but PyTorch finds no CUDA device here; set it to 'cpu'.")
        check_folder(output, "the model", "another --output folder")
        output.mkdir(parents=True, exist_ok=True)
        self._unlock = lock_folder(self, output)
        try:
            self._prepare(base, teacher)
        except BaseException:
            self._unlock()  # a kept error must not keep the lock
            raise

    def _prepare(self, base: Path, teacher: Path | None) -> None:
        """Read the text, make the model, and resume from the checkpoint if there is one."""
        recipe, output = self.recipe, self.output
        check_files(recipe.data, base)
        start = base / self.options.start if self.options.start else None
        if not self.checkpoint.exists():
            begin_vocabularies(teacher or start, output, recipe.vocabulary)
        task = find_architecture(recipe.model.get("architecture", "recurrent")).task
        self.task = TASKS[task](recipe, base, output)
        torch.manual_seed(self.options.seed)
        self.device = torch.device(self.options.device)
        self.model = self.task.module().to(self.device)
        if start is not None:
            load_start(start, self.task.config, self.model, self.options.start_matching)
        if self.options.self_normalization:
            center_log_z(self.task, self.model, next(iter(self.task.epoch(0, 0))))
        self.average = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        self.optimizers = make_optimizers(self.model, self.options)
        self.progress = Progress()
        self.settings = identity(recipe, self.task.config, base, self.task.vocabularies)
        if self.checkpoint.exists():
            self.progress, carried = read_checkpoint(
                self.checkpoint, self.model, self.average, self.optimizers, self.settings
            )
            self.task.carry(carried)
        self.progress.threads = self.options.threads or self.progress.threads or fastest_threads(self.task, self.model)
        torch.set_num_threads(self.progress.threads)

    @property
    def finished(self) -> bool:
        """Whether max_steps are done, or patience has run out without a better validation."""
        patience, progress = self.options.patience, self.progress
        return progress.step >= self.options.max_steps or 0 < patience <= progress.since_best

    def run(self) -> None:
        """Train until `finished`.

        Ctrl-C ends after the step at work with a checkpoint, and raises KeyboardInterrupt; a write that fails (a full
        disk) raises SharpbeamError and leaves the checkpoint before. Either way a new run resumes from the checkpoint.
        A loss, gradient, weight or figure that is not finite raises SharpbeamError, and nothing of it is written.
        """
        torch.set_flush_denormal(True)  # tiny softmax values would take the slow path of the CPU
        try:
            say(f"Training with {self.options.precision} matmuls on {self.progress.threads} thread(s).")
            metrics, left = Metrics(self.output, self.progress.step), self.options.max_steps - self.progress.step
            bar = progress_bar("training", left, sys.stderr.isatty(), "steps")
            with bar as advance, interruptible() as interrupted:
                self._run(metrics, advance, interrupted)
        except (OSError, SafetensorError) as error:
            raise SharpbeamError(
                f"training stopped at step {self.progress.step}, since {self.output} cannot be written: {error}. Free "
                "space, then give the same command again: it resumes from the last checkpoint."
            ) from error
        finally:
            torch.set_flush_denormal(False)  # the caller's arithmetic does not change
            self._unlock()

    def _run(self, metrics: Metrics, advance: Callable[[int], None], interrupted: threading.Event) -> None:
        """Step by step; what happens between two steps, in this order: metrics, validation, checkpoint, the end."""
        options, progress = self.options, self.progress
        for batch in self._batches():
            began = time.perf_counter()
            figures = self._step(batch)
            progress.seconds += time.perf_counter() - began
            advance(1)
            metrics.step(progress, figures, self.optimizers[0].param_groups[0]["lr"], options.log_every)
            if progress.step % options.validate_every == 0 or progress.step >= options.max_steps:
                self._validate(metrics)
            if progress.step % options.checkpoint_every == 0 or self.finished or interrupted.is_set():
                self._write_checkpoint()
            if self.finished:
                return
            if interrupted.is_set():
                say(f"Stopped at step {progress.step} with a checkpoint; the same command resumes from there.")
                raise KeyboardInterrupt

    def _batches(self) -> Iterator[Any]:
        """Batches from the current position, epoch after epoch; progress counts each before it is trained on."""
        while not self.finished:
            progress = self.progress
            for batch in self.task.epoch(progress.epoch, progress.batch):
                progress.batch += 1
                yield batch
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _step(self, batch: Any) -> tuple[Tensor, int]:
        """One optimizer step; returns the sums of `output_loss` and the number of target tokens."""
        self.model.train()
        figures, words = self.task.loss(self.model, batch)
        (figures[0] / words).backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip_norm)
        self.progress.step += 1
        self.progress.words += words
        rate = learning_rate(self.options, self.progress.step, self.progress.epoch)
        if not (math.isfinite(rate) and bool(torch.isfinite(torch.cat([figures.detach(), norm.detach()[None]])).all())):
            raise self._diverged(
                f"the loss is {float(figures.detach()[0]) / words:g} and the norm of its gradient {norm:g}"
            )
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        self.model.zero_grad(set_to_none=True)
        self._update_average()
        return figures.detach(), words

    def _diverged(self, reason: str) -> SharpbeamError:
        """The error of a run whose numbers are no longer finite."""
        return SharpbeamError(
            f"training diverged at step {self.progress.step}: {reason}. Lower train.learning_rate (now "
            f"{self.options.learning_rate:g}) or raise train.warmup_steps, and start in another --output folder."
        )

    def _write_checkpoint(self) -> None:
        """Write a checkpoint, unless weights are NaN or infinite."""
        if not all(bool(torch.isfinite(p).all()) for p in self.model.parameters()):
            raise self._diverged("a weight is not finite")
        progress, carried = self.progress, self.task.carried()
        write_checkpoint(self.checkpoint, self.model, self.average, self.optimizers, progress, carried, self.settings)

    @torch.no_grad()
    def _update_average(self) -> None:
        """Exponential running average of the weights, with a shorter memory at the start and in the cool-down."""
        options, step = self.options, self.progress.step
        decay = min(options.average_decay, (1 + step) / (10 + step))
        if step > options.max_steps - options.cooldown_steps:
            decay = min(decay, max(1 - 10 / options.cooldown_steps, 0.0))
        parameters = [p.detach() for p in self.model.parameters()]
        torch._foreach_lerp_(list(self.average.values()), parameters, 1 - decay)

    def _validate(self, metrics: Metrics) -> None:
        """Measure the averaged weights, keep them if they are the best so far."""
        figures = self.task.validate(self.average)
        if not all(map(math.isfinite, figures.values())):
            raise self._diverged(f"the validation gives {figures}")
        better = self.task.better(figures, self.progress)
        self.progress.since_best = 0 if better else self.progress.since_best + 1
        metrics.write(self.progress, figures)
        if better:
            self._save(figures)

    def _save(self, figures: dict[str, float]) -> None:
        """Save the averaged weights as a float16 model folder with a card of recipe, progress and `figures`."""
        with np.errstate(over="ignore"):  # looked for below
            tensors = {name: value.detach().cpu().numpy().astype(np.float16) for name, value in self.average.items()}
        for name, tensor in tensors.items():
            if not np.isfinite(tensor).all():
                raise self._diverged(f"the weights {name!r} have a value beyond float16, whose largest is 65504")
        data, progress = self.recipe.data, self.progress
        texts = [Path(name).name for name in (*data.train, *data.train_target)]
        key, measure = self.task.measure
        card = (
            f"# {self.recipe.name}\n\nTrained by `sharpbeam train` on {', '.join(texts)}."
            f"\n\n| figure | value |\n|---|---|\n| steps | {progress.step} |\n| epochs | {progress.epoch + 1} |\n"
            f"| target tokens seen | {progress.words} |\n| training time, s | {progress.seconds:.0f} |\n"
            f"| {measure} | {figures[key]:.2f} |\n"
        )
        save_model(self.output / "best", self.task.config, tensors, self.task.vocabularies, card)


def train_model(
    recipe: Recipe, base: Path, output: Path, progress: Listener | None = None, teacher: Path | None = None
) -> list[str]:
    """Train, measure int8 and fit the preview of OUTPUT/best; returns lines that say how the fits went."""
    trainer = Trainer(recipe, base, output, teacher)
    fitted = trainer.finished and (output / "best" / "precision.json").exists()  # before: what is there stays
    if trainer.progress.step:
        say(f"Resuming from the checkpoint of step {trainer.progress.step} in {output}.")
    trainer.run()
    if fitted or not (output / "best" / "config.json").is_file():
        return []
    task = trainer.task
    pairs = task.valid_pairs if isinstance(task, TranslationTask) else []
    pairs = [] if getattr(task.config, "languages", {}) else pairs
    return measure_and_fit(output / "best", (), [source for source, _ in pairs], progress=progress)


def _with_precision(recipe: Recipe, checkpoint: Path) -> Recipe:
    """`recipe` with the precision that "auto" stands for: that of the checkpoint, or the fastest here."""
    options = recipe.train
    if options.precision != "auto":
        return recipe
    before = read_settings(checkpoint).get("train.precision", "auto")
    precision = fastest_precision(options.device) if before == "auto" else before
    return replace(recipe, train=replace(options, precision=precision))


def begin_vocabularies(start: Path | None, output: Path, options: VocabularyOptions) -> None:
    """Leave the vocabularies of the model in `start`, of the kind of `options`, in `output`; others become NAME.old."""
    require(not (output / "config.json").exists(), "--output", str(output), "a folder of training runs, not of a model")
    if start is not None:
        read_config(start)  # raises ModelError if this is no model folder
        check_special_ids(start, "train.start", "Train a student of that model instead: sharpbeam distil.")
        check_vocabularies(start, options)
    for name in VOCABULARIES:
        own = (start / name).read_bytes() if start is not None and (start / name).exists() else None
        if (output / name).exists() and (output / name).read_bytes() != own:
            (output / name).replace(output / f"{name}.old")
        if own is not None:
            write_bytes(output / name, own)


def load_start(start: Path, config: Config, model: nn.Module, matching: bool = False) -> None:
    """Give `model` the weights in the folder `start`.

    OptionError if its facts are not those of the recipe; but with `matching` the tensors of `model` that have a
    counterpart of the same name and shape get that one's weights, and the others stay as they are.
    """
    saved = read_config(start)
    if saved != config and not matching:
        raise OptionError(
            f"train.start is {start}, whose facts are {saved}; the recipe's table [model] asks for {config}. Give the "
            "recipe the facts of that model, or set train.start_matching."
        )
    own = model.state_dict()
    tensors = {
        name: torch.tensor(tensor)
        for name, tensor in read_tensors(start, saved).items()
        if name in own and own[name].shape == tensor.shape
    }
    model.load_state_dict(own | tensors)


@torch.no_grad()
def center_log_z(task: TrainingTask, model: Any, batch: Any) -> None:
    """Shift the output bias so that log Z is about 0 on `batch`.

    A new model, and one trained without self-normalization, has a log Z far from 0 that differs little from row to row.
    No answer depends on it, but alpha (log Z)^2 would first tear the model apart to get rid of it (Devlin et al. 2014).
    """

    def spread() -> float:
        figures, words = task.loss(model, batch)
        return math.sqrt(float(figures[2]) / words)  # root mean square of log Z

    model.eval()
    before = spread()
    bias = model.output()[1]
    bias -= before
    if spread() > before:  # log Z was below zero
        bias += 2 * before


def check_files(options: DataOptions, base: Path) -> None:
    """Raise InputError for a file of text that is not there; `base` is the folder that paths start from."""
    for name in (*options.train, *options.valid, *options.train_target, *options.valid_target):
        if not (base / name).is_file():
            raise InputError(
                f"{base / name} is not there. The recipe names the text {name!r}: give the folder that it is in with "
                "--data, or change the recipe's table [data]. recipes/README.md says where the project's text is from."
            )


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Within the block the first SIGINT or SIGTERM sets the event; another one raises KeyboardInterrupt at once.

    Signals reach the main thread only; in any other thread this does nothing.
    """
    stop, main = threading.Event(), threading.current_thread() is threading.main_thread()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in SIGNALS if main}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def lock_folder(owner: object, folder: Path) -> Callable[[], object]:
    """Lock `folder` until the function that is returned is called, `owner` is gone, or the process ends.

    Two runs that write the same files would spoil both: raises SharpbeamError if another one holds the lock.
    """
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    release = weakref.finalize(owner, os.close, file)
    try:
        lock_file(file)
    except BlockingIOError:
        release()
        raise SharpbeamError(
            f"another run is training in {folder}; wait for its end, or give another --output folder."
        ) from None
    return release
