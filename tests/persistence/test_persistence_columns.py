"""State that columns wrote goes on in changed apps, in other numbers of buckets and on rows, and gives what rows give all along."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nadi.errors import NadiError
from nadi.kernel.columns.choosing import ChosenKernel
from nadi.kernel.rows.payloads import entries_of
from nadi.kernel.segments import is_flat
from nadi.persistence.columnstate import written_on_columns
from nadi.persistence.files import FileStore
from nadi.persistence.restoredstate import HeldState, Restored
from nadi.persistence.revisions import meta_of, read_revision, write_revision
from nadi.plan import fingerprints, plan_restore
from nadi.plan.columns.islands import islands
from nadi.plan.columns.keptattributes import keeps_further
from nadi.plan.nodes import App
from tests.generate.apps import Generated
from tests.generate.chains import chain, matching, run
from tests.generate.choices import COLUMNS, Maker
from tests.generate.columnar import (
    BATCHES,
    columnar,
    keyed_rates,
    partition_key,
    partitioned,
    purge,
    purged,
    rate,
    shown,
)
from tests.generate.feeding import Feeding
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.generate.mixed import mixed
from tests.generate.tabled import tabled
from tests.kernel.columns.comparing import AFTER, CHOSEN, MixedFeeding, accepted, all_of
from tests.persistence.columnsrig import ColumnsNode
from tests.persistence.restorerig import Message as Sent
from tests.persistence.restorerig import Node, fates

SCHEMA = "(k string, v int)"
BETWEEN = Generated(
    f"""define stream S {SCHEMA}; define stream R {SCHEMA}; define stream Mid {SCHEMA}; define stream Found {SCHEMA}; define table U {SCHEMA};
        from R select k, v insert into Mid;
        from Mid#window.lengthBatch(2) select k, sum(v) as x insert all events into Out1;
        partition with (k of R) begin from R#window.sort(2, v) select k, v insert all events into Out2; end;
        from S[v < 0]#window.time(30 milliseconds) select count() as n insert into Out3;
        from every e1=S -> e2=R[v > e1.v] within 100 milliseconds select e1.k as k, e2.v as v insert into Found;
        from R select k, v insert into U;
        from Found select k, v insert into U;""",
    ("Out1", "Out2", "Out3"),
    ("U",),
)
"""The first query goes to rows only as the pattern does, whose state rows have written then: it does not come back to columns by that."""

TWO_KINDS = Generated(
    """define stream S (k string, v int, l long, f float, d double, b bool); define stream R (k string, v int, l long, f float, d double, b bool);
        partition with (k of S, k of R) begin
        from S select k, v insert into #In;
        from every e1=#In -> e2=#In[v > e1.v][str:concat(k, 'x') == str:concat(e1.k, 'x')] select e1.k as x0 insert into Out1;
        from every e1=R[v > 1] -> e2=R select e1.k as x0 insert into Out2;
        from every e1=S -> e2=R select e1.k as x0 insert into Out3;
        end;
        from S select k, sum(v) as s insert into Out4;""",
    ("Out1", "Out2", "Out3", "Out4"),
    (),
)
"""The second query has no operator, and ties the others of the partition to rows by its keys; the last query is on columns."""

# ---- generated apps --------------------------------------------------------------------------------------------------


class Restoring(MixedFeeding):
    """A run whose state is put into new kernels by a restore. `may_lose`: rows need not be able to take over all of it; the plan says so where they are not."""

    may_lose = False

    def restored(self, clock: int, buckets: int, to_rows: bool) -> None:
        """Go on with the same app."""
        state = HeldState(tuple(tuple(p for p in parts if p) for parts in self.saved))
        columns = written_on_columns(state, self.plan)
        plan = plan_restore(
            self.plan, self.plan, self.registry, fingerprints(self.plan), columns=columns, to_rows=to_rows
        )
        assert not plan.dropped or (to_rows and self.may_lose), plan.dropped
        assume(not plan.dropped)
        made = Restored(state, plan, self.plan, self.plan, buckets, clock, lambda _app, bucket: self._rows(bucket))
        self.kernels = [self._kernel(bucket) for bucket in range(buckets)]
        for bucket, kernel in enumerate(self.kernels):
            kernel.load(made.parts(bucket))
            if isinstance(kernel, ChosenKernel) and not to_rows:  # a node under `nadi.kernel=rows` has no such kernel
                assert kernel.part.owners == plan.on_columns
        self.saved = [list(kernel.dump()) for kernel in self.kernels]

    def _rows(self, bucket: int) -> Any:
        return Feeding._kernel(self, bucket)


def _through(
    made: Generated,
    sent: list[Message],
    parts: list[Cut],
    at: int,
    buckets: tuple[int, int],
    to_rows: bool,
    may_lose: bool = False,
) -> Feeding:
    """Run on columns, restore behind one of the messages, go on."""
    plan = accepted(made)
    assume(not to_rows or not any(keeps_further(query, plan) for query in plan.queries))
    going = Restoring(made, plan, buckets[0])
    going.may_lose = may_lose
    start, at = 0, at % len(sent)
    for cut in sorted([*parts, Cut(at, 0, "delta")], key=lambda c: c.after % len(sent)):
        end = cut.after % len(sent) + 1
        if end <= start:
            continue
        going.feed(sent[start:end], sent[end - 1].order)
        if end == at + 1:
            going.restart("delta")
            going.restored(sent[at].order, buckets[1], to_rows)
        else:
            going.restart(cut.restart)
        start = end
    going.feed(sent[start:], sent[-1].order + AFTER)
    return going


def _keeps_further(plan: App) -> bool:
    """Whether what columns keep is not what rows would: strings that functions have made."""
    return any(keeps_further(query, plan) for query in plan.queries)


def _holds(
    made: Generated, sent: list[Message], parts: list[Cut], at: int, to_rows: bool, may_lose: bool = False
) -> None:
    plan = accepted(made)
    found = islands(plan)
    assume(found.order and not (to_rows and _keeps_further(plan)))
    event("handed on" if found.handed else "mixed" if found.mixed else "columns")
    whole = Feeding(made, plan)
    whole.feed(sent, sent[-1].order + AFTER)
    assert all_of(_through(made, sent, parts, at, (1, 1), to_rows, may_lose)) == all_of(whole)


def _kept(m: Maker, source: str, target: str) -> str:
    """Aggregators over numbers, of which columns keep what rows need."""
    window = m.one("", *WINDOWS)
    names = ("sum", "avg", "min", "max", "stdDev", "minForever", "maxForever")
    made = [
        f"{m.of(names)}({m.one('v', 'l', 'f', 'd', 'v * 2', 'd + l', 'coalesce(v, 3)', 'f * v')}) as n{i}"
        for i in range(m.number(1, 3))
    ]
    made += [
        m.one(f"distinctCount({m.one('k', 'v', 'l', 'b')}) as n8", "and(v > 1) as n8", "or(b and v < 4) as n8")
    ] * m.maybe()
    extra = m.one("", ", count() as n", ", k, v as v", ", eventTimestamp() as at")
    group = m.one("", " group by k", " group by v", " group by k, b", " group by b, l, k")
    limit = m.one("", "", "", " limit 1")
    shape = f"{'[l > -9L]' if '(l' in window else ''}#window.{window}" if window else ""
    return f"from {source}{m.one('', '[v > 1]')}{shape} select {', '.join(made)}{extra}{group}{limit} insert into {target};"


WINDOWS = (
    "time(30 milliseconds)",
    "time(400 milliseconds)",
    "length(3)",
    "timeLength(75 milliseconds, 2)",
    "externalTime(l, 30 milliseconds)",
)


def _in_partition(m: Maker, source: str, target: str) -> str:
    body = _kept(m, source, target)
    if m.rarely():
        first = m.one("", "#window.length(2)", "#window.time(40 milliseconds)")
        values = "k, max(v) as v, l, f, d, b" if first else COLUMNS
        body = f"from {source}{first} select {values} insert into #In; {_kept(m, '#In', target)}"
    forgets = purge(m) if m.rarely() and not m.prelude and "distinct" not in body else ""
    return f"{forgets}partition with ({partition_key(m)} of {source}) begin {body} end;"


def _waiting(m: Maker, source: str, target: str) -> str:
    """Rows that wait for the end of a batch, or for their output rate."""
    batch = m.one("", *BATCHES)
    shape = f"{'[l > -9L]' if '(l' in batch else ''}#window.{batch}" if batch else ""
    chosen = m.one("k, v, l", "l, k, b, v * 2 as w, v", "v, 'same' as s, d, eventTimestamp() as at")
    having = m.one("", "", " having v > 1") if "lengthBatch" not in batch else ""  # its length counts all events
    limit = rate(m) if not (batch and m.maybe()) and not (m.prelude and batch.startswith("timeBatch")) else ""
    limit = "" if batch and " first " in limit else limit
    order = m.one("", "", " order by v desc limit 2")
    return f"from {source}{m.one('', '[v > 1]')}{shape} select {chosen}{having}{order}{limit} insert into {target};"


def _limited(m: Maker, source: str, target: str) -> str:
    """Aggregators with an output rate."""
    made = _kept(m, source, target).replace(" limit 1", "")
    limit = rate(m, ("", "all ") if " group by " in made else ("", "all ", "first ", "last "))
    return made.replace(" insert into", f"{limit} insert into")


@CHOSEN
@given(made=columnar(), sent=messages, parts=cuts, at=st.integers(0, 29))
def test_a_restore_into_the_same_app_leaves_queries_on_columns(
    made: Generated, sent: list[Message], parts: list[Cut], at: int
) -> None:
    _holds(made, sent, parts, at, to_rows=False)


@CHOSEN
@given(made=columnar(shapes=(shown, keyed_rates)), sent=messages, parts=cuts, at=st.integers(0, 29))
def test_rates_of_keys_and_snapshots_of_windows_go_on_on_columns(
    made: Generated, sent: list[Message], parts: list[Cut], at: int
) -> None:
    _holds(made, sent, parts, at, to_rows=False)


@CHOSEN
@given(made=mixed(), sent=messages, parts=cuts, at=st.integers(0, 29))
def test_a_restore_of_a_mixed_app_leaves_queries_where_they_were(
    made: Generated, sent: list[Message], parts: list[Cut], at: int
) -> None:
    _holds(made, sent, parts, at, to_rows=False)


@given(made=st.just(BETWEEN), sent=st.just([Message(order=0, stream="S", events=((0, ("a", 0)),))] * 2))
def test_a_restore_and_the_kernel_that_loads_it_agree_on_what_is_on_columns(
    made: Generated, sent: list[Message]
) -> None:
    _holds(made, sent, [], 0, to_rows=False)


@given(made=st.just(TWO_KINDS), every=st.sampled_from(("", "dump", "deltas")))
def test_what_rows_have_of_a_match_outlives_restarts_behind_a_restore(made: Generated, every: str) -> None:
    sent = [Message(n, s, ((n, ("a", v, 0, 0.0, 0.0, False)),)) for n, (s, v) in enumerate(zip("SSRSRRSR", range(8)))]
    for at in range(len(sent)):
        for to_rows in (True, False):
            _holds(made, sent, [Cut(n, 0, every) for n in range(len(sent))], at, to_rows)


@CHOSEN
@given(made=tabled(), sent=messages, parts=cuts, at=st.integers(0, 29), to_rows=st.booleans())
def test_tables_of_columns_go_on_there_and_on_rows(
    made: Generated, sent: list[Message], parts: list[Cut], at: int, to_rows: bool
) -> None:
    _holds(made, sent, parts, at, to_rows, may_lose=True)


@CHOSEN
@given(
    made=columnar(shapes=(_kept, _in_partition, _waiting, _limited)), sent=messages, parts=cuts, at=st.integers(0, 29)
)
def test_rows_go_on_with_windows_aggregators_and_rates_of_columns(
    made: Generated, sent: list[Message], parts: list[Cut], at: int
) -> None:
    _holds(made, sent, parts, at, to_rows=True)


@CHOSEN
@given(made=matching(make=chain), sent=messages, parts=cuts, at=st.integers(0, 29))
def test_rows_go_on_with_the_matches_of_patterns_of_columns(
    made: Generated, sent: list[Message], parts: list[Cut], at: int
) -> None:
    _holds(made, sent, parts, at, to_rows=True)


@CHOSEN
@given(made=matching(make=run), sent=messages, parts=cuts, at=st.integers(0, 29))
def test_rows_go_on_with_the_matches_of_sequences_of_columns(
    made: Generated, sent: list[Message], parts: list[Cut], at: int
) -> None:
    _holds(made, sent, parts, at, to_rows=True)


@CHOSEN
@given(
    made=st.one_of(columnar(shapes=(_in_partition,)), matching(make=chain), matching(make=run)),
    sent=messages,
    at=st.integers(0, 29),
    buckets=st.sampled_from(((1, 4), (4, 1), (2, 3))),
    to_rows=st.booleans(),
)
def test_each_key_group_goes_on_in_another_number_of_buckets(
    made: Generated, sent: list[Message], at: int, buckets: tuple[int, int], to_rows: bool
) -> None:
    plan = accepted(made)
    assume(plan.sharding.kind == "key" and islands(plan).order and not (to_rows and _keeps_further(plan)))
    whole = Feeding(made, plan)
    whole.feed(sent, sent[-1].order + AFTER)
    assert _through(made, sent, [], at, buckets, to_rows).by_group == whole.by_group


@CHOSEN
@given(
    made=columnar(shapes=(partitioned, purged)),
    sent=messages,
    at=st.integers(0, 29),
    buckets=st.sampled_from(((1, 4), (4, 1), (2, 3))),
)
def test_queries_of_all_shapes_stay_on_columns_in_another_number_of_buckets(
    made: Generated, sent: list[Message], at: int, buckets: tuple[int, int]
) -> None:
    plan = accepted(made)
    assume(plan.sharding.kind == "key" and islands(plan).order)
    whole = Feeding(made, plan)
    whole.feed(sent, sent[-1].order + AFTER)
    assert _through(made, sent, [], at, buckets, to_rows=False).by_group == whole.by_group


# ---- changed apps ----------------------------------------------------------------------------------------------------

S = "define stream S (k string, v int, d double);\n"
WIDER = "define stream S (x long, k string, v int, d double);\n"
WINDOW = "@info(name='w') from S#window.time(100) select k, sum(v) as s, avg(d) as a group by k insert into Out;"
LENGTH = "@info(name='w') from S#window.length(3) select sum(v) as s insert into Out;"
OTHER = LENGTH.replace("Out", "Out3")
CHAIN = "@info(name='p') from every e1=S[v > 1] -> e2=S[v > e1.v] within 1 sec select e1.k as k, e1.v as a, e2.d as b insert into Out;"
RUN = "@info(name='q') from every e1=S, e2=S[v > e1.v]+, e3=S[v < e2[last].v] select e1.v as a, e2[0].v as b, e3.v as c insert into Out;"
KEYED = (
    "partition with (k of S) begin @info(name='w') from S#window.length(2) select k, sum(v) as s insert into Out; end;"
)
SORTED = "@info(name='o') from S#window.frequent(2, k) select k, v insert all events into Out2;"
FAILING = "@info(name='f') from S select str:length(k) as n insert into Out2;\n"

EXTREME = (
    "@info(name='w') from S#window.time(100) select k, min(v) as lo, max(d) as hi, stdDev(v) as dev,"
    " distinctCount(v) as n, or(v > 3) as any group by k insert into Out;"
)
NANS = EXTREME.replace("min(v)", "min(math:sqrt(d - 1.0))").replace("max(d)", "max(math:sqrt(1.0 - d))")
COMPUTED = "@info(name='w') from S#window.length(3) select sum(v * 2) as s, max(d) as m insert into Out;"
BATCH = "@info(name='w') from S#window.timeBatch(100) select k, sum(v) as s, max(d) as m group by k insert into Out;"
ROWS = "@info(name='w') from S#window.lengthBatch(4) select k, v, d insert into Out;"
PERIOD = "@info(name='w') from S#window.timeBatch(90) select d, k insert into Out;"
RATED = "@info(name='w') from S select k, v output all every 4 events insert into Out;"
TICKED = "@info(name='w') from S select k, v output last every 70 milliseconds insert into Out;"
JOIN = (
    "@info(name='j') from S#window.time(60) as a join S#window.length(3) as b on a.k == b.k and a.v > b.v"
    " select a.k as k, a.d as x, b.d as y insert into Out;"
)
LAST = (
    "@info(name='j') from S#window.timeLength(60, 2) as a join S#window.batch() as b on a.k == b.k"
    " select a.k as k, sum(a.d) as x, b.d as y insert into Out;"
)
HELD = (
    "@info(name='j') from S#window.lengthBatch(3) as a join S#window.timeBatch(100) as b on a.k == b.k"
    " select a.k as k, a.d as x, b.d as y insert into Out;"
)
UNIQUE = HELD.replace("lengthBatch(3)", "unique:lengthBatch(v, 2)").replace(
    "timeBatch(100)", "unique:timeBatch(k, 100)"
)
PARTED = (
    f"partition with (k of S) begin {HELD.replace('timeBatch(100) as b on a.k == b.k', 'timeLength(200, 3) as b')} end;"
)

CHANGES: dict[str, tuple[str, str, set[str]]] = {
    "a longer time": (S + WINDOW, S + WINDOW.replace("100", "1000"), {"w"}),
    "a longer length": (S + LENGTH, S + LENGTH.replace("3", "5"), {"w"}),
    "another within": (S + CHAIN, S + CHAIN.replace("1 sec", "100 milliseconds"), {"p"}),
    "another condition": (S + CHAIN, S + CHAIN.replace("v > e1.v", "v >= e1.v and d > 0.2"), {"p"}),
    "another condition of a sequence": (S + RUN, S + RUN.replace("v > e1.v", "v >= e1.v"), {"q"}),
    "another filter": (S + LENGTH, S + LENGTH.replace("from S", "from S[v > 0]"), {"w"}),
    "a new attribute in front": (S + WINDOW, WIDER + WINDOW, {"w"}),
    "a new attribute before a pattern": (S + CHAIN, WIDER + CHAIN, {"p"}),
    "a string that is made": (S + WINDOW, S + WINDOW.replace("select k", "select UUID() as k"), set()),
    "expired events": (S + WINDOW, S + WINDOW.replace("insert into", "insert all events into"), set()),
    "less selected": (S + CHAIN, S + CHAIN.replace(", e2.d as b", "").replace("e1.k as k, ", ""), set()),
    "a function of rows": (S + CHAIN, S + CHAIN.replace("e2.d as b", "UUID() as b"), set()),
    "a function of rows in a sequence": (S + RUN, S + RUN.replace("e3.v as c", "UUID() as c"), set()),
    "one that fails in front": (S + WINDOW, S + FAILING + WINDOW, set()),
    "what is computed under an aggregator": (
        S + LENGTH.replace("sum(v)", "avg(v * d) as e, sum(v * 2 + d)"),
        S + FAILING + LENGTH.replace("sum(v)", "avg(v * d) as e, sum(v * 2 + d)"),
        set(),
    ),
    "one that fails behind": (S + WINDOW, S + WINDOW + FAILING, {"w", "f"}),
    "one on rows beside it": (S + CHAIN, S + CHAIN + SORTED, {"p"}),
    "the one on rows goes": (S + CHAIN + SORTED, S + CHAIN, {"p"}),
    "both stay": (S + CHAIN + OTHER + SORTED, S + OTHER + CHAIN + SORTED, {"p", "w"}),
    "what rows wrote stays there": (S + CHAIN + SORTED + OTHER, S + OTHER + CHAIN + SORTED, {"p"}),
    "out of the partition's bucket": (S + KEYED, S + KEYED + SORTED, {"w"}),
    "a longer time of extremes": (S + EXTREME, S + EXTREME.replace("100", "1000"), {"w"}),
    "a shorter time of extremes on rows": (
        S + EXTREME,
        S + FAILING + EXTREME.replace("100", "60"),
        set(),
    ),
    "a longer time of extremes with NaN": (S + NANS, S + NANS.replace("100", "1000"), {"w"}),
    "a shorter time of extremes with NaN on rows": (S + NANS, S + FAILING + NANS.replace("100", "60"), set()),
    "expired events of extremes": (S + EXTREME, S + EXTREME.replace("insert into", "insert all events into"), set()),
    "a new attribute before what is computed": (S + COMPUTED, WIDER + COMPUTED, {"w"}),
    "a longer batch": (S + BATCH, S + BATCH.replace("100", "170"), {"w"}),
    "another filter of a batch": (S + BATCH, S + BATCH.replace("from S", "from S[v > 0]"), {"w"}),
    "a new attribute before a batch": (S + BATCH, WIDER + BATCH, {"w"}),
    "more events in a batch": (S + ROWS, S + ROWS.replace("4", "6"), {"w"}),
    "a new attribute before a plain batch": (S + ROWS, WIDER + ROWS, {"w"}),
    "a plain batch on rows": (S + ROWS, S + FAILING + ROWS.replace("select k, v, d", "select v * 2 as w, k"), set()),
    "a plain batch of time on rows": (S + PERIOD, S + FAILING + PERIOD.replace("90", "130"), set()),
    "another filter before a rate": (S + RATED, S + RATED.replace("from S", "from S[v > 0]"), {"w"}),
    "another rate": (S + RATED, S + RATED.replace("4", "5"), set()),
    "a rate on rows": (S + RATED, S + FAILING + RATED, set()),
    "ticks on rows": (S + TICKED, S + FAILING + TICKED, set()),
    "another filter of a join": (S + JOIN, S + JOIN.replace("from S#", "from S[v > 0]#"), {"j"}),
    "a new attribute before a join": (S + JOIN, WIDER + JOIN, {"j"}),
    "another filter of a join with a chunk": (S + LAST, S + LAST.replace("from S#", "from S[v > 0]#"), {"j"}),
    "a new attribute before a join with a chunk": (S + LAST, WIDER + LAST, {"j"}),
    "another filter of a join of batches": (S + HELD, S + HELD.replace("from S#", "from S[v > 0]#"), {"j"}),
    "a new attribute before a join of batches": (S + HELD, WIDER + HELD, {"j"}),
    "one on rows beside a join of batches of keys": (S + UNIQUE, S + UNIQUE + SORTED, {"j"}),
    "one on rows beside a join of batches in a partition": (S + PARTED, S + PARTED + SORTED, {"j"}),
    "what a join of batches selects": (
        S + HELD,
        S + HELD.replace("a.d as x, b.d as y", "b.d as x, a.d * 2 as y"),
        {"j"},
    ),
    "what a join selects": (S + JOIN, S + JOIN.replace("a.d as x, b.d as y", "b.d as x, a.d * 2 as y"), {"j"}),
    "a key in rows": (S + KEYED, S + KEYED.replace("select k", "select UUID() as k"), set()),
}


def _messages(wide: bool, start: int) -> list[Sent]:
    made: list[Sent] = []
    for i in range(25):
        ts = start + 20 * i + (i * i) % 7
        row = ("abc"[i * 7 % 3], None if i % 11 == 10 else (i * 3 + i // 5) % 5, (i * 3 % 7) / 2)
        made.append(("S", ts, (i, *row) if wide else row))
    return made


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("deltas", [False, True])
def test_a_changed_app_goes_on_as_it_does_on_rows(what: str, deltas: bool) -> None:
    before, after, stay = CHANGES[what]
    first, then = _messages("x long" in before, 0), _messages("x long" in after, 600)
    rows, columns = Node(before), ColumnsNode(before)
    assert columns.on_columns
    for node in (rows, columns):
        node.feed(first[:9], first[8][1])
        if deltas:
            node.base()
        node.feed(first[9:], 590).taken()
    assert fates(columns.plan(after)) == fates(rows.plan(after))
    went, stayed = rows.goes_on_as(after), columns.goes_on_as(after)
    assert stayed.on_columns == stay
    expected = went.feed(then, 3000).taken()
    assert len(expected) > 2
    assert str(stayed.feed(then, 3000).taken()) == str(expected)  # NaN is not equal to itself
    again = stayed.goes_on_as()  # and once more, whoever wrote it
    assert again.on_columns == stay
    more = _messages("x long" in after, 3100)
    assert str(again.feed(more, 9000).taken()) == str(went.feed(more, 9000).taken())


LOST = {
    "what a window did not keep": (
        S + LENGTH,
        S + LENGTH.replace("select sum(v) as s insert", "select d, sum(v) as s insert all events"),
        "'d'",
    ),
    "a string under an aggregator": (
        S + LENGTH.replace("sum(v)", "sum(ifThenElse(k == 'a', v, 0))"),
        S + FAILING + LENGTH.replace("sum(v)", "sum(ifThenElse(k == 'a', v, 0))"),
        "'k'",
    ),
    "what a match did not keep": (S + CHAIN, S + CHAIN.replace("e2.d as b", "e1.d as b"), "'d'"),
    "what a batch did not keep": (S + PERIOD, S + FAILING + PERIOD.replace("select d", "select v"), "'v'"),
    "an event of a sequence that it did not keep": (S + RUN, S + RUN.replace("e2[0].v", "e2[1].v"), "'v'"),
}


DROPPING = ("#window.lengthBatch(4) select k, v having v > 9", "#window.lengthBatch(4)[v > 9] select k, v")


@pytest.mark.parametrize("what", LOST)
def test_what_columns_did_not_keep_of_events_is_told_before_anything_is_dropped(what: str) -> None:
    before, after, names = LOST[what]
    columns = ColumnsNode(before).feed(_messages(False, 0), 600)
    plan = columns.plan(after)
    with pytest.raises(NadiError, match=f"RESTORE_DROPS_STATE.*columns did not keep ({names})"):
        plan.check()
    going = columns.goes_on_as(after)  # with --reset: it begins anew
    assert going.feed(_messages(False, 600), 3000).taken()


@pytest.mark.parametrize("what", ["[v > 9]#window.lengthBatch(4) select k, v", *DROPPING])
def test_a_batch_of_a_length_goes_to_rows_unless_conditions_behind_it_have_dropped_events_that_count(what: str) -> None:
    before = f"{S}@info(name='w') from S{what} insert into Out;"
    columns = ColumnsNode(before).feed(_messages(False, 0), 600)
    assert columns.on_columns == {"w"}
    plan = columns.plan(S + FAILING + before.removeprefix(S))
    if what in DROPPING:
        with pytest.raises(NadiError, match=r"RESTORE_DROPS_STATE.*its length counts all"):
            plan.check()
    else:
        plan.check()


@pytest.mark.parametrize("window", ["length(3)", "time(100)"])
def test_a_window_whose_expired_events_come_out_goes_on_as_it_was_and_as_nothing_else(window: str) -> None:
    shown = f"{S}@info(name='w') from S#window.{window} select k, sum(v) as s insert all events into Out;"
    rows, columns = Node(shown), ColumnsNode(shown)
    assert columns.on_columns == {"w"}
    for node in (rows, columns):
        node.feed(_messages(False, 0), 590).taken()
    for after in (shown.replace("all events ", ""), shown.replace("all", "expired"), shown.replace("sum", "max")):
        with pytest.raises(NadiError, match=r"RESTORE_DROPS_STATE.*in a form that rows cannot take"):
            columns.plan(after).check()
    went, stayed = rows.goes_on_as(shown), columns.goes_on_as(shown)
    assert stayed.on_columns == {"w"}
    then = _messages(False, 600)
    assert stayed.feed(then, 3000).taken() == went.feed(then, 3000).taken()


def test_a_partition_that_goes_to_rows_knows_the_keys_that_rows_knew_and_those_that_only_columns_knew() -> None:
    both = KEYED.replace(
        "end;", "@info(name='o') from S#window.timeLength(9, 2) select v insert all events into Out2; end;"
    )
    columns = ColumnsNode(S + KEYED).feed([("S", 10, ("a", 1, 0.5)), ("S", 20, ("b", 1, 0.5))], 30)
    mixed = columns.goes_on_as(S + both)
    assert mixed.on_columns == {"w"}
    mixed.base()  # from here on rows' keys stand in deltas, behind those that columns knew
    mixed.feed([("S", 40, ("c", 1, 0.5)), ("S", 50, ("b", 1, 0.5))], 60)
    rows = mixed.goes_on_as(to_rows=True)
    assert rows.on_columns == set()
    found = [e for s in rows.kernels[0].dump() if s.element.endswith("/keys") for e in entries_of(s.payload)]
    numbers = {key: cells["number"][1] for _element, key, cells in found}
    assert numbers == {"c": 1, "b": 2, "a": 3}


# ---- revisions -------------------------------------------------------------------------------------------------------


def test_a_revision_tells_which_queries_columns_wrote(tmp_path: Path) -> None:
    node = ColumnsNode("@app:name('Both')\n" + S + CHAIN + SORTED).feed(_messages(False, 0), 600)
    state = node.state()
    meta = meta_of(node.app, {"n": 1, "clock": 600})
    store = FileStore(tmp_path)
    write_revision(store, meta, state.parts, now=1_700_000_000_000)
    stored = read_revision(store, "Both")
    assert stored.on_columns(node.app) == {"p"} == written_on_columns(state, node.app)
    assert {p.element for p in stored.revision.state[0] if p.flat} == {
        "app/clock",
        "app/layouts",
        "p/pattern",
        "Out/output",
    }
    unsaid = [
        type(p)(**{f: getattr(p, f) for f in p.__struct_fields__ if f != "flat"}) for p in stored.revision.state[0]
    ]
    stored.revision.state[0][:] = unsaid  # as an older nadi wrote it
    assert stored.on_columns(node.app) == {"p"}


def test_the_state_of_rows_goes_on_on_rows() -> None:
    rows = Node(S + WINDOW).feed(_messages(False, 0), 600)
    columns = ColumnsNode(S + WINDOW, begin=None)
    columns.kernels[0].load(rows.state().parts[0])
    assert columns.on_columns == set()
    then = _messages(False, 700)
    rows.taken()
    assert columns.feed(then, 2000).taken() == rows.feed(then, 2000).taken()
    assert not any(is_flat(s.payload) for s in columns.kernels[0].dump())
