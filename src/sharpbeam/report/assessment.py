"""Contrastive direct assessment of outputs that differ: blind sheets for annotators, and tests on filled sheets.

As in CVP (section 3.4, after Bentivogli et al. 2018 and Akhbardeh et al. 2021): an annotator sees a source and the
outputs of both systems next to each other, in random order and without names, and gives each a score from 0 to 100.
The Wilcoxon rank-sum test compares all scores of A with all of B, as the paper does; the signed-rank test compares the
two scores of each item, and so has more power where items differ in difficulty.
"""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import fmean

import numpy as np

from sharpbeam.errors import InputError, needs_extra
from sharpbeam.options.schema import require
from sharpbeam.report.compare import Comparison
from sharpbeam.text.lines import check_readable, read_all

SHEET, PAGE, KEY = "sheet.csv", "sheet.html", "key.json"
COLUMNS = ("item", "source", "left", "right", "left_score", "right_score", "comment")
LOWEST, HIGHEST = 0.0, 100.0
ITEMS = 200


@dataclass(frozen=True)
class Assessment:
    """Scores of both systems by annotators, and whether they differ."""

    names: tuple[str, str]
    items: int  # with both scores, over all sheets
    mean_a: float
    mean_b: float
    rank_sum_p: float  # Wilcoxon rank-sum test, two-sided
    signed_rank_p: float  # Wilcoxon signed-rank test, two-sided, with Pratt's treatment of equal scores
    unscored: int  # items without both scores

    def summary(self) -> str:
        """The figures for people, with stars as in CVP's Table 6: * p < 0.05, ** p < 0.01, *** p < 0.001."""
        left_out = f"; {self.unscored} items without both scores are left out" if self.unscored else ""
        return (
            f"A: {self.names[0]}\nB: {self.names[1]}\n"
            f"{self.items} items{left_out}\n"
            f"mean score A {self.mean_a:.2f}, B {self.mean_b:.2f}, difference {self.mean_b - self.mean_a:+.2f}\n"
            f"Wilcoxon rank-sum    p = {self.rank_sum_p:.4f} {_stars(self.rank_sum_p)}\n"
            f"Wilcoxon signed-rank p = {self.signed_rank_p:.4f} {_stars(self.signed_rank_p)}"
        )


def write_sheets(comparison: Comparison, folder: str | Path, items: int = ITEMS, seed: int = 1) -> int:
    """Write a blind sheet of at most `items` of the outputs that differ; return how many there are.

    `folder` gets sheet.csv and sheet.html, which hold the same items, and key.json, which says what is left and right
    and must not be shown to annotators. `seed` draws the items and the sides. Raises InputError where no outputs
    differ or the sources are not known.
    """
    require(items >= 1, "items", items, "1 or more")
    if not comparison.sources:
        raise InputError("a sheet needs the sources; give them to compare.")
    differing = comparison.differing
    if not differing:
        raise InputError("all outputs are identical; there is nothing to assess.")
    draw = np.random.default_rng(seed)
    chosen = sorted(draw.choice(differing, min(items, len(differing)), replace=False).tolist())
    a_left = (draw.random(len(chosen)) < 0.5).tolist()
    rows, key = [], []
    for item, (index, first) in enumerate(zip(chosen, a_left, strict=True), 1):
        sides = (comparison.a[index], comparison.b[index])
        left, right = sides if first else sides[::-1]
        rows.append((str(item), comparison.sources[index], left, right, "", "", ""))
        key.append({"item": item, "line": index + 1, "left": "A" if first else "B"})
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    text = io.StringIO(newline="")
    csv.writer(text).writerows([COLUMNS, *rows])
    (home / SHEET).write_text(text.getvalue(), encoding="utf-8", newline="")
    (home / PAGE).write_text(_page(rows), encoding="utf-8", newline="\n")
    facts = {"a": comparison.names[0], "b": comparison.names[1], "seed": seed, "items": key}
    (home / KEY).write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    return len(rows)


def assess(sheets: Sequence[str | Path], key: str | Path) -> Assessment:
    """Test the scores of filled `sheets`, one of each annotator, with the `key` of their items.

    Needs SciPy (the extra `report`). Raises InputError for files that cannot be read, items that the key lacks, scores
    that are no numbers from 0 to 100, and sheets without any item that has both scores.
    """
    with needs_extra("an assessment", "report"):
        from scipy import stats
    names, left = _read_key(Path(key))
    a, b, unscored = list[float](), list[float](), 0
    for path in map(Path, sheets):
        for item, scores in _read_sheet(path):
            if item not in left:
                raise InputError(f"{path}: item {item} is not in {key}; give the key that was written with this sheet.")
            if None in scores:
                unscored += 1
                continue
            sides = scores if left[item] == "A" else scores[::-1]
            a.append(float(sides[0] or 0.0))
            b.append(float(sides[1] or 0.0))
    if not a:
        raise InputError("the sheets have no item with both scores.")
    rank_sum = float(stats.mannwhitneyu(a, b, method="asymptotic").pvalue)  # the same test, corrected for ties
    signed_rank = 1.0 if a == b else float(stats.wilcoxon(a, b, zero_method="pratt").pvalue)
    return Assessment(names, len(a), fmean(a), fmean(b), rank_sum, signed_rank, unscored)


def _stars(p_value: float) -> str:
    return "*" * sum(p_value < level for level in (0.05, 0.01, 0.001))


def _read_key(path: Path) -> tuple[tuple[str, str], dict[str, str]]:
    check_readable([path])
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        left = {str(item["item"]): item["left"] for item in facts["items"]}
        names = str(facts["a"]), str(facts["b"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not the key of a sheet ({error}); give the {KEY} that was written with it."
        ) from error
    if not set(left.values()) <= {"A", "B"}:
        raise InputError(f"{path} is not the key of a sheet: left must be A or B.")
    return names, left


def _read_sheet(path: Path) -> list[tuple[str, list[float | None]]]:
    """Items and their left and right scores, None where a score is missing."""
    check_readable([path])
    text = "\n".join(read_all([path]))
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)  # spreadsheets of some countries write semicolons
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    missing = {"item", "left_score", "right_score"} - set(rows.fieldnames or ())
    if missing:
        raise InputError(
            f"{path} has no column {', '.join(sorted(missing))}; its columns must be {', '.join(COLUMNS)}."
        )
    return [
        (row["item"], [_score(row[side], path, row["item"]) for side in ("left_score", "right_score")]) for row in rows
    ]


def _score(text: str | None, path: Path, item: str) -> float | None:
    if text is None or not text.strip():
        return None
    try:
        score = float(text.strip().replace(",", "."))
    except ValueError:
        score = float("nan")
    if not LOWEST <= score <= HIGHEST:
        raise InputError(f"{path}, item {item}: the score is {text!r}; it must be a number from 0 to 100.")
    return score


def _page(rows: Sequence[Sequence[str]]) -> str:
    """The sheet as one HTML page that works without a network and saves the filled sheet as CSV."""
    template = resources.files("sharpbeam.report").joinpath("sheet.html").read_text(encoding="utf-8")
    items = json.dumps(rows, ensure_ascii=False).replace("<", "\\u003c")
    return (
        template.replace("{{columns}}", json.dumps(COLUMNS))
        .replace("{{items}}", items)
        .replace("{{title}}", html.escape(f"Assessment of {len(rows)} items"))
    )
