"""What coordination asks of a store. `test_cluster_store` runs it on databases and on the one that the simulator has instead of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from nadi.cluster import leases
from nadi.cluster.contract import Change, Seen, Store
from nadi.cluster.leases import Candidate, Refused
from nadi.cluster.rows import (
    KINDS,
    Actual,
    Agreed,
    App,
    AppChange,
    Beat,
    Beginning,
    Drained,
    Epoch,
    Event,
    Failure,
    InSync,
    Lease,
    ManagerRow,
    Membership,
    Part,
    Placement,
    Removed,
    Revision,
    Row,
    Stale,
    Waiting,
    WorkerRow,
    key_of,
)  # fmt: skip

LONG = "für jeden Strom ∞\n" * 20_000
EXAMPLES: tuple[Row, ...] = (
    Lease("sp", "m1", "0-1", "host:1", 1, 10, 20),
    ManagerRow("m1", "host:1", "0-1", True, 10),
    Membership("m1", 7, "MEMBER_ADDED", "m2"),
    Removed("m1", "m2", "host:2"),
    WorkerRow("w1", "host:3", "0-1", True, False, False, 1_700_000_000_000, "0.1.0+mine"),
    Beat("w1", 10, 0.25, None, 1.0),
    App("A", 3, "d1", LONG),
    Part("A-g-1", "A", "A-g", "d2", LONG, False, 0.5),
    Placement("A-g-1", "w1", 4, "d2", True),
    Epoch("A-g-1", 4),
    Actual("A-g-1", "w1", 4, "failed", "no room; it's full"),
    Waiting("A", "0 of 1 workers are there (minResourceCount)"),
    Failure("A-g-1", 2, 4, "no luck"),
    Revision("7__A", "A", 3, 10, LONG),
    Beginning("A-g-1", "7__A-g-1", 5),
    Event(1, 2, 10, "app waits", "A", ""),
    AppChange("A", 4, "d3", LONG, "v4-0a1b2c", LONG),
    Drained("A-g-1", "A", 4),
    Stale("A:3", "A", 3, LONG, ""),
    InSync("sp", 4, 7, LONG, 1_700_000_000_000, "n2 did not answer", True),
    Agreed("secret", "s" * 64),
)
M1, M2 = Candidate("m1", "i1", "host:1"), Candidate("m2", "i2", "host:2")


async def put(store: Store, *rows: Row) -> None:
    await store.transact([], lambda _seen: Change(put=rows))


async def rows_that_were_put_are_read(store: Store) -> None:
    assert {type(row) for row in EXAMPLES} == set(KINDS)
    await put(store, *EXAMPLES)
    seen = await store.read(*KINDS)
    assert [seen.rows[key_of(row)] for row in EXAMPLES] == list(EXAMPLES)
    assert len(seen.rows) == len(EXAMPLES)


async def a_row_is_put_over_the_one_before(store: Store) -> None:
    for row in EXAMPLES:
        await put(store, row)
        await put(store, row)
    changed = replace(EXAMPLES[8], worker="w2", epoch=5)  # type: ignore[call-arg]
    await put(store, changed)
    assert (await store.read(Placement)).all(Placement) == [changed]


async def dropped_rows_are_gone_and_others_stay(store: Store) -> None:
    await put(store, *EXAMPLES, Epoch("other", 1), Membership("m1", 8, "MEMBER_REMOVED", "m2"))
    await store.transact([], lambda _seen: Change(drop=tuple(key_of(row) for row in EXAMPLES)))
    seen = await store.read(*KINDS)
    assert set(seen.rows.values()) == {Membership("m1", 8, "MEMBER_REMOVED", "m2"), Epoch("other", 1)}


async def a_transaction_sees_what_it_asked_for(store: Store) -> None:
    await put(store, *EXAMPLES)
    found: list[Seen] = []
    asked = [(Epoch, ("A-g-1",)), (Epoch, ("nobody",)), (Lease, ("sp",))]

    def decide(seen: Seen) -> Change:
        found.append(seen)
        return Change(said="nothing written")

    change = await store.transact(asked, decide)
    assert change.said == "nothing written"
    assert found[-1].get(Epoch, "A-g-1") == Epoch("A-g-1", 4)
    assert found[-1].get(Epoch, "nobody") is None
    assert len(found[-1].rows) == 2


async def names_that_differ_in_case_are_two(store: Store) -> None:
    await put(store, Epoch("a", 1), Epoch("A", 2), Epoch("ä", 3))
    assert len((await store.read(Epoch)).rows) == 3


async def nothing_is_lost_between_transactions_at_the_same_time(store: Store) -> None:
    def decide(seen: Seen) -> Change:
        before = seen.get(Epoch, "x")
        raised = Epoch("x", 1 if before is None else before.epoch + 1)
        return Change(put=(raised,), said=raised.epoch)

    changes = await asyncio.gather(*(store.transact([(Epoch, ("x",))], decide) for _ in range(12)))
    assert sorted(change.said for change in changes) == list(range(1, 13))  # type: ignore[type-var]


async def of_many_that_want_a_lease_one_has_it(store: Store) -> None:
    def wants(n: int) -> Callable[[Seen], Change]:
        def decide(seen: Seen) -> Change:
            found = leases.claimed(seen, "sp", Candidate(f"m{n}", f"i{n}", "host"), 60_000)
            return Change() if found is None else Change(put=(found,), said=found.owner)

        return decide

    changes = await asyncio.gather(*(store.transact([(Lease, ("sp",))], wants(n)) for n in range(8)))
    winners = [change.said for change in changes if change.said]
    assert len(winners) == 1
    assert (await store.read(Lease)).all(Lease)[0].owner == winners[0]


async def a_lease_that_is_over_is_taken_with_a_higher_token(store: Store) -> None:
    def take(who: Candidate, length: int) -> Callable[[Seen], Change]:
        def decide(seen: Seen) -> Change:
            found = leases.claimed(seen, "sp", who, length)
            return Change() if found is None else Change(put=(found,), said=found.token)

        return decide

    key = [(Lease, ("sp",))]
    assert (await store.transact(key, take(M1, 60_000))).said == 1
    assert (await store.transact(key, take(M2, 60_000))).said is None
    assert (await store.transact(key, take(M1, 0))).said == 1
    assert (await store.transact(key, take(M2, 60_000))).said == 2


async def a_write_with_an_old_token_changes_nothing(store: Store) -> None:
    await put(store, Lease("sp", "m2", "i2", "host:2", 2, 0, 1 << 50))

    def decide(seen: Seen) -> Change:
        refused = leases.fenced(seen, "sp", 1)
        return Change(said=refused) if refused else Change(put=(Epoch("x", 1),))

    change = await store.transact([(Lease, ("sp",))], decide)
    assert change.said == Refused(2)
    assert (await store.read(Epoch)).rows == {}


async def a_change_that_cannot_be_decided_is_none(store: Store) -> None:
    def decide(_seen: Seen) -> Change:
        raise ZeroDivisionError

    try:
        await store.transact([(Epoch, ("x",))], decide)
    except ZeroDivisionError:
        await put(store, Epoch("x", 1))
        return
    raise AssertionError("the error of who decides is raised")


async def what_is_read_is_from_one_moment(store: Store) -> None:
    await put(store, Epoch("a", 50), Failure("b", 50, 0, ""))

    def moved(seen: Seen) -> Change:
        one, other = seen.get(Epoch, "a"), seen.get(Failure, "b")
        assert one is not None
        assert other is not None
        return Change(put=(Epoch("a", one.epoch - 1), Failure("b", other.count + 1, 0, "")))

    async def move() -> None:
        for _ in range(10):
            await store.transact([(Epoch, ("a",)), (Failure, ("b",))], moved)

    async def look() -> None:
        for _ in range(10):
            seen = await store.read(Epoch, Failure)
            assert seen.all(Epoch)[0].epoch + seen.all(Failure)[0].count == 100

    await asyncio.gather(move(), look())


async def the_time_is_the_stores_and_goes_on(store: Store) -> None:
    times = [(await store.read(Epoch)).now for _ in range(3)]
    assert times == sorted(times)
    assert times[0] > 1_600_000_000_000


CASES: tuple[Callable[[Store], Awaitable[None]], ...] = (
    rows_that_were_put_are_read,
    a_row_is_put_over_the_one_before,
    dropped_rows_are_gone_and_others_stay,
    a_transaction_sees_what_it_asked_for,
    names_that_differ_in_case_are_two,
    nothing_is_lost_between_transactions_at_the_same_time,
    of_many_that_want_a_lease_one_has_it,
    a_lease_that_is_over_is_taken_with_a_higher_token,
    a_write_with_an_old_token_changes_nothing,
    a_change_that_cannot_be_decided_is_none,
    what_is_read_is_from_one_moment,
    the_time_is_the_stores_and_goes_on,
)
