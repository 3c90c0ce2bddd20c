"""Finding 13: what is checked of each kind of block when a state is loaded, before a loop sees it. `test_columns_hostile.py` changes states at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.columns.flat import Block, decode, encode
from nadi.kernel.columns.jit import interpreted
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch, Kernel, Segment
from nadi.kernel.segments import Part
from nadi.pipeline.engine import make_kernel
from nadi.plan import plan_app
from nadi.plan.columns.islands import islands
from nadi.plan.nodes import App

STREAMS = "define stream S (k string, v int, d double); define stream R (k string, v int, d double); "
TABLE = "@primaryKey('k') define table T (k string, v int, d double); from R select k, v, d update or insert into T on T.k == k; "
READ = "from S join T on S.k == T.k select T.k as k, T.v as v insert into Out;"
BATCH = "from S#window.lengthBatch(9) select k, sum(v) as s group by k insert into Out;"
CHAIN = (
    "partition with (k of S) begin from S#window.length(3) select k, v, max(d) as m group by v insert into Out; end;"
)
ALIKE = "from S#window.session(500 millisec, k) select k, max(d) as m insert into Out;"
SORT = "from S[not (v is null)]#window.sort(2, v) select sum(d) as s insert into Out;"
UNIQUE = "partition with (k of S) begin from S#window.unique:length(v, 2) select k, sum(d) as a insert into Out; end;"
LATE = "from S#window.session(500 millisec, k, 400 millisec) select k, max(d) as m insert into Out;"
TICKS = "partition with (k of S) begin from S select k, v output all every 1 min insert into Out; end;"
LAST = "partition with (k of S) begin from S select k, v output last every 1 min insert into Out; end;"
GROUPED = "partition with (k of S) begin from S select k, v group by v output last every 1 min insert into Out; end;"
ROWS = "from S#window.lengthBatch(9) select k, v, d insert into Out;"
ALL = "from S select k, v output all every 9 events insert into Out;"
JOIN = (
    "from S#window.length(3) as a join R#window.length(3) as b on a.k == b.k select a.k as x, b.v as y insert into Out;"
)
TOTALS = "from S#window.length(3) as a join R#window.length(3) as b on a.k == b.k select a.k as x, sum(b.v) as y group by a.k insert into Out;"
PATTERN = "from every a=S[v > 0] -> b=S[v == 9] select a.k, b.v insert into Out;"
SHAPE = "from every a=S[v > 0]<2:3> -> b=S[v == 9] select a[0].k as k, b.v insert into Out;"
SEQUENCE = "from every a=S[v > 0], b=S[v == 9] select a.k, b.v insert into Out;"
AWAY = "from every a=S[v > 0] -> not S[v == 9] for 1 min select a.k insert into Out;"
BAG = "from S#window.unique:ever(v) select max(d) as m insert into Out;"
SHOWN = "from S#window.lengthBatch(2) select k, v output snapshot every 1 min insert all events into Out;"

Change = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _no_compiling() -> Iterator[None]:
    with interpreted():
        yield


def planned(body: str) -> App:
    app = plan_app(STREAMS + body, default_registry())
    assert {query.id for query in app.queries} <= set(islands(app).order), islands(app).why
    return app


def kernel_of(app: App) -> Kernel:
    return make_kernel(app, ("Out",), properties={"nadi.kernel": "auto"})


def batch(app: App, stream: str, at: int, start: int) -> ArrivalBatch:
    schema = pa.schema([*arrow_schema(app.streams[stream].schema), *ARRIVAL_COLUMNS])
    n = 5
    times = [start + 2 * i + at for i in range(n)]
    columns = [["a", "b", "a", "c", "b"], [1, 2, 3, 4, 1], [0.5, 0.25, 1.5, 2.5, 3.5]]
    marks = [times, [start + i for i in range(n)], [0] * n, times, [1, 2, 1, 3, 2]]
    made = [pa.array(column, field.type) for column, field in zip([*columns, *marks], schema, strict=True)]
    return ArrivalBatch(stream, at, 0, pa.RecordBatch.from_arrays(made, schema=schema))


def dumped(app: App) -> list[Part]:
    kernel = kernel_of(app)
    kernel.start(0)
    kernel.process([batch(app, "S", 0, 100), batch(app, "R", 1, 100)], 120)
    return list(kernel.dump())


def with_change(state: list[Part], letter: str, name: str, change: Change) -> list[Part]:
    """All blocks that have such a letter and array are others."""
    made: list[Part] = []
    done = False
    for part in state:
        assert isinstance(part, Segment)
        blocks = list(decode(part.payload)) if part.payload[:1] == b"C" else []
        if any(block.letter == letter and len(block.arrays.get(name, ())) for block in blocks):
            done = True
            part = Segment(part.element, part.group, encode([_changed(b, name, change) for b in blocks]))
        made.append(part)
    assert done, f"no block '{letter}' has '{name}'"
    return made


def _changed(block: Block, name: str, change: Change) -> Block:
    arrays = dict(block.arrays)
    found = change(arrays[name].copy())
    if found is None:
        del arrays[name]
    else:
        arrays[name] = found
    return Block(block.element, block.group, block.letter, arrays, block.keys)


def put(place: int, value: Any) -> Change:
    def change(array: Any) -> Any:
        array[place] = value
        return array

    return change


def more(by: Any) -> Change:
    return lambda array: array + np.array([by]).astype(array.dtype)[0]


def left_out(_array: Any) -> Any:
    return None


def shorter(array: Any) -> Any:
    return array[:-1]


def as_type(dtype: str) -> Change:
    return lambda array: array.astype(dtype)


HARMFUL: dict[str, tuple[str, str, str, Change]] = {
    "a group that has a row and is in no batch": (BATCH, "g", "at", put(0, 0)),
    "a group whose place in its batch is negative": (BATCH, "g", "at", put(0, -1)),
    "a group whose row has no place": (BATCH, "g", "row", put(0, 0)),
    "groups without an array": (BATCH, "g", "s0", left_out),
    "one value for all groups": (BATCH, "g", "n0", lambda array: array[:1]),
    "doubles in the place of counts": (BATCH, "g", "n0", as_type("float64")),
    "a batch's clock that ends before": (ROWS, "w", "clock", shorter),
    "events of groups of other keys": (CHAIN, "k", "texts", more(1)),
    "an event of a key before the first one": (CHAIN, "k", "key", put(0, -1)),
    "an event of no group": (CHAIN, "k", "group", put(0, -1)),
    "more events that go than there are": (CHAIN, "k", "taken", put(0, 1)),
    "keys that are alike": (ALIKE, "k", "texts", lambda array: array * 0 + 97),
    "more events than a sorted window has": (SORT, "s", "key", lambda array: np.zeros(9, np.int32)),
    "a number that cannot be counted on": (SORT, "s", "number", put(0, 2**63 - 1)),
    "a unit in another home": (UNIQUE, "u", "home", lambda array: (array + 1) % 3),
    "a unit in no home": (UNIQUE, "u", "home", put(0, -1)),
    "a session before another one with more events than there are": (LATE, "g", "parted", put(0, 7)),
    "a session without events": (LATE, "g", "active", lambda array: ~array),
    "a session's number that cannot be counted on": (LATE, "g", "session", put(0, 2**63 - 1)),
    "rows that wait without a tick": (TICKS, "g", "tick", put(0, 0)),
    "a last row that waits without a tick": (LAST, "k", "tick", put(0, 0)),
    "a last row of no key": (LAST, "g", "owner", put(0, -1)),
    "a last row of a group of another key": (GROUPED, "g", "owner.texts", more(1)),
    "texts that begin before the first one": (ROWS, "r", "l0", put(0, -1)),
    "texts that end behind the last one": (ROWS, "r", "l0", put(0, 100)),
    "texts that are no UTF-8": (ROWS, "r", "b0", put(0, 255)),
    "rows without a column": (ROWS, "r", "v1", left_out),
    "as many rows as would have gone on": (ALL, "r", "ts", lambda array: np.resize(array, 9)),
    "a key of a join without a partition": (JOIN, "j", "key", put(0, 1)),
    "more events of a join that go than there are": (JOIN, "j", "row", put(4, 1)),
    "bits of an event that there are not": (JOIN, "j", "nodes", put(1, 1 << 62)),
    "a text of a join before the first one": (JOIN, "j", "nodes", put(2, -1)),
    "one value for all groups of a join": (TOTALS, "g", "n0", lambda array: array[:1]),
    "a match that has no number": (PATTERN, "p", "nodes", put(0, 0)),
    "a match of a number that is not yet given": (PATTERN, "p", "next", put(0, 1)),
    "a match that waits nowhere": (PATTERN, "p", "place", put(0, 5)),
    "bits of a match that there are not": (PATTERN, "p", "nodes", lambda array: array | (1 << 40)),
    "a match of a shape with no number": (SHAPE, "m", "nodes", put(0, 0)),
    "a place of a number that is not yet given": (SHAPE, "m", "next", put(0, 1)),
    "a clock that ends before": (SHAPE, "m", "next", shorter),
    "a sequence that has begun in another way": (SEQUENCE, "r", "rows", put(0, 6)),
    "an element that holds a match that there is not": (SEQUENCE, "r", "rows", put(1, 9)),
    "times that were never there": (AWAY, "d", "flag", put(0, 9)),
    "times that are no numbers": (AWAY, "d", "due", as_type("float64")),
    "a value that is held less than once": (BAG, "b0", "count", put(0, -1)),
    "a value that is no number": (BAG, "b0", "value", put(0, np.nan)),
    "more events that are shown than there are": (SHOWN, "n", "held", put(3, 99)),
    "an output of another key-group": (BATCH.replace("9", "2"), "n", "group", put(0, -1)),
    "a number of rows that is negative": (BATCH.replace("9", "2"), "n", "next", put(0, -1)),
    "clocks that are no numbers": (BATCH, "c", "now", as_type("float64")),
    "clocks that cannot go on": (BATCH, "c", "now", put(0, 2**63 - 1)),
    "a row of a table with more bits than columns": (TABLE + READ, "t", "nulls", put(0, 8)),
    "a row of a table whose text is before the first one": (TABLE + READ, "t", "words", put(0, -1)),
    "a row of a table whose text is behind the last one": (TABLE + READ, "t", "words", put(0, 99)),
    "an int of a table that is none": (TABLE + READ, "t", "words", put(1, 1 << 31)),
    "a row of a table that is half there": (TABLE + READ, "t", "there", put(0, 2)),
    "a row of a table of a number that is not yet given": (TABLE + READ, "t", "head", put(0, 1)),
    "more rows of a table than there ever were": (TABLE + READ, "t", "head", put(1, 1)),
    "a table's rows of other lengths": (TABLE + READ, "t", "words", shorter),
    "a table's numbers of another type": (TABLE + READ, "t", "number", as_type("float64")),
}


@pytest.mark.parametrize("what", HARMFUL)
def test_a_state_with_such_a_block_is_refused_by_name_when_it_is_loaded(what: str) -> None:
    body, letter, name, change = HARMFUL[what]
    app = planned(body)
    state = with_change(dumped(app), letter, name, change)
    with pytest.raises(NadiError) as refused:
        kernel_of(app).load(state)
    assert refused.value.condition == "STATE_NOT_READABLE"


@pytest.mark.parametrize("body", dict.fromkeys(body for body, *_rest in HARMFUL.values()))
def test_a_state_that_nobody_changed_is_loaded(body: str) -> None:
    app = planned(body)
    kernel, other = kernel_of(app), kernel_of(app)
    kernel.load(dumped(app))
    other.load(list(kernel.dump()))
    later = [batch(app, "S", 0, 200), batch(app, "R", 1, 200)]
    assert kernel.process(later, 90_000).counts == other.process(later, 90_000).counts


def test_the_last_rows_of_groups_stay_in_their_key_groups_after_a_load() -> None:
    app = planned(GROUPED)
    state, kernel = dumped(app), kernel_of(app)
    kernel.load(state)
    assert sorted(kernel.dump(), key=str) == sorted(state, key=str)


def test_a_queue_that_a_window_does_not_have_is_refused_by_name() -> None:
    app = planned(JOIN)
    state = [
        Segment(part.element, part.group, part.payload.replace(b"\xa1j", b"\xa1e"))
        for part in dumped(app)
        if isinstance(part, Segment)
    ]
    with pytest.raises(NadiError, match="there is no queue"):
        kernel_of(app).load(state)


def test_a_count_of_a_value_that_is_very_great_takes_no_longer() -> None:
    """A bag took off a value that goes one by one, as often as a state said that it is held."""
    app = planned(BAG)
    state = with_change(dumped(app), "b0", "count", lambda array: array * 0 + (1 << 61))
    gone = with_change(dumped(app), "b0", "count", lambda array: array * 0)
    kernel = kernel_of(app)
    kernel.load([*state, *(part for part in gone if isinstance(part, Segment) and b"count" in part.payload)])
    assert len(list(kernel.dump())) > 0
