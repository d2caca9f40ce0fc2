"""From text to a screen and back: collecting, calibrating, choosing, saving, and what a damaged folder says."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.artifacts import read_screen, save_screen

from sharpbeam.api.translator import Translator
from sharpbeam.decoding.loading import load_model
from sharpbeam.errors import InputError, ModelError, OptionError
from sharpbeam.fit import collect
from sharpbeam.fit.bound import lower_bound
from sharpbeam.fit.collect import Collection, Collector, OutputMatrix, Steps
from sharpbeam.fit.screen.fidelity import View
from sharpbeam.fit.screen.residual_mass import NEVER
from sharpbeam.fit.screen.search import Fitted, deal, find_screen
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.fit import ScreenOptions
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.screen import ResidualMass, ScreenLayer
from sharpbeam.types import Floats, Ids, TopK

QUIET: list[int] = []
TOLERANCE = ScreenOptions().tolerance


@pytest.fixture(scope="module")
def collection(tiny_model: Path, sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> Collection:
    parts = load_model(tiny_model, MachineOptions())
    folder = tmp_path_factory.mktemp("vectors")
    return Collector(parts, folder, beam_size=2, top_k=3).collect(sentences, {}, 10**9, QUIET.append)


@pytest.fixture(scope="module")
def output(tiny_model: Path) -> OutputMatrix:
    return OutputMatrix(*load_model(tiny_model, MachineOptions()).model.output())


@pytest.fixture(scope="module")
def fitted(collection: Collection, output: OutputMatrix) -> Fitted:
    return find_screen(
        collection, output, 2, ScreenOptions(method="kmeans", clusters=10, budget=30, fidelity=0.6, top_k=3)
    )


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path, fitted: Fitted, output: OutputMatrix) -> Path:
    """A copy of the tiny model with a screen."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    save_screen(folder, fitted.screen, output.weight, output.bias, {"method": "kmeans"})
    return folder


def test_without_neighbors_a_set_is_the_union_of_its_members(collection: Collection, output: OutputMatrix) -> None:
    """CVP section 2.2: the best `set_k` tokens of the vectors of each cluster, and the end of the sentence."""
    options = ScreenOptions(method="kmeans", clusters=6, fidelity=0.0, top_k=3, set_k=2, neighbors=False)
    screen, fit = find_screen(collection, output, 2, options).screen, deal(collection)[0]
    layer = ScreenLayer.build(output.weight, output.bias, screen, int8=False)
    label = layer.native.assign(np.ascontiguousarray(fit["hidden"]))
    for cluster in range(6):
        members = fit["token"][label == cluster, :2]
        expected = np.union1d(members, [2])
        assert screen.token[screen.start[cluster] : screen.start[cluster + 1]].tolist() == expected.tolist()


# ---- collecting


def test_what_is_collected_is_what_the_exact_layer_says(collection: Collection, tiny_model: Path) -> None:
    exact = load_model(tiny_model, MachineOptions()).exact
    for part in collection.parts:
        top = exact.topk(np.ascontiguousarray(part["hidden"]), 3)
        assert top.token.tolist() == part["token"].tolist()
        assert top.log_prob.tobytes() == np.ascontiguousarray(part["log_prob"]).tobytes()
        assert (np.diff(part["sentence"]) >= 0).all()


def test_the_vectors_are_those_of_the_translation(tiny_model: Path, sentences: list[str], tmp_path: Path) -> None:
    """Greedy: one step for each token of each sentence, and the best of each step is that token; loops are cut off."""
    parts = load_model(tiny_model, MachineOptions())
    results = Collector(parts, tmp_path, beam_size=1, top_k=1).collect(sentences[:9], {}, 10**9, QUIET.append)
    (part,) = results.parts
    options = {"beam_size": 1, "return_scores": True, "max_length_factor": collect.FACTOR}
    for i, translation in enumerate(Translator(tiny_model).translate(sentences[:9], **options)):
        steps = part["token"][part["sentence"] == i, 0]
        assert len(steps) == len(translation.token_scores)
        assert [parts.target.piece(t) for t in steps[: len(translation.tokens)]] == list(translation.tokens)


def test_words_that_are_never_produced_are_left_out(
    make_transformer: Callable[..., Path], sentences: list[str], tmp_path: Path
) -> None:
    """As in `translate`: the two words that it would say most often are neither candidates nor fed to the model."""

    def tokens(folder: Path, name: str) -> np.ndarray:
        parts = load_model(folder, MachineOptions())
        return Collector(parts, tmp_path / name, 1, 3).collect(sentences[:9], {}, 10**9, QUIET.append).parts[0]["token"]

    often = np.bincount(tokens(make_transformer(), "free")[:, 0]).argsort()[::-1]
    banned = tuple(int(token) for token in often if token != 2)[:2]
    folder = make_transformer(suppressed_ids=banned)
    results = tokens(folder, "banned")
    assert not np.isin(results, banned).any()
    options = {"beam_size": 1, "return_scores": True, "max_length_factor": collect.FACTOR}
    translations = Translator(folder).translate(sentences[:9], **options)
    assert len(results) == sum(len(translation.token_scores) for translation in translations)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_killed_collection_goes_on_to_the_same_files(
    tiny_model: Path, sentences: list[str], tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "LINES", 20)
    parts = load_model(tiny_model, MachineOptions(threads=1))

    def killed(lines: list[str], after: int) -> Iterator[str]:
        yield from lines[:after]
        raise KeyboardInterrupt

    lines = [*sentences[:70], "", *sentences[:5], " "]  # repeats and empty lines do not count
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    results = Collector(parts, whole, 2, 3).collect(lines, {}, 10**9, QUIET.append)
    assert [len(np.unique(part["sentence"])) for part in results.parts] == [20, 20, 20, 10]
    with pytest.raises(KeyboardInterrupt):
        Collector(parts, torn, 2, 3).collect(killed(lines, 50), {}, 10**9, QUIET.append)
    assert len(list(torn.glob("*.npy"))) == 2
    (torn / ".part-00002.npy.sharpbeam-0123456789abcdef").write_bytes(b"half")
    parts = load_model(tiny_model, MachineOptions(threads=threads))
    Collector(parts, torn, 2, 3).collect(lines, {}, 10**9, QUIET.append)
    assert {p.name: p.read_bytes() for p in torn.iterdir()} == {p.name: p.read_bytes() for p in whole.iterdir()}


def test_collecting_ends_with_enough_vectors(
    tiny_model: Path, sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "LINES", 10)
    parts = load_model(tiny_model, MachineOptions())
    results = Collector(parts, tmp_path, 2, 3).collect(sentences, {}, 300, QUIET.append)
    assert len(results) >= 300 > len(results) - len(results.parts[-1])


def test_another_run_s_vectors_are_refused(tiny_model: Path, sentences: list[str], tmp_path: Path) -> None:
    parts = load_model(tiny_model, MachineOptions())
    Collector(parts, tmp_path, 2, 3).collect(sentences[:3], {"text": 1}, 10, QUIET.append)
    for collector, identity in ((Collector(parts, tmp_path, 1, 3), 1), (Collector(parts, tmp_path, 2, 3), 2)):
        with pytest.raises(InputError, match="another model, other text or other options"):
            collector.collect(sentences[:3], {"text": identity}, 10, QUIET.append)
    (tmp_path / "part-00000.npy").write_bytes(b"\x93NUMPY damaged")
    with pytest.raises(InputError, match=r"part-00000.npy cannot be read"):
        Collector(parts, tmp_path, 2, 3).collect(sentences[:3], {"text": 1}, 10, QUIET.append)


# ---- choosing


def test_parts_share_no_sentence(collection: Collection, sentences: list[str]) -> None:
    groups = [set(part["sentence"].tolist()) for part in deal(collection)]
    assert sum(map(len, groups)) == len(set().union(*groups)) == len(set(sentences))


def test_measured_as_decoded(fitted: Fitted, collection: Collection, output: OutputMatrix, tiny_model: Path) -> None:
    """P@k, fallback and fidelity are those of the output layer that people will run."""
    exact = load_model(tiny_model, MachineOptions()).exact
    held_out = deal(collection)[2]
    hidden, truth = np.ascontiguousarray(held_out["hidden"]), held_out["token"]
    with_test = ScreenLayer.build(output.weight, output.bias, fitted.screen, exact)
    alone = ScreenLayer.build(output.weight, output.bias, replace(fitted.screen, fallback=None))
    results = fitted.held_out
    hits = (truth[:, :, None] == alone.topk(hidden, 3).token[:, None]).any(axis=2)
    assert results.precision_1 == pytest.approx(hits[:, 0].mean())
    assert results.precision_k == pytest.approx(hits.mean())
    assert results.agreement == pytest.approx(hits.all(axis=1).mean())
    # The tokens that matter of the exact top 3 are there, at all rows of a step.
    matters = (held_out["log_prob"] >= held_out["floor"][:, None]) | (np.arange(3) == 0)
    inside = (truth[:, :, None] == with_test.topk(hidden, 3).token[:, None]).any(axis=2)
    right: dict[tuple[int, int], bool] = {}
    best = np.ascontiguousarray(truth[:, 0])
    error = np.abs(with_test.log_prob(hidden, best) - held_out["log_prob"][:, 0])
    good = (inside | ~matters).all(axis=1) & (error <= TOLERANCE)
    for sentence, step, row in zip(held_out["sentence"], held_out["step"], good, strict=True):
        right[sentence, step] = right.get((sentence, step), True) and bool(row)
    assert results.steps == len(right) < results.rows == len(held_out)
    assert results.fidelity == pytest.approx(np.mean(list(right.values())))
    assert results.fallback == pytest.approx(with_test.fallback_share)
    assert results.sufficient == pytest.approx(1 - ((~hits & matters).any(axis=1)).mean())
    assert 0 < results.fallback < 1 and results.agreement < results.sufficient < 1


def test_what_is_above_the_floor_is_all_that_beam_search_needs(
    collection: Collection, tiny_model: Path, sentences: list[str]
) -> None:
    """Words below the floor may be anything: the answers of a layer that hides them are the same bytes."""
    parts = load_model(tiny_model, MachineOptions())
    floors = {}
    for part in collection.parts:
        for row in part:
            floors[row["hidden"].tobytes()] = row["floor"]

    class Floored(RowLayer):
        vocab_size = parts.exact.vocab_size
        hidden_words = 0

        def topk(self, hidden: Floats, k: int) -> TopK:
            top = parts.exact.topk(hidden, k)
            floor = np.array([floors[row.tobytes()] for row in hidden])
            hides = (top.log_prob < floor[:, None]) & (np.arange(k) > 0)
            self.hidden_words += int(hides.sum())
            return TopK(np.where(hides, -np.inf, top.log_prob).astype(np.float32), top.token)

        def log_prob(self, hidden: Floats, token: Ids) -> Floats:
            raise NotImplementedError

    translator = Translator(tiny_model)
    options = {"beam_size": 2, "max_length_factor": collect.FACTOR}
    exact = translator.translate(sentences[:40], **options)
    translator.loaded = replace(translator.loaded, exact=(floored := Floored()))
    assert translator.translate(sentences[:40], **options) == exact
    assert floored.hidden_words > 100


def test_the_bound_reaches_what_was_asked(collection: Collection, output: OutputMatrix) -> None:
    """More fidelity costs more rows, the bound is kept, and the cheapest setting that keeps it is taken."""
    shares = []
    for fidelity in (0.6, 0.93, 0.97):  # the toy's sentences differ a lot, so that there are few effective steps
        options = ScreenOptions(method="kmeans", clusters=10, fidelity=fidelity, top_k=3)
        fitted = find_screen(collection, output, 2, options)
        assert fitted.reached and fitted.setting.measure.bound >= fidelity
        good = [point.measure.cost for point in fitted.curve if point.measure.bound >= fidelity]
        assert fitted.setting.measure.cost == min(good)
        shares.append(fitted.setting.measure.cost)
    assert shares[0] < shares[-1]


def test_too_few_sentences_for_the_fidelity(collection: Collection, output: OutputMatrix) -> None:
    options = ScreenOptions(method="kmeans", clusters=5, budget=30, fidelity=0.9999, top_k=3)
    fitted = find_screen(collection, output, 2, options)
    assert not fitted.reached
    assert fitted.screen.fallback is not None and fitted.screen.fallback.threshold == NEVER
    assert fitted.setting.measure.fallback == 1 and fitted.setting.measure.fidelity == 1


def test_a_screen_without_misses_sends_nothing_back(
    collection: Collection, output: OutputMatrix, fitted: Fitted
) -> None:
    vocab, dim = output.weight.shape
    everything = replace(
        fitted.screen,
        weight=np.zeros((1, dim), np.float32),
        bias=np.zeros(1, np.float32),
        start=np.array([0, vocab], np.int32),
        token=np.arange(vocab, dtype=np.int32),
        residual=ResidualMass(np.zeros((1, 1, dim), np.float32), np.full((1, 1), -100.0, np.float32)),
    )
    records = deal(collection)[1]
    demand = ScreenOptions(top_k=3, tolerance=2 * TOLERANCE)  # words are rounded to bytes
    view = View(everything, output, Steps.of(records, output), demand, np.zeros((1, dim), np.float32))
    view.calibrate(0.9, 0.95)
    measure = view.measure(0.95)
    assert View(view.screen, output, Steps.of(records, output), demand).measure(0.95) == measure
    assert (measure.fallback, measure.fidelity, measure.average_set) == (0, 1, vocab)
    assert measure.bound == pytest.approx(lower_bound(measure.steps, measure.steps))
    assert measure.normalizer_error < 2e-3  # rounding alone


@pytest.mark.parametrize("method", ["kmeans", "spherical"])
def test_without_a_fidelity_there_is_no_test(collection: Collection, output: OutputMatrix, method: str) -> None:
    options = ScreenOptions(method=method, clusters=8, budget=25, fidelity=0, top_k=3)  # type: ignore[arg-type]
    fitted = find_screen(collection, output, 2, options)
    assert fitted.screen.fallback is None and len(fitted.curve) == 1
    assert fitted.held_out.average_set == pytest.approx(25, rel=0.3)
    starts, tokens = fitted.screen.start, fitted.screen.token
    assert all(2 in tokens[a:b] for a, b in itertools.pairwise(starts))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "x"}, "method is 'x'"),
        ({"fidelity": 1.0}, "fidelity is 1.0"),
        ({"set_k": 9, "top_k": 5}, "set_k is 9"),
    ],
)
def test_options_are_checked(values: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ScreenOptions(**values)  # type: ignore[arg-type]


# ---- the folder


def test_save_and_load(folder: Path, fitted: Fitted, output: OutputMatrix) -> None:
    results, made = read_screen(folder, output.weight, output.bias), fitted.screen
    for name in ("weight", "bias", "start", "token"):
        assert getattr(results, name).tobytes() == getattr(made, name).tobytes()
    assert results.residual is not None and made.residual is not None
    assert results.residual.weight.tobytes() == made.residual.weight.tobytes()
    assert results.residual.bias.tobytes() == made.residual.bias.tobytes()
    assert results.fallback is not None and made.fallback is not None
    assert results.fallback.center.tobytes() == made.fallback.center.tobytes()
    assert replace(results.fallback, center=made.fallback.center) == made.fallback
    assert {path.name for path in folder.iterdir()} == {
        *("config.json", "model.safetensors", "source.spm", "README.md", "screen.json", "screen.safetensors")
    }


def test_a_model_with_its_screen_translates(folder: Path, sentences: list[str]) -> None:
    translator = Translator(folder)
    results = translator.translate(sentences[:40], output_layer="screen", max_length=20)
    exact = translator.translate(sentences[:40], max_length=20)
    assert len(results) == 40
    assert sum(a.text == b.text for a, b in zip(results, exact, strict=True)) > 0
    alone = [translator.translate([s], output_layer="screen", max_length=20)[0] for s in sentences[:40]]
    assert alone == results  # whatever the batch
    layer = translator.loaded.layer_named("screen")
    assert isinstance(layer, ScreenLayer) and 0 < layer.fallback_share < 1


def test_other_weights_are_refused(folder: Path, output: OutputMatrix) -> None:
    for weight, bias in ((output.weight + np.float32(1e-6), output.bias), (output.weight, output.bias * np.float32(2))):
        with pytest.raises(ModelError, match="fitted for other output weights"):
            read_screen(folder, weight, bias)


def edit(folder: Path, **changes: object) -> None:
    path = folder / "screen.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "screen.json").unlink(), "has no screen. Make it with: sharpbeam fit screen"),
        (lambda f: (f / "screen.safetensors").unlink(), r"screen.safetensors cannot be read \(No such file"),
        (lambda f: (f / "screen.json").write_text("{"), "is not JSON"),
        (lambda f: (f / "screen.json").write_text("[]"), "not a JSON object but list"),
        (lambda f: edit(f, format_version=9), "format_version is 9; this Sharpbeam reads 3"),
        (
            lambda f: edit(f, doubt={"k": 3}),  # vocabulary: stored
            "it needs k, margin, by_tail, by_far, offset, loosest",
        ),
        (
            lambda f: edit(f, doubt=None),  # vocabulary: stored
            "it must hold bias, start, tail_bias, tail_weight, token, weight",
        ),  # vocabulary: stored
        (lambda f: (f / "screen.safetensors").write_bytes(b"x" * 99), "its SHA-256 differs"),
    ],
)
def test_a_damaged_screen_is_refused(folder: Path, output: OutputMatrix, damage, message: str) -> None:
    damage(folder)
    with pytest.raises(ModelError, match=message):
        read_screen(folder, output.weight, output.bias)
