"""Logical forms are compared as the published evaluation compares them."""

from __future__ import annotations

import pytest

from bench.papers.stream.forms import normal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("( and ( flight $0 ) ( from $0 ci0 ) )", "( and ( from $0 ci0 ) ( flight $0 ) )"),
        ("( lambda $0 e ( or ( b $0 ) ( and ( d $0 ) c ) ) )", "( lambda $0 e ( or ( and c ( d $0 ) ) ( b $0 ) ) )"),
        ("( and ( b $0 ) ( a $0 )", "( and ( a $0 ) ( b $0 ) )"),  # a bracket that is missing at the end
        ("( and b a ) )", "( and a b )"),  # one too many
        ("ci0", "ci0"),
    ],
)
def test_forms_that_are_the_same(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("( from ci0 ci1 )", "( from ci1 ci0 )"),
        ("( and ( a $0 ) ( b $0 ) )", "( or ( a $0 ) ( b $0 ) )"),
        ("( and a ( b c ) )", "( and a b c )"),
    ],
)
def test_forms_that_differ(one: str, other: str) -> None:
    assert normal(one) != normal(other)
