"""The namespace `json`: reading and changing JSON, given as text or as an object, by paths (see `jsonpath`).

A path that leads nowhere gives null; a text that is no JSON and a null argument are errors. The object that is given is never changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nadi.functions import jsonpath, jsontext
from nadi.functions.arithmetic import java_text, parse_double, parse_float, parse_int, parse_long
from nadi.functions.declare import ANY, GIVEN, failed, scalar, text
from nadi.functions.entries import Entry, ScalarFunction, StreamFunctionSpec
from nadi.functions.signatures import Arguments, Parameter, constant, match
from nadi.lang.tree import Type
from nadi.plan.catalog import Column, SignatureError

_JSON = Parameter("json", (Type.STRING, Type.OBJECT))
_PATH = text("path")
_MISSING = object()


def _parsed(name: str, value: Any) -> Any:
    if value is None:
        raise failed(name, "'json' is null")
    if not isinstance(value, str):
        return value
    try:
        return jsontext.parse(value)
    except ValueError as reason:
        raise failed(name, reason) from reason


def _path(name: str, path: str | None) -> jsonpath.Path:
    if path is None:
        raise failed(name, "'path' is null")
    try:
        return jsonpath.path(path)
    except (jsonpath.PathError, ValueError) as reason:
        raise failed(name, reason) from reason


def _at(name: str, value: Any, path: str | None) -> Any:
    """What is at a path, or `_MISSING`."""
    where = _path(name, path)
    try:
        return where.read(_parsed(name, value))
    except jsonpath.NothingThereError:
        return _MISSING
    except jsonpath.TooMuchError as reason:
        raise failed(name, reason) from reason


def _checked(result: Type) -> Callable[[Arguments], Type]:
    def returns(args: Arguments) -> Type:
        check_path(args[1])
        return result

    return returns


def check_path(argument: Any) -> None:
    """Refuses a constant path that is none, when the app is made."""
    if argument.is_constant:
        try:
            jsonpath.path(str(argument.value))
        except ValueError as reason:
            raise SignatureError(str(reason)) from reason


# ---- get -----------------------------------------------------------------------------------------------------------


def _single(name: str, value: Any, path: str | None) -> Any:
    """One value: of a list with one element that element, of other lists nothing."""
    found = _at(name, value, path)
    if isinstance(found, list):
        return found[0] if len(found) == 1 else None
    return None if found is _MISSING else found


def _to_bool(word: str) -> bool | None:
    return {"true": True, "false": False}.get(word.lower())


def _getter(kind: str, result: Type, parse: Callable[[str], Any], example: str) -> ScalarFunction:
    name = f"json:get{kind}"

    def get(value: Any, path: str | None) -> Any:
        found = _single(name, value, path)
        return None if found is None else parse(java_text(found))

    nothing = "false" if result is Type.BOOL else "null"
    doc = f"The {result} at a path; {nothing} if nothing is there, or something else."
    return scalar(name, doc, (example,), _checked(result), [(_JSON, _PATH)], get, nulls=GIVEN)


def _get_string(value: Any, path: str | None) -> str | None:
    found = _at("json:getString", value, path)
    if found is _MISSING or found is None:
        return None
    return found if isinstance(found, str) else jsontext.written(found)


def _get_object(value: Any, path: str | None) -> Any:
    found = _at("json:getObject", value, path)
    if found is _MISSING:
        return None
    return found[0] if isinstance(found, list) and len(found) == 1 else found


# ---- set -----------------------------------------------------------------------------------------------------------


def _set(value: Any, path: str | None, element: Any, *key: str | None) -> Any:
    name = "json:setElement"
    where, whole = _path(name, path), _parsed(name, value)
    if not where.definite:
        raise failed(name, f"{path!r} may mean several places; setElement needs a path that means one")
    try:
        target = where.read(whole)
    except jsonpath.NothingThereError:
        return whole
    added = _element(element)
    if isinstance(target, list):
        return where.replaced(whole, lambda found: [*found, added])
    if key and key[0] is not None:
        if not isinstance(target, dict):
            raise failed(name, f"what is at {path!r} is no object, it cannot take the key {key[0]!r}")
        return where.replaced(whole, lambda found: {**found, key[0]: added})
    return where.replaced(whole, lambda found: added)


def _element(element: Any) -> Any:
    """A text that is an object or an array goes in as that."""
    if isinstance(element, str) and element.lstrip()[:1] in ("{", "["):
        try:
            return jsontext.parse(element)
        except ValueError:
            return element
    return element


# ---- tokenize ------------------------------------------------------------------------------------------------------


def _check_tokenize(element: Type) -> Callable[[Arguments], tuple[Column, ...]]:
    def check(args: Arguments) -> tuple[Column, ...]:
        flag = constant("fail.on.missing.attribute", Type.BOOL)
        match(args, (_JSON, _PATH), (_JSON, _PATH, flag))
        check_path(args[1])
        return (Column("jsonElement", element),)

    return check


def _make_tokenize(name: str, write: Callable[[Any], Any]) -> Callable[[tuple[Type, ...]], Callable[..., Any]]:
    def tokenize(values: tuple[Any, ...]) -> list[tuple[Any]]:
        found = _at(name, values[0], values[1])
        if found is _MISSING or found is None or found == []:
            return [(None,)] if len(values) == 3 and values[2] is False else []
        return [(write(f),) for f in found] if isinstance(found, list) else [(write(found),)]

    return lambda types: tokenize


# ---- entries -------------------------------------------------------------------------------------------------------

_JOHN = "\"{'name': 'John', 'age': 23}\""

ENTRIES: tuple[Entry, ...] = (
    _getter("Bool", Type.BOOL, _to_bool, "json:getBool(\"{'married': true}\", '$.married') → true"),
    _getter("Double", Type.DOUBLE, parse_double, "json:getDouble(\"{'height': 1.5}\", '$.height') → 1.5"),
    _getter("Float", Type.FLOAT, parse_float, "json:getFloat(\"{'height': 1.5}\", '$.height') → 1.5f"),
    _getter("Int", Type.INT, parse_int, f"json:getInt({_JOHN}, '$.age') → 23"),
    _getter("Long", Type.LONG, parse_long, f"json:getLong({_JOHN}, '$.age') → 23L"),
    scalar(
        "json:getObject",
        "What is at a path, as an object; of an array with one element that element.",
        ("json:getObject(\"{'address': {'city': 'NY'}}\", '$.address') → {\"city\":\"NY\"}",),
        _checked(Type.OBJECT),
        [(_JSON, _PATH)],
        _get_object,
        nulls=GIVEN,
    ),
    scalar(
        "json:getString",
        "What is at a path, as text: a text as it is, other values as JSON.",
        (
            f"json:getString({_JOHN}, '$.name') → 'John'",
            "json:getString(\"{'tags': ['a', 'b']}\", '$.tags') → '[\"a\",\"b\"]'",
        ),
        _checked(Type.STRING),
        [(_JSON, _PATH)],
        _get_string,
        nulls=GIVEN,
    ),
    scalar(
        "json:isExists",
        "Whether a path leads to something, null included.",
        (f"json:isExists({_JOHN}, '$.salary') → false",),
        _checked(Type.BOOL),
        [(_JSON, _PATH)],
        lambda value, path: _at("json:isExists", value, path) is not _MISSING,
        nulls=GIVEN,
    ),
    scalar(
        "json:setElement",
        "A copy in which the element is appended to the array at the path, put under the key of the object there, or put in the place of what is there.",
        (
            "json:setElement(\"{'name': 'John'}\", '$', 40, 'age') → {\"name\":\"John\",\"age\":40}",
            "json:setElement(\"{'items': ['pen']}\", '$.items', 'book') → {\"items\":[\"pen\",\"book\"]}",
            "json:setElement(\"{'item': 'pen'}\", '$.item', 'book') → {\"item\":\"book\"}",
        ),
        _checked(Type.OBJECT),
        [
            (_JSON, _PATH, Parameter("json.element", ANY)),
            (_JSON, _PATH, Parameter("json.element", ANY), text("key")),
        ],
        _set,
        nulls=GIVEN,
    ),
    scalar(
        "json:toObject",
        "The object that a JSON text describes.",
        ('json:toObject("{\'a\': [1, 2]}") → {"a":[1,2]}',),
        Type.OBJECT,
        [(_JSON,)],
        lambda value: _parsed("json:toObject", value),
    ),
    scalar(
        "json:toString",
        "A value as JSON text.",
        ("json:toString(json:toObject(\"{'a': [1, 2]}\")) → '{\"a\":[1,2]}'",),
        Type.STRING,
        [(_JSON,)],
        jsontext.written,
        nulls=GIVEN,
    ),
    StreamFunctionSpec(
        "json:tokenize",
        _check_tokenize(Type.STRING),
        _make_tokenize("json:tokenize", lambda v: v if isinstance(v, str) else jsontext.written(v)),
        "The event goes on once for each element at a path, which is its attribute `jsonElement` as text; without any it is dropped, or goes on with null.",
        ("json", "path", "fail.on.missing.attribute"),
        ("#json:tokenize(\"{'subjects': ['Maths', 7]}\", '$.subjects') → ('Maths'), ('7')",),
        many=True,
    ),
    StreamFunctionSpec(
        "json:tokenizeAsObject",
        _check_tokenize(Type.OBJECT),
        _make_tokenize("json:tokenizeAsObject", lambda v: v),
        "The event goes on once for each element at a path, which is its attribute `jsonElement` as an object.",
        ("json", "path", "fail.on.missing.attribute"),
        ("#json:tokenizeAsObject(\"{'rows': [{'a': 1}, {'a': 2}]}\", '$.rows') → ({\"a\":1}), ({\"a\":2})",),
        many=True,
    ),
)
