"""Where the time goes: all of it is somebody's, the counts are those of the work, and the clocks change no bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quickbeam import MachineOptions, Translator
from quickbeam.cli.main import main
from quickbeam.evaluate import profile as kinds
from quickbeam.evaluate.profile import Ceilings, Profile, ceilings, load_profiled, profile_texts
from quickbeam.options.decode import DecodeOptions, ProjectionOptions, ScheduleOptions, SearchOptions

_core = pytest.importorskip("quickbeam._core", reason="the native core is not built")


def look(folder: Path, texts: list[str] | None, projection: str = "exact", batch_tokens: int = 1) -> Profile:
    search, schedule = SearchOptions(max_length=12), ScheduleOptions(batch_tokens=batch_tokens)
    choices = DecodeOptions(search, schedule=schedule, output=ProjectionOptions(projection=projection))  # type: ignore
    return profile_texts(load_profiled([folder], MachineOptions()), texts, 8, choices)


@pytest.mark.parametrize("projection", ["exact", "scan"])
def test_all_time_is_somebodys_and_products_are_counted(
    tiny_model: Path, sentences: list[str], projection: str
) -> None:
    found = look(tiny_model, sentences[:10], projection)
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.seconds)
    assert all(part.seconds >= 0 for part in found.parts) and 0 < found.bookkeeping < 1
    parts = {part.name: part for part in found.parts}
    assert found.requests == 10 and parts["search"].calls == found.steps + 10  # its turns, and the requests that enter
    output = parts["output layer: products"]
    assert output.operations >= found.rows * 200 * 16
    if projection == "exact":  # 200 words in panels of 64, 16 wide, and every row's vectors and logits
        assert output.calls == found.steps and output.operations == found.rows * 200 * 16
        assert output.bytes == 4 * (found.steps * 256 * 16 + found.rows * (16 + 200))
    assert output.products == {"exact": {"float32": output.operations}}.get(projection, output.products)
    assert ("int8" in output.products) == (projection == "scan")
    limits = Ceilings(read_gb_s=1.0, read_mib=1.0, gmac_s={"float32": 2.0, "int8": 4.0, "int16": 4.0})
    computing = sum(macs / (4e9 if kind == "int8" else 2e9) for kind, macs in output.products.items())
    assert output.of_ceiling(limits) * output.seconds == pytest.approx(max(output.bytes / 1e9, computing))
    assert parts["decoder: products"].operations > 0 < parts["decoder: attention"].operations


def test_batches_take_fewer_steps_for_the_same_rows(tiny_model: Path, sentences: list[str]) -> None:
    alone, together = look(tiny_model, sentences[:10]), look(tiny_model, sentences[:10], batch_tokens=1000)
    assert together.rows == alone.rows and together.steps < alone.steps / 3


def test_random_words_stand_for_text(tiny_model: Path) -> None:
    assert look(tiny_model, None).requests == 8


def test_clocks_change_no_bit(tiny_model: Path, sentences: list[str]) -> None:
    plain, profiled = Translator(tiny_model), Translator(tiny_model, machine=MachineOptions(isa="profiled"))
    for projection in ("exact", "scan"):
        options = {"projection": projection, "num_hypotheses": 3}
        assert profiled.translate(sentences[:20], **options) == plain.translate(sentences[:20], **options)


def test_nobody_else_is_clocked(tiny_model: Path, sentences: list[str]) -> None:
    profiled = Translator(tiny_model, machine=MachineOptions(isa="profiled", threads=1))
    _core.kernel_work()
    Translator(tiny_model, machine=MachineOptions(threads=1)).translate(sentences[:3])
    assert _core.kernel_work() == {}
    profiled.translate(sentences[:3])
    assert _core.kernel_work()["multiply"][0] > 0
    assert _core.kernel_work() == {}


def test_ceilings_are_rates() -> None:
    found = ceilings(1 << 20, seconds=0.002)
    assert found.read_gb_s > 0.1 and found.read_mib == 1 and all(rate > 0.01 for rate in found.gmac_s.values())


def test_the_verb(tiny_model: Path, sentences: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, picture = tmp_path / "text", tmp_path / "shares.png"
    text.write_text("\n".join(sentences[:4]), encoding="utf-8")
    arguments = ["profile", str(tiny_model), str(text), "--max-length", "9"]
    assert main([*arguments, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert sum(record["shares"].values()) == pytest.approx(1, abs=1e-3) and record["requests"] == 4
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "output layer: products" in said and "bookkeeping" in said and "GB/s" in said
    pytest.importorskip("matplotlib")
    assert main([*arguments, "--picture", str(picture)]) == 0 and picture.read_bytes()[:4] == b"\x89PNG"
    text.write_text("\n\n", encoding="utf-8")
    assert main(arguments) == 1 and "the text is empty" in capsys.readouterr().err


def test_every_kernel_has_its_place(tiny_model: Path, sentences: list[str]) -> None:
    named = {*kinds.PRODUCTS, *kinds.ROUNDING, *kinds.ATTENTION, *kinds.ELEMENTWISE, *kinds.RANKING}
    assert set(_core.profiled_kernels()) <= named
