"""Blind sheets and the tests on filled ones: what annotators see, and the power on an annotator of known bias."""

from __future__ import annotations

import csv
import html.parser
import json
from pathlib import Path

import numpy as np
import pytest

from sharpbeam import Comparison, assess, compare, write_sheets
from sharpbeam.errors import InputError
from sharpbeam.report.assessment import COLUMNS, KEY, PAGE, SHEET

pytest.importorskip("scipy")


@pytest.fixture
def comparison() -> Comparison:
    count = 400
    a = [f'good {i} <b>&</b>, "so"' if i % 4 else "same" for i in range(count)]
    b = [f"other {i}" if i % 4 else "same" for i in range(count)]
    return compare(a, b, [f"source {i} </script>" for i in range(count)])


def rows_of(sheet: Path) -> list[dict[str, str]]:
    with sheet.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def fill(folder: Path, name: str, bias: float, seed: int, noise: float = 15.0) -> Path:
    """A sheet filled by a simulated annotator, who scores B's outputs `bias` above A's, before `noise`."""
    draw = np.random.default_rng(seed)
    left = {str(item["item"]): item["left"] for item in json.loads((folder / KEY).read_text())["items"]}
    rows = rows_of(folder / SHEET)
    for row in rows:
        level = draw.uniform(40, 80)  # how hard the item is
        for side in ("left", "right"):
            is_b = (left[row["item"]] == "A") == (side == "right")
            row[f"{side}_score"] = f"{np.clip(level + bias * is_b + draw.normal(0, noise), 0, 100):.0f}"
    path = folder / name
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_sheet_is_blind_and_the_key_undoes_it(comparison: Comparison, tmp_path: Path) -> None:
    assert write_sheets(comparison, tmp_path, items=100, seed=3) == 100
    rows, key = rows_of(tmp_path / SHEET), json.loads((tmp_path / KEY).read_text())
    assert list(rows[0]) == list(COLUMNS) and len(rows) == len(key["items"]) == 100
    lines = [item["line"] for item in key["items"]]
    assert len(set(lines)) == 100 and all((line - 1) % 4 for line in lines)  # only outputs that differ, each once
    for row, item in zip(rows, key["items"], strict=True):
        index = item["line"] - 1
        sides = (comparison.a[index], comparison.b[index])
        assert (row["left"], row["right"]) == (sides if item["left"] == "A" else sides[::-1])
        assert row["source"] == comparison.sources[index] and row["left_score"] == row["right_score"] == ""
    assert 30 < sum(item["left"] == "A" for item in key["items"]) < 70
    shown = (tmp_path / SHEET).read_text() + (tmp_path / PAGE).read_text()
    assert all(name not in shown for name in comparison.names)
    again = tmp_path / "again"
    write_sheets(comparison, again, items=100, seed=3)
    assert all((again / name).read_bytes() == (tmp_path / name).read_bytes() for name in (SHEET, PAGE, KEY))
    write_sheets(comparison, again, items=100, seed=4)
    assert (again / KEY).read_bytes() != (tmp_path / KEY).read_bytes()


def test_the_page_holds_the_same_items_and_needs_no_network(comparison: Comparison, tmp_path: Path) -> None:
    write_sheets(comparison, tmp_path, items=20)
    page = (tmp_path / PAGE).read_text()
    line = next(line for line in page.splitlines() if line.startswith("const columns"))
    items = json.loads(line.partition("items = ")[2].removesuffix(";"))
    assert [item[:4] for item in items] == [[row[name] for name in COLUMNS[:4]] for row in rows_of(tmp_path / SHEET)]
    assert "http" not in page and page.count("<script>") == page.count("</script>") == 1

    class Tags(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            assert tag not in ("link", "img", "iframe") and "src" not in dict(attributes)

    Tags().feed(page)


@pytest.mark.parametrize("bias", [6.0, -6.0])
def test_a_bias_is_found(comparison: Comparison, tmp_path: Path, bias: float) -> None:
    write_sheets(comparison, tmp_path, items=250)
    found = assess([fill(tmp_path, "anna.csv", bias, 1), fill(tmp_path, "ben.csv", bias, 2)], tmp_path / KEY)
    assert found.items == 500 and found.unscored == 0
    assert found.mean_b - found.mean_a == pytest.approx(bias, abs=2)
    assert found.rank_sum_p < 0.001 and found.signed_rank_p < 0.001
    assert "***" in found.summary()


def test_power_and_false_alarms(comparison: Comparison, tmp_path: Path) -> None:
    """Of 40 simulated annotators: without a bias few are significant; with 4 points most, by the paired test more."""
    write_sheets(comparison, tmp_path, items=200)

    def significant(bias: float) -> tuple[int, int]:
        found = [assess([fill(tmp_path, "filled.csv", bias, seed)], tmp_path / KEY) for seed in range(40)]
        return sum(one.rank_sum_p < 0.05 for one in found), sum(one.signed_rank_p < 0.05 for one in found)

    rank_sum, signed_rank = significant(0)
    assert rank_sum <= 6 and signed_rank <= 6  # 2 are expected; 7 or more have a chance below 0.5%
    rank_sum, signed_rank = significant(4)
    assert signed_rank >= 25 and signed_rank > rank_sum >= 15


def test_equal_scores_are_no_difference(comparison: Comparison, tmp_path: Path) -> None:
    write_sheets(comparison, tmp_path, items=10)
    text = (tmp_path / SHEET).read_text()
    (tmp_path / "even").write_text(text.replace(",,,", ",70,70,").replace(",", ","))
    found = assess([tmp_path / "even"], tmp_path / KEY)
    assert (found.rank_sum_p, found.signed_rank_p) == (1, 1) and found.mean_a == found.mean_b == 70


def test_sheets_of_spreadsheets_and_half_filled_ones(comparison: Comparison, tmp_path: Path) -> None:
    write_sheets(comparison, tmp_path, items=3)
    lines = ["item;left_score;right_score", "1;50,5;60", "2;;60", "3; 70 ;80"]
    (tmp_path / "excel.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    found = assess([tmp_path / "excel.csv"], tmp_path / KEY)
    assert (found.items, found.unscored) == (2, 1)
    assert {found.mean_a, found.mean_b} <= {60.25, 70.0, 65.25, 65.0} and "1 items without both" in found.summary()


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        ("item,left_score,right_score\n1,x,3\n", "item 1: the score is 'x'; it must be a number from 0 to 100"),
        ("item,left_score,right_score\n1,101,3\n", "the score is '101'"),
        ("item,left_score,right_score\n1,nan,3\n", "the score is 'nan'"),
        ("item,left_score,right_score\n9,1,3\n", "item 9 is not in .*key.json"),
        ("item,left_score,right_score\n1,,3\n", "no item with both scores"),
        ("item,score\n1,3\n", "has no column left_score, right_score"),
        ("", "has no column item, left_score, right_score"),
    ],
)
def test_broken_sheets(comparison: Comparison, tmp_path: Path, sheet: str, message: str) -> None:
    write_sheets(comparison, tmp_path, items=2)
    (tmp_path / "filled").write_text(sheet)
    with pytest.raises(InputError, match=message):
        assess([tmp_path / "filled"], tmp_path / KEY)


def test_what_cannot_be_assessed(comparison: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="all outputs are identical"):
        write_sheets(compare(["a"], ["a"], ["x"]), tmp_path)
    with pytest.raises(InputError, match="a sheet needs the sources"):
        write_sheets(compare(["a"], ["b"]), tmp_path)
    write_sheets(comparison, tmp_path, items=2)
    for key in ("{", "[]", "{}", '{"a": 1, "b": 2, "items": [{"item": 1, "left": "C"}]}'):
        (tmp_path / "key").write_text(key)
        with pytest.raises(InputError, match="key"):
            assess([tmp_path / SHEET], tmp_path / "key")
