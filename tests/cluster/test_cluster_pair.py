from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nadi.cluster.contract import Change, Seen
from nadi.cluster.leases import Candidate
from nadi.cluster.machineclock import MachineClock
from nadi.cluster.pair import DiskMemory, PairSettings
from nadi.cluster.pair.companions import Companions
from nadi.cluster.pair.gate import Companion, TermGate
from nadi.cluster.pair.insync import SetWriter
from nadi.cluster.pair.membership import Member, Sign, changed, members_of, written
from nadi.cluster.pair.refusals import is_full, lonely, other_groups, same_id
from nadi.cluster.pair.right import Right
from nadi.cluster.pair.status import Partner
from nadi.cluster.rows import InSync, Lease, ManagerRow, Row, key_of
from nadi.cluster.sqlstore import SqlStore
from nadi.databases import Address
from nadi.errors import NadiError
from nadi.eventsync.contract import Hello, SessionOver
from nadi.replica.contract import ObjectPut, Record, Statements

ME = Candidate("n1", "i1", "host:9893")


def seen(*rows: Row, now: int = 1_000) -> Seen:
    return Seen(now, {key_of(row): row for row in rows})


def row(name: str, heartbeat: int, incarnation: str = "i0") -> ManagerRow:
    return ManagerRow(name, "host:1", incarnation, False, heartbeat)


def alone(name: str, paired: bool, group: str = "sp") -> InSync:
    return InSync(group, 1, 1, written([Member(name, "s")]), 0, "", paired)


def test_a_store_keeps_its_id_and_the_highest_token(tmp_path: Path) -> None:
    first = DiskMemory(tmp_path / "pair")
    first.note(7)
    first.note(3)
    first.mark(whole=False)
    again = DiskMemory(tmp_path / "pair")
    assert (again.store, again.token, again.whole) == (first.store, 7, False)
    assert DiskMemory(tmp_path / "other").store != first.store


def test_another_live_node_with_this_id_is_seen() -> None:
    assert same_id([row("n1", 900)], 1_000, ME, 2_000) == row("n1", 900)
    assert same_id([row("n1", 900)], 9_000, ME, 2_000) is None
    assert same_id([row("n1", 900, "i1")], 1_000, ME, 2_000) is None


def test_a_third_live_node_is_refused_and_one_beside_a_dead_one_is_not() -> None:
    found = is_full([row("n2", 900), row("n3", 900)], 1_000, ME, "sp", 2_000)
    assert found is not None
    assert found.condition == "PAIR_COMPLETE"
    assert is_full([row("n2", 9_000), row("n3", 900)], 9_000, ME, "sp", 2_000) is None


def test_a_new_group_beside_a_node_that_waits_for_its_partner_is_refused() -> None:
    others = other_groups({"sp2": seen(row("n2", 900), alone("n2", False, "sp2"))}, "sp")
    found = lonely(others, seen(), 1_000, ME, "sp", 2_000)
    assert found is not None
    assert found.condition == "PAIR_GROUPS_DIFFER"
    assert "sp2" in found.message


def test_a_new_group_beside_a_pair_that_had_a_partner_is_not_refused() -> None:
    others = other_groups({"sp2": seen(row("n2", 900), alone("n2", True, "sp2"))}, "sp")
    assert lonely(others, seen(), 1_000, ME, "sp", 2_000) is None


def test_a_group_of_managers_is_no_pair() -> None:
    assert other_groups({"sp2": seen(row("m1", 900))}, "sp") == []


def test_a_change_of_the_set_is_made_over_a_lower_number_only() -> None:
    lease = Lease("sp", "n1", "i1", "", 1, 0, 5_000)
    both = (Member("n1", "s"), Member("n2", "t"))
    first = changed(seen(lease, alone("n1", False)), "sp", 1, 3, both, "n2 is in sync")
    (made,) = first.put
    assert isinstance(made, InSync)
    assert members_of(made) == both
    assert made.paired
    assert changed(seen(lease, made), "sp", 1, 2, both[:1], "late").put == ()
    assert changed(seen(lease, made), "sp", 0, 4, both[:1], "fenced").put == ()


class Hanging:
    """A session whose partner takes nothing."""

    partner = Hello("n2", "i2", "t", 1, "1", "1", "s")

    async def send(self, record: Record) -> int:
        return await asyncio.get_running_loop().create_future()

    copying = False

    async def beat(self) -> str:
        return ""

    async def catch_up(self) -> Hello:
        return await asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        """Nothing is open."""


class Opens:
    """A link that has one session to give."""

    def __init__(self, session: Hanging) -> None:
        self.sessions = [session]

    async def open(self, _address: str, _mine: Hello) -> Hanging:
        if not self.sessions:
            raise SessionOver("the test says so")
        return self.sessions.pop()


@pytest.mark.parametrize("copying", [False, True])
def test_a_partner_that_catches_up_and_takes_nothing_any_more_holds_writers_up_only_while_services_are_copied(
    copying: bool,
) -> None:
    async def case() -> None:
        clock, settings, hello = MachineClock(), PairSettings(interval=20, retries=1), Hanging.partner
        right = Right(7, settings.lease)
        session, gate, nobody = Hanging(), TermGate(lambda: True), asyncio.Event()
        session.copying = copying

        async def found() -> Partner:
            return Partner("n2", "host:1")

        def opened() -> None:
            if gate.companion is not None:
                nobody.set()

        writer: SetWriter = None  # type: ignore[assignment]  # the partner never gets into the set
        companions = Companions(
            Member("n1", "s"), settings, clock, Opens(session), right, gate, writer, lambda: hello, found, opened,  # type: ignore[arg-type]
        )  # fmt: skip
        caring = asyncio.ensure_future(companions.run())
        await nobody.wait()
        writing = asyncio.ensure_future(gate.prepare(Statements(1, [])))
        done, _ = await asyncio.wait([writing], timeout=1.0 if copying else 10.0)
        assert bool(done) is not copying
        caring.cancel()
        gate.end("the test is over")
        await asyncio.wait([caring, writing])

    asyncio.run(case())


def test_a_record_that_waits_for_the_partner_is_known_and_an_object_may_take_as_long_as_it_is_large() -> None:
    async def case() -> None:
        gate = TermGate(lambda: True)
        gate.companion = Companion(Hanging())  # type: ignore[arg-type]
        seen = [gate.oldest]
        waiting = []
        for record in (ObjectPut("A/log/d-1", 1 << 40), Statements(1, []), Statements(2, [])):
            waiting.append(asyncio.ensure_future(gate.prepare(record)))
            await asyncio.sleep(0)
            seen.append(gate.oldest)
        assert seen[:2] == [0, 0]
        assert 0 < seen[2] == seen[3]
        gate.end("the test says so")
        for told in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(told, NadiError)
            assert told.condition == "CONNECTION_UNAVAILABLE"
        assert gate.oldest == 0

    asyncio.run(case())


@pytest.mark.parametrize("settles", [TermGate.confirm, TermGate.abandon])
def test_whoever_waits_until_nothing_is_under_way_is_woken_by_the_last_record_that_is_settled(
    settles: Callable[[TermGate, int], None],
) -> None:
    async def case() -> None:
        gate = TermGate(lambda: True)
        ticket = await gate.prepare(Statements(1, []))
        waits = asyncio.ensure_future(gate.quiet())
        await asyncio.sleep(0)
        assert not waits.done()
        settles(gate, ticket)
        async with asyncio.timeout(5):
            await waits

    asyncio.run(case())


def test_a_sign_is_behind_by_token_renewal_or_change() -> None:
    assert Sign(1, 9, 9).behind(Sign(2, 0, 0))
    assert Sign(2, 5, 1).behind(Sign(2, 6, 1))
    assert Sign(2, 6, 0).behind(Sign(2, 6, 1))
    assert not Sign(2, 6, 1).behind(Sign(2, 6, 1))
    assert not Sign(3, 0, 0).behind(Sign(2, 6, 1))


def test_the_groups_of_a_database_are_read(tmp_path: Path) -> None:
    address = Address(f"jdbc:sqlite:{tmp_path}/pair.db")
    stores = [SqlStore(address, group, within=15_000) for group in ("sp", "sp2")]
    stores[0].open()

    async def case() -> None:
        for n, store in enumerate(stores):
            await store.transact([], lambda _seen, n=n: Change(put=(row(f"n{n}", n),)))  # type: ignore[misc]
        found = await stores[0].groups(ManagerRow, InSync)
        assert {name: [r.id for r in rows.all(ManagerRow)] for name, rows in found.items()} == {
            "sp": ["n0"],
            "sp2": ["n1"],
        }

    asyncio.run(case())
    for store in stores:
        store.close()
