"""Small models of families that need `transformers` to be made, and the file of each that is to be broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzz import hostile_files as hostile
from support import fairseq_models
from support.foreign import demo_sentences
from support.t5_models import write_t5

Broken = tuple[Path, str, Callable[[np.random.Generator, bytes], bytes]]
SHAPE: dict[str, Any] = {"d_model": 8, "max_position_embeddings": 20} | {
    f"{side}_{name}": size
    for side in ("encoder", "decoder")
    for name, size in (("layers", 1), ("ffn_dim", 8), ("attention_heads", 2))
}


def of_mbart(home: Path) -> dict[str, Broken]:
    """mBART and SMaLL-100: the files that those of others do not have."""
    lines, small, broken = demo_sentences(), home / "small", dict[str, Broken]()
    fairseq_models.write_small100(small, lines, 1, 120, **SHAPE)
    for name in ("50", "cc25"):
        folder = home / f"mbart-{name}"
        fairseq_models.write_mbart(folder, lines, name == "50", 1, 120, **SHAPE)
        for file in ("config.json", "tokenizer_config.json"):
            broken[f"mBART-{name}, {file}"] = (folder, file, hostile.json_object)
    file = "tokenizer_config.json"
    return broken | {f"SMaLL-100, {file}": (small, file, hostile.json_object)}


def of_t5(home: Path) -> dict[str, Broken]:
    """T5."""
    folder = home / "t5"
    write_t5(folder, demo_sentences(), "T5", size=200, d_model=8, d_ff=8, num_layers=1, num_decoder_layers=1)
    files = ("config.json", "generation_config.json", "tokenizer_config.json")
    broken: dict[str, Broken] = {f"T5, {file}": (folder, file, hostile.json_object) for file in files}
    broken["T5, spiece.model"] = (folder, "spiece.model", hostile.sentencepiece)
    broken["T5, safetensors"] = (folder, "model.safetensors", hostile.safetensors)
    return broken
