"""Check that the project is written in the field's words: `python .ci/vocabulary.py [FILES]`.

Each rule is a word that readers of this field do not expect, the contexts in which it is right, and the word to write
instead. The glossary is in CONTRIBUTING.md. A line that has to keep such a word (a key in old files, quoted text) ends
in a comment `vocabulary: REASON`. Folders that are still being rewritten have a budget in `.ci/vocabulary.json`, which
may only fall: `--tighten` writes what is left.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGETS = ROOT / ".ci/vocabulary.json"
ENDINGS = (".py", ".pyi", ".cpp", ".h", ".md", ".toml", ".yml", ".yaml")
PLACES = ("src", "csrc", "tests", "bench", "examples", "docs", "demo", "recipes", "models", ".github")
# The notes quote old names and figures; results are data; the list below names the words that it forbids.
LEFT_OUT = ("bench/results/", ".ci/", "CHANGELOG.md", "tests/house/test_vocabulary.py")
EXEMPT = re.compile(r"vocabulary: \w")


@dataclass(frozen=True)
class Rule:
    """`words` (alternatives of a regular expression) and the contexts, `~` for the word, in which they are right."""

    words: str
    write: str
    contexts: tuple[str, ...] = ()

    def pattern(self) -> re.Pattern[str]:
        """The word as a whole, in prose, snake_case and CamelCase; a context that is right is matched first."""
        capital = "|".join(word[0].upper() + word[1:] for word in self.words.split("|"))
        word = rf"(?:(?<![A-Za-z])(?:{self.words}|{capital})|(?<=[a-z])(?:{capital}))(?![a-z])"
        right = "|".join(context.replace("~", f"(?:{self.words}|{capital})") for context in self.contexts)
        return re.compile(f"(?:{right})|({word})" if right else f"({word})")


RULES = (
    Rule("door|doors", "interface", ("next-door", "back-?door")),
    Rule("room|rooms", "package; capacity or space for memory"),
    Rule("fate|fates", "outcome"),
    Rule("doubt|doubts|doubted|doubtful", "fallback test, uncertain row, fall back"),
    Rule("tongues|tongue", "languages"),
    Rule("behind", "after; by the interface", ("left ~", "(?:idea|reason|reasoning|mathematics) ~")),
    Rule("beside", "next to, as well as"),
    Rule("in front of", "before"),
    Rule("gives? back|gave back|given back|giving back", "returns; releases for memory"),
    Rule("goes on|go on|went on|going on", "continues, resumes"),
    Rule("sent back|sends? (?:\\S+ ){0,4}back", "falls back"),
    Rule("look_back|look_across", "self-attention, cross-attention"),
    Rule(
        "turn|turns",
        "step; round in a benchmark",
        (r"\bin ~\b", r"\b[Tt]ake ~", r"\b~ [\w`]+ (?:in)?to", r"\b~ (?:in|out|off|on|an?|the|it|into|its)\b"),
    ),
    Rule("as bytes", "in int8", (r"(?:read|written|given|returned|decoded|encoded|passed) ~",)),
    Rule(
        "projection|projections",
        "output layer",
        # names of papers and of Marian's options, and the standard term inside of a model
        (
            r"[Vv]ocabulary ~",
            r"(?:ssru[-_ ]|pre, |rnn-|no-)~",
            r"(?:[Rr]andom|[Kk]ey|[Vv]alue|[Qq]uery|QKV|[Ii]nput|[Rr]esidual|fused|attention) ~",
        ),
    ),
    Rule("whoever|nobody|somebody", "the caller, no request, a passive"),
    Rule("norms? in front|norms? behind", "pre-norm, post-norm"),
)
# A docstring or a comment is titled with a noun phrase or an imperative.
TITLE = re.compile(r'(?:"""|^\s*//+ |^\s*# )(What) ')


@dataclass(frozen=True)
class Finding:
    """A word that should be another one."""

    path: str
    line: int
    word: str
    write: str

    @property
    def folder(self) -> str:
        """The folder whose budget it counts for."""
        return folder(self.path)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}: write {self.write}"


def check(path: str, text: str) -> list[Finding]:
    """All findings in `text`; in Markdown, code blocks and literals are checked as well."""
    findings = []
    for number, line in enumerate(text.splitlines(), 1):
        if EXEMPT.search(line):
            continue
        for pattern, rule in PATTERNS:
            findings += [Finding(path, number, m[1], rule.write) for m in pattern.finditer(line) if m[1]]
        if not path.endswith(".md") and TITLE.search(line):
            findings.append(Finding(path, number, "What", "a noun phrase or an imperative as the title"))
    return findings


def folder(path: str) -> str:
    """The budget that a file counts for: `src/sharpbeam/search`, `csrc/output`, `tests/unit/text`, `docs/lab`, ..."""
    parts = path.split("/")[:-1]
    depth = 3 if parts[:1] == ["src"] or parts[:2] == ["tests", "unit"] else 2
    return "/".join(parts[:depth]) or "."


def tracked() -> list[str]:
    """The files to check, relative to the root; in a tree without git, all that lie in the known places."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    names = listed.stdout.splitlines() if listed.returncode == 0 else _all_files()
    chosen = [name for name in names if name.endswith(ENDINGS) or name == "Makefile"]
    inside = [name for name in chosen if "/" not in name or name.split("/")[0] in PLACES]
    return sorted(name for name in inside if not name.startswith(LEFT_OUT) and (ROOT / name).is_file())


def _all_files() -> list[str]:
    places = [ROOT / place for place in PLACES]
    files = [path for place in places for path in place.rglob("*")] + list(ROOT.iterdir())
    return [str(path.relative_to(ROOT)) for path in files if path.is_file()]


PATTERNS = [(rule.pattern(), rule) for rule in RULES]


def main(arguments: list[str] | None = None) -> int:
    """Print the findings of folders over their budget; 1 where there are any."""
    parser = argparse.ArgumentParser(description="Check the project's vocabulary.")
    parser.add_argument("files", nargs="*", help="only these, without a budget")
    parser.add_argument("--tighten", action="store_true", help="write what is left as the new budgets")
    options = parser.parse_args(arguments)
    names = options.files or tracked()
    findings = [finding for name in names for finding in check(name, (ROOT / name).read_text(encoding="utf-8"))]
    left = Counter(folder(finding.path) for finding in findings)
    budgets = {} if options.files else json.loads(BUDGETS.read_text())
    if options.tighten:
        BUDGETS.write_text(json.dumps(dict(sorted(left.items())), indent=1) + "\n")
        return 0
    over = [finding for finding in findings if left[finding.folder] > budgets.get(finding.folder, 0)]
    for finding in over:
        print(finding)
    for name in sorted({finding.folder for finding in over}):
        print(f"{name}: {left[name]} findings, at most {budgets.get(name, 0)} are allowed.")
    print(f"vocabulary: {len(names)} files, {len(findings)} findings, {len(over)} over budget")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
