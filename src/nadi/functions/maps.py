"""The namespace `map`: maps are objects that hold values by key.

A function that changes a map gives a changed copy; the map of the event stays as it was, for events may lie in windows. Keys keep the order in which
they came. Where a map is needed, null and other values are errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from nadi.functions import jsontext
from nadi.functions.arithmetic import java_text
from nadi.functions.declare import GIVEN, anything, failed, on_objects, scalar, text, thing
from nadi.functions.entries import Entry, StreamFunctionSpec
from nadi.functions.signatures import Arguments, Parameter, constant, match
from nadi.lang.tree import Type
from nadi.plan.catalog import Column, SignatureError
from nadi.received import DEEPEST, TOO_DEEP

_MAP = thing("map")
_KEY, _VALUE = anything("key"), anything("value")


def _key(value: Any) -> Any:
    if isinstance(value, (dict, list)):
        raise failed("map", "a map or a list cannot be a key")
    return value


def _pairs_type(args: Arguments) -> Type:
    if len(args) % 2:
        raise SignatureError(f"takes keys and values in turn, found {len(args)} parameters")
    return Type.OBJECT


def _create(*values: Any) -> dict[Any, Any]:
    return {_key(k): v for k, v in zip(values[::2], values[1::2])}


def _from_json(value: str) -> Any:
    try:
        found = jsontext.parse(value)
    except ValueError as reason:
        raise failed("map:createFromJSON", reason) from reason
    if not isinstance(found, dict):
        raise failed("map:createFromJSON", f"{value[:80]!r} is no JSON object")
    return found


# ---- XML -----------------------------------------------------------------------------------------------------------


def _from_xml(value: str) -> Any:
    if "<!DOCTYPE" in value or "<!ENTITY" in value:
        raise failed("map:createFromXML", "document types and entities are not supported")
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise failed("map:createFromXML", f"{value[:80]!r} is not XML: it has a half of a character")
    try:
        return _children(ElementTree.fromstring(value))
    except (ElementTree.ParseError, ValueError) as reason:
        raise failed("map:createFromXML", f"{value[:80]!r} is not XML: {reason}") from reason


def _children(element: ElementTree.Element, level: int = 1) -> dict[str, Any]:
    if level > DEEPEST:
        raise ValueError(TOO_DEEP)
    return {child.tag: _children(child, level + 1) if len(child) else _scalar(child.text or "") for child in element}


def _scalar(word: str) -> Any:
    """A number, true, false, or the text."""
    if word in ("true", "false"):
        return word == "true"
    try:
        number = jsontext.parse(word) if word[:1] in tuple("-0123456789") else word
    except ValueError:
        return word
    if isinstance(number, float) and number.is_integer() and abs(number) < 2**63:
        return int(number)
    return number if isinstance(number, (int, float)) else word


def _to_json(value: dict[Any, Any]) -> str:
    return jsontext.written(value, short=True)


def _to_xml(value: dict[Any, Any], root: str = "") -> str:
    inner = "".join(f"<{_tag(k)}>{_content(v)}</{_tag(k)}>" for k, v in value.items())
    return f"<{root}>{inner}</{root}>" if root else inner


def _tag(key: Any) -> str:
    return java_text(key)


def _content(value: Any) -> str:
    if isinstance(value, dict):
        return _to_xml(value)
    return java_text(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# ---- tokenize ------------------------------------------------------------------------------------------------------


def _check_tokenize(args: Arguments) -> tuple[Column, ...]:
    match(args, (_MAP, Parameter("map", (Type.OBJECT,), rest=True)))
    return (Column("key", Type.OBJECT), Column("value", Type.OBJECT))


def _make_tokenize(types: tuple[Type, ...]) -> Callable[[tuple[Any, ...]], Any]:
    def tokenize(*maps: dict[Any, Any]) -> list[tuple[Any, Any]]:
        if len(maps) == 1:
            return list(maps[0].items())
        return list(_combined(*maps).items())

    checked = on_objects("map:tokenize", dict, tokenize, len(types))
    return lambda values: checked(*values)


def _combined(*maps: dict[Any, Any]) -> dict[Any, list[Any]]:
    keys = dict.fromkeys(k for m in maps for k in m)
    return {k: [m.get(k) for m in maps] for k in keys}


# ---- changes -------------------------------------------------------------------------------------------------------


def _put_if_absent(held: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    return held if held.get(key) is not None else {**held, _key(key): value}


def _replace(held: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    return {**held, key: value} if key in held else held


def _entry(
    name: str,
    doc: str,
    example: str,
    result: Type,
    parameters: tuple[Parameter, ...],
    function: Callable[..., Any],
    maps: int = 1,
) -> Entry:
    checked = on_objects(f"map:{name}", dict, function, maps)
    return scalar(f"map:{name}", doc, (f"map:{name}({example}",), result, [parameters], checked, nulls=GIVEN)


_O, _B = Type.OBJECT, Type.BOOL
_AB = "map:create('a', 1, 'b', 2)"

ENTRIES: tuple[Entry, ...] = (
    scalar(
        "map:create",
        "A map of keys and values, given in turn; an empty one without any.",
        ("map:create('a', 1, 'b', 2.5) → {\"a\":1,\"b\":2.5}", "map:create() → {}"),
        _pairs_type,
        [(anything("key_or_value", rest=True),)],
        _create,
        nulls=GIVEN,
    ),
    scalar(
        "map:createFromJSON",
        "The map that a JSON object describes.",
        ('map:createFromJSON("{\'symbol\': \'IBM\', \'price\': 200}") → {"symbol":"IBM","price":200}',),
        _O,
        [(text("json.string"),)],
        _from_json,
    ),
    scalar(
        "map:createFromXML",
        "The map of the elements inside the root element; numbers, true and false are taken as such, elements with elements as maps.",
        (
            'map:createFromXML(\'<stock><symbol>IBM</symbol><price>200</price></stock>\') → {"symbol":"IBM","price":200}',
        ),
        _O,
        [(text("xml.string"),)],
        _from_xml,
    ),
    _entry("clear", "An empty map.", f"{_AB}) → {{}}", _O, (_MAP,), lambda m: {}),
    _entry("clone", "A copy of a map.", f'{_AB}) → {{"a":1,"b":2}}', _O, (_MAP,), dict),
    scalar(
        "map:combineByKey",
        "A map that holds for each key the list of its values in all maps, null where one lacks it.",
        ("map:combineByKey(map:create('a', 1), map:create('a', 2, 'b', 3)) → {\"a\":[1,2],\"b\":[null,3]}",),
        _O,
        [(_MAP, _MAP, Parameter("map", (_O,), rest=True))],
        make=lambda args, result: on_objects("map:combineByKey", dict, _combined, len(args)),
        nulls=GIVEN,
    ),
    _entry("containsKey", "Whether a map has a key.", f"{_AB}, 'a') → true", _B, (_MAP, _KEY), lambda m, k: k in m),
    _entry(
        "containsValue",
        "Whether a map holds a value.",
        f"{_AB}, 3) → false",
        _B,
        (_MAP, _VALUE),
        lambda m, v: v in m.values(),
    ),
    scalar(
        "map:get",
        "The value of a key; the default (null) where the map has not the key.",
        ("map:get(map:create('a', 1), 'a') → 1", "map:get(map:create('a', 1), 'b', 7) → 7"),
        _O,
        [(_MAP, _KEY), (_MAP, _KEY, anything("default.value"))],
        on_objects("map:get", dict, lambda m, k, default=None: m.get(_key(k), default)),
        nulls=GIVEN,
    ),
    _entry("isEmpty", "Whether a map has no keys.", "map:create()) → true", _B, (_MAP,), lambda m: not m),
    scalar(
        "map:isMap",
        "Whether a value is a map.",
        ("map:isMap('a') → false",),
        _B,
        [(anything("arg"),)],
        lambda value: isinstance(value, dict),
        nulls=GIVEN,
    ),
    _entry("keys", "The list of the keys.", f'{_AB}) → ["a","b"]', _O, (_MAP,), list),
    _entry(
        "put",
        "A map with one value more, or with another value for the key.",
        "map:create('a', 1), 'b', 2) → {\"a\":1,\"b\":2}",
        _O,
        (_MAP, _KEY, _VALUE),
        lambda m, k, v: {**m, _key(k): v},
    ),
    _entry(
        "putAll",
        "The first map with all of the second.",
        "map:create('a', 1), map:create('a', 5, 'b', 2)) → {\"a\":5,\"b\":2}",
        _O,
        (thing("to.map"), thing("from.map")),
        lambda m, n: {**m, **n},
        2,
    ),
    _entry(
        "putIfAbsent",
        "A map with one value more, unless it has one for the key.",
        f'{_AB}, \'a\', 9) → {{"a":1,"b":2}}',
        _O,
        (_MAP, _KEY, _VALUE),
        _put_if_absent,
    ),
    _entry(
        "remove",
        "A map without a key.",
        f"{_AB}, 'a') → {{\"b\":2}}",
        _O,
        (_MAP, _KEY),
        lambda m, k: {x: v for x, v in m.items() if x != k},
    ),
    _entry(
        "replace",
        "A map with another value for a key that it has.",
        f'{_AB}, \'a\', 9) → {{"a":9,"b":2}}',
        _O,
        (_MAP, _KEY, _VALUE),
        _replace,
    ),
    _entry(
        "replaceAll",
        "The first map with the values that the second has for its keys.",
        f"{_AB}, map:create('a', 9, 'c', 3)) → {{\"a\":9,\"b\":2}}",
        _O,
        (thing("to.map"), thing("from.map")),
        lambda m, n: {k: n.get(k, v) for k, v in m.items()},
        2,
    ),
    _entry("size", "How many keys a map has.", f"{_AB}) → 2", Type.INT, (_MAP,), len),
    _entry("toJSON", "A map as JSON text.", f'{_AB}) → \'{{"a":1,"b":2}}\'', Type.STRING, (_MAP,), _to_json),
    scalar(
        "map:toXML",
        "A map as XML, one element per key, in a root element if one is named.",
        (
            "map:toXML(map:create('symbol', 'wso2', 'volume', 100), 'stock') → '<stock><symbol>wso2</symbol><volume>100</volume></stock>'",
        ),
        Type.STRING,
        [(_MAP,), (_MAP, constant("root.element.name", Type.STRING))],
        on_objects("map:toXML", dict, _to_xml),
        nulls=GIVEN,
    ),
    _entry("values", "The list of the values.", f"{_AB}) → [1,2]", _O, (_MAP,), lambda m: list(m.values())),
    StreamFunctionSpec(
        "map:tokenize",
        _check_tokenize,
        _make_tokenize,
        "The event goes on once for each key of the maps, with the attributes `key` and `value` (of several maps the list of their values).",
        ("map", "…"),
        ("#map:tokenize(map:create('a', 1, 'b', 2)) → (\"a\", 1), (\"b\", 2)",),
        many=True,
    ),
)
