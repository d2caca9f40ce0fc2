"""Ray Data on a local cluster, with a worker that is killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("ray.data", reason="the extra ray is not installed")

import ray
from support.ray_workers import DyingBatch

import sharpbeam.ray
from sharpbeam import OptionError, Translator

ROOT = Path(__file__).parents[3]


def test_a_killed_worker_loses_and_doubles_nothing(
    tiny_model: Path, sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "killed"
    paths = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests")))
    monkeypatch.setattr(sharpbeam.ray, "TranslateBatch", DyingBatch)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
        runtime_env={"env_vars": {"PYTHONPATH": paths, "KILLED": str(note), "SHARPBEAM_EXACT": "1"}},
    )
    try:
        rows = [{"id": number, "text": text} for number, text in enumerate(sentences[:200])]
        dataset = ray.data.from_items(rows, override_num_blocks=4)
        results = sharpbeam.ray.translate(dataset, tiny_model, workers=2, batch_size=25, beam_size=2, max_length=8)
        in_order = sorted(results.take_all(), key=lambda row: row["id"])
    finally:
        ray.shutdown()
    assert note.exists()
    expected = Translator(tiny_model).translate(sentences[:200], beam_size=2, max_length=8)
    assert in_order == [row | {"translation": one.text} for row, one in zip(rows, expected, strict=True)]


def test_wrong_options_are_named_before_any_work() -> None:
    with pytest.raises(OptionError, match="beam_size is 0"):
        sharpbeam.ray.translate(None, "de-en", beam_size=0)
