"""The least time of a transformer's work on this machine, so that a missed target has a bound.

It is a bound of the method: of the rows and steps that the search took. Multiply-adds of the encoder for each token of
the sources, of the decoder and an output layer for each row, in int8 at the peak of one thread's plain loop; a step
reads its weights once, a byte for each multiply-add of a row, at the bandwidth for so many (`harness.machine`). A scan
multiplies with all tokens; a preview looks up each code of each token, four in a multiply-add of float32; other layers
count as free.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.harness.machine import bandwidth, ceilings
from sharpbeam import Translator
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.report.profile import matmul_peaks, profile
from sharpbeam.storage.model_folder import read_config

LOOK_UPS = 4


def multiply_adds(config: TransformerConfig) -> dict[str, int]:
    """Of the encoder's and the decoder's part for a token of the source, and of the decoder and a scan for a row."""
    keys = config.encoder_heads * (config.head_dim or config.hidden_dim // config.encoder_heads)
    width, up = config.hidden_dim, 3 if config.gated_ffn else 2
    attention = 4 * width * keys
    recurrent = 2 * width * width + config.ssru_projection * width * width
    own = recurrent if config.decoder_kind == "ssru" else attention
    return {
        "encoder": config.encoder_layers * (attention + up * width * config.encoder_ffn_dim),
        "source": config.decoder_layers * attention // 2,  # keys and values of what the decoder attends to
        "decoder": config.decoder_layers * (own + attention // 2 + up * width * config.decoder_ffn_dim),
        "scan": config.target_vocab_size * width,
    }


def preview_work(loaded: LoadedModel, peaks: dict[str, float]) -> tuple[float, int]:
    """Of a row of a model's preview: int8 multiply-adds that take as long as its look-ups, and bytes of its codes."""
    preview = loaded.artifacts.read("preview")
    codes = len(preview.scale) * len(preview.lengths)
    return codes / LOOK_UPS * peaks["int8"] / peaks["float32"], codes // 2


def preview_us(loaded: LoadedModel, rows: int) -> float:
    """Least microseconds of a step of `rows` rows of a model's preview."""
    arithmetic, read = preview_work(loaded, peaks := matmul_peaks())
    return max(rows * arithmetic / peaks["int8"], read / bandwidth(ceilings(1), read / 2**20)) / 1e3


def bound(folder: Path, texts: Sequence[str], **options: Any) -> dict[str, Any] | None:
    """Least milliseconds a sentence with a layer, and a profile's shares; None for experts, and no transformers."""
    os.environ["SHARPBEAM_EXACT"] = "0"  # the defaults are profiled
    loaded = Translator(folder, threads=1).loaded
    if not isinstance(config := read_config(folder), TransformerConfig) or config.experts:
        return None
    report = profile(str(folder), texts, **options)
    each, rate = multiply_adds(config), report.peaks["int8"]
    tokens = sum(len(loaded.source.encode(text)) + config.source_eos for text in texts)
    scan = (each["scan"], each["scan"]) if report.output_layer == "scan" else (0, 0)
    arithmetic, read = preview_work(loaded, report.peaks) if report.output_layer == "preview" else scan
    size = each["decoder"] + read
    reading = report.steps * size / bandwidth(ceilings(1), size / 2**20)
    rows = report.rows * (each["decoder"] + arithmetic) / rate
    source = tokens * (each["encoder"] + each["source"]) / rate
    return {
        "least_ms": round((source + max(rows, reading)) / 1e6 / len(texts), 3),
        "steps": round(report.steps / len(texts), 2),
        "rows": round(report.rows / len(texts), 2),
        "layer": report.output_layer,
        "shares": {part.name: round(part.seconds / report.seconds, 3) for part in report.parts},
    }
