"""A screen that an older Sharpbeam wrote: format 2 had tails of one piece, and no test of normalisers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from sharpbeam.output_layers.fitted import FallbackTest, ResidualMass, Screen
from sharpbeam.storage.screens import read_screen, save_screen


def test_format_2_is_read(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    weight, bias, clusters = (draw.normal(0, 1, shape).astype(np.float32) for shape in ((9, 4), 9, (2, 4)))
    tail = ResidualMass(clusters[:, None] + 1, clusters[:, :1] + 2)
    test = FallbackTest(clusters - 1, 3, 2.0, 0.5, 0.25, -1.0)
    sets = np.array([0, 2, 5], np.int32), np.array([1, 2, 0, 4, 8], np.int32)
    screen = Screen(clusters, clusters[:, 0].copy(), *sets, tail, test)
    save_screen(tmp_path, screen, weight, bias, {})
    path, record = tmp_path / "screen.safetensors", tmp_path / "screen.json"
    tensors, facts = load_file(path), json.loads(record.read_text())
    save_file(tensors | {name: tensors[name][:, 0].copy() for name in ("tail_weight", "tail_bias")}, path)
    del facts["doubt"]["loosest"]  # vocabulary: stored
    facts |= {"format_version": 2, "screen_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    record.write_text(json.dumps(facts))
    found = read_screen(tmp_path, weight, bias)
    assert found.residual is not None and found.fallback is not None
    assert found.residual.weight.tobytes() == tail.weight.tobytes()
    assert found.residual.bias.tobytes() == tail.bias.tobytes()
    assert replace(found.fallback, center=test.center) == test
