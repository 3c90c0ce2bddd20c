"""Script functions in apps: everywhere where an expression may stand, with their errors and across restarts."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.functions import default_registry
from nadi.kernel.rows.engine import RowsKernel
from nadi.plan import plan_app
from nadi.runtime import Runtime

DEFINED = """
define stream S (k string, v int);
define stream T (k string, v int);
define table Kept (k string, v int);
define function big[javascript] return bool { return data[0] > 10; };
define function half[Python] return double {
    return None if data[0] is None else data[0] / 2
};
define function both[JavaScript] return string { return data[0] + '/' + data[1]; };
"""


def rows(app: Runtime, *events: tuple[str, tuple[object, ...]], output: str = "Out") -> list[tuple[object, ...]]:
    """What comes out when the events are sent one by one."""
    found: list[tuple[object, ...]] = []
    app.on_stream(output, lambda chunk: found.extend(e.row for e in chunk))
    app.start()
    for stream, row in events:
        app.send(stream, [(None, row)])
    return found


def test_scripts_stand_in_filters_and_in_select() -> None:
    app = Runtime(DEFINED + "from S[big(v)] select both(k, v) as name, half(v) as h insert into Out;")
    assert rows(app, ("S", ("a", 5)), ("S", ("b", 25))) == [("b/25", 12.5)]


def test_scripts_stand_in_having_group_by_and_over_aggregates() -> None:
    app = Runtime(
        DEFINED
        + "from S select both(k, 'x') as g, v, half(sum(v)) as h group by k having big(sum(v)) and half(v) > 2.0 insert into Out;"
    )
    assert rows(app, ("S", ("a", 6)), ("S", ("a", 7)), ("S", ("b", 4))) == [("a/x", 7, 6.5)]


def test_scripts_stand_in_conditions_of_joins() -> None:
    text = "from S#window.length(5) as s join T#window.length(5) as t on both(s.k, t.v) == 'a/1' select s.v as v insert into Out;"
    assert rows(Runtime(DEFINED + text), ("S", ("a", 7)), ("S", ("b", 8)), ("T", ("q", 1))) == [(7,)]


def test_scripts_stand_in_patterns_and_see_the_events_before() -> None:
    text = "from every e1=S[big(v)] -> e2=T[both(k, e1.k) == 'x/a'] select e1.v as a, half(e2.v) as b insert into Out;"
    events = (("S", ("a", 20)), ("T", ("y", 1)), ("T", ("x", 3)))
    assert rows(Runtime(DEFINED + text), *events) == [(20, 1.5)]


def test_scripts_stand_in_partitions_and_in_conditions_of_tables() -> None:
    text = (
        "from T select k, v insert into Kept;"
        "partition with (k of S) begin from S[(both(Kept.k, Kept.v) == both(k, v)) in Kept] select half(v) as h insert into Out; end;"
    )
    assert rows(Runtime(DEFINED + text), ("T", ("a", 4)), ("S", ("a", 3)), ("S", ("a", 4))) == [(2.0,)]


def test_scripts_stand_in_on_demand_queries() -> None:
    app = Runtime(DEFINED + "from T select k, v insert into Kept;")
    app.start()
    app.send("T", [(None, ("a", 4)), (None, ("b", 40))])
    found = app.query("from Kept on big(v) select both(k, v) as b")
    assert found is not None
    assert [e.row for e in found] == [("b/40",)]


def test_a_script_wins_over_a_built_in_function_of_its_name() -> None:
    app = Runtime(
        "define stream S (a int); define function coalesce[python] return string { return 'mine' };"
        "from S select coalesce(a, a) as c insert into Out;"
    )
    assert rows(app, ("S", (1,))) == [("mine",)]


def test_null_goes_in_and_comes_out_and_a_call_without_arguments_gets_one_null() -> None:
    app = Runtime(
        "define stream S (a int);"
        "define function js[javascript] return string { return data.length + ' ' + (data[0] === null); };"
        "define function py[python] return string { return f'{len(data)} {data[0]}' };"
        "define function none[python] return int { };"
        "from S select js(a) as a, py(a) as b, js() as c, none(a) as d, none(a) + 1 as e insert into Out;"
    )
    assert rows(app, ("S", (None,))) == [("1 true", "1 None", "1 true", None, None)]


def test_maps_go_in_and_come_out() -> None:
    app = Runtime(
        "define stream S (a string);"
        "define function more[javascript] return object { data[0].b = data[0].a.length; return data[0]; };"
        "from S select map:get(more(map:create('a', a)), 'b') as b insert into Out;"
    )
    assert rows(app, ("S", ("four",))) == [(4,)]


def test_an_object_that_is_no_plain_value_is_refused_by_name() -> None:
    app = Runtime(
        "define stream S (a int); define function f[python] return int { return 1 };"
        "from S select f(createSet(a)) as b insert into Out;"
    )
    assert rows(app, ("S", (1,))) == []
    assert [f.condition for f in app.failures] == ["SCRIPT_ARGUMENT"]


FAILING = """
define stream S (v int);
define function f[javascript] return int {
    if (data[0] == 1) while (true);
    if (data[0] == 2) { var a = []; while (true) a.push(new Array(100000).fill(1)); }
    if (data[0] == 3) throw new Error('three');
    if (data[0] == 4) return 'four';
    return data[0];
};
from S select f(v) as w insert into Out;
"""


def test_a_script_that_fails_fails_its_event_and_no_other() -> None:
    app = Runtime(FAILING)
    assert rows(app, *(("S", (v,)) for v in range(7))) == [(0,), (5,), (6,)]
    conditions = ["SCRIPT_TIME", "SCRIPT_MEMORY", "SCRIPT_FAILED", "SCRIPT_RESULT"]
    assert [(f.row, f.condition) for f in app.failures] == [((n,), c) for n, c in enumerate(conditions, start=1)]


def test_on_error_sends_the_events_that_a_script_fails_to_the_fault_stream() -> None:
    app = Runtime("@OnError(action='STREAM')" + FAILING + "from !S select v, _error insert into Faults;")
    found = rows(app, ("S", (3,)), ("S", (0,)), ("S", (4,)), output="Faults")
    assert [v for v, _error in found] == [3, 4]
    assert "Error: three (line 4 of its body)" in str(found[0][1])
    assert "returned 'four', which is no int" in str(found[1][1])


def test_a_restart_between_two_events_changes_nothing() -> None:
    text = (
        "define stream S (v int);"
        "define function f[javascript] return int { n = typeof n == 'number' ? n + 1 : data[0]; return n; };"
        "define function g[python] return int {\n global n\n n = data[0]\n return n\n};"
        "from S select f(v) as a, g(v) as b, sum(f(v)) as s insert into Out;"
    )
    straight = rows(Runtime(text), *(("S", (v,)) for v in range(6)))
    moved = Runtime(text)
    found: list[tuple[object, ...]] = []
    moved.on_stream("Out", lambda chunk: found.extend(e.row for e in chunk))
    moved.start()
    for v in range(6):
        moved.send("S", [(None, (v,))])
        moved.move(list(moved.kernel.dump()))
    assert found == straight
    assert found[-1] == (5, 5, 15)


def test_an_app_that_is_shut_down_has_no_process() -> None:
    app = Runtime(FAILING)
    app.start()
    sandbox = app._sandbox
    assert sandbox is not None
    assert sandbox.pid is not None
    app.shutdown()
    assert sandbox.pid is None


def test_an_app_without_scripts_has_no_sandbox() -> None:
    assert Runtime("define stream S (a int); from S select a insert into Out;")._sandbox is None


def test_a_kernel_without_a_sandbox_refuses_an_app_with_scripts() -> None:
    registry = default_registry()
    with pytest.raises(NadiError) as failed:
        RowsKernel(plan_app(FAILING, registry), registry)
    assert failed.value.condition == "SCRIPTS_UNAVAILABLE"
