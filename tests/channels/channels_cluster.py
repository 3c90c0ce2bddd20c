"""A topology that runs in this process: each instance through the whole pipeline, on channels of any transport. Only Spark, the ends and the clock are played.

cluster = LocalCluster(topology, folder, clock, "nats://127.0.0.1:4222")
cluster.send("S", ("a", 1))
cluster.advance(1_000)
cluster.rows("Out")                 # what its sinks got
whole(text, cluster.happened)       # what the app gives in one piece
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import channels_ends
import pytest
from channels_ends import Noted, Row
from channels_outsider import Outsider, xml
from pipeline_local import LocalNode

from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.functions.registry import default_registry
from nadi.io.wallclock import WallClock
from nadi.kernel.rows.events import Chunk
from nadi.pipeline.cutting import cutmaker
from nadi.pipeline.node import needed_outputs
from nadi.pipeline.spec import AppSpec
from nadi.plan import plan_app
from nadi.plan.distribution import Channel, Instance, Topology
from nadi.runtime import Runtime

BEGIN = 1_000_000_000  # ms
MOST_BUCKETS = 3
HEARD_WITHIN = 30.0  # seconds
Happened = list[tuple[int, str, tuple[Row, ...]]]
"""(when, ms; stream; the events of a message), at the end with ("", ()) how far time has come."""
PerKey = dict[str, dict[object, list[Noted]]]
"""What comes of an app: by stream and first attribute, in order."""


class Clock:
    """That of all nodes (ms), while it is `kept`."""

    def __init__(self) -> None:
        self.now = BEGIN

    @contextmanager
    def kept(self) -> Iterator[Clock]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cutmaker, "WALL", WallClock(lambda: self.now))
            yield self


class LocalCluster:
    """All instances of a topology whose channels are there, on `servers` or ("") in memory. `shaped` makes of the description of an instance that it could have
    the one that it has."""

    def __init__(
        self,
        topology: Topology,
        folder: Path,
        clock: Clock,
        servers: str = "",
        shaped: Callable[[AppSpec], AppSpec] = lambda spec: replace(spec, buckets=1),
    ) -> None:
        self.topology = topology
        self.clock = clock
        self.sent: Happened = []
        self._outside = {place: c for c in topology.channels if c.outside for place in c.places}
        self._ends = channels_ends.begin(frozenset(self._outside), servers)
        self._outsider = Outsider(topology.transport, servers) if servers and self._outside else None
        self._entries: dict[str, list[tuple[Any, Sequence[str]]]] = defaultdict(list)  # places, and names in XML
        self._sinks: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._sent: dict[str, int] = defaultdict(int)
        self._specs: dict[str, AppSpec] = {}
        self.nodes: dict[str, LocalNode] = {}
        entered = {i.name for g in topology.groups for i in g.inputs if i.user_given}
        for instance in _in_order(topology):
            self._begin(instance, folder, servers, shaped, entered)
        try:
            for name in self._specs:
                self.start(name)
            self.advance(0)
        except BaseException:
            self.close()
            raise

    def _begin(
        self,
        instance: Instance,
        folder: Path,
        servers: str,
        shaped: Callable[[AppSpec], AppSpec],
        entered: Iterable[str],
    ) -> None:
        app = plan_app(instance.text, default_registry())
        state = folder / instance.name
        state.mkdir(parents=True)
        spec = AppSpec(
            instance.name,
            instance.text,
            str(state),
            buckets=1 if app.sharding.kind == "single" else MOST_BUCKETS,
            outputs=needed_outputs(app),
            connectors=channels_ends.__name__,
            channels={self.topology.transport: servers or "memory"},
            order_idle=0,
        )
        self._specs[instance.name] = shaped(spec)
        for source in channels_ends.connectors(app, "source"):
            if outside := channels_ends.outside_of(source):
                self._enter(self._outside[outside], (outside, source.schema.names))
            elif source.type != channels_ends.CHANNEL:
                (stream,) = {source.stream, source.stream.removeprefix("passthrough")} & set(entered)
                self._entries[stream].append(((instance.name, source.ordinal), ()))
        for sink in channels_ends.connectors(app, "sink"):
            if sink.type != channels_ends.CHANNEL:
                self._sinks[sink.stream].append((instance.name, sink.ordinal))

    def _enter(self, channel: Channel, way: tuple[str, Sequence[str]]) -> None:
        """Note a way by which somebody outside fills a stream; on servers by the name of the stream only."""
        if way not in self._entries[channel.stream] and (self._outsider is None or channel.key is None):
            self._entries[channel.stream].append(way)

    def start(self, name: str) -> None:
        """Another life of an instance: in hosts that know nothing, from what is kept of it."""
        if name in self.nodes:
            self.nodes.pop(name).close()
        until = time.monotonic() + HEARD_WITHIN
        while name not in self.nodes:
            try:
                self.nodes[name] = LocalNode(self._specs[name])
            except (
                ConnectionUnavailableException
            ):  # a broker may not know yet who leads a topic: a node tries again, too
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()

    # ---- what happens

    def send(self, stream: str, *rows: Row) -> None:
        """A message of some events, now, by one of the ways into the app, each in its turn."""
        self.sent.append((self.clock.now, stream, rows))
        ways = self._entries[stream]
        if not ways:
            return  # nobody reads it
        self._sent[stream] += 1
        way, names = ways[self._sent[stream] % len(ways)]
        self._ends.send(way, self.clock.now, rows)
        if names and self._outsider is not None:
            channel = self._outside[way]
            self._outsider.publish(
                channel.name, self._sent[stream] % channel.partitions, xml(names, rows), self.clock.now
            )

    def advance(self, ms: int) -> None:
        """Let time pass, and all instances do what there is to do, from the first groups to the last."""
        self.clock.now += ms
        until = time.monotonic() + HEARD_WITHIN
        for name in self._specs:
            node = self.nodes[name]
            node.run()
            while node.group._maker._bound not in (None, self.clock.now):  # Kafka takes a moment until readers see it
                assert time.monotonic() < until, f"{name} does not hear those that it reads from"
                node.run()

    # ---- what comes of it

    def noted(self, stream: str) -> list[Noted]:
        """What the sinks of a stream got, all instances together, by when it came out."""
        found = [row for sink in self._sinks[stream] for row in self._ends.rows(*sink)]
        return sorted(found, key=lambda row: row[0])

    def rows(self, stream: str) -> list[Row]:
        """Its events."""
        return [row for _, _, row in self.noted(stream)]

    @property
    def happened(self) -> Happened:
        """What was sent so far, and how far time has come."""
        return [*self.sent, (self.clock.now, "", ())]

    def per_key(self, *streams: str) -> PerKey:
        """As `whole` has it."""
        return {stream: _per_key(self.noted(stream)) for stream in streams}

    def by_instance(self, stream: str) -> dict[str, list[Row]]:
        """Its events, by the instances whose sinks got them."""
        return {name: [row for _, _, row in self._ends.rows(name, i)] for name, i in self._sinks[stream]}


def _in_order(topology: Topology) -> list[Instance]:
    """All instances, those of groups that fill channels before those that read them."""
    graph: dict[str, set[str]] = {group.name: set() for group in topology.groups}
    for channel in topology.channels:
        for consumer in channel.consumers:
            graph[consumer] |= set(channel.producers) - {consumer}
    groups: dict[str, Any] = {group.name: group for group in topology.groups}
    return [i for name in TopologicalSorter(graph).static_order() for i in groups[name].instances]


def whole(text: str, happened: Happened, *streams: str) -> PerKey:
    """What an app gives in one piece, in the in-process runtime, of what was sent to a cluster."""
    app = Runtime(text, now=BEGIN, connected=False)
    noted: dict[str, list[Noted]] = {stream: [] for stream in streams}

    def note(stream: str) -> Callable[[Chunk], None]:
        return lambda chunk: noted[stream].extend((app.kernel.flow.now, e.ts, tuple(e.row)) for e in chunk)

    for stream in streams:
        app.on_stream(stream, note(stream))
    app.start()
    for now, stream, rows in happened:
        app.advance_to(now)
        if rows:
            app.send(stream, [(now, row) for row in rows])
    return {stream: _per_key(rows) for stream, rows in noted.items()}


def _per_key(noted: list[Noted]) -> dict[object, list[Noted]]:
    found: dict[object, list[Noted]] = defaultdict(list)
    for one in noted:
        found[one[2][0]].append(one)
    return dict(found)
