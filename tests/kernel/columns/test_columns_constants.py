"""Apps that differ in constants only have the same loops, and each gives what rows give (columns/loops.md#constants)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.columns import jit
from nadi.kernel.columns.engine import ColumnsKernel
from nadi.plan.columns.islands import islands
from nadi.plan.nodes import App
from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA
from tests.generate.columnar import columnar
from tests.generate.feeding import planned
from tests.generate.inputs import Message, messages
from tests.kernel.columns import comparing
from tests.kernel.columns.comparing import CHOSEN, OF_ONE_APP, same_as_rows

_NUMBER = re.compile(r"(?<![\w.%/])(?<![%/] )(\d+)(?![\w.]*\s*events)")
"""Constants of a text but those that decide what a loop looks like: divisors, and `every 1 events`."""


def _loops(plan: App) -> list[str]:
    """The texts of the loops of an app, by which the cache and the process know them."""
    found: list[str] = []

    def noted(source: str, name: str) -> object:
        found.append(source)
        return compile(source, f"<{name}>", "exec")

    with pytest.MonkeyPatch.context() as patch, jit.interpreted():
        patch.setattr(jit, "_code", noted)
        ColumnsKernel(plan, default_registry(), [], islands(plan))
    return found


def _changed(text: str) -> str:
    """The same app with other constants."""
    return _NUMBER.sub(lambda found: str(int(found[1]) + 1), text)


def _planned(query: str) -> tuple[Generated, App]:
    made = Generated(f"define stream S ({SCHEMA});\n{query}", ("Out",), ())
    return made, planned(made)


def _gives_what_rows_give(made: Generated, plan: App) -> None:
    @OF_ONE_APP
    @given(sent=messages)
    def holds(sent: list[Message]) -> None:
        same_as_rows(made, plan, [Message(m.order, "S", m.events) for m in sent], [])

    holds()


SAME = {
    "filter": (
        "from S[d > {0}.5 and v < {1}] select k, v * {1} as w, f * {0}.5f as x insert into Out;",
        (1, 7),
        (-3, 0),
    ),
    "floats": ("from S select d / {0} as x, math:power(d, {0}) as y insert into Out;", (3.0,), (-0.7,)),
    "texts": ("from S[k == '{0}'] select v + 1 as w insert into Out;", ("a",), ("b",)),
    "length": ("from S#window.length({0}) select sum(d) as s insert into Out;", (2,), (3,)),
    "time": ("from S#window.time({0} millisec) select sum(d) as s insert into Out;", (12,), (40,)),
    "time batch": ("from S#window.timeBatch({0} millisec) select sum(v) as s insert into Out;", (12,), (30,)),
    "session": ("from S#window.session({0} millisec, k) select sum(v) as s insert into Out;", (12,), (30,)),
    "pattern": (
        "from every a=S[v > {0}] -> b=S[d > a.d + {0}.5] within {1} millisec select a.v as v, b.d as d insert into Out;",
        (0, 30),
        (1, 12),
    ),
    "sequence": (
        "from every a=S[v > {0}], b=S[v < {1}] within {1} millisec select a.v as v, b.v as w insert into Out;",
        (0, 30),
        (1, 12),
    ),
    "join": (
        "from S[v > {0}]#window.length({1}) as x join S#window.time({2} millisec) as y on x.k == y.k"
        " select x.v + {0} as v, y.d as d insert into Out;",
        (0, 2, 30),
        (1, 3, 12),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_apps_that_differ_in_constants_have_the_same_loops_and_each_gives_what_rows_give(name: str) -> None:
    query, *several = SAME[name]
    apps = [_planned(query.format(*constants)) for constants in several]
    first, second = (_loops(plan) for _made, plan in apps)
    assert first
    assert first == second
    for made, plan in apps:
        _gives_what_rows_give(made, plan)


@pytest.mark.skipif(jit.PLAIN, reason="Numba is switched off: nothing is compiled")
def test_a_process_loads_the_loop_of_apps_that_differ_in_constants_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "COMPILED", True)
    monkeypatch.setattr(jit, "_ready", {})
    query, *several = SAME["filter"]
    for constants in several:
        _gives_what_rows_give(*_planned(query.format(*constants)))
    assert len(jit._ready) == 1


def test_a_divisor_by_which_the_compiler_multiplies_stays_in_the_loop() -> None:
    whole, other = (_loops(_planned(f"from S select v / {n} as a insert into Out;")[1]) for n in (3, 5))
    assert whole != other
    half, fourth = (_loops(_planned(f"from S select d / {n} as a insert into Out;")[1]) for n in (2.0, 4.0))
    assert half != fourth


def test_a_constant_that_is_true_or_false_stays_in_the_loop() -> None:
    true, false = (
        _loops(_planned(f"from S select ifThenElse(b, v > 1, {one}) as a insert into Out;")[1])
        for one in ("true", "false")
    )
    assert true != false


@CHOSEN
@given(made=columnar())
def test_generated_apps_have_no_more_loops_when_their_constants_change(made: Generated) -> None:
    plan = planned(made)
    try:
        changed = planned(Generated(_changed(made.text), made.outputs, ()))
    except NadiError:
        assume(False)  # a constant that must be what it was
    assert _loops(plan) == _loops(changed)
