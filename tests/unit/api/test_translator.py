"""The Translator on a model folder with random weights: same answers in any company, options, empty and odd texts."""

from __future__ import annotations

import json
import random
import re
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sharpbeam import InputError, MachineOptions, ModelError, OptionError, Translation, Translator
from sharpbeam.decoding.forced import force
from sharpbeam.decoding.inputs import requests_of
from sharpbeam.decoding.session import Session
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.machine import COMPUTE_TYPES
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.storage.model_folder import read_config, read_tensors, save_model

_core = pytest.importorskip("sharpbeam._core", reason="the native core is not built")

OPTIONS = {"max_length": 20, "batch_tokens": 60}
# Of a score or a log probability, where PyTorch may round otherwise in another batch: the random model's logits reach
# some tens, so a last bit of its hidden vectors is worth 1e-5 of a log probability, and scores add up 20 of them.
TORCH_TOLERANCE = 1e-3


@pytest.fixture(scope="module", params=["scalar", "avx2", "avx512", "torch"])
def translator(request: pytest.FixtureRequest, tiny_model: Path) -> Translator:
    """The native model on each kernel table, and the PyTorch twin."""
    if request.param == "torch":
        pytest.importorskip("torch")
        from support.torch_model import torch_translator

        return torch_translator(tiny_model)
    if request.param not in _core.table_names():
        pytest.skip(f"this machine cannot run the kernel table {request.param}")
    return Translator(tiny_model, machine=MachineOptions(isa=request.param))


@pytest.fixture(scope="module")
def native(tiny_model: Path) -> Translator:
    return Translator(tiny_model)


@pytest.fixture(scope="module")
def texts(sentences: list[str]) -> list[str]:
    return sentences[:40]


def assert_same(outcomes: list[Translation], expected: list[Translation], exact: bool) -> None:
    """Equal, to the last bit where `exact`; the padding of PyTorch's batches may change the last bits."""
    assert [[h.tokens for h in t.hypotheses] for t in outcomes] == [[h.tokens for h in t.hypotheses] for t in expected]
    if exact:
        assert outcomes == expected
    for t, w in zip(outcomes, expected, strict=True):
        scores, wanted_scores = ([h.score for h in one.hypotheses] for one in (t, w))
        np.testing.assert_allclose(scores, wanted_scores, rtol=0, atol=TORCH_TOLERANCE)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_one_by_one_is_batch_is_any_order(translator: Translator, texts: list[str], beam_size: int) -> None:
    exact = type(translator.loaded.model).__name__ == "NativeModel"
    # The lower ranks of a random model are near ties, which PyTorch's rounding may settle otherwise in another batch.
    options = OPTIONS | {"beam_size": beam_size, "num_hypotheses": beam_size if exact else 1, "return_scores": True}
    together = translator.translate(texts, **options)
    assert [t.source for t in together] == texts
    assert len({t.text for t in together}) > len(texts) // 2  # the answers depend on the input
    alone = [translator.translate([text], **options)[0] for text in texts]
    assert_same(alone, together, exact)
    order = random.Random(1).sample(range(len(texts)), len(texts))
    shuffled = translator.translate([texts[i] for i in order], **(options | {"batch_tokens": 10_000}))
    assert_same(shuffled, [together[i] for i in order], exact)


@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
def test_any_number_of_threads_gives_the_same_bytes(tiny_model: Path, texts: list[str], compute_type: Any) -> None:
    one, *others = (
        Translator(tiny_model, machine=MachineOptions(threads=threads, compute_type=compute_type)).translate(
            texts, num_hypotheses=3, **OPTIONS
        )
        for threads in (1, 2, 5)
    )
    assert all(answers == one for answers in others)


@pytest.mark.parametrize("schedule", ["stream", "stream-shortest", "stream-longest"])
def test_any_schedule_gives_the_same_bytes(
    native: Translator, tiny_model: Path, texts: list[str], schedule: str
) -> None:
    stream = {"schedule": schedule, "max_rows": 40, "max_step_rows": 13 if schedule == "stream-longest" else None}
    for search in ({}, {"max_score_margin": 3.0, "early_stopping": "proven"}):
        search |= {"num_hypotheses": 2, "max_length": 20, "raw": True}  # which decodes each text once
        expected = native.translate(texts, **search)
        for threads in (1, 3):
            translator = Translator(tiny_model, machine=MachineOptions(threads=threads))
            assert translator.translate(texts[::-1], **search, **stream)[::-1] == expected
            assert translator.work.requests == len([text for text in texts if text.strip()])
            assert translator.work.expansions >= translator.work.steps > 0


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])
def test_every_kernel_table_gives_the_same_bytes(
    native: Translator, tiny_model: Path, texts: list[str], isa: str
) -> None:
    if isa not in _core.table_names():
        pytest.skip(f"this machine cannot run the kernel table {isa}")
    translator = Translator(tiny_model, machine=MachineOptions(isa=isa))
    assert translator.translate(texts, **OPTIONS) == native.translate(texts, **OPTIONS)


def test_native_says_what_pytorch_says(native: Translator, tiny_model: Path, texts: list[str]) -> None:
    pytest.importorskip("torch")
    from support.torch_model import torch_translator

    twin = torch_translator(tiny_model)
    one_by_one = OPTIONS | {"batch_tokens": 1}  # a random model is near ties, which padding may settle otherwise
    assert_same(native.translate(texts, **OPTIONS), twin.translate(texts, **one_by_one), exact=False)


def test_a_saved_model_says_the_same(native: Translator, tiny_model: Path, tmp_path: Path, texts: list[str]) -> None:
    config = read_config(tiny_model)
    vocabulary = {"source.spm": (tiny_model / "source.spm").read_bytes()}
    save_model(tmp_path / "again", config, read_tensors(tiny_model, config), vocabulary, "# again\n")
    assert Translator(tmp_path / "again").translate(texts, **OPTIONS) == native.translate(texts, **OPTIONS)


def test_search_score_is_forced_score(translator: Translator, texts: list[str]) -> None:
    parts = translator.loaded
    outcomes = translator.translate(texts, length_penalty=0.7, **OPTIONS)
    requests = requests_of(parts, texts, DecodeOptions())
    ids = {parts.target.piece(i): i for i in range(len(parts.target))}
    targets = {}
    for index, translation in enumerate(outcomes):
        tokens = [ids[piece] for piece in translation.tokens]
        eos = [parts.model.eos_id] * (len(translation.token_scores) - len(tokens))
        targets[index] = np.array([*tokens, *eos], np.int32)
    queue = RequestQueue(requests, 60)
    tolerance = 0.0 if type(parts.model).__name__ == "NativeModel" else TORCH_TOLERANCE
    for index, log_probs in force(parts.model.open(), parts.exact, targets, parts.model.bos_id, queue):
        np.testing.assert_allclose(log_probs, outcomes[index].token_scores, rtol=0, atol=tolerance)
        score = sum(log_probs.tolist()) / len(log_probs) ** 0.7
        assert score == pytest.approx(outcomes[index].score, rel=1e-12, abs=tolerance)


def test_score_of_given_texts(native: Translator, texts: list[str]) -> None:
    targets = [*texts[1:], ""]
    scored = native.score(texts, targets, length_penalty=0.5, batch_tokens=60)
    assert [answer.text for answer in scored] == targets
    for answer in scored:
        assert len(answer.token_scores) == len(answer.tokens) + 1  # eos
        assert answer.log_prob == sum(answer.token_scores)
        assert answer.score == pytest.approx(answer.log_prob / len(answer.token_scores) ** 0.5)
    alone = [native.score([s], [t], length_penalty=0.5)[0] for s, t in zip(texts, targets, strict=True)]
    assert alone == scored
    with pytest.raises(InputError, match="40 sources but 1 targets"):
        native.score(texts, ["a"])
    with pytest.raises(InputError, match="source 1 is empty"):
        native.score(["Ba.", " "], ["a", "b"])


@pytest.mark.parametrize("threads", [1, 2])
def test_empty_texts_do_not_touch_the_model(tiny_model: Path, threads: int) -> None:
    class Untouched:
        bos_id, eos_id = 1, 2

    translator = Translator(tiny_model, machine=MachineOptions(threads=threads))
    translator.loaded = replace(translator.loaded, model=Untouched())
    outcomes = translator.translate(["", "   ", "\t", "\u3000"])
    assert [(t.text, t.tokens, t.truncated) for t in outcomes] == [("", (), False)] * 4
    assert translator.translate([]) == []
    assert translator.score([], []) == []


def test_empty_lines_keep_their_place(native: Translator, texts: list[str]) -> None:
    mixed = ["", texts[0], " ", texts[1], ""]
    outcomes = native.translate(mixed, **OPTIONS)
    expected = native.translate(texts[:2], **OPTIONS)
    assert [t.text for t in outcomes] == ["", expected[0].text, "", expected[1].text, ""]


@pytest.mark.parametrize("text", ["a\0b", "\x01\x02\x7f", "\ufffd", "漢字 🙂", "\u200b", "ba " * 7000, "x" * 20_000])
def test_odd_texts_have_an_answer(native: Translator, text: str) -> None:
    (translation,) = native.translate([text], max_length=5)
    assert isinstance(translation.text, str) and translation.source == text


def test_a_long_text_is_cut_and_said(native: Translator, caplog: pytest.LogCaptureFixture) -> None:
    pieces = native.loaded.source.encode("ba di ko ")
    long, short = native.translate([("ba di ko " * 50).strip(), "ba"], max_input_length=len(pieces) + 1, max_length=5)
    assert long.truncated and not short.truncated
    assert caplog.text.count("tokens; all after the first") == 1 and "text 'ba di ko ba" in caplog.text
    (cut,) = native.translate(["ba di ko"], max_length=5)
    assert not cut.truncated and cut.hypotheses == long.hypotheses
    (whole,) = native.translate(["ba di ko " * 500], max_input_length=0, max_length=5)
    assert not whole.truncated and whole != long


def test_bad_texts_are_refused_by_place(native: Translator) -> None:
    with pytest.raises(InputError, match="text 1 holds half a character"):
        native.translate(["a", "b\ud800"])
    with pytest.raises(InputError, match="text 0 is 3"):
        native.translate([3])
    with pytest.raises(InputError, match="give a list of texts"):
        native.translate("Guten Morgen")


def test_options_are_checked_before_any_work(native: Translator) -> None:
    with pytest.raises(OptionError, match=r"unknown option 'beam_sise'\. Did you mean 'beam_size'"):
        native.translate(["ba"], beam_sise=3)
    with pytest.raises(OptionError, match=r"beam_size is 201; it must be at most 200"):
        native.translate_iter(["ba"], beam_size=201)
    for wrong in ({"beam_size": 0}, {"beam_size": -1}, {"beam_size": "5"}, {"beam_size": 2, "num_hypotheses": 3}):
        with pytest.raises(OptionError, match=r"beam_size|num_hypotheses"):
            native.translate_iter([], **wrong)
    early = [native.translate(["Ba di."], early_stopping=e, max_length=9) for e in (True, "true", False, "false")]
    assert early[0] == early[1] and early[2] == early[3]


def test_lengths_are_kept(native: Translator, texts: list[str]) -> None:
    outcomes = native.translate(texts, min_length=4, max_length=6, batch_tokens=60)
    lengths = {(len(t.tokens), len(t.token_scores)) for t in outcomes}
    assert lengths <= {(4, 5), (5, 6), (6, 6)}
    assert (6, 6) in lengths  # max_length was reached, without eos


def test_widest_beam(native: Translator) -> None:
    (translation,) = native.translate(["Ba di."], beam_size=200, num_hypotheses=200, max_length=3)
    assert len({h.tokens for h in translation.hypotheses}) == 200
    scores = [h.score for h in translation.hypotheses]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("threads", [1, 3])
def test_stopping_early_leaves_no_thread(tiny_model: Path, texts: list[str], threads: int) -> None:
    translator = Translator(tiny_model, machine=MachineOptions(threads=threads))
    results = translator.translate_iter(texts, max_length=50, batch_tokens=10)
    index, translation = next(results)
    assert translation.source == texts[index]
    results.close()

    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        translator.translate(texts, progress=interrupt, max_length=50, batch_tokens=10)
    assert not [t for t in threading.enumerate() if t.name.startswith("sharpbeam-")]


@pytest.mark.parametrize("count", [1, 9])
def test_a_translator_whose_step_was_interrupted_translates_again(
    tiny_model: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    translator = Translator(tiny_model, threads=1)
    expected = translator.translate(texts[:count], beam_size=3)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Session, "_settle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            translator.translate(texts[:count], beam_size=3)
    assert translator.translate(texts[:count], beam_size=3) == expected


def test_progress_counts_every_text(native: Translator, texts: list[str]) -> None:
    counts: list[int] = []
    native.translate(["", *texts], progress=counts.append, **OPTIONS)
    assert sum(counts) == len(texts) + 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_that_gives_nan_names_the_text(tiny_model: Path, texts: list[str], threads: int) -> None:
    translator = Translator(tiny_model, machine=MachineOptions(threads=threads))
    sound = translator.loaded.exact

    class Broken(RowLayer):
        vocab_size = sound.vocab_size

        def topk(self, hidden, k):
            top = sound.topk(hidden, k)
            top.log_prob[-1, 0] = np.nan
            return top

    translator.loaded = replace(translator.loaded, exact=Broken())
    with pytest.raises(ModelError, match=r"request \d+: after 0 tokens .* NaN"):
        translator.translate(texts, **OPTIONS)


def test_a_vocabulary_of_another_size_is_refused(native: Translator, tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"source_vocab_size": 200', '"source_vocab_size": 300'))
    with pytest.raises(ModelError, match="300"):
        Translator(folder)


def test_texts_that_are_no_list_are_refused(native: Translator) -> None:
    for texts, kind in (((text for text in ["Ba."]), "generator"), ({"Ba.": 1}, "dict"), ({"Ba."}, "set")):
        with pytest.raises(InputError, match=f"the texts are a {kind}; give a list"):
            native.translate(texts)  # type: ignore[arg-type]


def test_a_session_keeps_what_is_said_of_its_schedule(native: Translator) -> None:
    with native.session(refill_at=0.1) as session:
        assert (session.options.schedule.schedule, session.options.schedule.refill_at) == ("stream", 0.1)
    with native.session(max_wait=5) as session:
        assert session.options.schedule.max_wait == 5
    session.close()
    with pytest.raises(InputError, match="started already, or closed"):
        session.start()


def test_the_output_of_an_ensemble_is_made_once(tiny_model: Path) -> None:
    model = Translator([tiny_model, tiny_model]).loaded.model
    assert model.output()[0] is model.output()[0]


def test_a_model_that_stops_early_can_sample(tiny_model: Path, tmp_path: Path, texts: list[str]) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"decoding": {"early_stopping": "true"}}))
    assert Translator(folder).translate(texts[:1], sampling=True)


@pytest.mark.parametrize("name", ["unk_id", "bos_id", "eos_id", "pad_id"])
def test_special_ids_must_be_those_of_the_vocabulary(tiny_model: Path, tmp_path: Path, name: str) -> None:
    config = read_config(tiny_model)
    vocabulary = {"source.spm": (tiny_model / "source.spm").read_bytes()}
    save_model(tmp_path / "odd", replace(config, **{name: 9}), read_tensors(tiny_model, config), vocabulary, "# odd\n")
    with pytest.raises(ModelError, match=f"{name} is 9 in config.json, but {getattr(config, name)} in the source"):
        Translator(tmp_path / "odd")


def test_options_of_the_machine_by_name(tiny_model: Path, texts: list[str]) -> None:
    named = Translator(tiny_model, threads=1, compute_type="int8")
    expected = Translator(tiny_model, machine=MachineOptions(threads=1, compute_type="int8"))
    assert named.translate(texts[:3]) == expected.translate(texts[:3])
    for options, message in (
        ({"compute": "int8"}, "unknown option 'compute'. Did you mean 'compute_type'"),
        ({"threads": -1}, "threads is -1"),
        ({"threads": "two"}, "threads is 'two'; it must be a whole number"),
        ({"compute_type": "int8_float32"}, "it must be int8, which takes its place"),
        ({"machine": 3}, "machine is 3; it must be MachineOptions"),
        ({"machine": MachineOptions(), "threads": 2}, "left out if its options are given by name: threads"),
    ):
        with pytest.raises(OptionError, match=re.escape(message)):
            Translator(tiny_model, **options)  # type: ignore[arg-type]


def test_lines_have_the_rules_of_the_language_that_the_folder_names(tmp_path: Path) -> None:
    """German dates end no sentence: with the rules of English "am 12. Juni" was two."""
    text = "Wir treffen uns am 12. Juni. Das Konzert ist am 5. Mai."
    whole = [text[:28], text[29:]]
    folder = Path(__file__).parents[3] / "models/de-en"
    (tmp_path / "de-en-small").mkdir()
    for name in ("model", "de-en-small/best"):
        (tmp_path / name).symlink_to(folder)
    named, unnamed, trained = map(Translator, (folder, tmp_path / "model", tmp_path / "de-en-small/best"))
    expected = " ".join(answer.text for answer in named.translate(whole, raw=True))
    assert named.translate([text])[0].text == trained.translate([text])[0].text == expected
    assert unnamed.translate([text])[0].text != expected
