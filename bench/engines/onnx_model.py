"""A transformer of ours for ONNX Runtime: exported by Optimum, from the MarianMT model that we write."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bench.engines import hugging_face_model
from bench.harness.cache import model_name, place, stamp

KINDS = ("float32", "int8")
EXPORTING = ("bench/engines/onnx_model.py", "bench/engines/hugging_face_model.py")


def home(model: Path) -> Path:
    """Where the exports of a model are kept."""
    return place("onnx", model_name(model), stamp(model, code=EXPORTING))


def write(model: Path, folder: Path, kind: str) -> Path:
    """The folder of `model` with products of `kind` below `folder`, made where it is not there yet."""
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
    if (folder / kind).is_dir():
        return folder / kind
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as staging:
        made = Path(staging) / kind
        _export(model, made) if kind == "float32" else _quantize(write(model, folder, "float32"), made)
        os.replace(made, folder / kind)
    return folder / kind


def _export(model: Path, to: Path) -> None:
    from optimum.onnxruntime import ORTModelForSeq2SeqLM

    with tempfile.TemporaryDirectory() as folder:
        hugging_face_model.write(model, Path(folder))
        ORTModelForSeq2SeqLM.from_pretrained(folder, export=True).save_pretrained(to)


def _quantize(float32: Path, to: Path) -> None:
    """Each output's weights rounded by themselves, inputs as they come: Optimum's setting for these processors."""
    from optimum.onnxruntime import ORTQuantizer
    from optimum.onnxruntime.configuration import AutoQuantizationConfig

    setting = AutoQuantizationConfig.avx512_vnni(is_static=False, per_channel=True)
    for file in sorted(float32.glob("*.onnx")):
        ORTQuantizer.from_pretrained(float32, file_name=file.name).quantize(setting, to, file_suffix=None)
