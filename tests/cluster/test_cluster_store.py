from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from servers.emptydatabase import EmptyDatabase

from nadi.cluster import sqlstore
from nadi.cluster.contract import Change, Seen, Store, StoreAway
from nadi.cluster.rows import KINDS, Epoch, Lease, Placement, WorkerRow
from nadi.cluster.sqlstore import SqlStore
from nadi.cluster.sqltables import NAMES
from nadi.errors import NadiError

for folder in (Path(__file__).parent, Path(__file__).parent.parent / "simulation"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from simloop import Loop, Process  # noqa: E402 (the folder had to be added first)
from simnet import DATABASE, Database, FarStore, Weather, Wires  # noqa: E402
from storesuite import CASES, EXAMPLES, put  # noqa: E402

Case = Callable[[Store], Awaitable[None]]


@pytest.fixture
def store(database: EmptyDatabase) -> Iterator[SqlStore]:
    made = SqlStore(database.address, "sp", within=15_000)
    made.open()
    yield made
    made.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_database(case: Case, store: SqlStore) -> None:
    asyncio.run(case(store))  # type: ignore[arg-type]


def simulated(case: Case, weather: Weather, cut: tuple[str, str] | None = None, seed: int = 1) -> Database:
    """Run it on the simulator's database."""
    loop = Loop(Random(seed))
    wires = Wires(Random(seed), weather, {cut} if cut else set())
    database = Database(lambda: int(1_700_000_000_000 + loop.ms))
    far = FarStore("m1", database, loop, wires)
    loop.spawn(Process("m1"), case(far))  # type: ignore[arg-type]
    loop.run_until(1e9, lambda: None)
    if loop.failures:
        raise loop.failures[0]
    loop.finish()
    return database


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_simulated_database(case: Case, seed: int) -> None:
    simulated(case, Weather(), seed=seed)


def test_a_simulated_change_without_an_answer_may_have_been_made() -> None:
    async def case(store: Store) -> None:
        with pytest.raises(StoreAway):
            await put(store, Epoch("x", 1))

    assert list(simulated(case, Weather(), (DATABASE, "m1")).rows.values()) == [Epoch("x", 1)]
    assert list(simulated(case, Weather(), ("m1", DATABASE)).rows.values()) == []


def test_a_change_that_takes_too_long_may_have_been_made(database: EmptyDatabase) -> None:
    late = threading.Event()
    store = SqlStore(database.address, "sp", within=300)
    store.open()

    def decide(_seen: Seen) -> Change:
        late.wait(10)
        return Change(put=(Epoch("x", 1),))

    async def case() -> None:
        patient = SqlStore(database.address, "sp", within=15_000)  # 300 ms are too few for a read on a busy machine
        try:
            with pytest.raises(StoreAway):
                await store.transact([], decide)
            assert (await patient.read(Epoch)).rows == {}
            late.set()
            async with asyncio.timeout(20):
                while not (await patient.read(Epoch)).rows:
                    await asyncio.sleep(0.01)
        finally:
            patient.close()

    asyncio.run(case())
    store.close()


def test_who_is_cancelled_as_the_answer_comes_ends(database: EmptyDatabase) -> None:
    """`asyncio.wait_for` returned the answer and lost the cancellation: a manager that stopped in that moment never ended."""
    store = SqlStore(database.address, "sp", within=15_000)
    store.open()
    asked, go = threading.Event(), threading.Event()

    def decide(_seen: Seen) -> Change:
        asked.set()
        go.wait(30)
        return Change(put=(Epoch("x", 1),))

    async def case() -> None:
        asking = asyncio.create_task(store.transact([], decide))
        await asyncio.to_thread(asked.wait, 30)
        go.set()  # from here on the loop stands still
        store.close()  # the answer is on its way into it now
        asyncio.get_running_loop().call_soon(asking.cancel)
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(case())


def test_a_node_that_stands_still_in_a_transaction_does_not_hold_up_the_others_for_long(
    database: EmptyDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlstore, "HELD_UP", 1)
    still, other = (SqlStore(database.address, "sp", within=15_000) for _ in range(2))
    still.open()
    inside, go = threading.Event(), threading.Event()
    key, lease = [(Lease, ("sp",))], Lease("sp", "m2", "i2", "", 2, 0, 0)

    def stand_still(_seen: Seen) -> Change:
        inside.set()
        go.wait(30)
        return Change(put=(Lease("sp", "m1", "i1", "", 1, 0, 0),))

    async def case() -> None:
        await put(other, Lease("sp", "m0", "i0", "", 0, 0, 0))
        asleep = asyncio.create_task(still.transact(key, stand_still))
        await asyncio.to_thread(inside.wait, 10)
        is_file = database.engine.dialect.name == "sqlite"
        if is_file:  # nobody can end another process' transaction: it has to go on
            go.set()
            await asleep
        async with asyncio.timeout(25):
            while not await taken():
                pass
        go.set()
        if not is_file:
            with pytest.raises(StoreAway):
                await asleep
        assert (await other.read(Lease)).all(Lease) == [lease]

    async def taken() -> bool:
        try:
            await other.transact(key, lambda _seen: Change(put=(lease,)))
        except StoreAway:
            return False
        return True

    asyncio.run(case())
    still.close()
    other.close()


def test_a_database_that_is_away_is_away_and_comes_back(database: EmptyDatabase, store: SqlStore) -> None:
    async def case() -> None:
        await put(store, Epoch("x", 1))
        with database.away(), pytest.raises(StoreAway):
            await put(store, Epoch("x", 2))
        assert (await store.read(Epoch)).all(Epoch) == [Epoch("x", 1)]

    asyncio.run(case())


def test_clusters_in_one_database_do_not_see_each_other(database: EmptyDatabase, store: SqlStore) -> None:
    other = SqlStore(database.address, "other", within=15_000)

    async def case() -> None:
        await put(store, *EXAMPLES)
        assert (await other.read(*KINDS)).rows == {}
        change = await other.transact([(Epoch, ("A-g-1",))], lambda seen: Change(said=len(seen.rows)))
        assert change.said == 0
        await put(other, Lease("other", "m9", "i9", "", 1, 0, 0), Placement("A-g-1", "w9", 9, "", True))
        assert (await store.read(Placement)).all(Placement)[0].worker == "w1"
        assert len((await store.read(*KINDS)).rows) == len(EXAMPLES)

    asyncio.run(case())
    other.close()


def test_a_tool_finds_the_leader_where_it_looks(database: EmptyDatabase, store: SqlStore) -> None:
    asyncio.run(put(store, *EXAMPLES))
    with database.engine.connect() as connection:
        asked = "SELECT NODE_ID, LAST_HEARTBEAT FROM LEADER_STATUS_TABLE WHERE GROUP_ID = 'sp'"
        assert tuple(connection.exec_driver_sql(asked).one()) == ("m1", 10)
        asked = "SELECT NODE_ID, IS_NEW_NODE, LAST_HEARTBEAT FROM CLUSTER_NODE_STATUS_TABLE WHERE GROUP_ID = 'sp'"
        assert tuple(connection.exec_driver_sql(asked).one()) == ("m1", True, 10)


def test_a_database_without_the_right_to_make_tables_is_refused_at_the_start(tmp_path: Path) -> None:
    from nadi.databases import Address

    with pytest.raises(NadiError) as found:
        SqlStore(Address(f"jdbc:sqlite:{tmp_path}/none/test.db"), "sp").open()
    assert found.value.diagnostic.condition in ("CONNECTION_UNAVAILABLE", "REFUSED")


def test_every_kind_of_row_has_a_table() -> None:
    assert set(NAMES) == set(KINDS)


def test_a_table_of_an_older_version_gets_the_columns_that_it_lacks_and_keeps_its_rows(
    database: EmptyDatabase, store: SqlStore
) -> None:
    columns = "GROUP_ID, NODE_ID, ADDRESS, INCARNATION, RECEIVER, DRAINING, GONE, SINCE"
    row = f"INSERT INTO NADI_WORKER ({columns}) VALUES ('sp', '{{}}', 'host:3', '0-1', {{false}}, {{false}}, {{false}}, 7)"
    false = "FALSE" if database.engine.dialect.name == "postgresql" else "0"
    with database.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE NADI_WORKER DROP COLUMN VERSION")
        connection.exec_driver_sql(row.format("before", false=false))
    store.open()
    with database.engine.begin() as connection:
        connection.exec_driver_sql(row.format("older", false=false))  # by a manager that is still of that version
    found = asyncio.run(store.read(WorkerRow)).all(WorkerRow)
    assert [(one.id, one.version) for one in found] == [("before", ""), ("older", "")]
