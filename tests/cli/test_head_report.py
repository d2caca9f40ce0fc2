"""The verb `report`, of a Hugging Face model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import Run

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

WORDS = [f"w{i}" for i in range(300)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A causal language model of 300 words with random weights, whose output matrix is most of it."""
    torch.manual_seed(3)
    config = transformers.Qwen3Config(
        vocab_size=300, hidden_size=32, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, bos_token_id=1, eos_token_id=2, pad_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    transformers.Qwen3ForCausalLM(config).save_pretrained(tmp_path / "lm")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, "w0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path / "lm")
    return tmp_path / "lm"


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("".join(" ".join(WORDS[i : i + 40]) + "\n" for i in range(0, 260, 20)))
    return path


def test_the_report_says_what_the_head_takes_and_what_others_would_gain(call: Run, folder: Path, words: Path) -> None:
    result = call("report", folder, "--text", words, "--vectors", 450, "--json")
    assert result.status == 0, result.err
    report = json.loads(result.out)
    assert (report["tokens"], report["width"], report["held_out"]) == (300, 32, 150)
    assert 0 < report["share"] == report["head_ms"] / report["step_ms"] <= 1
    layers = {one["name"]: one for one in report["layers"]}
    assert list(layers) == ["scan", "preview"]
    assert all(layers[name]["best"] == layers[name]["top"] == 1.0 for name in ("scan", "preview"))
    for one in layers.values():
        gained = report["step_ms"] / (report["step_ms"] - report["head_ms"] + one["ms"])
        assert one["gain"] == pytest.approx(gained)
    result = call("report", folder, "--text", words, "--vectors", 450)
    assert b"300 tokens, width 32, float32" in result.out
    assert [line.split()[0] for line in result.out.decode().splitlines()[2:]] == list(layers)


def test_what_cannot_be_reported_is_refused(call: Run, folder: Path, words: Path, tmp_path: Path) -> None:
    call("report", folder, "--text", tmp_path / "none").refused(1, "cannot read")
    call("report", tmp_path / "none", "--text", words).refused(1, "there is no model")
    call("report", folder, "--text", words, "--vectors", 3).refused(2, "vectors is 3; it must be 150 or more")
    short = tmp_path / "short.txt"
    short.write_text("w1 w2\n")
    call("report", folder, "--text", short).refused(1, "text gives 2 hidden vectors")
