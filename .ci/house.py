"""Check what a machine can check of the conventions in CONTRIBUTING.md: `python .ci/house.py`.

Files below 400 lines, functions below 60, nothing unpickled, a README of one page, links and paths in the documents
that exist, a changelog that knows the version, bundled models that are small and have cards.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE_LINES, FUNCTION_LINES = 400, 60
README_LINES, README_WORDS = 120, 1000
MODEL_BYTES = 25 * 2**20
UNPICKLERS = {"pickle", "cloudpickle", "dill", "shelve", "marshal"}
PLACES = "src|csrc|tests|bench|models|recipes|demo|examples|docs"
# A block that begins and ends at column 0 is a function, unless it is one of these.
NO_FUNCTION = re.compile(
    r"^(?:[#/}\s]|namespace|class|struct|enum|union|extern|using|template.*(?:struct|class) \w+ \{)"
)


def python_files() -> list[Path]:
    """The Python files of the package."""
    return sorted((ROOT / "src").rglob("*.py"))


def native_files() -> list[Path]:
    """The C++ files of the core."""
    return sorted(path for ending in ("*.cpp", "*.h") for path in (ROOT / "csrc").rglob(ending))


def name(path: Path) -> str:
    """The path as it is printed."""
    return str(path.relative_to(ROOT))


def long_files() -> Iterator[str]:
    """Files with more than 400 lines."""
    for path in python_files() + native_files():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILE_LINES:
            yield f"{name(path)} has {lines} lines; at most {FILE_LINES}: a file is one noun, split it."


def python_functions() -> Iterator[str]:
    """Functions with more than 60 lines, and what unpickles."""
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield from _of_node(path, node)


def _of_node(path: Path, node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
        lines = (node.end_lineno or first.lineno) - first.lineno + 1  # without its signature and docstring
        if lines > FUNCTION_LINES:
            yield f"{name(path)}:{node.lineno}: {node.name} has {lines} lines; at most {FUNCTION_LINES}."
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
        for bad in names & UNPICKLERS:
            yield f"{name(path)}:{node.lineno}: imports {bad}; nothing is ever unpickled."
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
        safe = any(word.arg == "weights_only" for word in node.keywords)
        if getattr(node.func.value, "id", None) == "torch" and not safe:
            yield f"{name(path)}:{node.lineno}: torch.load without weights_only=True unpickles."


def native_functions() -> Iterator[str]:
    """C++ functions with more than 60 lines."""
    for path in native_files():
        begun = None
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line == "}" and begun is not None:
                if number - begun + 1 > FUNCTION_LINES:
                    yield f"{name(path)}:{begun}: a function of {number - begun + 1} lines; at most {FUNCTION_LINES}."
                begun = None
            elif line.endswith("{") and not NO_FUNCTION.match(line):
                begun = number


def readme() -> Iterator[str]:
    """A README longer than one page."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines, words = len(text.splitlines()), len(text.split())
    if lines > README_LINES or words > README_WORDS:
        yield f"README.md has {lines} lines and {words} words; at most {README_LINES} and {README_WORDS}."


def documents() -> Iterator[str]:
    """Paths and links in the documents that lead nowhere."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "models").glob("*.md")]
    for page in sorted(pages):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for path in re.findall(rf"`((?:{PLACES})/[\w./-]*)`", text):
            if not (ROOT / path).exists():
                yield f"{name(page)}: `{path}` does not exist."
        for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", text):
            if not (page.parent / link).exists():
                yield f"{name(page)}: the link to {link} leads nowhere."


def release() -> Iterator[str]:
    """A version that the changelog does not know."""
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    if not version or f"## {version[1]}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield "CHANGELOG.md has no section for the version of pyproject.toml."


def bundled_models() -> Iterator[str]:
    """Bundled models that are too large for the wheel, or have no card."""
    for config in sorted((ROOT / "models").glob("*/config.json")):
        size = sum(path.stat().st_size for path in config.parent.rglob("*"))
        if size > MODEL_BYTES:
            yield f"{name(config.parent)} has {size:,} bytes; at most {MODEL_BYTES:,}."
        card = config.parent / "README.md"
        if not card.is_file() or not card.read_text(encoding="utf-8").startswith("# "):
            yield f"{name(config.parent)} has no card (README.md with a title)."


CHECKS = (long_files, python_functions, native_functions, readme, documents, release, bundled_models)


def main() -> int:
    """Print what breaks a rule; 1 where anything does."""
    broken = [line for check in CHECKS for line in check()]
    print("\n".join([*broken, f"house: {len(CHECKS)} checks, {len(broken)} findings"]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
