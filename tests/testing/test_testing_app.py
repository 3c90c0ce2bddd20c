"""An app under test: events in by name of stream, time on demand, rows against expected ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.testing import AppUnderTest, ExpectedError, Unexpected

SUMS = """define stream S (k string, v double, f float, n int);
@info(name='sums') from S#window.time(1 min) select k, sum(v) as total group by k insert into Out;
from S select k, f, n insert into Copy;
"""


def test_rows_are_lists_or_mappings_and_one_or_several():
    app = AppUnderTest(SUMS)
    app.send("S", ["a", 1, 0.1, 7])
    app.send("S", [{"k": "b", "v": 2.5}, {"row": ["a", 2, 1.5, 8], "timestamp": "5 sec"}], at="10 sec")
    app.expect("Out", [["a", 1.0], {"row": {"k": "b"}, "at": "10 sec", "timestamp": "10 sec"}, ["a", ...]])
    app.expect("Copy", [["a", 0.1, 7], {"k": "b", "f": None}, {"row": {"n": 8}, "timestamp": 5000}])
    assert app.finish() == ()


def test_timers_fire_while_time_passes_and_rows_know_when_they_came():
    app = AppUnderTest(
        "define stream S (v int); from S#window.timeBatch(1 sec) select sum(v) as t insert into Out;",
        start="2024-01-31T12:00:00Z",
    )
    app.send("S", [[1], [2]], at="200 millisec")
    app.advance("5 sec")
    app.expect("Out", [{"row": [3], "at": "1 sec 200 millisec"}])


def test_what_differs_is_shown_side_by_side_with_the_query():
    app = AppUnderTest(SUMS, file="sums.siddhi")
    app.send("S", [["a", 1, 0, 0], ["b", 2, 0, 0], ["c", 3, 0, 0]])
    with pytest.raises(Unexpected) as caught:
        app.expect("Out", [["a", 1], ["c", 3], ["d", 4]])
    assert str(caught.value).splitlines() == [
        "stream Out: 1 row missing, 1 row too many (2 as expected)",
        "    expected  came",
        '  = ["a", 1]  ["a", 1.0]',
        '  +           ["b", 2.0]',
        '  = ["c", 3]  ["c", 3.0]',
        '  - ["d", 4]',
        "  Out comes from",
        "    query 'sums', line 2 of sums.siddhi",
        "      @info(name='sums') from S#window.time(1 min) select k, sum(v) as total group by k insert into Out",
    ]


def test_order_counts_unless_it_is_said_not_to():
    app = AppUnderTest(SUMS)
    rows = [["a", 1, 0, 0], ["b", 2, 0, 0]]
    app.send("S", rows)
    app.expect("Out", [["b", 2], ["a", 1]], unordered=True)
    app.send("S", rows, at="10 min")
    with pytest.raises(Unexpected):
        app.expect("Out", [["b", 2], ["a", 1]])


def test_unordered_rows_are_matched_as_well_as_possible():
    app = AppUnderTest(SUMS)
    app.send("S", ["a", 1.0, 0, 0])
    app.send("S", ["a", 0.5, 0, 0])
    app.expect("Out", [["a", ...], ["a", 1.0]], unordered=True)  # the first fits the row that only the second fits
    app.send("S", ["a", 1, 0, 0], at="10 min")
    with pytest.raises(Unexpected, match="1 differs"):
        app.expect("Out", [["a", 9]], unordered=True)


def test_floats_may_differ_by_the_tolerance_and_whole_numbers_may_not():
    app = AppUnderTest(SUMS)
    app.send("S", ["a", 0.1, 0.1, 1])
    app.send("S", ["a", 0.2, 0.1, 1])
    app.expect("Out", [["a", 0.1], ["a", 0.3]])
    with pytest.raises(Unexpected):
        app.expect("Copy", [["a", 0.1, 1], ["a", 0.1, 2]], tolerance=10)
    app.send("S", ["a", 0.2, 0.1, 1])
    app.expect("Out", [["a", 0.52]], tolerance=0.05)


def test_tables_are_read_by_queries():
    app = AppUnderTest("define stream S (k string, n int); define table T (k string, n int); from S insert into T;")
    app.send("S", [["a", 1], ["b", 2]])
    assert app.query("from T on n > 1 select k") == [("b",)]
    app.expect_query("from T select k, n", [["b", 2], {"k": "a"}], unordered=True)
    with pytest.raises(Unexpected, match=r"query from T select k: 1 row too many[^$]*query 1, line 1"):
        app.expect_query("from T select k", [["a"]])


FAULTY = """{on_error} define stream S (v int);
define table T (k int); define stream W (k int); @primaryKey('k') define table P (k int);
@info(name='in table') from W insert into P;
"""


def test_errors_are_expected_or_they_are_told_at_the_end():
    app = AppUnderTest(FAULTY.format(on_error=""))
    app.send("W", [[1], [1]])
    left = app.finish()
    assert [d.what.splitlines()[0] for d in left] == ["errors: 1 came, 0 expected"]
    app = AppUnderTest(FAULTY.format(on_error=""))
    app.send("W", [[1], [1]])
    app.expect_errors([ExpectedError(stream="P")])
    assert app.finish() == ()
    with pytest.raises(Unexpected, match=r"errors: 0 came, 1 expected\n  expected: X"):
        app.expect_errors([ExpectedError("X")])


def test_rows_that_nobody_expected_are_told_at_the_end_where_some_were_expected():
    app = AppUnderTest(SUMS)
    app.send("S", ["a", 1, 0, 0])
    app.expect("Out", [["a", 1]])
    app.send("S", ["a", 1, 0, 0])
    (left,) = app.finish()
    assert left.what == "stream Out"
    assert [p.mark for p in left.pairs] == ["+"]


@pytest.mark.parametrize(
    ("rows", "condition"),
    [
        (["a", 1], "TEST_ROW"),
        ({"key": "a"}, "ATTRIBUTE_NOT_FOUND"),
        (["a", "1", 0, 0], "TEST_VALUE"),
        (["a", 1, 0, 1 << 31], "TEST_VALUE"),
        (["a", 1, 0, True], "TEST_VALUE"),
        ([1, 1, 0, 1], "TEST_VALUE"),
    ],
)
def test_rows_that_no_source_could_give_are_refused(rows, condition):
    with pytest.raises(NadiError) as caught:
        AppUnderTest(SUMS).send("S", rows)
    assert caught.value.condition == condition


def test_a_stream_that_is_not_there_is_told_with_the_nearest_one():
    app = AppUnderTest(SUMS)
    with pytest.raises(NadiError, match="did you mean 'Copy'"):
        app.expect("Copi", [])
    with pytest.raises(NadiError, match="did you mean 'Copy'"):
        app.send("Copi", [1])


def test_the_clock_does_not_go_back_but_playback_takes_late_events():
    app = AppUnderTest(SUMS)
    app.at("10 sec")
    with pytest.raises(NadiError, match="stands at 10 sec and does not go back to 9 sec"):
        app.at(9000)
    app = AppUnderTest("@app:playback define stream S (v int); from S select v insert into Out;", start="2024-01-01")
    app.send("S", [1], at="10 sec")
    app.send("S", [2], at="9 sec")
    app.expect("Out", [{"row": [1], "at": "10 sec"}, {"row": [2], "at": "10 sec", "timestamp": "9 sec"}])


def test_sources_and_sinks_are_not_opened():
    app = AppUnderTest(
        "@sink(type='inMemory', topic='t', @map(type='json')) define stream Out (v int);"
        "@source(type='inMemory', topic='t', @map(type='json')) define stream S (v int); from S insert into Out;"
    )
    app.send("S", [1])
    app.expect("Out", [[1]])


@pytest.mark.parametrize("text", ["soon", "2024-13-01", "-5 sec", "5 parsecs"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(NadiError, match=r"TEST_TIME|TEST_CLOCK"):
        AppUnderTest(SUMS).at(text)


def test_tables_in_a_database_are_in_memory_so_that_a_test_changes_no_database(tmp_path: Path):
    app = AppUnderTest(
        "define stream S (k string, n int); "
        f"@store(type='rdbms', jdbc.url='jdbc:sqlite:{tmp_path}/real.db') @primaryKey('k') define table T (k string, n int); "
        "from S update or insert into T set T.n = T.n + n on T.k == k;"
    )
    app.send("S", [["a", 1], ["a", 2]])
    assert [event.row for event in app.runtime.query("from T select k, n") or ()] == [("a", 3)]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NadiError, match="OPTION_UNKNOWN"):
        AppUnderTest("@store(type='rdbms', jdbc.ulr='jdbc:sqlite:x') define table T (k string);")
