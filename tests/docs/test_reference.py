"""The reference covers the public names, and the pages are all in the navigation."""

from __future__ import annotations

import re
from pathlib import Path

import sharpbeam

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_public_name_is_in_the_reference():
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: sharpbeam\.(\w+)$", text, re.M))
    documented_elsewhere = {name for name in sharpbeam.__all__ if name.endswith("Error")}  # ::: sharpbeam.errors
    options = {name for name in sharpbeam.__all__ if name.endswith("Options") and f".{name}\n" in text}
    constants = {name for name in sharpbeam.__all__ if name.startswith("_")}
    assert set(sharpbeam.__all__) - shown - documented_elsewhere - options - constants == set()


def test_every_page_is_in_the_navigation():
    named = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M))
    assert named == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_the_site_needs_nothing_from_elsewhere():
    """No font, script or picture of another host; the theme's own fonts are off."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in text
    assert "http" not in text
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    assert not re.search(r"!\[[^]]*\]\(http|<(?:img|script|link|iframe)\b", pages)
