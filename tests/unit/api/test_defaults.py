"""Options given once, copies in other processes, and manners of the package."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import sharpbeam
from sharpbeam import OptionError, Session, Translator
from sharpbeam.jobs.journal import job_identity
from sharpbeam.options.decode import DecodeOptions


def test_options_given_once_are_those_of_every_call(tiny_model: Path, sentences: list[str]) -> None:
    plain = Translator(tiny_model, threads=1)
    once = Translator(tiny_model, threads=1, output_layer="scan", beam_size=2, max_length=7)
    expected = plain.translate(sentences[:5], output_layer="scan", beam_size=2, max_length=7)
    assert once.translate(sentences[:5]) == expected != plain.translate(sentences[:5])
    assert once.defaults == DecodeOptions.of(output_layer="scan", beam_size=2, max_length=7)
    longer = once.translate(sentences[:5], max_length=9)
    assert longer == plain.translate(sentences[:5], output_layer="scan", beam_size=2, max_length=9)
    assert once.translate(sentences[:5], options=DecodeOptions()) == plain.translate(sentences[:5])
    assert once.score(sentences[:2], sentences[2:4]) == plain.score(sentences[:2], sentences[2:4], output_layer="scan")
    with once.session() as session:
        assert session.options.search == once.defaults.search and session.options.schedule.schedule == "stream"
        handles = session.submit_all(sentences[:5])
        assert len(list(session.run())) == 5
    assert [handle.result() for handle in handles] == expected
    with once.session(schedule="batches", beam_size=1) as session:
        assert (session.options.schedule.schedule, session.options.search.beam_size) == ("batches", 1)


def test_methods_of_other_programs_are_told_ours(tiny_model: Path) -> None:
    translator = Translator(tiny_model)
    for name in ("translate_batch", "translate_iterable", "score_batch", "translate_file"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'; use "):
            getattr(translator, name)
    with pytest.raises(AttributeError, match=r"no attribute 'translat'$"):
        getattr(translator, "translat")  # noqa: B009
    assert not hasattr(translator, "generate_batches")


def test_a_wrong_default_is_refused_before_the_model_is_read(tmp_path: Path) -> None:
    for wrong, message in (
        ({"beam_sise": 3}, "Did you mean 'beam_size'"),
        ({"beam_size": 0}, "beam_size is 0"),
        ({"num_beams": 3}, "here it is called 'beam_size'"),
    ):
        with pytest.raises(OptionError, match=message):
            Translator(tmp_path / "none", **wrong)  # type: ignore[arg-type]


def test_options_given_once_are_held_against_those_of_the_model(tiny_model: Path, tmp_path: Path) -> None:
    """A model that brings a wider beam along may be asked for more answers than our default beam has."""
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"decoding": {"beam_size": 9}}))
    wide = Translator(folder, num_hypotheses=8)
    assert (wide.defaults.search.beam_size, wide.defaults.search.num_hypotheses) == (9, 8)
    with pytest.raises(OptionError, match="num_hypotheses is 8"):
        Translator(tiny_model, num_hypotheses=8)


def test_a_model_with_fewer_positions_has_a_lower_default_max_length(
    make_transformer: Callable[..., Path], tmp_path: Path
) -> None:
    model = Translator(make_transformer(positions="learned", max_positions=12))
    assert model.defaults.search.max_length == 12
    assert model.translate(["Bade."])
    with pytest.raises(OptionError, match="max_length is 13; it must be at most 12"):
        model.translate(["Bade."], max_length=13)


def test_the_identity_of_a_job_says_what_auto_meant(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARPBEAM_EXACT")
    translator = Translator(tiny_model)
    outcome = job_identity(translator.loaded, translator.defaults)
    assert translator.defaults.output.output_layer == "auto"
    assert (outcome["output_layer"], outcome["compute_type"]) == ("scan", "int8")
    assert "batch_tokens" not in outcome  # it does not decide answers, but with the union of a step's sets
    union = job_identity(translator.loaded, translator.defaults.changed(screen_sets="union"))
    assert union["batch_tokens"] == translator.defaults.schedule.batch_tokens


def translate(translator: Translator, texts: list[str]) -> list[str]:
    return [translation.text for translation in translator.translate(texts)]


def test_a_translator_can_be_sent_to_another_process(tiny_model: Path, sentences: list[str]) -> None:
    translator = Translator(tiny_model, threads=1, compute_type="int8", output_layer="scan", max_length=9)
    copy = pickle.loads(pickle.dumps(translator))
    assert repr(copy) == repr(translator) == f"Translator('{tiny_model}')"
    assert copy.defaults == translator.defaults and copy.loaded.machine == translator.loaded.machine
    expected = translate(translator, sentences[:5])
    assert translate(copy, sentences[:5]) == expected
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(translate, translator, sentences[:5]).result(timeout=120) == expected


def test_a_session_of_a_model_by_name_needs_no_translator(tiny_model: Path, sentences: list[str]) -> None:
    with Session(tiny_model) as session:
        handle = session.submit(sentences[0], max_length=9)
        assert list(session.run()) == [handle]
    assert handle.result() == Translator(tiny_model).translate(sentences[:1], max_length=9)[0]


def test_every_public_name_is_listed_and_there() -> None:
    assert set(sharpbeam.__all__) <= set(dir(sharpbeam))
    for name in sharpbeam.__all__:
        assert getattr(sharpbeam, name).__doc__ or not callable(getattr(sharpbeam, name)), name
