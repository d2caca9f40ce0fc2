"""The verb `fit screen`, and translating with what it made."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from support.command import Run

from sharpbeam.output_layers.registry import find_artifact
from sharpbeam.storage.artifacts import read_facts


def test_a_screen_from_text_to_translation(call: Run, tiny_model: Path, text: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    flags = ("--method", "kmeans", "--clusters", 6, "--tolerance", "inf", "--fidelity", 0.5, "--top-k", 2)
    flags += ("--beam-size", 1)
    result = call("fit", "screen", model, "--text", text, *flags)
    assert result.status == 0, result.err
    assert "6 clusters" in result.out.decode()
    vectors = tmp_path / "model.vectors"
    facts = read_facts(model, find_artifact("screen"))
    assert facts["text"] == [
        {"name": text.name, "bytes": text.stat().st_size, "sha256": hashlib.sha256(text.read_bytes()).hexdigest()}
    ]
    assert facts["fidelity_reached"] and 2 <= len(facts["curve"]) <= 5 and facts["options"]["top_k"] == 2
    first = (model / "screen.safetensors").read_bytes()
    result = call("fit", "screen", model, "--text", text, *flags, "--work", tmp_path / "kept")
    assert result.status == 0 and (tmp_path / "kept").is_dir()
    assert list((tmp_path / "kept").glob("part-*.npy"))
    assert (model / "screen.safetensors").read_bytes() == first
    result = call("translate", model, text, "--output-layer", "screen", "--stats")
    assert result.status == 0
    assert 0 <= json.loads(result.err)["fallback_share"] < 1
    sound = (model / "screen.json").read_bytes()
    strict = (*flags[:6], "--fidelity", 0.9999, "--top-k", 2, "--beam-size", 1)
    refused = call("fit", "screen", model, "--text", text, *strict)
    assert refused.status == 1 and "no setting reaches a fidelity of 0.9999 with confidence" in refused.err
    assert f"The hidden vectors are in {vectors}; remove it before you give other text." in refused.err
    assert vectors.is_dir()  # for a fit with other options
    assert (model / "screen.json").read_bytes() == sound
    kept = call("fit", "screen", model, "--text", text, *strict, "--keep-best")
    assert kept.status == 0 and "this is the best one" in kept.out.decode() and not vectors.exists()
    assert not read_facts(model, find_artifact("screen"))["fidelity_reached"]
    call("translate", tiny_model, text, "--output-layer", "screen").refused(1, "has no screen")
    call("translate", tiny_model, text, "--output-layer", "best").refused(2, "output_layer is 'best'")
    call("fit", "screen", model, "--text", tmp_path / "none").refused(1, "cannot read")
    call("fit", "screen", model, "--text", text, "--top-k", 100_000).refused(2, "top_k is 100000; it must be at most")
    (tmp_path / "short").write_text("Bu.\n\nBade ki.\nBu.\n")
    short = ("--text", tmp_path / "short", "--work", tmp_path / "few")
    call("fit", "screen", model, *short).refused(1, "the text is too short to fit a screen")


def test_texts_and_answers_keep_to_the_positions_of_the_model(
    call: Run, make_transformer: Callable[..., Path], text: Path
) -> None:
    model = make_transformer(positions="learned", max_positions=9)
    flags = ("--method", "kmeans", "--clusters", 3, "--tolerance", "inf", "--fidelity", 0.5, "--top-k", 2)
    assert max(len(line.split()) for line in text.read_text().splitlines()) > 9
    assert call("fit", "screen", model, "--text", text, *flags).status == 0


def test_misuse_costs_nothing_and_leaves_nothing(call: Run, tiny_model: Path, text: Path, tmp_path: Path) -> None:
    model, empty = tmp_path / "model", tmp_path / "nothing"
    shutil.copytree(tiny_model, model)
    empty.write_text("\n \n")
    before = sorted(path.name for path in tmp_path.iterdir())
    call("fit", "screen", model, "--text", "").refused(2, "text is ''; it must be the name of a file")
    call("fit", "screen", model, "--text", "-").refused(2, "text is '-'; it must be the name of a file")
    call("fit", "screen", model, "--text", empty).refused(1, f"{empty} has no sentence; give a file with one sentence")
    call("fit", "screen", model, "--text", text, "--clusters", "x").refused(
        2, "clusters is 'x'; it must be a whole number"
    )
    fit = ("fit", "screen", model, "--text", text, "--work")
    call(*fit, model).refused(2, f"work is '{model}'; it must be another folder than the model's")
    for work in (text, text / "deep"):
        call(*fit, work).refused(1, f"cannot write hidden vectors to {work}: {text} is no folder", "--work")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert not list(model.glob("screen*"))


def test_vectors_are_known_by_the_text_itself(call: Run, tiny_model: Path, text: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    flags = ("--method", "kmeans", "--clusters", 4, "--fidelity", 0, "--beam-size", 1)
    flags += ("--work", tmp_path / "work")
    assert call("fit", "screen", model, "--text", text, *flags).status == 0
    renamed = Path(shutil.copy(text, tmp_path / "another"))
    assert call("fit", "screen", model, "--text", renamed, *flags).status == 0
    raw = bytearray(renamed.read_bytes())
    raw[0] ^= 1  # and of the same name and size
    renamed.write_bytes(raw)
    call("fit", "screen", model, "--text", renamed, *flags).refused(1, "hidden vectors of another model, other text")
    flags = (*flags[:3], 100_000, *flags[4:])
    refused = call("fit", "screen", model, "--text", text, *flags)
    assert refused.status == 2 and "clusters is 100000; it must be at most the vectors" in refused.err
