"""Texts that are all known: a session of their own has the answers of an open one, and one run serves all calls."""

from __future__ import annotations

import signal
import threading

import pytest

from sharpbeam import Translator
from sharpbeam.api.base import MOST_SESSIONS
from sharpbeam.decoding.lanes import FEW_REQUESTS, MOST_IDLE
from sharpbeam.decoding.loop import Run
from sharpbeam.errors import OptionError
from sharpbeam.search.native import NativeSearch


@pytest.fixture
def opened(monkeypatch):
    runs = []
    begin = Run.__init__
    monkeypatch.setattr(Run, "__init__", lambda self, *parts: runs.append(self) or begin(self, *parts))
    return runs


@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"schedule": "stream"}, {"sampling": True, "seed": 3}])
def test_answers_are_those_of_a_session(tiny_model, sentences, options):
    translator, texts = Translator(tiny_model, threads=1, **options), [sentences[0], " ", *sentences[1:12]]
    with translator.session(schedule="batches") as session:
        handles = session.submit_all(texts)
        session.seal()
        list(session.run())
    expected = [handle.result() for handle in handles]
    assert translator.translate(texts) == expected
    if not options.get("sampling"):  # an answer at random depends on the place of its text
        assert [translator.translate([text])[0] for text in texts] == expected


def test_calls_with_the_same_options_share_a_run(tiny_model, sentences, opened):
    translator = Translator(tiny_model, threads=1)
    once = [translator.translate([text], beam_size=beam)[0] for text in sentences[:6] for beam in (1, 4)]
    again = [translator.translate([text], beam_size=beam)[0] for text in sentences[:6] for beam in (1, 4)]
    assert once == again
    assert len(opened) == 2
    for _ in range(3):
        with translator.session(beam_size=4) as session:
            assert session.submit(sentences[0]).result() == once[1]
    assert len(opened) == 3  # the sessions share one too
    for length in range(1, 2 * MOST_SESSIONS):
        translator.translate(sentences[:1], max_length=length)
    assert len(translator._sessions) <= MOST_SESSIONS
    for length in range(1, 2 * MOST_IDLE):
        with translator.session(max_length=length) as session:
            session.submit(sentences[0]).result()
    assert len(translator.loaded.idle) <= MOST_IDLE
    translator.translate(sentences[: FEW_REQUESTS + 1])
    before = len(opened)
    translator.translate(sentences[:1])
    assert len(opened) == before + 1  # a run of many texts is not kept


def test_a_call_that_ends_early_leaves_nothing(tiny_model, sentences):
    translator = Translator(tiny_model, threads=1)
    expected = translator.translate(sentences[:4])
    results = translator.translate_iter(sentences[:4])
    next(results)
    results.close()
    translator.translate_iter(sentences[:4]).close()  # not even begun
    with pytest.raises(OptionError):
        translator.translate(sentences[:4], target_language="fr")
    assert translator.translate(sentences[:4]) == expected


def test_work_is_counted_once(tiny_model, sentences):
    translator = Translator(tiny_model, threads=1)
    translator.translate(sentences[:1])
    steps = translator.work.steps
    assert steps > 0
    translator.translate(sentences[:1])
    assert (translator.work.steps, translator.work.requests) == (2 * steps, 2)


def test_threads_do_not_share_a_run(tiny_model, sentences):
    translator = Translator(tiny_model, threads=1)
    expected = [translator.translate([text])[0] for text in sentences[:8]]
    outcomes = {}

    def work(number):
        outcomes[number] = [translator.translate([text])[0] for text in sentences[:8]]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert list(outcomes.values()) == [expected] * 4


@pytest.mark.parametrize("beam", [1, 4])
def test_a_text_alone_is_one_call_of_the_core(tiny_model, sentences, beam, monkeypatch):
    translator = Translator(tiny_model, threads=1, beam_size=beam, num_hypotheses=beam)
    prefix = translator.translate(sentences[:1])[0].tokens[0].strip("▁") or "a"
    expected = [translator.translate(sentences[:2], target_prefix=beginning) for beginning in (None, prefix)]
    calls = []
    decode = NativeSearch.decode
    monkeypatch.setattr(NativeSearch, "decode", lambda self, *parts: calls.append(self) or decode(self, *parts))
    monkeypatch.setattr(NativeSearch, "step", None)
    for beginning, answers in zip((None, prefix), expected, strict=True):
        assert [translator.translate([text], target_prefix=beginning)[0] for text in sentences[:2]] == answers
    assert len(calls) == 4


def test_a_signal_ends_a_text_alone(tiny_model, sentences):
    translator = Translator(tiny_model, threads=1)
    expected = translator.translate(sentences[:1])
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            while True:  # one call takes some dozen milliseconds
                translator.translate(sentences[:1], beam_size=16, min_length=254)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert translator.translate(sentences[:1]) == expected


def test_a_model_that_replaces_another_is_used(tiny_model, sentences):
    """Benchmarks watch a model by a copy of it."""
    translator, other = Translator(tiny_model, threads=1), Translator(tiny_model, threads=1)
    answers = translator.translate(sentences[:1])
    translator.loaded = other.loaded
    assert translator.translate(sentences[:1]) == answers
    assert other.work.requests == 1
