"""The files of deploy/ fit the project: what is copied into an image can be built, and memory is bounded."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def test_the_image_has_all_that_its_build_reads() -> None:
    stage = (DEPLOY / "Dockerfile").read_text().split("\nFROM ")[1]
    copied = {name for line in re.findall(r"^COPY (.+) \S+$", stage, re.M) for name in line.split()}
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{name}" for name in copied} <= set(ignored)
    assert all((ROOT / name).exists() for name in copied)
    read = re.findall(r"install\(DIRECTORY (\w+)/", (ROOT / "CMakeLists.txt").read_text())
    read += re.findall(r'^readme = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert read and set(read) <= copied


def test_memory_is_bounded() -> None:
    (service,) = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    assert service["mem_limit"]
    assert re.search(r"^MemoryMax=\d+G$", (DEPLOY / "sharpbeam.service").read_text(), re.M)
