"""Lines to translations with the text contract, in rounds of a decoder that takes texts as they stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing

from sharpbeam.contract.lines import is_plain, line_steps, one_step
from sharpbeam.contract.sentences import Contract
from sharpbeam.contract.steps import Decode, Job, Results, decode_jobs
from sharpbeam.contract.terms import with_terms
from sharpbeam.decoding.inputs import check_texts
from sharpbeam.decoding.results import Translation
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.text.glossary import Glossary
from sharpbeam.text.spelling import Spelling

Pattern = re.Pattern[str] | None


def decode_lines(
    texts: Sequence[str],
    decode: Decode,
    options: DecodeOptions,
    open_contract: Callable[[Spelling, Pattern], Contract],
    spelling: Spelling,
    pattern: Pattern,
    glossary: Glossary | None = None,
    raw: bool = False,
) -> Results:
    """Yield (index in `texts`, translation) as lines are done.

    Options and texts are checked at once. A line in which there is nothing to protect is decoded as it stands, as all
    are if `raw`, but for terms of the glossary.
    """
    check_texts(texts, "text")
    plain = [raw or (is_plain(text, spelling) and not (pattern and pattern.search(text))) for text in texts]
    if all(plain) and not (glossary and any(map(glossary.find, texts))):
        return decode(texts, options, None)
    contract = open_contract(spelling, pattern)
    pairs = zip(texts, plain, strict=True)
    lines = [with_terms(one_step(text) if usual else line_steps(text, contract), contract) for text, usual in pairs]
    waiting: dict[int, Sequence[Job]] = {}  # the jobs of lines in the next round

    def advance(index: int, answers: Sequence[Translation] | None = None) -> Results:
        """Send answers to a line; yields it if it is done."""
        try:
            waiting[index] = next(lines[index]) if answers is None else lines[index].send(answers)
        except StopIteration as end:
            yield index, end.value

    done = [each for index in range(len(lines)) for each in advance(index)]
    list(decode([], options, None))  # checks the options

    def results() -> Results:
        yield from done
        while waiting:
            jobs, answers = dict(waiting), {index: dict[int, Translation]() for index in waiting}
            waiting.clear()
            places = [(index, number) for index, own in jobs.items() for number in range(len(own))]
            with closing(decode_jobs([job for own in jobs.values() for job in own], decode, options)) as decoded:
                for place, answer in decoded:
                    index, number = places[place]
                    answers[index][number] = answer
                    if len(answers[index]) == len(jobs[index]):
                        yield from advance(index, [answers[index][each] for each in range(len(jobs[index]))])

    return results()
