"""Loads states that were tampered with, in a process of its own: `python hostilestate.py SEED TIMES NAME…`, of the apps of `test_columns_invariant.LOOPS`,
of `test_columns_joins.LOOPS` ("join: …") and of `MORE`. A line of JSON for each that was taken and then led to an error which has no name, or came to no end;
and for each that was refused only because a loop met an index outside of an array.

With `NUMBA_DISABLE_JIT=1` loops run as Python: where an index is outside of an array is an IndexError here, and is memory of others where loops are compiled.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import traceback
from types import CodeType
from typing import Any

import numpy as np
import pyarrow as pa

from nadi.kernel.columns import jit

LOOPS_MET: set[CodeType] = set()


def _noted(function: Any, _options: object) -> Any:
    LOOPS_MET.add(function.__code__)
    return function


jit._cached = _noted  # before other modules have theirs made

from nadi.errors import NadiError  # noqa: E402
from nadi.functions.registry import default_registry  # noqa: E402
from nadi.kernel.arrow import arrow_schema  # noqa: E402
from nadi.kernel.columns.flat import Block, decode, encode  # noqa: E402
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch, Segment  # noqa: E402
from nadi.kernel.segments import Part, halves, is_flat, joined  # noqa: E402
from nadi.pipeline.engine import make_kernel  # noqa: E402
from nadi.plan import plan_app  # noqa: E402
from nadi.plan.columns.islands import islands  # noqa: E402

SCHEMA = "k string, v int, l long, f float, d double, b bool"
_TABLE = "@primaryKey('k') define table T (k string, v int, f float, d double, b bool); "
_LISTED = "define table T (k string, v int, f float, d double, b bool); "
_WRITTEN = "from R select k, v, f, d, b update or insert into T on T.k == k; from R[v > 3] delete T on T.k == k; "
MORE = {
    "pattern": "from every a=S[v > 1] -> b=S[k == a.k] within 50 millisec select a.k, b.v insert into Out;",
    "pattern of keys": "partition with (k of S) begin from every a=S[v > 1] -> b=S[v < 2] select a.k, a.d, b.v insert into Out; end;",
    "absent": "from every a=S[v > 2] -> not S[v == 1] for 20 millisec select a.k insert into Out;",
    "sequence": "from every a=S, b=S[v > a.v] select a.k, b.v insert into Out;",
    "count": "from every a=S[v > 1]<2:3> -> b=S[v == 0] select a[0].k as k, b.v insert into Out;",
    "chain of a key": "from every a=S[v > 1] -> b=R[v == a.v] -> c=S[k != b.k] within 90 millisec select a.k, b.k as y, c.v insert into Out;",
    "pair": "from every (a=S[v > 1] and b=R[v < 2]) -> c=S[v == 0] select a.k, b.k as y, c.d insert into Out;",
    "either": "from every a=S[v > 1] -> b=S[v == 0] or c=R[v == 1] -> e=S[v > 2] select a.k, b.k as y, c.v, e.d insert into Out;",
    "logical": "partition with (k of S, k of R) begin from every a=S[v > 1] -> b=S[v < 2] and c=R[v > 2] select a.v, b.d, c.f insert into Out; end;",
    "waits in a partition": "partition with (k of S, k of R) begin from every a=S[v > 1] -> not R[v == 1] for 30 millisec -> c=S"
    " select a.v, c.d insert into Out; end;",
    "waits for both": "from every a=S[v > 1] -> not R[v == 1] for 20 millisec and c=S[v < 3] -> e=R select a.k, c.k as y, e.v insert into Out;",
    "sequence of keys": "partition with (k of S) begin from every a=S[v > 1]+, b=S[v == 0] select a[0].d as x, a[last].k as k, b.v insert into Out; end;",
    "sequence of both": "from every a=S[v > 1], b=S[v < 3] and c=R[v > 0] select a.k, b.k as y, c.v insert into Out;",
    "sequence that waits": "from every a=S[v > 1], not R[v == 1] for 20 millisec, c=S select a.k, c.v insert into Out;",
    "sums of matches": "from every a=S[v > 1] -> b=S[v < 2] select a.k, sum(b.d) as s, min(b.v) as m group by a.k insert into Out;",
    "join": "from S#window.length(3) as x join S#window.time(30 millisec) as y on x.k == y.k select x.k, y.v insert into Out;",
    "extremes of keys": "partition with (k of S) begin from S#window.timeLength(60 millisec, 4)[v > 0]"
    " select k, v, min(d) as a, max(l) as c, distinctCount(b) as n group by v insert into Out; end;",
    "last of keys": "partition with (k of S) begin from S select k, v, f output last every 30 millisec insert into Out; end;",
    "last groups of keys": "partition with (k of S) begin from S select k, v, sum(f) as s group by v output last every 3 events insert into Out; end;",
    "all of keys": "partition with (k of S) begin from S[v > 0] select k, v, f output all every 30 millisec insert into Out; end;",
    "all of some of keys": "partition with (k of S) begin from S[v > 0] select k, v, f output all every 3 events insert into Out; end;",
    "snapshot of keys": "partition with (k of S) begin from S select k, v, max(d) as m group by v output snapshot every 75 millisec insert into Out; end;",
    "all of some": "from S select k, v, d output all every 7 events insert into Out;",
    "all of a time": "from S select k, v, d output all every 30 millisec insert into Out;",
    "snapshot of a window": "from S#window.time(60 millisec)[v > 0] select k, v, sum(d) as s output snapshot every 30 millisec insert all events into Out;",
    "snapshot of groups": "from S#window.length(5) select sum(d) as s, min(v) as m group by k output snapshot every 30 millisec insert all events into Out;",
    "snapshot of a batch": "from S#window.lengthBatch(4) select k, sum(d) as s, max(v) as n group by k output snapshot every 30 millisec"
    " insert all events into Out;",
    "external batch": "from S[l > 0L]#window.externalTimeBatch(l, 30 millisec) select k, sum(d) as s, max(v) as m group by k insert into Out;",
    "external batch of keys": "partition with (k of S) begin from S[l > 0L]#window.externalTimeBatch(l, 30 millisec)"
    " select k, sum(d) as s insert into Out; end;",
    "waiting batch": "from S#window.lengthBatch(7) select k, v, d insert into Out;",
    "table": _TABLE
    + _WRITTEN
    + "from S join T on S.k == T.k select T.k as k, T.v as v, T.f as f, T.d as d, T.b as b insert into Out;",
    "table that is looked into": _TABLE + _WRITTEN + "from S[T.k == k in T] select k, v insert into Out;",
    "table of two keys": "@primaryKey('k', 'v') define table T (k string, v int, f float, d double, b bool); "
    "from R select k, v, f, d, b update or insert into T on T.k == k and T.v == v; "
    "from S join T on S.k == T.k and S.v == T.v select T.k as k, T.d as d insert into Out;",
    "table that is changed": _TABLE + "from R[v > 3] delete T on T.k == k; from S left outer join T on S.k == T.k"
    " select S.k as k, coalesce(T.v, 0) + 1 as v, S.f as f, S.d as d, S.b as b update or insert into T on T.k == k;"
    " from R join T on R.k == T.k select T.k as k, T.v as v insert into Out;",
    "rows without a key": _LISTED + "from R select k, v, f, d, b insert into T; from R[v > 3] delete T on T.k == k;"
    " from S join T on S.k == T.k select T.k as k, T.v as v, T.d as d insert into Out;",
}
ODD = [
    -1,
    0,
    1,
    2,
    3,
    7,
    255,
    1023,
    1024,
    4096,
    1 << 20,
    (1 << 31) - 1,
    -(1 << 31),
    1 << 40,
    -(1 << 40),
    (1 << 63) - 1,
    -(1 << 63),
]
SECONDS = 5


class Late(Exception):
    """It came to no end."""


def arrivals(app: Any, rows: int, start: int, seed: int) -> list[ArrivalBatch]:
    """Events of both streams, one by one in turns."""
    dice = random.Random(seed)
    return [_batch(app, stream, at, rows, start + 2 * at, dice) for at, stream in enumerate(("S", "R"))]


def _batch(app: Any, stream: str, at: int, rows: int, start: int, dice: random.Random) -> ArrivalBatch:
    schema = pa.schema([*arrow_schema(app.streams[stream].schema), *ARRIVAL_COLUMNS])
    given: dict[str, list[Any]] = {
        "k": [dice.choice("abc") for _ in range(rows)],
        "v": [dice.randrange(5) for _ in range(rows)],
        "l": [start + i for i in range(rows)],
        "f": [dice.random() for _ in range(rows)],
        "d": [dice.random() for _ in range(rows)],
        "b": [dice.random() < 0.5 for _ in range(rows)],
    }
    given["k"][-1] = None
    times = [start + 4 * i for i in range(rows)]
    marks = [times, [start + i for i in range(rows)], [0] * rows, times, [dice.randrange(3) for _ in range(rows)]]
    columns = [*(given[c.name] for c in app.streams[stream].schema.columns), *marks]
    made = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return ArrivalBatch(stream, at, 0, pa.RecordBatch.from_arrays(made, schema=schema))


def changed(dice: random.Random, block: Block) -> Block:
    """A block of which one thing is different."""
    arrays = dict(block.arrays)
    name = dice.choice([*arrays])
    array = arrays[name].copy()
    match dice.randrange(8):
        case 0:
            del arrays[name]
        case 1:
            arrays[name] = array[: dice.randrange(len(array) + 1)]
        case 2:
            arrays[name] = (
                np.concatenate([array, array[: 1 + dice.randrange(3)]]) if len(array) else np.ones(3, array.dtype)
            )
        case 3:
            arrays[name] = array.astype(dice.choice(["int8", "int64", "float64", "bool", "int32"]))
        case _ if len(array):
            with np.errstate(all="ignore"):
                odd = np.array([dice.choice(ODD)]).astype(array.dtype)[0]
            array[dice.randrange(len(array)) if dice.random() < 0.7 else slice(None)] = odd
            arrays[name] = array
        case _:
            arrays[name] = np.ones(2, array.dtype)
    return Block(block.element, block.group, block.letter, arrays, block.keys)


def tampered(dice: random.Random, state: list[Part]) -> tuple[list[Part], str]:
    """A state with something else in one of its parts, and what that is."""
    at = dice.choice([at for at, part in enumerate(state) if _flat(part)])
    before, payload, behind = state[:at], _flat(state[at]), state[at + 1 :]
    match dice.randrange(40):
        case 0:
            return [*before, *behind], f"{_named(state[at])} is missing"
        case 1:
            return [*before, state[at], state[at], *behind], f"{_named(state[at])} comes twice"
        case 2 | 3 | 4 | 5:
            changing = bytearray(payload)
            changing[dice.randrange(len(changing))] ^= 1 << dice.randrange(8)
            return [*before, _with(state[at], bytes(changing)), *behind], "a bit"
    blocks = list(decode(payload))
    where = dice.randrange(len(blocks))
    block = blocks[where]
    if not block.arrays:
        return state, ""
    made = changed(dice, block)
    names = [n for n in block.arrays if n not in made.arrays or not _same(block.arrays[n], made.arrays[n])]
    given = encode([*blocks[:where], made, *blocks[where + 1 :]])
    what = f"{block.element} {block.letter} {names[0]}" if names else ""
    return [*before, _with(state[at], given), *behind], what


def _flat(part: Part) -> bytes:
    """What columns wrote of a part."""
    if isinstance(part, Segment):
        return part.payload if is_flat(part.payload) else b""
    return halves(part)[1]


def _with(part: Part, payload: bytes) -> Part:
    if isinstance(part, Segment):
        return Segment(part.element, part.group, payload)
    return joined(halves(part)[0], payload)


def _named(part: Part) -> str:
    return part.element if isinstance(part, Segment) else "a delta"


def _same(one: Any, other: Any) -> bool:
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def late(*_: object) -> None:
    raise Late


def attack(name: str, body: str, seed: int, times: int) -> None:
    app = plan_app(f"define stream S ({SCHEMA}); define stream R ({SCHEMA}); {body}", default_registry())
    assert {query.id for query in app.queries} <= set(islands(app).order), islands(app).why
    fresh = _kernel(app)
    fresh.start(900)
    fresh.process(arrivals(app, 40, 1000, 1), 1200)
    state: list[Part] = list(fresh.dump())
    fresh.process(arrivals(app, 9, 1210, 3), 1260)
    state.append(fresh.delta())
    _go_on(_kernel(app), app, state)
    victim = _kernel(app)
    dice = random.Random(seed)
    for _ in range(times):
        given, what = tampered(dice, state)
        signal.alarm(SECONDS)
        try:
            victim.load(given)
        except NadiError as named:
            if met := _outside(named):
                tell(name, what, "load", met)
            continue
        except BaseException as problem:
            tell(name, what, "load", problem)
            continue
        finally:
            signal.alarm(0)
        signal.alarm(SECONDS)
        try:
            _go_on(victim, app, None)
        except NadiError:
            continue
        except BaseException as problem:
            tell(name, what, "process", problem)
            victim = _kernel(app)
        finally:
            signal.alarm(0)


def _kernel(app: Any) -> Any:
    return make_kernel(app, ("Out",), properties={"nadi.kernel": "auto"})


def _go_on(kernel: Any, app: Any, state: list[Part] | None) -> None:
    """What a kernel does after a load."""
    if state is not None:
        kernel.load(state)
    kernel.process(arrivals(app, 12, 1300, 2), 1500)
    kernel.delta()
    list(kernel.dump())


def _outside(named: NadiError) -> BaseException | None:
    """What a loop met outside of an array, where that is why a state was refused: it would have read there, or written."""
    problem = named.__cause__
    if not isinstance(problem, IndexError):
        return None
    *_, last = traceback.walk_tb(problem.__traceback__)
    code = last[0].f_code
    return problem if code in LOOPS_MET or code.co_filename.startswith("<") else None


def tell(name: str, what: str, when: str, problem: BaseException) -> None:
    where = traceback.extract_tb(problem.__traceback__)
    places = [f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in where][-3:]
    print(json.dumps([name, what, when, f"{type(problem).__name__}: {problem}"[:100], places]), flush=True)


if __name__ == "__main__":
    from tests.kernel.columns.test_columns_invariant import LOOPS
    from tests.kernel.columns.test_columns_joins import LOOPS as JOINS

    signal.signal(signal.SIGALRM, late)
    seed, times, *names = sys.argv[1:]
    every = {**LOOPS, **{f"join: {name}": body for name, body in JOINS.items()}, **MORE}
    for each in names or every:
        attack(each, every[each], int(seed), int(times))
