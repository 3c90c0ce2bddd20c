"""`@sink(type='rdbms', url='postgresql://host/db', table.name='Alerts')`: rows of a table, exactly once.

Each row of the stream is one operation: `insert`, or with `keys` `update`, `upsert` or `delete`. The rows of a bucket and cut are written in one
transaction, together with the number of the cut in the table `nadi_ledger`, where the bucket has a row of its own: a cut that is written again finds its
number there and has no effect. The row's name holds the run (a random name in the state folder), since a new state folder counts its cuts from 0 again.

What the database refuses (a key that is taken, a text that is too long) undoes the whole transaction. With `on.error` (see `nadi.io.sinks.refusals`) the cut is
then written again payload by payload, each behind a savepoint, and what is refused is left out.

No `@map`: attributes are columns. The table is made if there is none, with `keys` as its primary key.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError, IntegrityError

from nadi.databases import Address, connect, make_tables, passes, translated
from nadi.errors import NOWHERE, NadiError, Span, did_you_mean, error, placed
from nadi.io.contract import Connector, Delivery, Place, Receipt, Sink
from nadi.io.databasereach import reached
from nadi.io.reach import Reached
from nadi.io.registry import SinkKind, map_type
from nadi.io.retry import failed, succeeded
from nadi.io.sinks import ledger
from nadi.io.sinks.numbers import producer
from nadi.io.sinks.rdbmstable import LEDGER, Operation, Rows, made_table
from nadi.io.sinks.refusals import Refusals, action, named
from nadi.plan.connectortraits import EXACTLY_ONCE, SinkTraits
from nadi.plan.options import Option

NOTHING = -1
AT_ONCE = 5_000  # rows handed to the driver in one call


class RdbmsSink:
    """Operations on one table. A transaction per bucket and cut."""

    def __init__(self, connector: Connector, place: Place, engine: Engine, who: str, apply: Operation) -> None:
        self._connector = connector
        self._place = place
        self._engine = engine
        self._who = who
        self._apply = apply
        self._refusals = Refusals(connector, place)
        self._introduced: set[str] = set()
        self._lock = threading.Lock()

    def write(self, delivery: Delivery) -> Receipt:
        """Write a cut that the table does not have. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
        run = ledger.run(ledger.shared(self._connector, self._place))
        made_by = f"{producer(self._connector, self._place, delivery.bucket)}/{run}"
        refused = self._refusals.known(delivery)
        try:
            self._prepare(made_by)
            try:
                self._transaction(delivery, made_by, refused, one_by_one=False)
            except DBAPIError as reason:
                if passes(reason) or not self._refusals.goes_on:
                    raise
                self._transaction(delivery, made_by, refused, one_by_one=True)
        except DBAPIError as reason:
            raise self._named(reason) from reason
        succeeded(self._who)
        return Receipt(delivery.bucket, delivery.cut, {}, named(refused))

    def _transaction(self, delivery: Delivery, made_by: str, refused: dict[int, str], one_by_one: bool) -> None:
        """Write all but what is refused; what is found to be is noted before the transaction ends."""
        rows: Rows = delivery.batch.select(self._connector.schema.names).to_pylist()
        ends = [*delivery.firsts[1:], len(rows)]
        payloads = {i: rows[first:end] for i, (first, end) in enumerate(zip(delivery.firsts, ends)) if i not in refused}
        with self._engine.begin() as connection:
            if not _entered(connection, made_by, delivery.cut):
                return
            if not one_by_one:
                taken = [row for part in payloads.values() for row in part]
                for start in range(0, len(taken), AT_ONCE):
                    self._apply.run(connection, taken[start : start + AT_ONCE])
                return
            for i, part in payloads.items():
                if said := self._refused(connection, part):
                    refused[i] = said
            self._refusals.keep(delivery, refused)

    def _refused(self, connection: Connection, rows: Rows) -> str:
        """Why the database does not take the rows of one payload, which then have no effect; "" where it does."""
        try:
            with connection.begin_nested():
                self._apply.run(connection, rows)
        except DBAPIError as reason:
            if passes(reason):
                raise
            return translated(reason, self._who).diagnostic.message
        return ""

    def _named(self, reason: DBAPIError) -> NadiError:
        found = translated(reason, self._who)
        if found.condition == "REFUSED" and self._refusals.waits:
            found = error("CONNECTION_UNAVAILABLE", connector=self._who, reason=found.diagnostic.message)
        if found.condition == "CONNECTION_UNAVAILABLE":
            failed(self._who, found.diagnostic.message)
        return found

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        """Nothing: each transaction committed its own part."""

    def close(self) -> None:
        self._engine.dispose()

    def _prepare(self, made_by: str) -> None:
        """Make the tables and the row that are missing, once."""
        with self._lock:
            if made_by in self._introduced:
                return
            make_tables(self._engine, LEDGER, self._apply.table)
            _introduce(self._engine, made_by)
            self._introduced.add(made_by)


def _introduce(engine: Engine, made_by: str) -> None:
    """Give a producer its row in the ledger, before the first cut: so that a cut only ever changes a row, which other attempts at it wait for."""
    with engine.connect() as connection:
        found = connection.execute(LEDGER.select().where(LEDGER.c.producer == made_by)).first()
    if found is None:
        try:
            with engine.begin() as connection:
                connection.execute(LEDGER.insert().values(producer=made_by, cut=NOTHING))
        except IntegrityError:
            return  # another attempt was faster


def _entered(connection: Connection, made_by: str, cut: int) -> bool:
    """Enter a cut into the ledger; False where it was there before. Holds the producer's row until the transaction ends."""
    newer = LEDGER.update().where(LEDGER.c.producer == made_by, LEDGER.c.cut < cut).values(cut=cut)
    return connection.execute(newer).rowcount == 1


def _open(connector: Connector, place: Place) -> Sink:
    KIND.check(connector, NOWHERE)
    address, who, operation = _target(connector)
    where, engine = f"@sink of {connector.stream} (rdbms)", connect(address)

    @event.listens_for(engine, "do_connect")
    def check(*_asked: object) -> None:
        """Before each connection: a file may have become a link."""
        for one in _reaches(connector):
            place.reach.check(where, one)

    return RdbmsSink(connector, place, engine, who, operation)


def _reaches(connector: Connector) -> tuple[Reached, ...]:
    return reached(_target(connector)[0], "url" if connector.options.get("url") else "jdbc.url")


def _check_map(connector: Connector, _span: Span) -> None:
    given, wanted = map_type(connector), "no @map: attributes are columns"
    if given != "passthrough":
        raise error("OPTION_INVALID", where=_where(connector), name="@map", value=given, wanted=wanted)


def _check_address(connector: Connector, _span: Span) -> None:
    options = connector.options
    try:
        parsed = _address(connector).parsed
    except NadiError as unknown:
        raise placed(unknown, connector.place("url" if options.get("url") else "jdbc.url")) from None
    if parsed.get_backend_name() == "sqlite" and (parsed.username or parsed.password):
        name = next((name for name in ("username", "password") if options.get(name)), "url")
        raise error(
            "OPTION_INVALID", where=_where(connector), name=name, value="…", wanted="nothing: SQLite has no users"
        )


def _check_operation(connector: Connector, _span: Span) -> None:
    _operation(connector)


def _ask(connector: Connector) -> None:
    """Nothing is asked where `on.error` says what follows. A table that is not there would be made. A file of SQLite has a write-ahead log from now on, as each
    that nadi opens."""
    address, who, operation = _target(connector)
    if action(connector) or _is_missing_file(address):
        return
    engine, table = connect(address), operation.table
    try:
        with engine.connect() as connection:
            if connection.dialect.has_table(connection, table.name, schema=table.schema):
                operation.ask(connection)
            connection.rollback()
    except DBAPIError as reason:
        raise translated(reason, who) from reason
    finally:
        engine.dispose()


def _is_missing_file(address: Address) -> bool:
    """Whether it is a file of SQLite that would be made with the first connection."""
    url = address.parsed
    if url.get_backend_name() != "sqlite":
        return False
    return url.database is not None and url.database != ":memory:" and not Path(url.database).exists()


def _target(connector: Connector) -> tuple[Address, str, Operation]:
    """Where rows go, what that is called, and what is done with them. Errors: OPTION_INVALID, OPTION_MISSING, DATABASE_UNKNOWN."""
    address = _address(connector)
    return address, f"{address.shown} (rdbms sink of {connector.stream})", _operation(connector)


def _where(connector: Connector) -> str:
    return f"@sink of {connector.stream} (rdbms)"


def _address(connector: Connector) -> Address:
    options = connector.options
    url = options.get("url") or options.get("jdbc.url")
    if not url:
        raise error("OPTION_MISSING", where=_where(connector), name="url")
    return Address(url, options.get("username", ""), options.get("password", ""))


def _operation(connector: Connector) -> Operation:
    options, names, where = connector.options, connector.schema.names, _where(connector)
    chosen = options.get("operation", "insert").lower()
    keys = tuple(k.strip() for k in options.get("keys", "").split(",") if k.strip())
    if chosen != "insert" and not keys:
        raise error("OPTION_MISSING", where=where, name="keys")
    for key in keys:
        if key not in names:
            wanted = f"attributes of the stream ({did_you_mean(key, names)})"
            raise error("OPTION_INVALID", where=where, name="keys", value=options["keys"], wanted=wanted)
    if chosen == "update" and len(keys) == len(names):
        wanted = "keys that leave an attribute to be updated"
        raise error("OPTION_INVALID", where=where, name="keys", value=options["keys"], wanted=wanted)
    return Operation(chosen, made_table(options.get("table.name") or connector.stream, connector.schema, keys))


KIND = SinkKind(
    (
        Option(
            "url",
            doc=(
                "`jdbc:postgresql://host:5432/name`, `jdbc:mysql://…`, `jdbc:mariadb://…`, "
                "`jdbc:sqlite:/path/file.db`, or the same without `jdbc:` as SQLAlchemy has it; parameters of"
                " a JDBC URL are left out"
            ),
            other="jdbc.url",
        ),
        Option("jdbc.url", doc="another name of `url`"),
        Option("jdbc.driver.name", doc="Siddhi's, without effect: the URL decides"),
        Option("username", doc="for the connection", secret=True),
        Option("password", doc="for the connection", secret=True),
        Option("table.name", doc="the table, `schema.table` too; else the name of the stream", default="{stream}"),
        Option(
            "operation",
            choices=("insert", "update", "upsert", "delete"),
            doc="`insert`; `update`, `upsert` (update or insert) and `delete` find rows by `keys`",
            default="insert",
        ),
        Option("keys", doc="attributes with commas between them"),
    ),
    _open,
    checks=(_check_map, _check_address, _check_operation),
    ask=_ask,
    reaches=_reaches,
    traits=SinkTraits(
        guarantee=EXACTLY_ONCE,
        why="the rows of a batch and its number are written in one transaction",
        refuses="a row that the database does not take",
        announces=False,
        journal=False,
        local=False,
        header=False,
        topics=None,
        moved="",
        alone=(),
    ),
    loops=(),
)
