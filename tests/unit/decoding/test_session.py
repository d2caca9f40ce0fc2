"""Sessions: requests that come, are cancelled and fail while others are decoded have the answers of one batch."""

from __future__ import annotations

import concurrent.futures
import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.toys import SESSION, ToyLayer, ToyModel, texts_of, toy_loaded, toy_session

from sharpbeam import InputError, MachineOptions, ModelError, OptionError, Partial, Translator
from sharpbeam.decoding.handle import Handle
from sharpbeam.decoding.lanes import Lane
from sharpbeam.decoding.loop import Alone
from sharpbeam.decoding.session import Session
from sharpbeam.decoding.workers import run_workers
from sharpbeam.errors import RequestCancelledError
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.native import NativeSearch
from sharpbeam.types import Floats, TopK

REQUESTS = 1000


@pytest.fixture(scope="module", params=[("float32", "exact"), ("int8", "scan")], ids="-".join)
def batch(request: pytest.FixtureRequest, tiny_model: Path, sentences: list[str]) -> tuple[Translator, list[str], Any]:
    """A translator, 1,000 texts, and their translations as one batch."""
    compute_type, output_layer = request.param
    translator = Translator(tiny_model, threads=2, compute_type=compute_type, output_layer=output_layer, **SESSION)
    draw = random.Random(1)
    texts = [" ".join(draw.choice(sentences).split()[: draw.randint(1, 6)]) for _ in range(REQUESTS)]
    return translator, texts, translator.translate(texts)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("schedule", [{}, {"schedule": "batches"}, {"schedule": "stream-shortest", "max_rows": 40}])
def test_requests_at_random_times_some_cancelled_have_the_answers_of_one_batch(batch, workers, schedule) -> None:
    translator, texts, expected = batch
    draw = random.Random(workers)
    handles: list[tuple[int, Handle[Any]]] = []
    order = draw.sample(range(REQUESTS), REQUESTS)
    lock = threading.Lock()

    def submit(places: list[int], seed: int) -> None:
        own = random.Random(seed)
        for place in places:
            handle = session.submit(texts[place], priority=own.choice([0, 0, 1]))
            with lock:
                handles.append((place, handle))
                victim = own.choice(handles[-20:])[1] if own.random() < 0.3 else None
            if victim is not None:
                victim.cancel()
            if own.random() < 0.1:
                time.sleep(own.random() * 0.003)

    with translator.session(**schedule) as session:
        session.start(workers)
        callers = [threading.Thread(target=submit, args=(order[i::3], i)) for i in range(3)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        concurrent.futures.wait([handle for _, handle in handles])
        assert (session.pending, session.waiting) == (0, 0)
        end = time.monotonic() + 20
        while session.live:  # a cancelled one leaves at the next step
            assert time.monotonic() < end
    cancelled = [handle for _, handle in handles if handle.cancelled()]
    assert 10 < len(cancelled) < REQUESTS / 2
    for place, handle in handles:
        if not handle.cancelled():
            assert handle.result() == expected[place]
    with pytest.raises(RequestCancelledError, match="was cancelled"):
        cancelled[0].result()


def test_requests_enter_between_the_steps_of_others(batch) -> None:
    translator, texts, expected = batch
    with translator.session() as session:
        handles, finished, most = [], list[Handle[Any]](), 0
        for place in range(40):
            handles.append(session.submit(texts[place]))
            finished += session.step()
            most = max(most, session.live)
            assert session.pending == session.live + session.waiting
        assert most > 3
        while session.pending:
            finished += session.step()
        assert session.step() == []
    assert [handle.result() for handle in handles] == expected[:40]
    assert set(finished) == set(handles) and len(finished) == 40
    assert finished != handles  # short ones are finished before long ones that came earlier


def test_a_prepared_session_reads_no_layer_for_its_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    session = toy_session()
    session.prepare()
    monkeypatch.setattr(type(session.loaded), "output_layer", None)
    (text,) = texts_of(1)
    with session:
        session.submit(text)
        assert [handle.text for handle in session.run()] == [text]


def test_a_session_takes_one_step_at_a_time_unless_it_is_sealed(batch) -> None:
    translator, texts, expected = batch
    steps = []
    for sealed in (False, True):
        with translator.session() as session:
            handle = session.submit(texts[0])
            if sealed:
                session.seal()
                with pytest.raises(InputError, match="the session is sealed"):
                    session.submit("ba")
            count = 0
            while not handle.done():
                session.step()
                count += 1
            assert handle.result() == expected[0]
            steps.append(count)
            assert session.loaded.work.steps >= count
    assert steps[0] > steps[1] == 1


def test_requests_with_different_options_are_decoded_together(batch) -> None:
    translator, texts, _ = batch
    kinds: list[dict[str, Any]] = [
        {},
        {"beam_size": 1, "num_hypotheses": 1},
        {"sampling": True, "seed": 3, "beam_size": 5},
        {"return_attention": True},
        {"return_alternatives": True, "num_hypotheses": 3},
        {"coverage_penalty": 0.5},
        {"cube_pruning": "exact"},
        {"max_input_length": 4},
        {"output_layer": "exact", "target_prefix": "Bade"},
    ]
    with translator.session() as session:
        handles = [[session.submit(text, **kind) for text in texts[:6]] for kind in kinds]
        session.step()
        assert session.live > 6  # of several lanes
        assert len(list(session.run())) == 6 * len(kinds)
        for kind, own in zip(kinds, handles, strict=True):
            alone = translator.translate(texts[:6], **kind)
            assert [handle.result() for handle in own] == alone, kind
        assert len({str([handle.result() for handle in own]) for own in handles}) >= len(kinds) - 1
        whole = session.submit(texts[0], options=DecodeOptions.of(**SESSION, output_layer="exact"))
        list(session.run())
        assert whole.result().hypotheses[0].tokens == translator.translate(texts[:1], output_layer="exact")[0].tokens


def test_a_request_that_is_alone_goes_on_until_others_come(batch) -> None:
    translator, texts, expected = batch

    def calls(alone: Alone, interrupted: bool) -> int:
        with translator.session() as session:
            assert session.submit(texts[1]).result() == expected[1]
            handle, count = session.submit(texts[0]), 0
            while not handle.done():
                for worker in session._workers if interrupted else ():
                    worker.interrupt()
                session.step(alone)
                count += 1
            assert handle.result() == expected[0]
            return count

    single = calls("one step", False)
    assert calls("until others come", False) <= 2 < single
    assert calls("until others come", True) == single


def test_many_kinds_of_options_are_forgotten_when_they_are_done() -> None:
    texts = texts_of(3)
    with toy_session() as session:
        for number in range(60):
            handles = session.submit_all(texts, length_penalty=number / 10)
            list(session.run())
            assert all(handle.done() for handle in handles)
        assert len(session._lanes) <= 17 and len(session._lane_of) <= 18 and len(session._workers[0].runs) <= 18
        again = session.submit(texts[0], length_penalty=0.0)
        list(session.run())
        assert again.result().score == again.result().hypotheses[0].log_prob


def test_what_there_is_of_an_answer_can_be_seen_before_it_is_done(batch) -> None:
    translator, texts, _ = batch
    kept: dict[Handle[Any], list[Partial]] = {}
    with translator.session(beam_size=3, num_hypotheses=3, max_length=12) as session:
        handles = session.submit_all(texts[:12])
        assert handles[0].partial() == Partial((), "")
        before = 0
        while session.pending:
            session.step()
            for handle in handles:
                seen = handle.partial()
                if handle.done():
                    assert seen == Partial(handle.result().hypotheses, handle.result().text)
                    continue
                before += len(seen.hypotheses)
                scores = [hypothesis.score for hypothesis in seen.hypotheses]
                assert scores == sorted(scores, reverse=True)
                kept[handle] = [*kept.get(handle, []), seen]
    grew = [len(seen[-1].text) > len(seen[0].text) for seen in kept.values() if len(seen) > 2]
    assert before > 0 and grew and all(grew)
    answers = [(seen[-1].hypotheses, handle.result().hypotheses) for handle, seen in kept.items()]
    stayed = [early[0] in final for early, final in answers if early]
    assert sum(stayed) > len(stayed) / 2  # what is finished early is mostly an answer, with its final score


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_request_alone_takes_all_its_steps_in_one_call(tiny_model, sentences, beam_size, monkeypatch) -> None:
    translator = Translator(tiny_model, beam_size=beam_size)
    (expected,) = translator.translate(sentences[:1])
    calls: list[str] = []
    for name in ("step", "decode"):
        method = getattr(NativeSearch, name)
        counted = lambda *inputs, name=name, method=method: (calls.append(name), method(*inputs))[1]  # noqa: E731
        monkeypatch.setattr(NativeSearch, name, counted)
    with translator.session() as session:
        assert session.submit(sentences[0]).result() == expected
        assert calls == ["decode"] and session.live == session.pending == 0
        first, second = session.submit_all(sentences[:2])
        assert first.result() == expected and "step" in calls  # in company every step is one call
        assert second.result() == translator.translate(sentences[1:2])[0]
        third = session.submit(sentences[0])
        session.step()
        assert third.partial().text != "" and third.result() == expected


def test_closing_cancels_what_is_not_done() -> None:
    with toy_session() as session:
        handles = session.submit_all(texts_of(9))
        session.step()
    assert all(handle.cancelled() for handle in handles) and session.pending == 0
    assert session.loaded.work.steps == 1
    with pytest.raises(InputError, match="the session is closed"):
        session.submit("3")
    assert session.step() == [] and list(session.run()) == []


class Broken(ToyLayer):
    """Says NaN after a token 7."""

    def topk(self, hidden: Floats, k: int) -> TopK:
        top = super().topk(hidden, k)
        if len(hidden) == 7:
            top.log_prob[0, 0] = np.nan
        return top


@pytest.mark.parametrize("after", ["step", "settle"])
def test_an_interrupt_closes_a_session_and_no_answer_is_wrong(monkeypatch: pytest.MonkeyPatch, after: str) -> None:
    """It comes when the core is a step ahead of the run, or before answers are stored."""
    session, texts = toy_session(), texts_of(6)
    handles = session.submit_all(texts)
    expected = [handle.result().hypotheses for handle in toy_session().submit_all(texts)]
    name, of = ("step", BeamSearch) if after == "step" else ("_settle", Session)
    plain = getattr(of, name)

    def interrupted(self: Any, *given: Any) -> None:
        if after == "step":
            plain(self, *given)
        raise KeyboardInterrupt

    for _ in range(3):
        session.step()
    with monkeypatch.context() as patch:
        patch.setattr(of, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            while True:
                session.step()
    for handle, answer in zip(handles, expected, strict=True):
        try:
            assert handle.result(timeout=5).hypotheses == answer  # it was done before
        except InputError as error:
            assert "the session was interrupted, and is closed" in str(error)
    with pytest.raises(InputError, match="the session is closed"):
        session.submit(texts[0])
    session.close()


def test_a_run_that_cannot_be_opened_fails_its_requests_and_others_are_answered(monkeypatch) -> None:
    session, texts = toy_session(), texts_of(3)
    session.start(1)

    def full(*_: Any) -> None:
        raise MemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(Lane, "open", full)
        with pytest.raises(MemoryError):
            session.submit(texts[0]).result(timeout=20)
    assert session.submit(texts[1]).result(timeout=20).text
    session.close()


def test_an_error_ends_the_requests_it_concerns_and_no_others() -> None:
    session = toy_session(layer=Broken)
    others = session.submit_all(texts_of(8), beam_size=1, num_hypotheses=1)
    session.step()
    failing = session.submit_all(texts_of(7))  # 7 rows in their first step
    finished = session.step()
    assert set(failing) <= set(finished)
    for handle in failing:
        with pytest.raises(ModelError, match="NaN"):
            handle.result()
        assert isinstance(handle.exception(), ModelError)
    later = session.submit_all(texts_of(2))
    assert {*others, *later} == set(session.run()) | set(finished) - set(failing)
    assert all(handle.exception() is None for handle in (*others, *later))
    session.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_closing_a_run_early_leaves_the_session_usable(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()

    def told(work: Any, stop: Any, count: int) -> Any:
        return run_workers(work, lambda: (stop(), stopped.set()), count)

    monkeypatch.setattr("sharpbeam.decoding.session.run_workers", told)
    with toy_session(threads=threads, max_rows=12) as session:
        handles = session.submit_all(texts_of(300))
        for handle in handles:  # its threads leave some until they are told to stop
            handle.add_done_callback(lambda _: session.pending < 200 and stopped.wait(30))
        run = session.run()
        next(run)
        run.close()
        stopped.set()
        assert 0 < session.pending < 300
        assert not [t for t in threading.enumerate() if t.name.startswith("sharpbeam-")]
        list(session.run())
        assert all(handle.done() for handle in handles)


def test_memory_bounds_all_lanes_of_a_session_together() -> None:
    model = ToyModel(1, eos_bias=1.0)
    loaded = toy_loaded(model, ToyLayer(*model.output()), row=1000)
    options = {"schedule": "stream", "refill_at": 0.9, "max_memory": 40_000, "max_rows": 500, **SESSION}
    with Session[Any](loaded, DecodeOptions.of(**options)) as session:
        handles = [session.submit(text, length_penalty=p) for text in texts_of(20) for p in (0.5, 1.0, 2.0)]
        most = 0
        while session.pending:
            session.step()
            (worker,) = session._workers
            most = max(most, sum(len(run.rows) for run in worker.runs.values()))
        row = 1000 + 2 * 3 * 40  # with its candidates
        assert 20 < most <= 40_000 / row + 2 * 3  # one request of each lane always runs
        assert all(handle.exception() is None for handle in handles)


def test_what_cannot_be_decoded_is_refused_at_once() -> None:
    with toy_session() as session:
        for wrong, message in (
            ({"beam_sise": 3}, "unknown option 'beam_sise'. Did you mean 'beam_size'"),
            ({"schedule": "batches"}, "schedule is 'batches'; it must be set for the session"),
            ({"beam_size": [3]}, "beam_size is"),
            ({"beam_size": 21}, "at most 20"),
            ({"no_repeat_ngram_size": 2**63}, "no_repeat_ngram_size is"),
            ({"options": DecodeOptions(), "beam_size": 0}, "beam_size is 0"),
            ({"source_language": "xx"}, "one direction only"),
        ):
            with pytest.raises(OptionError, match=message):
                session.submit("3 4", **wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="give a list"):
            session.submit_all("3 4")
        assert session.pending == 0
        (empty,) = session.submit_all([" "])
        assert empty.done() and empty.result().text == ""


def test_a_language_model_has_sessions_too(tiny_model: Path) -> None:
    translator = Translator(tiny_model, machine=MachineOptions(threads=1), beam_size=2)
    with Session[Any](translator.loaded) as session:  # without a Translator's options
        handle = session.submit("Ba di.", max_length=5)
        assert list(session.run()) == [handle]
    assert handle.result() == translator.translate(["Ba di."], beam_size=5, max_length=5)[0]
