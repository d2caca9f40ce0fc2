"""A share of the fuzz programs of documents."""

from __future__ import annotations

import pytest

pytest.importorskip("sentencex", reason="the extra documents is not installed")
pytest.importorskip("selectolax", reason="selectolax is not installed")

from fuzz import html_documents


def test_random_html_keeps_its_markup_and_gains_no_script() -> None:
    html_documents.check_all(150, seed=7)


def test_random_documents_of_each_format_keep_their_structure() -> None:
    for name in ("polib", "docx", "pptx", "openpyxl", "odf"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    from fuzz import document_formats

    document_formats.check_all(4, seed=7)
