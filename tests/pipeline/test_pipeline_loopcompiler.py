"""Loops are compiled beside the start of Spark, once."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from nadi.functions.registry import default_registry
from nadi.kernel.columns.cached import is_compiled
from nadi.kernel.columns.warming import warm
from nadi.pipeline import loopcompiler
from nadi.pipeline.loopcompiler import Compiled, Compiling, inner_text, jobs
from nadi.plan import plan_app

TEXT = "define stream S (k string, v int, d double); from S[v > 1] select k, d * 2 as d insert into Out;"
ROWS = "define stream S (k string, v int); from S#window.sort(2, v) select k insert into Out;"


def test_a_process_compiles_what_columns_run_and_says_so_where_it_takes_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))
    monkeypatch.setattr(loopcompiler, "PATIENCE", 0.0)
    told: queue.Queue[tuple[str, str]] = queue.Queue()
    app = plan_app(TEXT, default_registry())
    begun = Compiling([Compiled(app, ("Out",))], lambda name, what: told.put((name, what)))
    begun.start()
    said = {told.get(timeout=120)[1], told.get(timeout=120)[1]}
    begun.close()
    assert any("compiled (" in line for line in said), said
    assert is_compiled(inner_text(TEXT), ("Out",))
    assert not is_compiled(inner_text(TEXT), ())
    assert any((tmp_path / "loops").glob("loop_*.py"))
    again = Compiling([Compiled(app, ("Out",))], lambda name, what: told.put((name, what)))
    assert not again.has_work
    other = plan_app(f"@app:name('Two') {TEXT}", default_registry())
    assert jobs([Compiled(other, ("Out",))]) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "@app:name('A') define stream S (v int);",
            "@App:description('b') @app:name('B') define stream S (v int); -- here\n",
        ),
        (
            "@source(type='http', port='1') define stream S (v int);",
            "@Source(type='nats', url='x', @map(type='json')) define stream S (v int);",
        ),
        (
            "@sink(type='log') define stream S (v int);",
            "@sink(type='log') @sink(type='log', prefix='p') define stream S (v int);",
        ),
    ],
)
def test_names_and_connections_do_not_decide_on_loops(one: str, other: str) -> None:
    query = " from S select v * 2 as w insert into Out;"
    assert inner_text(one + query) == inner_text(other + query)


@pytest.mark.parametrize(
    "other",
    [
        "define stream S (v long); from S select v * 2 as w insert into Out;",
        "define stream S (v int); from S select v * 3 as w insert into Out;",
        "@app:playback define stream S (v int); from S select v * 2 as w insert into Out;",
        "@async define stream S (v int); from S select v * 2 as w insert into Out;",
    ],
)
def test_whatever_else_an_app_says_may_decide_on_them(other: str) -> None:
    assert inner_text(other) != inner_text("define stream S (v int); from S select v * 2 as w insert into Out;")


def test_an_app_on_rows_needs_no_process() -> None:
    assert jobs([Compiled(plan_app(ROWS, default_registry()), ("Out",))]) == []


def test_warming_runs_every_query_that_columns_have() -> None:
    text = (
        TEXT
        + " partition with (k of S) begin from every e1=S -> e2=S[v > e1.v] select e1.k as k insert into Out2; end;"
    )
    text += " from S#window.sort(2, v) select k insert into Out3; from S#window.time(1 sec) select avg(d) as a insert into Out4;"
    assert warm(plan_app(text, default_registry()), default_registry(), ("Out", "Out2", "Out3", "Out4")) == 2
    assert warm(plan_app(ROWS, default_registry()), default_registry()) == 0
