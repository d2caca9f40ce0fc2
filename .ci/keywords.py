"""Write the keyword types of the options from their dataclasses: `python .ci/keywords.py [--check]`.

A type checker cannot follow a TypedDict that is made at run time, so that src/sharpbeam/options/keywords.py is a file.
`--check` writes nothing and exits with 1 where the file differs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.fit import ScreenOptions, ShortlistOptions
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.schema import fields_of, type_hints

FILE = Path(__file__).parents[1] / "src/sharpbeam/options/keywords.py"
CLASSES: tuple[tuple[str, str, tuple[Any, ...]], ...] = (
    ("Decode", "The fields of all groups of `DecodeOptions`.", tuple(type_hints(DecodeOptions).values())),
    ("Machine", "The fields of `MachineOptions`.", (MachineOptions,)),
    ("Screen", "The fields of `ScreenOptions`.", (ScreenOptions,)),
    ("Shortlist", "The fields of `ShortlistOptions`.", (ShortlistOptions,)),
)
MORE = {"early_stopping": " | bool"}  # as in Hugging Face
HEAD = '''"""The options as keyword arguments, for type checkers and editors: fields of the options dataclasses.

Functions take `**options: Unpack[DecodeKeywords]` (PEP 692). Written by .ci/keywords.py: `make stubs WRITE=1`.
"""

from __future__ import annotations

import sys
from typing import TypedDict

{imports}

if sys.version_info >= (3, 11):
    from typing import Unpack
else:
    from typing_extensions import Unpack  # which Typer brings

__all__ = ["DecodeKeywords", "MachineKeywords", "ModelKeywords", "ScreenKeywords", "ShortlistKeywords", "Unpack"]
'''
MODEL = '''

class ModelKeywords(DecodeKeywords, MachineKeywords, total=False):
    """Options given when a model is loaded: those of the machine, and defaults of the calls."""
'''


def keywords() -> str:
    """The text of the file."""
    modules: dict[str, set[str]] = {}
    parts = []
    for name, summary, groups in CLASSES:
        lines = [f'\n\nclass {name}Keywords(TypedDict, total=False):\n    """{summary}"""\n']
        for group in groups:
            for option, field in fields_of(group).items():
                lines.append(f"    {option}: {field.type}{MORE.get(option, '')}")
                names = {word for word in re.findall(r"[A-Z]\w+", str(field.type)) if word != "None"}
                modules.setdefault(group.__module__, set()).update(names)
        parts.append("\n".join(lines) + "\n")
        parts += [MODEL] if name == "Machine" else []
    imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(modules.items()) if names]
    return HEAD.format(imports="\n".join(imports)) + "".join(parts)


def main(arguments: list[str]) -> int:
    """Write the file, or compare it."""
    text = keywords()
    if "--check" not in arguments:
        FILE.write_text(text, encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text:
        print(f"{FILE} differs from the options dataclasses: make stubs WRITE=1")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
