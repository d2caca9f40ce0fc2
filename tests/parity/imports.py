"""Broken and hostile files for `sharpbeam convert`: each must be refused with a clear error, or read, and nothing else.

A small model is written in every format that can be made here. Each case breaks one of its files: cut short, bytes
changed, numbers made huge, pieces moved, repeated or taken from another file; or it is made to harm: pickles that name
functions, archives that grow, headers that promise what is not there. The file is then read as a user would have it
read. Wrong is any other error than ours, a call of the system or of pickle, more than 4 GiB of memory, or 20 seconds.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, cast

import numpy as np
import typer
from fuzz import family_folders
from fuzz import hostile_files as hostile
from support import marian_writer

from bench.engines import hugging_face_model, m2m_model, marian_model
from bench.harness import record
from sharpbeam.convert.conversion import read_model
from sharpbeam.errors import SharpbeamError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.model_folder import save_model
from sharpbeam.text.sentencepiece import train_sentencepiece
from sharpbeam.text.vocabulary import read_vocabularies

MEMORY, SECONDS = 4 << 30, 20
SENTENCE, TOKENS = "Das Wetter ist heute schön, w12 w13.", 8  # text through the vocabularies of what was read
NEEDED = {
    "torch": "files of PyTorch (.bin)",
    "ctranslate2": "folders of CTranslate2",
    "transformers": "mBART, SMaLL-100 and T5",
}
LEFT_OUT = {package: made for package, made in NEEDED.items() if not find_spec(package)}
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class", "socket.connect")


@dataclass
class Outcome:
    """The outcomes of the cases of one format."""

    refused: int = 0
    read: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Format:
    """A folder in a format, and the file in it that is broken."""

    folder: Path
    file: str
    hostile: Callable[[np.random.Generator, bytes], bytes]


def formats(home: Path) -> dict[str, Format]:
    """All formats that can be made with the packages that are here."""
    ours = _small_model(home / "ours")
    theirs, student = home / "hugging-face", _bergamot(home / "bergamot", ours)
    _hugging_face(theirs, ours)
    results = {
        "safetensors": Format(theirs, "model.safetensors", hostile.safetensors),
        "config.json": Format(theirs, "config.json", hostile.json_object),
        "vocab.json": Format(theirs, "vocab.json", hostile.json_object),
        "Marian": Format(_marian(home / "marian", ours), "model.npz", hostile.marian),
        "Marian, binary": Format(
            _marian_binary(home / "marian-binary", ours), "model.intgemm8.bin", hostile.marian_binary
        ),
        "Bergamot, int8": Format(student, "model.bin", hostile.marian_binary),
        "Bergamot, options": Format(student, "config.yml", hostile.marian_options),
        "Bergamot, shortlist": Format(student, "lex.bin", hostile.marian_shortlist),
        "SentencePiece": Format(_with_pieces(home / "pieces", home / "marian"), "vocab.spm", hostile.sentencepiece),
    }
    if "torch" not in LEFT_OUT:
        results |= _of_torch(home, theirs)
    if not {"torch", "transformers"} & LEFT_OUT.keys():
        broken = family_folders.of_mbart(home) | family_folders.of_t5(home)
        results |= {name: Format(*one) for name, one in broken.items()}
    if "ctranslate2" not in LEFT_OUT:
        results |= _of_ctranslate2(home, ours)
    return results | _of_m2m(home, home / "words.spm")


def _hugging_face(folder: Path, ours: Path) -> None:
    """The small model as MarianMT, with the files of its tokenizer."""
    folder.mkdir()
    hugging_face_model.write(ours, folder)
    source, _ = read_vocabularies(ours)
    (folder / "vocab.json").write_text(json.dumps({source.piece(token): token for token in range(len(source))}))
    for side in ("source", "target"):
        shutil.copy(ours / "source.spm", folder / f"{side}.spm")


def _of_m2m(home: Path, spm: Path) -> dict[str, Format]:
    """Models of many languages, and each of their files that says something of words or languages."""
    m2m100 = m2m_model.write_m2m100(home / "m2m100", spm)
    nllb, listed = (m2m_model.write_nllb(home / f"nllb-{listed}", spm, listed) for listed in (False, True))
    files = ("config.json", "generation_config.json", "tokenizer_config.json")
    results = {f"M2M100, {file}": Format(m2m100, file, hostile.json_object) for file in (*files, "vocab.json")}
    results |= {f"NLLB, {file}": Format(nllb, file, hostile.json_object) for file in (*files[1:], "tokenizer.json")}
    file = "special_tokens_map.json"
    results[f"NLLB, {file}"] = Format(listed, file, hostile.json_object)
    results["NLLB, safetensors"] = Format(listed, "model.safetensors", hostile.safetensors)
    return results


def _of_torch(home: Path, theirs: Path) -> dict[str, Format]:
    """Pickles of PyTorch."""
    import torch
    from safetensors.torch import load_file

    results, state = {}, load_file(theirs / "model.safetensors")
    for name, new in (("pytorch.bin, zip", True), ("pytorch.bin, legacy", False)):
        folder = home / f"bin-{new}"
        shutil.copytree(theirs, folder)
        (folder / "model.safetensors").unlink()
        torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=new)
        results[name] = Format(folder, "pytorch_model.bin", hostile.pickled)
    return results


def _of_ctranslate2(home: Path, ours: Path) -> dict[str, Format]:
    """Folders of CTranslate2 in two types, and one with its words in lines."""
    from bench.engines.ctranslate2_model import write

    results, words = {}, "shared_vocabulary"
    for kind in ("float32", "int8"):
        folder = write(ours, home / f"ctranslate2-{kind}", kind)
        facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "config.json").write_text(json.dumps(facts | {"add_source_eos": True}), encoding="utf-8")
        results[f"CTranslate2 {kind}"] = Format(folder, "model.bin", hostile.ctranslate2)
    results["CTranslate2, config.json"] = Format(folder, "config.json", hostile.json_object)
    results["CTranslate2, vocabulary.json"] = Format(folder, f"{words}.json", hostile.json_list)
    with_lines = Path(shutil.copytree(folder, home / "ctranslate2-lines"))
    listed = json.loads((with_lines / f"{words}.json").read_text(encoding="utf-8"))
    (with_lines / f"{words}.json").unlink()
    (with_lines / f"{words}.txt").write_text("".join(f"{word}\n" for word in listed), encoding="utf-8")
    return results | {"CTranslate2, vocabulary.txt": Format(with_lines, f"{words}.txt", hostile.lines)}


def _marian(folder: Path, ours: Path) -> Path:
    """The small model under the names of Marian."""
    folder.mkdir()
    np.savez(folder / "model.npz", **cast("Any", marian_model.arrays(ours)))
    shutil.copy(ours.parent / "marian.spm", folder / "vocab.spm")
    return folder


def _marian_binary(folder: Path, ours: Path) -> Path:
    """The same as a binary file with rounded matrices."""
    folder.mkdir()
    (folder / "model.intgemm8.bin").write_bytes(marian_model.binary(marian_model.arrays(ours), rounded=True))
    shutil.copy(ours.parent / "marian.spm", folder / "vocab.spm")
    return folder


def _bergamot(folder: Path, ours: Path) -> Path:
    """The same as Firefox's models are shipped: int8 weights, options and a binary shortlist."""
    folder.mkdir()
    arrays = marian_model.arrays(ours)
    (folder / "model.bin").write_bytes(marian_writer.binary(arrays, 0x4101, alphas=True))
    shutil.copy(ours.parent / "marian.spm", folder / "vocab.spm")
    (folder / "lex.bin").write_bytes(marian_writer.shortlist(10, [[i, 99 - i] for i in range(100)]))
    lines = ["models: [model.bin]", "vocabs: [vocab.spm, vocab.spm]", "shortlist: [lex.bin, false]"]
    (folder / "config.yml").write_text("\n".join([*lines, "beam-size: 2", "normalize: 1.0"]) + "\n")
    return folder


def _with_pieces(folder: Path, marian: Path) -> Path:
    """That model, whose pieces are to be broken."""
    return Path(shutil.copytree(marian, folder))


def fuzz(cases: int, seed: int, home: Path | None = None, only: str = "") -> dict[str, Outcome]:
    """`cases` broken files of each format whose name begins with `only`."""
    results: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as own, _watched() as events:
        chosen = {name: one for name, one in formats(home or Path(own)).items() if name.startswith(only)}
        for name, one in chosen.items():
            whole = (one.folder / one.file).read_bytes()
            read_model(str(one.folder))  # as it is it can be read
            outcome = results[name] = Outcome()
            for case in range(cases):
                draw = np.random.default_rng([seed, case])
                broken = one.hostile(draw, whole) if draw.random() < 0.2 else hostile.mutated(draw, whole)
                (one.folder / one.file).write_bytes(broken)
                _read(one.folder, case, outcome, events)
            (one.folder / one.file).write_bytes(whole)
    return results


def _read(folder: Path, case: int, outcome: Outcome, events: list[str]) -> None:
    events.clear()
    signal.alarm(SECONDS)
    try:
        model = read_model(str(folder))
        _ = model.source.listed, model.target.listed  # what is written of its words
        model.target.decode(model.source.encode(SENTENCE)[:TOKENS])
        outcome.read += 1
    except SharpbeamError as error:
        outcome.refused += 1
        if len(str(error)) < 20:
            outcome.wrong.append(f"case {case}: the error says little: {error}")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        outcome.wrong.append(f"case {case}: {type(error).__name__}: {error}")
    finally:
        signal.alarm(0)
    if events:
        outcome.wrong.append(f"case {case}: called {events[0]}")


@contextmanager
def _watched() -> Iterator[list[str]]:
    """Note forbidden calls, and bound memory and time."""
    events: list[str] = []

    def audit(event: str, _: Any) -> None:
        if event.startswith(FORBIDDEN):
            events.append(event)

    def expired(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"it took more than {SECONDS} seconds")

    sys.addaudithook(audit)  # stays, but `events` is not read afterwards
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = (
        int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if os.path.exists("/proc") else 0
    )
    old = signal.signal(signal.SIGALRM, expired)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield events
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, old)


SMALL = TransformerConfig(
    source_vocab_size=100, target_vocab_size=100, hidden_dim=8, encoder_layers=1, decoder_layers=1, encoder_heads=2,
    decoder_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, norm="post", encoder_final_norm=False,
    decoder_final_norm=False, shared_embedding=True, tied_output=True,
)  # fmt: skip


def _small_model(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    tensors = {name: draw.normal(0, 1, shape).astype(np.float32) for name, shape in SMALL.tensor_shapes().items()}
    folder.parent.mkdir(parents=True, exist_ok=True)
    lines = (record.ROOT / "demo/german.txt").read_text(encoding="utf-8").splitlines()
    spm = folder.parent / "words.spm"
    pieces = train_sentencepiece(lines, spm.name, SMALL.source_vocab_size, 1.0, 1)
    spm.write_bytes(pieces)
    save_model(folder, SMALL, tensors, {"source.spm": spm.read_bytes()}, "# small\n")
    (folder.parent / "marian.spm").write_bytes(pieces)
    return folder


def main(
    cases: Annotated[int, typer.Option(help="of each format")] = 10_000,
    seed: int = 0,
    only: Annotated[str, typer.Option(help="formats whose names begin so; default: all")] = "",
) -> None:
    """Measure, print and record."""
    results = fuzz(cases, seed, only=only)
    for name, one in results.items():
        print(f"{name}: {one.refused} refused, {one.read} read, {len(one.wrong)} wrong")
        print("".join(f"  {message}\n" for message in one.wrong[:10]), end="")
    for package, made in LEFT_OUT.items():
        print(f"{made}: left out without {package}")
    figures = {
        name: {"refused": one.refused, "read": one.read, "wrong": len(one.wrong)} for name, one in results.items()
    }
    record.write(
        "imports",
        {"formats": figures},
        threads=1,
        options={"cases": cases, "seed": seed, "left_out": list(LEFT_OUT), "only": only},
    )
