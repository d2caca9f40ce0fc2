"""Guards: omissions planted by joining sentences, found and repaired; and sound translations that are flagged.

Two neighbouring sentences of NTREX are joined by a space, and the answer that is planted is the translation of one of
them, with its attention to both. It is found where the guards flag it, and repaired where they put another answer in
its place whose chrF against both references is at least KEPT of that of the sentences translated apart. A false alarm
is a sentence of NTREX whose own translation is flagged. The guards' threshold is from other text (docs/lab/guards.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import numpy as np
import typer

from bench.flags import Data
from bench.harness import record
from bench.harness.testset import DATA, test_file
from sharpbeam import Translator
from sharpbeam.decoding.attention import attend
from sharpbeam.decoding.inputs import answer_of, encode_texts
from sharpbeam.decoding.results import Translation
from sharpbeam.documents import check_translation, run_steps
from sharpbeam.documents.decoding import Decoded, decode_steps
from sharpbeam.documents.job import Steps
from sharpbeam.text.pairs import column_pairs
from sharpbeam.types import Hypothesis

NTREX, LANGUAGE = "ntrex/eng-por.tsv.gz", "en"
KEPT = 0.9
R = TypeVar("R")


def planted(translator: Translator, texts: Sequence[str], answers: Sequence[Translation]) -> list[Translation]:
    """`answers` as the translations of `texts`, with their attention to them."""
    loaded, options = translator.loaded, translator.defaults.changed(return_attention=True)
    inputs = encode_texts(loaded, texts, None, options)
    model = loaded.open_attending()
    found: list[Any] = []
    for given, answer in zip(inputs, answers, strict=True):
        assert given.request is not None
        ids = tuple(loaded.target.encode(answer.text))
        scores = (0.0,) * (len(ids) + 1)  # of which the guards read the number: eos was reached
        hypothesis = Hypothesis(given.request.index, ids, scores, 0.0, 0.0)
        text = loaded.language_tags.again(given.request.languages).text
        attended = attend(
            model, [(given.request, text, [hypothesis])], options.search, loaded.model.bos_id, loaded.model.eos_id
        )
        found.append(answer_of(loaded, given, attended[0], options.search))
    return found


def after(steps: Steps[R], answers: Sequence[Translation]) -> Steps[R]:
    """`steps`, whose first jobs get `answers`."""
    next(steps)
    try:
        jobs = steps.send(answers)
        while True:
            jobs = steps.send((yield jobs))
    except StopIteration as done:
        result: R = done.value
        return result


def repaired(
    found: Mapping[str, Decoded], joined: Sequence[str], apart: Sequence[str], references: Sequence[str]
) -> int:
    """How many planted omissions have an answer that is as good as the sentences translated apart."""
    from sacrebleu.metrics.chrf import CHRF

    chrf, good = CHRF(), 0
    for text, whole, reference in zip(joined, apart, references, strict=True):
        decoded = found[text]
        if decoded.repaired:
            said = " ".join(answer.text for _, answer in decoded.parts)
            score = [chrf.sentence_score(each, [reference]).score for each in (said, whole)]
            good += score[0] >= KEPT * score[1]
    return good


def main(
    model: Annotated[str, typer.Option(help="Firefox's English-Portuguese model, converted")],
    data: Data = DATA,
    count: Annotated[int, typer.Option(help="of planted omissions")] = 1000,
    beam_size: int = 2,
) -> None:
    """Measure, print and record."""
    pairs = list(column_pairs(test_file(data, NTREX), 0, 1))
    translator = Translator(model, threads=1, beam_size=beam_size)
    sound = translator.translate([source for source, _ in pairs], return_attention=True)
    alarms = sum(bool(check_translation(each).flags) for each in sound)
    first = np.unique(np.linspace(0, len(pairs) - 2, count).astype(int)).tolist()
    joined = [f"{pairs[i][0]} {pairs[i + 1][0]}" for i in first]
    answers = planted(translator, joined, [sound[i + number % 2] for number, i in enumerate(first)])
    steps = after(decode_steps(joined, (), True, True, LANGUAGE), answers)
    found = run_steps(steps, translator, translator.defaults)
    apart = [f"{sound[i].text} {sound[i + 1].text}" for i in first]
    references = [f"{pairs[i][1]} {pairs[i + 1][1]}" for i in first]
    figures = {
        "planted": len(joined),
        "found": sum("omission" in check_translation(each).flags for each in answers),
        "repaired": repaired(found, joined, apart, references),
        "sound": len(sound),
        "false_alarms": alarms,
    }
    options = {"what": "omissions", "model": "firefox enpt", "text": NTREX, "beam_size": beam_size, "kept": KEPT}
    print(record.write("service", figures, threads=1, options=options))
