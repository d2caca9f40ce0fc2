"""User code type-checks in strict mode, and a misspelled option does not; the public names are those listed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sharpbeam

SOURCE = Path(sharpbeam.__file__).parents[1]

GOOD = """
from pathlib import Path

from sharpbeam import DecodeOptions, Generator, MachineOptions, Scorer, Translator
from sharpbeam.fit.progress import FitProgress
from sharpbeam.options.fit import ScreenOptions
from sharpbeam import fit_layer, profile, translate_file, tune
from sharpbeam import convert_model


def listen(report: FitProgress) -> None:
    print(report.stage)


translator = Translator("de-en", threads=2, compute_type="int8", output_layer="scan", beam_size=4)
best: str = translator.translate(["Bade."], beam_size=5, early_stopping=True, max_score_margin=None)[0].text
options = DecodeOptions.of(beam_size=3, output_layer="scan").changed(max_length=30)
scores: list[float | None] = [h.score for t in translator.translate(["Bade."], options=options) for h in t.hypotheses]
for index, translation in translator.translate_iter(["Bade."], sampling=True, top_p=0.9):
    print(index, translation.text)
log_prob: float = translator.score(["Bade."], ["Bu."], length_penalty=0.0)[0].log_prob
with translator.session(beam_size=2) as session:
    handle = session.submit("Bade.")
    done = [one.result().text for one in session.run()]
continued: str = Generator("lm", machine=MachineOptions(threads=1)).generate(["the"], max_length=9)[0].text
for answer in Scorer("lm").score_stream(["the end"]):
    print(answer.score)
stats = translate_file(translator, "in.txt", Path("out.txt"), resume=True, format="jsonl", progress=print, beam_size=1)
sentences: int = stats.sentences
fit_layer("screen", "model", text="text", options=ScreenOptions(fidelity=0.99), progress=listen)
fit_layer("shortlist", "model", pairs="pairs.tsv", progress=listen)
fit_layer("preview", "model", progress=listen)
tune("model", [Path("text")])
layer: str = profile("de-en", ["Bade."]).output_layer
convert_model("their-model", "model")
version: str = __import__("sharpbeam").__version__
"""

BAD = """
from sharpbeam import Translator

Translator("de-en").translate(["Bade."], beam_sise=5)
Translator("de-en", thread=2)
Translator("de-en").translate(["Bade."], finishing="soon")
"""


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The findings of mypy in both programs. One run reads the package once."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("user")
    (folder / "good.py").write_text(GOOD)
    (folder / "bad.py").write_text(BAD)
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {SOURCE}\nfollow_imports = silent\n")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", ".cache", "good.py", "bad.py"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    ).stdout.splitlines()


def test_user_code_type_checks(findings: list[str]) -> None:
    assert findings[-1].endswith("in 1 file (checked 2 source files)"), findings
    assert not [line for line in findings if line.startswith("good.py")]


def test_a_misspelled_option_is_a_type_error(findings: list[str]) -> None:
    result = "\n".join(findings)
    assert 'bad.py:4: error: Unexpected keyword argument "beam_sise"' in result
    assert 'bad.py:5: error: Unexpected keyword argument "thread"' in result
    assert "bad.py:6: error: Argument" in result


def test_the_package_lists_its_public_names() -> None:
    assert dir(sharpbeam) == sorted(sharpbeam.__all__)
    assert all(getattr(sharpbeam, name) is not None for name in sharpbeam.__all__)
    assert sharpbeam.__version__ and (Path(sharpbeam.__file__).parent / "py.typed").is_file()
