"""The namespace json, its paths and its text."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.functions import jsonpath, jsontext
from nadi.functions.registry import default_registry
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument
from nadi.runtime import Runtime

REGISTRY = default_registry()
_KINDS = {str: Type.STRING, int: Type.INT, float: Type.DOUBLE, bool: Type.BOOL}
SHOP = {"items": [{"name": "pen", "price": 2}, {"name": "book", "price": 12.5, "new": True}], "owner": {"name": "Ann"}}


def call(name: str, *values: Any) -> Any:
    function = REGISTRY.function(f"json:{name}")
    assert function is not None
    args = tuple(Argument(_KINDS.get(type(v), Type.OBJECT)) for v in values)
    if values[0] is None:
        args = (Argument(Type.STRING), *args[1:])
    return function.make(args, function.returns(args))(*values)


@pytest.mark.parametrize("piece", ["\\'", "'[", '\\"', '"[', "'\\", "[", '{"a":', "{'a':", "1", "1e"])
def test_no_text_takes_long_or_breaks_the_reader(piece: str) -> None:
    """A scan that began anew at each quote would take hours for this."""
    for start in ("", "'", '"'):
        with pytest.raises(ValueError, match="is not JSON"):
            jsontext.parse(start + piece * 300_000)


@pytest.mark.parametrize("text", ["'abc", "'abc\\'", "{'a': 'b", "'\\"])
def test_a_text_without_an_end_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        jsontext.parse(text)


def test_how_deep_a_value_may_be_does_not_depend_on_who_asks() -> None:
    assert jsontext.parse("[" * 100 + "]" * 100)
    with pytest.raises(ValueError, match="too deep"):
        jsontext.parse("[" * 101 + "]" * 101)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", SHOP),
        ("$.owner.name", "Ann"),
        ("owner.name", "Ann"),
        ("$['owner']['name']", "Ann"),
        ("$.items[0].name", "pen"),
        ("$.items[-1].name", "book"),
        ("$.items[*].name", ["pen", "book"]),
        ("$.items[0,1].price", [2, 12.5]),
        ("$.items[:1].name", ["pen"]),
        ("$..name", ["pen", "book", "Ann"]),
        ("$.owner.*", ["Ann"]),
        ("$.items.length()", 2),
        ("$.items[?(@.price < 10)].name", ["pen"]),
        ("$.items[?(@.new)].name", ["book"]),
        ("$.items[?(!@.new)].name", ["pen"]),
        ("$.items[?(@.name == 'book' && @.price > 12)].price", [12.5]),
        ("$.items[?(@.name == 'x' || @.price == 2)].name", ["pen"]),
        ("$.items[?(@.new == 1)]", []),
        ("$.items[0]['name','price']", ["pen", 2]),
    ],
)
def test_a_path_leads_where_it_says(path: str, found: Any) -> None:
    assert jsonpath.path(path).read(SHOP) == found


@pytest.mark.parametrize("path", ["$.", "$[", "$.a[b]", "$.a[?(@.b ~ 1)]", "$a", "$.a[0:1:0]", ""])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        jsonpath.path(path)


def test_a_path_that_leads_nowhere_gives_null() -> None:
    for name in ("getInt", "getString", "getObject", "getBool"):
        assert call(name, SHOP, "$.owner.age") is None
    assert call("isExists", SHOP, "$.owner.age") is False
    assert call("isExists", {"a": None}, "$.a") is True


def test_values_are_taken_from_their_text() -> None:
    assert call("getInt", "{'a': '23'}", "$.a") == 23
    assert call("getInt", "{'a': 23.0}", "$.a") is None
    assert call("getDouble", "{'a': 23}", "$.a") == 23.0
    assert call("getBool", "{'a': 'TRUE'}", "$.a") is True
    assert call("getBool", "{'a': 1}", "$.a") is None
    assert call("getInt", SHOP, "$.items[?(@.price < 10)].price") == 2
    assert call("getInt", SHOP, "$.items[*].price") is None
    assert call("getString", SHOP, "$.owner") == '{"name":"Ann"}'


def test_an_element_is_set_in_a_copy() -> None:
    changed = call("setElement", SHOP, "$.items", "{'name': 'cup'}")
    assert changed["items"][2] == {"name": "cup"}
    assert len(SHOP["items"]) == 2
    assert changed["owner"] is SHOP["owner"]
    assert call("setElement", SHOP, "$.nowhere", 1) == SHOP
    assert call("setElement", SHOP, "$.items[0].price", 3)["items"][0]["price"] == 3
    with pytest.raises(NadiError, match="several places"):
        call("setElement", SHOP, "$.items[*]", 1)


@pytest.mark.parametrize(
    ("name", "values"), [("getInt", (None, "$.a")), ("getInt", ("{", "$.a")), ("toObject", ("{a",))]
)
def test_null_and_text_that_is_no_json_are_errors_of_the_event(name: str, values: tuple[Any, ...]) -> None:
    with pytest.raises(NadiError) as caught:
        call(name, *values)
    assert caught.value.siddhi_class == "SiddhiAppRuntimeException"


def test_lax_json_and_great_numbers_are_read() -> None:
    assert jsontext.parse("{name: 'it\\'s \"x\"', on: true, n: [null]}") == {
        "name": 'it\'s "x"',
        "on": True,
        "n": [None],
    }
    assert jsontext.parse("{'a': 1e3, b: [2.5E-1, -1e+2], e5: 1}") == {"a": 1000.0, "b": [0.25, -100.0], "e5": 1}
    assert jsontext.parse("[9223372036854775808, 9223372036854775807]") == [
        9.223372036854775807e18,
        9223372036854775807,
    ]
    with pytest.raises(ValueError):
        jsontext.parse("[" * 100_000)


def test_elements_go_on_one_by_one_and_missing_ones_are_dropped_or_null() -> None:
    app = """
        define stream In (j string);
        from In#json:tokenize(j, '$.a') select jsonElement insert into Out;
        from In#json:tokenize(j, '$.a', false) select jsonElement insert into Lax;
    """
    runtime = Runtime(app)
    found: dict[str, list[Any]] = {"Out": [], "Lax": []}
    for stream, rows in found.items():
        runtime.on_stream(stream, lambda events, rows=rows: rows.extend(e.row[0] for e in events))
    runtime.start()
    for j in ("{'a': [1, {'b': 2}]}", "{'a': 'x'}", "{}", "{'a': []}"):
        runtime.send("In", [(None, (j,))])
    assert found["Out"] == ["1", '{"b":2}', "x"]
    assert found["Lax"] == ["1", '{"b":2}', "x", None, None]


def test_a_path_that_leads_to_too_many_places_is_the_error_of_its_event() -> None:
    deep: Any = 0
    for _ in range(4):
        deep = [deep] * 20
    with pytest.raises(NadiError, match="more than 1000000 places") as failure:
        call("getString", deep, "$" + "..*" * 4)
    assert failure.value.condition == "FUNCTION_FAILED"
