"""The core functions: what they return, what they refuse (semantics/expressions.md#functions)."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.functions.arithmetic import DOUBLE_MIN, to_float32
from nadi.functions.registry import default_registry
from nadi.lang.tree import Type
from nadi.plan import plan_app
from nadi.plan.catalog import Argument, SignatureError

REGISTRY = default_registry()


def _argument(given: object) -> Argument:
    if isinstance(given, Argument):
        return given
    if isinstance(given, Type):
        return Argument(given, attribute="x")
    kinds = {bool: Type.BOOL, int: Type.INT, float: Type.DOUBLE, str: Type.STRING}
    return Argument(kinds[type(given)], True, given)  # type: ignore[arg-type,index]


def _long(value: int) -> Argument:
    return Argument(Type.LONG, True, value)


def _returns(name: str, *given: object) -> Type:
    function = REGISTRY.function(name)
    assert function is not None
    return function.returns(tuple(_argument(g) for g in given))


def _call(name: str, kinds: tuple[object, ...], *values: object) -> object:
    function = REGISTRY.function(name)
    assert function is not None
    arguments = tuple(_argument(k) for k in kinds)
    return function.make(arguments, function.returns(arguments))(*values)


def _convert(value: object, source: Type, target: str) -> object:
    return _call("convert", (source, target), value, target)


@pytest.mark.parametrize(
    ("value", "source", "target", "converted"),
    [
        (None, Type.INT, "long", None),
        (None, Type.INT, "bool", False),
        ("5", Type.STRING, "int", 5),
        ("5.5", Type.STRING, "int", None),
        ("x", Type.STRING, "double", None),
        ("TRUE", Type.STRING, "bool", True),
        ("yes", Type.STRING, "bool", False),
        (1e10, Type.DOUBLE, "int", 2147483647),
        (2**32 + 1, Type.LONG, "int", 1),
        (1, Type.INT, "bool", True),
        (2, Type.INT, "bool", False),
        (True, Type.BOOL, "double", 1.0),
        (55.6, Type.DOUBLE, "string", "55.6"),
        (to_float32(55.6), Type.FLOAT, "string", "55.6"),
        (1e10, Type.DOUBLE, "string", "1.0E10"),
        (True, Type.BOOL, "string", "true"),
    ],
)
def test_convert_follows_java(value: object, source: Type, target: str, converted: object) -> None:
    found = _convert(value, source, target)
    assert found == converted
    assert type(found) is type(converted)


def test_cast_passes_the_value_unchanged_and_declares_its_type() -> None:
    assert _call("cast", (Type.OBJECT, "double"), 7, "double") == 7
    assert _returns("cast", Type.OBJECT, "double") is Type.DOUBLE


def test_maximum_starts_at_the_smallest_positive_double() -> None:
    assert _call("maximum", (Type.INT, Type.INT), -5, -3) == 0
    assert _call("maximum", (Type.DOUBLE, Type.DOUBLE), None, None) == DOUBLE_MIN
    assert _call("maximum", (Type.INT, Type.INT, Type.INT), 4, None, 9) == 9


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_of_one_argument_it_is_the_greatest_and_the_least(name: str) -> None:
    assert _call(name, (Type.INT,), -5) == -5
    assert _call(name, (Type.DOUBLE,), None) is None


def test_minimum_leaves_nulls_out() -> None:
    assert _call("minimum", (Type.LONG, Type.LONG), None, -3) == -3
    assert _call("minimum", (Type.INT, Type.INT), None, None) == 2147483647


@pytest.mark.parametrize(
    ("name", "kind", "value", "expected"),
    [
        ("instanceOfInteger", Type.INT, 5, True),
        ("instanceOfLong", Type.INT, 5, False),
        ("instanceOfLong", Type.LONG, 5, True),
        ("instanceOfLong", Type.OBJECT, 2**40, True),
        ("instanceOfString", Type.INT, "five", True),
        ("instanceOfFloat", Type.FLOAT, 2.5, True),
        ("instanceOfDouble", Type.FLOAT, 2.5, False),
        ("instanceOfDouble", Type.FLOAT, 2.3, True),
        ("instanceOfBoolean", Type.BOOL, None, False),
    ],
)
def test_instance_of_asks_the_runtime_class(name: str, kind: Type, value: object, expected: bool) -> None:
    assert _call(name, (kind,), value) is expected


def test_sets_are_made_and_measured() -> None:
    made = _call("createSet", (Type.STRING,), "a")
    assert _call("sizeOfSet", (Type.OBJECT,), made) == 1
    assert _call("sizeOfSet", (Type.OBJECT,), None) == 0


def test_the_same_call_gets_the_same_uuid_and_another_one_another() -> None:
    first, again, other = (_call("UUID", (), call) for call in ("app/1", "app/1", "app/2"))
    assert first == again != other
    assert len(str(first)) == 36


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("ifThenElse", (True, 1, "x"), "'if' and 'else' must be of one type, found int and string"),
        ("ifThenElse", (Type.INT, 1, 2), "parameter 1, 'condition', must be bool, not the int attribute 'x'"),
        ("coalesce", (Type.INT, Type.LONG), "all parameters must be of one type, found int and long"),
        ("default", (Type.INT, Type.INT), "must be a constant"),
        ("cast", (Type.INT, "number"), "'number' is not a type"),
        ("cast", (Type.INT, "object"), "nothing is cast to object"),
        ("convert", (Type.OBJECT, "int"), "an object converts to string only"),
        ("maximum", (Type.STRING,), "must be int or long or float or double"),
        ("sizeOfSet", (), "takes (<object> set), found no parameters"),
        ("UUID", (1,), "takes (), found (the int constant 1)"),
    ],
)
def test_arguments_that_do_not_fit_are_named(name: str, given: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(SignatureError) as caught:
        _returns(name, *given)
    assert sentence in str(caught.value)


def test_aggregators_tell_their_types() -> None:
    expected = {
        ("sum", Type.INT): Type.LONG,
        ("sum", Type.FLOAT): Type.DOUBLE,
        ("avg", Type.LONG): Type.DOUBLE,
        ("min", Type.FLOAT): Type.FLOAT,
        ("count", Type.STRING): Type.LONG,
        ("and", Type.BOOL): Type.BOOL,
    }
    for (name, kind), result in expected.items():
        aggregator = REGISTRY.aggregator(name)
        assert aggregator is not None
        assert aggregator.returns((_argument(kind),)) is result


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("length", (), "takes (<int> window.length), found no parameters"),
        ("length", ("5",), "parameter 1, 'window.length', must be int, not the string constant '5'"),
        ("length", (Type.INT,), "must be a constant (int), not the int attribute 'x'"),
        ("length", (-1,), "'window.length' must not be negative, it is -1"),
        ("timeBatch", (0,), "'window.time' must be greater than 0"),
        ("externalTime", (Type.INT, 5), "parameter 1, 'timestamp', must be long"),
        ("session", (5,), "parameter 1, 'window.session', must be long, not the int constant 5"),
        ("session", (_long(5), Type.STRING, 5), "parameter 3, 'window.allowed.latency', must be long"),
        ("session", (_long(5), Type.STRING, _long(6)), "must not be greater than 'window.session'"),
        ("session", (_long(5), Type.INT), "parameter 2, 'window.key', must be string"),
        ("sort", (5,), "needs at least one attribute"),
        ("sort", (5, Type.INT, "up"), "'asc' or 'desc', found 'up'"),
        ("sort", (5, Type.BOOL), "sorts by numbers and texts, not by a bool as 'x'"),
        ("lossyFrequent", (1.5,), "must be above 0 and at most 1"),
        ("lossyFrequent", (0.5, Type.STRING), "parameter 2, 'error.bound', must be a constant (double)"),
        ("expression", (Type.INT,), "must be string"),
    ],
)
def test_windows_name_the_argument_that_does_not_fit(name: str, given: tuple[object, ...], sentence: str) -> None:
    window = REGISTRY.window(name)
    assert window is not None
    with pytest.raises(SignatureError) as caught:
        window.check(tuple(_argument(g) for g in given))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("length", (5,)),
        ("lengthBatch", (5, True)),
        ("timeBatch", (5, 3, True)),
        ("timeBatch", (5, True)),
        ("externalTimeBatch", (Type.LONG, 5, Type.LONG, 3, True)),
        ("batch", ()),
        ("session", (_long(5), Type.STRING, _long(5))),
        ("sort", (5, Type.INT, "asc", Type.STRING, Type.STRING, "desc")),
        ("sort", (5, Type.INT, "ASC", Type.STRING, "Desc")),
        ("frequent", (5, Type.INT, Type.STRING)),
        ("lossyFrequent", (0.5, 0.1, Type.INT)),
        ("lossyFrequent", (0.5,)),
    ],
)
def test_windows_take_what_fits(name: str, given: tuple[object, ...]) -> None:
    window = REGISTRY.window(name)
    assert window is not None
    window.check(tuple(_argument(g) for g in given))


def test_a_registry_of_its_own_does_not_change_the_one_it_was_copied_from() -> None:
    function = REGISTRY.function("UUID")
    assert function is not None
    copied = REGISTRY.copy()
    copied.add(type(function)("mine", function.returns, function.make))
    assert copied.function("mine") is not None
    assert REGISTRY.function("mine") is None
    assert "UUID" in REGISTRY.names("function")


def test_polar_coordinates_become_cartesian_ones() -> None:
    spec = REGISTRY.stream_function("pol2Cart")
    assert spec is not None
    arguments = tuple(_argument(Type.DOUBLE) for _ in range(3))
    assert [c.name for c in spec.adds(arguments)] == ["x", "y", "z"]
    assert spec.make(tuple(a.type for a in arguments))((90.0, 2.0, 7.0)) == pytest.approx((0.0, 2.0, 7.0))


def test_log_keeps_the_event_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    spec = REGISTRY.stream_function("log")
    assert spec is not None
    with caplog.at_level("WARNING", logger="nadi.log"):
        assert spec.make((Type.STRING, Type.STRING))(("WARN", "hot")) == ()
    assert caplog.messages == ["hot"]


@pytest.mark.parametrize(
    ("argument", "written"), [("true", "the bool constant true"), ("'a'", "the string constant 'a'")]
)
def test_a_constant_that_does_not_fit_is_shown_as_the_language_writes_it(argument: str, written: str) -> None:
    with pytest.raises(NadiError, match=written):
        plan_app(f"define stream In (x int); from In select sum({argument}) as s insert into Out;", default_registry())
