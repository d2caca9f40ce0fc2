"""A model of several directions from its recipe to screens per direction, translations, and the table of CVP 2.2."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sacrebleu")

from sharpbeam import Translator
from sharpbeam.cli.main import main as sharpbeam
from sharpbeam.output_layers.registry import find_artifact
from sharpbeam.storage.artifacts import read_facts

ROOT = Path(__file__).parents[3]
DIRECTIONS = ("de-en", "en-de", "fr-en", "en-fr")
ENDINGS = {"eng": "", "deu": "ung", "fra": "eau"}  # a word is the same in all languages, but for its end
STEMS = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu")
RECIPE = """
name = "three"
[data]
train = ["tatoeba/eng-deu.train.tsv.gz", "tatoeba/eng-fra.train.tsv.gz"]
valid = ["tatoeba/eng-deu.valid.tsv.gz", "tatoeba/eng-fra.valid.tsv.gz"]
languages = ["en-de", "en-fr"]
[vocabulary]
size = 48
[model]
architecture = "transformer"
hidden_dim = 16
encoder_layers = 1
decoder_layers = 1
encoder_heads = 2
decoder_heads = 2
encoder_ffn_dim = 24
decoder_ffn_dim = 24
norm = "pre"
shared_embedding = true
tied_output = true
[train]
max_steps = 120
batch_tokens = 300
learning_rate = 1e-2
warmup_steps = 10
dropout = 0.0
average_decay = 0.9
threads = 1
validate_every = 120
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sets of Tatoeba's names in the made-up languages, and a model that was trained on them."""
    home = tmp_path_factory.mktemp("three")
    (home / "tatoeba").mkdir()
    choose = random.Random(4)
    for other in ("deu", "fra"):
        for part, size in (("train", 120), ("valid", 6), ("test", 12)):
            lines = []
            for _ in range(size):
                stems = choose.choices(STEMS, k=choose.randint(1, 6))
                lines.append("\t".join(" ".join(stem + ENDINGS[code] for stem in stems) for code in ("eng", other)))
            with gzip.open(home / "tatoeba" / f"eng-{other}.{part}.tsv.gz", "wt", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
    (home / "three.toml").write_text(RECIPE)
    assert sharpbeam(["train", str(home / "three.toml"), "--output", str(home / "run")]) == 0
    return home


def test_from_recipe_to_translations_with_screens_per_direction(
    data: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    model, texts = data / "run" / "best", []
    for direction in DIRECTIONS:
        other = {"de": "deu", "fr": "fra"}[direction.replace("en", "").strip("-")]
        with gzip.open(data / "tatoeba" / f"eng-{other}.train.tsv.gz", "rt", encoding="utf-8") as file:
            lines = [line.rstrip("\n").split("\t")[direction.startswith("en") - 1] for line in file]
        path = data / f"{direction}.txt"
        path.write_text("\n".join(lines) + "\n")
        texts += ["--text", f"{direction}={path}"]
    flags = "--per direction --method kmeans --clusters 3 --fidelity 0.5 --tolerance inf --beam-size 1 --top-k 1"
    assert sharpbeam(["fit", "screen", str(model), *texts, *flags.split(), "--keep-best"]) == 0
    assert tuple(read_facts(model, find_artifact("screen"))["screens"]) == DIRECTIONS
    for direction in DIRECTIONS:
        source, target = direction.split("-")
        languages = ["--source-language", source] * (source != "en") + ["--target-language", target]
        command = ["translate", str(model), str(data / f"{direction}.txt"), "--beam-size", "1", *languages]
        capfdbinary.readouterr()
        assert sharpbeam(command) == 0
        exact = capfdbinary.readouterr().out.splitlines()
        if source == "en":
            command += ["--source-language", source]
        assert sharpbeam([*command, "--output-layer", "screen"]) == 0
        screened = capfdbinary.readouterr().out.splitlines()
        assert sum(a == b for a, b in zip(exact, screened, strict=True)) > 0.5 * len(exact) == 60
    model_ = Translator(model)
    german, french = (model_.translate(["ba ce"], target_language=code)[0].text for code in ("de", "fr"))
    assert german != french  # the language flag decides


def test_the_table_of_directions(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one cluster a set is the union of its directions' best words, so shares can be counted by hand."""
    monkeypatch.syspath_prepend(str(ROOT))
    directions: Any = pytest.importorskip("bench.papers.cvp.directions", exc_type=ModuleNotFoundError)
    from bench.harness import record

    monkeypatch.setattr(directions, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    options: dict[str, Any] = {
        "clusters": 1,
        "best": [1],
        "fidelity": 0.9,
        "vectors": 200,
        "sentences": 10,
        "beam_size": 2,
    }
    directions.main(str(data / "run/best"), str(data), **options)
    lines = record.read("directions")
    results = {(line["options"]["kind"], line["options"]["scope"]): line["directions"] for line in lines}
    kinds, scopes = ("best 1", "fidelity 0.9"), ("direction", "target", "all")
    assert list(results) == [(kind, scope) for kind in kinds for scope in scopes]
    assert all(tuple(row["direction"] for row in rows) == DIRECTIONS for rows in results.values())
    bench = directions.Bench(str(data / "run/best"), str(data), 200, 10, 2)
    active = {
        scope: dict(zip(DIRECTIONS, (row["active"] for row in results["best 1", scope]), strict=True))
        for scope in scopes
    }
    best = {
        text.name: {int(t) for part in bench.fit[text.direction.languages].parts for t in part["token"][:, 0]}
        for text in bench.texts
    }
    for name in DIRECTIONS:
        into = set().union(*(best[other] for other in DIRECTIONS if other[-2:] == name[-2:]))
        everything = set().union(*best.values())
        for scope, most in (("direction", best[name]), ("target", into), ("all", everything)):
            assert 0.3 * len(most) < active[scope][name] * 48 <= len(most) + 1e-3  # some sentences are held out
        assert active["direction"][name] <= active["target"][name] <= active["all"][name]
    assert len(set(active["all"].values())) == 1 < len(set(active["direction"].values()))
    assert active["target"]["de-en"] == active["target"]["fr-en"] < active["all"]["fr-en"]
    for (kind, _), rows in results.items():
        for row in rows:
            assert 0 <= row["p_at_5"] <= row["fidelity"] + 1 and 0 <= row["same"] <= 1 and row["rows"] > 0
            assert row["bleu"] == row["bleu_exact"] or row["same"] < 1
            assert kind != "best 1" or row["fallback"] == 0
    shown = capsys.readouterr().out
    assert shown.count("best 1, per ") == 3 and "fidelity 0.9, mean of 4 directions" in shown
