"""Distribution changes nothing: an app that is cut into groups with channels between gives what it gives as a whole, per key and in order.

Kernels, readers, frontier and sinks are the real ones; only Spark, the network and the clock are not there. Producers and consumers cut where they like, are
late, and are killed between any two steps.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache

import pyarrow as pa
import pytest
from channels_memory import MemoryChannel
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.channels.options import Channel, Reading
from nadi.channels.sink import ChannelSink
from nadi.channels.source import ChannelLog, ChannelMapper
from nadi.functions.registry import default_registry
from nadi.io.contract import Connector, Delivery, Place
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch, Outputs
from nadi.kernel.keys import key_group
from nadi.kernel.rows.engine import RowsKernel
from nadi.lang.tree import Annotation
from nadi.pipeline.cutting.backlog import bounded
from nadi.pipeline.cutting.cuts import Cut, Situation, Waiting, plan_cut
from nadi.pipeline.cutting.frontier import frontier_of, within
from nadi.pipeline.inputs.fatrows import gather
from nadi.pipeline.inputs.pieces import Decoding
from nadi.pipeline.inputs.rangereader import Input, Read, read_range
from nadi.pipeline.inputs.ranges import Range
from nadi.pipeline.inputs.splitters import make_splitter
from nadi.plan import plan_app
from nadi.plan.nodes import App

INPUTS = {"X": "define stream X (k string, v int);", "Y": "define stream Y (k string, v int);"}
FRONT = {
    "X": "@info(name='fx') from X[v != 3] select k, v insert into A;",
    "Y": "@info(name='fy') from Y[v > 0] select k, v * 10 as v insert into B;",
}
STREAMS = "define stream A (k string, v int); define stream B (k string, v int); define stream Out (what string, k string, a int, b int, n long);"
CONSUMERS = {
    "join": "from A#window.time(40) as a join B#window.time(70) as b on a.v * 10 != b.v "
    "select 'j' as what, a.k as k, a.v as a, b.v as b, 0L as n insert into Out;",
    "pattern": "from every a=A -> b=B[b.v > a.v] within 60 milliseconds select 'p' as what, a.k as k, a.v as a, b.v as b, 0L as n insert into Out;",
    "absent": "from every a=A -> not B for 25 milliseconds select 'n' as what, a.k as k, a.v as a, 0 as b, 0L as n insert into Out;",
    "window": "from B#window.time(30) select 'w' as what, k, 0 as a, v as b, count() as n insert all events into Out;",
}
GROUPS = (0, 1)
END = 2_000


def _keyed(query: str) -> str:
    return f"partition with (k of A, k of B) begin @info(name='q') {query} end;"


@cache
def _planned(text: str) -> App:
    return plan_app(f"@app:name('T') {text}", default_registry())


@dataclass(frozen=True)
class Message:
    """Some events of one input in one message, at a time."""

    input: str
    time: int
    events: tuple[tuple[str, int], ...]


def _arrivals(app: App, stream: str, ordinal: int, messages: list[tuple[int, Message]]) -> list[ArrivalBatch]:
    """(position, message) of an input as a kernel that is not sharded takes them."""
    rows = [(*event, m.time, position, 0, m.time, 0) for position, m in messages for event in m.events]
    if not rows:
        return []
    schema = pa.schema([*arrow_schema(app.streams[stream].schema), *ARRIVAL_COLUMNS])
    columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)]
    return [ArrivalBatch(stream, ordinal, 0, pa.RecordBatch.from_arrays(columns, schema=schema))]


Seen = dict[str, list[tuple[object, ...]]]


def _note(seen: Seen, outputs: Outputs) -> None:
    batch = outputs.batches.get("Out")
    if batch is not None:
        orders = outputs.orders["Out"].tolist()
        for order, row in zip(orders, batch.to_pylist(), strict=True):
            seen[row["k"]].append((order, row["__ts"], *list(row.values())[:5]))


def whole(query: str, sent: dict[str, list[Message]]) -> Seen:
    """What the app gives as one."""
    app = _planned(" ".join([*INPUTS.values(), STREAMS, *FRONT.values(), _keyed(query)]))
    kernel = RowsKernel(replace(app, sharding=replace(app.sharding, kind="single")), default_registry(), ["Out"])
    kernel.start(0)
    arrivals = [b for i, name in enumerate("XY") for b in _arrivals(app, name, i, list(enumerate(sent[name])))]
    seen: Seen = defaultdict(list)
    _note(seen, kernel.process(arrivals, END))
    return seen


@dataclass
class Producer:
    """A group of one instance that filters an input into a channel. It has committed `cut`, up to message `done`, at `clock`."""

    name: str
    channel: MemoryChannel
    messages: list[Message]
    app: App = field(init=False)
    epoch: int = 0
    cut: int = 0
    done: int = 0
    clock: int = 0

    def __post_init__(self) -> None:
        target = {"X": "A", "Y": "B"}[self.name]
        self.app = _planned(f"{INPUTS[self.name]} {STREAMS} {FRONT[self.name]}")
        options = {
            "transport": "nats",
            "name": target,
            "partitions": "2",
            "url": "memory",
            "key": "k",
            "channel.idle": "1",
        }
        self.connector = Connector(target, self.app.streams[target].schema, "channel", options, Annotation("map"), 0)
        self.kernel = self.made()
        self.kernel.start(0)
        self.saved = list(self.kernel.dump())
        self.begin(0)

    def made(self) -> RowsKernel:
        return RowsKernel(self.app, default_registry(), [self.connector.stream])

    def begin(self, logged: int) -> None:
        """Another run, of which the kernel is that of the last commit."""
        self.epoch += 1
        self.kernel = self.made()
        self.kernel.load(self.saved)
        self.sink = ChannelSink(self.connector, Place(f"P-{self.name}", None), MemoryChannel(self.channel))  # type: ignore[arg-type]
        self.sink.begin(self.epoch, (self.cut, max(self.cut, logged)))

    def step(self, chance: random.Random) -> None:
        """A cut, or word that there is none; killed now and then, and the cut is taken again."""
        if chance.random() < 0.2:
            following = self.messages[self.done].time if self.done < len(self.messages) else END
            self.clock = chance.randint(self.clock, max(self.clock, following))
            self.sink.idle(self.clock)
            return
        end = min(len(self.messages), self.done + chance.randint(0, 4))
        least = max(self.clock, self.messages[end - 1].time if end > self.done else 0)
        following = self.messages[end].time if end < len(self.messages) else END
        clock = chance.randint(least, max(least, following))
        if chance.random() < 0.3:
            self.take(end, clock, announce=chance.random() < 0.5)
            self.begin(self.cut + 1)
        self.take(end, clock)
        self.cut, self.done, self.clock = self.cut + 1, end, clock
        self.saved = list(self.kernel.dump())

    def take(self, end: int, clock: int, announce: bool = True) -> None:
        given_ = list(enumerate(self.messages))[self.done : end]
        outputs = self.kernel.process(_arrivals(self.app, self.name, 0, given_), clock)
        receipts = []
        batch = outputs.batches.get(self.connector.stream)
        if batch is not None and batch.num_rows:
            orders = outputs.orders[self.connector.stream]
            receipts.append(self.sink.write(Delivery(0, self.cut + 1, batch, [], [], orders, clock, self.epoch)))
        if announce:
            self.sink.announce(self.cut + 1, clock, receipts)

    @property
    def finished(self) -> bool:
        return self.done == len(self.messages)


@dataclass
class Consumer:
    """Instance `number` of two of the group that joins."""

    number: int
    query: str
    channels: dict[str, MemoryChannel]
    cut: Cut = field(default_factory=lambda: Cut(0, 1, 0, 0, {(0, 0): 0, (1, 0): 0}))
    seen: Seen = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.app = _planned(f"{STREAMS} {_keyed(self.query)}")
        assert self.app.sharding.kind == "key"
        self.kernel = self.made()
        self.kernel.start(0)
        self.open()

    def made(self) -> RowsKernel:
        return RowsKernel(self.app, default_registry(), ["Out"], bucket=0)

    def open(self) -> None:
        self.logs, self.inputs = {}, {}
        for ordinal, (stream, producer) in enumerate((("A", "P-X"), ("B", "P-Y"))):
            reading = Reading(Channel("nats", stream, 2), (self.number,), (producer,))
            log = ChannelLog(reading, self.channels[stream])
            schema = self.app.streams[stream].schema
            connector = Connector(stream, schema, "channel", {}, Annotation("map"), ordinal)
            self.logs[ordinal] = log
            take = Decoding(stream, ChannelMapper(connector), make_splitter(self.app, stream, schema, 1))
            self.inputs[ordinal] = Input(log, take)

    def step(self, chance: random.Random, wall: int) -> None:
        """A cut, if there is anything to cut; now and then on a kernel that was loaded, with readers that know nothing."""
        if chance.random() < 0.2:
            saved = list(self.kernel.dump())
            self.kernel = self.made()
            self.kernel.load(saved)
            self.open()
        waiting = [Waiting((o, 0), self.cut.ends[o, 0], log.end(0)) for o, log in self.logs.items()]
        clocks = {(o, 0): log.reached(0) for o, log in self.logs.items()}
        frontier = frontier_of(clocks)
        if frontier is not None:
            wall = min(wall, frontier.time)
            if wall < 0:
                return
            waiting = within(waiting, frontier, clocks, self._later)
        horizon = None
        limit = chance.choice([None, None, 1, 3])
        if limit is not None and sum(w.end - w.start for w in waiting) > limit:
            found, horizon = bounded(waiting, limit, self._time, self._later)
            waiting = list(found)
        cut = plan_cut(self.cut, Situation(waiting, wall, horizon, eager=True), 1)
        assert cut is not None
        rows, ranges = [], []
        for (ordinal, partition), end in cut.ends.items():
            state = Read()
            start = self.cut.ends[ordinal, partition]
            rows += list(read_range(self.inputs[ordinal], Range(ordinal, partition, start, end), state))
            ranges.append([ordinal, partition, 0, None, state.high])
        head = {"k": "clock", "n": cut.n, "clock": cut.clock, "started": 0, "ranges": ranges}
        gathered = gather([(r.head, r.body) for r in rows] + [(head, b"")], {0: "A", 1: "B"})
        _note(self.seen, self.kernel.process(gathered.arrivals, cut.clock))
        self.cut = cut

    def left(self) -> bool:
        """Whether there is anything that it has not taken."""
        return any(log.end(0) > self.cut.ends[o, 0] for o, log in self.logs.items())

    def _later(self, place: tuple[int, int], time: int, end: int) -> int:
        found = self.logs[place[0]].later_than(place[1], time)
        return end if found is None else min(end, found)

    def _time(self, place: tuple[int, int], position: int, end: int) -> int | None:
        return self.logs[place[0]].time_at(place[1], position, end)


EVENTS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 4)), min_size=1, max_size=3).map(tuple)
SENT = st.lists(st.tuples(st.sampled_from((0, 0, 10, 20)), EVENTS), max_size=12)


def _messages(name: str, given_: list[tuple[int, tuple[tuple[str, int], ...]]]) -> list[Message]:
    time, made = 10, []
    for later, events in given_:
        time += later
        made.append(Message(name, time, events))
    return made


@pytest.mark.parametrize("kind", CONSUMERS)
def test_an_app_that_is_cut_gives_what_it_gives_as_a_whole(kind: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(SENT, SENT, st.integers(0, 1 << 32))
    def holds(x, y, seed) -> None:  # type: ignore[no-untyped-def]
        chance = random.Random(seed)
        sent = {"X": _messages("X", x), "Y": _messages("Y", y)}
        wanted = whole(CONSUMERS[kind], sent)
        channels = {"A": MemoryChannel(), "B": MemoryChannel()}
        producers = [Producer("X", channels["A"], sent["X"]), Producer("Y", channels["B"], sent["Y"])]
        consumers = [Consumer(n, CONSUMERS[kind], channels) for n in GROUPS]
        while not all(p.finished for p in producers):
            chance.choice(producers).step(chance)
            for consumer in consumers:
                if chance.random() < 0.5:
                    consumer.step(chance, END)
        for producer in producers:
            producer.sink.finish()
        for consumer in consumers:
            while consumer.left():
                consumer.step(chance, END)
            consumer.step(chance, END)
        found: Seen = {}
        for consumer in consumers:
            assert not found.keys() & consumer.seen.keys()
            found |= consumer.seen
            assert all(key_group(key) * 2 // 128 == consumer.number for key in consumer.seen)
        assert found == wanted

    holds()
