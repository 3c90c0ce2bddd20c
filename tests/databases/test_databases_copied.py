"""SQLite of which another node has a copy: what is committed here was prepared there, and the copy becomes equal whatever fails."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from eventsync.pair_recording import Recorder, recorder_in
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, Engine, Integer, MetaData, Table, Text, delete, insert, select, update
from sqlalchemy.exc import DatabaseError, IntegrityError

from nadi.databases import Address, connect, make_tables
from nadi.databases.copied import Standing, standing_of
from nadi.errors import NadiError
from nadi.eventsync.contract import Surplus
from nadi.eventsync.logscopy import LogsCopy
from nadi.io.appnotes import AppNotes
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.cuttable import TableCutLog
from nadi.replica.contract import Statements

ROWS = Table("rows", MetaData(), Column("k", Integer, primary_key=True), Column("v", Text))


def url_of(path: Path, recorder: Recorder) -> str:
    return f"sqlite:///{path}?replica={recorder.socket}"


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables, but what says which of them were written here."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        found = {name: connection.execute(f"select * from {name} order by 1").fetchall() for name in names}
    found["nadi_copied"] = [(n, of) for n, _, of in found.get("nadi_copied", ())]
    return found


def caught_up(active: LogsCopy, passive: LogsCopy) -> list[Surplus]:
    found: list[Surplus] = []

    async def run() -> None:
        await passive.restore(active.missing(await passive.standing()), found.extend)

    asyncio.run(run())
    return found


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return recorder_in(monkeypatch)


@pytest.fixture
def engine(tmp_path: Path, recorder: Recorder) -> Iterator[Engine]:
    made = connect(Address(url_of(tmp_path / "logs.db", recorder)))
    make_tables(made, ROWS)
    yield made
    made.dispose()


def test_a_transaction_is_prepared_before_it_can_be_read(tmp_path: Path, engine: Engine, recorder: Recorder):
    seen: list[list[tuple[int, str]]] = []

    def look(_record: object) -> None:
        with closing(sqlite3.connect(tmp_path / "logs.db")) as other:
            seen.append(other.execute("select k, v from rows").fetchall())

    recorder.before = look
    with engine.begin() as connection:
        connection.execute(insert(ROWS), [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
        connection.execute(update(ROWS).where(ROWS.c.k == 1).values(v="c"))
    look(None)
    assert seen == [[], [(1, "c"), (2, "b")]]
    last = recorder.records[-1]
    assert isinstance(last, Statements)
    assert [sql.split()[0] for sql, _ in last.statements] == ["INSERT", "UPDATE"]
    assert recorder.open == []


def test_reading_and_what_is_rolled_back_prepares_nothing(engine: Engine, recorder: Recorder):
    before = len(recorder.records)
    with engine.begin() as connection:
        assert connection.execute(select(ROWS)).all() == []
    connection = engine.connect()
    connection.execute(insert(ROWS).values(k=1))
    connection.close()
    with engine.begin() as connection:
        connection.execute(insert(ROWS).values(k=1))
    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.execute(insert(ROWS).values(k=1))
    assert len(recorder.records) == before + 1


def test_readers_do_not_wait_for_the_partner(engine: Engine, recorder: Recorder):
    with engine.begin() as connection:
        connection.execute(insert(ROWS).values(k=1))
    counts = []

    def look(_record: object) -> None:
        with engine.begin() as other:
            counts.append(len(other.execute(select(ROWS)).all()))

    recorder.before = look
    with engine.begin() as connection:
        connection.execute(insert(ROWS).values(k=2))
    assert counts == [1]


def test_a_partner_that_refuses_leaves_nothing_and_the_next_one_has_the_same_number(engine: Engine, recorder: Recorder):
    with engine.begin() as connection:
        connection.execute(insert(ROWS).values(k=1))
    recorder.fails = lambda _record: True
    with pytest.raises(NadiError, match="the test says so"), engine.begin() as connection:
        connection.execute(insert(ROWS).values(k=2))
    recorder.fails = lambda _record: False
    with engine.begin() as connection:
        assert connection.execute(select(ROWS.c.k)).scalars().all() == [1]
        connection.execute(insert(ROWS).values(k=3))
    numbers = [record.n for record in recorder.records if isinstance(record, Statements)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_commit_that_fails_is_abandoned(tmp_path: Path, engine: Engine, recorder: Recorder):
    raw = engine.raw_connection()
    cursor = raw.cursor()
    cursor.execute("create table parents (k integer primary key)")
    cursor.execute("create table children (k integer references parents (k) deferrable initially deferred)")
    raw.commit()
    cursor.execute("pragma foreign_keys = on")
    cursor.execute("insert into children (k) values (1)")
    with pytest.raises(sqlite3.IntegrityError):
        raw.commit()
    raw.close()
    assert recorder.abandoned == [len(recorder.records) - 1]
    assert recorder.open == []
    assert content(tmp_path / "logs.db")["children"] == []


@pytest.mark.parametrize(
    "call", ["random()", "datetime('now')", "current_timestamp", "strftime('%s')", "hex(randomblob(4))"]
)
def test_functions_of_time_and_chance_are_refused(engine: Engine, call: str):
    with pytest.raises(DatabaseError, match="not authorized"), engine.begin() as connection:
        connection.exec_driver_sql(f"insert into rows (k, v) values (1, {call})")


def test_the_copy_has_what_was_prepared_and_confirmed(tmp_path: Path, engine: Engine, recorder: Recorder):
    log = TableCutLog(url_of(tmp_path / "logs.db", recorder), "A", 0)
    log.take_over(7)
    log.append(Cut(0, log.epoch, 1_000, 0, {}, {}))
    notes = AppNotes(url_of(tmp_path / "logs.db", recorder), "A", log.epoch)
    notes.begin()
    notes.once("a", lambda: ["é", 1.5, None])
    notes.replace("a", {"b": 2})
    copy = LogsCopy(tmp_path / "other" / "logs.db")

    async def run() -> None:
        for record in recorder.done():
            await copy.apply(record)
            await copy.apply(record)  # it is there already

    asyncio.run(run())
    copy.close()
    assert content(tmp_path / "other" / "logs.db") == content(tmp_path / "logs.db")
    taken = TableCutLog(f"sqlite:///{tmp_path}/other/logs.db", "A", log.epoch)
    last = taken.last()
    assert last is not None
    assert last.n == 0


def test_a_copy_takes_no_transaction_after_a_gap(tmp_path: Path, engine: Engine, recorder: Recorder):
    with engine.begin() as connection:
        connection.execute(insert(ROWS).values(k=1))
    copy = LogsCopy(tmp_path / "other" / "logs.db")
    with pytest.raises(NadiError) as caught:
        asyncio.run(copy.apply(recorder.records[-1]))
    assert caught.value.condition == "COPY_GAP"
    copy.close()


def test_several_processes_write_one_after_the_other(tmp_path: Path, engine: Engine, recorder: Recorder):
    def write(first: int) -> None:
        for k in range(first, first + 20):
            with engine.begin() as connection:
                connection.execute(insert(ROWS).values(k=k))

    threads = [threading.Thread(target=write, args=(100 * i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [record.n for record in recorder.records if isinstance(record, Statements)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(content(tmp_path / "logs.db")["rows"]) == 60


DYING = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import text
from nadi.databases import Address, connect, copied
from nadi.replica import client
import msgspec

class Dying:
    def prepare(self, record):
        Path(sys.argv[2]).write_bytes(msgspec.msgpack.encode(record))
        if sys.argv[3] == "prepared":
            os.kill(os.getpid(), signal.SIGKILL)
        return 0
    def confirm(self, ticket):
        os.kill(os.getpid(), signal.SIGKILL)

dying = Dying()
client.blocking_replica = lambda _socket: dying
with connect(Address(sys.argv[1])).begin() as connection:
    connection.execute(text("insert into rows (k) values (7)"))
"""


@pytest.mark.parametrize("at", ["prepared", "committed"])
def test_the_database_tells_what_became_of_a_writer_that_was_killed(
    tmp_path: Path, engine: Engine, recorder: Recorder, at: str
):
    told = tmp_path / "record"
    died = subprocess.run(
        [sys.executable, "-c", DYING, url_of(tmp_path / "logs.db", recorder), str(told), at], check=False
    )
    assert died.returncode == -signal.SIGKILL
    record = msgspec.msgpack.decode(told.read_bytes(), type=Statements)
    service = LogsCopy(tmp_path / "logs.db")
    assert asyncio.run(service.holds(record)) is (at == "committed")
    with engine.begin() as connection:
        connection.execute(insert(ROWS).values(k=8))
    assert recorder.records[-1].n == record.n + (at == "committed")  # type: ignore[union-attr]
    assert asyncio.run(service.holds(record)) is (at == "committed")


def test_who_asks_for_a_transaction_under_way_is_answered_when_it_is_over(
    tmp_path: Path, engine: Engine, recorder: Recorder
):
    service, answers = LogsCopy(tmp_path / "logs.db"), []
    asking: list[threading.Thread] = []

    def ask(record: object) -> None:
        asking.append(threading.Thread(target=lambda: answers.append(asyncio.run(service.holds(record)))))  # type: ignore[arg-type]
        asking[-1].start()
        asking[-1].join(0.2)
        assert answers == []

    recorder.before = ask
    with engine.begin() as connection:
        connection.execute(insert(ROWS).values(k=1))
    asking[-1].join()
    assert answers == [True]


def test_a_standing_says_whether_a_copy_is_an_earlier_state():
    one = Standing(4, ((1, "a"),))
    assert Standing().precedes(one)
    assert one.precedes(one)
    assert one.precedes(Standing(9, ((1, "a"), (5, "b"))))
    assert not Standing(5, ((1, "a"),)).precedes(Standing(9, ((1, "a"), (5, "b"))))
    assert not one.precedes(Standing(3, ((1, "a"),)))
    assert not one.precedes(Standing(9, ((1, "b"),)))


def test_two_databases_with_one_number_and_other_content_are_not_equal(tmp_path: Path, recorder: Recorder):
    """A transaction that was given up here was written there, at a promotion."""
    first, second = tmp_path / "1" / "logs.db", tmp_path / "2" / "logs.db"
    one, two = LogsCopy(first), LogsCopy(second)
    engine = connect(Address(url_of(first, recorder)))
    make_tables(engine, ROWS)
    caught_up(one, two)
    with engine.begin() as connection:
        connection.execute(insert(ROWS).values(k=1))
    given_up = recorder.records[-1]
    assert isinstance(given_up, Statements)
    sql, rows = given_up.statements[0]
    assert msgspec.msgpack.decode(rows) == [[1]]
    other = Statements(given_up.n, [(sql, msgspec.msgpack.encode([(2,)]))])
    asyncio.run(two.apply(other))
    two.close()
    engine.dispose()
    assert content(second)["rows"] != content(first)["rows"]
    caught_up(two, one)
    assert content(second) == content(first)


def test_what_only_a_returning_node_has_is_told(tmp_path: Path, recorder: Recorder):
    first, second = tmp_path / "1" / "logs.db", tmp_path / "2" / "logs.db"
    one, two = LogsCopy(first), LogsCopy(second)
    log = TableCutLog(url_of(first, recorder), "A", 0)
    log.take_over(1)
    log.append(Cut(0, log.epoch, 1_000, 0, {}, {}))
    assert caught_up(one, two) == []
    log.append(Cut(1, log.epoch, 2_000, 0, {}, {}))  # only here; the other one is promoted
    other = TableCutLog(url_of(second, recorder), "A", 0)
    other.take_over(2)
    other.append(Cut(1, other.epoch, 2_500, 0, {}, {}))
    before = content(first)
    with pytest.raises(OSError, match="the disk is full"):
        asyncio.run(_returned(two, one))
    assert content(first) == before  # what could not be kept is there still
    (surplus,) = caught_up(two, one)
    assert (surplus.app, surplus.what, surplus.time) == ("A", "cuts 1 to 1", 2_000)
    assert content(first) == content(second)
    assert caught_up(two, one) == []


async def _returned(active: LogsCopy, passive: LogsCopy) -> None:
    def full(_found: object) -> None:
        raise OSError("the disk is full")

    await passive.restore(active.missing(await passive.standing()), full)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "fail", "roll", "lose", "catch", "turn"]), st.integers(0, 5)),
        st.just(("apply", 0)),
    ),
    max_size=25,
)


@given(steps=STEPS)
@settings(max_examples=60)
def test_active_and_copy_are_equal_after_any_writes_failures_crashes_and_catch_ups(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
):
    folder = tmp_path_factory.mktemp("pair")
    patch = pytest.MonkeyPatch()
    recorder = recorder_in(patch)
    paths = [folder / "1" / "logs.db", folder / "2" / "logs.db"]
    nodes = [LogsCopy(path) for path in paths]
    active, applied = 0, 0

    def engine() -> Engine:
        made = connect(Address(url_of(paths[active], recorder)))
        make_tables(made, ROWS)
        return made

    async def apply() -> None:
        nonlocal applied
        for record in recorder.records[applied:]:
            if await nodes[active].holds(record):
                await nodes[1 - active].apply(record)
        applied = len(recorder.records)

    writer = engine()
    for step, k in steps:
        recorder.fails = lambda _record, step=step: step == "fail"
        if step in ("put", "fail", "roll"):
            try:
                with writer.begin() as connection:
                    connection.execute(delete(ROWS).where(ROWS.c.k == k))
                    connection.execute(insert(ROWS).values(k=k, v=f"{len(recorder.records)}"))
                    if step == "roll":
                        raise ZeroDivisionError
            except (NadiError, ZeroDivisionError):
                pass
        elif step == "lose":  # the partner was away: what was prepared did not come there
            applied = len(recorder.records)
        elif step == "catch" or (step == "apply" and _behind(paths, active, recorder, applied)):
            caught_up(nodes[active], nodes[1 - active])
            applied = len(recorder.records)
        elif step == "apply":
            asyncio.run(apply())
        elif step == "turn":
            asyncio.run(apply()) if not _behind(paths, active, recorder, applied) else caught_up(
                nodes[active], nodes[1 - active]
            )
            for node in nodes:
                node.close()
            writer.dispose()
            active, applied = 1 - active, len(recorder.records)
            writer = engine()
    caught_up(nodes[active], nodes[1 - active])
    for node in nodes:
        node.close()
    writer.dispose()
    patch.undo()
    assert content(paths[0]) == content(paths[1])


def _behind(paths: list[Path], active: int, recorder: Recorder, applied: int) -> bool:
    """Whether the copy lacks something that it will not be sent."""
    with closing(sqlite3.connect(paths[1 - active], isolation_level=None)) as copy:
        has = standing_of(copy).n
    waiting = [record.n for record in recorder.records[applied:] if isinstance(record, Statements)]
    with closing(sqlite3.connect(paths[active], isolation_level=None)) as mine:
        end = standing_of(mine).n
    return has < (min(waiting) - 1 if waiting else end)


def test_nothing_is_sent_to_a_copy_that_is_equal(tmp_path: Path, engine: Engine):
    service = LogsCopy(tmp_path / "logs.db")

    async def pieces() -> int:
        return len([piece async for piece in service.missing(await service.standing())])

    assert asyncio.run(pieces()) == 0
    assert not list(tmp_path.glob(".*.copy"))
