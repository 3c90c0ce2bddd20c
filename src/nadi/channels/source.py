"""`@source(type='channel', …)`: the parts of a channel that an instance reads, as a log (`nadi.channels.options` has the options).

A partition of the log is a part as one producer fills it: number = (place of the producer) * (parts that are read) + (place of the part). A position is the
number of a chunk there, and the time of a message is the producer's clock when the chunk came out of it. So the order that kernels see, (order time, input,
partition, position), is a function of what producers have written, and of nothing else; `reached` says how far it is known.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.channels import options
from nadi.channels.feed import Feed
from nadi.channels.partrows import Rows, merged
from nadi.channels.positions import place_of
from nadi.channels.records import decode_batch
from nadi.channels.tracks import Stretch
from nadi.channels.transport import Transport, open_transport
from nadi.errors import Span, error
from nadi.io.contract import Connector, Decoded, Log, Messages, Place
from nadi.io.mappers.typed_rows import fit
from nadi.io.natsreach import reaches_of_channel
from nadi.io.registry import SourceKind
from nadi.io.wakes import TRUSTED, Doorbell, Tell
from nadi.kernel.contract import TS
from nadi.plan.connectortraits import Divided, SourceTraits, Topics

SETTLING = 0.05  # seconds between looks while the transport does not hear everything yet


class ChannelLog:
    """Implements `Log`, `TimedLog`, `ClockedLog` and `Wakes`; used by any thread."""

    def __init__(self, reading: options.Reading, transport: Transport) -> None:
        self._producers = reading.producers
        self._reading = reading
        self._transport = transport
        self._feed = Feed(transport, reading.producers, reading.channel.parts, reading.assigned)
        self._bell = Doorbell()
        self._lock = threading.RLock()
        self._kept: dict[int, tuple[Stretch, Rows]] = {}  # by partition: what was read last

    def partitions(self) -> int:
        return len(self._producers) * len(self._reading.assigned)

    def _place(self, partition: int) -> tuple[str, int]:
        return place_of(self._reading, partition)

    def beginning(self, partition: int) -> int:
        with self._lock:
            return self._feed.oldest(*self._place(partition))

    oldest = beginning

    def retention(self) -> None:
        """A channel is trimmed by who knows its readers, never by age."""

    def end(self, partition: int) -> int:
        """After the last chunk that a progress record names. Where somebody waits (`wake`), the servers are asked when they have told of something."""
        with self._lock:
            self._look()
            return self._feed.end(*self._place(partition))

    def reached(self, partition: int) -> int | None:
        """How far the producer has come, by the last look of `end`."""
        with self._lock:
            return self._feed.reached(self._place(partition)[0])

    def said(self, partition: int) -> int:
        with self._lock:
            return self._feed.said(self._place(partition)[0])

    def _look(self) -> None:
        if not self._bell.watched:
            self._feed.catch_up()
        elif self._bell.due(SETTLING if self._settling() else TRUSTED):
            with self._bell.look() as rung:
                if rung or self._settling() or not self._transport.listening():
                    self._feed.catch_up()
                    self._transport.listen(self._feed.place, self._bell.ring)

    def wake(self, tell: Tell) -> None:
        self._bell.register(tell)

    def next_look(self) -> float | None:
        """Soon, where the transport may still miss what comes."""
        return time.monotonic() + SETTLING if self._settling() else None

    def _settling(self) -> bool:
        return time.monotonic() < self._transport.settles

    def finished(self) -> bool:
        """Whether all producers have said that nothing will come any more."""
        with self._lock:
            return all(self._feed.reached(producer) is None for producer in self._producers)

    def times(self, partition: int, start: int, end: int) -> npt.NDArray[np.int64] | None:
        return None

    def time_at(self, partition: int, position: int, end: int) -> int | None:
        for stretch in self._stretches(partition, position, end):
            rows = self._rows(partition, stretch).between(position, end)
            return int(rows.orders[0])
        return None

    def later_than(self, partition: int, time: int, start: int = 0) -> int | None:
        """Where what is later begins. Batches are read only where a cut of the producer lies on both sides of `time`."""
        producer, part = self._place(partition)
        with self._lock:
            known = self._feed.among(producer, part, start, self._feed.end(producer, part))
        for stretch in known:
            if stretch.last > time:
                if stretch.first > time:
                    return stretch.start
                found = self._rows(partition, stretch).first_after(time, stretch.start)
                assert found is not None, "its last one is later"
                return found
        return None

    def read(self, partition: int, start: int, end: int) -> Iterator[Messages]:
        """Rows with those of one chunk under one position: the mapper makes events of them."""
        if start >= end:
            return
        at = start
        for stretch in self._stretches(partition, start, end):
            rows = self._rows(partition, stretch).between(start, end)
            yield Messages(rows.positions, rows.orders, rows.batch)
            at = stretch.end
        with self._lock:
            self._feed.forget(*self._place(partition), start)  # the same may be asked for again
        if at < end:  # they are there: a cut has them
            raise error(
                "CONNECTION_UNAVAILABLE",
                connector=self._transport.name,
                reason=f"chunk {at} is not to be read yet",
            )

    def _stretches(self, partition: int, start: int, end: int) -> list[Stretch]:
        producer, part = self._place(partition)
        with self._lock:
            return self._feed.stretches(producer, part, start, end)

    def _rows(self, partition: int, stretch: Stretch) -> Rows:
        """The rows of a stretch; those of the last one are kept, as a bounded cut takes a part of them."""
        kept = self._kept.get(partition)
        if kept is not None and kept[0] == stretch:
            return kept[1]
        producer, part = self._place(partition)
        places = [p.place for p in stretch.pieces if p.place >= 0]
        fetched = dict(
            zip(places, self._transport.fetch(producer, part, sorted(places)) if places else [], strict=True)
        )
        found = [p.inline if p.place < 0 else fetched[p.place] for p in stretch.pieces]
        rows = merged(stretch, [decode_batch(record)[1] for record in found])
        self._kept[partition] = stretch, rows
        return rows

    def acknowledge(self, partition: int, position: int) -> None:
        """What lies before is not asked for any more, here."""
        with self._lock:
            self._feed.forget(*self._place(partition), position)

    def close(self) -> None:
        self._bell.silence()
        self._transport.close()


class ChannelMapper:
    """Rows of a channel as events: columns by name, chunks as they came out, each event with its own time."""

    def __init__(self, connector: Connector) -> None:
        self._schema = connector.schema

    def decode(self, messages: Messages) -> Decoded:
        rows = messages.payloads
        assert isinstance(rows, pa.RecordBatch)
        batch, faults = fit(self._schema, rows)
        if faults:
            raise error("CHANNEL_RECORD", reason=next(iter(faults.values())))
        opens = np.ones(len(messages), np.bool_)
        opens[1:] = messages.positions[1:] != messages.positions[:-1]
        first = np.flatnonzero(opens)
        stamps = rows.column(rows.schema.get_field_index(TS)).to_numpy().astype(np.int64)
        return Decoded(batch, first[np.cumsum(opens) - 1], stamps)


def _open(connector: Connector, place: Place) -> Log:
    reading = options.reading(connector, place)
    return ChannelLog(reading, open_transport(reading.channel))


def _check(connector: Connector, span: Span) -> None:
    options.reading(connector, span=span)


KIND = SourceKind(
    options.SOURCE_OPTIONS,
    _open,
    identity=("name", "key"),
    checks=(_check,),
    mapper=ChannelMapper,
    reaches=reaches_of_channel,
    traits=SourceTraits(
        endless=False,
        divided=Divided.WHOLE,
        centres=False,
        owned=True,
        listens=None,
        journal=False,
        parted=False,
        local=False,
        header=False,
        topics=Topics(("name",), where=("transport", "kafka")),
        moved="",
    ),
    loops=(),
)
