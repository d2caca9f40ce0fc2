"""Handles: waiting for an answer, cancelling it, and what there is of it before."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.toys import texts_of, toy_session

from sharpbeam import InputError, Translator
from sharpbeam.decoding.handle import Handle
from sharpbeam.decoding.session import Session


def test_a_cancelled_request_frees_its_rows_at_the_next_step() -> None:
    session = toy_session()
    handles = session.submit_all(texts_of(20))
    session.step()
    model = session.loaded.model.opened[0]
    assert session.live == len(model.sources) == 20
    for handle in handles[:12]:
        assert handle.cancel() and handle.cancel() and handle.done() and handle.cancelled()
    assert session.pending == 8
    session.step()
    assert session.live == len(model.sources) == 8
    assert len(list(session.run())) == 8
    assert model.sources == {} and model.states == {}
    assert not handles[-1].cancel()  # it is done
    session.close()


def test_a_waiting_request_can_be_cancelled_and_higher_priority_enters_first() -> None:
    session = toy_session(max_rows=3)
    first = session.submit(texts_of(1)[0])
    session.step()
    low, gone, high = (session.submit(text, priority=p) for text, p in zip(texts_of(3), (0, 5, 1), strict=True))
    assert session.waiting == 3 and gone.cancel() and session.waiting == 2
    assert list(session.run()) == [first, high, low]
    session.close()


def test_part_of_samples_is_their_own(tiny_model, sentences) -> None:
    with Translator(tiny_model).session(sampling=True, seed=1, num_hypotheses=2, max_length=30) as session:
        session.submit(sentences[0])
        session.step()
        session.step()
        later = session.submit(sentences[1])
        session.step()
        while not later.done():
            seen = later.partial()
            session.step()
            assert all(one in later.result().hypotheses for one in seen.hypotheses) if later.done() else True
        assert later.result().text == session.submit(sentences[1]).result().text


def test_looking_at_a_request_waits_for_no_more_than_a_step() -> None:
    with toy_session(max_length=2000, min_length=1990) as session:
        session.start(1)
        handle = session.submit(texts_of(1)[0])
        lengths = set()
        while not handle.done():
            lengths.add(len(handle.partial().text))
        assert len(lengths) > 2  # of some 2,000 steps


def test_threads_of_a_session_end_with_it_and_none_waits_for_ever() -> None:
    session = toy_session(threads=3)
    session.start()
    ours = [t for t in threading.enumerate() if t.name.startswith("sharpbeam-")]
    assert len(ours) == 3
    handles = session.submit_all(texts_of(50))
    assert len([handle.result(timeout=30) for handle in handles]) == 50
    ended: list[Any] = []
    last = session.submit(texts_of(1)[0])
    last.add_done_callback(ended.append)
    last.result(timeout=30)
    with pytest.raises(InputError, match="started already"):
        session.start()
    session.close()
    assert not any(t.is_alive() for t in ours) and ended == [last]
    idle = toy_session()
    with pytest.raises(TimeoutError):
        idle.submit("3 4").result(timeout=0)
    idle.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_waiting_for_an_answer_takes_the_steps(threads: int) -> None:
    with toy_session() as session:
        expected = [handle.text for handle in session.submit_all(texts_of(200))]
        list(session.run())
    with toy_session(threads=threads, max_rows=4) as session:
        handles = session.submit_all(texts_of(200))
        longest = sorted(handles, key=lambda handle: len(handle.text))  # the last of them enter first
        assert longest[-1].result().source == longest[-1].text
        assert longest[-3].exception() is None and session.pending
        first, *others = [handle for handle in handles if not handle.done()]
        chosen = threading.Event()
        for handle in (first, *others):  # its threads leave some until one of them is chosen
            handle.add_done_callback(lambda _: session.pending < 50 and chosen.wait(30))
        run = session.run()
        finished = [next(run)]
        waited = next(handle for handle in (first, *others) if not handle.done())
        chosen.set()
        assert waited.result().source == waited.text  # the iterator is paused here, and takes no steps
        finished += run
        assert {*finished} == {first, *others} and len(finished) == 1 + len(others), "each is yielded once"
        assert [handle.result().source for handle in handles] == expected
        with pytest.raises(TimeoutError):
            session.submit("3 4").result(timeout=0)


def test_a_callback_may_submit_and_step() -> None:
    with toy_session() as session:
        texts, more = texts_of(3), list[Handle[Any]]()

        def follow(handle: Any) -> None:
            if len(more) < 5:
                more.append(session.submit(texts[len(more) % 3]))
                more[-1].add_done_callback(follow)
                session.step()

        session.submit(texts[0]).add_done_callback(follow)
        finished = list(session.run())
        assert len(more) == 5 and all(handle.done() for handle in more) and len(finished) <= 6


@pytest.mark.parametrize("started", [True, False])
def test_a_callback_cannot_wait_for_what_its_thread_would_decode(started: bool) -> None:
    with toy_session(threads=1 if started else 2, max_rows=1) as session:
        texts, messages = texts_of(8), list[str]()

        def wait(ended: Any) -> None:
            for handle in handles:
                with session._lock:  # no other thread ends it meanwhile
                    if handle._parts:
                        with pytest.raises(InputError) as error:
                            handle.result()
                        messages.append(str(error.value))
            assert ended.result().source == ended.text

        handles = session.submit_all(texts)
        handles[-1].add_done_callback(wait)
        handles[0].add_done_callback(wait)
        if started:
            session.start()
        else:
            list(session.run())
        assert [handle.result(timeout=30).source for handle in handles] == texts
        assert messages and all("is waited for in a callback" in each for each in messages)


def test_asyncio_may_wait_for_a_handle() -> None:
    async def ask(session: Session[Any]) -> list[Any]:
        handles = session.submit_all(texts_of(5))
        return await asyncio.gather(*(asyncio.wrap_future(handle) for handle in handles))

    with toy_session() as session:
        session.start()
        answers = asyncio.run(ask(session))
        assert [answer.source for answer in answers] == texts_of(5)


def test_a_callback_may_wait_for_what_ended_in_the_same_step() -> None:
    with toy_session() as session:
        texts, answers = texts_of(1) * 3, list[Any]()
        handles = session.submit_all(texts)
        handles[0].add_done_callback(lambda handle: answers.append((handles[1].result(), handles[2].exception())))
        assert answers == [] and answers.append(handles[0].result()) is None
        assert answers == [(handles[1].result(), None), handles[0].result()] and not handles[1].cancel()
