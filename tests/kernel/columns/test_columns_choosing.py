"""Which kernel runs an app: the plan and the setting say, and state that is there decides."""

from __future__ import annotations

import pyarrow as pa
import pytest

from nadi.config.settings import read_settings
from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.columns.choosing import ChosenKernel
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.segments import is_flat, key_count
from nadi.pipeline.engine import make_kernel, plan_app

APP = "define stream In (k string, n int); from In#window.length(3) select k, sum(n) as s group by k insert into Out;"
SORTED = "define stream In (k string, n int); from In#window.sort(2, n) select k insert into Out;"


def _kernel(mode, text=APP):
    return make_kernel(plan_app(text), ("Out",), 0, {"nadi.kernel": mode})


def _fed(kernel, *numbers, start=0):
    fields = [pa.field("k", pa.string()), pa.field("n", pa.int32()), *ARRIVAL_COLUMNS]
    count = len(numbers)
    places = list(range(start, start + count))
    columns = [["ab"[n % 2] for n in numbers], list(numbers), places, places, [0] * count, places, [0] * count]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, fields)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    return kernel.process([ArrivalBatch("In", 0, 0, batch)], start + count).batches["Out"].to_pylist()


def _begun(mode, text=APP):
    kernel = _kernel(mode, text)
    kernel.start(0)
    return kernel


@pytest.mark.parametrize("mode", ["auto", "columns"])
def test_an_app_that_can_goes_on_columns_where_that_is_wanted(mode):
    assert _kernel(mode).on_columns


def test_rows_are_the_default_in_process_and_the_two_give_the_same():
    assert not make_kernel(plan_app(APP), ("Out",)).on_columns
    rows, columns = _begun("rows"), _begun("columns")
    assert not rows.on_columns
    assert _fed(rows, 1, 2, 3, 4, 5) == _fed(columns, 1, 2, 3, 4, 5)


def test_an_app_of_which_no_query_can_stays_on_rows_and_says_why_where_columns_are_asked_for():
    assert not isinstance(_kernel("auto", SORTED), ChosenKernel)
    with pytest.raises(NadiError, match="the window 'sort' fails where n is null"):
        _kernel("columns", SORTED)


@pytest.mark.parametrize(("written", "asked"), [("rows", "auto"), ("columns", "rows")])
def test_state_stays_with_the_kernel_that_wrote_it(written, asked):
    first = _begun(written)
    _fed(first, 1, 2, 3)
    segments = list(first.dump())
    _fed(first, 4, start=3)
    state = [*segments, first.delta()]
    second = _kernel(asked)
    second.load(state)
    assert second.on_columns is (written == "columns")
    assert _fed(second, 5, 6, 7, start=4) == _fed(first, 5, 6, 7, start=4)
    second.load([])
    assert second.on_columns is (asked != "rows")  # a new life


def test_state_of_one_query_by_both_kernels_is_refused():
    rows, columns = _begun("rows"), _begun("columns")
    _fed(rows, 1, 2)
    _fed(columns, 1, 2)
    with pytest.raises(NadiError, match=r"STATE_NOT_READABLE.*the columns kernel wrote that of unnamed_1"):
        _kernel("auto").load([*columns.dump(), *rows.dump()])


def test_a_profile_tells_queries_apart_on_both_kernels():
    kernel = _begun("auto", f"{APP} {SORTED.partition(';')[2].replace('Out', 'More')}")
    parts = kernel.measure(iter(range(1000)).__next__).parts
    _fed(kernel, 1, 2, 3)
    assert {label: part.events for label, part in parts.items()} == {"query query_1": 3, "query query_2": 3}
    assert all(part.ns for part in parts.values())
    kernel.load(list(kernel.dump()))
    _fed(kernel, 4, start=3)
    assert {part.events for part in parts.values()} == {4}


@pytest.mark.parametrize("deltas", [False, True])
def test_state_of_a_query_that_keeps_something_else_now_is_refused(deltas):
    first = _begun("auto")
    state = [] if deltas else [*first.dump()]
    _fed(first, 1, 2)
    state.append(first.delta())
    edited = _kernel("auto", APP.replace("as s", "as s, count() as c"))
    if not deltas:
        state = [*first.dump()]
    with pytest.raises(NadiError, match=r"STATE_NOT_READABLE.*unnamed_1 keeps something else now.*restore"):
        edited.load(state)
    _kernel("auto", APP.replace("In#", "In[n > 1]#").replace("k, sum", "sum")).load(state)  # keeps the same


def test_state_of_a_query_that_rows_have_to_run_now_is_refused():
    first = _begun("auto")
    _fed(first, 1, 2)
    edited = APP.replace("select k", "select UUID() as k")
    more = "define stream More (k string);"
    with pytest.raises(NadiError, match=r"STATE_NOT_READABLE.*unnamed_1, and rows have to run it now.*restore"):
        _kernel("auto", f"{more} {edited} from More select k insert into X;").load(first.dump())


def test_a_segment_tells_how_many_keys_begin_in_it():
    kernel = _begun("columns")
    _fed(kernel, 1, 2, 3)
    segments = {s.element: s for s in kernel.dump()}
    assert all(is_flat(s.payload) for s in segments.values())
    assert key_count(segments["unnamed_1/selector"].payload) == 1


def test_a_delta_costs_what_changed_and_not_what_is_held():
    kernel = _begun("columns", APP.replace("length(3)", "length(100000)"))
    _fed(kernel, *range(50_000))
    first = len(kernel.delta())
    _fed(kernel, 1, 2, start=50_000)
    assert first > 100 * len(kernel.delta())
    assert kernel.delta() == b""


def test_a_dump_of_much_comes_in_segments_of_about_a_megabyte():
    kernel = _begun("columns", APP.replace("length(3)", "length(200000)"))
    _fed(kernel, *range(150_000))
    segments = [s for s in kernel.dump() if s.element == "unnamed_1/window"]
    assert len(segments) > 2
    assert max(len(s.payload) for s in segments) < 2 << 20
    other = _kernel("auto", APP.replace("length(3)", "length(200000)"))
    other.load(kernel.dump())
    assert other.size() == kernel.size()
    assert _fed(other, *range(9), start=150_000) == _fed(kernel, *range(9), start=150_000)


def test_rows_refuse_state_of_columns_by_name():
    kernel = _begun("columns")
    plan = plan_app(APP)
    with pytest.raises(NadiError, match=r"STATE_NOT_READABLE.*columns kernel wrote it"):
        RowsKernel(plan, default_registry(), ("Out",)).load(kernel.dump())


def test_the_setting_takes_three_values_and_rows_say_nothing_to_kernels():
    assert read_settings({}).of_kernels() == {"nadi.kernel": "auto"}
    assert read_settings({"nadi.kernel": "rows"}).of_kernels() == {}
    assert read_settings({"nadi.kernel": "auto", "nadi.properties.a": "b"}).of_kernels() == {
        "a": "b",
        "nadi.kernel": "auto",
    }
    with pytest.raises(NadiError, match="one of auto, rows, columns"):
        read_settings({"nadi.kernel": "fast"}).of_kernels()


TABLED = """define stream In (k string, n int); define table T (k string, n int);
@info(name='put') from In[n > 1] select k, n insert into T;
@info(name='sums') from In select k, sum(n) as total insert into Out;
"""


LOOKED = """define stream In (k string, n int);
@primaryKey('k') define table T (k string, n int);
@info(name='put') from In[n > 1] select k, n insert into T;
@info(name='joins') from In join T as t on In.k == t.k select In.k as k, t.n as n insert into Out;
@info(name='asks') from In[T.k == k in T] select k, n insert into Out;
"""


@pytest.mark.parametrize("detail", [True, False])
@pytest.mark.parametrize("mode", ["rows", "auto"])
def test_what_is_found_in_a_table_is_charged_to_it_in_both(mode, detail):
    kernel = _begun(mode, LOOKED)
    assert kernel.on_columns is (mode == "auto")
    ticks = iter(range(10_000))
    meter = kernel.measure(ticks.__next__, detail=detail)
    begin = next(ticks)
    _fed(kernel, 1, 2, 3)
    whole = next(ticks) - begin
    told = {label: part.events for label, part in meter.parts.items() if part.events}
    queries = {f"query {name}": 3 for name in ("put", "joins", "asks")} if detail else {}
    assert {"table find T": 3, "table contains T": 3} | queries == {k: n for k, n in told.items() if "insert" not in k}
    assert all(part.ns > 0 for part in meter.parts.values() if part.events)
    assert sum(part.ns for part in meter.parts.values()) <= whole


@pytest.mark.parametrize("detail", [True, False])
@pytest.mark.parametrize("mode", ["rows", "auto"])
def test_a_meter_can_be_stopped_and_another_one_can_follow(mode, detail):
    kernel = _begun(mode, TABLED)
    assert kernel.on_columns is (mode == "auto")
    rows = {"query put": 3, "query sums": 3} if detail else {}
    for start in (0, 6):
        meter = kernel.measure(iter(range(1000)).__next__, detail=detail)
        _fed(kernel, 1, 2, 3, start=start)
        meter.stop()
        _fed(kernel, 4, 5, 6, start=start + 3)
        assert {label: part.events for label, part in meter.parts.items()} == {"table insert T": 2} | rows
