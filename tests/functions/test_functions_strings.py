"""The namespace str: nulls, errors, and what its examples do not show."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.functions import javaregex
from nadi.functions.registry import default_registry
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument, SignatureError
from nadi.runtime import Runtime

REGISTRY = default_registry()
_KINDS = {
    bool: Type.BOOL,
    int: Type.INT,
    float: Type.DOUBLE,
    str: Type.STRING,
    dict: Type.OBJECT,
    type(None): Type.STRING,
}


def call(name: str, *values: Any) -> Any:
    function = REGISTRY.function(f"str:{name}")
    assert function is not None
    args = tuple(Argument(_KINDS[type(v)], attribute="a") for v in values)
    return function.make(args, function.returns(args))(*values)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("length", (None,)),
        ("lower", (None,)),
        ("substr", (None, 1)),
        ("replaceAll", ("a", None, "b")),
        ("hex", (None,)),
        ("trim", (None,)),
    ],
)
def test_null_is_an_error_that_names_function_and_parameter(name: str, values: tuple[Any, ...]) -> None:
    with pytest.raises(NadiError, match=rf"parameter \d of 'str:{name}' met null") as caught:
        call(name, *values)
    assert caught.value.siddhi_class == "SiddhiAppRuntimeException"


def test_some_functions_take_nulls() -> None:
    assert call("contains", None, "a") is False
    assert call("contains", None, None) is False
    assert call("equalsIgnoreCase", "a", None) is False
    assert call("concat", "a", None, "b") == "ab"
    assert call("coalesce", None, "b") == "b"
    assert call("fillTemplate", "{{1}} {{2}}", None, "x") == "1 x"


def test_text_is_counted_in_units_of_utf_16() -> None:
    assert call("length", "a😀b") == 4
    assert call("substr", "a😀b", 3) == "b"
    assert call("substr", "a😀b", 1, 2) == "😀"
    assert call("charAt", "a😀b", 1) == "?"
    assert call("reverse", "a😀b") == "b😀a"
    assert call("strcmp", "😀", "\uffff") < 0
    assert call("hex", "😀") == "d83dde00"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("charAt", ("abc", 3)),
        ("charAt", ("abc", -1)),
        ("substr", ("abc", 4)),
        ("substr", ("abc", 1, 5)),
        ("substr", ("abc", "b", 1)),
        ("split", ("a,b", ",", 2)),
        ("unhex", ("4g",)),
        ("unhex", ("4",)),
        ("repeat", ("abc", 2**30)),
        ("regexp", ("a", "(")),
        ("replaceAll", ("a", "a", "$1")),
        ("fillTemplate", ("{{3}}", 1, 2)),
        ("charFrequency", ("aa", "aa")),
    ],
)
def test_values_that_cannot_be_taken_are_errors_of_the_event(name: str, values: tuple[Any, ...]) -> None:
    with pytest.raises(NadiError, match=f"str:{name}") as caught:
        call(name, *values)
    assert caught.value.condition == "FUNCTION_FAILED"


def test_a_constant_pattern_that_cannot_be_used_is_refused_when_the_app_is_made() -> None:
    for name in ("regexp", "replaceAll", "substr"):
        function = REGISTRY.function(f"str:{name}")
        assert function is not None
        extra = (Argument(Type.STRING),) if name == "replaceAll" else ()
        with pytest.raises(SignatureError, match="cannot be used"):
            function.returns((Argument(Type.STRING), Argument(Type.STRING, True, "("), *extra))


def test_case_is_ignored_character_by_character() -> None:
    assert call("equalsIgnoreCase", "STRASSE", "strasse")
    assert not call("equalsIgnoreCase", "STRASSE", "straße")
    assert call("equalsIgnoreCase", "ÄÖ", "äö")


def test_a_template_is_filled_anew_for_each_event() -> None:
    assert [call("fillTemplate", "n={{1}}", n) for n in (1, 2)] == ["n=1", "n=2"]
    assert call("fillTemplate", "{{ a }}-{{b}}", {"a": 1.5}) == "1.5-b"


def _rows(app: str, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    runtime = Runtime(app)
    found: list[tuple[Any, ...]] = []
    runtime.on_stream("Out", lambda events: found.extend(e.row for e in events))
    runtime.start()
    for row in rows:
        runtime.send("In", [(None, row)])
    return found


def test_keys_that_leave_a_window_leave_the_group() -> None:
    app = "define stream In (k string); from In#window.length(3) select str:groupConcat(k) as keys insert into Out;"
    rows = _rows(app, ("A",), ("B",), ("A",), ("C",), ("D",))
    assert [r[0] for r in rows] == ["A", "A,B", "A,A,B", "A,B,C", "A,C,D"]


def test_a_group_of_keys_survives_a_restart() -> None:
    app = "define stream In (k string); from In select str:groupConcat(k, '-', false, 'ASC') as keys insert into Out;"
    runtime = Runtime(app)
    runtime.start()
    runtime.send("In", [(None, (k,)) for k in ("B", "A", "B")])
    other = Runtime(app)
    other.restore(runtime.persist())
    found: list[Any] = []
    other.on_stream("Out", lambda events: found.extend(e.row[0] for e in events))
    other.start()
    other.send("In", [(None, ("C",))])
    assert found == ["A-B-B-C"]


def test_tokens_stand_in_the_place_of_their_event() -> None:
    app = "define stream In (line string); from In#str:tokenize(line, ' +', true)[token != 'the'] select token insert into Out;"
    assert _rows(app, ("the cat the cat sat",), ("",), ("end",)) == [("cat",), ("sat",), ("",), ("end",)]


def test_a_function_that_multiplies_events_is_refused_in_a_pattern() -> None:
    app = "define stream In (a string); from every e1=In#str:tokenize(a, ',') -> e2=In select e1.token as t insert into Out;"
    with pytest.raises(NadiError, match="multiplies events"):
        Runtime(app)


@pytest.mark.parametrize("name", ["replaceAll", "replaceFirst"])
@pytest.mark.parametrize("replacement", ["$1", "$", "${x}", "\\"])
def test_a_replacement_is_looked_at_only_where_something_matches(name: str, replacement: str) -> None:
    assert call(name, "abc", "x", replacement) == "abc"
    assert call(name, "", "x", replacement) == ""
    with pytest.raises(NadiError, match="FUNCTION_FAILED"):
        call(name, "abc", "b", replacement)


def test_an_event_whose_pattern_takes_too_many_steps_goes_to_the_fault_stream() -> None:
    runtime = Runtime(
        "@OnError(action='STREAM') define stream S (a string); from S[not str:regexp(a, '(?=(.*)(.*)(.*)x)a')] select a insert into Out;"
        "from !S select str:length(a) as n, _error insert into Faults;"
    )
    found: dict[str, list[Any]] = {"Out": [], "Faults": []}
    for stream, rows in found.items():
        runtime.on_stream(stream, lambda chunk, rows=rows: rows.extend(event.row for event in chunk))
    runtime.start()
    for text in ("a" * 400, "b"):
        runtime.send("S", [(None, (text,))])
    assert found["Out"] == [("b",)]
    assert [(n, "takes more than 500000 steps" in str(reason)) for n, reason in found["Faults"]] == [(400, True)]


def test_a_text_that_would_become_too_long_is_the_error_of_its_event() -> None:
    with pytest.raises(javaregex.PatternError, match="more than"):
        javaregex.replaced(javaregex.compiled(""), "a" * 1000, "b" * 100_000)
