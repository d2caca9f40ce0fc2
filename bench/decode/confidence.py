"""The numbers of the confidence of words, fitted on everyday text and on news by logistic regression.

`python -m bench decode.confidence --everyday MODEL=FILE --news MODEL=FILE ...`, each file with lines of a source, a tab
and its reference; both kinds count as much, and so do the files of a kind. The calibration error of each file is given
with the numbers that are fitted on all, and with those that are fitted on the others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from bench.decode.faults import calibration_error, judged
from bench.flags import Sentences
from bench.harness import record
from bench.harness.testset import spread
from sharpbeam import Translator
from sharpbeam.contract.confidence import LONGEST
from sharpbeam.text.lines import column_pairs

Matrix = NDArray[np.float64]
STEPS = 30  # of Newton's method, which needs about eight


def inputs(rows: Matrix) -> Matrix:
    """[words, 4]: what the numbers CERTAIN, SLOPE, LENGTH and BOTH are multiplied with."""
    root, many = np.sqrt(np.maximum(-rows[:, 0], 0.0)), np.log(np.minimum(rows[:, 1], LONGEST))
    return np.stack([np.ones(len(rows)), -root, -many, root * many], 1)


def probabilities(numbers: Matrix, rows: Matrix) -> Matrix:
    """The confidence of each word."""
    shares: Matrix = 1.0 / (1.0 + np.exp(-inputs(rows) @ numbers))
    return shares


def fitted(kinds: list[list[Matrix]]) -> Matrix:
    """The numbers with the largest likelihood; kinds have equal weight, and so have the files of a kind."""
    files = [(rows, 1.0 / (len(files) * len(rows))) for files in kinds for rows in files]
    rows, weights = (
        np.concatenate([own for own, _ in files]),
        np.concatenate([np.full(len(own), w) for own, w in files]),
    )
    columns, numbers = inputs(rows), np.zeros(4)
    for _ in range(STEPS):
        shares = probabilities(numbers, rows)
        curve = (columns * (weights * shares * (1.0 - shares))[:, None]).T @ columns
        numbers = numbers + np.linalg.solve(curve, columns.T @ (weights * (rows[:, 2] - shares)))
    return numbers


def main(
    everyday: Annotated[list[str], typer.Option(help="MODEL=FILE, with everyday sentences; may be repeated")],
    news: Annotated[list[str], typer.Option(help="MODEL=FILE, with news; may be repeated")],
    sentences: Sentences = 1000,
) -> None:
    """Fit, print and record."""
    names, kinds = list[str](), list[list[Matrix]]()
    for entries in (everyday, news):
        kinds.append([])
        for model, _, file in (entry.rpartition("=") for entry in entries):
            names.append(f"{Path(model).name}={Path(file).name}")
            pairs = spread(list(column_pairs(Path(file), 0, 1)), sentences)
            kinds[-1].append(judged(Translator(model, threads=1), *map(list, zip(*pairs, strict=True))))
    numbers, errors = fitted(kinds), {}
    for name, rows in zip(names, [rows for files in kinds for rows in files], strict=True):
        others = fitted([[own for own in files if own is not rows] for files in kinds])
        own = [calibration_error(probabilities(each, rows), rows[:, 2]) for each in (numbers, others)]
        errors[name] = [round(error, 3) for error in own]
    figures = {"numbers": numbers.round(3).tolist(), "errors": errors}
    print(json.dumps(record.write("contract", {"fit": figures}, threads=1, options={"sentences": sentences})))
