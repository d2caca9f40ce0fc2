"""Texts that are all known, decoded without a session where one worker is enough.

A session needs handles and locks, which no other caller sees here: the lane's run is stepped by the caller, and kept
for the next call with the same options.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from sharpbeam.decoding.inputs import Input, Prefixes, answer_of, encode_texts
from sharpbeam.decoding.lanes import Lane, LaneRun
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.phrases import for_phrases
from sharpbeam.decoding.session import Session
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.text.glossary import Glossary

MOST_OPTIONS = 16  # whose runs are kept
FEW_TEXTS = 8  # of a call after which its run is kept: the caches of more would be held for nothing

Results = Generator[tuple[int, Any], None, None]


class KnownTexts:
    """Decodes texts, and keeps a run for each set of options. Any thread may call its method."""

    def __init__(self) -> None:
        self._idle: dict[DecodeOptions, LaneRun] = {}

    def decode(
        self,
        loaded: LoadedModel,
        texts: Sequence[str],
        options: DecodeOptions,
        target_prefix: Prefixes = None,
        glossary: Glossary | None = None,
    ) -> Results:
        """Decode `texts`; yields (index in `texts`, answer) as they finish.

        Options and texts are checked at once. Closing the iterator stops the work and its threads.
        """
        if options.search.return_alternatives or (loaded.workers > 1 and len(texts) != 1):
            return decode_texts(loaded, texts, options, target_prefix, glossary)
        options = options if glossary is None else for_phrases(options)
        inputs = encode_texts(loaded, texts, target_prefix, options, glossary=glossary)
        run = self._idle.pop(options, None)
        run = run if run is not None and run.loaded is loaded else None
        lane = Lane(loaded, options) if run is None else run.lane
        lane.plan.queue.final = True
        if inputs:
            lane.check_languages(inputs[0].direction.languages)
        return self._run(loaded, inputs, lane, run)

    def _run(self, loaded: LoadedModel, inputs: Sequence[Input], lane: Lane, run: LaneRun | None) -> Results:
        options, whole = lane.options.search, False
        requests = [given.request for given in inputs if given.request is not None]
        for index, given in enumerate(inputs):
            if given.request is None:  # an empty text
                yield index, answer_of(loaded, given, [], options)
        if not requests:
            return
        run = run or lane.open(1, [])
        lane.plan.add(requests)
        try:
            with loaded.teams.lend(1) as (team,):
                while run.busy:
                    with team:
                        finished = run.step()
                    for request, hypotheses in finished:  # whose index is its place
                        yield request.index, answer_of(loaded, inputs[request.index], hypotheses, options)
            whole = True
        finally:
            run.close()
            if whole and len(requests) <= FEW_TEXTS and lane.reusable:
                if len(self._idle) >= MOST_OPTIONS:
                    self._idle.clear()
                self._idle[lane.options] = run


def decode_texts(
    loaded: LoadedModel,
    texts: Sequence[str],
    options: DecodeOptions,
    target_prefix: Prefixes = None,
    glossary: Glossary | None = None,
) -> Results:
    """Decode `texts`, all of which are known; yields (index in `texts`, answer) as they finish.

    Options and texts are checked at once. Closing the iterator stops the work and its threads.
    """
    session: Session[Any] = Session(loaded, options)
    handles = session.submit_all(texts, target_prefix=target_prefix, glossary=glossary)
    session.seal()

    def results() -> Results:
        index = {handle: i for i, handle in enumerate(handles)}
        with session:
            for handle in handles:
                if handle.done():  # an empty text
                    yield index[handle], handle.result()
            for handle in session.run():
                yield index[handle], handle.result()

    return results()
