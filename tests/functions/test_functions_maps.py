"""The namespace map: copies, errors, XML, state."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument, SignatureError
from nadi.runtime import Runtime

REGISTRY = default_registry()
_KINDS = {str: Type.STRING, int: Type.INT, float: Type.DOUBLE, bool: Type.BOOL}


def call(name: str, *values: Any) -> Any:
    function = REGISTRY.function(f"map:{name}")
    assert function is not None
    args = tuple(Argument(_KINDS.get(type(v), Type.OBJECT)) for v in values)
    return function.make(args, function.returns(args))(*values)


def test_a_change_makes_a_copy() -> None:
    held = {"a": 1}
    assert call("put", held, "b", 2) == {"a": 1, "b": 2}
    assert call("remove", held, "a") == {}
    assert call("putAll", held, {"a": 5}) == {"a": 5}
    assert call("replace", held, "x", 1) == {"a": 1}
    assert call("putIfAbsent", held, "c", 3) == {"a": 1, "c": 3}
    assert call("clear", held) == {}
    assert held == {"a": 1}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("get", (None, "a")),
        ("put", ([1], "a", 1)),
        ("putAll", ({}, None)),
        ("toJSON", (None,)),
        ("put", ({}, {}, 1)),
        ("createFromJSON", ("[1]",)),
        ("createFromJSON", ("{",)),
        ("createFromXML", ("<a>",)),
        ("createFromXML", ("<a>\ud83d</a>",)),
        ("createFromXML", ("<a>" * 100_000,)),
        ("createFromXML", ("<a>" * 102 + "</a>" * 102,)),
        ("createFromXML", ("<a>" * 100_000 + "</a>" * 100_000,)),
        ("createFromJSON", ('{"a":' * 100_000,)),
        ("createFromXML", ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",)),
    ],
)
def test_what_is_no_map_is_an_error_of_the_event(name: str, values: tuple[Any, ...]) -> None:
    with pytest.raises(NadiError) as caught:
        call(name, *values)
    assert caught.value.condition == "FUNCTION_FAILED"


def test_a_key_without_a_value_is_refused() -> None:
    with pytest.raises(SignatureError, match="in turn"):
        call("create", "a", 1, "b")


def test_xml_is_read_with_numbers_and_inner_maps() -> None:
    text = "<s><a>x y</a><b>1.5</b><c>-20</c><d>true</d><e><f>1e3</f></e><g/><h>12abc</h></s>"
    expected = {"a": "x y", "b": 1.5, "c": -20, "d": True, "e": {"f": 1000}, "g": "", "h": "12abc"}
    assert call("createFromXML", text) == expected
    assert call("toXML", {"a": {"b": "<&>"}, "c": None}) == "<a><b>&lt;&amp;&gt;</b></a><c>null</c>"


def test_maps_lie_in_windows_and_survive_a_restart() -> None:
    app = """
        define stream In (k string, v int);
        from In select map:create(k, v, 'list', map:keys(map:create(k, v))) as m insert into Maps;
        from Maps#window.length(2) select m, map:get(m, 'b') as b insert all events into Out;
    """
    runtime = Runtime(app)
    runtime.start()
    runtime.send("In", [(None, ("a", 1))])
    other = Runtime(app)
    other.restore(runtime.persist())
    found: list[Any] = []
    other.on_stream("Out", lambda events: found.extend(e.row for e in events))
    other.start()
    other.send("In", [(None, ("b", 2))])
    other.send("In", [(None, ("c", 3))])
    first, second, third = (
        ({"a": 1, "list": ["a"]}, None),
        ({"b": 2, "list": ["b"]}, 2),
        ({"c": 3, "list": ["c"]}, None),
    )
    assert found == [second, first, third]


def test_several_maps_are_tokenized_together() -> None:
    app = "define stream In (x int); from In#map:tokenize(map:create('a', 1), map:create('b', x)) select key, value insert into Out;"
    runtime, found = Runtime(app), []
    runtime.on_stream("Out", lambda events: found.extend(e.row for e in events))
    runtime.start()
    runtime.send("In", [(None, (5,))])
    assert found == [("a", [1, None]), ("b", [None, 5])]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("2.0", "2"),
        ("100.0", "100"),
        ("1.25", "1.25"),
        ("1.0E7", "1.0E7"),
        ("1.0E-7", "1.0E-7"),
        ("math:abs(-0.0)", "0"),
    ],
)
def test_a_double_in_json_of_a_map_has_no_zeros_behind_its_point_as_in_siddhi(number: str, text: str) -> None:
    heard: list[Any] = []
    runtime = Runtime(
        f"define stream S (a int); from S select map:toJSON(map:create('k', {number})) as j insert into Out;"
    )
    runtime.on_stream("Out", lambda events: heard.extend(event.row for event in events))
    runtime.start()
    runtime.send("S", [(1,)])
    assert heard == [(f'{{"k":{text}}}',)]
