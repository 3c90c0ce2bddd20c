"""How many bytes a channel has by its progress records, and when a producer looks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nadi.channels.fill import Bound, Fill
from nadi.channels.records import CUT, Piece, Progress
from nadi.channels.transport import Told


@given(st.lists(st.integers(0, 1_000), max_size=30), st.integers(0, 40))
def test_it_holds_what_was_added_and_is_not_gone(sizes: list[int], gone: int) -> None:
    fill = Fill()
    for place, size in enumerate(sizes, 1):
        pieces = (Piece(0, 7, 1, 0, 0, size=size),)
        fill.add(Told(place, Progress("A-1", 1, CUT, place, 0, 0, (place,), pieces)))
    fill.drop(gone)
    assert fill.bytes == sum(sizes[gone:])


@given(st.integers(1, 100_000), st.lists(st.integers(0, 20_000), max_size=60))
def test_a_producer_alone_goes_beyond_the_bound_by_no_more_than_what_it_writes_at_once(
    most: int, sizes: list[int]
) -> None:
    bound, held = Bound(most), 0
    for size in sizes:
        if bound.asks(size) and not bound.takes(held, size):
            assert held >= most
            break
        assert held < most or size == 0  # what is empty takes no room
        held += size


def test_without_a_bound_nobody_looks() -> None:
    assert not Bound(0).asks(10**12)
