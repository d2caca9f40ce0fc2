"""Artifacts written to and read from the folder of a model, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharpbeam.output_layers.screen import Screen, Screens
from sharpbeam.storage.artifacts import FolderArtifacts
from sharpbeam.types import Floats


def save_screen(folder: Path, screen: Screen, weight: Floats, bias: Floats, facts: Mapping[str, Any]) -> None:
    """Write one screen for all requests."""
    FolderArtifacts(folder, weight, bias).save("screen", Screens("all", {"": screen}), facts)


def read_screen(folder: Path, weight: Floats, bias: Floats) -> Screen:
    """The one screen for all requests."""
    screen: Screen = read_screens(folder, weight, bias).by_scope[""]
    return screen


def save_screens(
    folder: Path, screens: Screens, weight: Floats, bias: Floats, facts: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write the screens of several scopes, each with its facts."""
    FolderArtifacts(folder, weight, bias).save("screen", screens, {"screens": facts})


def read_screens(folder: Path, weight: Floats, bias: Floats) -> Screens:
    """All screens of a model."""
    screens: Screens = FolderArtifacts(folder, weight, bias).read("screen")
    return screens
