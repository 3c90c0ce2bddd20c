"""What must hold in a cluster, whatever was done to it.

The journal has each acknowledged event once, and no event twice or from nowhere. The tables hold what the app gives in this process from what the journal has,
per device and in order. In each channel, and in each cut log, epochs never go back, and no cut is there twice: so no two writers of one instance were both
accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from clusterapps import CHANNELS, INSTANCES, SOURCE, TABLES, Reference, Row, by_device
from clusterload import Sender
from clusterworld import ClusterWorld, of_app
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError

from nadi.channels.options import Channel
from nadi.channels.records import CUT, Progress
from nadi.channels.transport import open_transport
from nadi.databases import Address
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.journallog import JournalLog, open_journal_log

AWAY = (ConnectionUnavailableException, DBAPIError)
"""What looking may raise while things are down."""


class Oracle:
    """Looks at the journal, the tables, the channels and the cut logs. Used by one thread."""

    def __init__(self, world: ClusterWorld, senders: Sequence[Sender]) -> None:
        self._world = world
        self._senders = senders
        self._engine: Engine = create_engine(Address(of_app(world.url)).parsed, pool_pre_ping=True)
        self._journal: JournalLog = open_journal_log(world.nats, SOURCE, 0)
        self._channels = {
            name: open_transport(Channel("nats", name, parts, world.nats)) for name, parts in CHANNELS.items()
        }
        self._after = dict.fromkeys(CHANNELS, 0)
        self._last: dict[tuple[str, str], Progress] = {}
        self._taken = 0
        self.reference = Reference()
        self.records = 0
        self.epochs: dict[str, int] = {}

    def follow(self) -> None:
        """Take what the journal has. Errors: those of AWAY."""
        end = self._journal.end(0)
        for messages in self._journal.read(0, self._taken, end):
            self.reference.take([bytes(body) for body in messages.payloads])
            self._taken += len(messages.payloads)

    def arrived(self, id_: str) -> bool:
        """Whether what comes of an event stands in the first table. Errors: those of AWAY."""
        try:
            return bool(self._rows("select 1 from sums where id = :id", id=id_))
        except DBAPIError as reason:
            if "does not exist" in str(reason) or "no such table" in str(reason):
                return False
            raise

    def complete(self) -> bool:
        """Whether as many rows of each device have come as must come. Errors: those of AWAY."""
        self.follow()
        found = self._found()
        return all(
            len(found[table].get(device, ())) >= count
            for table, devices in self._written().items()
            for device, count in devices.items()
        )

    def wrong(self) -> list[str]:
        """What does not hold once all is `complete`. A request that its sender has given up may still arrive. Errors: those of AWAY."""
        written, found = self._written(), self._found()
        self.follow()  # after them: each row that has come is of an event in the journal
        return [*self._in_journal(), *self._in_tables(found, written), *self._in_channels(), *self._in_cut_logs()]

    def missing(self) -> list[str]:
        """Rows that have not come yet, for people."""
        return self._in_tables(self._found(), self._written())

    def close(self) -> None:
        self._engine.dispose()
        self._journal.close()
        for channel in self._channels.values():
            channel.close()

    # ----

    def _in_journal(self) -> list[str]:
        ids = Counter(self.reference.ids)
        acknowledged = set().union(*(sender.acknowledged for sender in self._senders))
        sent = set().union(*(sender.sent for sender in self._senders))
        found = [f"the sender was told {one}" for sender in self._senders for one in sender.wrong[:3]]
        for what, those in (
            ("acknowledged and not in the journal", acknowledged - set(ids)),
            ("in the journal, and nobody has sent it", set(ids) - sent),
            ("in the journal more than once", {one for one, count in ids.items() if count > 1}),
        ):
            found += [f"{what}: {len(those)}, {sorted(those)[:5]}"] if those else []
        return found

    def _written(self) -> dict[str, dict[str, int]]:
        """How many rows must be there of what the journal had when it was looked at last, by table and device."""
        return {table: {device: len(rows) for device, rows in self.reference.rows(table).items()} for table in TABLES}

    def _found(self) -> dict[str, dict[str, list[Row]]]:
        """The rows that are there, by table and device."""
        return {
            table: by_device(self._rows(f"select {columns} from {table} order by {order}"))
            for table, (_stream, columns, order) in TABLES.items()
        }

    def _in_tables(
        self, found: Mapping[str, Mapping[str, list[Row]]], written: Mapping[str, Mapping[str, int]]
    ) -> list[str]:
        """Each table has the first rows of those that it must get, and at least as many as are `written`."""
        told = []
        for table in TABLES:
            wanted = self.reference.rows(table)
            for device in sorted({*wanted, *found[table]}):
                has = found[table].get(device, [])
                due = max(len(has), written[table].get(device, 0))
                told += difference(f"table {table}, {device}", has, wanted.get(device, [])[:due])
        return told

    def _in_channels(self) -> list[str]:
        found = []
        for name, channel in self._channels.items():
            while told := channel.news(self._after[name]):
                for one in told:
                    found += self._noted(name, one.progress)
                self._after[name] = told[-1].place
        return found

    def _noted(self, channel: str, now: Progress) -> list[str]:
        self.records += 1
        key = (channel, now.producer)
        before, self._last[key] = self._last.get(key), now
        self.epochs[now.producer] = max(now.epoch, self.epochs.get(now.producer, 0))
        return [] if before is None else succession(f"channel {channel}", before, now)

    def _in_cut_logs(self) -> list[str]:
        found = []
        for instance in INSTANCES:
            rows = self._rows("select n, epoch from nadi_cuts where app = :app order by n", app=instance)
            for (n, epoch), (after, later) in pairwise(rows):
                if later < epoch or after != n + 1:
                    found.append(
                        f"cut log of {instance}: cut {after} of epoch {later} follows cut {n} of epoch {epoch}"
                    )
        return found

    def _rows(self, query: str, **given: Any) -> list[Row]:
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query), given)]


def succession(where: str, before: Progress, now: Progress) -> list[str]:
    """What is wrong with a progress record that follows another one of its producer.

    >>> succession("c", Progress("A-1", 3, CUT, 7, 1, 0, ()), Progress("A-1", 3, CUT, 8, 2, 1, ()))
    []
    >>> succession("c", Progress("A-1", 3, CUT, 7, 1, 0, ()), Progress("A-1", 2, CUT, 8, 2, 1, ()))
    ['c: A-1 went from epoch 3, cut 7 to epoch 2, cut 8 (cut)']
    """
    again = now.kind == CUT and now.cut <= before.cut
    if now.epoch < before.epoch or now.cut < before.cut or again:
        said = f"epoch {before.epoch}, cut {before.cut} to epoch {now.epoch}, cut {now.cut} ({now.kind})"
        return [f"{where}: {now.producer} went from {said}"]
    return []


def difference(what: str, has: Sequence[Row], wanted: Sequence[Row]) -> list[str]:
    """Where rows begin to differ.

    >>> difference("t", [("a", 1), ("a", 1)], [("a", 1), ("a", 2)])
    ["t: row 1 is ('a', 1), wanted ('a', 2); 2 rows, wanted 2"]
    >>> difference("t", [("a", 1)], [("a", 1)])
    []
    """
    if has == wanted:
        return []
    at = next((n for n, (one, other) in enumerate(zip(has, wanted)) if one != other), min(len(has), len(wanted)))
    one, other = (rows[at] if at < len(rows) else "not there" for rows in (has, wanted))
    return [f"{what}: row {at} is {one}, wanted {other}; {len(has)} rows, wanted {len(wanted)}"]
