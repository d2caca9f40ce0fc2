"""Scores and translations of Marian itself against those of its converted models.

`python -m bench parity.marian_identity` lets Marian (`pip install 'sharpbeam[marian]'`) train a small model of each
kind that `sharpbeam convert` reads, for a hundred updates on Tatoeba, and has it score given translations and
translate greedily; the converted model must give the same scores and the same words. Greedily, since beams differ by
rule: Marian's grow narrower with every finished hypothesis.

Of a pre-norm transformer only the scores are compared: Marian's decoder leaves the keys and
values of earlier words without their norm (`LayerAttention` in its src/models/transformer.h), unlike its training.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bench.flags import Data
from bench.harness import record
from bench.harness.testset import DATA
from sharpbeam import Translator
from sharpbeam.convert.formats.marian import read_marian_file, read_npz
from sharpbeam.convert.readers.marian import read_marian
from sharpbeam.text.lines import Pair, column_pairs

HOME = record.ROOT / "build" / "bench" / "marian-identity"
CLOSE = 1e-4  # of log probabilities, as a share of what is above 1
HALF_STEP = 0.501 / 127  # of the largest weight: what rounding to int8 may change
UPDATES, VOCABULARY, TRAINED_ON, SCORED, TRANSLATED = 100, 4000, 20_000, 100, 100
LONGEST = 2  # tokens of an answer for each token of its source, for models of a hundred updates repeat themselves

_TRANSFORMER = "--type transformer --transformer-heads 4 --transformer-dim-ffn 128 --enc-depth 2"
_PRE = "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n"
_GELU = "--transformer-ffn-activation gelu --transformer-postprocess-emb nd"
_SSRU = "--transformer-decoder-autoreg rnn --dec-cell ssru"
KINDS = {
    "transformer": f"{_TRANSFORMER} --dec-depth 2 --tied-embeddings-all",
    "transformer-pre": f"{_TRANSFORMER} --dec-depth 2 --tied-embeddings {_PRE}",
    "transformer-gelu": f"{_TRANSFORMER} --dec-depth 1 {_GELU}",
    "ssru": f"{_TRANSFORMER} --dec-depth 2 --tied-embeddings-all {_SSRU}",
    "ssru-projection": f"{_TRANSFORMER} --dec-depth 1 --tied-embeddings-all {_SSRU} --transformer-rnn-projection",
    "ssru-pre": f"{_TRANSFORMER} --dec-depth 2 --tied-embeddings-all {_SSRU} {_PRE}",
}
WITHOUT_TRANSLATION = ("transformer-pre",)


class MarianError(Exception):
    """Marian ended with an error."""


def run(command: str, *arguments: str) -> str:
    """The output of `marian COMMAND`; in a process of its own, since Marian ends its process where it fails."""
    program = "import sys, _pymarian; sys.exit(_pymarian.main(sys.argv[1:]))"
    words = [word for argument in arguments for word in argument.split()]
    result = subprocess.run(
        [sys.executable, "-c", program, command, *words], capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise MarianError(f"marian {command} ended with {result.returncode}: {result.stderr[-2000:]}")
    return result.stdout


class Text:
    """Tatoeba's German and English as Marian wants it: files of lines, and SentencePiece for both sides."""

    def __init__(self, data: str) -> None:
        HOME.mkdir(parents=True, exist_ok=True)
        pairs = column_pairs(Path(data) / "tatoeba" / "eng-deu.train.tsv.gz", 1, 0)
        self.train = self._write("train", list(islice(pairs, TRAINED_ON)))
        self.pairs = list(islice(pairs, max(SCORED, TRANSLATED)))
        self.test = self._write("test", self.pairs)
        self.vocabulary = HOME / "vocabulary.spm"
        if not self.vocabulary.is_file():
            self._train_vocabulary()

    def _write(self, name: str, pairs: Sequence[Pair]) -> tuple[Path, Path]:
        paths = HOME / f"{name}.de", HOME / f"{name}.en"
        for side, path in enumerate(paths):
            path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
        return paths

    def _train_vocabulary(self) -> None:
        import sentencepiece

        ids: dict[str, Any] = {"unk_id": 1, "eos_id": 0, "bos_id": -1, "pad_id": -1}  # as Marian trains them
        files = ",".join(map(str, self.train))
        prefix = HOME / "vocabulary"
        sentencepiece.SentencePieceTrainer.train(
            input=files, model_prefix=str(prefix), vocab_size=VOCABULARY, minloglevel=2, **ids
        )
        prefix.with_suffix(".model").rename(self.vocabulary)


def train(kind: str, text: Text) -> Path:
    """The model.npz of a kind, trained where it is not there yet."""
    model = HOME / kind / "model.npz"
    if not model.is_file():
        model.parent.mkdir(exist_ok=True)
        run(
            "train",
            f"--model {model} --train-sets {text.train[0]} {text.train[1]}",
            f"--vocabs {text.vocabulary} {text.vocabulary}",
            f"--dim-emb 64 --mini-batch 32 --after {UPDATES}u --learn-rate 0.003 --seed 1",
            "--cpu-threads 1 --workspace 500 --quiet",
            KINDS[kind],
        )
    return model


def binary(model: Path) -> float:
    """How far weights that Marian rounds to int8 lie from those of model.npz at most, as a share of their largest."""
    rounded = model.with_suffix(".intgemm8.bin")
    run("convert", f"--from {model} --to {rounded} --gemm-type intgemm8")
    plain, result = read_npz(model), read_marian_file(rounded)
    if plain.keys() != result.keys():
        raise MarianError(f"{rounded} lacks {sorted(plain.keys() - result.keys())}")
    weights = [name for name, array in plain.items() if array.dtype.kind == "f" and array.any()]
    return max(float(np.abs(result[name] - plain[name]).max() / np.abs(plain[name]).max()) for name in weights)


def measure(kind: str, text: Text) -> dict[str, Any]:
    """One line: the furthest score of ours from Marian's, greedy translations that differ, and its binary file.

    Marian ends an answer that has LONGEST times as many tokens as its source, eos counted in both (`BeamSearch::search`
    in its src/translator/beam_search.cpp), and so do we: each source has its own max_length.
    """
    model = train(kind, text)
    ours = model.parent / "ours"
    shutil.rmtree(ours, ignore_errors=True)  # converted anew: that is what is compared
    read_marian(model, text.vocabulary, None).save(ours, kind)
    translator = Translator(ours)
    both = f"--models {model} --vocabs {text.vocabulary} {text.vocabulary} --cpu-threads 1 --mini-batch 1 --quiet"
    theirs = run("score", both.replace("--models", "--model"), f"--train-sets {text.test[0]} {text.test[1]}")
    scores = [float(line) for line in theirs.splitlines() if line.strip().startswith("-")][:SCORED]
    forced = translator.score(*map(list, zip(*text.pairs[:SCORED], strict=True)), length_penalty=0.0)
    far = max(abs(a.score - b) / max(1.0, abs(b)) for a, b in zip(forced, scores, strict=True))
    figures: dict[str, Any] = {"furthest_score": far, "scored": len(scores), "furthest_binary": binary(model)}
    if kind not in WITHOUT_TRANSLATION:
        messages = run(
            "decode", both, f"--input {text.test[0]} --beam-size 1 --max-length-factor {LONGEST}"
        ).splitlines()
        sources = [source for source, _ in text.pairs[:TRANSLATED]]
        limits = [LONGEST * (len(translator.loaded.source.encode(source)) + 1) for source in sources]
        answers = [
            translator.translate([source], raw=True, beam_size=1, max_length=limit)[0].text
            for source, limit in zip(sources, limits, strict=True)
        ]
        differing = sum(a != b.strip() for a, b in zip(answers, messages[:TRANSLATED], strict=True))
        figures |= {"translated": len(answers), "differing": differing}
    return record.write("marian_identity", figures, threads=1, options={"kind": kind, "updates": UPDATES})


def main(data: Data = DATA, kinds: list[str] = list(KINDS)) -> None:
    """Measure, print and record."""
    text = Text(data)
    for kind in kinds:
        print(json.dumps(measure(kind, text)), flush=True)
