"""Count what a newcomer has to hold, next to the limits: `python .ci/counts.py [--strict]`.

Every count is taken from the tree as it is: no list of exceptions, nothing counted apart. `--strict` exits with 1 if a
count is over its limit.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC, CORE, BENCH = ROOT / "src", ROOT / "csrc", ROOT / "bench"
HELP_WORDS = 20


def files(folder: Path, pattern: str = "*.py") -> list[Path]:
    """The files of a folder and of those below it."""
    return sorted(folder.rglob(pattern))


def tree(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def lines(folder: Path, pattern: str = "*.py") -> int:
    """Lines of the files of a folder, by default of Python."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files(folder, pattern))


def layers() -> int:
    """Names that the option `output_layer` takes in a model with every artifact."""
    from sharpbeam.output_layers.registry import output_layers

    return len(output_layers())


def verbs() -> int:
    """Commands of the program `sharpbeam`."""
    from sharpbeam.cli.app import PROGRAM

    return len(PROGRAM.names)


def public_names() -> int:
    """Names in `sharpbeam.__all__`."""
    import sharpbeam

    return len(sharpbeam.__all__)


def duplicate_classes() -> int:
    """Names of classes that more than one file under src defines, private ones too."""
    defined = Counter(
        name
        for path in files(SRC)
        for name in {node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)}
    )
    return sum(count > 1 for count in defined.values())


def programs() -> int:
    """Files under bench that define a function `main`."""
    return sum(
        any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree(path).body)
        for path in files(BENCH)
    )


def source_lines() -> int:
    """Lines of Python under src, and of C++ under csrc."""
    return lines(SRC) + lines(CORE, "*.cpp") + lines(CORE, "*.h")


def bench_lines() -> int:
    """Lines of Python under bench."""
    return lines(BENCH)


def words() -> int:
    """Words of README.md and of the pages under docs."""
    pages = [ROOT / "README.md", *files(ROOT / "docs", "*.md")]
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def long_helps() -> int:
    """Flags and arguments of any command whose help has more than 20 words; the same help of a flag counts once."""
    from sharpbeam.cli.app import PROGRAM

    helps = {(flag.name, flag.help) for verb in PROGRAM.verbs().values() for flag in verb.flags}
    return sum(len(text.split()) > HELP_WORDS for _, text in helps)


def circles() -> int:
    """Circles of modules under src that import each other when they are loaded."""
    modules = {module(path): path for path in files(SRC)}
    graph = {name: set(imports(name, path, modules)) for name, path in modules.items()}
    count = 0
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            first, second = error.args[1][:2]
            graph[second].discard(first)  # opens this circle, so that the next one shows
            count += 1
        else:
            return count


def module(path: Path) -> str:
    """The name that a file under src is imported by."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(name: str, path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """The modules of `modules` that a file imports at its top, outside of `if TYPE_CHECKING`."""
    for node in tree(path).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                source = full if full in modules else node.module
                if source in modules and source != name:
                    yield source
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)


LIMITS: tuple[tuple[str, Callable[[], int], int], ...] = (
    ("output layers", layers, 5),
    ("verbs", verbs, 15),
    ("public names", public_names, 42),
    ("duplicate class names", duplicate_classes, 0),
    ("benchmark programs", programs, 28),
    ("lines of src and csrc", source_lines, 47_580),
    ("lines of bench", bench_lines, 8_500),
    ("words of docs", words, 26_000),
    ("options with more than 20 words", long_helps, 0),
    ("import circles", circles, 0),
)


def main(arguments: list[str]) -> int:
    """Print the table; with --strict, 1 if a count is over its limit."""
    counts = [(name, count(), limit) for name, count, limit in LIMITS]
    for name, number, limit in counts:
        print(f"{name:<32} {number:>7,}  at most {limit:>7,}  {'over' if number > limit else ''}".rstrip())
    over = sum(number > limit for _, number, limit in counts)
    print(f"counts: {over} of {len(counts)} over their limits")
    return 1 if over and "--strict" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
