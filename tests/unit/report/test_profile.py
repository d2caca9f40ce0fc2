"""Where the time goes: all of it belongs to a part, calls are counted, and the clocks change no bit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sharpbeam import MachineOptions, OptionError, Translator
from sharpbeam.cli.main import main
from sharpbeam.report import profile as profiling
from sharpbeam.report.profile import ACTIVATIONS, ATTENTION, MATMULS, RANKING, ProfileReport, profile
from sharpbeam.text.sample import sample

_core = pytest.importorskip("sharpbeam._core", reason="the native core is not built")


def report_on(
    folder: Path, texts: list[str] | None, output_layer: str = "exact", batch_tokens: int = 1
) -> ProfileReport:
    options = {"max_length": 12, "output_layer": output_layer, "batch_tokens": batch_tokens}
    return profile(str(folder), texts, sentences=8, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("output_layer", ["exact", "scan"])
def test_all_time_belongs_to_a_part(tiny_model: Path, sentences: list[str], output_layer: str) -> None:
    report = report_on(tiny_model, sentences[:10], output_layer)
    assert sum(part.seconds for part in report.parts) == pytest.approx(report.seconds)
    assert all(part.seconds >= 0 for part in report.parts) and 0 < report.bookkeeping < 1
    parts = {part.name: part for part in report.parts}
    assert report.requests == parts["encoder"].calls == 10
    assert parts["decoder: activations"].calls >= report.steps
    matmuls = parts["output layer: matmuls"]
    assert matmuls.calls == report.steps if output_layer == "exact" else matmuls.calls >= report.steps
    for name in ("encoder", "decoder: matmuls", "decoder: attention", "output layer: matmuls", "output layer: ranking"):
        assert parts[name].seconds > 0


def test_steps_in_python_are_refused(tiny_model: Path, sentences: list[str]) -> None:
    with pytest.raises(OptionError, match="a profile is of steps that the core takes"):
        report_on(Path(f"{tiny_model}+{tiny_model}"), sentences[:5])


def test_batches_take_fewer_steps_for_the_same_rows(tiny_model: Path, sentences: list[str]) -> None:
    alone, together = report_on(tiny_model, sentences[:10]), report_on(tiny_model, sentences[:10], batch_tokens=1000)
    assert together.rows == alone.rows and together.steps < alone.steps / 3


def test_sample_sentences_stand_for_text(tiny_model: Path) -> None:
    assert report_on(tiny_model, None).requests == 8


def test_sample_sentences_are_in_the_language_that_is_named(
    make_transformer: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, requests_of = list[str](), profiling.requests_of
    monkeypatch.setattr(
        profiling, "requests_of", lambda of, texts, *rest: taken.extend(texts) or requests_of(of, texts, *rest)
    )
    model = make_transformer(languages={"deu_Latn": 9, "eng_Latn": 10}, source_tag="source", source_language="eng_Latn")
    profile(str(model), sentences=2, source_language="deu_Latn", max_length=5)
    assert taken == sample("de")[:2]


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
    report = report_on(make_transformer(suppressed_ids=(0, 2)), sentences[:10])
    parts = {part.name: part for part in report.parts}
    assert parts["decoder: the rest"].calls == report.steps == parts["output layer: matmuls"].calls
    assert all(parts[name].seconds > 0 for name in ("decoder: matmuls", "output layer: matmuls", "search and schedule"))


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
    with pytest.raises(OptionError, match="coverage penalty"):
        profile(str(model), sentences[:2], max_length=8, coverage_penalty=0.2)


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
    result = _core.kernel_work()
    assert result["", "gemm"][0] > 0 < result["decoder", "gemm"][0]  # of the encoder, and of the steps
    assert result["decoder", ""][0] == result["output", ""][0] > 0
    assert _core.kernel_work() == {}


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
    assert "output layer: matmuls" in capsys.readouterr().out
    text.write_text("\n\n", encoding="utf-8")
    assert main(arguments) == 1 and f"{text}: the first 50 lines have no sentence" in capsys.readouterr().err


@pytest.mark.parametrize("output_layer", ["exact", "scan"])
def test_the_text_names_what_ran(tiny_model: Path, capsys: pytest.CaptureFixture[str], output_layer: str) -> None:
    options = ["--output-layer", output_layer, "--compute-type", "int8", "--max-length", "9", "--sentences", "3"]
    assert main(["profile", str(tiny_model), *options]) == 0
    text = capsys.readouterr().out
    assert f"instructions: {_core.table_name()}" in text
    assert f"matmuls of the model: int8 (--compute-type); output layer: {output_layer} (--output-layer)" in text
    assert ("in float32 whatever the compute type" in text) == (output_layer == "exact")
    assert re.search(r"[\d.]+ ms a step, [\d.]+ ms a sentence, [\d.]+ s in all; search and schedule is [\d.]+%", text)


def test_every_kernel_has_its_place() -> None:
    named = {*MATMULS, *ATTENTION, *ACTIVATIONS, *RANKING}
    assert set(_core.profiled_kernels()) <= named
