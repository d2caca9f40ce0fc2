from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.registry import Registry, serving

import sharpbeam


def copied(files: Path, folder: Path) -> None:
    """Stand for conversion: a folder that names its files."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    for path in files.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry on the loopback, and an empty cache; models are their files."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HF_TOKEN", "SHARPBEAM_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SHARPBEAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sharpbeam, "_make_model", copied)
    monkeypatch.setattr("sharpbeam.hub.download.WAITS", (0.0, 0.0))
    with serving(Registry()) as registry:
        monkeypatch.setenv("SHARPBEAM_MIRROR", registry.address)
        yield registry
