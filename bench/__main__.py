"""One runner for every benchmark: `python -m bench` lists them, `python -m bench NAME --help` shows what one takes."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path

import typer

from bench.harness.testset import NoDataError
from sharpbeam.errors import SharpbeamError

BENCH = Path(__file__).parent
TESTS = BENCH.parent / "tests"  # checks that take too long for a test, and the reference components
CHECKS = ("contract", "fuzz", "parity")


def benchmarks() -> dict[str, tuple[str, str]]:
    """Every benchmark and long check by name, with its module and title; none is imported for it."""
    programs = {}
    places = [(BENCH, BENCH.parent), *((TESTS / folder, TESTS) for folder in CHECKS)]
    for path, root in ((path, root) for folder, root in places for path in sorted(folder.rglob("*.py"))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        runs = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
        if runs and path != Path(__file__):
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            name = module.removeprefix("bench.")
            programs[name] = (module, (ast.get_docstring(tree) or "").partition("\n")[0])
    return programs


def main(arguments: list[str]) -> int:
    """Run the benchmark that the first argument names with the others as its options; the exit status."""
    names = benchmarks()
    if not arguments or arguments[0] in ("-h", "--help"):
        width = max(map(len, names))
        print("python -m bench NAME [OPTIONS], NAME being one of\n")
        print("\n".join(f"  {name:<{width}}  {title}" for name, (_, title) in names.items()))
        return 0
    name, *options = arguments
    if name not in names:
        print(f"bench: no benchmark {name!r}; `python -m bench` lists them", file=sys.stderr)
        return 2
    sys.path.insert(0, str(TESTS))
    module = import_module(names[name][0])
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(help=module.__doc__)(module.main)
    try:
        app(options, prog_name=f"python -m bench {name}")
    except (NoDataError, SharpbeamError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
