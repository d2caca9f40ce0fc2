"""Write the copies of the options from their dataclasses: `python .ci/keywords.py [--check]`.

A type checker cannot follow a TypedDict that is made at run time, and the core has no dataclasses: so the keyword types
(src/sharpbeam/options/keywords.py) and the struct of the core (csrc/search/option_fields.h) are files. `--check` writes
nothing and exits with 1 if a file differs.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import Field
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal, get_args, get_origin

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.fit import ScreenOptions, ShortlistOptions
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.schema import bounds_text, fields_of, type_hints
from sharpbeam.options.search import SamplingOptions, SearchOptions

ROOT = Path(__file__).parents[1]
KEYWORDS, CORE = ROOT / "src/sharpbeam/options/keywords.py", ROOT / "csrc/search/option_fields.h"
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
from typing import TYPE_CHECKING, TypedDict

{imports}

if TYPE_CHECKING:
    from sharpbeam.options.fit import Method  # which loads with the fits
if sys.version_info >= (3, 11):
    from typing import Unpack
else:
    from typing_extensions import Unpack

__all__ = ["DecodeKeywords", "MachineKeywords", "ModelKeywords", "ScreenKeywords", "ShortlistKeywords", "Unpack"]
'''
MODEL = '''

class ModelKeywords(DecodeKeywords, MachineKeywords, total=False):
    """Options given when a model is loaded: those of the machine, and defaults of the calls."""
'''
WIDTH = 121  # of a line of C++ with its end
# Options of a search that Python alone reads.
PYTHON_ONLY = (
    *("coverage_penalty", "max_length_factor", "return_alternatives", "return_attention", "sampling", "search"),
)
CORE_HEAD = """\
// The options of a search by their names in src/sharpbeam/options/search.py; None is infinity or the largest number.
// Written by .ci/keywords.py: `make stubs WRITE=1`.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace sharpbeam {

"""


def keywords() -> str:
    """The keyword types."""
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
    modules.pop(ScreenOptions.__module__)
    imports = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(modules.items()) if names]
    return HEAD.format(imports="\n".join(imports)) + "".join(parts)


def core() -> str:
    """The struct of the core: enums, fields with defaults, and what reads and checks them by name."""
    groups = (SearchOptions, SamplingOptions)
    fields = {n: f for group in groups for n, f in fields_of(group).items() if n not in PYTHON_ONLY}
    hints = type_hints(SearchOptions) | type_hints(SamplingOptions)
    choices = {str(fields[name].type): get_args(hints[name]) for name in fields if get_origin(hints[name]) is Literal}
    parts = [CORE_HEAD]
    parts += [f"enum class {kind} {{ {', '.join(map(_constant, names))} }};\n" for kind, names in choices.items()]
    for kind, names in choices.items():
        quoted = ", ".join(f'"{name}"' for name in names)
        parts.append(f"\nconstexpr auto choice_names({kind}) {{ return std::array{{{quoted}}}; }}")
    parts.append("\n\nstruct SearchFields {\n")
    for name, field in fields.items():
        parts += [f"  // {line}\n" for line in wrap(field.metadata["help"], 115)]
        parts.append(f"  {_type(field)} {name} = {_default(field)};\n")
    parts.append("\n  // Calls visit(name, field) for each option.\n  template <typename Visit>\n")
    parts.append("  void visit_fields(const Visit& visit) {\n")
    parts += [f'    visit("{name}", {name});\n' for name in fields]
    parts.append("  }\n\n  // Calls require(holds, name, allowed) for each option with bounds.\n")
    parts.append("  template <typename Require>\n  void check(const Require& require) const {\n")
    parts += [line for name, field in fields.items() for line in _check(name, field)]
    return "".join([*parts, "  }\n};\n\n}  // namespace sharpbeam\n"])


def _type(field: Field[Any]) -> str:
    """The C++ type of an option."""
    if field.metadata["bounds"].get("lt") == 2**64:
        return "uint64_t"
    kind = str(field.type).removesuffix(" | None")
    return {"int": "int64_t", "float": "double"}.get(kind, kind)


def _default(field: Field[Any]) -> str:
    """The default of an option in C++."""
    kind = _type(field)
    if field.default is None:
        return f"std::numeric_limits<{kind}>::{'infinity' if kind == 'double' else 'max'}()"
    if isinstance(field.default, str):
        return f"{kind}::{_constant(field.default)}"
    return str(field.default).lower()


def _constant(choice: str) -> str:
    return f"k{choice.title().replace('-', '')}"


def _check(name: str, field: Field[Any]) -> Iterator[str]:
    """The bounds of an option, if it has any that its type does not; false for NaN."""
    bounds, signs = field.metadata["bounds"], {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    own = {} if _type(field) == "uint64_t" else bounds
    kept = {kind: bound for kind, bound in own.items() if math.isfinite(bound) and bound < 2**63}
    if kept:
        holds = " && ".join(f"{name} {signs[kind]} {bound}" for kind, bound in kept.items())
        line = f'    require({holds}, "{name}", "{bounds_text(bounds)}");\n'
        yield line if len(line) <= WIDTH else line.replace('", "', '",\n            "')


def main(arguments: list[str]) -> int:
    """Write the files, or compare them."""
    different = 0
    for path, text in ((KEYWORDS, keywords()), (CORE, core())):
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            print(f"{path} differs from the options dataclasses: make stubs WRITE=1")
            different = 1
    return different


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
