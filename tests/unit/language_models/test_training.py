"""Training a language model: columns, carried states, perplexity, and resuming after kill -9 with the same losses."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import signal
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from unit.train.test_loop import run_and_signal, write_recipe  # noqa: E402

from sharpbeam.errors import InputError, OptionError  # noqa: E402
from sharpbeam.options.train import DataOptions, Recipe, TrainOptions, VocabularyOptions  # noqa: E402
from sharpbeam.storage.model_folder import read_config  # noqa: E402
from sharpbeam.text.sentencepiece import EOS_ID, UNK_ID  # noqa: E402
from sharpbeam.text.vocabulary import read_vocabularies  # noqa: E402
from sharpbeam.text.words import WordVocabulary  # noqa: E402
from sharpbeam.train.language_model import read_stream, windows  # noqa: E402
from sharpbeam.train.loop import Trainer, learning_rate  # noqa: E402

NEXT = {"a": "bc", "b": "d", "c": "de", "d": "a", "e": "ab"}  # a word has one or two that may follow


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_flush_denormal(False)
    torch.set_num_threads(threads)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A folder with train.txt and valid.txt of the toy language."""
    choose = random.Random(3)
    for name, size in (("train", 120), ("valid", 20)):
        lines = []
        for _ in range(size):
            words = [choose.choice("abcde")]
            while len(words) < 8:
                words.append(choose.choice(NEXT[words[-1]]))
            lines.append(" ".join(words))
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def recipe() -> Recipe:
    """9 words, 1,080 positions in 4 columns: 34 batches an epoch; a checkpoint every 7 steps."""
    return Recipe(
        name="toy",
        data=DataOptions(train=("train.txt",), valid=("valid.txt",)),
        vocabulary=VocabularyOptions(size=30),
        model={"architecture": "lstm-lm", "embedding_dim": 8, "hidden_dim": 12, "layers": 2},
        train=TrainOptions(
            precision="float32",
            max_steps=80,
            batch_tokens=32,
            unroll=8,
            optimizer="sgd",
            learning_rate=8.0,
            warmup_steps=0,
            schedule="epochs",
            hold_epochs=2,
            dropout=0.1,
            label_smoothing=0.0,
            average_decay=0.0,
            threads=1,
            log_every=2,
            validate_every=20,
            checkpoint_every=7,
        ),
    )


def change(recipe: Recipe, **options: object) -> Recipe:
    return dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, **options))


def lines(folder: Path) -> list[dict[str, float]]:
    """The metrics of a run without times."""
    read = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("seconds", "tokens_per_second")} for line in read]


def run(recipe: Recipe, base: Path, output: str) -> list[dict[str, float]]:
    Trainer(recipe, base, base / output).run()
    return lines(base / output)


def test_a_text_is_one_stream_of_words_and_sentence_ends(tmp_path):
    (tmp_path / "text").write_text("a b\n\nb what\n")
    vocabulary = WordVocabulary.build(["a b"], 9)
    a, b = vocabulary.encode("a b")
    assert read_stream(("text",), tmp_path, vocabulary).tolist() == [EOS_ID, a, b, EOS_ID, EOS_ID, b, UNK_ID, EOS_ID]


@pytest.mark.parametrize("skip", [0, 2])
def test_columns_go_on_where_they_were_and_say_the_next_word(skip):
    parts = list(windows(torch.arange(33), 3, 4, skip))
    assert [part.first for part in parts] == [True, False, False][skip:]
    read, target = torch.cat([p.read for p in parts], 1), torch.cat([p.target for p in parts], 1)
    assert read.tolist() == [list(range(start + 4 * skip, start + 10)) for start in (0, 10, 20)]
    assert torch.equal(target, read + 1)


def test_states_are_carried_from_batch_to_batch(recipe, text):
    still = {"learning_rate": 1e-30, "dropout": 0.0, "max_steps": 10, "log_every": 10, "validate_every": 99}
    short = run(change(recipe, **still), text, "short")
    still |= {"max_steps": 1, "log_every": 1}
    long = run(change(recipe, **still, unroll=80, batch_tokens=320), text, "long")
    assert long[0]["nll"] == pytest.approx(short[0]["nll"], rel=1e-6)


def test_perplexity_falls_and_a_model_is_left(recipe, text):
    metrics = run(change(recipe, max_steps=200, validate_every=50), text, "out")
    perplexity = [m["perplexity"] for m in metrics if "perplexity" in m]
    assert perplexity[-1] < 2.5 < perplexity[0]  # nine kinds of words; the language itself has about 1.9
    assert metrics[-1]["perplexity"] == pytest.approx(math.exp(metrics[-1]["valid_nll"]))
    best = text / "out/best"
    assert read_config(best).vocab_size == len(read_vocabularies(best)[0]) == 9
    assert "validation perplexity" in (best / "README.md").read_text()


def test_a_killed_run_goes_on_with_the_same_losses(recipe, text):
    recipe = change(recipe, max_steps=120, validate_every=50)
    path = write_recipe(recipe, text)
    killed = run_and_signal(path, text / "out", signal.SIGKILL, 40)
    assert killed.returncode == -signal.SIGKILL
    assert 40 <= lines(text / "out")[-1]["step"] < 120
    assert run(recipe, text, "out") == run(recipe, text, "whole")
    models = [(text / name / "best/model.safetensors").read_bytes() for name in ("out", "whole")]
    assert models[0] == models[1]


def test_the_rate_falls_by_epochs():
    options = TrainOptions(1, schedule="epochs", learning_rate=8.0, warmup_steps=0, hold_epochs=2, epoch_decay=0.5)
    assert [learning_rate(options, 1, epoch) for epoch in range(5)] == [8.0, 8.0, 4.0, 2.0, 1.0]


def test_what_cannot_be_trained_is_named(recipe, text):
    def refused(error: type[Exception], message: str, recipe: Recipe) -> None:
        with pytest.raises(error, match=message):
            run(recipe, text, "out")

    refused(OptionError, "train.batch_tokens is 7; it must be at least train.unroll, 8", change(recipe, batch_tokens=7))
    two_sides = dataclasses.replace(recipe.data, train_target=("valid.txt",))
    refused(OptionError, "data.train_target .* leave them out", dataclasses.replace(recipe, data=two_sides))
    model = recipe.model | {"encoder_dim": 3}
    refused(OptionError, "recipe: model: unknown option 'encoder_dim'", dataclasses.replace(recipe, model=model))
    refused(InputError, "the text has 1080 words; at least one for each of 2000", change(recipe, batch_tokens=16000))
    (text / "none.txt").write_text("")
    empty = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, valid=("none.txt",)))
    refused(InputError, "the text has 0 words", empty)
    small = dataclasses.replace(recipe, vocabulary=VocabularyOptions(size=8))
    (text / "out/checkpoint.safetensors").touch()  # it would resume
    refused(OptionError, "vocabulary.size is 8, but .*vocab.json of .* has 9 words; set it to that", small)
