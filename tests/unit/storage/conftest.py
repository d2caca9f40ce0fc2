"""A small model folder for the tests of storage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.small_folder import TINY

from sharpbeam.storage.model_folder import save_model


@pytest.fixture
def folder(tmp_path: Path, make_tensors: Callable[..., Any]) -> Path:
    """A model of random weights, with a vocabulary and a card."""
    save_model(tmp_path / "model", TINY, make_tensors(TINY), {"source.spm": b"pieces"}, "# card\n")
    return tmp_path / "model"
