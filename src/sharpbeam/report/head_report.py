"""`head_report`: the cost of a Hugging Face model's output layer on a text, and the gain of `Head.attach`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from sharpbeam.api.attached import output_linear
from sharpbeam.errors import ModelError, SharpbeamError
from sharpbeam.fit.model_head import LEAST, model_vectors
from sharpbeam.fit.preview.fit import find_preview
from sharpbeam.fit.progress import Listener
from sharpbeam.options.schema import require
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.native import NativeNormalizing
from sharpbeam.output_layers.preview import PreviewLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.types import Floats

Layers = dict[str, NativeNormalizing[Any]]
TOP = 5  # tokens of a row, next to the best one, whose fidelity is measured
TIMED = 30  # calls of each layer, which take turns
PROMPT = 3  # tokens


@dataclass(frozen=True)
class HeadLayer:
    """One output layer instead of `lm_head`, in greedy search of one text."""

    name: str
    ms: float  # a row
    gain: float  # times that a step is faster
    best: float  # share of the held-out vectors with the exact layer's best token
    top: float  # and with all of its five best


@dataclass(frozen=True)
class HeadReport:
    """The report on a model's output layer, by processor time of one thread."""

    model: str  # its class
    dtype: str
    tokens: int  # V
    width: int  # D
    held_out: int  # hidden vectors that fidelity was measured on
    step_ms: float  # a greedy step of one text
    head_ms: float  # of it `lm_head`
    layers: list[HeadLayer]

    @property
    def share(self) -> float:
        """The share of a step that `lm_head` takes."""
        return self.head_ms / self.step_ms

    def record(self) -> dict[str, Any]:
        """The report as JSON."""
        return asdict(self) | {"share": self.share}

    def summary(self) -> str:
        """The report, human-readable."""
        lines = [
            f"{self.model}, {self.tokens} tokens, width {self.width}, {self.dtype}: "
            f"a step takes {self.step_ms:.2f} ms, of which lm_head {self.head_ms:.2f} ms "
            f"({self.share:.0%}); no head gains more than x{1 / max(1e-9, 1 - self.share):.2f}.",
            f"{'output layer':14}{'ms a row':>10}{'step':>8}{'best token':>13}{'best five':>12}",
        ]
        for one in self.layers:
            lines.append(f"{one.name:14}{one.ms:10.3f}{f'x{one.gain:.2f}':>8}{one.best:13.3%}{one.top:12.3%}")
        return "\n".join(lines)


def head_report(
    model: Any,
    tokenizer: Any,
    text: str | Path | Iterable[str],
    *,
    vectors: int = 3000,
    steps: int = 16,
    progress: Listener | None = None,
) -> HeadReport:
    """Measure the output layer of a Hugging Face model on the CPU, and those that `Head.attach` could put there.

    `text` is a file with one text a line, or the lines. Two thirds of the hidden vectors fit the preview, the
    last third is held out. Times are processor time of one thread, medians; `steps` is the
    length of the timed texts. The model itself does not change.

    Raises InputError for a model that `Head.attach` refuses and for a text that is too short, OptionError for
    `vectors` below 150 or `steps` below 2.
    """
    require(vectors >= 3 * LEAST // 2, "vectors", vectors, f"{3 * LEAST // 2} or more")
    require(steps >= 2, "steps", steps, "2 or more")
    weight, bias, samples = model_vectors(model, tokenizer, text, vectors, progress)
    to_fit, held_out = np.split(samples, [2 * len(samples) // 3])
    preview = find_preview(weight, bias, to_fit)
    layers: Layers = {"scan": ScanLayer.build(weight, bias), "preview": PreviewLayer.build(weight, bias, preview)}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            step_ms, ms = _step_ms(model, steps), _row_ms(output_linear(model), layers, held_out)
    finally:
        torch.set_num_threads(threads)
    head_ms = min(ms.pop("lm_head"), step_ms)
    exact = ExactLayer.build(weight, bias).topk(held_out, min(TOP, len(bias))).token
    figures = []
    for name, layer in layers.items():
        same = layer.topk(held_out, exact.shape[1]).token == exact
        gain = step_ms / (step_ms - head_ms + ms[name])
        figures.append(HeadLayer(name, ms[name], gain, float(same[:, 0].mean()), float(same.all(axis=1).mean())))
    kind, dtype = type(model).__name__, str(model.dtype).removeprefix("torch.")
    return HeadReport(kind, dtype, len(bias), weight.shape[1], len(held_out), step_ms, head_ms, figures)


def load_model(folder: str) -> tuple[Any, Any]:
    """The model in a folder of Hugging Face, in the type that it was saved in, and its tokenizer; nothing is fetched.

    Raises SharpbeamError without the package transformers, ModelError if the folder has no such model.
    """
    try:
        import transformers
    except ImportError:
        raise SharpbeamError("models of Hugging Face need transformers; run: pip install transformers") from None
    logging: Any = transformers.utils.logging
    logging.disable_progress_bar()
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return kind.from_pretrained(folder, local_files_only=True, dtype="auto").eval(), tokenizer
    except (OSError, ValueError, KeyError) as error:
        message = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{folder} is no folder of a Hugging Face model with its tokenizer: {message}") from error
    finally:
        logging.enable_progress_bar()


def _step_ms(model: Any, steps: int) -> float:
    """Processor time of one greedy step, in milliseconds: of a long text without that of a short one."""
    prompt = torch.tensor([[1 + i % (model.config.vocab_size - 1) for i in range(PROMPT)]])

    def spent(length: int) -> float:
        began = time.process_time()
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            num_beams=1,
            max_new_tokens=length,
            min_new_tokens=length,
        )
        return time.process_time() - began

    spent(1)
    return 1e3 * max(1e-9, median(spent(steps) - spent(1) for _ in range(3))) / (steps - 1)


def _row_ms(linear: torch.nn.Linear, layers: Layers, hidden: Floats) -> dict[str, float]:
    """Processor time of one row of `lm_head` and of each layer, which take turns, in milliseconds; medians."""
    calls: dict[str, Callable[[Floats], Any]]
    calls = {name: partial(layer.unnormalized().topk, k=1) for name, layer in layers.items()}
    calls["lm_head"] = lambda row: linear(torch.from_numpy(row).to(linear.weight.dtype))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(TIMED):
        row = np.ascontiguousarray(hidden[i % len(hidden)][None])
        for name, call in calls.items():
            began = time.process_time()
            call(row)
            times[name].append(1e3 * (time.process_time() - began))
    return {name: median(milliseconds) for name, milliseconds in times.items()}
