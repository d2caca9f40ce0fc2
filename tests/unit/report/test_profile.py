"""Where the time goes: all of it belongs to a part, the counts are those of the work, and the clocks change no bit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sharpbeam import InputError, MachineOptions, OptionError, Translator
from sharpbeam.cli.main import main
from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.lstm_lm.tensors import tensor_shapes
from sharpbeam.options.decode import DecodeOptions, OutputLayerOptions, ScheduleOptions, SearchOptions
from sharpbeam.report import profile as kinds
from sharpbeam.report.profile import Ceilings, Profile, ceilings, load_profiled, profile_texts
from sharpbeam.storage.model_folder import save_model
from sharpbeam.text.words import SPECIAL_WORDS, WordVocabulary

_core = pytest.importorskip("sharpbeam._core", reason="the native core is not built")


def look(folder: Path, texts: list[str] | None, output_layer: str = "exact", batch_tokens: int = 1) -> Profile:
    search, schedule = SearchOptions(max_length=12), ScheduleOptions(batch_tokens=batch_tokens)
    choices = DecodeOptions(search, schedule=schedule, output=OutputLayerOptions(output_layer=output_layer))  # type: ignore
    return profile_texts(load_profiled([folder], MachineOptions()), texts, 8, choices)


@pytest.mark.parametrize("output_layer", ["exact", "scan"])
def test_all_time_is_somebodys_and_products_are_counted(
    tiny_model: Path, sentences: list[str], output_layer: str
) -> None:
    found = look(tiny_model, sentences[:10], output_layer)
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.seconds)
    assert all(part.seconds >= 0 for part in found.parts) and 0 < found.bookkeeping < 1
    parts = {part.name: part for part in found.parts}
    assert found.requests == 10 and 20 <= parts["search"].calls <= found.steps + 10  # steps, one or more in a call
    assert parts["decoder: activations"].calls >= found.steps
    output = parts["output layer: products"]
    assert output.operations >= found.rows * 200 * 16
    if output_layer == "exact":  # 200 words in panels of 64, 16 wide, and every row's vectors and logits
        assert output.calls == found.steps and output.operations == found.rows * 200 * 16
        assert output.bytes == 4 * (found.steps * 256 * 16 + found.rows * (16 + 200))
    assert output.products == {"exact": {"float32": output.operations}}.get(output_layer, output.products)
    assert ("int8" in output.products) == (output_layer == "scan")
    limits = Ceilings(read_gb_s=1.0, read_mib=1.0, gmac_s={"float32": 2.0, "int8": 4.0, "int16": 4.0})
    computing = sum(macs / (4e9 if kind == "int8" else 2e9) for kind, macs in output.products.items())
    assert output.of_ceiling(limits) * output.seconds == pytest.approx(max(output.bytes / 1e9, computing))
    assert parts["decoder: products"].operations > 0 < parts["decoder: attention"].operations


def test_batches_take_fewer_steps_for_the_same_rows(tiny_model: Path, sentences: list[str]) -> None:
    alone, together = look(tiny_model, sentences[:10]), look(tiny_model, sentences[:10], batch_tokens=1000)
    assert together.rows == alone.rows and together.steps < alone.steps / 3


def test_random_words_stand_for_text(tiny_model: Path) -> None:
    assert look(tiny_model, None).requests == 8


def test_multilingual_models_and_words_that_are_never_produced(
    make_transformer: Callable[..., Path], sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without eos every search continues to max_length, in `translate` as in its profile."""
    model = make_transformer(languages={"aa": 9, "bb": 10}, source_tag="source", target_tag=True, suppressed_ids=(2,))
    arguments = ["profile", str(model), "--sentences", "3", "--max-length", "9", "--batch-tokens", "1", "--json"]
    assert main(arguments) == 2 and "source_language is missing" in capsys.readouterr().err
    assert main([*arguments, "--source-language", "aa", "--target-language", "bb"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 27


def test_steps_with_suppressed_tokens_are_taken_in_the_core(
    make_transformer: Callable[..., Path], sentences: list[str]
) -> None:
    found = look(make_transformer(suppressed_ids=(0, 2)), sentences[:10])
    parts = {part.name: part for part in found.parts}
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.seconds)
    assert parts["search"].calls < found.steps == parts["output layer: products"].calls  # several turns in a call
    assert all(parts[name].seconds > 0 for name in ("decoder: products", "output layer: products", "search"))


def test_what_cannot_be_decoded_is_refused(
    make_transformer: Callable[..., Path], sentences: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, text = make_transformer(positions="learned", max_positions=8), tmp_path / "text"
    text.write_text("\u200b\n", encoding="utf-8")
    too_long = ["profile", str(model), "--max-length", "9"]
    assert main(too_long) == 2 and "max_length is 9; it must be at most 8" in capsys.readouterr().err
    assert main(["profile", str(model), "--sentences", "2", "--json"]) == 0
    capsys.readouterr()
    assert main(["profile", str(model), str(text), "--max-length", "8"]) == 1
    assert "there is nothing to decode" in capsys.readouterr().err
    penalty = SearchOptions(max_length=8, coverage_penalty=0.2)
    with pytest.raises(OptionError, match="coverage penalty"):
        profile_texts(load_profiled([model], MachineOptions()), sentences[:2], 2, DecodeOptions(penalty))


def test_a_vocabulary_without_words_asks_for_a_text(tmp_path: Path) -> None:
    config = LstmLmConfig(vocab_size=4, embedding_dim=4, layers=1, hidden_dim=4)
    tensors = {name: np.zeros(shape, np.float32) for name, shape in tensor_shapes(config).items()}
    save_model(tmp_path / "lm", config, tensors, {"vocab.json": WordVocabulary(SPECIAL_WORDS).serialized}, "# lm\n")
    with pytest.raises(InputError, match="the vocabulary has 4 entries and no word among them; give a text"):
        profile_texts(load_profiled([tmp_path / "lm"], MachineOptions()), None, 2, DecodeOptions())


def test_clocks_change_no_bit(tiny_model: Path, sentences: list[str]) -> None:
    plain, profiled = Translator(tiny_model), Translator(tiny_model, machine=MachineOptions(isa="profiled"))
    for output_layer in ("exact", "scan"):
        options = {"output_layer": output_layer, "num_hypotheses": 3}
        assert profiled.translate(sentences[:20], **options) == plain.translate(sentences[:20], **options)


def test_no_other_model_is_clocked(tiny_model: Path, sentences: list[str]) -> None:
    profiled = Translator(tiny_model, machine=MachineOptions(isa="profiled", threads=1))
    _core.kernel_work()
    Translator(tiny_model, machine=MachineOptions(threads=1)).translate(sentences[:3])
    assert _core.kernel_work() == {}
    profiled.translate(sentences[:3])
    found = _core.kernel_work()
    assert found["", "gemm"][0] > 0 < found["decoder", "gemm"][0]  # of the encoder, and of the steps
    assert found["decoder", ""][0] == found["output", ""][0] > 0
    assert _core.kernel_work() == {}


def test_ceilings_are_rates() -> None:
    found = ceilings(1 << 20, seconds=0.002)
    assert found.read_gb_s > 0.1 and found.read_mib == 1 and all(rate > 0.01 for rate in found.gmac_s.values())


def test_the_verb(tiny_model: Path, sentences: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text"
    text.write_text("\n".join(sentences[:4]), encoding="utf-8")
    arguments = ["profile", str(tiny_model), str(text), "--max-length", "9"]
    assert main([*arguments, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert sum(record["shares"].values()) == pytest.approx(1, abs=1e-3) and record["requests"] == 4
    assert record["ms_per_step"] * record["steps"] == pytest.approx(1e3 * record["seconds"], rel=1e-3)
    assert record["ms_per_sentence"] * 4 == pytest.approx(1e3 * record["seconds"], rel=1e-3)
    assert (record["output_layer"], record["compute_type"]) == ("exact", "float32")
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "output layer: products" in said and "bookkeeping" in said and "GB/s" in said
    text.write_text("\n\n", encoding="utf-8")
    assert main(arguments) == 1 and f"{text}: the first 50 lines have no sentence" in capsys.readouterr().err


@pytest.mark.parametrize(("output_layer", "large"), [("exact", 0.0), ("exact", 1.0), ("scan", 0.0)])
def test_what_ran_and_what_to_try_is_said(
    tiny_model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    output_layer: str,
    large: float,
) -> None:
    monkeypatch.setattr("sharpbeam.report.profile_report.LARGE_SHARE", large)
    options = ["--output-layer", output_layer, "--compute-type", "int8", "--max-length", "9", "--sentences", "3"]
    assert main(["profile", str(tiny_model), *options]) == 0
    said = " ".join(capsys.readouterr().out.split())  # lines break where the terminal ends
    assert f"instructions: {_core.table_name()}" in said
    assert f"matmuls of the model: int8 (--compute-type); output layer: {output_layer} (--output-layer)" in said
    assert ("in float32 whatever the compute type" in said) == (output_layer == "exact")
    assert ("try --output-layer scan: the output layer takes" in said) == (output_layer == "exact" and not large)
    assert re.search(r"in all 100\.0% [\d,.]+ [\d.]+ ms a step, [\d.]+ ms a sentence, [\d.]+ s in all", said)
    assert "of ceiling: how close matmuls come to" in said


def test_every_kernel_has_its_place(tiny_model: Path, sentences: list[str]) -> None:
    named = {*kinds.PRODUCTS, *kinds.ROUNDING, *kinds.ATTENTION, *kinds.ELEMENTWISE, *kinds.RANKING}
    assert set(_core.profiled_kernels()) <= named
