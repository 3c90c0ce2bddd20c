"""Loads states that were tampered with, in a process of its own: `python hostilestate.py SEED TIMES NAME…`, of the apps of `test_columns_invariant.LOOPS` and
of `MORE`. A line of JSON for each that was taken and then led to an error which has no name, or came to no end.

With `NUMBA_DISABLE_JIT=1` loops run as Python: where an index is outside of an array is an IndexError here, and is memory of others where loops are compiled.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import traceback
from typing import Any

import numpy as np
import pyarrow as pa

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.columns.engine import ColumnsKernel
from nadi.kernel.columns.flat import Block, decode, encode
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch, Segment
from nadi.plan import plan_app

SCHEMA = "k string, v int, l long, f float, d double, b bool"
MORE = {
    "pattern": "from every a=S[v > 1] -> b=S[k == a.k] within 50 millisec select a.k, b.v insert into Out;",
    "pattern of keys": "partition with (k of S) begin from every a=S[v > 1] -> b=S[v < 2] select a.k, a.d, b.v insert into Out; end;",
    "absent": "from every a=S[v > 2] -> not S[v == 1] for 20 millisec select a.k insert into Out;",
    "sequence": "from every a=S, b=S[v > a.v] select a.k, b.v insert into Out;",
    "count": "from every a=S[v > 1]<2:3> -> b=S[v == 0] select a[0].k as k, b.v insert into Out;",
    "join": "from S#window.length(3) as x join S#window.time(30 millisec) as y on x.k == y.k select x.k, y.v insert into Out;",
    "table": "@primaryKey('k') define table T (k string, v int, d double); from S select k, v, d update or insert into T on T.k == k;"
    " from S join T on S.k == T.k select T.k, T.v, T.d insert into Out;",
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
    dice = random.Random(seed)
    schema = pa.schema([*arrow_schema(app.streams["S"].schema), *ARRIVAL_COLUMNS])
    columns: list[list[Any]] = [
        [dice.choice("abc") for _ in range(rows)],
        [dice.randrange(5) for _ in range(rows)],
        [start + i for i in range(rows)],
        [dice.random() for _ in range(rows)],
        [dice.random() for _ in range(rows)],
        [dice.random() < 0.5 for _ in range(rows)],
    ]
    times = [start + 4 * i for i in range(rows)]
    columns += [times, [start + i for i in range(rows)], [0] * rows, times, [dice.randrange(3) for _ in range(rows)]]
    made = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return [ArrivalBatch("S", 0, 0, pa.RecordBatch.from_arrays(made, schema=schema))]


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


def tampered(dice: random.Random, segments: list[Segment]) -> tuple[list[Segment], str]:
    at = dice.randrange(len(segments))
    segment = segments[at]
    if dice.random() < 0.15:
        payload = bytearray(segment.payload)
        payload[dice.randrange(len(payload))] ^= 1 << dice.randrange(8)
        return [*segments[:at], Segment(segment.element, segment.group, bytes(payload)), *segments[at + 1 :]], "a bit"
    (block,) = decode(segment.payload)
    if not block.arrays:
        return segments, ""
    made = changed(dice, block)
    what = next(
        (
            f"{block.element} {n}"
            for n in block.arrays
            if n not in made.arrays or not _same(block.arrays[n], made.arrays[n])
        ),
        "",
    )
    return [*segments[:at], Segment(segment.element, segment.group, encode([made])), *segments[at + 1 :]], what


def _same(one: Any, other: Any) -> bool:
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def late(*_: object) -> None:
    raise Late


def attack(name: str, body: str, seed: int, times: int) -> None:
    definitions = f"define stream S ({SCHEMA}); define stream R (k string); "
    registry = default_registry()
    app = plan_app(definitions + body, registry)
    fresh = ColumnsKernel(app, registry, ("Out",))
    fresh.process(arrivals(app, 40, 1000, 1), 1200)
    segments = list(fresh.dump())
    victim = ColumnsKernel(app, registry, ("Out",))
    dice = random.Random(seed)
    for _ in range(times):
        state, what = tampered(dice, segments)
        signal.alarm(SECONDS)
        try:
            victim.load(state)
        except NadiError:
            continue
        except BaseException as problem:
            tell(name, what, "load", problem)
            continue
        finally:
            signal.alarm(0)
        signal.alarm(SECONDS)
        try:
            victim.process(arrivals(app, 12, 1300, 2), 1500)
            victim.delta()
            list(victim.dump())
        except NadiError:
            continue
        except BaseException as problem:
            tell(name, what, "process", problem)
            victim = ColumnsKernel(app, registry, ("Out",))
        finally:
            signal.alarm(0)


def tell(name: str, what: str, when: str, problem: BaseException) -> None:
    where = traceback.extract_tb(problem.__traceback__)
    places = [f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in where][-3:]
    print(json.dumps([name, what, when, f"{type(problem).__name__}: {problem}"[:100], places]), flush=True)


if __name__ == "__main__":
    from tests.kernel.columns.test_columns_invariant import LOOPS

    signal.signal(signal.SIGALRM, late)
    seed, times, *names = sys.argv[1:]
    every = {**LOOPS, **MORE}
    for each in names or every:
        attack(each, every[each], int(seed), int(times))
