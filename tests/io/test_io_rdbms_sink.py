"""The rdbms sink writes each cut once, whatever is written again, and says what a database refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sample import connector, delivery
from servers.emptydatabase import EmptyDatabase
from sqlalchemy import text

from nadi.errors import NadiError
from nadi.io.contract import Place, Sink
from nadi.io.registry import ask_sink, open_sink
from nadi.io.retry import unavailable

Make = Callable[..., Sink]
Rows = list[tuple[object, ...]]


@pytest.fixture
def sink(database: EmptyDatabase) -> Iterator[Make]:
    """Makes sinks with the table `names`."""
    made: list[Sink] = []
    at = database.address

    def make(state: Path, **options: str) -> Sink:
        given = {"url": at.url, "username": at.user, "password": at.password, "table.name": "names", **options}
        made.append(open_sink(connector("rdbms", given, "passThrough"), Place("App", state)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def rows(database: EmptyDatabase, query: str = "select name, size from names order by name, size") -> Rows:
    with database.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def test_rows_are_inserted_into_a_table_that_is_made_if_there_is_none(
    database: EmptyDatabase, sink: Make, tmp_path: Path
) -> None:
    with_rows = sink(tmp_path)
    with_rows.write(delivery(0, ["ann", "bo"]))
    with_rows.write(delivery(1, ["carol"]))
    assert rows(database) == [("ann", 3), ("bo", 2), ("carol", 5)]


def test_a_cut_that_is_written_again_has_no_effect_after_a_restart_either(
    database: EmptyDatabase, sink: Make, tmp_path: Path
) -> None:
    sink(tmp_path).write(delivery(3, ["ann"]))
    again = sink(tmp_path)
    again.write(delivery(3, ["ann"]))
    again.write(delivery(2, ["late"]))
    again.write(delivery(4, ["bo"]))
    assert rows(database) == [("ann", 3), ("bo", 2)]


def test_buckets_keep_their_own_account(database: EmptyDatabase, sink: Make, tmp_path: Path) -> None:
    one = sink(tmp_path)
    one.write(delivery(0, ["ann"], bucket=0))
    one.write(delivery(0, ["bo"], bucket=1))
    one.write(delivery(0, ["bo"], bucket=1))
    assert rows(database) == [("ann", 3), ("bo", 2)]


def test_a_new_state_folder_counts_its_cuts_anew(database: EmptyDatabase, sink: Make, tmp_path: Path) -> None:
    sink(tmp_path / "one").write(delivery(5, ["ann"]))
    sink(tmp_path / "two").write(delivery(0, ["bo"]))
    assert rows(database) == [("ann", 3), ("bo", 2)]


def test_upsert_changes_the_row_with_the_key_or_adds_it(database: EmptyDatabase, sink: Make, tmp_path: Path) -> None:
    keyed = sink(tmp_path, operation="upsert", keys="size")
    keyed.write(delivery(0, ["ann", "bob", "jo"]))
    keyed.write(delivery(1, ["liz"]))
    assert rows(database) == [("jo", 2), ("liz", 3)]


def test_update_changes_rows_and_delete_removes_them(database: EmptyDatabase, sink: Make, tmp_path: Path) -> None:
    sink(tmp_path / "insert").write(delivery(0, ["ann", "bob", "jo"]))
    sink(tmp_path / "update", operation="update", keys="size").write(delivery(0, ["liz", "nobody has six"]))
    assert rows(database) == [("jo", 2), ("liz", 3), ("liz", 3)]
    sink(tmp_path / "delete", operation="delete", keys="name").write(delivery(0, ["liz"]))
    assert rows(database) == [("jo", 2)]


def test_what_a_database_refuses_leaves_nothing_of_the_cut_behind(
    database: EmptyDatabase, sink: Make, tmp_path: Path
) -> None:
    keyed = sink(tmp_path, keys="name")
    keyed.write(delivery(0, ["ann"]))
    with pytest.raises(NadiError) as refused:
        keyed.write(delivery(1, ["bo", "ann"]))
    assert refused.value.condition == "REFUSED"
    assert rows(database) == [("ann", 3)]
    keyed.write(delivery(1, ["bo"]))
    assert rows(database) == [("ann", 3), ("bo", 2)]


def test_attempts_at_one_cut_at_the_same_moment_write_it_once(
    database: EmptyDatabase, sink: Make, tmp_path: Path
) -> None:
    attempts = [sink(tmp_path) for _ in range(4)]
    problems: list[str] = []
    start = threading.Barrier(len(attempts))

    def write(attempt: Sink) -> None:
        start.wait()
        while True:  # as the pipeline does: what may pass is tried again
            try:
                attempt.write(delivery(0, ["ann", "bo"]))
            except NadiError as problem:
                if problem.condition != "CONNECTION_UNAVAILABLE":
                    problems.append(str(problem))
                    return
            else:
                return

    threads = [threading.Thread(target=write, args=(attempt,)) for attempt in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (problems, rows(database)) == ([], [("ann", 3), ("bo", 2)])


def test_a_database_that_is_gone_is_named_and_the_cut_is_written_when_it_is_back(
    database: EmptyDatabase, sink: Make, tmp_path: Path
) -> None:
    target = sink(tmp_path)
    target.write(delivery(0, ["ann"]))
    with database.away():
        with pytest.raises(NadiError) as gone:
            target.write(delivery(1, ["bo"]))
        assert gone.value.condition == "CONNECTION_UNAVAILABLE"
        assert [u.connector for u in unavailable() if "rdbms" in u.connector]
    target.write(delivery(1, ["bo"]))
    target.write(delivery(1, ["bo"]))
    assert rows(database) == [("ann", 3), ("bo", 2)]
    assert not [u for u in unavailable() if "rdbms" in u.connector]


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({}, "OPTION_MISSING"),
        ({"url": "jdbc:h2:./DB"}, "DATABASE_UNKNOWN"),
        ({"url": "sqlite://", "operation": "upsert"}, "OPTION_MISSING"),
        ({"url": "sqlite://", "operation": "upsert", "keys": "nam"}, "OPTION_INVALID"),
        ({"url": "sqlite://", "operation": "update", "keys": "name, size"}, "OPTION_INVALID"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], condition: str, tmp_path: Path) -> None:
    with pytest.raises(NadiError) as refused:
        open_sink(connector("rdbms", options, "passThrough"), Place("App", tmp_path))
    assert refused.value.condition == condition


def test_a_mapper_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NadiError, match="attributes are columns"):
        open_sink(connector("rdbms", {"url": "sqlite://"}, "json"), Place("App", tmp_path))


@pytest.mark.parametrize("action", ["LOG", "STORE", "STREAM"])
def test_with_on_error_only_what_is_refused_is_left_out_and_stays_so(
    action: str, database: EmptyDatabase, sink: Make, tmp_path: Path
) -> None:
    options = {"keys": "name", "on.error": action}
    keyed = sink(tmp_path, **options)
    keyed.write(delivery(0, ["ann"]))
    receipt = keyed.write(delivery(1, ["bo", "ann", "carol"]))
    assert [refusal.index for refusal in receipt.refused] == [1]
    assert rows(database) == [("ann", 3), ("bo", 2), ("carol", 5)]
    again = sink(tmp_path, **options).write(delivery(1, ["bo", "ann", "carol"]))
    assert again.refused == receipt.refused
    assert rows(database) == [("ann", 3), ("bo", 2), ("carol", 5)]


def test_with_wait_what_is_refused_is_tried_again(database: EmptyDatabase, sink: Make, tmp_path: Path) -> None:
    keyed = sink(tmp_path, **{"keys": "name", "on.error": "WAIT"})
    keyed.write(delivery(0, ["ann"]))
    with pytest.raises(NadiError) as waiting:
        keyed.write(delivery(1, ["ann"]))
    assert waiting.value.condition == "CONNECTION_UNAVAILABLE"
    assert rows(database) == [("ann", 3)]
    keyed.write(delivery(1, ["bo"]))  # it counts as away no longer
    assert rows(database) == [("ann", 3), ("bo", 2)]


def asked(database: EmptyDatabase, **options: str) -> None:
    at = database.address
    given = {"url": at.url, "username": at.user, "password": at.password, "table.name": "names", **options}
    ask_sink(connector("rdbms", given, "passThrough"))


OPERATIONS = (
    {"operation": "insert"},
    {"operation": "upsert", "keys": "name"},
    {"operation": "update", "keys": "name"},
    {"operation": "delete", "keys": "name"},
)


@pytest.mark.parametrize("options", OPERATIONS, ids=lambda options: options["operation"])
def test_a_table_that_would_take_rows_is_asked_and_stays_as_it_is(
    options: dict[str, str], database: EmptyDatabase
) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("create table names (name varchar(20) not null primary key, size integer not null)"))
        connection.execute(text("insert into names values ('ann', 3)"))
    asked(database, **options)
    assert rows(database) == [("ann", 3)]


def test_a_table_that_is_not_there_is_not_made_by_asking_for_it(database: EmptyDatabase) -> None:
    asked(database)
    with database.engine.connect() as connection:
        assert not connection.dialect.has_table(connection, "names")
        assert not connection.dialect.has_table(connection, "nadi_ledger")


def test_a_file_of_sqlite_is_not_made_by_asking_for_it(tmp_path: Path) -> None:
    ask_sink(connector("rdbms", {"url": f"jdbc:sqlite:{tmp_path}/none.db"}, "passThrough"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", OPERATIONS, ids=lambda options: options["operation"])
def test_a_table_without_a_column_of_the_stream_says_so_when_asked(
    options: dict[str, str], database: EmptyDatabase
) -> None:
    lacking = "name" if options["operation"] == "delete" else "size"
    with database.engine.begin() as connection:
        connection.execute(text(f"create table names ({'size' if lacking == 'name' else 'name'} varchar(20))"))
    with pytest.raises(NadiError, match=lacking) as refused:
        asked(database, **options)
    assert refused.value.condition == "REFUSED"


def test_keys_that_the_table_does_not_keep_apart_say_so_when_asked(database: EmptyDatabase) -> None:
    if database.engine.dialect.name in ("mysql", "mariadb"):
        pytest.skip("it takes the keys that the table has, whatever is asked for")
    with database.engine.begin() as connection:
        connection.execute(text("create table names (name varchar(20), size integer)"))
    with pytest.raises(NadiError, match="REFUSED"):
        asked(database, operation="upsert", keys="name")


def test_where_on_error_says_what_follows_nobody_is_asked(database: EmptyDatabase) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("create table names (name varchar(20))"))
    asked(database, **{"on.error": "STORE"})


def test_a_database_that_is_away_is_away_when_asked(database: EmptyDatabase) -> None:
    if database.engine.dialect.name == "sqlite":
        pytest.skip("a reader does not wait for the writer that stands for a server that is gone")
    with database.away(), pytest.raises(NadiError, match="CONNECTION_UNAVAILABLE"):
        asked(database)
