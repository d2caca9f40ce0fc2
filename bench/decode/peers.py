"""Ours against CTranslate2, Marian and Hugging Face: the same weights, the same text, in turns, in one run.

Random shapes (`--shape opus-6+6`, `opus-12+1`, `nllb-600m`, `base-memory`) are given sources of 32 words with eos and
asked for 32, so every engine takes the same steps; NLLB's begin with the tags of their languages. A model folder
(`--model`, a trained transformer of ours) translates Tatoeba's test set, and BLEU is printed with the times. First all
answers are checked: their lengths, or their BLEU.

How the others are set is said in engines.py; CTranslate2's vocabulary map and Marian's shortlist are our shortlist.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.engines.run import (
    LENGTH,
    Ours,
    Run,
    Task,
    best_ctranslate2,
    best_marian,
    best_onnx_runtime,
    ctranslate2,
    hugging_face,
    marian,
    onnx_runtime,
    pieces,
)
from bench.flags import Data, Rounds
from bench.harness import record
from bench.harness.bound import bound
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, test_pairs
from bench.papers.l2s import shapes
from bench.papers.stream.stream import VARIABLE
from sharpbeam import Translator
from sharpbeam.storage.model_folder import read_config

BLEU_DISTANCE = 1.0


class DisagreementError(Exception):
    """A contender does not say what it should, so its time means nothing."""


def task(shape: str | None, model: str | None, data: str, sentences: int, batch: int, beam: int, threads: int) -> Task:
    """The task on random weights of a shape, or on a trained model."""
    if shape is not None:
        folder, references = shapes.model(shape), None
        texts = shapes.sources(shape, sentences, LENGTH - 1)
    else:
        assert model is not None
        folder, (texts, references) = Path(model), test_pairs(data, sentences)
    return Task(folder, texts, *pieces(folder, texts), references, batch, beam, threads)


def bleu(job: Task, answers: Sequence[Sequence[str]]) -> float:
    """Of pieces, put together by our vocabulary."""
    from sharpbeam.report.quality import quality

    assert job.references is not None
    target = Translator(job.folder).loaded.target
    ids = {target.piece(token): token for token in range(len(target))}
    texts = [target.decode([ids[piece] for piece in answer if piece in ids]) for answer in answers]
    return quality(texts, job.references).bleu


def measure(job: Task, name: str, layers: Sequence[str], rounds: int, others: Sequence[str] = ()) -> dict[str, Any]:
    """One line: ratios against plain CTranslate2 (Marian for an SSRU), and BLEU where the weights are trained.

    `others` are slow ones to be timed as well: "hugging-face", "marian", "onnx-runtime".
    """
    recurrent = getattr(read_config(job.folder), "decoder_kind", "") == "ssru"  # CTranslate2 has no such decoder
    baseline = "Marian" if recurrent else "CTranslate2"
    chosen = {} if recurrent else best_ctranslate2(job)
    contenders: dict[str, Run] = {} if recurrent else {"CTranslate2": ctranslate2(job, **chosen)}
    if not recurrent and (job.folder / "shortlist.json").is_file():
        contenders["CTranslate2 with map"] = ctranslate2(job, **chosen, vmap=True)
    ours = {f"ours {layer}": Ours(job, layer) for layer in layers}
    contenders |= ours
    if not job.fixed and job.beam > 1:
        contenders[f"ours {layers[-1]}, variable widths"] = Ours(job, layers[-1], **VARIABLE)
    if "hugging-face" in others:
        contenders["Hugging Face"] = hugging_face(job)
    both = {"Marian": False, "Marian with shortlist": True} if recurrent or "marian" in others else {}
    kinds = {who: best_marian(job, shortlist) for who, shortlist in both.items()}
    contenders |= {who: marian(job, kind, both[who]) for who, kind in kinds.items()}
    if "onnx-runtime" in others:
        rounded = best_onnx_runtime(job)
        contenders["ONNX Runtime"] = onnx_runtime(job, rounded)
    scores: dict[str, float] = {}

    def check(outputs: dict[str, list[list[str]]]) -> None:
        for who, answers in outputs.items():
            if job.fixed:
                wrong = [len(answer) for answer in answers if not LENGTH - 1 <= len(answer) <= LENGTH]
                if wrong:
                    raise DisagreementError(f"{who}: an answer has {wrong[0]} tokens, not {LENGTH}.")
                continue
            scores[who] = bleu(job, answers)
            # Greedily, a model that is not trained to the end repeats itself, and one such answer moves BLEU by points.
            if job.beam > 1 and scores[who] < scores[baseline] - BLEU_DISTANCE:
                raise DisagreementError(f"{who}: BLEU {scores[who]:.2f}, {baseline} {scores[baseline]:.2f}.")

    timings = interleave(contenders, baseline, rounds, check, time.process_time)
    own = ours[f"ours {layers[0]}"].options | ({"batch_tokens": 1} if job.batch == 1 else {})
    per_sentence = {who: timing.median_s / len(job.texts) for who, timing in timings.items()}
    figures = {
        "ctranslate2": chosen,
        "bounds": {layer: bound(job.folder, job.texts, output_layer=layer, **own) for layer in layers},
        **({"marian": kinds} if kinds else {}),
        **({"onnx-runtime": rounded} if "onnx-runtime" in others else {}),
        "contenders": {
            who: {
                "ratio": timing.ratio,
                "least_ratio": timing.least_ratio,
                "most_ratio": timing.most_ratio,
                "ms_per_sentence": per_sentence[who] * 1e3,
                **({"bleu": scores[who]} if who in scores else {}),
                **_fallback(contenders[who]),
            }
            for who, timing in timings.items()
        },
    }
    options = {"name": name, "batch": job.batch, "beam": job.beam, "sentences": len(job.texts), "rounds": rounds}
    return record.write("peers", figures, threads=job.threads, options=options)


def _fallback(contender: Run) -> dict[str, float]:
    """The share of the rows that a screen of ours sent to the exact layer, the same in every round."""
    share = contender.fallback_share if isinstance(contender, Ours) else None
    return {} if share is None else {"fallback_share": share}


def lines(line: dict[str, Any]) -> str:
    """A table for people."""
    o = line["options"]
    rows = [f"{o['name']}, batch {o['batch']}, beam {o['beam']}, {line['threads']} thread(s); {line['ctranslate2']}"]
    for who, one in line["contenders"].items():
        score = f"  BLEU {one['bleu']:.2f}" if "bleu" in one else ""
        score += f"  {one['fallback_share']:.1%} of the rows fell back" if "fallback_share" in one else ""
        spread = f"({one['least_ratio']:.2f} to {one['most_ratio']:.2f})"
        rows.append(f"  {who:<28} x{one['ratio']:.2f} {spread}  {one['ms_per_sentence']:.1f} ms a sentence{score}")
    return "\n".join(rows)


def main(
    data: Data = DATA,
    shape: str | None = None,
    model: Annotated[str | None, typer.Option(help="a trained transformer of ours")] = None,
    layers: list[str] = ["scan", "shortlist", "screen"],
    batch: int = 1,
    beam: int = 5,
    threads: int = 1,
    sentences: Annotated[int, typer.Option(help="0: 8 at batch 1 and 64 otherwise; all of a test set")] = 0,
    rounds: Rounds = 7,
    others: Annotated[list[str], typer.Option(help="slow: hugging-face, marian, onnx-runtime")] = [],
) -> None:
    """Measure, print and record."""
    if (shape is None) == (model is None):
        raise typer.BadParameter("give one of --shape and --model")
    count = sentences or (0 if model else 8 if batch == 1 else 64)
    job = task(shape, model, data, count, batch, beam, threads)
    line = measure(job, shape or Path(str(model)).resolve().parent.name, layers, rounds, others)
    print(lines(line))
    print(json.dumps(line))
