"""A stream into which several queries insert has on columns the order that it has on rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.plan.columns.islands import islands
from nadi.plan.streams import producers
from tests.generate.apps import Generated
from tests.generate.choices import COLUMNS, SCHEMA
from tests.generate.feeding import Feeding, planned
from tests.generate.inputs import Message
from tests.kernel.columns.comparing import MixedFeeding, everywhere, same_as_rows

_STREAMS = "".join(f"define stream {name} ({SCHEMA});\n" for name in ("S", "R", "Mid"))
_MATCHED = "select e1.k as k, e2.v as v, e1.l as l, e2.f as f, e1.d as d, e2.b as b insert into Out"


def _row(k: str, v: int) -> tuple[int, tuple[object, ...]]:
    return v, (k, v, v, 0.5, 0.25, True)


SENT = [
    Message(0, "S", (_row("a", 1), _row("b", 2), _row("a", 3))),
    Message(1, "R", (_row("b", 4),)),
    Message(2, "S", (_row("b", 5), _row("b", 6), _row("a", 7))),
    Message(2, "R", (_row("a", 8), _row("b", 9))),
]

MERGED = {
    "of two inputs": f"from S select {COLUMNS} insert into Out; from R select {COLUMNS} insert into Out;",
    "one behind another that is written before it": f"from Mid select {COLUMNS} insert into Out;"
    f" from S select {COLUMNS} insert into Out; from S select {COLUMNS} insert into Mid;",
    "one behind another that stands in front": f"from S[v > 1] select {COLUMNS} insert into Mid;"
    f" from S select {COLUMNS} insert into Out; from Mid select {COLUMNS} insert into Out;",
    "one in a partition": f"from S select {COLUMNS} insert into Out;"
    f" partition with (k of S) begin from S#window.length(2) select {COLUMNS} insert into Out; end;",
    "a sequence and a rate": f"from every e1=S, e2=S {_MATCHED};"
    f" from S select {COLUMNS} output first every 2 events insert into Out; from R select {COLUMNS} insert into Out;",
    "in partitions by one key": f"partition with (k of S) begin from S select {COLUMNS} insert into Out; end;"
    f" partition with (k of S) begin from every e1=S -> e2=S {_MATCHED}; end;",
}


@pytest.mark.parametrize("playback", ["", "@app:playback\n"])
@pytest.mark.parametrize("what", MERGED)
def test_rows_of_several_queries_come_in_the_order_of_arrivals_and_delivery(what: str, playback: str) -> None:
    made = Generated(playback + _STREAMS + MERGED[what], ("Out",), ())
    plan = planned(made)
    assert islands(plan).columns, islands(plan).why
    found = same_as_rows(made, plan, SENT, (), everywhere(SENT, "deltas"))
    assert len(found["Out"]) > len(SENT)


def test_a_stream_that_rows_have_numbered_goes_on_there() -> None:
    made = Generated(_STREAMS + MERGED["of two inputs"], ("Out",), ())
    rows, going = Feeding(made), MixedFeeding(made)
    rows.feed(SENT[:2], 1)
    going.kernels[0].load(list(rows.kernels[0].dump()))
    going.rows, going.fed = {"Out": list(rows.rows["Out"])}, rows.fed
    for run in (rows, going):
        run.feed(SENT[2:], 100)
    assert going.rows == rows.rows


APART = {
    "that others read": (
        f"from S select {COLUMNS} insert into Mid; from R select {COLUMNS} insert into Mid; from Mid#window.length(2) select k insert into Out;",
        "'Mid' is read",
    ),
    "that come by timers": (
        f"from S select {COLUMNS} output last every 2 sec insert into Out; from R select {COLUMNS} insert into Out;",
        "only rows know with which arrival those of",
    ),
    "of one partition": (
        f"partition with (k of S) begin from S select {COLUMNS} insert into Out; from S[b] select {COLUMNS} insert into Out; end;",
        "one partition or pattern gives them on in turn",
    ),
    "behind one pattern": (
        f"from every e1=S -> e2=S {_MATCHED.replace('Out', 'Mid')}; from Mid[b] select {COLUMNS} insert into Out; from Mid select {COLUMNS} insert into Out;",
        "one partition or pattern gives them on in turn",
    ),
    "of a join": (
        "from S#window.length(2) join R on S.k == R.k select S.k as k, R.v as v, S.l as l, S.f as f, S.d as d, S.b as b insert into Out;"
        f" from R select {COLUMNS} insert into Out;",
        "only rows know with which arrival those of",
    ),
    "one of which is on rows": (
        f"from S select {COLUMNS} insert into Out; from R#window.lengthBatch(2) select {COLUMNS} insert expired events into Out;",
        "has expired events",
    ),
}


@pytest.mark.parametrize("what", APART)
def test_queries_that_insert_into_one_stream_stay_on_rows_together(what: str) -> None:
    text, reason = APART[what]
    plan = planned(Generated(_STREAMS + text, ("Out",), ()))
    found = islands(plan)
    shared = "Mid" if "Mid" in reason else "Out"
    makers = [query.id for query in producers(plan.elements)[shared]]
    assert len(makers) > 1
    assert not set(makers) & set(found.order)
    assert any(reason in found.queries[maker].why for maker in makers), found.queries
