"""The program: its verbs, one file of `verbs` for each, which is loaded when a command line begins with it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

from sharpbeam.cli.command import Verb, VerbGroup
from sharpbeam.cli.flags import Flag
from sharpbeam.options.schema import option

GROUPS = {  # the files of `verbs`, each with a verb of its name
    "Use a model": ("translate", "generate", "score"),
    "Serve it": ("serve",),
    "Get a model": ("models", "convert", "train", "distil", "info"),
    "Make it faster": ("tune", "fit"),
    "Measure it": ("evaluate", "profile"),
}
FLAGS = (  # of the program; --offline may stand anywhere
    Flag("version", bool, option(False, "Print the version and exit.")),
    Flag("offline", bool, option(False, "Fetch nothing: models in the cache alone.")),
    Flag("help", bool, option(False, "Show this message and exit.", short="-h")),
)


def find_verb(name: str) -> Verb | VerbGroup:
    """The verb `name`, or the group of verbs."""
    own: Verb | VerbGroup = getattr(import_module(f"sharpbeam.cli.verbs.{name}"), name)
    return own


SUMMARY = "Fast decoding of translation models, and others, on a CPU. Begin with: `sharpbeam translate de-en`"
PROGRAM = VerbGroup(SUMMARY, GROUPS, find_verb, FLAGS)


def run(words: Sequence[str]) -> None:
    """Run a command line, or complete the one that the shell says it has; raises OptionError for wrong use."""
    if line := os.environ.get("COMP_LINE"):
        for name in completions(line):
            print(name)
        return
    if "--offline" in words[: words.index("--") if "--" in words else None]:
        os.environ["SHARPBEAM_OFFLINE"], words = "1", [word for word in words if word != "--offline"]
    if words[:1] == ["--version"]:
        from sharpbeam.version import program_version

        print(f"sharpbeam {program_version()}")
        return
    PROGRAM.run("sharpbeam", words)


def completions(line: str) -> list[str]:
    """The verbs or flags that may continue `line`, a command line up to the cursor: for bash's `complete -C`."""
    *words, last = line.split(" ")[1:]
    at: Verb | VerbGroup = PROGRAM
    for word in words:
        if isinstance(at, VerbGroup) and word in at.names:
            at = at.find(word)
    names = list(at.names) if isinstance(at, VerbGroup) else []
    names += [name for one in at.flags if not one.is_argument and last for name in one.spellings]
    return [name for name in names if name.startswith(last)]
