"""Each table of the papers runs on the bundled models and a little text, and records a line of the right form."""

from __future__ import annotations

import gzip
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.harness import cache, prepare, record, vectors
from bench.papers.l2s.subjects import SUBJECTS, Subject
from sharpbeam import MachineOptions, Translator
from sharpbeam.decoding.loading import load_model
from sharpbeam.fit.collect import collect_rows
from sharpbeam.fit.preview import find_preview
from sharpbeam.output_layers.preview import PreviewLayer
from sharpbeam.text.vocabulary import read_vocabularies

MODELS = record.ROOT / "models"
PAIRS = [
    ("Tom likes to read books.", "Tom liest gern Bücher."),
    ("The weather is nice today.", "Das Wetter ist heute schön."),
    ("Where is the station?", "Wo ist der Bahnhof?"),
    ("I have never been to Berlin.", "Ich war noch nie in Berlin."),
    ("She gave him a glass of water.", "Sie gab ihm ein Glas Wasser."),
    ("We must leave at once.", "Wir müssen sofort gehen."),
    ("My brother lives in a small house.", "Mein Bruder wohnt in einem kleinen Haus."),
    ("It is too late to change the plan.", "Es ist zu spät, um den Plan zu ändern."),
]
LINES = [
    "the company said it will sell its stock at the end of the year",
    "mr. <unk> is chairman of the new york stock exchange",
    "shares rose N cents to $ N a share in heavy trading",
    "the government does n't expect prices to fall before next month",
    "analysts said the third quarter was better than expected",
]
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
needs_sacrebleu = pytest.mark.skipif(find_spec("sacrebleu") is None, reason="sacreBLEU is not installed")


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines)


def rows_of_many_words() -> Iterator[tuple[str, str]]:
    """Pairs that hold an eighth of the source tokens: a shortlist is fitted to no less than a tenth."""
    source, target = read_vocabularies(MODELS / "de-en")
    for first in range(64, 64 + len(source) // 8, 8):
        yield target.decode(range(first, first + 8)), source.decode(range(first, first + 8))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the files of the benchmarks, a few sentences in each."""
    folder = tmp_path_factory.mktemp("data")
    rows = [f"{english}\t{german}" for english, german in PAIRS]
    for part, times in (("train", 24), ("valid", 3), ("test", 3)):
        write_lines(folder / f"tatoeba/eng-deu.{part}.tsv.gz", [row for i in range(times) for row in rows[i % 3 :]])
        write_lines(folder / f"ptb/ptb.{part}.txt.gz", LINES * 60)
    for year in ("2012", "2013"):
        write_lines(folder / f"newstest/newstest{year}.eng-deu.tsv.gz", rows)
    return str(folder)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Results and caches go to a folder of the tests."""
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "RESULTS", folder / "results")
        patch.setattr(cache, "HOME", folder)
        for module in (vectors, prepare):
            patch.setattr(module, "KEPT", folder / "vectors")
        patch.setattr(vectors, "HELD_OUT", 1000)
        patch.setattr(vectors, "FLOATS", 200 * 1000)
        patch.setattr(vectors, "LEAST", 1000)
        patch.setattr(vectors, "MOST_TRANSLATED", 1000)
        cache.stamp.cache_clear()
        yield folder
        cache.stamp.cache_clear()


def subject(name: str) -> Subject:
    return next(one for one in SUBJECTS if one.name == name)


def recorded(name: str) -> dict[str, Any]:
    """The only line of a result file."""
    (line,) = record.read(name)
    return line


@needs_matplotlib
def test_curves_and_perplexity_of_a_language_model(data, monkeypatch):
    pytest.importorskip("hnswlib", reason="the extra bench is not installed")
    from bench.papers.l2s import curves, perplexity, screens

    monkeypatch.setattr(screens, "STEPS", 20)
    monkeypatch.setattr(perplexity, "QUICK_WORDS", 200)
    monkeypatch.setattr(curves, "QUICK_SECONDS", 0.02)
    prepared = prepare.prepare(subject("lm-ptb-small"), MODELS / "lm-ptb-small", data, quick=True)
    line = curves.curve(prepared, quick=True, only=["SVD-softmax"])
    methods = {point["method"] for point in line["points"]}
    assert {"NumPy", "exact", "scan", "kmeans", "spherical", "l2s", "SVD-softmax"} <= methods
    assert all(point["ratio"] > 0 for point in line["points"])
    assert (record.RESULTS / "curves-lm-ptb-small.png").is_file()
    assert "SVD-softmax" in curves.table(line, prepared.subject)
    completed = perplexity.measure(prepared, data, quick=True)["completed"]
    assert 1 < completed["full"]["perplexity"] < completed["l2s"]["perplexity"]
    assert "l2s with a tail" in perplexity.describe(recorded("perplexity"))


@needs_sacrebleu
def test_beam_search_on_a_screen(data, monkeypatch):
    from bench.papers.l2s import screened_search

    monkeypatch.setattr(screened_search, "QUICK_VECTORS", 400)
    monkeypatch.setattr(screened_search, "CLUSTERS", 4)
    monkeypatch.setattr(screened_search, "QUICK_TIMED", 3)
    monkeypatch.setattr(screened_search, "FIDELITY", 0.5)
    line = screened_search.measure(subject("de-en"), MODELS / "de-en", data, quick=True)
    assert 0 < line["quality"]["test, beam 5"]["identical"] <= 1  # a screen of 400 vectors keeps little
    assert line["times"]["beam 1"]["exact"]["ratio"] == 1
    assert "beam 5" in screened_search.describe(line)


@needs_sacrebleu
@pytest.mark.skipif(find_spec("scipy_openblas32") is None, reason="scipy-openblas32 is not installed")
def test_the_ablation_of_sharp(data, tmp_path):
    from bench.papers.sharp import sharp

    many = shutil.copytree(data, tmp_path / "data")
    with gzip.open(many / "tatoeba/eng-deu.train.tsv.gz", "at", encoding="utf-8") as train:
        train.writelines(f"{english}\t{german}\n" for english, german in rows_of_many_words())
    line = sharp.ablation("de-en", str(many), "tatoeba", sentences=3, rounds=1, judged=4, beyond=())
    assert line["steps"]["SHARP-0"]["ratio"] == 1
    assert line["steps"]["SHARP-5 float32"]["same_as_like"] == 1 and 0 < line["distinct_parents"] < 1
    assert "SHARP-5 int8" in sharp.describe(line)


@needs_sacrebleu
def test_the_models_of_sharp(data, monkeypatch):
    from bench.papers.sharp import table2

    monkeypatch.setattr(table2, "find", lambda models, name: MODELS / "de-en")
    monkeypatch.setattr(table2, "interleave", partial(table2.interleave, clock=time.process_time))  # as if not busy
    line = table2.measure(["models"], data, "int8", sentences=2, rounds=3, steps=False)
    assert line["rows"]["E1"]["ratio"] < line["rows"]["S1"]["ratio"] == 1
    assert "E2" in table2.describe(line)


@needs_sacrebleu
@needs_matplotlib
def test_cube_pruning(data):
    from bench.papers.cube import merging, speed

    bench = speed.Bench("de-en", "de-en", data, sentences=4)
    lines = speed.curves(bench, beams=(1, 4), model_names=("de-en", "de-en"))
    assert [line["setting"] for line in lines[:3]] == ["NBS-SN", "NCP-SN", "ACP-SN"]
    assert lines[1]["points"][1]["merging_rate"] > 1 == lines[0]["points"][1]["merging_rate"]
    assert Path(speed.draw(lines)).is_file()
    headline = speed.headline(bench, ["ACP+SN"], beam=4, rounds=1, model="de-en")
    assert headline["contenders"]["NBS+SN"]["ratio"] == 1
    rates = merging.measure(bench, ("de-en", "de-en"), beam=4)
    assert rates["points"]["ACP+SN"]["merging_rate"] > 1 and "log Z" in merging.describe(rates)


@needs_sacrebleu
def test_layers_of_a_model_are_compared(data):
    from bench.decode import layers

    pairs, translator = [[german, english] for english, german in PAIRS], Translator("de-en")
    figures = layers.measure(translator, ["scan", "exact"], pairs, beam_size=5, batch=4, rounds=1)
    assert figures["scan"]["ratio"] == 1 and figures["exact"]["differ"] == 0
    assert figures["exact"]["bleu"] == figures["exact"]["bleu_exact"]


def test_rows_that_lose_a_token_are_counted():
    from bench.decode.lost import lost

    loaded, german = load_model(MODELS / "de-en", MachineOptions(threads=1)), [german for _, german in PAIRS]
    output = loaded.model.output()
    preview = find_preview(
        *output, collect_rows(loaded, german, 1000, 5, 1, loaded.direction(loaded.options.languages))[1]["hidden"]
    )
    offset = preview.offset - 30 * (np.arange(len(preview.offset), dtype=np.float32) % 2)  # half of the tokens are lost
    sound, broken = (PreviewLayer.build(*output, one) for one in (preview, replace(preview, offset=offset)))
    assert lost(loaded, sound, german, 100)["lost"] == 0 < lost(loaded, broken, german, 100)["lost"]


@needs_sacrebleu
def test_streams_at_equal_memory(data):
    from bench.papers.stream import stream

    line = stream.measure(Translator("de-en"), data, "tatoeba", beam_size=5, rows=16, sentences=8, rounds=1)
    contenders = line["contenders"]
    expansions = {name: one["expansions"] for name, one in contenders.items()}
    assert expansions["VAR-STREAM"] == expansions["STREAM"] == expansions["VAR-BATCH"] < expansions["FIXED"]
    assert "16 rows" in stream.describe(line)


def test_parsing(data, tmp_path):
    """A translation model stands for a parser: its German is the question, its English the logical form."""
    from bench.papers.stream import parsing

    (tmp_path / "semantic-geo").mkdir()
    (tmp_path / "semantic-geo/best").symlink_to(MODELS / "de-en")
    write_lines(tmp_path / "semantic/geo.test.tsv.gz", [f"{german}\t{english}" for english, german in PAIRS * 3])
    table = parsing.measure(parsing.semantic("geo", tmp_path, tmp_path), rounds=1)
    assert table["VAR-STREAM"]["f1"] == table["VAR-BATCH"]["f1"] > 0
    assert table["VAR-STREAM"]["expansions_per_step"] > table["VAR-BATCH"]["expansions_per_step"]


def test_the_published_screens(data, monkeypatch):
    from bench.papers.l2s import published, screens

    monkeypatch.setattr(screens, "STEPS", 20)
    monkeypatch.setattr(published, "SECONDS", 0.02)
    layer = vectors.collect_layer(subject("lm-ptb-small"), MODELS / "lm-ptb-small", data, 0.5)
    line = published.curve(layer, clusters=10, budgets=[30], rounds=1)
    names = ("clusters alone", "spherical", "l2s")
    methods = ["NumPy", "exact", *(f"{name}{where}" for name in names for where in ("", ", native"))]
    assert [point["method"] for point in line["points"]] == methods
    assert all(point["p_at_5"] > 0.3 for point in line["points"] if "alone" not in point["method"])
    assert "r = 10" in published.describe(line)


@needs_sacrebleu
def test_published_screens_by_the_number_of_vectors(data, tmp_path, monkeypatch):
    """A line for each number and setting, from counts of one reading of the text; those recorded are not made again."""
    from bench.harness import doses
    from bench.papers.cvp import clusters
    from bench.papers.l2s import published, screens
    from sharpbeam.fit import collect

    monkeypatch.setattr(screens, "STEPS", 5)
    monkeypatch.setattr(collect, "LINES", 8)
    monkeypatch.setattr(clusters, "BATCH", 2)
    monkeypatch.setattr(doses, "STORED", 500)
    monkeypatch.setattr(doses, "KEPT", tmp_path / "kept")
    (tmp_path / "text").write_text("".join(f"{german}\n" for _, german in islice(rows_of_many_words(), 60)))
    write_lines(tmp_path / "test.tsv.gz", [f"{english}\t{german}" for english, german in PAIRS])
    monkeypatch.setitem(doses.SETS, "tatoeba", doses.SETS["tatoeba"]._replace(files=("test.tsv.gz",)))
    dosed = doses.collect_dosed(MODELS / "de-en", str(tmp_path / "text"), str(tmp_path), "tatoeba", 4)
    translator = Translator(MODELS / "de-en")
    exact = {beam: clusters.answers(translator, dosed.pairs, "exact", beam) for beam in clusters.SETTINGS}
    lines = list(clusters.doses(translator, dosed, 4, [3000, 500], exact, rounds=1))
    facts = [(line["options"]["fitted_on"], line["options"]["k"]) for line in lines]
    assert facts == [(number, k) for number in (500, 3000) for k in (1, 3, 5)]
    sample = len(dosed.layer.fit) + len(dosed.layer.choose)
    assert lines[0]["vectors"] == sample >= 500 and lines[-1]["vectors"] >= 3000
    active = [next(iter(line["best"].values()))["active"] for line in lines]
    assert all(few < many for few, many in zip(active[:3], active[3:], strict=True))
    assert all(line["union"]["active"] > next(iter(line["best"].values()))["active"] for line in lines)
    assert all(line["calls"]["union"]["p_at_1"] >= line["calls"]["own sets in float32"]["p_at_1"] for line in lines)
    assert "K = 5" in clusters.describe(lines[-1]) and "union" in clusters.describe(lines[-1])
    lines = list(published.doses(translator, dosed, 3, [100, 200], [500]))
    assert [line["options"]["budget"] for line in lines] == [100, 200] and "500 vectors" in published.describe(lines[0])
    assert lines[1]["p_at_1"] >= lines[0]["p_at_1"] > 0.3 and "beam 5" in published.describe(lines[1])
    monkeypatch.setattr(
        record, "find", lambda name, options: next(x for x in record.read(name) if x["options"] == options)
    )
    assert list(published.doses(translator, dosed, 3, [100, 200], [500])) == lines
