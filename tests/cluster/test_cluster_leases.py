from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nadi.cluster import leases
from nadi.cluster.contract import Seen
from nadi.cluster.leases import Candidate, Held, Refused
from nadi.cluster.rows import Lease, key_of
from nadi.cluster.settings import DRIFT, Election, Timing, at_least, at_most

ONE, TWO = Candidate("m1", "i1", "host:1"), Candidate("m2", "i2", "host:2")


def seen(now: int, row: Lease | None) -> Seen:
    return Seen(now, {} if row is None else {key_of(row): row})


def test_a_lease_that_nobody_has_is_taken_with_token_1() -> None:
    assert leases.claimed(seen(100, None), "sp", ONE, 50) == Lease("sp", "m1", "i1", "host:1", 1, 100, 150)


def test_a_lease_is_renewed_with_its_token_and_refused_to_others() -> None:
    row = leases.claimed(seen(100, None), "sp", ONE, 50)
    assert leases.claimed(seen(149, row), "sp", TWO, 50) is None
    renewed = leases.claimed(seen(149, row), "sp", ONE, 50)
    assert renewed is not None
    assert (renewed.token, renewed.expires) == (1, 199)


def test_a_node_that_was_started_again_is_another_holder() -> None:
    row = leases.claimed(seen(100, None), "sp", ONE, 50)
    again = Candidate("m1", "i3", "host:1")
    assert leases.claimed(seen(120, row), "sp", again, 50) is None
    taken = leases.claimed(seen(150, row), "sp", again, 50)
    assert taken is not None
    assert taken.token == 2


def test_a_database_whose_clock_was_set_back_does_not_take_back_what_it_said() -> None:
    row = leases.claimed(seen(100, None), "sp", ONE, 50)
    renewed = leases.claimed(seen(40, row), "sp", ONE, 50)
    assert renewed is not None
    assert leases.sign_of(renewed) >= leases.sign_of(row)


def test_a_lease_that_is_given_back_is_over_at_once() -> None:
    row = leases.claimed(seen(100, None), "sp", ONE, 50)
    (given_back,) = leases.renounced(seen(120, row), "sp", 1).put
    assert isinstance(given_back, Lease)
    taken = leases.claimed(seen(120, given_back), "sp", TWO, 50)
    assert taken is not None
    assert taken.token == 2
    assert leases.renounced(seen(120, taken), "sp", 1).put == ()


def test_a_write_is_fenced_by_the_token() -> None:
    row = leases.claimed(seen(100, None), "sp", ONE, 50)
    assert leases.fenced(seen(500, row), "sp", 1) is None
    assert leases.fenced(seen(500, row), "sp", 2) == Refused(1)
    assert leases.fenced(seen(500, None), "sp", 1) == Refused(0)


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(-200, 400)), max_size=60),
    length=st.integers(1, 300),
)
def test_tokens_only_grow_and_each_belongs_to_one_holder(steps: list[tuple[int, int]], length: int) -> None:
    row: Lease | None = None
    now, holders = 1_000, dict[int, str]()
    for who, passed in steps:
        now += passed  # the database's clock may be set back
        before = row
        claimed = leases.claimed(seen(now, row), "sp", Candidate(f"m{who}", f"i{who}", ""), length)
        row = claimed or row
        assert leases.sign_of(row) >= leases.sign_of(before)
        if row is not None:
            assert holders.setdefault(row.token, row.holder) == row.holder


@given(
    sent=st.integers(0, 10**9),
    travel=st.integers(0, 5_000),
    length=st.integers(100, 60_000),
    fast=st.floats(-DRIFT / 2, DRIFT / 2),
    slow=st.floats(-DRIFT / 2, DRIFT / 2),
)
def test_who_has_a_lease_ends_before_who_waits_for_its_end_begins(
    sent: int, travel: int, length: int, fast: float, slow: float
) -> None:
    """`sent` is a true time; both clocks run at speeds of their own."""
    ends = sent + (leases.counted_until(0, travel, length) - 0) / (1 + slow)
    begins = sent + travel + at_least(length) / (1 + fast)
    assert ends <= begins
    assert at_most(length) < length < at_least(length)


def test_a_holder_counts_by_its_own_clock() -> None:
    held = Held("sp", 3, 1_000)
    assert held.valid(999)
    assert not held.valid(1_000)


def test_the_times_of_the_contract_follow_from_what_is_configured() -> None:
    assert Election().lease == 2_000
    assert Timing().lease == 8_000
    assert Timing(interval=10_000, retries=2).lease == 40_000
