"""Whole translations by output layer: the int8 scan, the low-bit preview proven and calibrated, and a shortlist if any.

`python -m bench decode.output_layers MODEL --text FILE --column 0` fits a low-bit preview into a copy of the model, by
other text than is timed (--fit), checks how many sentences are those of the exact layer, and then times one sentence at
a time and batches of 32, greedily and with a beam of 5, on one thread, interleaved. Ratios are against the scan.
Of a language model single steps are timed only.
"""

from __future__ import annotations

import shutil
import tempfile
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.flags import Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from sharpbeam import Translator, fit_preview
from sharpbeam.decoding.loading import load_model
from sharpbeam.fit.low_bit import step_gain
from sharpbeam.fit.low_bit_job import collected
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.decode import MachineOptions
from sharpbeam.output_layers.proven import LowBit, ProvenLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.storage.low_bit import read_low_bit
from sharpbeam.storage.model_folder import read_config
from sharpbeam.text.lines import read_all as read_lines

LAYERS = ("scan", "proven", "calibrated")
ROUNDS = 3
VECTORS = 3_000  # that single steps are timed on


def read(path: str, column: int, first: int, count: int) -> list[str]:
    """`count` sentences of one column of a file of tabs, from `first` on."""
    lines = islice(read_lines([Path(path)]), first, first + count)
    return [line.split("\t")[column] for line in lines]


def steps(folder: Path, texts: list[str], beam_size: int, batch: int) -> dict[str, tuple[float, float]]:
    """Times that each layer's own step is faster than the scan's, on vectors of a beam of 5 over the texts; and
    the bytes of its first look, as a share of the scan's.

    A greedy step finds tokens only, without their log probabilities, in all layers.
    """
    loaded = load_model(folder, MachineOptions(exact=True, threads=1))
    weight, bias = loaded.model.output()
    with tempfile.TemporaryDirectory() as work:
        vectors = np.ascontiguousarray(collected(loaded, texts, VECTORS, Path(work) / "vectors")["hidden"])
    preview, scan = LowBit.from_arrays(read_low_bit(folder, weight, bias)), ScanLayer.build(weight, bias)
    layers = {name: ProvenLayer.build(weight, bias, preview, calibrated=name == "calibrated") for name in LAYERS[1:]}
    normalise = beam_size > 1
    gains = {
        name: step_gain(each, scan, vectors, beam_size, batch, normalise=normalise) for name, each in layers.items()
    }
    sizes = {"proven": preview.coordinates, "calibrated": preview.few_coordinates}
    share = {name: float(chosen.mean()) / 2 / weight.shape[1] for name, chosen in sizes.items()}
    return {name: (round(gain, 3), round(share[name], 3)) for name, gain in gains.items()}


def measure(folder: Path, texts: list[str], beam_size: int, batch: int) -> dict[str, Any]:
    """Milliseconds for a sentence by layer, ratios to the scan, and differences from the exact layer."""
    if architecture_of(read_config(folder)).task == "language":
        found = steps(folder, texts, beam_size, batch)
        return {layer: {"step_ratio": ratio, "bytes": share} for layer, (ratio, share) in found.items()}
    translator = Translator(folder, compute_type="int8", threads=1)

    def run(layer: str) -> list[str]:
        found: list[str] = []
        for at in range(0, len(texts), batch):
            some = translator.translate(
                texts[at : at + batch], beam_size=beam_size, output_layer=layer, return_scores=beam_size > 1
            )
            found += [one.text for one in some]
        return found

    layers = (*LAYERS, "shortlist") if (folder / "shortlist.safetensors").is_file() else LAYERS
    wanted = run("exact")
    differ: dict[str, int] = {}

    def check(found: dict[str, list[str]]) -> None:
        differ.update({layer: sum(map(str.__ne__, found[layer], wanted)) for layer in layers})
        if differ["proven"] > 0.01 * len(texts):
            raise AssertionError(f"proven differs in {differ['proven']} of {len(texts)} sentences")

    timings = interleave({layer: lambda layer=layer: run(layer) for layer in layers}, "scan", ROUNDS, check)  # type: ignore[misc]
    figures = {
        layer: {
            "ms": round(1000 * timing.median_s / len(texts), 3),
            **timing.ratios(),
            "differ": differ[layer],
        }
        for layer, timing in timings.items()
    }
    for layer, (ratio, share) in steps(folder, texts, beam_size, batch).items():
        figures[layer] |= {"step_ratio": ratio, "bytes": share}
    return figures


def describe(line: dict[str, Any]) -> str:
    """One measurement, for people."""
    options = line["options"]
    if "ms" not in line["layers"]["proven"]:
        each = ", ".join(f"{layer} x{found['step_ratio']:.2f}" for layer, found in line["layers"].items())
        return f"{options['model']}, steps, beam {options['beam_size']}, batch {options['batch']}: {each}"
    each = "; ".join(
        f"{layer} {found['ms']:.2f} ms x{found['ratio']:.2f} (step x{found.get('step_ratio', 1.0):.2f}, "
        f"{found['differ']} differ)"
        for layer, found in line["layers"].items()
    )
    return f"{options['model']}, beam {options['beam_size']}, batch {options['batch']}: {each}"


def main(
    model: Annotated[str, typer.Argument(help="a model folder")],
    text: Annotated[str, typer.Option(help="source sentences to time, one a line")],
    fit: Annotated[str, typer.Option(help="source sentences to fit the preview to")],
    name: Annotated[
        str | None, typer.Option(help="what to call it in the results (default: the folder's name)")
    ] = None,
    column: Annotated[int, typer.Option(help="of files with tabs")] = 0,
    sentences: Sentences = 200,
) -> None:
    """Measure, print and record."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(shutil.copytree(model, Path(work) / "model"))
        fitted_to = Path(work) / "fit.txt"
        fitted_to.write_text("\n".join(read(fit, column, 0, 2000)), encoding="utf-8")
        fit_preview(folder, fitted_to)
        texts = read(text, column, 0, sentences)
        for beam_size in (1, 5):
            for batch in (1, 32):
                options = {
                    "model": name or Path(model).name,
                    "beam_size": beam_size,
                    "batch": batch,
                    "sentences": len(texts),
                    "compute_type": "int8",
                }
                figures = {"layers": measure(folder, texts, beam_size, batch)}
                print(describe(record.write("output_layers", figures, threads=1, options=options)), flush=True)
