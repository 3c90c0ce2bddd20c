"""Values by chance: from an entry of a simulation's `attributeConfiguration` to what makes values, the same ones for the same seed."""

from __future__ import annotations

import random
import re._constants as opcodes  # type: ignore[import-not-found]  # as rstr has them: there is no public form of a pattern's parts
import re._parser as patterns  # type: ignore[import-not-found]
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema
from nadi.server.simulation.people import PROPERTIES, made_property
from nadi.server.simulation.values import converted, text_of

LONGEST_PATTERN = 1_000  # characters
LONGEST_TEXT = 10_000  # characters that a value may have
LONGEST_LIST = 100_000
STARS = 100  # how often * and + repeat at most
MOST_PRECISE = 17

_WRITTEN = frozenset(
    {
        opcodes.LITERAL,
        opcodes.NOT_LITERAL,
        opcodes.ANY,
        opcodes.IN,
        opcodes.AT,
        opcodes.BRANCH,
        opcodes.SUBPATTERN,
        opcodes.GROUPREF,
        opcodes.MAX_REPEAT,
        opcodes.MIN_REPEAT,
    }
)

Make = Callable[[], Any]
_LETTERS = string.ascii_letters + string.digits
_BOUNDS = {Type.INT: (1 << 31), Type.LONG: (1 << 63)}
_PRIMITIVES = {
    kind.value.upper(): kind for kind in (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.STRING, Type.BOOL)
}


def makers(entries: Sequence[Mapping[str, Any]], schema: Schema, seed: int | None) -> list[Make]:
    """What makes a value of each attribute of a stream. Raises ValueError, which names the attribute."""
    if len(entries) != len(schema):
        raise ValueError(f"the stream has {len(schema)} attributes, 'attributeConfiguration' has {len(entries)}")
    chance = random.Random(seed)  # one for all: values of a row are made in the order of its attributes
    return [_of_type(_maker(entry, column, chance), column) for entry, column in zip(entries, schema.columns)]


def _maker(entry: Mapping[str, Any], column: Column, chance: random.Random) -> Make:
    kind = entry.get("type")
    try:
        if kind == "PRIMITIVE_BASED":
            return _primitive(entry, column, chance)
        if kind == "PROPERTY_BASED":
            name = entry.get("property")
            if name not in PROPERTIES:
                raise ValueError(f"'property' is one of {', '.join(PROPERTIES)}")
            return made_property(str(name), chance)
        if kind == "REGEX_BASED":
            return _matching(entry.get("pattern"), chance)
        if kind == "CUSTOM_DATA_BASED":
            return _chosen(entry.get("list"), chance)
        raise ValueError("'type' is PRIMITIVE_BASED, PROPERTY_BASED, REGEX_BASED or CUSTOM_DATA_BASED")
    except ValueError as reason:
        raise ValueError(f"the attribute '{column.name}': {reason}") from reason


def _of_type(make: Make, column: Column) -> Make:
    """The values as the attribute has them; one is made at once, so that what cannot fit is found before the feed runs."""
    schema = Schema((column,))
    converted([make()], schema)
    return lambda: converted([make()], schema)[0]


def _primitive(entry: Mapping[str, Any], column: Column, chance: random.Random) -> Make:
    named = str(entry.get("primitiveType") or column.type.value).upper()
    if named not in _PRIMITIVES:
        raise ValueError(f"'primitiveType' is one of {', '.join(_PRIMITIVES)}")
    kind = _PRIMITIVES[named]
    if kind is Type.BOOL:
        return lambda: chance.random() < 0.5
    if kind is Type.STRING:
        length = _whole(entry, "length", 5, 0, LONGEST_TEXT)
        return lambda: "".join(chance.choices(_LETTERS, k=length))
    if kind in _BOUNDS:
        bound = _BOUNDS[kind]
        low, high = (_whole(entry, key, n, -bound, bound - 1) for key, n in (("min", 0), ("max", 999)))
        _check_order(low, high)
        return lambda: chance.randint(low, high)
    least, greatest = (_real(entry, key, n) for key, n in (("min", 0.0), ("max", 999.0)))
    _check_order(least, greatest)
    digits = _whole(entry, "precision", 2, 0, MOST_PRECISE)
    return lambda: round(chance.uniform(least, greatest), digits)


def _matching(pattern: object, chance: random.Random) -> Make:
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= LONGEST_PATTERN:
        raise ValueError(f"'pattern' is a regular expression of 1 to {LONGEST_PATTERN:,} characters")
    try:
        parsed = patterns.parse(pattern)
        size = longest(parsed)
        if size > LONGEST_TEXT:
            raise ValueError(f"'pattern' may make texts of more than {LONGEST_TEXT:,} characters")
        writer = _writer(chance)
        writer.xeger(pattern)
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError, OverflowError, patterns.error) as reason:
        raise ValueError(f"'pattern' cannot be written from: {reason!r}") from reason
    return lambda: writer.xeger(pattern)


def _writer(chance: random.Random) -> Any:
    """rstr, which cannot write what is to be repeated more than 100 times."""
    from rstr import Rstr

    class Writer(Rstr):
        def _handle_repeat(self, start_range: int, end_range: int, value: Any) -> str:
            times = chance.randint(start_range, max(start_range, min(end_range, STARS)))
            return "".join(str(self._handle_state(part)) for _ in range(times) for part in value)

    return Writer(chance)


def longest(parsed: Any) -> int:
    """How many characters texts that are made of a pattern may have at most; parts that are repeated count as work even where they are empty.

    >>> longest(patterns.parse("[a-z]{3}(x|yz)*")), longest(patterns.parse("((a{100}){100}){100}"))
    (203, 1000000)
    """
    sizes: dict[int, int] = {}

    def of(items: Any) -> int:
        return sum(map(one, items))

    def one(item: tuple[Any, Any]) -> int:
        code, value = item
        if code in (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT):
            low, high, inner = value
            return max(int(low), min(int(high), STARS)) * max(1, of(inner))
        if code is opcodes.SUBPATTERN:
            size = of(value[-1])
            if value[0]:
                sizes[value[0]] = size
            return size
        if code is opcodes.BRANCH:
            return max(map(of, value[1]), default=0)
        if code not in _WRITTEN:
            raise ValueError(f"'pattern' has {str(code).lower()}, which texts cannot be made from")
        return sizes.get(value, 0) if code is opcodes.GROUPREF else 1

    return of(parsed)


def _chosen(given: object, chance: random.Random) -> Make:
    values = [part.strip() for part in given.split(",")] if isinstance(given, str) else given
    if not isinstance(values, list) or not 1 <= len(values) <= LONGEST_LIST:
        raise ValueError("'list' has the values to choose from")
    if any(isinstance(value, dict | list) for value in values):
        raise ValueError("'list' has texts, numbers, true and false")
    return lambda: chance.choice(values)


def _whole(entry: Mapping[str, Any], key: str, default: int, least: int, most: int) -> int:
    given = entry.get(key)
    if given is None or given == "":
        return default
    try:
        found = int(text_of(given))
    except ValueError:
        found = least - 1
    if not least <= found <= most:
        raise ValueError(f"'{key}' is a whole number from {least} to {most}")
    return found


def _real(entry: Mapping[str, Any], key: str, default: float) -> float:
    given = entry.get(key)
    if given is None or given == "":
        return default
    try:
        found = float(text_of(given))
    except ValueError:
        found = float("nan")
    if not abs(found) < float("inf"):
        raise ValueError(f"'{key}' is a number")
    return found


def _check_order(low: float, high: float) -> None:
    if high < low:
        raise ValueError("'max' is less than 'min'")
