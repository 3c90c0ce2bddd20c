"""The ends of a cluster in tests: what users send is put into lists, what sinks get stands in lists. Channels are what `nadi.io.registry` opens.

Specs name this module as their `connectors`. A source of any other type than `channel` is a log in memory, a sink of any other type a note. They are of the one
cluster that is there (`begin`), and outlive its nodes. A channel from outside is on its server, where there is one; its messages have the times at which the
test sent them, by the clock of the cluster.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pipeline_testlog import RowMapper

from nadi.io import registry
from nadi.io.contract import Connector, Delivery, Log, Messages, Place, Receipt, Sink, SinkMapper, SourceMapper
from nadi.io.share import WHOLE, Share, share_of
from nadi.kernel.contract import TS
from nadi.lang.tree import Annotation
from nadi.plan.nodes import App

CHANNEL = "channel"
HEARD_WITHIN = 30.0  # seconds
Row = tuple[object, ...]
Noted = tuple[int, int, Row]
"""(when it came out, ms; its own time, ms; its attributes)."""


@dataclass
class Ends:
    """Messages by the place where they enter, as (ms, JSON); rows by (instance, number of the sink), cut and bucket, and which of these are committed."""

    entered: dict[object, list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    written: dict[tuple[str, int], dict[tuple[int, int], list[Noted]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    committed: dict[tuple[str, int], set[tuple[int, int]]] = field(default_factory=lambda: defaultdict(set))
    outside: frozenset[str] = frozenset()  # names of channels
    servers: str = ""  # "" where these are in memory, too

    def send(self, at: object, time: int, rows: Sequence[Row]) -> None:
        """A message of some events."""
        self.entered[at].append((time, json.dumps(rows).encode()))

    def rows(self, instance: str, sink: int) -> list[Noted]:
        """What a sink has been given for good, in order."""
        mine = self.written[instance, sink]
        return [row for cut in sorted(self.committed[instance, sink]) for row in mine.get(cut, ())]


ENDS = Ends()


def begin(outside: frozenset[str], servers: str) -> Ends:
    """Nothing was ever sent or written."""
    global ENDS  # noqa: PLW0603  # specs name the module, so it is the module that knows
    ENDS = Ends(outside=outside, servers=servers)
    return ENDS


class EnteredLog:
    """The messages that were sent to a place, or a share of them."""

    def __init__(self, place: object, share: Share = WHOLE) -> None:
        self._all = ENDS.entered[place]
        self._share = share

    @property
    def _mine(self) -> list[tuple[int, bytes]]:
        return self._all[self._share.part :: self._share.of]

    def partitions(self) -> int:
        return 1

    def beginning(self, partition: int) -> int:
        return 0

    def end(self, partition: int) -> int:
        return len(self._mine)

    def finished(self) -> bool:
        return False

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64]:
        return np.array([time for time, _ in self._mine[start:end]], np.int64)

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        found = self._mine[start:end]
        if found:
            positions = np.arange(start, start + len(found), dtype=np.int64)
            yield Messages(positions, np.array([time for time, _ in found], np.int64), [body for _, body in found])

    def acknowledge(self, partition: int, position: int) -> None: ...
    def close(self) -> None: ...


class RetimedLog:
    """A stream of NATS, whose messages the server has given its own times."""

    def __init__(self, log: Log, place: object) -> None:
        self._log = log
        self._sent = ENDS.entered[place]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def end(self, partition: int) -> int:
        """It is looked at now and then, and the test has sent everything when it asks."""
        until = time.monotonic() + HEARD_WITHIN
        while (end := self._log.end(partition)) <= len(self._sent):
            assert time.monotonic() < until, f"{end - 1} messages of {len(self._sent)} came"
        return end

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        for found in self._log.read(partition, start, end):
            times = np.array([self._sent[position - 1][0] for position in found.positions.tolist()], np.int64)
            yield replace(found, times=times)


class NotingSink:
    """Rows as notes; a cut that is written again must be the same."""

    def __init__(self, connector: Connector, place: Place) -> None:
        self._key = place.app, connector.ordinal
        self._width = len(connector.schema)

    def write(self, delivery: Delivery) -> Receipt:
        columns = [delivery.batch.column(i).to_pylist() for i in range(self._width)]
        times = delivery.batch.column(delivery.batch.schema.get_field_index(TS)).to_pylist()
        assert delivery.orders is not None
        rows = list(zip(delivery.orders.tolist(), times, zip(*columns, strict=True), strict=True))
        known = ENDS.written[self._key].setdefault((delivery.cut, delivery.bucket), rows)
        assert known == rows, f"cut {delivery.cut} of {self._key} gives {rows}, and gave {known}"
        return Receipt(delivery.bucket, delivery.cut)

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        ENDS.committed[self._key] |= {(cut, r.bucket) for r in receipts}

    def close(self) -> None: ...


class NoPayloads:
    """Notes are made of the rows themselves."""

    def encode(self, _batch: object) -> tuple[Sequence[bytes], Sequence[int]]:
        return [], []


def outside_of(source: Connector) -> str:
    """The channel from outside that a source reads, "" for none."""
    name = source.options.get("destination") or source.options.get("topic.list") or ""
    return name if name in ENDS.outside else ""


# ---- what specs ask of the module


def connectors(app: App, kind: str) -> tuple[Connector, ...]:
    pairs = [(s, a) for s in app.streams.values() if s.defined for a in s.annotations if a.name.lower() == kind]
    return tuple(_connector(s.key, s.schema, a, i) for i, (s, a) in enumerate(pairs))


def _connector(stream: str, schema, annotation: Annotation, ordinal: int) -> Connector:  # type: ignore[no-untyped-def]
    options = {e.key.lower(): e.value for e in annotation.elements if e.key.lower() != "type"}
    if annotation.name.lower() == "sink" and (annotation.get("type") or "").lower() == CHANNEL:
        options["channel.idle"] = "1"  # who has nothing to say says so whenever it is asked
    (mapping,) = annotation.all("map") or (Annotation("map"),)
    return Connector(stream, schema, (annotation.get("type") or "").lower(), options, mapping, ordinal)


def open_log(connector: Connector, place: Place) -> Log:
    outside = outside_of(connector)
    if connector.type == CHANNEL or (outside and ENDS.servers):
        log = registry.open_log(connector, place)
        return RetimedLog(log, outside) if connector.type == "nats" else log
    return EnteredLog(outside or (place.app, connector.ordinal), share_of("", connector.options) if outside else WHOLE)


def open_sink(connector: Connector, place: Place) -> Sink:
    if connector.type == CHANNEL:
        return registry.open_sink(connector, place)
    return NotingSink(connector, place)


def make_source_mapper(connector: Connector) -> SourceMapper:
    real = connector.type == CHANNEL or (ENDS.servers and outside_of(connector))
    return registry.make_source_mapper(connector) if real else RowMapper(connector)


def make_sink_mapper(connector: Connector) -> SinkMapper:
    return registry.make_sink_mapper(connector) if connector.type == CHANNEL else NoPayloads()


def make_ingress(connector: Connector, place: Place) -> None:
    return None
