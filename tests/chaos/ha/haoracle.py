"""What must hold in a pair, whatever was done to it.

The logs have each acknowledged event once, and none twice or from nowhere. The sinks hold what the app gives in this process from the logs and the cuts, row by
row under their numbers. The cuts that both nodes have are the same ones, and are never others than before; epochs never go back. So no two writers were both
accepted. A message of MQTT that was acknowledged may be in the log again, as the protocol has no number by which it could be known.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow.compute as pc
from chaosapps import OUT
from haapps import NAME, STREAMS, SUM_COLUMNS, SUMS
from haload import SIZE, HttpLoad, Load
from harows import Rows
from haworld import PairWorld
from pairnodes import PairNode
from reference import Made, Row, differences, numbered_differences
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError

from nadi.databases import Address
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.kernel.contract import GROUP, NUMBER
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.history.replay import Inputs, Replayer
from nadi.pipeline.live import Live
from nadi.pipeline.spec import AppSpec
from nadi.replica.address import replica_of

AWAY = (ConnectionUnavailableException, DBAPIError, FileNotFoundError, sqlite3.OperationalError)
"""What looking may raise while things are down."""


class Oracle:
    """Follows the logs of whichever node is active, and compares. Used by one thread."""

    def __init__(self, world: PairWorld, loads: Sequence[Load], rows: Rows) -> None:
        self._world, self._loads, self._rows = world, loads, rows
        self._engine: Engine = create_engine(Address(world.url).parsed, pool_pre_ping=True)
        self._replayer: Replayer | None = None
        self._taken: dict[int, Cut] = {}
        self._out: dict[int, list[Made]] = {}
        self._sums: list[Made] = []
        self.events: Counter[str] = Counter()
        """Body -> how many of its events cuts have taken."""

    @property
    def cuts(self) -> int:
        return 0 if self._replayer is None else self._replayer.at

    @property
    def again(self) -> int:
        """Bodies of MQTT that were taken more than once."""
        return sum(1 for body, count in self.events.items() if body.startswith("mqtt.") and count > SIZE)

    @property
    def epochs(self) -> int:
        """How many runs have made cuts."""
        return len({cut.epoch for cut in self._taken.values()})

    def follow(self) -> None:
        """Take what the cut log of the active node has. Errors: those of AWAY."""
        active = self._world.active()
        spec, kept = spec_of(active), cuts_of(active)
        if self._replayer is None:
            if not kept:
                return
            self._replayer = Replayer(spec)
            self._taken[0] = kept[0]
        with Inputs(spec) as inputs:
            for n in range(self._replayer.at + 1, max(kept) + 1):
                assert n in kept, f"{active.id} has cuts from {min(kept)} on, and cut {n} was not compared yet"
                self._take(self._replayer, inputs, self._taken[n - 1], kept[n])

    def _take(self, replayer: Replayer, inputs: Inputs, before: Cut, cut: Cut) -> None:
        given = inputs.read(before, cut)
        for one in given:
            assert not one.errors, one.errors[:1]
            for arrival in one.arrivals:
                if arrival.input in STREAMS:
                    for found in pc.value_counts(arrival.batch.column("body")).to_pylist():
                        self.events[found["values"]] += found["counts"]
        self._taken[cut.n] = cut
        for emitted in replayer.take(cut, given):
            assert not emitted.failures, emitted.failures[:1]
            for row in emitted.batches["Out"].to_pylist() if "Out" in emitted.batches else ():
                mine = self._out.setdefault(row[GROUP], [])
                assert row[NUMBER] == len(mine)
                mine.append(Made(cut.n, tuple(row[name] for name in OUT)))
            for row in emitted.batches["Sums"].to_pylist() if "Sums" in emitted.batches else ():
                self._sums.append(Made(cut.n, tuple(row[name] for name in SUM_COLUMNS)))

    def complete(self) -> bool:
        """Whether all that was acknowledged was taken, both nodes have its cuts, and as many rows have come as must come. Errors: those of AWAY."""
        self.follow()
        wanted = {group: len(made) for group, made in self._out.items()}
        found = {group: len(rows) for group, rows in self._rows.numbered().items()}
        arrived = not self._lost() and found == wanted and len(self._table()) >= len(self._sums)
        return arrived and not self._behind()

    def state(self) -> str:
        """How far things have come, for people."""
        lost = self._lost()
        found = sum(map(len, self._rows.numbered().values()))
        rows = f"topic {found} of {sum(map(len, self._out.values()))}"
        table = f"table {len(self._table())} of {len(self._sums)}"
        return f"cut {self.cuts}, not taken {len(lost)} {sorted(lost)[:5]}, {rows}, {table}; cut logs {self._behind() or 'whole'}"

    def wrong(self) -> list[str]:
        """What does not hold once all is `complete`. A timer may still be due, or a request arrive that a node has held back. Errors: those of AWAY."""
        written = self.cuts  # the rows of these have come; of cuts that are made now they may be on their way
        topic, table = self._rows.numbered(), self._table()
        self.follow()  # after them: each row that has come is of a cut
        found = numbered_differences("topic", topic, self._out, written)
        found += differences("table", table, self._sums, written)
        return [*found, *self._rows.wrong, *self._in_logs(), *self._in_cut_logs()]

    def close(self) -> None:
        self._engine.dispose()

    # ----

    def _lost(self) -> set[str]:
        return {body for load in self._loads for body in load.acknowledged if self.events[body] < SIZE}

    def _in_logs(self) -> list[str]:
        sent = set().union(*(load.sent for load in self._loads))
        found = [f"{load.name}: {one}" for load in self._loads for one in load.wrong[:3]]
        for what, those in (
            ("acknowledged and not taken", self._lost()),
            ("taken, and nobody has sent it", {body for body in self.events if body not in sent}),
            (
                "taken more than once",
                {body for body, n in self.events.items() if n > SIZE and not body.startswith("mqtt.")},
            ),
            ("taken in part", {body for body, n in self.events.items() if n % SIZE}),
        ):
            found += [f"{what}: {len(those)}, {sorted(those)[:5]}"] if those else []
        return found

    def _table(self) -> list[Row]:
        with self._engine.connect() as connection:
            query = f"select {', '.join(SUM_COLUMNS)} from {SUMS} order by seen"
            return [tuple(row) for row in connection.execute(text(query))]

    def _in_cut_logs(self) -> list[str]:
        """Each node has the cuts that were taken, and no others."""
        found = []
        for node in self._world.nodes:
            kept = cuts_of(node)
            for (n, one), (after, next_) in pairwise(sorted(kept.items())):
                if after != n + 1 or next_.epoch < one.epoch:
                    found.append(f"{node.id}: cut {after}, epoch {next_.epoch} follows cut {n}, epoch {one.epoch}")
            others = [n for n, cut in kept.items() if self._taken.get(n, cut) != cut]
            if others:
                n = others[0]
                found.append(f"{node.id}: cut {n} is {kept[n]}, and was {self._taken[n]} ({len(others)} such cuts)")
        return found

    def _behind(self) -> list[str]:
        """Nodes that do not have all cuts that were taken. Before a cut is in the log of the active node the passive one has it in its event sync; it comes to
        the log there a moment later."""
        ends = {node.id: max(cuts_of(node), default=0) for node in self._world.nodes}
        return [f"{node}: cuts up to {end} of {self.cuts}" for node, end in ends.items() if end < self.cuts]


def cuts_of(node: PairNode) -> Mapping[int, Cut]:
    """The cut log in the database of a node, which may be another file than the last time. Errors: sqlite3.OperationalError."""
    with closing(sqlite3.connect(f"file:{node.home}/pair/logs.db?mode=ro", uri=True, timeout=30)) as connection:
        rows: list[tuple[int, Any]] = connection.execute("select n, cut from nadi_cuts order by n").fetchall()
    return {n: Cut.from_offset(json.loads(cut)) for n, cut in rows}


def spec_of(node: PairNode) -> AppSpec:
    """The app as it runs on a node, for a reader: nothing of it asks the partner. Errors: FileNotFoundError while it does not run."""
    spec = msgspec.json.decode((node.home / "state" / NAME / "live.json").read_bytes(), type=Live).spec
    places = {name: replica_of(getattr(spec, name))[0] for name in ("journal", "cuts", "store")}
    return replace(spec, **places)  # type: ignore[arg-type]


def keyed_counts(oracle: Oracle, loads: Sequence[Load]) -> str:
    """What came of clients that send again."""
    again = sum(load.again for load in loads if isinstance(load, HttpLoad))
    return f"{again} requests of http were sent again; {oracle.again} bodies of MQTT came again"
