"""Tables on columns give exactly what they give on rows: outputs, failures, and what they hold, for any split and restart."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.kernel.control import CONTROL, CONTROL_SCHEMA
from nadi.lang import parse_on_demand
from nadi.plan.columns.islands import islands
from nadi.plan.columns.tableuse import touched
from nadi.plan.on_demand import bind_on_demand
from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA
from tests.generate.feeding import Feeding
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.generate.tabled import tabled
from tests.kernel.columns.comparing import CHOSEN, MixedFeeding, accepted, all_of, everywhere, same_as_rows


class Controlled(Feeding):
    """A run whose messages may be records of the control input."""

    def _batches(self, messages: Sequence[Message], bucket: int) -> Iterable[ArrivalBatch]:
        yield from super()._batches(messages, bucket)
        fields = pa.schema([*arrow_schema(CONTROL_SCHEMA), *ARRIVAL_COLUMNS])
        for i, message in enumerate(messages):
            if message.stream == CONTROL:
                values = (*message.events[0][1], message.order, self.fed + i, 0, message.order, 0)
                rows = [dict(zip(fields.names, values, strict=True))]
                yield ArrivalBatch(CONTROL, 9, 0, pa.RecordBatch.from_pylist(rows, schema=fields))


class Tabled(Controlled, MixedFeeding):
    """A run that asks for the contents of tables as a node does."""

    def _content(self, store: str) -> list[str]:
        asked = bind_on_demand(parse_on_demand(f"from {store} select *"), self.plan, self.registry)
        kernel = self.kernels[0]
        return [str(row) for row in kernel.select(asked, kernel.find(asked))]


@CHOSEN
@given(made=tabled(), sent=messages, parts=cuts, every=st.sampled_from(("dump", "deltas")))
def test_tables_on_columns_are_as_on_rows_for_every_split_and_restart(
    made: Generated, sent: list[Message], parts: list[Cut], every: str
) -> None:
    plan = accepted(made)
    found = islands(plan)
    event(f"{len(found.tables)} tables on columns")
    assume(found.tables)
    same_as_rows(made, plan, sent, [], parts, everywhere(sent, every), on=Tabled, seen=all_of)


_ROW = "select 'a' as k, {} as v, 2L as l, 0.5f as f, 0.25 as d, true as b"
ASKED = (
    _ROW.format(1) + " insert into T",
    _ROW.format(3) + " update or insert into T on T.k == k and T.v == v and T.l == l",
    "delete T on T.v > 1",
    "delete T on T.k == 'a'",
    "select 7.5 as d update T set T.d = d on T.v >= 1",
    "select 'z' as k, 4 as v, 9L as l update T set T.k = k, T.v = v, T.l = l on T.b",
    "select currentTimeMillis() as l, 0.5f as f update T set T.l = l, T.f = f on T.v >= 1",
    "select 1 as v update Nothing on Nothing.v == v",
)


@CHOSEN
@given(
    made=tabled(),
    sent=messages,
    parts=cuts,
    asked=st.lists(st.tuples(st.integers(0, 29), st.sampled_from(ASKED)), min_size=1, max_size=6),
)
def test_what_is_asked_on_demand_changes_tables_on_columns_as_those_on_rows(
    made: Generated, sent: list[Message], parts: list[Cut], asked: list[tuple[int, str]]
) -> None:
    plan = accepted(made)
    assume("T" in islands(plan).tables)
    control = [Message(sent[at % len(sent)].order, CONTROL, ((0, ("name", text)),)) for at, text in asked]
    order = ("S", "R", CONTROL)
    whole = sorted([*sent, *control], key=lambda m: (m.order, order.index(m.stream)))
    splits = [], parts, everywhere(whole, "deltas")
    same_as_rows(made, plan, whole, *splits, on=Tabled, rows=Controlled, seen=all_of)


def test_what_is_asked_in_playback_sees_the_clock_that_all_events_have_moved() -> None:
    text = (
        f"@app:playback define stream S ({SCHEMA}); define stream R ({SCHEMA}); @primaryKey('k') define table T ({SCHEMA});\n"
        "from S select * update or insert into T on T.k == k;"
    )
    made = Generated(text, (), ("T",))
    plan = accepted(made)
    assert islands(plan).tables == ("T",)
    row = ("a", 1, 5, 0.5, 0.25, True)
    asked = ((0, ("name", "select currentTimeMillis() as l, 0.5f as f update T set T.l = l, T.f = f on T.v >= 1")),)
    sent = [Message(10, "S", ((1000, row),)), Message(20, CONTROL, asked)]
    longer = [*sent, Message(30, "R", ((5000, row),)), Message(40, CONTROL, asked)]  # nobody reads R
    for one, clock in ((sent, 1000), (longer, 5000)):
        seen = same_as_rows(made, plan, one, [], on=Tabled, rows=Controlled, seen=all_of)
        assert seen["content of T"] == [f"('a', 1, {clock}, 0.5, 0.25, True)"]


_NULL_KEY = (
    f"define stream S ({SCHEMA}); define stream R ({SCHEMA}); @primaryKey('k') define table T (k string, v int);\n"
)


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("from R join T on R.k == T.k select T.v as v insert into Out;", ["(None, 5)"]),
        ("from R join T on R.k == T.k and R.v > T.v select T.v as v insert into Out;", ["(None, 5)"]),
        ("from R[(T.k == k) in T] select v insert into Out;", ["(None, 5)"]),
        ("from R select k, v update T on T.k == k;", ["(None, 9)"]),
        ("from R select k, v update or insert into T on T.k == k;", ["(None, 9)"]),
        ("from R delete T on T.k == k;", []),
        ("from R join T on R.k == T.k select R.k as k, T.v + 1 as v update T on T.k == k;", ["(None, 6)"]),
        (
            "from R join T on R.k == T.k and R.v > T.v select R.k as k, T.v + 1 as v update T on T.k == k;",
            ["(None, 5)"],
        ),
    ],
)
def test_a_key_that_is_null_is_found_on_columns_as_on_rows(query: str, left: list[str]) -> None:
    made = Generated(
        f"{_NULL_KEY}from S select k, v insert into T;\n{query}", ("Out",) if "into Out" in query else (), ("T",)
    )
    plan = accepted(made)
    assert islands(plan).tables == ("T",)
    sent = [Message(n, stream, ((n, (None, v, 5, 0.5, 0.25, True)),)) for n, stream, v in ((10, "S", 5), (20, "R", 9))]
    seen = same_as_rows(made, plan, sent, [], everywhere(sent, "deltas"), on=Tabled, seen=all_of)
    assert seen["content of T"] == left


# ---- what keeps a table on rows --------------------------------------------------------------------------------------

_KEYED = "@primaryKey('k') define table T (k string, v int);\n"
_FILL = "from R select k, v update or insert into T on T.k == k;\n"
_READ = "from S join T on S.k == T.k select S.k as k, T.v as v insert into Out;\n"

ROWS = {
    "nothing that is equal": (
        "define table T (k string, v int);\nfrom R select k, v insert into T;\n"
        "from S join T on S.v > T.v select T.k as k insert into Out;\n",
        "by something else than equal attributes",
    ),
    "what it finds in a table without a key": (
        "define table T (k string, v int);\nfrom S[not (T.k == k in T)] select k, v insert into T;\n" + _READ,
        "'T' has no primary key",
    ),
    "a key that is a double": (
        "@primaryKey('d') define table T (d double, v int);\nfrom R select d, v insert into T;\n"
        "from S join T on S.d == T.d select T.v as v insert into Out;\n",
        "the primary key of 'T' has a double",
    ),
    "another condition": (
        _KEYED + _FILL + "from S join T on S.v == T.v select T.k as k insert into Out;\n",
        "by something else",
    ),
    "more than the key, outer": (
        _KEYED + _FILL + "from S left outer join T on S.k == T.k and S.v > T.v select T.k as k insert into Out;\n",
        "puts out what finds none",
    ),
    "a window": (
        _KEYED + _FILL + "from S#window.length(2) join T on S.k == T.k select T.k as k insert into Out;\n",
        "it joins a window with a table",
    ),
    "a filter of the table": (
        _KEYED + _FILL + "from S join T[v > 1] on S.k == T.k select T.k as k insert into Out;\n",
        "it filters the table",
    ),
    "two that change what they find": (
        _KEYED + "from S[not (T.k == k in T)] select k, v insert into T;\n"
        "from S join T on S.k == T.k select S.k as k, T.v + 1 as v update T on T.k == k;\n" + _READ,
        "feed each other",
    ),
    "a string of what it changes": (
        _KEYED
        + "from S join T on S.k == T.k select T.k as k, T.v + 1 as v having k != 'a' update T on T.k == k;\n"
        + _READ,
        "looks at a string of it",
    ),
    "a text of what it changes": (
        _KEYED
        + "from S join T on S.k == T.k select str:concat(S.k, T.v) as k, 1 as v update or insert into T on T.k == k;\n",
        "computes what has no loop",
    ),
    "a window over what it changes": (
        _KEYED + "from S[T.k == k in T]#window.length(2) select k, v update or insert into T on T.k == k;\n",
        "has a window",
    ),
    "a write of what comes of a read": (
        _KEYED + "from S join T on S.k == T.k select S.k as k, T.v as v insert into Mid;\n"
        "from Mid select k, v + 1 as v update or insert into T on T.k == k;\nfrom Mid select k insert into Out;\n",
        "feed each other",
    ),
    "another key than it looks for": (
        _KEYED + "from R select k, v update or insert into T on T.k == k;\n"
        "from R select k, f, v update T set T.k = k on T.v == v;\n" + _READ,
        "by more or less than the primary key",
    ),
    "expired events": (
        _KEYED + "from R#window.length(1) select k, v insert expired events into T;\n" + _READ,
        "has expired events",
    ),
    "a value that looks back": (
        _KEYED + _FILL + "from R select k, v update T set T.v = T.v + 1 on T.k == k;\n" + _READ,
        "no value of its output",
    ),
    "two in a partition": (
        _KEYED
        + "partition with (k of S) begin "
        + _READ
        + "from S select k, v update or insert into T on T.k == k; end;\n",
        "it uses a table inside a partition, and so does",
    ),
    "two behind a partition": (
        _KEYED
        + "partition with (k of S) begin from S select k, v insert into Mid; end;\n"
        + "from Mid select k, v update or insert into T on T.k == k;\n"
        + _READ.replace("S", "Mid"),
        "it uses a table behind a partition or pattern, and so does",
    ),
    "two behind a pattern": (
        _KEYED
        + "from every e1=S -> e2=S select e1.k as k, e2.v as v insert into Mid;\n"
        + "from Mid select k, v update or insert into T on T.k == k;\n"
        + _READ.replace("S", "Mid"),
        "it uses a table behind a partition or pattern, and so does",
    ),
    "events that wait for a rate": (
        _KEYED + _FILL + "from S select k, v output last every 2 events insert into Mid;\n" + _READ.replace("S", "Mid"),
        "of which only rows know with which arrival each comes",
    ),
    "a look in a partition by something made": (
        _KEYED + _FILL + "partition with (v + 1 of S) begin " + _READ + "end;\n",
        "whose key is no attribute",
    ),
    "a look behind a window": (
        _KEYED + _FILL + _READ + "from S#window.length(2)[T.k == k in T] select sum(v) as s insert into Out2;\n",
        "elsewhere than in a filter before any window",
    ),
    "aggregators": (
        _KEYED + _FILL + "from S join T on S.k == T.k select T.k as k, count() as n insert into Out;\n",
        "it joins a table, and has aggregators",
    ),
}


@pytest.mark.parametrize("what", ROWS)
def test_a_table_stays_on_rows_with_all_of_its_queries(what: str) -> None:
    text, reason = ROWS[what]
    streams = "".join(f"define stream {name} ({SCHEMA});\n" for name in ("S", "R"))
    plan = accepted(Generated(streams + text, ("Out",), ()))
    found = islands(plan)
    assert not found.tables
    assert any(reason in island.why for island in found.queries.values()), found.queries
    assert not any(touched(query, plan) for query in plan.queries if query.id in found.order)
