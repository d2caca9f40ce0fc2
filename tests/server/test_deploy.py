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
    read = re.findall(r'^readme = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert read and {*read, "LICENSE", "NOTICE"} <= copied
    assert "models" not in copied  # they are in a volume


def test_models_are_kept_where_the_cache_is() -> None:
    image = (DEPLOY / "Dockerfile").read_text()
    (cache,) = re.findall(r"SHARPBEAM_CACHE=(\S+)", image)
    assert re.search(rf"^VOLUME {cache}$", image, re.M) and "HEALTHCHECK" in image
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    (service,) = compose["services"].values()
    assert [volume.split(":")[1] for volume in service["volumes"]] == [cache] and service["read_only"]
    assert service["build"]["platforms"] == ["linux/amd64", "linux/arm64"]
    unit = (DEPLOY / "sharpbeam.service").read_text()
    (state,) = re.findall(r"^StateDirectory=(\S+)$", unit, re.M)
    assert f"SHARPBEAM_CACHE=/var/lib/{state}\n" in unit


def test_memory_is_bounded() -> None:
    (service,) = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    assert service["mem_limit"]
    assert re.search(r"^MemoryMax=\d+G$", (DEPLOY / "sharpbeam.service").read_text(), re.M)
