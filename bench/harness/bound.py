"""The least that the matmuls of a transformer can take on this machine, so that a missed target has a bound.

It counts the multiply-adds of the encoder for each token of the sources, of the decoder for each row of each step, as
the search took them, and of an output layer that scans all tokens, in int8 at the peak of one thread: that of a loop
whose operands stay in the first cache. "free" leaves the output layer out: no way to choose tokens is faster.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sharpbeam import Translator
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.report.profile import profile
from sharpbeam.storage.model_folder import read_config


def multiply_adds(config: TransformerConfig) -> dict[str, int]:
    """Of the encoder's and the decoder's part for a token of the source, and of the decoder and a scan for a row."""
    width, keys = (
        config.hidden_dim,
        config.encoder_heads * (config.head_dim or config.hidden_dim // config.encoder_heads),
    )
    up = 3 if config.gated_ffn else 2
    attention = 4 * width * keys
    recurrent = 2 * width * width + config.ssru_projection * width * width
    own = recurrent if config.decoder_kind == "ssru" else attention
    return {
        "encoder": config.encoder_layers * (attention + up * width * config.encoder_ffn_dim),
        "source": config.decoder_layers * attention // 2,  # keys and values of what the decoder attends to
        "decoder": config.decoder_layers * (own + attention // 2 + up * width * config.decoder_ffn_dim),
        "scan": config.target_vocab_size * width,
    }


def bound(folder: Path, texts: Sequence[str], **options: Any) -> dict[str, Any] | None:
    """Least milliseconds a sentence, with a scan and with a free output layer; and the shares of a profile.

    None for what is no transformer, or has experts.
    """
    os.environ["SHARPBEAM_EXACT"] = "0"  # the defaults are profiled
    loaded = Translator(folder, threads=1).loaded
    config = read_config(folder)
    if not isinstance(config, TransformerConfig) or config.experts:
        return None
    report = profile(str(folder), texts, **options)
    tokens = sum(len(loaded.source.encode(text)) + config.source_eos for text in texts)
    each = multiply_adds(config)
    rate = 1e6 * report.peaks["int8"] * len(texts)  # multiply-adds in a millisecond, for all sentences
    free = (tokens * (each["encoder"] + each["source"]) + report.rows * each["decoder"]) / rate
    return {
        "free_ms": round(free, 3),
        "scan_ms": round(free + report.rows * each["scan"] / rate, 3),
        "int8_gmac_s": round(report.peaks["int8"], 1),
        "steps": round(report.steps / len(texts), 2),
        "rows": round(report.rows / len(texts), 2),
        "layer": report.output_layer,
        "shares": {part.name: round(part.seconds / report.seconds, 3) for part in report.parts},
    }
