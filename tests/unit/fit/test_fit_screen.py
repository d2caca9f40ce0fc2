"""The library's `fit_screen`: its reports, and the settings that it leaves out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sharpbeam import Translator
from sharpbeam.decoding.loading import load_model
from sharpbeam.errors import InputError, OptionError
from sharpbeam.fit.collect import Collection, Collector, OutputMatrix, Steps
from sharpbeam.fit.layer import fit_layer
from sharpbeam.fit.progress import FitProgress, Reporter
from sharpbeam.fit.screen.job import fit_screen
from sharpbeam.fit.screen.search import SHARES, ScreenSearch, deal, find_screen
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.fit import ScreenOptions

OPTIONS = ScreenOptions(method="kmeans", clusters=6, fidelity=0.5, tolerance=float("inf"), top_k=2, beam_size=1)


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.fixture
def text(sentences: list[str], tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_text("".join(f"{sentence}\n" for sentence in sentences))
    return path


def test_a_fit_reports_its_stages_and_results(model: Path, text: Path) -> None:
    reports: list[FitProgress] = []
    fitted = fit_screen(model, text, options=OPTIONS, progress=reports.append)
    stages = list(dict.fromkeys(report.stage for report in reports if report.stage))
    assert stages == ["collecting", "fitting"]
    fitting = [report.done for report in reports if report.stage == "fitting"]
    assert fitting == sorted(fitting) and fitting[0] == 0
    last = [report for report in reports if report.stage == "fitting"][-1]
    assert (last.done, last.total, last.unit) == (1, 1, "clusterings")
    notes = [report.note for report in reports if report.note]
    assert len(notes) == len(fitted.screens[""].curve) and all("6 clusters" in note for note in notes)
    assert fitted.folder == model and "6 clusters" in fitted.summary()
    assert fitted.vectors is None and not model.with_name("model.vectors").exists()


def test_a_fidelity_that_a_fit_reached_can_be_asked_for(model: Path, text: Path) -> None:
    """The fit succeeds by the bound on the text that its test was set on; that on other text says nothing."""
    fit_screen(model, text, options=OPTIONS)
    path = model / "screen.json"
    facts = json.loads(path.read_text())
    facts["chosen_on"]["bound"], facts["held_out"]["bound"] = 0.97, 0.99  # the larger of both has less confidence
    path.write_text(json.dumps(facts))
    translator = Translator(model)
    assert translator.translate(["ein Haus"], output_layer="screen", fidelity=0.97)
    with pytest.raises(OptionError, match=r"measured to have at least 0\.97"):
        translator.translate(["ein Haus"], output_layer="screen", fidelity=0.98)


def test_vectors_are_kept_where_a_folder_is_given(model: Path, text: Path, tmp_path: Path) -> None:
    fitted = fit_screen(str(model), [str(text)], work=tmp_path / "work", options=OPTIONS, clusters=4)
    assert fitted.screens[""].setting.clusters == 4
    assert fitted.vectors == tmp_path / "work" and list(fitted.vectors.glob("part-*.npy"))


def test_an_option_of_a_screen_is_one_of_the_fit(model: Path, text: Path) -> None:
    assert fit_layer("screen", model, text=text, options=OPTIONS, clusters=4, keep_best=True).summary()
    for name in ("keywords", "cluster"):
        with pytest.raises(OptionError, match=f"{name} is no option of fit screen; it has text, .*, clusters, "):
            fit_layer("screen", model, text=text, **{name: 1})


def test_vectors_are_of_one_config(make_transformer: Callable[..., Path], text: Path, tmp_path: Path) -> None:
    fit = partial(fit_screen, text=text, work=tmp_path / "work", options=OPTIONS, keep_best=True)
    fit(make_transformer())
    with pytest.raises(InputError, match="holds hidden vectors of another model"):
        fit(make_transformer(suppressed_ids=(5,)))


def test_what_is_wrong_is_said_before_the_model_is_loaded(model: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="text is empty"):
        fit_screen(model, [])
    with pytest.raises(InputError, match="cannot read"):
        fit_screen(model, tmp_path / "none")
    with pytest.raises(OptionError, match=r"fit_screen: unknown option 'cluster'. Did you mean 'clusters'"):
        fit_screen(model, text, cluster=3)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="fidelity is 2"):
        fit_screen(model, text, options=OPTIONS, fidelity=2)
    with pytest.raises(OptionError, match="per is 'x'"):
        fit_screen(model, text, per="x")


@pytest.fixture(scope="module")
def collected(
    tiny_model: Path, sentences: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Collection, OutputMatrix]:
    parts = load_model(tiny_model, MachineOptions())
    collector = Collector(parts, tmp_path_factory.mktemp("vectors"), beam_size=2, top_k=3)
    return collector.collect(sentences, {}, 10**9, lambda _: None), OutputMatrix(*parts.model.output())


@pytest.mark.parametrize("fidelity", [0.6, 0.8, 0.95])
def test_settings_that_are_left_out_would_not_have_won(
    collected: tuple[Collection, OutputMatrix], fidelity: float
) -> None:
    collection, output = collected
    options = ScreenOptions(method="kmeans", clusters=10, fidelity=fidelity, top_k=3)
    chosen = find_screen(collection, output, 2, options)
    fit, choose, _ = deal(collection)
    every = ScreenSearch(Steps.of(fit, output), Steps.of(choose, output), output, 2, options, Reporter())
    every.confidence = 1 - 0.05 / len(SHARES)
    clustering = every.cluster("kmeans", 10)
    for share in SHARES:
        every.try_share(clustering, share)
    assert len(chosen.curve) <= len(SHARES)
    assert chosen.setting.measure.cost <= 1.02 * every.best[0].measure.cost


def test_a_setting_that_reads_too_much_is_not_fitted(collected: tuple[Collection, OutputMatrix]) -> None:
    """Its clusters and set alone cost more than the best screen with its fallback."""
    collection, output = collected
    fit, choose, _ = deal(collection)
    options = ScreenOptions(method="kmeans", clusters=10, fidelity=0.6, top_k=3)
    search = ScreenSearch(Steps.of(fit, output), Steps.of(choose, output), output, 2, options, Reporter())
    clustering = search.cluster("kmeans", 10)
    assert search.try_share(clustering, 0.5) is not None
    dim, best = output.weight.shape[1], search.best[0].measure
    assert search.try_share(clustering, 4.0) is None or best.cost > dim * (10 + 4 * clustering.counts.everything)
