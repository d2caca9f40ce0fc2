"""The clusters of a Gemma 4 drafter: the tokens of transformers' own layer, back and forth, and hostile files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from sharpbeam import Head, ModelError, convert_drafter, export_drafter
from sharpbeam.convert.drafter import CENTROIDS, ORDERING, WEIGHTS
from sharpbeam.output_layers.fitted import Screen
from sharpbeam.storage.screens import save_screen

VOCAB, WIDTH, CLUSTERS = 120, 16, 8
OUTPUT = "model.embed_tokens.weight"


def drafter(folder: Path, **changes: Any) -> Path:
    """A folder with a drafter's tensors, some of them changed or left out (None)."""
    draw = np.random.default_rng(4)
    tensors = {
        CENTROIDS: draw.normal(size=(CLUSTERS, WIDTH)).astype(np.float32),
        ORDERING: draw.permutation(VOCAB).astype(np.int64),
        OUTPUT: draw.normal(size=(VOCAB, WIDTH)).astype(np.float32),
    } | changes
    folder.mkdir(exist_ok=True)
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, folder / WEIGHTS)
    return folder


def test_the_best_tokens_are_those_of_transformers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    module = pytest.importorskip("transformers.models.gemma4_assistant.modeling_gemma4_assistant")
    text = SimpleNamespace(hidden_size=WIDTH, vocab_size=VOCAB)
    config = SimpleNamespace(
        get_text_config=lambda: text, centroid_intermediate_top_k=1, num_centroids=CLUSTERS, vocab_size=VOCAB
    )
    theirs, tensors = module.Gemma4AssistantMaskedEmbedder(config), load_file(drafter(tmp_path / "drafter") / WEIGHTS)
    theirs.load_state_dict(
        {name: torch.tensor(tensors[f"masked_embedding.{name}"]) for name in ("centroids.weight", "token_ordering")}
    )
    convert_drafter(tmp_path / "drafter", tmp_path / "head")
    hidden = np.random.default_rng(5).normal(size=(50, WIDTH)).astype(np.float32)
    with torch.no_grad():
        logits = theirs(torch.from_numpy(hidden)[None], torch.from_numpy(tensors[OUTPUT]))[0]
    wanted = logits.topk(5)
    found = Head.load(tmp_path / "head", "screen-alone").topk(hidden, 5)
    nearest = np.sort(hidden @ tensors[CENTROIDS].T, axis=1)
    clear = nearest[:, -1] - nearest[:, -2] > 0.1  # a screen compares clusters in int8
    assert clear.sum() > 40
    assert found.token[clear].tolist() == wanted.indices.numpy()[clear].tolist()
    assert not np.array_equal(found.token[:, 0], Head.load(tmp_path / "head", "exact").best(hidden))
    assert np.abs(np.diff(found.log_prob) - np.diff(wanted.values.numpy()))[clear].max() < 1e-5


def test_what_is_written_is_what_was_read(tmp_path: Path) -> None:
    before = load_file(drafter(tmp_path / "drafter") / WEIGHTS)
    convert_drafter(tmp_path / "drafter", tmp_path / "head")
    export_drafter(tmp_path / "head", tmp_path / "tensors.safetensors")
    after = load_file(tmp_path / "tensors.safetensors")
    assert after.keys() == {CENTROIDS, ORDERING}
    assert np.array_equal(after[CENTROIDS], before[CENTROIDS])
    sets = (np.sort(one[ORDERING].reshape(CLUSTERS, -1), axis=1) for one in (before, after))
    assert np.array_equal(*sets)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({ORDERING: None}, "token_ordering' is missing"),
        ({CENTROIDS: None}, "centroids.weight' is missing"),
        ({OUTPUT: None}, "lm_head.weight' is missing"),
        ({ORDERING: np.zeros(VOCAB, np.int64)}, "each of the 120 tokens once"),
        ({ORDERING: np.arange(1, VOCAB + 1)}, "each of the 120 tokens once"),
        ({ORDERING: np.arange(VOCAB - 1)}, "each of the 120 tokens once"),
        ({ORDERING: np.arange(VOCAB, dtype=np.float32)}, "token_ordering' is F32"),
        ({CENTROIDS: np.ones((7, WIDTH), np.float32)}, "has 7 rows; they must divide the 120 tokens"),
        ({CENTROIDS: np.ones((8, 3), np.float32)}, "must have the output's width, 16"),
        ({CENTROIDS: np.ones((0, WIDTH), np.float32)}, "both 1 or more"),
        ({CENTROIDS: np.full((8, WIDTH), np.nan, np.float32)}, "infinite, NaN"),
        ({OUTPUT: np.ones(VOCAB, np.float32)}, "must be .tokens, width."),
    ],
)
def test_hostile_tensors_are_refused_by_name(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        convert_drafter(drafter(tmp_path / "drafter", **changes), tmp_path / "head")
    assert not (tmp_path / "head").exists()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (drafter(tmp_path / "drafter") / WEIGHTS).write_bytes(b"\x09" * 40)
    with pytest.raises(ModelError, match="cannot be read as safetensors"):
        convert_drafter(tmp_path / "drafter", tmp_path / "head")
    with pytest.raises(ModelError, match="cannot be read as safetensors"):
        convert_drafter(tmp_path / "none", tmp_path / "head")


@pytest.mark.parametrize(
    ("bias", "start", "token", "said"),
    [
        ([0.0, 1.0], [0, 60, 120], range(120), "have a bias"),
        ([0.0, 0.0], [0, 50, 120], range(120), "50 to 70 tokens"),
        ([0.0, 0.0], [0, 60, 120], [*range(60), *range(60)], "in no set or in several"),
    ],
)
def test_a_screen_that_the_layout_cannot_say_is_refused(
    tmp_path: Path, bias: list[float], start: list[int], token: Any, said: str
) -> None:
    convert_drafter(drafter(tmp_path / "drafter"), tmp_path / "head")
    weight = load_file(tmp_path / "head/head.safetensors")["weight"]
    sets = np.array(start, np.int32), np.array(list(token), np.int32)
    screen = Screen(np.ones((2, WIDTH), np.float32), np.array(bias, np.float32), *sets)
    save_screen(tmp_path / "head", screen, weight, np.zeros(VOCAB, np.float32), {})
    with pytest.raises(ModelError, match=said):
        export_drafter(tmp_path / "head", tmp_path / "tensors.safetensors")
    assert not (tmp_path / "tensors.safetensors").exists()
