"""The output layer of a foreign model: fitted, saved, loaded, and its errors for arrays that do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reference.layers import ReferenceLayer

from sharpbeam import Head, InputError, ModelError, OptionError, fit_head
from sharpbeam.errors import OutputError
from sharpbeam.options.fit import ScreenOptions
from sharpbeam.output_layers.registry import output_layers
from sharpbeam.types import Floats

WORDS, WIDTH, BUNCHES = 300, 12, 6
OPTIONS = ScreenOptions(method="kmeans", clusters=BUNCHES, fidelity=0.9)


def bunches(count: int, seed: int) -> Floats:
    """Vectors [count, WIDTH] that lie in bunches."""
    places = np.random.default_rng(0).normal(size=(BUNCHES, WIDTH))
    draw = np.random.default_rng(seed)
    return (places[draw.integers(BUNCHES, size=count)] + 0.05 * draw.normal(size=(count, WIDTH))).astype(np.float32)


@pytest.fixture(scope="module")
def output() -> tuple[Floats, Floats]:
    draw = np.random.default_rng(3)
    return draw.normal(size=(WORDS, WIDTH)).astype(np.float32), draw.normal(size=WORDS).astype(np.float32)


@pytest.fixture(scope="module")
def folder(output: tuple[Floats, Floats], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("head") / "new"
    notes: list[str] = []
    fitted = fit_head(
        place, *output, bunches(3000, 1), options=OPTIONS, progress=lambda report: notes.append(report.note)
    )
    assert fitted.reached
    assert fitted.held_out.fidelity >= 0.9
    assert any("clusters" in line for line in notes)
    return place


@pytest.mark.parametrize("output_layer", output_layers(artifacts=("preview", "screen")))
def test_every_layer_finds_the_best_words_of_fresh_vectors(
    folder: Path, output: tuple[Floats, Floats], output_layer: str
) -> None:
    fresh = bunches(200, 2)
    expected = ReferenceLayer(*output).topk(fresh, 5)
    head = Head.load(folder, output_layer)
    result = head.topk(fresh, 5)
    share = (result.token == expected.token).all(axis=1).mean()
    assert share >= (1.0 if output_layer in ("exact", "scan", "preview") else 0.9)
    off = (result.log_prob - expected.log_prob)[result.token == expected.token]
    assert np.abs(off).max() < {"exact": 1e-5, "scan": 0.02}.get(output_layer, 0.2)
    one = result.token[:, 0]
    assert (head.best(fresh) == one).all()
    assert np.array_equal(head.log_prob(fresh, one), result.log_prob[:, 0])


def test_more_tokens_than_a_screen_was_fitted_for_are_those_of_a_scan(
    folder: Path, output: tuple[Floats, Floats]
) -> None:
    fresh, head = bunches(100, 4), Head.load(folder)
    for k in (6, 50, WORDS):
        result = head.topk(fresh, k)
        assert (result.token == ReferenceLayer(*output).topk(fresh, k).token).mean() > 0.999
        assert np.isfinite(result.log_prob).all()


def test_screens_read_less_than_all_words(folder: Path) -> None:
    assert Head.load(folder)._layer.topk(bunches(50, 5), 5).token.shape == (50, 5)
    share = Head.load(folder, "screen")._layer.fallback_share  # type: ignore[attr-defined]
    assert share < 0.5


def test_a_head_without_a_fit_is_the_reference(output: tuple[Floats, Floats]) -> None:
    weight, _ = output
    fresh = bunches(20, 4)
    expected = ReferenceLayer(weight, np.zeros(WORDS, np.float32)).topk(fresh, 3)
    for name in ("exact", "scan"):
        assert np.array_equal(Head(weight, output_layer=name).topk(fresh.tolist(), 3).token, expected.token)


def test_texts_are_dealt_whole(output: tuple[Floats, Floats], tmp_path: Path) -> None:
    text = np.repeat(np.arange(30) + 1000, 100)
    fitted = fit_head(tmp_path, *output, bunches(3000, 1), text=text, options=OPTIONS)
    assert fitted.held_out.sentences == 3  # every tenth of thirty


def test_a_fidelity_that_is_not_reached_writes_nothing(output: tuple[Floats, Floats], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fidelity is 0\.9999; it is at least 0\.\d+ here"):
        fit_head(tmp_path, *output, bunches(2000, 1), options=OPTIONS, fidelity=0.9999)
    assert not any(tmp_path.iterdir())


def test_values_that_overflow_a_fit_are_named(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    weight, hidden = (draw.normal(size=shape).astype(np.float32) * 1e9 for shape in ((WORDS, WIDTH), (3000, WIDTH)))
    with pytest.raises(InputError, match=r"cannot fit weight and hidden, which should have values of about 1: "):
        fit_head(tmp_path, weight, None, hidden, options=OPTIONS)


def test_what_does_not_fit_is_said(output: tuple[Floats, Floats], folder: Path, tmp_path: Path) -> None:
    weight, bias = output
    head = Head(weight, bias)
    with pytest.raises(InputError, match=r"hidden has the shape \[4, 5\]; it must be \[rows, 12\]"):
        head.topk(np.zeros((4, 5)), 1)
    with pytest.raises(InputError, match="token has ids from 300 to 300; they must be 0 to 299"):
        head.log_prob(np.zeros((1, WIDTH)), [WORDS])
    with pytest.raises(InputError, match=r"token is int64 of shape \[2\]; give 1 ids"):
        head.log_prob(np.zeros((1, WIDTH)), np.array([1, 2]))
    with pytest.raises(InputError, match=r"bias has the shape \[3\]; it must be \[300\]"):
        Head(weight, np.zeros(3))
    with pytest.raises(InputError, match="weight has values that are infinite, NaN, or beyond 1e"):
        Head(np.where(weight > 2, np.inf, weight))
    for hidden in (np.full((1, WIDTH), np.nan), np.full((1, WIDTH), 1e30)):
        with pytest.raises(InputError, match="hidden has values that are infinite"):
            head.topk(hidden, 1)
    with pytest.raises(InputError, match="hidden is complex128; it must be an array of floats"):
        head.topk(np.zeros((1, WIDTH), complex), 1)
    for k in (0, -1, 2**40, True, 2.5, WORDS + 1):
        for one in (head, Head.load(folder)):
            with pytest.raises(InputError, match=r"k is .*; it must be a whole number from 1 to 300"):
                one.topk(np.zeros((1, WIDTH)), k)  # type: ignore[arg-type]
    assert head.topk(np.zeros((0, WIDTH)), 3).token.shape == (0, 3)
    assert head.log_prob(np.zeros((0, WIDTH)), []).shape == (0,)
    with pytest.raises(InputError, match=r"weight has the shape \[12\]"):
        Head(weight[0])
    with pytest.raises(OptionError, match=r"output_layer is 'screen'; it must be exact or scan.*Head\.load"):
        Head(weight, output_layer="screen")
    with pytest.raises(OptionError, match="output_layer is 'shortlist'"):
        Head.load(folder, "shortlist")
    with pytest.raises(ModelError, match=r"has no head\.safetensors; fit_head makes one"):
        Head.load(tmp_path)
    with pytest.raises(InputError, match=r"hidden has the shape \[9, 3\]; it must be \[rows, 12\]"):
        fit_head(tmp_path, weight, bias, np.zeros((9, 3)))
    with pytest.raises(InputError, match="hidden has values that are infinite"):
        fit_head(tmp_path, weight, bias, np.full((9, WIDTH), np.nan))
    with pytest.raises(InputError, match=r"text is float64 of shape \[9\]; give 9 whole numbers"):
        fit_head(tmp_path, weight, bias, np.zeros((9, WIDTH)), text=np.zeros(9))
    with pytest.raises(OptionError, match="texts of hidden is 1; it must be 4 or more"):
        fit_head(tmp_path, weight, bias, bunches(9, 1))
    with pytest.raises(OptionError, match="top_k is 301; it must be at most the tokens"):
        fit_head(tmp_path, weight, bias, bunches(900, 1), options=ScreenOptions(top_k=301))
    with pytest.raises(OptionError, match="options is 3; it must be a ScreenOptions"):
        fit_head(tmp_path, weight, bias, bunches(900, 1), options=3)  # type: ignore[arg-type]
    with pytest.raises(OutputError, match="folder is empty"):
        fit_head("", weight, bias, bunches(900, 1))
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("here")
    with pytest.raises(OutputError, match=r"cannot write to .*file: File exists; give another folder"):
        fit_head(tmp_path / "file", weight, bias, bunches(900, 1))


def test_tensors_that_are_no_arrays_are_explained(output: tuple[Floats, Floats]) -> None:
    torch = pytest.importorskip("torch")
    head = Head(*output)
    for hidden in (torch.zeros(1, WIDTH, requires_grad=True), torch.zeros(1, WIDTH, dtype=torch.bfloat16)):
        with pytest.raises(InputError, match=r"hidden cannot be read as an array .*\.detach\(\)\.float\(\)"):
            head.topk(hidden, 1)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8])
def test_narrow_vectors_have_a_preview_too(tmp_path: Path, width: int) -> None:
    draw = np.random.default_rng(width)
    weight, hidden = draw.normal(size=(40, width)), draw.normal(size=(700, width))
    fit_head(tmp_path, weight, None, hidden, options=ScreenOptions(method="kmeans", clusters=2, fidelity=0.0))
    result = Head.load(tmp_path, "preview").topk(hidden[:50], 3)
    assert np.array_equal(result.token, Head(weight, output_layer="exact").topk(hidden[:50], 3).token)


def test_a_screen_for_other_weights_is_refused(folder: Path, tmp_path: Path, output: tuple[Floats, Floats]) -> None:
    weight, bias = output
    other = tmp_path / "other"
    fit_head(other, weight + 1, bias, bunches(3000, 1), options=OPTIONS)
    (other / "head.safetensors").write_bytes((folder / "head.safetensors").read_bytes())
    for output_layer in ("screen", "preview"):
        with pytest.raises(ModelError, match="was fitted for other output weights"):
            Head.load(other, output_layer)
    (other / "head.safetensors").write_bytes(b"not one")
    with pytest.raises(ModelError, match="is no head"):
        Head.load(other)


def test_the_example_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from examples.head import compare

    same, _ = compare(tmp_path, tokens=1000, width=32, seen=6000)
    assert same > 0.9
