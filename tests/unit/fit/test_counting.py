"""Counting beyond a stored sample: the sets of a fit that stores all, killed or not, in bounded memory."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sharpbeam.decoding.loading import LoadedModel, load_model
from sharpbeam.errors import InputError
from sharpbeam.fit import collect
from sharpbeam.fit.collect import Collector, Records
from sharpbeam.fit.progress import FitProgress, Reporter
from sharpbeam.fit.screen import counting, job
from sharpbeam.fit.screen.clusters import Tally, assign, kmeans, knapsack
from sharpbeam.fit.screen.counting import Source, count_more
from sharpbeam.fit.screen.job import fit_screen
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.fit import ScreenOptions
from sharpbeam.output_layers.scan import ScanLayer

BEAM, K = 2, 4
EOS = np.array([2], np.int32)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of ten lines, and a state after each."""
    monkeypatch.setattr(collect, "LINES", 10)
    monkeypatch.setattr(counting, "SAVED_SECONDS", 0.0)


@pytest.fixture(scope="module")
def parts(tiny_model: Path) -> LoadedModel:
    return load_model(tiny_model, MachineOptions())


@pytest.fixture(scope="module")
def stored(parts: LoadedModel, sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> Records:
    """Every vector of the text, kept."""
    scanned = replace(parts, exact=ScanLayer.build(*parts.model.output()))
    collector = Collector(scanned, tmp_path_factory.mktemp("stored"), BEAM, K)
    return collector.collect(sentences, {}, 10**9, lambda _: None).read()


@pytest.mark.parametrize(
    ("method", "budget", "neighbors"), [("kmeans", 0, False), ("spherical", 25, False), ("kmeans", 25, True)]
)
def test_counted_sets_are_those_of_a_stored_fit(
    tiny_model: Path, sentences: list[str], stored: Records, tmp_path: Path, monkeypatch, method, budget, neighbors
) -> None:
    """The same clusters: a set holds what all vectors need that neither chose nor measured, stored or not."""
    monkeypatch.setattr(job, "STORED", 400)
    model, text = shutil.copytree(tiny_model, tmp_path / "model"), tmp_path / "text"
    text.write_text("".join(f"{sentence}\n" for sentence in sentences))
    reports: list[FitProgress] = []
    options = ScreenOptions(
        method=method, clusters=6, budget=budget, fidelity=0, beam_size=BEAM, top_k=K, set_k=2, neighbors=neighbors
    )
    fitted = fit_screen(model, text, options=options, vectors=len(stored), progress=reports.append)
    screen = fitted.screens[""].screen
    sample = next(n for n in range(10, 1000, 10) if np.count_nonzero(stored["sentence"] < n) >= 400)
    used = stored[(stored["sentence"] >= sample) | (stored["sentence"] % 10 > 2)]
    assert len(used) > 3 * 400  # most vectors are only counted
    hidden, top = np.ascontiguousarray(used["hidden"]), used["token"]
    label = assign(hidden, screen.weight, screen.bias)
    tally = Tally(screen.weight, screen.bias, 10_000, 2, neighbors)
    tally.add(hidden, top)
    counts = tally.counts(EOS)
    kept = knapsack(counts, budget)
    for cluster in range(6):
        got = screen.token[screen.start[cluster] : screen.start[cluster + 1]].tolist()
        assert got == counts.token[kept & (counts.cluster == cluster)].tolist()
        if not budget:
            assert got == np.union1d(top[label == cluster, :2], EOS).tolist()
    stages = list(dict.fromkeys(report.stage for report in reports if report.stage))
    assert stages == ["collecting", "counting"]
    assert f"{len(used):,} of them in the sets" in "".join(report.note for report in reports)
    assert not model.with_name("model.vectors").exists()


def test_the_best_clustering_of_the_sample_is_counted(
    tiny_model: Path, sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fidelity the counted screen is one more setting, in which fewer rows fall back."""
    monkeypatch.setattr(job, "STORED", 1000)
    monkeypatch.setattr(collect, "FACTOR", 100.0)  # the toy's long loops differ
    model, text = shutil.copytree(tiny_model, tmp_path / "model"), tmp_path / "text"
    text.write_text("".join(f"{sentence}\n" for sentence in sentences))
    options = ScreenOptions(method="kmeans", fidelity=0.5, tolerance=float("inf"), beam_size=BEAM, top_k=K)
    fitted = fit_screen(model, text, options=options, vectors=10**9, keep_best=True).screens[""]
    counted = [s for s in fitted.curve if s.clusters == fitted.setting.clusters and s.budget == 0]
    assert len(counted) == 2 and counted[1].measure.average_set > counted[0].measure.average_set
    assert counted[1].measure.sufficient > counted[0].measure.sufficient


def tally_of(collector: Collector, lines: list[str], top_k: int = K) -> tuple[Source, Tally]:
    """A sample of some 200 vectors in five clusters, counted."""
    sample = collector.collect(lines, {}, 200, lambda _: None)
    records = sample.read()
    hidden = np.ascontiguousarray(records["hidden"])
    tally = Tally(*kmeans(hidden, 5, 1), collector.parts.vocab_size, top_k, neighbors=True)
    tally.add(hidden, records["token"])
    return Source(collector, lines, sample), tally


def counts_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("counts-*")}


def test_a_killed_count_resumes_to_the_same_bytes(parts: LoadedModel, sentences: list[str], tmp_path: Path) -> None:
    def killed(lines: Iterable[str], after: int) -> Iterator[str]:
        for number, line in enumerate(lines):
            if number == after:
                raise KeyboardInterrupt
            yield line

    whole, torn, steps = (Collector(parts, tmp_path / name, BEAM, K) for name in ("whole", "torn", "steps"))
    source, tally = tally_of(whole, sentences)
    number = count_more([source], [tally], "clusters", 5000, Reporter())
    assert 5000 <= number == tally.rows.sum()
    source, other = tally_of(torn, sentences)
    with pytest.raises(KeyboardInterrupt):
        count_more([replace(source, lines=killed(sentences, 45))], [other], "clusters", 5000, Reporter())
    seen: list[FitProgress] = []
    source, other = tally_of(torn, sentences)
    other.weight = other.weight * np.float32(1 + 1e-6)  # another machine's: those that were kept are taken
    assert count_more([source], [other], "clusters", 5000, Reporter(seen.append)) == number
    assert 200 < next(report.done for report in seen if report.done) < number  # the killed run's are not decoded again
    source, other = tally_of(steps, sentences)
    count_more([source], [other], "clusters", 2500, Reporter())
    count_more([source], [other], "clusters", 5000, Reporter())
    assert counts_in(torn.folder) == counts_in(whole.folder)
    assert counts_in(whole.folder).items() < counts_in(steps.folder).items()
    source, other = tally_of(steps, sentences)
    assert count_more([source], [other], "clusters", 2500, Reporter()) < number  # a longer count is none of fewer
    next(steps.folder.glob("counts-*-2500.*")).write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"counts-.*-2500.safetensors cannot be read .*; remove it"):
        count_more([source], [other], "clusters", 2500, Reporter())


def test_counting_keeps_no_vectors(parts: LoadedModel, sentences: list[str], tmp_path: Path) -> None:
    """Four times the text takes a key of each line more memory, and no more files."""
    peaks = []
    for times in (1, 4):
        lines = [f"{sentence}{'.' * i}" for i in range(1, times + 1) for sentence in sentences]  # all different
        source, tally = tally_of(Collector(parts, tmp_path / str(times), BEAM, K), lines)
        tracemalloc.start()
        number = count_more([source], [tally], "", 10**9, Reporter())
        peaks.append((number, tracemalloc.get_traced_memory()[1], len(list(source.collector.folder.iterdir()))))
        tracemalloc.stop()
    assert peaks[1][0] > 3.9 * peaks[0][0]
    assert peaks[1][1] < peaks[0][1] + 200 * 3 * len(sentences) and peaks[1][2] == peaks[0][2]


def test_a_tally_in_parts_is_that_of_all_and_of_a_table() -> None:
    draw = np.random.default_rng(1)
    hidden = draw.normal(size=(900, 3)).astype(np.float32)
    top = np.argsort(draw.random((900, 40)), axis=1)[:, :4].astype(np.int32)
    clusters = kmeans(hidden, 7, 1)
    whole, torn = Tally(*clusters, 40, 3, True), Tally(*clusters, 40, 3, True)
    whole.add(hidden, top)
    label = np.concatenate([torn.add(hidden[i : i + 128], top[i : i + 128]) for i in range(0, 900, 128)])
    for field in counting.FIELDS:
        assert getattr(whole, field).tobytes() == getattr(torn, field).tobytes()
    table = np.zeros((7, 40), int)
    np.add.at(table, (label[:, None], top[:, :3]), 1)
    table[:, 2] = np.bincount(label)
    counts = torn.counts(EOS)
    assert counts.rows.tolist() == np.bincount(label).tolist()
    got = np.zeros_like(table)
    got[counts.cluster, counts.token] = counts.count
    assert got.tolist() == table.tolist()
