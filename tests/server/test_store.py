"""The store of a server: how much space a client takes, whose values leave first, and for how long they stay."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from sharpbeam.server.refusals import Refused
from sharpbeam.server.store import LIFETIME, Store

SPACE = 16


def kept(store: Store[str], ids: list[str]) -> list[str]:
    """Those of `ids` that are there."""
    present = []
    for id in ids:
        with suppress(Refused):
            store.get(id)
            present.append(id)
    return present


def test_values_of_a_client_that_takes_most_leave_first() -> None:
    store = Store[str]("value", SPACE)
    mine = store.put("me", "mine")
    many = [store.put("greedy", "x") for _ in range(5 * SPACE)]
    assert store.get(mine).value == "mine"
    assert kept(store, many) == many[-SPACE + 1 :]
    large = store.put("large", "x", 4)
    assert kept(store, [mine, *many, large]) == [mine, *many[-SPACE + 5 :], large]
    huge = store.put("huge", "x", 10 * SPACE)
    assert kept(store, [mine, *many, large, huge]) == [huge]


def test_a_small_value_counts_as_the_least() -> None:
    store = Store[str]("value", SPACE, least=4)
    ids = [store.put("me", "x") for _ in range(6)]
    assert kept(store, ids) == ids[-4:]


def test_a_value_is_that_of_its_client_until_it_is_deleted() -> None:
    store = Store[str]("value", SPACE)
    id = store.put("me", "mine", suffix=".txt")
    assert id.endswith(".txt") and len(id) == 28
    assert store.get(id, "me").value == "mine" and [each for each, _ in store.of("me")] == [id]
    for wrong in (lambda: store.get(id, "you"), lambda: store.delete(id, "you"), lambda: store.get("other")):
        with pytest.raises(Refused, match="there is no such value, or no longer"):
            wrong()
    store.delete(id, "me")
    assert store.of("me") == []


def test_values_are_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    store, now = Store[str]("value", SPACE), time.time()
    old = store.put("me", "old")
    monkeypatch.setattr(time, "time", lambda: now + LIFETIME + 1)
    with pytest.raises(Refused):
        store.get(old)
    new = store.put("me", "new")
    assert [id for id, _ in store.of("me")] == [new]
