"""The engines that peers.py compares: each given the same weights and the same work, and answering with pieces.

CTranslate2, Marian and ONNX Runtime are given the best of their types of products on this machine, measured before;
CTranslate2 also the better of batches by sentences and by tokens and of inter_threads and intra_threads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from bench.engines import ctranslate2_model, hugging_face_model, marian_model, onnx_model
from bench.engines.child import AVX2
from sharpbeam import Translator
from sharpbeam._core import table_names
from sharpbeam.decoding.languages import LanguageTags
from sharpbeam.options.decode import LanguageOptions, MachineOptions
from sharpbeam.storage.model_folder import read_config
from sharpbeam.text.vocabulary import read_vocabularies
from sharpbeam.types import Ids

CAPPED = os.environ.get("SHARPBEAM_ISA") == "avx2"
os.environ |= AVX2 if CAPPED else {}  # the engines read it when they are imported
LENGTH = 32  # tokens of a source and of an answer, eos counted
MARIAN_TYPES: tuple[str, ...] = ("packed8avx2", "intgemm8avx2", "packed16", "intgemm16avx2", "float32")
MARIAN_WIDE = ("packed8avx512", "intgemm8avx512", "intgemm16avx512")
TYPES = ("int8", "int8_bfloat16", "bfloat16", "int16", "float32")
Run = Callable[[], list[list[str]]]
T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """The work that every engine is given."""

    folder: Path
    texts: Sequence[str]
    pieces: Sequence[Sequence[str]]  # the same for CTranslate2, with eos and the tags of languages
    prefix: Sequence[str]  # pieces that every answer begins with: the tag of its language, or nothing
    references: Sequence[str] | None  # None: random weights, and every answer has LENGTH tokens
    batch: int  # sentences in a batch; 1: they are handed over one by one, and threads can but share the one there is
    beam: int
    threads: int

    @property
    def fixed(self) -> bool:
        """Whether all answers have the same length."""
        return self.references is None


def pieces(folder: Path, texts: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """Source tokens of texts for the model in `folder`, and the tokens its answers begin with, in default languages."""
    source, target = read_vocabularies(folder)
    direction = LanguageTags.of(read_config(folder)).direction(LanguageOptions())
    rows = ((*direction.before, *source.encode(text), *direction.after) for text in texts)
    return [list(map(source.piece, row)) for row in rows], list(map(target.piece, direction.prefix))


class Ours:
    """Our engine with an output layer: a Run that knows what its screen did."""

    def __init__(self, job: Task, output_layer: str, compute_type: Any = "int8", **options: Any) -> None:
        machine = MachineOptions(threads=job.threads, compute_type=compute_type)
        self._translator, self._output_layer = Translator(job.folder, machine=machine), output_layer
        lengths: dict[str, Any] = {"min_length": LENGTH - 1, "max_length": LENGTH} if job.fixed else {}
        budget = job.batch * max(map(len, job.pieces)) if job.batch > 1 else 512
        self.options = {"beam_size": job.beam, "batch_tokens": budget, **lengths, **options}
        self._run = _handed_over(job, job.texts, self._answers)

    def __call__(self) -> list[list[str]]:
        return self._run()

    @property
    def fallback_share(self) -> float | None:
        """Share of the rows so far that a screen sent to the exact layer; None with another layer."""
        layer = self._translator.loaded.layer_named(self._output_layer)
        return layer.fallback_share

    def _answers(self, texts: Sequence[str]) -> list[list[str]]:
        translations = self._translator.translate(texts, raw=True, output_layer=self._output_layer, **self.options)
        return [list(answer.tokens) for answer in translations]


def _handed_over(job: Task, items: Sequence[T], answers: Callable[[Sequence[T]], list[list[str]]]) -> Run:
    """All of `given` at a time, for an engine to make batches of, or one where the task is one sentence at a time."""
    size = len(items) if job.batch > 1 else 1
    return lambda: [one for first in range(0, len(items), size) for one in answers(items[first : first + size])]


def ctranslate2(
    job: Task, kind: str, inter: int = 1, intra: int = 1, batch_type: str = "examples", vmap: bool = False
) -> Run:
    """CTranslate2 with a compute type."""
    import ctranslate2 as engine

    stored = "int8" if kind.startswith("int8") else kind
    folder = ctranslate2_model.write(job.folder, ctranslate2_model.home(job.folder) / stored, stored)
    if vmap:
        _write_vmap(job.folder, folder / "vmap.txt")
    translator = engine.Translator(str(folder), compute_type=kind, inter_threads=inter, intra_threads=intra)
    lengths = {"min_decoding_length": LENGTH, "max_decoding_length": LENGTH} if job.fixed else {}
    size = job.batch * (1 if batch_type == "examples" else LENGTH)

    def answers(rows: Sequence[Sequence[str]]) -> list[list[str]]:
        prefixes = [job.prefix] * len(rows) if job.prefix else None
        results = translator.translate_batch(
            rows, prefixes, beam_size=job.beam, max_batch_size=size, batch_type=batch_type, use_vmap=vmap, **lengths
        )
        return [answer.hypotheses[0] for answer in results]

    return _handed_over(job, job.pieces, answers)


def _write_vmap(model: Path, path: Path) -> None:
    """The model's shortlist as a vocabulary map: a line "source TAB target target .." for each source token."""
    parts = Translator(model).loaded
    shortlist = parts.artifacts.read("shortlist")

    def pieces(tokens: Ids) -> str:
        texts = map(parts.target.piece, tokens.tolist())
        return " ".join(text for text in texts if text and not any(letter.isspace() for letter in text))

    lines = ["\t" + pieces(shortlist.always)]
    for token, (first, last) in enumerate(pairwise(shortlist.start.tolist())):
        if first < last and not any(letter.isspace() for letter in parts.source.piece(token)):
            lines.append(f"{parts.source.piece(token)}\t{pieces(shortlist.token[first:last])}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def hugging_face(job: Task) -> Run:
    """`generate` of transformers in float32, for models that MarianMT can say."""
    import tempfile

    import torch
    import transformers

    torch.set_num_threads(job.threads)
    with tempfile.TemporaryDirectory() as folder:
        hugging_face_model.write(job.folder, Path(folder))
        return _generate(job, transformers.MarianMTModel.from_pretrained(folder))  # in evaluation mode


def onnx_runtime(job: Task, kind: str) -> Run:
    """`generate` of Optimum on ONNX Runtime, of the same models in float32, or int8 by its own dynamic quantization."""
    import onnxruntime
    from optimum.onnxruntime import ORTModelForSeq2SeqLM

    threads = onnxruntime.SessionOptions()
    threads.intra_op_num_threads, threads.inter_op_num_threads = job.threads, 1
    folder = onnx_model.write(job.folder, onnx_model.home(job.folder), kind)
    return _generate(job, ORTModelForSeq2SeqLM.from_pretrained(folder, session_options=threads))


def best_onnx_runtime(job: Task) -> str:
    """The type of products with which ONNX Runtime is fastest here: the least of two times each."""
    return min(onnx_model.KINDS, key=lambda kind: _least(onnx_runtime(job, kind)))


def _generate(job: Task, model: Any) -> Run:
    """A model with the `generate` of transformers."""
    import torch

    parts = Translator(job.folder).loaded
    config = model.config
    ids = [[*parts.source.encode(text), config.eos_token_id] for text in job.texts]
    lengths = {"min_new_tokens": LENGTH, "max_new_tokens": LENGTH} if job.fixed else {"max_new_tokens": 256}

    def run() -> list[list[str]]:
        pieces: list[list[str]] = []
        for first in range(0, len(ids), job.batch):
            rows = ids[first : first + job.batch]
            widest = max(map(len, rows))
            padded = torch.tensor([row + [config.pad_token_id] * (widest - len(row)) for row in rows])
            mask = torch.tensor([[1] * len(row) + [0] * (widest - len(row)) for row in rows])
            out = model.generate(input_ids=padded, attention_mask=mask, num_beams=job.beam, do_sample=False, **lengths)
            silent = (config.pad_token_id, config.eos_token_id, config.decoder_start_token_id)
            pieces += [[parts.target.piece(token) for token in row if token not in silent] for row in out.tolist()]
        return pieces

    return run


def marian(job: Task, kind: str, shortlist: bool = False) -> Run:
    """Marian with a type of products, for random weights on one thread."""
    import pymarian

    assert job.fixed and job.threads == 1 and not job.prefix
    model = marian_model.write(job.folder, marian_model.home(job.folder), kind)
    words = model.parent / marian_model.VOCABULARY
    options = {
        "models": model,
        "vocabs": f"{words} {words}",
        "beam-size": job.beam,
        "normalize": 1,
        "cpu-threads": 1,
        "mini-batch": job.batch,
        "maxi-batch": 100,
        "maxi-batch-sort": "src",
        "max-length-factor": 1,  # as many words as the source has with eos: LENGTH
        **({"skip-cost": "true"} if job.beam == 1 else {}),
    }
    if shortlist:
        lex = model.parent / "lex.txt"
        options["shortlist"] = " ".join(map(str, (lex, *marian_model.write_lex(job.folder, lex), 0)))
    translator = pymarian.Translator(" ".join(f"--{name} {value}" for name, value in options.items()) + " --quiet")

    def answers(texts: Sequence[str]) -> list[list[str]]:
        return [answer.split() for answer in translator.translate(list(texts), raw=True)]

    return _handed_over(job, job.texts, answers)


def best_marian(job: Task, shortlist: bool) -> str:
    """The type of products with which Marian is fastest here, of those that do not end the process, in two runs."""
    wide = "avx512" in table_names()
    kinds = MARIAN_TYPES[wide:]  # FBGEMM packs for the widest registers only
    kinds += MARIAN_WIDE if wide and not CAPPED else ()
    return min(kinds, key=lambda kind: _least(marian(job, kind, shortlist)))


def best_ctranslate2(job: Task) -> dict[str, Any]:
    """The settings in which CTranslate2 is fastest here: the least of two times each."""
    import ctranslate2 as engine

    supported = engine.get_supported_compute_types("cpu")
    settings: list[dict[str, Any]] = [{"kind": kind} for kind in TYPES if kind in supported]
    best = min(settings, key=lambda chosen: _least(ctranslate2(job, **chosen)))
    more = [best]
    if job.batch > 1:
        more.append(best | {"batch_type": "tokens"})
    if job.threads > 1:
        more = [one | split for one in more for split in ({"inter": job.threads}, {"intra": job.threads})]
    return min(more, key=lambda chosen: _least(ctranslate2(job, **chosen))) if len(more) > 1 else best


def _least(run: Run) -> float:
    times = []
    for _ in range(2):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)
