"""Ours against CTranslate2 and Hugging Face: the same weights, the same text, in turns, in one run.

Random shapes (`--shape opus-6+6`, `opus-12+1`, `nllb-600m`) are given sources of 32 words with eos and asked for 32, so
every engine takes the same steps; a model folder (`--model`, a trained transformer of ours) translates Tatoeba's test
set, and BLEU is printed beside. First everybody's answers are checked: their lengths, or their BLEU.

CTranslate2 is given the best of its compute types on this machine, measured before, and the better of batches by
sentences and by tokens and of inter_threads and intra_threads. Its vocabulary map is our shortlist.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import ctranslate2_model, record, shapes
from benchmarks.interleave import interleave
from benchmarks.stream import VARIABLE
from benchmarks.testset import DATA, german_english
from quickbeam import Translator
from quickbeam.engine.load import shortlist_identity
from quickbeam.models.folder import read_config
from quickbeam.models.shortlist_folder import FACTS, read_shortlist
from quickbeam.options.decode import MachineOptions
from quickbeam.train.shortlist.files import write_vmap

LENGTH = 32  # tokens of a source and of an answer, eos counted
TYPES = ("int8", "int8_bfloat16", "bfloat16", "int16", "float32")
BLEU_DISTANCE = 1.0
Run = Callable[[], list[list[str]]]


class DisagreementError(Exception):
    """A contender does not say what it should, so its time means nothing."""


@dataclass(frozen=True)
class Task:
    """What everybody has to do."""

    folder: Path
    texts: Sequence[str]
    pieces: Sequence[Sequence[str]]  # the same for CTranslate2, eos included
    references: Sequence[str] | None  # None: random weights, and every answer has LENGTH tokens
    batch: int  # sentences handed over together
    beam: int
    threads: int

    @property
    def fixed(self) -> bool:
        """Whether all answers have the same length."""
        return self.references is None


def task(shape: str | None, model: str | None, data: str, sentences: int, batch: int, beam: int, threads: int) -> Task:
    """The task on random weights of a shape, or on a trained model."""
    if shape is not None:
        folder, references = shapes.model(shape), None
        texts = shapes.sources(shape, sentences, LENGTH - 1)
    else:
        assert model is not None
        folder, (texts, references) = Path(model), german_english(data, sentences)
    vocabulary = Translator(folder).parts.source
    end = vocabulary.piece(read_config(folder).eos_id)
    pieces = [[*map(vocabulary.piece, vocabulary.encode(text)), end] for text in texts]
    return Task(folder, texts, pieces, references, batch, beam, threads)


def ours(job: Task, projection: str, compute_type: Any = "int8", **options: Any) -> Run:
    """Our engine with an output layer."""
    translator = Translator(job.folder, machine=MachineOptions(threads=job.threads, compute_type=compute_type))
    lengths: dict[str, Any] = {"min_length": LENGTH - 1, "max_length": LENGTH} if job.fixed else {}
    budget = job.batch * max(map(len, job.pieces)) if job.batch > 1 else 512

    def run() -> list[list[str]]:
        found: list[list[str]] = []
        for first in range(0, len(job.texts), _handed(job)):
            answers = translator.translate(
                job.texts[first : first + _handed(job)],
                beam_size=job.beam,
                projection=projection,
                batch_tokens=budget,
                **lengths,
                **options,
            )
            found += [list(answer.tokens) for answer in answers]
        return found

    return run


def _handed(job: Task) -> int:
    """How many sentences are handed over at a time: all, for an engine to make batches of, or one."""
    return len(job.texts) if job.batch > 1 or job.threads > 1 else 1


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

    def run() -> list[list[str]]:
        found: list[list[str]] = []
        for first in range(0, len(job.texts), _handed(job)):
            answers = translator.translate_batch(
                job.pieces[first : first + _handed(job)],
                beam_size=job.beam,
                max_batch_size=size,
                batch_type=batch_type,
                use_vmap=vmap,
                **lengths,
            )
            found += [answer.hypotheses[0] for answer in answers]
        return found

    return run


def _write_vmap(model: Path, path: Path) -> None:
    parts = Translator(model).parts
    shortlist = read_shortlist(model, shortlist_identity(parts), len(parts.source), len(parts.target))
    write_vmap(path, shortlist, parts.source, parts.target)


def hugging_face(job: Task) -> Run:
    """`generate` of transformers in float32, for models that MarianMT can say."""
    import tempfile

    import torch
    import transformers

    from quickbeam.convert.export import write_marian

    torch.set_num_threads(job.threads)
    with tempfile.TemporaryDirectory() as folder:
        write_marian(job.folder, Path(folder))
        model: Any = transformers.MarianMTModel.from_pretrained(folder)  # in evaluation mode
    parts = Translator(job.folder).parts
    config = model.config
    ids = [[*parts.source.encode(text), config.eos_token_id] for text in job.texts]
    lengths = {"min_new_tokens": LENGTH, "max_new_tokens": LENGTH} if job.fixed else {"max_new_tokens": 256}

    def run() -> list[list[str]]:
        found: list[list[str]] = []
        for first in range(0, len(ids), job.batch):
            rows = ids[first : first + job.batch]
            widest = max(map(len, rows))
            padded = torch.tensor([row + [config.pad_token_id] * (widest - len(row)) for row in rows])
            mask = torch.tensor([[1] * len(row) + [0] * (widest - len(row)) for row in rows])
            out = model.generate(input_ids=padded, attention_mask=mask, num_beams=job.beam, do_sample=False, **lengths)
            silent = (config.pad_token_id, config.eos_token_id, config.decoder_start_token_id)
            found += [[parts.target.piece(token) for token in row if token not in silent] for row in out.tolist()]
        return found

    return run


def best_ctranslate2(job: Task) -> dict[str, Any]:
    """The settings in which CTranslate2 is fastest here: the least of two times each."""
    import ctranslate2 as engine

    supported = engine.get_supported_compute_types("cpu")
    settings: list[dict[str, Any]] = [{"kind": kind} for kind in TYPES if kind in supported]
    found = min(settings, key=lambda chosen: _least(ctranslate2(job, **chosen)))
    more = [found]
    if job.batch > 1:
        more.append(found | {"batch_type": "tokens"})
    if job.threads > 1:
        more = [one | split for one in more for split in ({"inter": job.threads}, {"intra": job.threads})]
    return min(more, key=lambda chosen: _least(ctranslate2(job, **chosen))) if len(more) > 1 else found


def _least(run: Run) -> float:
    times = []
    for _ in range(2):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def bleu(job: Task, answers: Sequence[Sequence[str]]) -> float:
    """Of pieces, put together by our vocabulary."""
    from quickbeam.evaluate.quality import quality

    assert job.references is not None
    target = Translator(job.folder).parts.target
    ids = {target.piece(token): token for token in range(len(target))}
    texts = [target.decode([ids[piece] for piece in answer if piece in ids]) for answer in answers]
    return quality(texts, job.references).bleu


def exact_bleu(job: Task) -> float:
    """BLEU of the exact layer in float32."""
    return bleu(job, ours(job, "exact", "float32")())


def measure(job: Task, name: str, layers: Sequence[str], rounds: int, with_hugging_face: bool) -> dict[str, Any]:
    """One line: ratios against plain CTranslate2, and BLEU where the weights are trained."""
    chosen = best_ctranslate2(job)
    contenders: dict[str, Run] = {"CTranslate2": ctranslate2(job, **chosen)}
    if (job.folder / FACTS).is_file():
        contenders["CTranslate2 with map"] = ctranslate2(job, **chosen, vmap=True)
    contenders |= {f"ours {layer}": ours(job, layer) for layer in layers}
    if not job.fixed and job.beam > 1:
        contenders[f"ours {layers[-1]}, variable widths"] = ours(job, layers[-1], **VARIABLE)
    if with_hugging_face:
        contenders["Hugging Face"] = hugging_face(job)
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
            if job.beam > 1 and scores[who] < scores["CTranslate2"] - BLEU_DISTANCE:
                raise DisagreementError(f"{who}: BLEU {scores[who]:.2f}, CTranslate2 {scores['CTranslate2']:.2f}.")

    timings = interleave(contenders, "CTranslate2", rounds, check)
    per_sentence = {who: timing.median_s / len(job.texts) for who, timing in timings.items()}
    figures = {
        "ctranslate2": chosen,
        "contenders": {
            who: {
                "ratio": timing.ratio,
                "least_ratio": timing.least_ratio,
                "most_ratio": timing.most_ratio,
                "ms_per_sentence": per_sentence[who] * 1e3,
                **({"bleu": scores[who]} if who in scores else {}),
            }
            for who, timing in timings.items()
        },
    }
    options = {"name": name, "batch": job.batch, "beam": job.beam, "sentences": len(job.texts), "rounds": rounds}
    return record.write("peers", figures, threads=job.threads, options=options)


def lines(line: dict[str, Any]) -> str:
    """A table for people."""
    o = line["options"]
    said = [f"{o['name']}, batch {o['batch']}, beam {o['beam']}, {line['threads']} thread(s); {line['ctranslate2']}"]
    for who, found in line["contenders"].items():
        score = f"  BLEU {found['bleu']:.2f}" if "bleu" in found else ""
        spread = f"({found['least_ratio']:.2f} to {found['most_ratio']:.2f})"
        said.append(f"  {who:<28} x{found['ratio']:.2f} {spread}  {found['ms_per_sentence']:.1f} ms a sentence{score}")
    return "\n".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--shape", choices=sorted(shapes.SHAPES))
    parser.add_argument("--model", help="a trained transformer of ours")
    parser.add_argument("--layers", nargs="+", default=["scan", "shortlist", "screen"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=0, help="0: 8 at batch 1 and 64 otherwise; all of a test set")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--hugging-face", action="store_true", help="and transformers' generate, which is slow")
    arguments = parser.parse_args()
    if (arguments.shape is None) == (arguments.model is None):
        parser.error("give one of --shape and --model")
    count = arguments.sentences or (0 if arguments.model else 8 if arguments.batch == 1 else 64)
    job = task(
        arguments.shape, arguments.model, arguments.data, count, arguments.batch, arguments.beam, arguments.threads
    )
    name = arguments.shape or Path(arguments.model).resolve().parent.name
    line = measure(job, name, arguments.layers, arguments.rounds, arguments.hugging_face)
    print(lines(line))
    print(json.dumps(line))


if __name__ == "__main__":
    main()
