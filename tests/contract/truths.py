"""The truths of search and schedule on real sentences, for every combination of output layer, search and schedule.

* One by one = batches = streams, in any order, with any number of threads and any limits: the same bytes (scores and
  scores of tokens included). So VAR-STREAM = VAR-BATCH, token for token.
* Beam 1 = greedy: the likeliest word, until it is eos, by a loop that knows no search and no schedule.
* No margin = fixed beam: a margin and a number of children that nothing reaches change no byte.
* Full cube = beam: exact cube pruning of hypotheses that are alike only if their hidden vectors point the same way.

A combination that does not hold is named; nothing is timed here. One line is recorded for each layer and search, and
those that the same commit has already are not measured again, so an interrupted run continues where it was.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.flags import Data, Model, Sentences
from bench.harness import record
from bench.harness.testset import DATA, test_pairs
from sharpbeam import MachineOptions, Translation, Translator
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.output_layers.registry import find_output_layer
from sharpbeam.storage.artifacts import present_artifacts
from sharpbeam.types import Request

LAYERS = ("exact", "scan", "preview", "screen", "shortlist")  # those that the model has are taken
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 5, "num_hypotheses": 5},
    "variable": {"beam_size": 8, "max_score_margin": 2.5, "max_children": 3, "finishing": "stay"},
    "proven": {"beam_size": 4, "early_stopping": "proven", "length_penalty": 0.0},
    "rules": {"beam_size": 4, "repetition_penalty": 1.2, "no_repeat_ngram_size": 3, "min_length": 3},
    "sampling": {"sampling": True, "num_hypotheses": 3, "top_k": 20, "seed": 5},
    "cube": {"beam_size": 6, "cube_pruning": "exact"},
    "approximate cube": {"beam_size": 6, "cube_pruning": "approximate", "merge_by": "likeness"},
}
SCHEDULES = ("batches", "stream", "stream-shortest", "stream-longest")
WIDE: dict[str, Any] = {"max_score_margin": 1e9, "max_children": 10}  # for beam_size 5

FULL_CUBE: dict[str, Any] = {"cube_pruning": "exact", "merge_by": "likeness", "merge_threshold": 1.0}


def layers(folder: Path) -> list[str]:
    """The output layers that the model in `folder` has the files of; one whose files are not sound fails later."""
    return [name for name in LAYERS if {*find_output_layer(name).needs} <= {*present_artifacts(folder)}]


def schedules(draw: random.Random) -> Iterator[dict[str, Any]]:
    """Each schedule, with limits that are drawn: small ones are as good as large ones."""
    for schedule in SCHEDULES:
        options: dict[str, Any] = {"schedule": schedule, "max_memory": draw.choice([None, 1, 10**6, 10**8])}
        if schedule == "batches":
            options["batch_tokens"] = draw.choice([1, 40, 300, 2000])  # 1 = one by one
        else:
            options |= {"max_rows": draw.choice([5, 60, 400]), "refill_at": draw.choice([0.0, 1 / 6, 0.8])}
            options |= {"max_step_rows": draw.choice([7, 50]), "max_wait": draw.choice([None, 2, 20])}
        yield options


def greedy(translator: Translator, sources: list[str], layer: OutputLayer, most: int) -> list[list[int]]:
    """The likeliest word of each step, for one sentence after the other; eos not counted."""
    model = translator.loaded.model
    answers = []
    for source in sources:
        request = Request(0, np.array([*translator.loaded.source.encode(source), model.eos_id], np.int32))
        run, output = model.open(), layer.open()
        state, zero = run.admit([request]), np.zeros(1, np.int32)
        output.admit([request])
        words: list[int] = []
        token = np.array([model.bos_id], np.int32)
        while len(words) < most:
            hidden, state = run.step(zero, state, token)
            token = output.topk(hidden, 1, zero).token[0]
            if token[0] == model.eos_id:
                break
            words.append(int(token[0]))
        answers.append(words)
    return answers


def measure(model: str, data: str, sentences: int) -> Iterator[dict[str, Any]]:
    """One recorded line for each layer and search: how many combinations were tried, and those that did not hold."""
    sources, _ = test_pairs(data, sentences)
    translators = [Translator(model, machine=MachineOptions(threads=threads)) for threads in (1, 2)]
    for layer in layers(translators[0].loaded.folder):
        for name in SEARCHES:
            options = {"model": model, "output_layer": layer, "search": name, "sentences": len(sources)}
            line = record.find("truths", options)
            if line is None:
                tried, wrong = _combinations(translators, sources, layer, name)
                line = record.write("truths", {"tried": tried, "wrong": wrong}, threads=2, options=options)
            yield line


def misses(model: str, data: str, sentences: int) -> tuple[int, list[str]]:
    """How many combinations were tried on `sentences` of the test set, and those that did not hold."""
    lines = list(measure(model, data, sentences))
    return sum(line["tried"] for line in lines), [message for line in lines for message in line["wrong"]]


def _combinations(translators: list[Translator], sources: list[str], layer: str, name: str) -> tuple[int, list[str]]:
    """The combinations of one layer and search: how many there are, and those that do not hold."""
    draw, search = random.Random(f"{layer} {name}"), SEARCHES[name]
    tried, wrong = 0, []
    expected = translators[1].translate(sources, **search, output_layer=layer)
    for schedule in schedules(draw):
        place = draw.sample(range(len(sources)), len(sources))
        results = draw.choice(translators).translate(
            [sources[i] for i in place], **search, **schedule, output_layer=layer
        )
        tried += 1
        if results != [expected[i] for i in place]:
            wrong.append(f"{layer}, {name}, {schedule}")
    if name == "greedy":
        tried += 1
        words = greedy(translators[0], sources, translators[0].loaded.layer_named(layer), 256)
        if words != _ids(translators[0], expected):
            wrong.append(f"{layer}: beam 1 is not greedy")
    if name == "beam":
        for kind, options in (("a beam without margin", WIDE), ("a full cube", FULL_CUBE)):
            tried += 1
            if translators[1].translate(sources, **search, **options, output_layer=layer) != expected:
                wrong.append(f"{layer}: {kind} is not the fixed beam")
    return tried, wrong


def _ids(translator: Translator, results: list[Translation]) -> list[list[int]]:
    pieces = {translator.loaded.target.piece(i): i for i in range(len(translator.loaded.target))}
    return [[pieces[piece] for piece in translation.tokens] for translation in results]


def main(data: Data = DATA, model: Model = "de-en", sentences: Sentences = 1000) -> None:
    """Measure, print and record."""
    for line in measure(model, data, sentences):
        tried, wrong, on = line["tried"], line["wrong"], line["options"]
        print(
            f"{on['output_layer']}, {on['search']}: {tried - len(wrong)} of {tried} hold on {on['sentences']} sentences"
        )
        print("".join(f"  not: {message}\n" for message in wrong), end="", flush=True)
