"""The least that a transformer can take on this machine, so that a missed target has a bound.

Multiply-adds of the encoder for each token of the sources, of the decoder and an output layer for each row of each
step, as the search took them, in int8 at the peak of one thread; a step reads its weights once, a byte for each
multiply-add of a row, at the bandwidth for so many (`harness.machine`). Output layers: none, for no way to choose is
faster; a scan of all tokens; a preview, which looks up each code of each token, four in a multiply-add of float32.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open

from bench.harness.machine import bandwidth, ceilings
from sharpbeam import Translator
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


def preview_us(codes: int, rows: int) -> float:
    """Least microseconds of a step of `rows` rows that looks up `codes` codes of 4 bits, those of all tokens."""
    ceiling, arithmetic = ceilings(1), rows * codes / LOOK_UPS / matmul_peaks()["float32"]
    return max(arithmetic, codes / 2 / bandwidth(ceiling, codes / 2**21) if ceiling else 0.0) / 1e3


def bound(folder: Path, texts: Sequence[str], **options: Any) -> dict[str, Any] | None:
    """Least milliseconds a sentence by output layer, and a profile's shares; None for experts, and no transformers."""
    os.environ["SHARPBEAM_EXACT"] = "0"  # the defaults are profiled
    loaded = Translator(folder, threads=1).loaded
    config, ceiling = read_config(folder), ceilings(1)
    if not isinstance(config, TransformerConfig) or config.experts:
        return None
    report = profile(str(folder), texts, **options)
    peaks, each = report.peaks, multiply_adds(config)
    tokens = sum(len(loaded.source.encode(text)) + config.source_eos for text in texts)

    def least_ms(arithmetic: float, read: int) -> float:
        """Of a sentence whose rows take so many more multiply-adds, and whose steps read so many more bytes."""
        rows = report.rows * (each["decoder"] + arithmetic) / peaks["int8"]
        size = each["decoder"] + read
        reading = report.steps * size / bandwidth(ceiling, size / 2**20) if ceiling else 0.0
        source = tokens * (each["encoder"] + each["source"]) / peaks["int8"]
        return round((source + max(rows, reading)) / 1e6 / len(texts), 3)

    figures: dict[str, Any] = {"free_ms": least_ms(0, 0), "scan_ms": least_ms(each["scan"], each["scan"])}
    if (file := folder / "preview.safetensors").is_file():
        with safe_open(file, "np") as arrays:
            codes = config.target_vocab_size * int(arrays.get_slice("lengths").get_shape()[0])
        figures["preview_ms"] = least_ms(codes / LOOK_UPS * peaks["int8"] / peaks["float32"], codes // 2)
    return figures | {
        "int8_gmac_s": round(peaks["int8"], 1),
        "steps": round(report.steps / len(texts), 2),
        "rows": round(report.rows / len(texts), 2),
        "layer": report.output_layer,
        "shares": {part.name: round(part.seconds / report.seconds, 3) for part in report.parts},
    }
