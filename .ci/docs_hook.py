"""A hook of MkDocs: the public names that no reference page shows yet follow at the marker of reference/library.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MARKER = "<!-- other public names -->"


def public_names() -> list[str]:
    """`__all__` of the package, read without importing it; errors are shown by the page of `sharpbeam.errors`."""
    tree = ast.parse((ROOT / "src/sharpbeam/__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return [name for name in names if not name.endswith("Error") and not name.startswith("_")]
    raise ValueError("src/sharpbeam/__init__.py has no __all__.")


def missing_names() -> list[str]:
    """The public names that no reference page shows by hand."""
    pages = (ROOT / "docs/reference").glob("*.md")
    shown = set(re.findall(r"^::: sharpbeam\.(?:[\w.]+\.)?(\w+)$", "\n".join(p.read_text() for p in pages), re.M))
    return [name for name in public_names() if name not in shown]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page."""
    return markdown.replace(MARKER, "\n\n".join(f"::: sharpbeam.{name}" for name in missing_names()))
