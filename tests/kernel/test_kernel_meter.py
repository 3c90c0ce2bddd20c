"""The meter of the kernel: each part is charged for its own time, and what comes out is the same with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from nadi.functions.registry import default_registry
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.events import CURRENT, Event
from nadi.kernel.rows.meter import Meter, Part
from nadi.plan import plan_app

CHAIN = """define stream S (k string, n long);
@info(name='first') from S select k, n insert into A;
@info(name='second') from A[n > 1] select k, n insert into Out;
"""
APP = """define stream S (k string, n long);
define window W (k string, n long) time(1 sec);
define trigger T at every 1 sec;
define aggregation G from S select k, sum(n) as total group by k aggregate every seconds;
@info(name='fill') from S insert into W;
@info(name='watch') from W select k, sum(n) as n insert into Out;
@info(name='slide') from S#window.time(1 sec) select k, count() as n insert all events into Out;
@info(name='ticks') from T select 'tick' as k, triggered_time as n insert into Out;
partition with (k of S) begin
  @info(name='rise') from every e1=S -> e2=S[n > e1.n] within 2 sec select e2.k as k, e2.n as n insert into Out;
  @info(name='inner') from S select k, n * 10 as n insert into #I;
  @info(name='outer') from #I[n > 20] select k, n insert into Out;
end;
"""
LABELS = {
    *(f"query {name}" for name in ("fill", "watch", "slide", "ticks", "rise", "inner", "outer")),
    *("window W", "trigger T", "aggregation G"),
}


def kernel(text: str) -> RowsKernel:
    registry = default_registry()
    made = RowsKernel(plan_app(text, registry), registry, ())
    made.start(0)
    return made


def ran(text: str, measured: bool) -> tuple[list[Event], dict[str, Part]]:
    """What comes out of an app, and what was charged to its parts by a clock that moves with each look."""
    of = kernel(text)
    meter = of.measure(count().__next__) if measured else None
    rows: list[Event] = []
    of.on_stream("Out", rows.extend)
    for i in range(30):
        of.advance(i * 150)
        of.deliver("S", [Event(CURRENT, i * 150, (f"k{i % 3}", i * 7 % 5)), Event(CURRENT, i * 150, ("k0", i))])
    of.advance(20_000)
    return rows, {} if meter is None else meter.parts


def test_what_comes_out_is_the_same_with_a_meter() -> None:
    plain, _ = ran(APP, measured=False)
    timed, parts = ran(APP, measured=True)
    assert plain == timed
    assert len(plain) > 100
    assert {label for label, part in parts.items() if part.calls} == LABELS


def test_a_part_is_charged_for_its_own_time_and_not_for_what_it_calls() -> None:
    of = kernel(CHAIN)
    meter = of.measure(count().__next__)
    of.deliver("S", [Event(CURRENT, 0, ("a", 1))])
    told = {label: (part.ns, part.calls, part.events) for label, part in meter.parts.items()}
    # looks at the clock: first begins (0), second begins (1), second ends (2), first ends (3)
    assert told == {"query first": (2, 1, 1), "query second": (1, 1, 1)}


def test_every_event_is_counted_where_it_enters() -> None:
    _, parts = ran(APP, measured=True)
    assert parts["query fill"].events == parts["query rise"].events == parts["aggregation G"].events == 60
    assert parts["query ticks"].events == parts["trigger T"].calls == 20
    assert parts["query slide"].calls > 30  # woken by its timer, too


def test_time_is_charged_to_the_one_outside_again_after_a_failure() -> None:
    clock: Iterator[int] = count()
    meter = Meter(clock.__next__)

    def fails(_chunk: object) -> None:
        raise ValueError

    inner: Callable[[list[Event]], None] = meter.entry("inner", fails)

    def outside(chunk: list[Event]) -> None:
        with pytest.raises(ValueError):
            inner(chunk)

    meter.entry("outer", outside)([])
    assert {label: part.ns for label, part in meter.parts.items()} == {"inner": 1, "outer": 2}


def test_without_a_meter_the_receivers_are_those_of_the_queries() -> None:
    of = kernel(CHAIN)
    receivers = of._assembly.wiring.junctions["S"].receivers
    plain = [*receivers]
    assert receivers == [s.receive for s in of._assembly.queries["first"].subscriptions]
    of.measure(count().__next__)
    assert receivers != plain


def test_a_meter_that_is_stopped_leaves_everything_as_it_was_and_another_one_can_follow() -> None:
    of = kernel(APP)
    plain = {key: [*junction.receivers] for key, junction in of._assembly.wiring.junctions.items()}
    woken = [timer.woken for timer in of.flow.timers.all()]
    first = of.measure(count().__next__)
    of.deliver("S", [Event(CURRENT, 0, ("a", 1))])
    first.stop()
    assert {key: j.receivers for key, j in of._assembly.wiring.junctions.items()} == plain
    assert [timer.woken for timer in of.flow.timers.all()] == woken
    of.deliver("S", [Event(CURRENT, 0, ("a", 1))])
    assert first.parts["query fill"].events == 1
    again = of.measure(count().__next__)
    of.deliver("S", [Event(CURRENT, 0, ("a", 1))])
    assert again.parts["query fill"].events == again.parts["window W"].events == 1
    assert first.parts["query fill"].events == 1


SOUGHT = """define stream S (k string, n long); define stream P (k string, n long);
@primaryKey('k') define table T (k string, n long); define table L (k string, n long);
define window W (k string, n long) length(5);
@info(name='put') from P select k, n insert into T;
@info(name='list') from P select k, n insert into L;
@info(name='hold') from P insert into W;
@info(name='joins') from S join T as t on S.k == t.k select S.k as k, t.n as n insert into Out;
@info(name='sees') from S join W as w on S.k == w.k select S.k as k, w.n as n insert into Out;
@info(name='asks') from S[T.k == k in T] select k, n insert into Out;
@info(name='scans') from S[L.n > n in L] select k, n insert into Out;
"""


@pytest.mark.parametrize("detail", [True, False])
def test_what_is_found_in_tables_is_charged_to_these_and_not_to_the_queries(detail: bool) -> None:
    of = kernel(SOUGHT)
    rows: list[Event] = []
    of.on_stream("Out", rows.extend)
    of.deliver("P", [Event(CURRENT, 0, (f"k{n}", n)) for n in range(3)])
    plain = len(rows)
    events = [Event(CURRENT, 0, ("k1", 0)), Event(CURRENT, 0, ("none", 7))]
    of.deliver("S", events)
    expected = rows[plain:]
    ticks = count()
    meter = of.measure(ticks.__next__, detail=detail)
    begin = next(ticks)
    of.deliver("S", events)
    whole = next(ticks) - begin
    assert rows[plain + len(expected) :] == expected
    told = {label: part.events for label, part in meter.parts.items() if part.events}
    found = {"table find T": 2, "table contains T": 2, "table contains L": 2}
    if detail:
        found |= {f"query {name}": 2 for name in ("joins", "sees", "asks", "scans")} | {"window find W": 2}
    assert told == found
    assert all(part.ns > 0 for part in meter.parts.values() if part.events)
    assert sum(part.ns for part in meter.parts.values()) <= whole
    meter.stop()
    of.deliver("S", events)
    assert {label: part.events for label, part in meter.parts.items() if part.events} == found
    table = of._assembly.wiring.tables["T"]
    assert (table.sought.rows, table.sought.lookup) == (table.rows, table.lookup)


def test_a_condition_that_fails_leaves_the_meter_as_it_was() -> None:
    text = """define stream S (k string, n long); define stream P (k string, n long); define table T (k string, n long);
    from P select k, n insert into T;
    @info(name='fails') from S[(str:length(T.k) == 1 and math:parseInt(T.k) > n) in T] select k, n insert into Out;
    """
    of = kernel(text)
    meter = of.measure(count().__next__)
    of.deliver("P", [Event(CURRENT, 0, ("a", 1))])
    for _ in range(3):
        of.deliver("S", [Event(CURRENT, 0, ("a", 1))])
    assert meter._current is None
    assert {label: part.events for label, part in meter.parts.items() if part.events} == {
        "query query_1": 1,
        "table insert T": 1,
        "query fails": 3,
        "table contains T": 3,
    }


def test_what_queries_do_to_tables_is_charged_to_these_and_without_detail_nothing_else() -> None:
    text = """define stream S (k string, n long); define table T (k string, n long);
    @info(name='put') from S[n > 0] select k, n insert into T;
    @info(name='set') from S[n == 0] select k, n update T set T.n = n on T.k == k;
    @info(name='drop') from S[n < 0] select k, n delete T on T.k == k;
    @info(name='both') from S select k, n update or insert into T on T.k == k;
    """
    for detail in (True, False):
        of = kernel(text)
        meter = of.measure(count().__next__, detail=detail)
        of.deliver("S", [Event(CURRENT, 0, ("a", n)) for n in (1, 2, 0, -1)])
        told = {label: part.events for label, part in meter.parts.items() if label.startswith("table")}
        assert told == {"table insert T": 2, "table update T": 1, "table delete T": 1, "table updateOrInsert T": 4}
        assert any(label.startswith("query") for label in meter.parts) is detail
