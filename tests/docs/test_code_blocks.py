"""Every code block of the README and the documentation runs, in the order of its page.

Blocks of `sh` and `python` run in a temporary folder with the sentences and models of a clone; the Python blocks
of a page share their names. A block that needs the network, or data that is not part of the project, has the line
`<!-- not run: REASON -->` before it: its syntax is checked, and so are the verbs and flags of `sharpbeam` in it.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("sharpbeam._core", reason="the native core is not built")

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    if "lab" not in page.parts  # notes are not mended when commands change
)
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)
REASON = re.compile(r"<!-- not run: \S.* -->\n\s*$")
# Commands of a checkout, which are not run inside of its tests.
OUTSIDE = re.compile(r"^(?:make|pip|git|pre-commit|python -m build|python \.ci/)\b")


@dataclass(frozen=True)
class Block:
    """A code block: its page, the line that it begins at, its language, and whether it is run."""

    page: str
    line: int
    language: str
    code: str
    runs: bool


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        indent, language, body = match.groups()
        code = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        line = text.count("\n", 0, match.start()) + 2
        yield Block(str(page.relative_to(ROOT)), line, language, code, not REASON.search(text[: match.start()]))


def commands(block: Block) -> list[str]:
    """The lines of a shell block, continued lines joined, without comments."""
    joined = block.code.replace("\\\n", " ")
    lines = [line.split(" #")[0].strip() for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder of a stranger: sentences, a language model, and `sharpbeam` on the path."""
    shutil.copytree(ROOT / "demo", tmp_path / "demo")
    for name in ("de-en", "lm-ptb-small"):
        shutil.copytree(ROOT / "models" / name, tmp_path / "models" / name)
    commands = tmp_path / "bin"
    commands.mkdir()
    script = f"#!/bin/sh\nexec {sys.executable} -c 'from sharpbeam.cli.main import main; main()' \"$@\"\n"
    (commands / "sharpbeam").write_text(script)
    (commands / "sharpbeam").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@cache
def known_flags() -> dict[str, set[str]]:
    """The flags of each verb."""
    from sharpbeam.cli.app import PROGRAM

    flags = {name: {"--help-all"} for name in PROGRAM.names}
    for name, verb in PROGRAM.verbs().items():
        flags[name.split()[0]] |= {spelling for flag in verb.flags for spelling in flag.spellings}
    return flags


def check_flags(block: Block) -> None:
    """The verbs and flags of `sharpbeam` in a shell block exist."""
    for command in commands(block):
        for part in re.split(r"[|;&]+", command):
            words = shlex.split(part.split(" > ")[0].split(" < ")[0])
            if words[:1] != ["sharpbeam"] or len(words) < 2 or words[1].startswith("-"):
                continue
            assert words[1] in known_flags(), f"{block.page}:{block.line}: sharpbeam has no verb {words[1]}"
            flags = {word.split("=")[0] for word in words[2:] if re.match(r"--?[a-z]", word)}
            unknown = flags - known_flags()[words[1]] - {"--help"}
            assert not unknown, f"{block.page}:{block.line}: sharpbeam {words[1]} has no {unknown}"


def run_shell(block: Block) -> None:
    lines = [line for line in commands(block) if not OUTSIDE.match(line)]
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"{block.page}:{block.line}:\n{block.code}\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_of_a_page_run(page: Path, home: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            tree = ast.parse("\n" * (block.line - 1) + block.code, block.page)
            if block.runs:
                exec(compile(tree, block.page, "exec"), names)
        elif block.language == "sh":
            syntax = subprocess.run(["bash", "-n"], input=block.code, capture_output=True, text=True, check=False)
            assert syntax.returncode == 0, f"{block.page}:{block.line}: {syntax.stderr}"
            check_flags(block)
            if block.runs:
                run_shell(block)
        elif block.language == "toml":
            tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
            tomllib.loads(block.code)
        else:
            assert block.language in ("text", "json"), f"{block.page}:{block.line}: a block of {block.language!r}"


def test_blocks_are_found_and_mostly_run() -> None:
    """The pages have the blocks that this file is for, and the exceptions are few."""
    results = [block for page in PAGES for block in blocks(page) if block.language in ("python", "sh")]
    left_out = [block for block in results if not block.runs]
    assert len(results) >= 40
    assert len(left_out) <= len(results) / 4


def test_unknown_flags_are_found() -> None:
    with pytest.raises(AssertionError, match="translate has no"):
        check_flags(Block("x.md", 1, "sh", "cat x | sharpbeam translate de-en --nonsense scan\n", False))
