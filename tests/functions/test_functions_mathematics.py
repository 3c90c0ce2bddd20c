"""The namespace math: the ends of ranges, NaN, null."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument, SignatureError
from nadi.runtime import Runtime

REGISTRY = default_registry()
_KINDS = {int: Type.INT, float: Type.DOUBLE, str: Type.STRING, type(None): Type.DOUBLE}
NAN, INF = math.nan, math.inf


def call(name: str, *values: Any, kind: Type | None = None) -> Any:
    function = REGISTRY.function(f"math:{name}")
    assert function is not None
    args = tuple(Argument(kind or _KINDS[type(v)]) for v in values)
    return function.make(args, function.returns(args))(*values)


@pytest.mark.parametrize(
    ("name", "values", "result"),
    [
        ("sqrt", (-1.0,), NAN),
        ("ln", (0,), -INF),
        ("ln", (-1,), NAN),
        ("log10", (0,), -INF),
        ("acos", (2.0,), NAN),
        ("sin", (INF,), NAN),
        ("exp", (1e9,), INF),
        ("exp", (-1e9,), 0.0),
        ("sinh", (-1e9,), -INF),
        ("cosh", (-1e9,), INF),
        ("power", (0.0, -1.0), INF),
        ("power", (-0.0, -1.0), -INF),
        ("power", (-8.0, 1 / 3), NAN),
        ("power", (1.0, NAN), NAN),
        ("power", (-1.0, INF), NAN),
        ("power", (NAN, 0.0), 1.0),
        ("power", (-10.0, 1001.0), -INF),
        ("max", (NAN, 1.0), NAN),
        ("ceil", (INF,), INF),
        ("round", (2.5,), 3),
        ("round", (-2.5,), -2),
        ("round", (0.49999999999999994,), 0),
        ("round", (NAN,), 0),
        ("round", (1e300,), 2**63 - 1),
        ("signum", (NAN,), 0),
        ("getExponent", (0.0,), -1023),
        ("getExponent", (INF,), 1024),
        ("getExponent", (8,), 3),
        ("getExponent", (1e-40,), -133),
        ("bin", (-1,), "1" * 32),
        ("oct", (-1,), "37777777777"),
        ("hex", (1.0,), "0x1.0p0"),
        ("hex", (-0.1,), "-0x1.999999999999ap-4"),
        ("hex", (5e-324,), "0x0.0000000000001p-1022"),
        ("hex", (0.0,), "0x0.0p0"),
        ("hex", (NAN,), "NaN"),
        ("conv", ("-ff", 16, 2), "-11111111"),
        ("conv", ("10", 2, 99), "2"),
    ],
)
def test_a_function_gives_what_java_gives(name: str, values: tuple[Any, ...], result: Any) -> None:
    found = call(name, *values)
    assert type(found) is type(result)
    assert found == result or (math.isnan(found) and math.isnan(result))


def test_the_sign_of_zero_is_kept() -> None:
    assert math.copysign(1, call("ceil", -0.5)) == -1
    assert math.copysign(1, call("min", 0.0, -0.0)) == -1
    assert math.copysign(1, call("max", -0.0, 0.0)) == 1


def test_floats_have_their_own_width() -> None:
    assert call("hex", 2.0**-149, kind=Type.FLOAT) == "0x0.000002p-126"
    assert call("round", 1e30, kind=Type.FLOAT) == 2**31 - 1
    assert call("hex", -1, kind=Type.LONG) == "f" * 16


@pytest.mark.parametrize("name", [n for n in REGISTRY.names("function") if n.startswith("math:")])
def test_null_makes_null(name: str) -> None:
    function = REGISTRY.function(name)
    assert function is not None
    count = len(function.parameters)
    if name == "math:rand" or count == 0:
        return
    kind = (
        Type.STRING
        if "parse" in name or name == "math:conv"
        else Type.INT
        if name in ("math:bin", "math:oct")
        else Type.DOUBLE
    )
    args = tuple(Argument(Type.INT if name == "math:conv" and i else kind) for i in range(count))
    assert function.make(args, function.returns(args))(*[None] * count) is None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("parseInt", ("1.5",)),
        ("parseLong", ("x",)),
        ("parseDouble", ("",)),
        ("conv", ("12", 2, 10)),
        ("conv", ("1_0", 10, 2)),
        ("conv", ("99999999999", 10, 2)),
        ("log", (5.0, 1.0)),
    ],
)
def test_values_that_cannot_be_taken_are_errors_of_the_event(name: str, values: tuple[Any, ...]) -> None:
    with pytest.raises(NadiError, match=f"math:{name}"):
        call(name, *values)


def test_random_numbers_are_the_same_on_a_replay_and_differ_by_call() -> None:
    app = "define stream In (x int); from In select math:rand() as r, math:rand(7) as s insert into Out;"

    def run() -> list[Any]:
        runtime, found = Runtime(app), []
        runtime.on_stream("Out", lambda events: found.extend(e.row for e in events))
        runtime.start()
        runtime.send("In", [(None, (1,)), (None, (2,))])
        return found

    first = run()
    assert first == run()
    numbers = [n for row in first for n in row]
    assert len(set(numbers)) == 4
    assert all(0 <= n < 1 for n in numbers)


def test_a_percentile_follows_its_window() -> None:
    app = "define stream In (x int); from In#window.length(3) select math:percentile(x, 50.0) as p insert into Out;"
    runtime, found = Runtime(app), []
    runtime.on_stream("Out", lambda events: found.extend(e.row[0] for e in events))
    runtime.start()
    for x in (5, 1, 3, 3, 9):
        runtime.send("In", [(None, (x,))])
    assert found == [5.0, 3.0, 3.0, 3.0, 3.0]
    aggregator = REGISTRY.aggregator("math:percentile")
    assert aggregator is not None
    with pytest.raises(SignatureError, match="at most 100"):
        aggregator.returns((Argument(Type.INT), Argument(Type.DOUBLE, True, 0.0)))


def test_whole_numbers_have_a_floor_and_no_ceiling() -> None:
    assert call("floor", 5) == 5.0
    assert type(call("floor", 5)) is float
    assert call("floor", 2**63 - 1, kind=Type.LONG) == 2.0**63
    with pytest.raises(SignatureError):
        call("ceil", 5)


@pytest.mark.parametrize(("value", "exponent"), [(0.0, -1023), (1.401298464324817e-45, -149), (INF, 1024), (8.0, 3)])
def test_the_exponent_of_a_float_is_that_of_the_double_it_becomes(value: float, exponent: int) -> None:
    assert call("getExponent", value, kind=Type.FLOAT) == exponent
