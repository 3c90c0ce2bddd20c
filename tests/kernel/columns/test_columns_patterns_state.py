"""Patterns on columns: what they hold, what a delta costs, what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nadi.functions.registry import default_registry
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.columns.engine import ColumnsKernel
from nadi.kernel.columns.jit import interpreted
from nadi.kernel.columns.keygroups import key_groups
from nadi.kernel.columns.keytable import KeyTable
from nadi.kernel.columns.patterns.keyrows import KeyRows
from nadi.kernel.columns.patterns.partialpool import PartialPool
from nadi.kernel.columns.patterns.pool import Pool
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch, Kernel
from nadi.kernel.keys import key_group
from nadi.kernel.rows.engine import RowsKernel
from nadi.plan import plan_app
from nadi.plan.columns.islands import islands
from nadi.plan.nodes import App
from tests.kernel.columns.comparing import some_of

_STREAMS = "define stream S (k string, v int, w string);\ndefine stream R (k string, v int, w string);\n"
_KEYED = _STREAMS + (
    "partition with (k of S) begin from every e1=S[v > 0] -> e2=S[v > e1.v] select e1.k as k, e1.w as w, e2.v as v insert into Out; end;"
)
_FLAT = (
    _STREAMS + "from every e1=S -> e2=R[k == e1.k] within 1 sec select e1.k as k, e1.v as v, e2.w as w insert into Out;"
)
_RUN = _STREAMS + (
    "partition with (k of S) begin from every e1=S[v > 0], e2=S[v > e1.v]+, e3=S[v < e2[last].v]"
    " select e1.k as k, e2[0].w as w, e2[last].v as v, e3.v as x insert into Out; end;"
)
_COUNTED = _STREAMS + (
    "partition with (k of S) begin from every e1=S[v > 0]<2:3> -> e2=S[v > e1[last].v] or e3=S[v > 8]"
    " select e1[0].k as k, e1[last].w as w, e2.v as v, e3.v as x insert into Out; end;"
)
_WAITING = _STREAMS + (
    "partition with (k of S, k of R) begin from every e1=S[v > 0]<2:3> -> e2=S[v > e1[last].v] or e3=S[v > 8] -> not R[v > 12] for 3 milliseconds"
    " select e1[0].k as k, e1[last].w as w, e2.v as v, e3.v as x insert into Out; end;"
)
"""A pattern of any shape, with all that such a one may have: its loop is the one that is compiled."""
_STRICT = _STREAMS + (
    "partition with (k of S, k of R) begin from every e1=S[v > 0]+, e2=S[v > e1[last].v] and e3=S, not R[v > 14] for 3 milliseconds, e5=S or e6=R"
    " select e1[0].k as k, e1[last].w as w, e2.v as v, e5.v as x insert into Out; end;"
)
"""The same of a sequence."""
_HALVES = _STREAMS + (
    "partition with (k of S) begin from every e1=S[v > 0], e2=S[v > e1.v] and e3=S[v < 20] select e1.w as w, e2.v as v, e3.v as x insert into Out; end;"
)


def _columns(plan: App) -> ColumnsKernel:
    with interpreted():
        return ColumnsKernel(plan, default_registry(), ("Out",))


def _rows(plan: App) -> RowsKernel:
    return RowsKernel(plan, default_registry(), ("Out",))


def _feed(
    kernel: Kernel, plan: App, events: Sequence[tuple[str, int, str, int]], position: int = 0, in_order: bool = True
) -> list[dict[str, Any]]:
    """One batch of (stream, time, key, value); each event is an arrival of its own. With `in_order` its time is that of its arrival, too."""
    arrivals = []
    for ordinal, stream in enumerate(("S", "R")):
        mine = [(position + i, *e[1:]) for i, e in enumerate(events) if e[0] == stream]
        if mine:
            schema = pa.schema([*arrow_schema(plan.streams[stream].schema), *ARRIVAL_COLUMNS])
            keyed = plan.sharding.kind == "key"
            data = [
                (k, v, f"w{v}", ts if in_order else at, at, 0, ts, key_group(k) if keyed else 0)
                for at, ts, k, v in mine
            ]
            columns = [pa.array(c, f.type) for c, f in zip(zip(*data), schema)]
            arrivals.append(ArrivalBatch(stream, ordinal, 0, pa.RecordBatch.from_arrays(columns, schema=schema)))
    out = kernel.process(arrivals, events[-1][1] if in_order else position + len(events))
    return out.batches["Out"].to_pylist() if "Out" in out.batches else []


@pytest.mark.parametrize(
    ("text", "closing"), [(_KEYED, "S"), (_RUN, "S"), (_FLAT, "R"), (_COUNTED, "S"), (_HALVES, "S")]
)
def test_keys_without_a_match_are_forgotten_and_nothing_else(text: str, closing: str) -> None:
    plan = plan_app(text, default_registry())
    columns, rows = _columns(plan), _rows(plan)
    kept = [("S", 0, f"held{i}", 7) for i in range(5)]
    assert _feed(columns, plan, kept) == _feed(rows, plan, kept)
    for turn in range(6):
        events = [(closing, 1, f"key{turn}_{i}", 0) for i in range(1000)]
        assert _feed(columns, plan, events, 10_000 * turn) == _feed(rows, plan, events, 10_000 * turn)
        columns.delta()
    assert _tables(columns)[0].count < 3000
    last = [(closing, 2, f"held{i}", v) for i in range(5) for v in (9, 8, 9)]
    made = _feed(columns, plan, last, 99_000)
    assert made
    assert made == _feed(rows, plan, last, 99_000)


def _tables(columns: ColumnsKernel) -> list[KeyTable]:
    """The tables of keys of its operators."""
    held = (part for one in columns._stateful for part in vars(one).values())
    return [part.table for part in held if isinstance(part, (Pool, KeyRows, PartialPool))]


def test_one_event_may_complete_more_matches_than_there_was_room_for() -> None:
    plan = plan_app(_FLAT, default_registry())
    columns, rows = _columns(plan), _rows(plan)
    opening = [("S", 0, "ab"[i % 2], i) for i in range(2000)]
    assert _feed(columns, plan, opening) == _feed(rows, plan, opening) == []
    columns.load(list(columns.dump()))
    closing = [("R", 5, "a", 1), ("R", 6, "b", 2)]
    made = _feed(columns, plan, closing, 2000)
    assert len(made) == 2000
    assert made == _feed(rows, plan, closing, 2000)


def test_matches_that_wait_for_a_number_are_found_however_many_they_become() -> None:
    query = "from every e1=S -> e2=R[v == e1.v] within 1 sec select e1.k as k, e1.v as v, e2.w as w insert into Out;"
    plan = plan_app(_STREAMS + query, default_registry())
    columns, rows = _columns(plan), _rows(plan)
    for turn in range(4):
        opening = [("S", turn, "k", (7919 * i + turn) % 3000 - 1500) for i in range(1000)]
        assert _feed(columns, plan, opening, 1000 * turn) == _feed(rows, plan, opening, 1000 * turn) == []
        if turn == 2:
            columns.load(list(columns.dump()))
    closing = [("R", 5, "k", v) for v in range(-1500, 1500, 3)]
    made = _feed(columns, plan, closing, 4000)
    assert len(made) > 1000
    assert made == _feed(rows, plan, closing, 4000)


@pytest.mark.parametrize(
    ("text", "most"), [(_KEYED, 2_500), (_FLAT, 2_500), (_RUN, 2_500), (_COUNTED, 2_500), (_HALVES, 3_000)]
)
def test_a_delta_costs_what_changed(text: str, most: int) -> None:
    plan = plan_app(text, default_registry())
    columns = _columns(plan)
    _feed(columns, plan, [("S", 0, f"k{i % 700}", i + 1) for i in range(2000)])
    assert len(columns.delta()) > 20_000
    _feed(columns, plan, [("S", 1, f"k{i}", 1) for i in range(5)], 2000)
    assert len(columns.delta()) < most
    assert columns.delta() == b""


@pytest.mark.parametrize("text", [_KEYED, _RUN, _COUNTED, _HALVES])
def test_segments_can_be_dealt_out_by_key_group_and_brought_together_again(text: str) -> None:
    plan = plan_app(text, default_registry())
    assert plan.sharding.kind == "key"
    whole, rows, halves = _columns(plan), _rows(plan), [_columns(plan), _columns(plan)]
    events = [("S", i, f"k{i * 7 % 40}", i * 13 % 17) for i in range(300)]
    assert _feed(whole, plan, events) == _feed(rows, plan, events)
    segments = list(whole.dump())
    for half, kernel in enumerate(halves):
        kernel.load([s for s in segments if s.group % 2 == half or s.element == "app/clock"])
    more = [("S", 300 + i, f"k{i * 11 % 40}", i * 5 % 19) for i in range(300)]
    deltas = []
    for half, kernel in enumerate(halves):
        _feed(kernel, plan, [e for e in more if key_group(e[2]) % 2 == half], 300)
        deltas.append(kernel.delta())
    expected = _feed(rows, plan, more, 300)
    assert expected
    joined = _columns(plan)
    joined.load([*(s for kernel in halves for s in kernel.dump())])
    again = [("S", 700 + i, f"k{i % 40}", i % 23) for i in range(200)]
    assert _feed(joined, plan, again, 900) == _feed(rows, plan, again, 900)


def test_segments_hold_keys_of_their_key_group_only() -> None:
    plan = plan_app(_KEYED, default_registry())
    columns = _columns(plan)
    _feed(columns, plan, [("S", 0, f"key number {i}", 1) for i in range(200)])
    segments = [s for s in columns.dump() if s.element.endswith("/pattern")]
    assert {s.group for s in segments} == {key_group(f"key number {i}") for i in range(200)}


def test_key_groups_of_many_texts_are_those_of_each() -> None:
    texts = ["", "a", "ab", "abc", "abcd", "Grüße", "日本語 text", "x" * 33]
    array = pa.array(texts)
    _validity, ends, data = array.buffers()
    starts = np.frombuffer(ends, np.int32, len(texts) + 1)
    found = key_groups(starts[:-1], starts[1:], np.frombuffer(data, np.uint8))
    assert found.tolist() == [key_group(t) for t in texts]


_LOOPS = {
    "keyed": _KEYED,
    "absent": _FLAT.replace("e2=R[k == e1.k]", "not R[k == e1.k] for 3 milliseconds").replace("e2.w", "e1.w"),
    "any shape": _WAITING,
    "flat": _FLAT,
    "summed": _KEYED.replace("e1.w as w, e2.v as v", "sum(e2.v) as v, count() as n").replace(
        " insert", " group by e1.w insert"
    ),
    "strict": _STRICT,
    "run": _RUN,
}


@pytest.mark.parametrize("name", some_of(_LOOPS))
def test_compiled_loops_give_what_rows_give(name: str) -> None:
    plan = plan_app(_LOOPS[name], default_registry())
    columns, rows = ColumnsKernel(plan, default_registry(), ("Out",)), _rows(plan)
    events = [("SSR"[i % 3], i // 3, f"k{i * 7 % 5}", i * 13 % 17) for i in range(600)]
    expected = _feed(rows, plan, events)
    assert expected
    assert _feed(columns, plan, events) == expected


def test_a_match_of_very_many_attributes_runs_on_rows() -> None:
    columns = ", ".join(f"a{i} int" for i in range(70))
    chosen = ", ".join(f"e1.a{i} as b{i}" for i in range(70))
    text = f"define stream S ({columns});\nfrom every e1=S -> e2=S select {chosen} insert into Out;"
    found = islands(plan_app(text, default_registry()))
    assert "more than 60 attributes" in found.why


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("from every e1=S<2:3> -> e2=R<0:2> select e2[0].v as v insert into Out;", "a counted element behind which"),
        (
            "from every e1=S -> e2=R -> e3=S<0:2> select e1.v as v insert into Out;",
            "not right behind a plain first one",
        ),
        ("from every (e1=S -> e2=R<0:2>) within 1 sec select e1.v as v insert into Out;", "needs no event and is not"),
        (
            "from every (not R and e1=S -> e2=R<2>) select e1.v as v insert into Out;",
            "a counted element behind which two may have no event, or behind 'every' and 'not'",
        ),
        ("from e1=S and not R for 1 sec select e1.v as v insert into Out;", "'and' with an absence that it waits for"),
        ("from every e1=S*, e2=R select e2.v as v insert into Out;", "whose first element is not optional"),
        (
            "from e1=S+, e2=S*, e3=S?, e4=S select e1[last].v as v insert into Out;",
            "behind a counted one that may have no event",
        ),
        ("from every e1=S -> e2=R select e1.v as v group by e1.k insert into Out;", "group by without an aggregator"),
        ("from every e1=S -> e2=R[e1.k == 'a'] select e1.v as v insert into Out;", "with a constant"),
        ("from every e1=S, not R for 1 sec or e3=R select e1.v as v insert into Out;", "an absence that is waited for"),
        (
            "@purge(enable='true', idle.period='1 sec') partition with (k of S) begin from every e1=S, e2=S and e3=S"
            " select e1.v as v insert into Out; end;",
            "@purge of sequences with logical or absent elements",
        ),
        ("from every e1=S, e2=S+, e3=R select e2.v as v insert into Out;", "a list of events"),
        (
            "partition with (k of S, k of R) begin from not R for 1 sec -> e1=R select e1.v as v insert into Out;"
            " from S select v insert into Other; end;",
            "it begins to wait when a key comes",
        ),
        ("from every e1=S -> not R[v > 1] and e2=S[R.v > 1] select e1.v as v insert into Out;", "never there"),
        (
            "partition with (k of S) begin from every e1=S -> not S for 1 sec select e1.v as v output last every 2 events insert into Out; end;",
            "output last of joins and matches has no operator inside",
        ),
        (
            "from every e1=S -> not R for 1 sec select eventTimestamp() as v insert into Out;",
            "behind an absent element",
        ),
        ("from every e1=S -> not R for 1 sec select count() as n insert into Out;", "that wait for an absence"),
        (
            "from S#window.batch() select v insert into M; from every e1=M -> e2=R select e1.v as v insert into Out;",
            "merged in order",
        ),
    ],
)
def test_what_has_no_operator_runs_on_rows_with_a_reason(query: str, reason: str) -> None:
    found = islands(plan_app(_STREAMS + query, default_registry()))
    assert not found.columns
    assert any(reason in island.why for island in found.queries.values())


def test_a_pattern_of_very_many_elements_runs_on_rows() -> None:
    for joint in (" -> ", ", "):
        elements = joint.join(f"e{i}=S" for i in range(1, 64))
        found = islands(
            plan_app(f"{_STREAMS}from every {elements} select e1.v as v insert into Out;", default_registry())
        )
        assert "more than 62 elements" in found.why


_KINDS = "select e1.v as v, e3.k as k, e{}.v as x insert into Out;"


def _of_kinds(joint: str, width: int, condition: Callable[[int], str], streams: str = "S", count: str = "") -> str:
    elements = [f"e{i}={streams[i % len(streams)]}[{condition(i)}]" for i in range(1, width + 1)]
    elements[1] += count
    return f"from every {joint.join(elements)}"


@pytest.mark.parametrize(
    "query",
    [
        _of_kinds(" -> ", 6, lambda i: f"v == {i % 3}") + " within 60 milliseconds " + _KINDS.format(6),
        _of_kinds(" -> ", 7, lambda i: f"{i % 4} == v or v == 9" if i == 3 else f"{i % 4} == v") + _KINDS.format(7),
        _of_kinds(" -> ", 5, lambda i: f"k == '{'abcz'[i % 4]}' and v >= {i % 3}") + _KINDS.format(4),
        _of_kinds(" -> ", 8, lambda i: f"k == '{'ab'[i % 2]}'" if i % 3 else f"v < {i}", "SR") + _KINDS.format(8),
        _of_kinds(" -> ", 8, lambda i: f"v == {i % 3}L" if i > 4 else f"k == '{'abc'[i % 3]}'{' and v != e1.v' if i > 1 else ''}", "SSR") + _KINDS.format(6),
        "partition with (k of S) begin " + _of_kinds(" -> ", 5, lambda i: f"v == {i % 2}") + " within 1 sec " + _KINDS.format(4) + " end;",
        _of_kinds(", ", 5, lambda i: f"v <= {i}" if i == 3 else f"v == {i % 2}") + " within 1 sec " + _KINDS.format(5),
        _of_kinds(", ", 5, lambda i: f"v == {i % 2}" if i != 4 else "v < 2 and k != 'a'", count="+") + _KINDS.format(5),
        _of_kinds(", ", 4, lambda i: f"k == '{'ab'[i % 2]}'", "SSR", "?") + _KINDS.format(4),
        "partition with (k of S) begin " + _of_kinds(", ", 4, lambda i: f"v == {i % 2}", count="*") + _KINDS.format(4) + " end;",
    ],
)  # fmt: skip
def test_events_find_the_elements_that_ask_for_their_values(query: str) -> None:
    plan = plan_app(_STREAMS + query, default_registry())
    assert islands(plan).columns, islands(plan).why
    completed = 0
    for seed in range(4):
        chosen = random.Random(seed)  # nothing secret
        columns, rows = _columns(plan), _rows(plan)
        position, most = 0, chosen.choice((2, 4, 9))
        for size in (300, 1, 200, 300):
            events = []
            for i in range(position, position + size):
                ts = 100 + i + (chosen.randint(-30, 30) if seed == 3 and chosen.random() < 0.2 else 0)
                events.append((chosen.choice("SSR"), ts, chosen.choice("aaabbcz"), chosen.randint(0, most)))
            made = _feed(columns, plan, events, position, in_order=False)
            assert made == _feed(rows, plan, events, position, in_order=False)
            completed += len(made)
            position += size
            again = _columns(plan)
            again.load(list(columns.dump()))
            columns = again
    assert completed


_PICK = "select e1.v as v, e1.w as w, e2.v as x insert into Out;"


@pytest.mark.parametrize(
    "query",
    [
        f"from every e1=S -> e2=R within 40 milliseconds {_PICK}",
        f"from every e1=S -> e2=R[v > 5] -> e3=R[v > e1.v] within 60 milliseconds {_PICK}",
        f"from every e1=S -> e2=R[k == e1.k and v > 3] within 40 milliseconds {_PICK}",
        f"from every e1=S -> e2=S[k == e1.k] -> e3=R[k == e2.k] within 60 milliseconds {_PICK}",
        f"from every (e1=S -> e2=R[v > e1.v]) within 20 milliseconds {_PICK}",
        f"partition with (k of S, k of R) begin from every e1=S -> e2=R[v > 5] -> e3=S[v > e1.v] within 60 milliseconds {_PICK} end;",
        f"from every e1=S, e2=R+, e3=S[v > e1.v] within 40 milliseconds {_PICK.replace('e2.v', 'e2[last].v')}",
        f"from every e1=S+, e2=R within 40 milliseconds {_PICK.replace('e1.', 'e1[0].')}",
        f"from every e1=S<2:3> -> e2=R[v > e1[last].v] within 40 milliseconds {_PICK.replace('e1.', 'e1[0].')}",
        f"from every (e1=S and e3=R) -> every (e2=S[v > e1.v] -> e4=R) within 60 milliseconds {_PICK}",
        f"partition with (k of S, k of R) begin from every (e1=S<:2> -> not R[v > 7] and e2=S) within 40 milliseconds"
        f" {_PICK.replace('e1.', 'e1[last].')} end;",
    ],
)
def test_times_in_no_order_expire_and_order_matches_as_on_rows(query: str) -> None:
    plan = plan_app(_STREAMS + query, default_registry())
    rows_made = 0
    for seed in range(6):
        chosen = random.Random(seed)  # nothing secret
        columns, rows = _columns(plan), _rows(plan)
        position = 0
        for _batch in range(6):
            size = chosen.choice((1, 20, 60))
            events = []
            for i in range(position, position + size):
                ts = 100 + i + (chosen.randint(-30, 30) if chosen.random() < 0.4 else 0)
                events.append((chosen.choice("SSSR"), ts, chosen.choice("abc"), chosen.randint(0, 9)))
            made = _feed(columns, plan, events, position, in_order=False)
            assert made == _feed(rows, plan, events, position, in_order=False)
            rows_made += len(made)
            if chosen.random() < 0.5:
                columns.load(list(columns.dump()))
            position += size
    assert rows_made > 10
