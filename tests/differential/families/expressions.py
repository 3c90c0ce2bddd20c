"""Random expressions of each type, of the functions of all namespaces."""

from __future__ import annotations

import random
from collections.abc import Callable

LITERALS = {
    "int": ("0", "1", "7", "-3", "16"),
    "long": ("10L", "0L", "-4L", "1415712224000L"),
    "float": ("1.5f", "-2.5f", "0f"),
    "double": ("2.5", "-0.5", "0.0", "100.25"),
    "string": ("'x'", "'Hello World'", "''", "'2014-11-11 13:23:44.657'", "'12'", "'1.5'", "'a,b,c'", "'true'"),
    "bool": ("true", "false"),
}
ATTRIBUTE = {"int": "a", "string": "b", "double": "c", "long": "d", "float": "e", "bool": "f"}
NUMERIC = ("int", "long", "float", "double")
TYPES = tuple(ATTRIBUTE)

# By the type of its result: how a call is written. A letter in braces is an argument: i int, l long, f float, d double, s string, b bool, n any number,
# g a floating number, o any type; a digit behind it tells two of them apart, and letters with an = take one type together.
CALLS: dict[str, tuple[str, ...]] = {
    "int": (
        "math:abs({i})",
        "math:parseInt({s})",
        "math:getExponent({d})",
        "math:signum({n})",
        "math:round({f})",
        "str:length({s})",
        "str:strcmp({s}, {s2})",
        "time:extract('YEAR', '2019/11/11 13:23:44.657', 'yyyy/MM/dd HH:mm:ss.SSS')",
        "time:extract({l}, '{unit}')",
        "map:size(map:create('k', {o}))",
        "convert({o}, 'int')",
        "cast({i}, 'int')",
        "coalesce({i}, {i2})",
        "default({i}, 5)",
        "ifThenElse({b}, {i}, {i2})",
        "maximum({i}, {i2}, {i3})",
        "minimum({i}, {i2})",
        "sizeOfSet(createSet({p}))",
        "({i} {op} {i2})",
    ),
    "long": (
        "math:abs({l})",
        "math:parseLong({s})",
        "math:round({d})",
        "time:dateDiff({l}, {l2})",
        "time:timestampInMilliseconds('2007-11-30 10:30:19.000', 'yyyy-MM-dd HH:mm:ss.SSS')",
        "str:charFrequency({s}, 'l')",
        "convert({o}, 'long')",
        "cast({l}, 'long')",
        "coalesce({l}, {l2})",
        "default({l}, 5L)",
        "ifThenElse({b}, {l}, {l2})",
        "maximum({l}, {l2})",
        "minimum({l}, {l2})",
        "eventTimestamp()",
        "({l} {op} {i})",
        "({l} {op} {l2})",
    ),
    "float": (
        "math:abs({f})",
        "math:parseFloat({s})",
        "convert({o}, 'float')",
        "coalesce({f}, {f2})",
        "default({f}, 1.5f)",
        "ifThenElse({b}, {f}, {f2})",
        "maximum({f}, {f2})",
        "minimum({f}, {f2})",
        "({f} {op} {f2})",
        "({f} {op} {i})",
        "({l} {op} {f})",
    ),
    "double": (
        "math:abs({d})",
        "math:acos({n})",
        "math:asin({n})",
        "math:atan({n})",
        "math:atan({n}, {n2})",
        "math:cbrt({n})",
        "math:ceil({n})",
        "math:copySign({n}, {n2})",
        "math:cos({n})",
        "math:cosh({n})",
        "math:e()",
        "math:exp({n})",
        "math:floor({n})",
        "math:ln({n})",
        "math:log({n}, {n2})",
        "math:log10({n})",
        "math:log2({n})",
        "math:max({n}, {n2})",
        "math:min({n}, {n2})",
        "math:parseDouble({s})",
        "math:pi()",
        "math:power({n}, {n2})",
        "math:sin({n})",
        "math:sinh({n})",
        "math:sqrt({n})",
        "math:tan({n})",
        "math:tanh({n})",
        "math:toDegrees({n})",
        "math:toRadians({n})",
        "convert({o}, 'double')",
        "coalesce({d}, {d2})",
        "default({d}, 1.5)",
        "ifThenElse({b}, {d}, {d2})",
        "maximum({d}, {d2})",
        "minimum({d}, {d2})",
        "({d} {op} {n})",
        "({n} {op} {d})",
    ),
    "string": (
        "math:bin({i})",
        "math:bin({l})",
        "math:hex({n})",
        "math:oct({i})",
        "math:conv({s}, {radix}, {radix2})",
        "str:charAt({s}, {i})",
        "str:coalesce({s}, {s2})",
        "str:concat({s}, {s2})",
        "str:concat({s}, {s2}, {s3})",
        "str:fillTemplate('{{{{1}}}} and {{{{2}}}}', {o}, {o2})",
        "str:hex({s})",
        "str:lower({s})",
        "str:upper({s})",
        "str:repeat({s}, {i})",
        "str:replaceAll({s}, {regex}, 'Q')",
        "str:replaceFirst({s}, {regex}, 'Q')",
        "str:reverse({s})",
        "str:split({s}, ',', {i})",
        "str:split({s}, {regex}, 0)",
        "str:substr({s}, {i})",
        "str:substr({s}, {i}, {i2})",
        "str:substr({s}, {regex})",
        "str:substr({s}, {regex}, 1)",
        "str:trim({s})",
        "str:unhex({s})",
        "time:dateAdd('2014-11-11 13:23:44.657', {i}, '{unit}')",
        "time:dateAdd({l}, {i}, '{unit}')",
        "time:dateSub('2014-03-31', {i}, '{unit}', 'yyyy-MM-dd')",
        "time:dateSub({l}, {i}, '{unit}')",
        "time:dateFormat({l}, '{pattern}')",
        "time:dateFormat('2014/11/11 13:23:44', '{pattern}', 'yyyy/MM/dd HH:mm:ss')",
        "time:date('2014/11/11 13:23:44', 'yyyy/MM/dd HH:mm:ss')",
        "time:dayOfWeek('2014-12-11 13:23:44.657')",
        "time:extract({l}, '{unit}')",
        "convert({o}, 'string')",
        "cast({s}, 'string')",
        "coalesce({s}, {s2})",
        "default({s}, 'none')",
        "ifThenElse({b}, {s}, {s2})",
        "map:toJSON(map:create('k', {o}))",
    ),
    "bool": (
        "math:isInfinite({g})",
        "math:isNan({g})",
        "str:contains({s}, {s2})",
        "str:equalsIgnoreCase({s}, {s2})",
        "str:regexp({s}, {regex})",
        "map:isMap(map:create('k', {o}))",
        "convert({o}, 'bool')",
        "coalesce({b}, {b2})",
        "default({b}, true)",
        "ifThenElse({b}, {b2}, {b3})",
        "instanceOfInteger({o})",
        "instanceOfLong({o})",
        "instanceOfFloat({o})",
        "instanceOfDouble({o})",
        "instanceOfString({o})",
        "instanceOfBoolean({o})",
        "({n} {compared} {n2})",
        "({s} {equal} {s2})",
        "({b} {equal} {b2})",
        "({p} is null)",
        "({o} is null)",
        "not ({b})",
        "({b} and {b2})",
        "({b} or {b2})",
    ),
    "object": (
        "map:get(map:create('k', {o}), 'k')",
        "map:get(map:put(map:create(), {s}, {o}), 'x')",
        "map:get(map:create('k', {i}), {s}, {i2})",
        "map:get(map:remove(map:create('k', {o}), {s}), 'k')",
        "map:get(map:putAll(map:create('k', {o}), map:create('k', {o2})), 'k')",
        "map:get(map:putIfAbsent(map:create('k', {o}), 'k', {o2}), 'k')",
    ),
}
UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "WEEK", "QUARTER")
PATTERNS = ("yyyy-MM-dd", "HH:mm:ss", "yyyy/MM/dd HH:mm:ss.SSS", "EEE, d MMM yyyy", "dd", "hh a", "yyyyMMdd", "D")
REGEXES = ("'[a-z]+'", "'(.)'", "'l+'", "'H(.*)d'", "'.*'", "','")
_KINDS = {"i": "int", "l": "long", "f": "float", "d": "double", "s": "string", "b": "bool"}


def expression(r: random.Random, kind: str, depth: int = 2) -> str:
    """An expression of a type: an attribute, a constant or a call."""
    if kind != "object" and (depth == 0 or r.random() < 0.35):
        return ATTRIBUTE[kind] if r.random() < 0.7 else r.choice(LITERALS[kind])
    text = r.choice(CALLS[kind])
    return text.format_map(_Arguments(r, depth - 1))


class _Arguments(dict[str, str]):
    """What stands for the names in braces; each is made when it is asked for."""

    def __init__(self, r: random.Random, depth: int) -> None:
        super().__init__()
        self._r, self._depth = r, max(depth, 0)

    def __missing__(self, name: str) -> str:
        return self._make(name.rstrip("123456789"))

    def _make(self, name: str) -> str:
        r = self._r
        if name in _KINDS:
            return expression(r, _KINDS[name], self._depth)
        made: dict[str, Callable[[], str]] = {
            "n": lambda: expression(r, r.choice(NUMERIC), self._depth),
            "g": lambda: expression(r, r.choice(["float", "double"]), self._depth),
            "o": lambda: expression(r, r.choice(TYPES), self._depth),
            "p": lambda: r.choice(list(ATTRIBUTE.values())),
            "op": lambda: r.choice("+-*/%"),
            "compared": lambda: r.choice(["<", ">", "<=", ">=", "==", "!="]),
            "equal": lambda: r.choice(["==", "!="]),
            "unit": lambda: r.choice(UNITS),
            "pattern": lambda: r.choice(PATTERNS),
            "regex": lambda: r.choice(REGEXES),
            "radix": lambda: r.choice(["2", "8", "10", "16"]),
        }
        return made[name]()
