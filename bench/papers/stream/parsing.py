"""Semantic and constituency parsing by the four strategies of STREAM (Tables 2, 6 and 7), paper next to ours.

A model that was never meant for text generation has the same interfaces (examples/constituency). As in the paper
n = k = 10, M = 3, delta = 10 (semantic) or 2.5 (constituency), and at most 100 candidates are expanded in a step.
Checked first: VAR-STREAM says what VAR-BATCH says, token for token.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from bench.flags import Data, Rounds
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, NoDataError
from bench.papers.stream.forms import normal
from examples.constituency.model import EOS, ActionLayer, Parser, ParserDecoding
from examples.constituency.train import read_trees
from examples.constituency.trees import Tree, brackets, build
from sharpbeam import Translator
from sharpbeam.decoding.loop import decode
from sharpbeam.models.interface import Decoding
from sharpbeam.options.decode import ScheduleOptions, SearchOptions
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.interface import Schedule
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.scheduling.stream import Stream
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.work import Work
from sharpbeam.text.lines import column_pairs
from sharpbeam.types import Hypothesis, Request

WIDTH, REQUESTS, CAPACITY, CHILDREN = 10, 10, 100, 3  # k, n, nk, M
CACHED = 30  # requests in flight in VAR-STREAM, of which those that fit into CAPACITY take a step (STREAM, section 3)
SEMANTIC = ("atis", "jobs", "geo")
PAPER = {  # F1, oracle F1, expansions per step
    "atis": {"GREEDY": (86.4, 86.4, 46.5), "FIXED": (86.6, 91.2, 48.0), "VAR-BATCH": (86.6, 90.2, 16.9),
             "VAR-STREAM": (86.6, 90.2, 72.1)},
    "jobs": {"GREEDY": (87.1, 87.1, 20.0), "FIXED": (87.1, 90.0, 39.4), "VAR-BATCH": (87.1, 89.3, 8.7),
             "VAR-STREAM": (87.1, 89.3, 40.2)},
    "geo": {"GREEDY": (82.5, 82.5, 39.8), "FIXED": (82.5, 89.3, 39.2), "VAR-BATCH": (82.5, 89.6, 10.5),
            "VAR-STREAM": (82.5, 89.6, 57.1)},
    "constituency": {"GREEDY": (91.3, 91.3, 86.7), "FIXED": (91.2, 94.0, 97.1), "VAR-BATCH": (91.2, 93.8, 48.2),
                     "VAR-STREAM": (91.2, 93.8, 95.7)},
}  # fmt: skip
Answers = dict[int, list[Hypothesis]]


@dataclass(frozen=True)
class Task:
    """A model by its interface, its requests, and how good its answers are."""

    name: str
    open: Callable[[], Decoding]
    output_layer: OutputLayer
    bos_id: int
    eos_id: int
    requests: list[Request]
    most_tokens: int
    margin: float  # delta
    quality: Callable[[Answers], tuple[float, float]]  # F1 of the best answers, and of the best among all


def semantic(name: str, models: Path, data: Path) -> Task:
    """A question as a logical form; right is what equals the reference, so that F1 is the share of right answers.

    Forms are compared as Dong & Lapata compare them (forms.py).
    """
    translator = Translator(models / f"semantic-{name}" / "best")
    model, parts = translator.loaded.model, translator.loaded
    pairs = list(column_pairs(_present(data / f"semantic/{name}.test.tsv.gz"), 0, 1))
    sources = [np.array(parts.source.encode(question), np.int32) for question, _ in pairs]
    requests = [Request(index, np.append(ids, model.eos_id).astype(np.int32)) for index, ids in enumerate(sources)]

    def quality(answers: Answers) -> tuple[float, float]:
        texts = {i: [normal(parts.target.decode(h.tokens)) for h in hypotheses] for i, hypotheses in answers.items()}
        best = sum(texts[i][0] == normal(form) for i, (_, form) in enumerate(pairs))
        among = sum(normal(form) in texts[i] for i, (_, form) in enumerate(pairs))
        return 100 * best / len(pairs), 100 * among / len(pairs)

    return Task(name, model.open, parts.exact, model.bos_id, model.eos_id, requests, 120, margin=10.0, quality=quality)


def constituency(models: Path, data: Path, trees: str, limit: int) -> Task:
    """Labelled brackets, as EVALB counts them, of the parser of examples/constituency."""
    parser = Parser.load(models / "parser")
    gold = read_trees(_present(data / trees))
    gold = [gold[i * len(gold) // limit] for i in range(limit)] if 0 < limit < len(gold) else gold
    requests = [Request(index, parser.inventory.encode(tree)) for index, tree in enumerate(gold)]

    def quality(answers: Answers) -> tuple[float, float]:
        best, among = np.zeros(3), np.zeros(3)
        for index, tree in enumerate(gold):
            counts = [_brackets(tree, _tree(parser, hypothesis, tree)) for hypothesis in answers[index]]
            best += counts[0]
            among += max(counts, key=lambda c: c[0] / max(c[1] + c[2], 1))
        return float(200 * best[0] / (best[1] + best[2])), float(200 * among[0] / (among[1] + among[2]))

    longest = max(len(request.source) for request in requests)
    output_layer = ActionLayer(parser)
    name = "constituency" if trees.startswith("gum") else "constituency, WSJ 23"
    return Task(
        name, lambda: ParserDecoding(parser), output_layer, -1, EOS, requests, 4 * longest, margin=2.5, quality=quality
    )


def _present(path: Path) -> Path:
    """`path`, or NoDataError."""
    if not path.exists():
        raise NoDataError(f"no data: {path} is not there; give the folder with --data")
    return path


def _tree(parser: Parser, hypothesis: Hypothesis, gold: Tree) -> Tree:
    return build(parser.inventory.action_names(hypothesis.tokens), list(gold.leaves()))


def _brackets(gold: Tree, parsed: Tree) -> np.ndarray[Any, Any]:
    """Matched brackets, those of the gold tree, and those of the found one."""
    right, found = brackets(gold), brackets(parsed)
    return np.array([(right & found).total(), right.total(), found.total()], float)


def run(task: Task, strategy: str) -> tuple[Answers, Work]:
    """All answers of one strategy, and what they took."""
    greedy, variable = strategy == "GREEDY", strategy.startswith("VAR")
    options = SearchOptions(
        beam_size=1 if greedy else WIDTH,
        num_hypotheses=1 if greedy else WIDTH,
        length_penalty=0.0,
        max_length=task.most_tokens,
        max_score_margin=task.margin if variable else None,
        max_children=CHILDREN if variable else None,
    )
    search = BeamSearch(options, task.bos_id, task.eos_id, task.output_layer.vocab_size)
    queue = RequestQueue()
    for request in sorted(task.requests, key=lambda request: len(request.source)):
        queue.add([request])  # so that they leave in this order
    schedule: Schedule
    if strategy == "VAR-STREAM":
        stream = ScheduleOptions(schedule="stream-shortest", max_step_rows=CAPACITY, max_rows=CACHED * WIDTH)
        schedule = Stream(queue, stream, WIDTH, most_requests=CACHED)
    else:
        size = CAPACITY if greedy else REQUESTS
        schedule = FixedBatches(queue, fits=lambda requests, positions, longest: requests <= size)
    answers = dict(decode(task.open(), task.output_layer, search, schedule))
    return answers, search.work


def measure(task: Task, rounds: int) -> dict[str, Any]:
    """The table of one task: quality, steps and time of each strategy."""
    strategies = ("GREEDY", "FIXED", "VAR-BATCH", "VAR-STREAM")
    table: dict[str, dict[str, Any]] = {}

    def check(outputs: dict[str, tuple[Answers, Work]]) -> None:
        assert _tokens(outputs["VAR-STREAM"][0]) == _tokens(outputs["VAR-BATCH"][0]), "VAR-STREAM is not VAR-BATCH"
        for strategy, (answers, work) in outputs.items():
            best, oracle = task.quality(answers)
            table[strategy] = {
                "f1": round(best, 2), "oracle_f1": round(oracle, 2), "steps": work.steps, "expansions": work.expansions,
                "expansions_per_step": round(work.expansions / work.steps, 1),
                "paper": PAPER.get(task.name, {}).get(strategy),
            }  # fmt: skip

    contenders: dict[str, Callable[[], tuple[Answers, Work]]] = {n: functools.partial(run, task, n) for n in strategies}
    for name, timing in interleave(contenders, "FIXED", rounds, check, time.process_time).items():
        table[name] |= {key: round(value, 4) for key, value in dataclasses.asdict(timing).items()}
    return table


def _tokens(answers: Answers) -> dict[int, list[tuple[int, ...]]]:
    return {index: [hypothesis.tokens for hypothesis in hypotheses] for index, hypotheses in answers.items()}


def show(name: str, table: dict[str, dict[str, Any]]) -> None:
    """Print a table, the paper's figures in brackets."""
    print(f"\n{name}\n{'':12}{'F1':>14}{'oracle F1':>16}{'time s':>10}{'x FIXED':>9}{'steps':>8}{'exp./step':>15}")
    for strategy, line in table.items():
        f1, oracle, per_step = line["paper"] or ("-", "-", "-")
        print(
            f"{strategy:12}{line['f1']:7} ({f1}){line['oracle_f1']:9} ({oracle}){line['median_s']:10.2f}"
            f"{line['ratio']:9.2f}{line['steps']:8}{line['expansions_per_step']:8} ({per_step})"
        )


def tasks(models: Path, data: Path, sentences: int) -> list[Task]:
    """The tasks whose models are there."""
    every = [semantic(name, models, data) for name in SEMANTIC if (models / f"semantic-{name}" / "best").is_dir()]
    if (models / "parser").is_dir():
        every.append(constituency(models, data, "gum/test.trees.gz", sentences))
        every.append(constituency(models, data, "ptb-trees/23.auto.clean.gz", sentences))
    return every


def main(
    data: Data = DATA,
    models: Annotated[Path, typer.Option(help="folder with semantic-atis, -jobs, -geo and parser")] = Path("runs"),
    sentences: Annotated[int, typer.Option(help="of each tree bank; 0 = all")] = 300,
    rounds: Rounds = 3,
) -> None:
    """Measure, print and record."""
    torch.set_num_threads(1)
    every = tasks(models, Path(data), sentences)
    if not every:
        raise SystemExit(f"no models in {models}: train them with recipes/semantic-*.toml and examples/constituency")
    for task in every:
        table = measure(task, rounds)
        show(task.name, table)
        chosen = {"task": task.name, "requests": len(task.requests), "rounds": rounds}
        record.write("parsing", {"strategies": table}, threads=1, options=chosen)
