"""Structure: the library in the field's own words, one of each thing, and a first page that makes a stranger stay."""

from __future__ import annotations

import graphlib
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.harness import record
from bench.harness.testset import german_english
from bench.scoreboard.claim import Claim, Settings, Verdict, recorded
from sharpbeam import Handle, Translation, Translator

ROOT = record.ROOT
SRC = ROOT / "src" / "sharpbeam"
# Packages and modules of later parts, whose lines are counted apart from those of the features of that day. What later
# parts added to other modules cannot be told apart, and counts.
LATER = (
    *("server", "ray", "documents", "gpu", "options/server", "options/documents"),
    *("fit/low_bit", "output_layers/proven", "storage/low_bit", "cli/verbs/fit_preview"),
    *("report/tune", "report/compare", "report/assessment", "report/head_report", "report/precision"),
    *("storage/tuned", "storage/precision", "decoding/device", "models/transformer/experts"),
    *("api/attached", "api/generation_need", "fit/model_head", "text/byte_level"),
    *(f"convert/readers/hugging_face/{kind}" for kind in ("bart_words", "nllb_moe", "refused", "t5")),
    *("convert/formats/unigram", "convert/t5_export", "models/transformer/attention", "report/previews"),
    *(f"jobs/{kind}" for kind in ("batch", "packing", "parquet", "records")),
    *(f"cli/verbs/{verb}" for verb in ("tune", "compare", "serve", "translate_document")),
)
OLD_NAME = "quick" + "beam"


def run(*command: str, **environment: str) -> tuple[bool, str, float]:
    """A command at the root of the project: whether it succeeds, the last line that it prints, and its seconds."""
    began = time.perf_counter()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    every = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PATH": path}
    done = subprocess.run(command, cwd=ROOT, env=every | environment, capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return done.returncode == 0, said[-1].strip("= ") if said else "", time.perf_counter() - began


def python(*arguments: str) -> tuple[bool, str, float]:
    """The same of Python's `-m`."""
    return run(sys.executable, "-m", *arguments)


def tracked(*patterns: str) -> list[str]:
    """Tracked files, relative to the root."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def naming(pattern: str, *places: str) -> list[str]:
    """Tracked files in which a line matches, case ignored."""
    command = ["git", "grep", "-lIiE", pattern, "--", *places]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()


def wheel(settings: Settings) -> Verdict:
    """Build the wheel and translate with it in an empty environment."""
    holds, said, seconds = run(sys.executable, ".ci/wheel.py")
    return Verdict(holds, f"{said}, {seconds:.0f} s")


def old_name(settings: Settings) -> Verdict:
    """Files that say the old name, other than the changelog; old folders load without it."""
    found = [name for name in naming(OLD_NAME) if name != "CHANGELOG.md"]
    return Verdict(not found, f"{len(found)} files{': ' if found else ''}{', '.join(found)}")


def first_page(settings: Settings) -> Verdict:
    """Lines and words of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines, words = len(text.splitlines()), len(text.split())
    return Verdict(lines <= 120 and words <= 1000, f"{lines} lines, {words} words")


def code_blocks(settings: Settings) -> Verdict:
    """The test that runs them."""
    holds, said, _ = python("pytest", "-q", "tests/docs/test_code_blocks.py")
    return Verdict(holds and "skipped" not in said, said)


def documentation(settings: Settings) -> Verdict:
    """`mkdocs build --strict`, for which a warning is an error."""
    holds, said, _ = python("mkdocs", "build", "--strict", "--quiet", "--site-dir", "build/site")
    return Verdict(None if "No module named mkdocs" in said else holds, said or "built without a warning")


def vocabulary(settings: Settings) -> Verdict:
    """The check on the tree, and on a file with a planted word."""
    clean, said, _ = run(sys.executable, ".ci/vocabulary.py")
    planted = ROOT / "build" / "planted.py"
    planted.parent.mkdir(exist_ok=True)
    planted.write_text("# This " + "do" + "or leads to the model.\n", encoding="utf-8")
    try:
        passes, _, _ = run(sys.executable, ".ci/vocabulary.py", str(planted.relative_to(ROOT)))
    finally:
        planted.unlink()
    return Verdict(clean and not passes, f"{said}; the planted word is {'not found' if passes else 'found'}")


def layers(settings: Settings) -> Verdict:
    """The contract of import-linter, and circles among modules, imports in functions included."""
    import grimp

    kept, _, _ = run("lint-imports")
    graph = grimp.build_graph("sharpbeam", exclude_type_checking_imports=True, cache_dir=None)
    try:
        graphlib.TopologicalSorter({m: graph.find_modules_directly_imported_by(m) for m in graph.modules}).prepare()
        circle = "0 circles"
    except graphlib.CycleError as error:
        circle = f"a circle: {' -> '.join(error.args[1])}"
    figure = f"contract {'kept' if kept else 'broken'}, {circle} among {len(graph.modules)} modules"
    return Verdict(kept and circle == "0 circles", figure)


def layer_files(settings: Settings) -> Verdict:
    """Files that name the scan (its class, header or module); the stub is generated, and a fit only uses it."""
    found = naming(r"ScanLayer|output_layers\.scan\b|output/scan\.h", "src", "csrc", ":!src/sharpbeam/fit", ":!*.pyi")
    return Verdict(len(found) <= 4, f"{len(found)}, of `scan`: {', '.join(found)}; in Python alone 1")


def outside_layer(settings: Settings) -> Verdict:
    """The example registers a layer and translates with it; its test."""
    holds, said, _ = python("pytest", "-q", "tests/examples/test_own_output_layer.py")
    return Verdict(holds, f"examples/own_output_layer.py: {said}")


def typed(settings: Settings) -> Verdict:
    """mypy --strict on a file of user code and on its misspelled twin; the same misspelling at run time."""
    holds, said, _ = python("pytest", "-q", "tests/unit/api/test_typing.py")
    try:
        Translator("de-en").translate(["Bade."], beam_sise=5)  # type: ignore[call-arg]
    except Exception as error:
        return Verdict(holds and "beam_sise" in str(error), f"{said}; {type(error).__name__}: {error}")
    return Verdict(False, f"{said}; beam_sise is taken")


def session(settings: Settings) -> Verdict:
    """Requests at random times, a tenth of them cancelled, against one batch."""
    count = 200 if settings.quick else 1000
    texts, _ = german_english(settings.data, count)
    translator, draw = Translator(settings.model), random.Random(1)
    wanted = [answer.hypotheses for answer in translator.translate(texts)]
    handles: dict[int, Handle[Translation]] = {}
    cancelled = set()
    with translator.session() as open_session:
        waiting = list(range(count))
        draw.shuffle(waiting)
        while waiting or any(not handle.done() for handle in handles.values()):
            for _ in range(min(draw.randint(0, 4), len(waiting))):
                i = waiting.pop()
                handles[i] = open_session.submit(texts[i])
                if draw.random() < 0.1:
                    cancelled.add(i)
                    handles[i].cancel()
            open_session.step()
        found = {i: handle.result().hypotheses for i, handle in handles.items() if i not in cancelled}
    wrong = [i for i, hypotheses in found.items() if hypotheses != wanted[i]]
    return Verdict(not wrong, f"{count} requests, {len(cancelled)} cancelled, {len(wrong)} answers differ")


def flags(settings: Settings) -> Verdict:
    """Flags of the short help; those of the options that the long help lacks."""
    from dataclasses import fields

    from sharpbeam.options.decode import DecodeOptions, MachineOptions
    from sharpbeam.options.schema import type_hints

    short = set(re.findall(r"^\W*(--[a-z][\w-]*)", helped("--help"), re.M))
    every = set(re.findall(r"--[a-z][\w-]*", helped("--help-all")))
    groups = [*type_hints(DecodeOptions).values(), MachineOptions]
    names = {f"--{field.name.replace('_', '-')}" for group in groups for field in fields(group)}
    names -= {"--return-scores"}  # no flag: --format says whether scores are written
    lacking = sorted(name for name in names if not {name, name.replace("--", "--no-", 1)} & every)
    figure = f"{len(short)} flags; --help-all lacks {', '.join(lacking) or 'none'} of {len(names)} options"
    return Verdict(len(short) <= 20 and not lacking, figure)


def helped(flag: str) -> str:
    """The output of `sharpbeam translate` with `flag`."""
    command = [sys.executable, "-m", "sharpbeam", "translate", flag]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def edits(settings: Settings) -> Verdict:
    """Seconds until a test run has an edit: of a C++ file, compiled in place; of a Python file, which needs none."""
    if not (ROOT / "build/dev/build.ninja").is_file():
        return Verdict(None, "no build in place: make dev")
    os.utime(ROOT / "csrc/output/scan.cpp")
    built, _, native = run("ninja", "-C", "build/dev", "_core", CCACHE_DISABLE="1")
    done, _, quick = python("pytest", "-q", "tests/unit/output_layers/test_scan.py")
    return Verdict(built and done, f"C++ {native:.0f} s to build, then {quick:.0f} s for the tests of one file")


def fast_lane(settings: Settings) -> Verdict:
    """`make fast` in this environment."""
    listed = re.search(r"^FAST_TESTS := (.*?\n)\n?\.PHONY|^FAST_TESTS := ((?:.*\\\n)*.*)$", makefile(), re.M)
    words = re.findall(r"[\w/.=-]+", listed[0].split(":=", 1)[1]) if listed else []
    folders = [f"tests/unit/{word}" for word in words if (ROOT / "tests/unit" / word).is_dir()]
    ignored = [word for word in words if word.startswith("--ignore")]
    holds, said, seconds = python("pytest", "-q", *folders, *ignored)
    return Verdict(holds and seconds < 60, f"{seconds:.0f} s: {said}")


def makefile() -> str:
    """Its text."""
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def all_tests(settings: Settings) -> Verdict:
    """`make test` in this environment."""
    holds, said, seconds = python("pytest", "-q")
    return Verdict(holds and seconds < 600, f"{seconds:.0f} s: {said}")


def continuous(settings: Settings) -> Verdict:
    """Whether `.ci/run` runs every part of `make check`, and all tests."""
    text = (ROOT / ".ci/run").read_text(encoding="utf-8")
    check = re.search(r"^check: (.*)$", makefile(), re.M)
    parts = [*(check[1].split() if check else ()), "test"]
    missing = [part for part in parts if not re.search(rf"\b{part}\b", text)]
    return Verdict(bool(check) and not missing, f"runs {', '.join(p for p in parts if p not in missing)}")


def source_lines(settings: Settings) -> Verdict:
    """Lines of Python; those of later parts apart."""
    count = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in tracked("src/*.py")}
    later = {name: lines for name, lines in count.items() if name.removeprefix("src/sharpbeam/").startswith(LATER)}
    ours = sum(count.values()) - sum(later.values())
    return Verdict(ours <= 18_500, f"{ours:,}, and {sum(later.values()):,} of later parts")


def as_fast(line: dict[str, Any]) -> Verdict:
    """Judge a line of bench/results/before.jsonl."""
    ratios = {size: found["ratio"] for size, found in line["batches"].items()}
    each = ", ".join(
        f"batch {size} x{ratio[0]:.2f} ({ratio[1]:.2f} to {ratio[2]:.2f})" for size, ratio in ratios.items()
    )
    return Verdict(all(ratio[0] >= 0.97 for ratio in ratios.values()), f"{each} in processor time")


CLAIMS = [
    Claim("1a", "`pip wheel .` into an empty environment, `sharpbeam translate de-en`", "works", wheel, slow=True),
    Claim("1b", "the old name, but for the loader of old folders and the changelog", "nowhere", old_name),
    Claim("2a", "README", "at most 120 lines and 1,000 words", first_page),
    Claim("2b", "code blocks of README and docs", "all run", code_blocks, slow=True),
    Claim("2c", "the documentation", "builds without a warning", documentation, slow=True),
    Claim("3", "vocabulary check on src, csrc, tests, docs", "passes; fails on a planted word", vocabulary),
    Claim("4a", "layout contract and import circles", "kept, 0 circles", layers),
    Claim("4b", "files to add an output layer inside the package", "at most 4", layer_files),
    Claim("4c", "files to change for an output layer from outside", "0, shown by the example", outside_layer),
    Claim("5", "mypy --strict on user code; translate(beam_sise=5)", "passes; a type and a runtime error", typed),
    Claim("6a", "1,000 requests at random times, some cancelled, against one batch", "the same bytes", session),
    Claim(
        "6b",
        "translation speed at batch 1 and 32 against the commit before",
        "within 3%",
        recorded("before", as_fast),
    ),
    Claim("7", "help of translate", "at most 20 flags; every advanced flag in --help-all", flags),
    Claim("8a", "an edit is in the next test run", "in seconds", edits, slow=True),
    Claim("8b", "the fast lane", "< 60 s", fast_lane, slow=True),
    Claim("8c", "all tests", "< 10 minutes", all_tests, slow=True),
    Claim("8d", "`.ci/run`", "runs the checks", continuous),
    Claim("9", "lines of src, with the features of that day", "at most 18,500", source_lines),
]
