"""What the peers are given: their events, the shapes of apps, and the check values of output rows. All of it as Siddhi's programs have it, in numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.events import Events
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.kernel.keys import key_group

SEED = 42
FIRST_MS = 1_700_000_000_000
PER_MS = 100  # events in a millisecond of event time
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_MASK = (1 << 64) - 1

_IN = "define stream In (ts long, sym string, price double, vol int);\n"
_PLAY = "@app:playback\n"
_PATTERN = (
    "from every e1=In[price > 90] -> e2=In[sym == e1.sym and price > e1.price] within 5 sec "
    "select e1.sym as sym, e1.price as p1, e2.price as p2, e1.ts as t1, e2.ts as t2 insert into Out;\n"
)
_SEQUENCE = (
    "from every e1=In, e2=In[price > e1.price]+, e3=In[price < e2[last].price] "
    "select e1.sym as sym, e1.price as p1, e2[last].price as p2, e3.price as p3 insert into Out;\n"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """`peer` is what Siddhi's program calls it; it is timed over `many` events, nadi over `few` (0: as many as asked for). Doubles are compared by
    their sum where they are `averages`: a running sum may round in another order. `goal`: how many times as fast nadi is to be, in small batches half of it."""

    peer: str
    label: str
    text: str
    many: int
    goal: float
    few: int = 0
    keys: int = 1_000
    averages: bool = False

    @property
    def keyed(self) -> bool:
        return "partition with" in self.text

    @property
    def joins(self) -> bool:
        return "stream In2" in self.text


def _keyed(body: str) -> str:
    return f"{_PLAY}{_IN}partition with (sym of In) begin {body} end;"


SHAPES: dict[str, Shape] = {
    shape.peer: shape
    for shape in (
        Shape("pass", "pass", f"{_IN}from In select ts, sym, price, vol insert into Out;", 10_000_000, 2),
        Shape(
            "filter",
            "filter, half pass",
            f"{_IN}from In[price > 50] select ts, sym, price, vol insert into Out;",
            10_000_000,
            2,
        ),
        Shape(
            "timeavg",
            "time(1 s) avg group by 1,000",
            f"{_PLAY}{_IN}from In#window.time(1 sec) select sym, avg(price) as a group by sym insert into Out;",
            5_000_000,
            10,
            averages=True,
        ),
        Shape(
            "lengthavg",
            "length(1000) avg",
            f"{_PLAY}{_IN}from In#window.length(1000) select sym, avg(price) as a insert into Out;",
            5_000_000,
            10,
            averages=True,
        ),
        Shape(
            "timebatch",
            "timeBatch(1 s) sum group by",
            f"{_PLAY}{_IN}from In#window.timeBatch(1 sec) select sym, sum(price) as s, count() as n group by sym insert into Out;",
            5_000_000,
            10,
        ),
        Shape("ppattern1k", "keyed pattern, 1,000 keys", _keyed(_PATTERN), 2_000_000, 20),
        Shape("ppattern100k", "keyed pattern, 100,000 keys", _keyed(_PATTERN), 2_000_000, 20, keys=100_000),
        Shape("pseq1k", "keyed sequence, 1,000 keys", _keyed(_SEQUENCE), 2_000_000, 20),
        Shape("pattern", "pattern, key equality", f"{_PLAY}{_IN}{_PATTERN}", 20_000, 300, 20_000),
        Shape(
            "join",
            "window join on key",
            f"{_PLAY}{_IN}define stream In2 (ts long, sym string, price double, vol int);\n"
            "from In#window.time(1 sec) as a join In2#window.time(1 sec) as b on a.sym == b.sym "
            "select a.sym as sym, a.price as p1, b.price as p2 insert into Out;",
            20_000,
            20,
            20_000,
        ),
    )
}


class Values(msgspec.Struct, frozen=True):
    """Check values of output rows: how many, sums without and with order (wrapped to 64 bits), the sum of all doubles."""

    out: int
    sum: int
    hash: int
    dsum: float

    def same(self, other: Values, averages: bool) -> bool:
        """Whether both are of the same rows."""
        if averages:
            return self.out == other.out and abs(self.dsum - other.dsum) <= 1e-9 * abs(other.dsum)
        return (self.out, self.sum, self.hash) == (other.out, other.sum, other.hash)


def peer_events(count: int, keys: int) -> Events:
    """The first events of the peers.

    >>> events = peer_events(2, 1_000)
    >>> events.key.tolist(), events.cents.tolist(), events.vol.tolist()
    ([394, 851], [3310, 7425], [50, 4])
    """
    at = np.arange(count, dtype=np.int64)
    z = np.uint64(SEED) + (at.astype(np.uint64) + np.uint64(1)) * _STEP
    z = (z ^ (z >> np.uint64(30))) * _MIX[0]
    z = (z ^ (z >> np.uint64(27))) * _MIX[1]
    h = z ^ (z >> np.uint64(31))
    key = ((h >> np.uint64(40)) % np.uint64(keys)).astype(np.int64)
    cents = (((h >> np.uint64(8)) & np.uint64(0xFFFFF)) % np.uint64(10_000)).astype(np.int64)
    vol = ((h & np.uint64(0xFF)) % np.uint64(100)).astype(np.int64) + 1
    return Events(FIRST_MS + at // PER_MS, key, cents, vol)


def arrivals(shape: Shape, events: Events, size: int) -> Iterator[tuple[list[ArrivalBatch], int]]:
    """Batches of `size` events, each a chunk of its own, and the clock at the end of each. In a join they go to both streams in turn."""
    schema = pa.schema(
        [
            pa.field("ts", pa.int64()),
            pa.field("sym", pa.string()),
            pa.field("price", pa.float64()),
            pa.field("vol", pa.int32()),
            *ARRIVAL_COLUMNS,
        ]
    )
    names = [f"S{k}" for k in range(shape.keys)]
    groups = np.array([key_group(n) for n in names] if shape.keyed else np.zeros(shape.keys), np.int64)
    texts = pa.array(names)
    for start in range(0, len(events), size):
        stop = min(start + size, len(events))
        made = []
        for side, stream in enumerate(("In", "In2") if shape.joins else ("In",)):
            at = np.arange(start, stop)
            at = at[at % 2 == side] if shape.joins else at
            key, ts, none = events.key[at], events.ts[at], np.zeros(len(at), np.int64)
            columns = [ts, texts.take(pa.array(key)), events.cents[at] / 100, events.vol[at]]
            # the order time is the number of the event, so that both streams alternate
            columns += [at, at, none, ts, groups[key]]
            arrays = [c if isinstance(c, pa.Array) else pa.array(c).cast(f.type) for c, f in zip(columns, schema)]
            made.append(ArrivalBatch(stream, side, 0, pa.RecordBatch.from_arrays(arrays, schema=schema)))
        yield made, stop


def values_of(batches: list[pa.RecordBatch], averages: bool) -> Values:
    """The check values of all rows of an output."""
    if not batches:
        return Values(0, 0, 0, 0.0)
    table = pa.Table.from_batches(batches)
    total: npt.NDArray[np.uint64] = np.zeros(table.num_rows, np.uint64)
    doubles: list[npt.NDArray[np.float64]] = []
    for j, name in enumerate((n for n in table.column_names if not n.startswith("__")), 1):
        column = table.column(name)
        if pa.types.is_floating(column.type):
            value = column.to_numpy()
            doubles.append(value)
            whole = np.floor(value * (1_000_000 if averages else 100) + 0.5).astype(np.int64)
        elif pa.types.is_integer(column.type):
            whole = column.to_numpy().astype(np.int64)
        else:
            whole = np.array([int(text[1:]) for text in column.to_pylist()], np.int64)
        total += np.uint64(j) * whole.astype(np.uint64)
    in_order = 0
    for one in total.tolist():
        in_order = (in_order * 31 + one) & _MASK
    plain = float(np.cumsum(np.stack(doubles, axis=1).ravel())[-1]) if doubles else 0.0  # strictly one after the other
    return Values(table.num_rows, _signed(int(total.sum(dtype=np.uint64))), _signed(in_order), plain)


def _signed(word: int) -> int:
    """
    >>> _signed(5), _signed(2**64 - 1)
    (5, -1)
    """
    return word - (1 << 64) if word >> 63 else word
