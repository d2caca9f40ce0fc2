"""`fit_model_head`: a Hugging Face model and a text in; what `Head.attach` needs for its fitted output layers out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sharpbeam.api.attached import added_to_logits, output_linear
from sharpbeam.api.head import output_arrays
from sharpbeam.errors import InputError
from sharpbeam.fit.head import new_folder
from sharpbeam.fit.preview.fit import find_preview
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.options.schema import require
from sharpbeam.output_layers.preview import Preview
from sharpbeam.storage.artifacts import FolderArtifacts
from sharpbeam.text.lines import read_all
from sharpbeam.types import Floats

VECTORS = 6000
TOKENS = 256  # of a line, at most
LEAST = 100  # vectors


def fit_model_head(
    folder: str | Path,
    model: Any,
    tokenizer: Any,
    text: str | Path | Iterable[str],
    *,
    vectors: int = VECTORS,
    progress: Listener | None = None,
) -> Preview:
    """Fit the preview of a Hugging Face model's `lm_head`, for `Head.attach(model, "preview", folder)`.

    `text` is a file with one text a line, or the lines themselves. A causal language model reads them, an
    encoder-decoder continues them greedily, until there are `vectors` hidden vectors. The preview goes into `folder`,
    the matrix itself does not. Takes seconds to minutes, most of it the model's own.

    Raises InputError for a model that `Head.attach` refuses and for a text of less than 100 vectors, OptionError for
    `vectors` below 100, OutputError for a folder that cannot be written.
    """
    require(vectors >= LEAST, "vectors", vectors, f"{LEAST} or more")
    layer = output_linear(model)
    added = added_to_logits(model, layer)
    bias = None if layer.bias is None else layer.bias.detach().float().numpy()
    matrix, offset = output_arrays(layer.weight.detach().float().numpy(), bias)
    offset = offset if added is None else offset + added
    lines = read_all([Path(text)]) if isinstance(text, str | Path) else text
    samples = _collected(model, layer, tokenizer, lines, vectors, Reporter(progress))
    if len(samples) < LEAST:
        raise InputError(f"text gives {len(samples)} hidden vectors; give a longer one, of at least {LEAST} tokens.")
    preview = find_preview(matrix, offset, samples)
    FolderArtifacts(new_folder(folder), matrix, offset).save("preview", preview, {})
    return preview


def _collected(
    model: Any, layer: torch.nn.Linear, tokenizer: Any, lines: Iterable[str], vectors: int, report: Reporter
) -> Floats:
    """At most `vectors` inputs [N, D] of `layer` while the model runs over the lines."""
    parts, count = [np.empty((0, layer.weight.shape[1]), np.float32)], 0

    def keep(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        parts.append(inputs[0].detach().float().reshape(-1, inputs[0].shape[-1]).numpy().copy())

    longest = min(TOKENS, getattr(model.config, "max_position_embeddings", None) or TOKENS)
    hook = layer.register_forward_pre_hook(keep)
    try:
        with torch.no_grad(), report.stage("collecting", vectors, "vectors") as advance:
            for line in lines:
                tokens = tokenizer(line)["input_ids"][:longest]
                ids = torch.tensor([tokens], dtype=torch.long)
                if tokens and model.config.is_encoder_decoder:
                    model.generate(ids, num_beams=1, do_sample=False, max_new_tokens=longest - 1)
                elif tokens:
                    model(input_ids=ids)
                before, count = count, sum(map(len, parts))
                advance(count - before)
                if count >= vectors:
                    break
    finally:
        hook.remove()
    return np.concatenate(parts)[:vectors]
