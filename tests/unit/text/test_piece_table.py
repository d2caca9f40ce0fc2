"""The list of pieces of an imported vocabulary: what a tuple and a dict would say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharpbeam.text import piece_table
from sharpbeam.text.piece_table import PieceTable

# Short, so that pieces come twice; with halves of characters, as JSON may have them.
PIECES = st.lists(st.text(st.sampled_from("aé▁日\0\ud800\udc00"), max_size=2), max_size=30)


@given(PIECES, st.sets(st.integers(0, 29)), st.booleans())
def test_it_says_what_a_tuple_and_a_dict_say(pieces: list[str], hidden: set[int], collide: bool) -> None:
    hidden = {number for number in hidden if number < len(pieces)}
    numbers = {piece: number for number, piece in enumerate(pieces) if number not in hidden}
    with pytest.MonkeyPatch.context() as patch:
        if collide:
            patch.setattr(piece_table, "hash", len, raising=False)  # pieces of one length have one hash
        table = PieceTable(pieces, hidden)
        assert list(table) == pieces
        assert len(table) == len(pieces)
        for piece in [*pieces, "b", "日a", *pieces]:  # the second time it remembers
            assert table.find(piece) == numbers.get(piece)
            assert table.find_all([piece], -1) == [numbers.get(piece, -1)]


@pytest.mark.parametrize("number", [-1, 2])
def test_a_number_that_it_does_not_have_is_an_error(number: int) -> None:
    with pytest.raises(IndexError, match=f"piece {number} is asked for; there are those from 0 to 1"):
        PieceTable(["a", "b"]).piece(number)


def test_unknown_pieces_are_not_kept() -> None:
    table = PieceTable(["a"])
    assert [table.find(piece) for piece in ("a", "b", "c")] == [0, None, None]
    assert table._found == {"a": 0}


def test_hidden_numbers_of_no_piece_hide_none() -> None:
    table = PieceTable(["a", "b"], [1, 2, 58100, -1, 10**30])
    assert (table.find("a"), table.find("b")) == (0, None)
