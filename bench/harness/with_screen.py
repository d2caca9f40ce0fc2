"""A model with a screen that a benchmark has made, and how its beam search compares with the exact layer's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sharpbeam import Translator
from sharpbeam.output_layers.screen import Screen, Screens
from sharpbeam.report.quality import quality
from sharpbeam.storage.artifacts import FolderArtifacts
from sharpbeam.text.lines import Pair
from sharpbeam.types import Floats


@contextmanager
def with_screen(folder: Path, screen: Screen, weight: Floats, bias: Floats) -> Iterator[Translator]:
    """The model in `folder` with `screen` in place of its own; its other files are links."""
    with tempfile.TemporaryDirectory() as work:
        for path in folder.resolve().iterdir():
            if not path.name.startswith("screen."):
                (Path(work) / path.name).symlink_to(path)
        artifacts = FolderArtifacts(Path(work), weight, bias)
        artifacts.save("screen", Screens("all", {"": screen}), {"method": "benchmark"})
        yield Translator(work)


def layer_options(name: str) -> dict[str, Any]:
    """The options of an output layer by its name in results: "screen-alone" is a screen with the set of a row alone."""
    layer, dash, sets = name.partition("-")
    return {"output_layer": layer, "screen_sets": sets} if dash else {"output_layer": layer}


def texts(translator: Translator, pairs: Sequence[Pair], output_layer: str, beam_size: int, **more: Any) -> list[str]:
    """Translations of the sources."""
    options = {"raw": True, "beam_size": beam_size, **layer_options(output_layer), **more}
    return [answer.text for answer in translator.translate([source for source, _ in pairs], **options)]


def against(exact: Sequence[str], texts: Sequence[str], pairs: Sequence[Pair]) -> dict[str, Any]:
    """BLEU of the exact layer's texts and of those `found`, and the share that is the same."""
    references = [reference for _, reference in pairs]
    bleu = [quality(list(one), references).bleu for one in (exact, texts)]
    same = sum(a == b for a, b in zip(exact, texts, strict=True)) / len(pairs)
    return {
        "exact": round(bleu[0], 3),
        "screen": round(bleu[1], 3),
        "difference": round(bleu[1] - bleu[0], 3),
        "identical": round(same, 5),
    }
