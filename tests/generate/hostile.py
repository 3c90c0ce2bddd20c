"""Values that nobody expects, in events of generated apps and as arguments of every function; and what a failure must not say."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from hypothesis import strategies as st

from nadi.functions.declare import parts_of
from nadi.functions.entries import ScalarFunction
from tests.generate.inputs import GAPS, Message

INF, NAN = float("inf"), float("nan")
LONG_TEXT = "x" * 100_000
INTS = (0, 1, -1, 2, 31, 100_000, 2**31 - 1, -(2**31), None)
LONGS = (0, 1, -1, 500, 2**31, 2**53 + 1, 253_402_300_800_000, 2**63 - 1, -(2**63), None)
FLOATS = (0.0, -0.0, 0.5, 1.5, 2.0**-149, 3.4028234663852886e38, INF, -INF, NAN, None)
DOUBLES = (
    0.0,
    -0.0,
    0.5,
    2.5,
    5e-324,
    1e16,
    2.0**63,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    INF,
    -INF,
    NAN,
    None,
)
BOOLS = (True, False, None)
TEXTS = (
    *(
        "",
        " ",
        "a",
        "b",
        "A b",
        "\0",
        "\x005",
        "😀",
        "e\u0301",
        "\u202e",
        "İ",
        "ß",
        "١٢",
        "'",
        '"',
        "\\",
        LONG_TEXT,
        None,
    ),
    *("null", "NaN", "true", "-0", "1", "1.5", "1e999", "0x10", "2147483648", "9223372036854775808", "9" * 5_000),
    *("{}", "[1]", "[", '{"a":1}', "[" * 3_000, '{"a":' * 2_000, "$", "$1", "$.a", "$..", "$.a[99999999999999999999]"),
    *("(", "[a-", "*", "a{2,1}", "%s", "%ZZ", "UTC", "Mars/Phobos", "q", "yyyy-MM-dd", "2024-02-30", "year", "km"),
)
HALVES = ("\ud800", "\udc00x")
"""Halves of characters: only a program can hand them to an app, for no log has them."""
OBJECTS = (None, {}, [], {"a": None}, {"a": {"a": [1]}}, [1, "a", None, NAN], [[1], [2]], {1: 2}, "text", 5, NAN, True)

# ---- events of generated apps ----------------------------------------------------------------------------------------


def _one_of(values: Sequence[object]) -> st.SearchStrategy[object]:
    return st.integers(0, len(values) - 1).map(values.__getitem__)  # a strategy of the values would show the long ones


_ROW = st.tuples(*map(_one_of, (TEXTS, INTS, LONGS, FLOATS, DOUBLES, BOOLS)))
_EVENT = st.tuples(st.sampled_from((0, 0, 0, -20, 15)), _ROW)
_MESSAGES = st.lists(
    st.tuples(st.sampled_from(GAPS), st.sampled_from("SR"), st.lists(_EVENT, min_size=1, max_size=3)),
    min_size=4,
    max_size=16,
)


def _placed(given: list[tuple[int, str, list[tuple[int, tuple[object, ...]]]]]) -> list[Message]:
    made, now = [], 0
    for gap, stream, events in given:
        now += gap
        made.append(Message(now, stream, tuple((max(0, now + aside), row) for aside, row in events)))
    return sorted(made, key=lambda m: (m.order, "SR".index(m.stream)))


hostile_messages: st.SearchStrategy[list[Message]] = _MESSAGES.map(_placed)
"""As `tests.generate.inputs.messages`, of such values."""

# ---- calls of functions ----------------------------------------------------------------------------------------------

_COLUMNS = {
    "s": ("string", (*TEXTS, *HALVES)),
    "t": ("string", (*TEXTS, *HALVES)),
    "i": ("int", INTS),
    "j": ("int", INTS),
    "l": ("long", LONGS),
    "m": ("long", LONGS),
    "f": ("float", FLOATS),
    "d": ("double", DOUBLES),
    "b": ("bool", BOOLS),
    "o": ("object", OBJECTS),
}
SCHEMA = ", ".join(f"{name} {kind}" for name, (kind, _values) in _COLUMNS.items())
_ARGUMENTS = (*_COLUMNS, "map:create()", "map:create(s, d)", "createSet(s)", "list:create(s, d)", "json:toObject(s)")
_LIKE = (
    (re.compile("'.*'"), "st"),
    (re.compile("true|false"), "b"),
    (re.compile(r"-?\d+"), "ijlm"),
    (re.compile(r"-?\d+[lL]"), "lm"),
    (re.compile(r"-?[\d.]+[fFdD]?"), "df"),
)
"""What a literal of an example may be replaced with."""


def some_row(dice: random.Random) -> tuple[object, ...]:
    """The values of an event of `SCHEMA`."""
    return tuple(dice.choice(values) for _kind, values in _COLUMNS.values())


def some_call(dice: random.Random, function: ScalarFunction) -> str:
    """A call of a function: one of its examples with other arguments, or with any. Some are refused."""
    examples = [found[1] for e in function.examples if (found := _CALL.fullmatch(parts_of(e)[0].strip()))]
    if not examples or dice.random() < 0.2:
        return f"{function.name}({', '.join(dice.choice(_ARGUMENTS) for _ in range(dice.randrange(5)))})"
    arguments = split(dice.choice(examples))
    return f"{function.name}({', '.join(_another(dice, argument) for argument in arguments)})"


_CALL = re.compile(r"[\w:]+\((.*)\)")


def _another(dice: random.Random, argument: str) -> str:
    if dice.random() < 0.4:
        return "i" if argument == "x" else argument
    alike = next((names for form, names in _LIKE if form.fullmatch(argument)), _ARGUMENTS)
    return dice.choice(alike)


def split(arguments: str) -> list[str]:
    """The arguments of a call, one by one.

    >>> split("'a, b', f(1, 2), 3")
    ["'a, b'", 'f(1, 2)', '3']
    """
    found = re.findall(r"(?:'[^']*'|\"[^\"]*\"|\((?:[^()]|\([^()]*\))*\)|[^,'\"()])+", arguments)
    return [one.strip() for one in found if one.strip()]


# ---- failures --------------------------------------------------------------------------------------------------------

_OF_PYTHON = re.compile(
    r"NoneType|[a-z](Error|Exception)\b|Traceback|\bArrow|<class|<function|<built-in| object at 0x|\bcodec\b|must be str\b|must be real|"
    r"unsupported operand|could not convert|cannot convert|division by zero|positional argument|not subscriptable|has no attribute|"
    r"invalid literal|maximum recursion|too large to convert|not supported between|unhashable|math domain|Invalid isoformat|"
    r"Exceeds the limit|index out of|\bNone\b|\bTrue\b|\bFalse\b|\bnan\b|\binf\b|\(char \d|Expecting"
)


def words_of_python(messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of failures (condition, message) those that say what Python says."""
    return [(c, m) for c, m in messages if c == "QUERY_FAILED" or (c != "SCRIPT_FAILED" and _OF_PYTHON.search(m))]
