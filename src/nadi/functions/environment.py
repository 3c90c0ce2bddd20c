"""The namespace `env`: properties of the node, and the address that a request came from.

Properties are those that the runtime (`Runtime(…, properties=…)`) or the node (`--conf nadi.properties.region=eu`) was given, the same for all three kinds:
what a machine's environment holds would make results depend on where an app runs. User agents (`env:getUserAgentProperty`) are not read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from nadi.functions.arithmetic import parse_double, parse_float, parse_int, parse_long
from nadi.functions.declare import GIVEN, NULL, VALUES, failed, scalar, text
from nadi.functions.entries import Entry, ScalarFunction
from nadi.functions.signatures import Arguments, Parameter, constant
from nadi.lang.tree import Type
from nadi.plan.catalog import SignatureError

_KEY, _TYPE = text("key"), constant("data.type", Type.STRING)
_PARSE: dict[Type, Callable[[str], Any]] = {
    Type.STRING: str,
    Type.INT: parse_int,
    Type.LONG: parse_long,
    Type.FLOAT: parse_float,
    Type.DOUBLE: parse_double,
    Type.BOOL: lambda word: word.lower() == "true",
}


def _property(properties: Mapping[str, str], key: str | None, default: str | None = None) -> str | None:
    return default if key is None else properties.get(key, default)


def _property_type(args: Arguments) -> Type:
    if len(args) == 1:
        return Type.STRING
    name = str(args[1].value).lower()
    kind = next((t for t in VALUES if t.value == name), None)
    if kind is None:
        raise SignatureError(f"'data.type' must be one of {', '.join(map(str, VALUES))}, not '{args[1].value}'")
    if len(args) == 3 and args[2].type is not kind:
        raise SignatureError(f"'default.value' must be {kind}, as 'data.type' says, not {args[2].type}")
    return kind


def _make_property(args: Arguments, result: Type) -> Callable[..., Any]:
    def get(properties: Mapping[str, str], key: str | None, _type: str = "", default: Any = None) -> Any:
        word = None if key is None else properties.get(key)
        if word is None:
            return default
        value = _PARSE[result](word)
        if value is None:
            raise failed("env:getYAMLProperty", f"the property '{key}' is {word!r}, no {result}")
        return value

    return get


_ADDRESS = re.compile(r"(?:(?:[01]?\d\d?|2[0-4]\d|25[0-5])(?:\.(?!\Z)|\Z)){4}\Z", re.ASCII)
_PRIVATE = re.compile(r"127\.|10\.|172\.(?:1[6-9]|2\d|3[01])\.|192\.168\.", re.ASCII)


def _origin(header: str) -> str | None:
    addresses = (part.strip() for part in header.split(","))
    return next((a for a in addresses if _ADDRESS.match(a) and not _PRIVATE.match(a)), None)


def _reading(name: str, what: str) -> ScalarFunction:
    return scalar(
        f"env:{name}",
        f"A property of the node by its name, {what}; the default (null) where there is none.",
        (f"env:{name}('region', 'none') → 'eu'", f"env:{name}('nothing', 'none') → 'none'"),
        Type.STRING,
        [(_KEY,), (_KEY, text("default.value"))],
        _property,
        nulls=GIVEN,
        needs=("properties",),
    )


ENTRIES: tuple[Entry, ...] = (
    _reading("getEnvironmentProperty", "as Siddhi reads variables of the environment"),
    _reading("getSystemProperty", "as Siddhi reads those of the JVM"),
    scalar(
        "env:getYAMLProperty",
        "A property of the node as a type; the default (null) where there is none.",
        ("env:getYAMLProperty('region') → 'eu'", "env:getYAMLProperty('limit', 'int', 5) → 5"),
        _property_type,
        [(_KEY,), (_KEY, _TYPE), (_KEY, _TYPE, Parameter("default.value", VALUES))],
        make=_make_property,
        nulls=GIVEN,
        needs=("properties",),
    ),
    scalar(
        "env:getOriginIPFromXForwarded",
        "The first public address in the header X-Forwarded-For; null where there is none.",
        ("env:getOriginIPFromXForwarded('10.1.2.3, 203.0.113.7, 198.51.100.1') → '203.0.113.7'",),
        Type.STRING,
        [(text("xforwardedheader"),)],
        _origin,
        nulls=NULL,
    ),
)
