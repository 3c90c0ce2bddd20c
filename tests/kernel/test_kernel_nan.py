"""NaN among the values of aggregators: it leaves as any other value, also out of state."""

from __future__ import annotations

from math import isnan, nan

from nadi.runtime import Runtime

STREAMS = "@app:playback define stream S (k string, d double);\n"


def _shown(query: str, *values: float) -> list[object]:
    found: list[object] = []
    app = Runtime(STREAMS + query)
    app.on_stream("Out", lambda chunk: found.extend(event.row[0] for event in chunk))
    app.start()
    for number, value in enumerate(values):
        app.send("S", [(1000 + number, ("a", value))])
    app.shutdown()
    return ["nan" if isinstance(value, float) and isnan(value) else value for value in found]


def test_all_nans_are_one_value_for_distinct_count() -> None:
    query = "from S#window.length(3) select distinctCount(d) as n insert into Out;"
    assert _shown(query, float("nan"), 1.0, float("nan"), float("nan"), 2.0, 2.0) == [1, 2, 2, 2, 2, 2]


def test_nan_expires_from_an_extreme_behind_a_named_window() -> None:
    window = "define window W (d double) length(2);\nfrom S select d insert into W;\n"
    query = window + "from W select min(d) as m insert into Out;"
    assert _shown(query, nan, float("nan"), 5.0, 4.0) == ["nan", "nan", "nan", 4.0]


def test_a_union_of_sets_holds_nan_once() -> None:
    query = "from S#window.length(2) select sizeOfSet(unionSet(createSet(d))) as n insert into Out;"
    assert _shown(query, float("nan"), float("nan"), 1.0, 1.0) == [1, 1, 2, 1]


def test_nan_leaves_an_extreme_also_after_a_restore() -> None:
    query = STREAMS + "from S#window.length(2) select min(d) as m, max(d) as x insert into Out;"
    before = Runtime(query)
    before.start()
    for moment, value in ((1, nan), (2, 5.0)):
        before.send("S", [(moment, ("a", value))])
    after = Runtime(query)
    found: list[object] = []
    after.on_stream("Out", lambda chunk: found.extend(event.row for event in chunk))
    after.restore(before.persist())
    after.start()
    after.send("S", [(3, ("a", 3.0))])
    assert found == [(3.0, 5.0)]
