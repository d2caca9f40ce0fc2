"""The reference covers the public names, and the pages are all in the navigation."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import sharpbeam

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_every_public_name_gets_into_the_reference():
    spec = importlib.util.spec_from_file_location("docs_hook", ROOT / ".ci/docs_hook.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    assert set(hook.public_names()) == {name for name in sharpbeam.__all__ if name[0] != "_" and name[-5:] != "Error"}
    page = hook.on_page_markdown((DOCS / "reference/library.md").read_text(encoding="utf-8"))
    assert set(hook.missing_names()) <= set(re.findall(r"^::: sharpbeam\.(\w+)$", page, re.M))


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
