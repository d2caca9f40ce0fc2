"""`sharpbeam score`, `evaluate`, `info` and `train`."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.command import Run

from sharpbeam import Translator
from sharpbeam.convert.readers.tokens import START
from sharpbeam.jobs import chunks
from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.storage.model_folder import save_model
from sharpbeam.text.pieces import PieceVocabulary
from sharpbeam.text.words import SPECIAL_WORDS, WordVocabulary

OPTIONS = {"beam_size": 2, "max_length": 15}


@pytest.fixture
def pair(tmp_path: Path, sentences: list[str], tiny_model: Path) -> tuple[Path, Path]:
    """A file of 40 sentences, and one of their translations."""
    source, target = tmp_path / "source", tmp_path / "target"
    texts = sentences[:40]
    source.write_text("".join(text + "\n" for text in texts))
    answers = Translator(tiny_model).translate(texts, **OPTIONS)
    target.write_text("".join(answer.text + "\n" for answer in answers))
    return source, target


def test_score_is_the_log_probability_of_the_target(
    call: Run, tiny_model: Path, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    monkeypatch.setattr(chunks, "CHUNK", 17)
    files = ("--source", source, "--target", target)
    expected = Translator(tiny_model).score(source.read_text().splitlines(), target.read_text().splitlines())
    text = [float(line) for line in call("score", tiny_model, *files).lines]
    assert text == pytest.approx([answer.log_prob for answer in expected], abs=1e-5)
    records = [json.loads(line) for line in call("score", tiny_model, *files, "--format", "jsonl").lines]
    assert [record["index"] for record in records] == list(range(40))
    assert [tuple(record["token_scores"]) for record in records] == [answer.token_scores for answer in expected]
    assert all(len(record["token_scores"]) == len(record["tokens"]) + 1 for record in records)
    halves = [float(line) for line in call("score", tiny_model, *files, "--length-penalty", 1).lines]
    lengths = [len(answer.token_scores) for answer in expected]
    assert halves == pytest.approx([a.log_prob / n for a, n in zip(expected, lengths, strict=True)], abs=1e-5)


def test_score_reads_tab_separated_text_from_stdin(
    run: Run, call: Run, tiny_model: Path, pair: tuple[Path, Path]
) -> None:
    source, target = (path.read_text().splitlines() for path in pair)
    lines = "".join(f"{left}\t{right}\n" for left, right in zip(source, target, strict=True))
    result = run("score", tiny_model, stdin=lines.encode())
    assert result.lines == call("score", tiny_model, "--source", pair[0], "--target", pair[1]).lines


def test_score_refuses_what_does_not_fit(run: Run, call: Run, tiny_model: Path, pair: tuple[Path, Path]) -> None:
    source, target = pair
    call("score", tiny_model, "--source", source).refused(2, "--source and --target belong together")
    for line, count in ((b"no tab\n", 1), (b"a\tb\tc\n", 3)):
        message = f"standard input, line 1: columns 0 to 1 are needed, separated by tabs; the line has {count}"
        run("score", tiny_model, stdin=line).refused(1, message)
    run("score", tiny_model, stdin=b"\tba\n").refused(1, "the source of line 1 is empty")
    run("score", tiny_model, stdin=b"ba\tb\xff\n").refused(1, "standard input, line 1: byte 5 (0xff)")
    target.write_text("one\n")
    call("score", tiny_model, "--source", source, "--target", target).refused(1, "target has 1 lines", "has more")


def test_score_says_which_text_is_cut(run: Run, tiny_model: Path) -> None:
    result = run("score", tiny_model, "--max-input-length", 4, stdin=b"ba\tba\nba de ki lo mu bu di\tba\n")
    assert (result.status, len(result.lines)) == (0, 2)
    assert "text 'ba de ki lo mu bu di" in result.err


def test_evaluate_gives_bleu_with_signature(call: Run, tiny_model: Path, pair: tuple[Path, Path]) -> None:
    pytest.importorskip("sacrebleu")
    source, target = pair
    flags = ("--max-length", 15, "--beam-size", 2)
    result = call("evaluate", tiny_model, "--source", source, "--reference", target, *flags)
    assert result.status == 0, result.err
    text = result.out.decode()
    assert "beam 2\n  BLEU 100.00  nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in text
    assert "chrF 100.00  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:" in text
    assert "40 sentences in " in text


def test_evaluate_several_beams_from_a_table(call: Run, tiny_model: Path, pair: tuple[Path, Path]) -> None:
    pytest.importorskip("sacrebleu")
    source, target = (path.read_text().splitlines() for path in pair)
    table = pair[0].with_name("both.tsv")
    table.write_text("".join(f"{right}\t{left}\n" for left, right in zip(source, target, strict=True)))
    columns = ("--tsv", table, "--source-column", 1, "--target-column", 0)
    beams = ("--beam-size", 1, "--beam-size", 2)
    result = call("evaluate", tiny_model, *columns, *beams, "--max-length", 15, "--json")
    greedy, beam = (json.loads(line) for line in result.lines)
    assert (greedy["beam_size"], beam["beam_size"]) == (1, 2)
    assert greedy["bleu"] < beam["bleu"] == pytest.approx(100)
    assert greedy["sentences"] == 40
    assert greedy["words"] == sum(len(line.split()) for line in source)
    assert beam["words_per_second"] == pytest.approx(beam["words"] / beam["seconds"], rel=0.02)


def test_evaluate_and_profile_take_the_search_of_translate(
    call: Run, tiny_model: Path, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    pytest.importorskip("sacrebleu")
    source, target = pair
    model = Path(shutil.copytree(tiny_model, tmp_path / "greedy"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"decoding": {"beam_size": 1, "max_length": 15}}))
    target.write_bytes(call("translate", model, source).out)
    evaluated = call("evaluate", model, "--source", source, "--reference", target)
    assert evaluated.lines[0] == "beam 1, the model's own" and "BLEU 100.00" in evaluated.lines[1]
    profiled = json.loads(call("profile", model, source, "--sentences", 3, "--json").out)
    assert profiled["beam_size"] == 1
    wide = json.loads(call("profile", model, source, "--sentences", 3, "--beam-size", 4, "--json").out)
    assert wide["beam_size"] == 4 and wide["rows"] > profiled["rows"]


def test_evaluate_refuses_what_does_not_fit(
    call: Run, tiny_model: Path, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    call("evaluate", tiny_model).refused(2, "either --source FILE and --reference FILE, or --tsv FILE")
    call("evaluate", tiny_model, "--source", source, "--tsv", source).refused(2, "either --source")
    both = ("--source", source, "--reference", target)
    call("evaluate", tiny_model, *both, "--beam-size", 0).refused(2, "beam_size is 0")
    call("evaluate", tiny_model, "--tsv", source).refused(1, "line 1: columns 0 to 1 are needed")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sacrebleu", None)
        call("evaluate", tiny_model, *both).refused(1, "pip install 'sharpbeam[report]'")
    source.write_text("")
    target.write_text("")
    call("evaluate", tiny_model, *both).refused(1, "is empty; there is nothing to evaluate")


def test_info_describes_the_installation(call: Run) -> None:
    facts = json.loads(call("info", "--json").out)
    assert "scalar" in facts["kernel_tables"]
    assert facts["kernel_table_in_use"] in facts["kernel_tables"]
    assert isinstance(facts["bundled_models"], list)
    assert "kernel tables" in call("info").out.decode()


def test_info_describes_a_model(call: Run, tiny_model: Path) -> None:
    facts = json.loads(call("info", tiny_model, "--json").out)
    assert facts["architecture"] == "recurrent"
    assert facts["embedding_dim"] == 16
    assert facts["source_vocabulary"] == "SentencePieceVocabulary, 200 entries"
    assert facts["target_vocabulary"] == "the same"
    assert facts["parameters"] * 4 == pytest.approx((tiny_model / "model.safetensors").stat().st_size, rel=0.2)
    assert facts["fitted"] == []
    text = call("info", tiny_model).out.decode()
    assert text.endswith("\n# tiny\n\nRandom weights, for tests.\n")
    lines = dict(re.split("  +", line, maxsplit=1) for line in text.partition("\n\n")[0].splitlines())
    assert lines["bos id"] == "1 (<s>, which the decoder begins with)" and lines["unk id"] == "0 (<unk>)"
    assert facts["special_words"]["bos_id"] == "<s>" and facts["fc_layers"] == 0 and facts["top"] == "none"
    assert not {"fitted", "fc layers", "top", "top dim", "special words"} & lines.keys()
    assert lines["decoder cell"] == "conditional" and "--json" in lines["hidden"]
    call("info", "de-xx").refused(1, "there is no model 'de-xx'")


def test_info_says_what_an_added_word_is(call: Run, make_transformer: Callable[..., Path]) -> None:
    model = make_transformer(bos_id=199, pad_id=199)
    pieces = [f"w{number}" for number in range(199)]
    listed = PieceVocabulary([*pieces, START], {"unk_id": 0, "bos_id": 199, "eos_id": 2, "pad_id": 199}, (), None)
    (model / "source.pieces.json").write_bytes(listed.listed)
    message = call("info", model).out.decode()
    assert "199 (<start>, which the decoder begins with; added when it was converted, and never in a text)" in message


def test_info_describes_a_language_model(call: Run, tmp_path: Path) -> None:
    words = WordVocabulary([*SPECIAL_WORDS, "ba", "bu"])
    config = LstmLmConfig(len(words), embedding_dim=3, hidden_dim=4, layers=1)
    tensors = {name: np.zeros(shape, np.float32) for name, shape in config.tensor_shapes().items()}
    save_model(tmp_path / "lm", config, tensors, {"vocab.json": words.serialized}, "# small\n")
    facts = json.loads(call("info", tmp_path / "lm", "--json").out)
    assert (facts["architecture"], facts["layers"]) == ("lstm-lm", 1)
    assert facts["source_vocabulary"] == "WordVocabulary, 6 entries"


RECIPE = """
name = "trial"
[data]
train = ["pairs.tsv"]
valid = ["pairs.tsv"]
[vocabulary]
size = 120
[model]
architecture = "recurrent"
embedding_dim = 8
encoder_dim = 8
decoder_dim = 8
attention_dim = 8
hidden_dim = 8
[train]
max_steps = 4
checkpoint_every = 2
validate_every = 4
threads = 1
"""


@pytest.fixture
def recipe(tmp_path: Path, sentences: list[str]) -> Path:
    (tmp_path / "pairs.tsv").write_text("".join(f"{line}\t{line}\n" for line in sentences[:100]))
    (tmp_path / "trial.toml").write_text(RECIPE)
    return tmp_path / "trial.toml"


def test_train_makes_a_model_and_goes_on_where_it_was(call: Run, recipe: Path, tmp_path: Path) -> None:
    for name in ("torch", "sacrebleu"):
        pytest.importorskip(name)
    first = call("train", recipe, "--output", tmp_path / "run", "--max-steps", 2)
    assert first.status == 0, first.err
    assert "Resuming" not in first.err
    second = call("train", recipe, "--output", tmp_path / "run")
    assert second.status == 0, second.err
    assert "Resuming from the checkpoint of step 2 in " in second.err
    (tmp_path / "text").write_text("Bade ki.\n")
    assert len(call("translate", tmp_path / "run" / "best", tmp_path / "text").lines) == 1


def test_train_without_pytorch_says_what_to_install(
    call: Run, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "sharpbeam.train.loop", raising=False)
    result = call("train", recipe, "--output", tmp_path / "run")
    result.refused(1, "sharpbeam train needs the package torch", "pip install 'sharpbeam[train]'")


def test_train_names_what_is_wrong_in_a_recipe(call: Run, recipe: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    call("train", tmp_path / "none.toml", "--output", tmp_path / "run").refused(1, "cannot read the recipe")
    recipe.write_text(RECIPE.replace("max_steps", "max_step"))
    call("train", recipe, "--output", tmp_path / "run").refused(2, "unknown option 'max_step'", "'max_steps'")
    recipe.write_text(RECIPE)
    call("train", recipe, "--output", tmp_path / "run", "--max-steps", 0).refused(2, "train.max_steps is 0")


def test_a_target_that_is_longer_than_the_model_has_positions_for_is_named(
    call: Run, make_transformer: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 2)
    model = make_transformer(positions="learned", max_positions=10)
    for name, last in (("source", "Bade."), ("target", "bade " * 40)):
        (tmp_path / name).write_text(f"Bade.\nBade.\nBade.\n{last}\n")
    result = call("score", model, "--source", tmp_path / "source", "--target", tmp_path / "target")
    assert (result.status, len(result.lines)) == (1, 2) and "Traceback" not in result.err
    assert "target 1 has " in result.err and "the model has positions for 10. Target 0 is line 3." in result.err
