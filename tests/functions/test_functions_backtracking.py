"""Security finding 17: a pattern of an app, and a text in an event, that keep a kernel busy for longer than anybody waits."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from re import _parser as parser

import pytest

from nadi.errors import NadiError
from nadi.functions.backtracking import taken
from nadi.functions.javaregex import DEEPEST, PatternError, compiled
from nadi.pipeline.engine import plan_app

DOUBLING = [
    r"(a+)+b",
    r"(\w+\s?)*!",
    r"(a*)*",
    r"(a{1,3})+b",
    r"^(([a-z0-9])+.)+[A-Z]([a-z])+$",
    r"(.*a){25}x",
    r"(.*)*x",
    r"(\d+|\w+)*!",
    r"([a-zA-Z]+)*\d",
    r"(?=(a+)+b)c",
    r"(?>(a+)+b)",
    r"(a|ab|b)*c",
    r"^(\w+[.-]?)+@x$",
    r"(x+x+)+y",
    r"((a|b)*)*c",
    r"(a+){2,50}b",
    r"(?i:(a|A+)*)b",
    r"(b[^a](a?)+)*c",
    r"(b(a?)*c)*d",
]
STEADY = [
    r"a+b",
    r"(a|b)*c",
    r"(\w+\s)*$",
    r"(a++)+b",
    r"(?>a+)+b",
    r"(\d{1,3}\.){3}\d{1,3}",
    r"^[A-Z]{3}-\d+$",
    r".*foo.*bar.*",
    r"^\w+@\w+\.(com|org)$",
    r"[^,]*(,[^,]*)*",
    r'"([^"\\]|\\.)*"',
    r"(-?\d+(\.\d+)?([eE][+-]?\d+)?,)*",
    r"(ab|cd|ef)+x",
    r"^(?:[a-z]+/)*[a-z]+$",
    r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?Z\b",
    r"(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])",
]


@pytest.mark.parametrize("pattern", DOUBLING)
def test_finding_17_a_pattern_that_may_take_exponential_time_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="doubles with every character"):
        compiled(pattern)


@pytest.mark.parametrize("pattern", STEADY)
def test_usual_patterns_are_taken(pattern: str) -> None:
    compiled(pattern)


def test_finding_17_check_says_so_before_an_event_comes() -> None:
    with pytest.raises(NadiError, match="doubles with every character"):
        plan_app("define stream S (s string);\nfrom S select str:regexp(s, '(a+)+b') as found insert into Out;\n")


ALPHABET = "".join(sorted("\n aAzZ_09-é\u00c9\u0663\u4e2d\U0001f600"))


@pytest.mark.parametrize("flags", [0, re.IGNORECASE, re.DOTALL, re.ASCII], ids=["plain", "any case", "dotall", "ascii"])
@pytest.mark.parametrize(
    "place", ["a", "[^a]", ".", "[a-y0_]", "[^A\\W\\d]", "\\s", "[\\D]", "[\\U0001f600-\\U0001f601x]"]
)
def test_a_place_takes_the_characters_that_python_takes(place: str, flags: int) -> None:
    (item,) = parser.parse(place, flags)
    assert taken(item, ALPHABET, flags) == {c for c in ALPHABET if re.fullmatch(place, c, flags)}


WIDE = {
    "optional parts behind each other": "a*" * 5_000,
    "choices of optional parts": "(a*|b*)" * 60,
    "a repetition of many alternatives": f"({'|'.join(f'{chr(0x4E00 + n)}x' for n in range(2_000))})+",
}


@pytest.mark.parametrize("name", WIDE)
def test_a_pattern_that_is_too_large_to_be_looked_at_is_refused_at_once(name: str) -> None:
    with pytest.raises(PatternError, match="too many places") as refused:
        compiled(WIDE[name])
    assert len(str(refused.value)) < 500


def test_a_long_pattern_without_choices_is_a_pattern() -> None:
    assert compiled("x" * 20_000).fullmatch("x" * 20_000)


NESTED = {
    "groups": lambda n: "(" * n + "a" + ")" * n,
    "flags": lambda n: "(?i)(?-i)" * (n // 2) + "a",
    "alternatives": lambda n: "(a|" * n + "b" + ")" * n,
    "views ahead": lambda n: "(?=" * n + "a" + ")" * n,
}


@pytest.mark.parametrize("make", NESTED.values(), ids=NESTED)
def test_how_deep_groups_may_be_nested_does_not_depend_on_who_compiles_them(make: Callable[[int], str]) -> None:
    """Python's own limit on frames does: an app with long chains of streams raises it for its process."""

    def called(depth: int, n: int) -> object:
        return called(depth - 1, n) if depth else compiled.__wrapped__(make(n))

    limit = sys.getrecursionlimit()
    try:
        for depth, most in ((0, limit), (400, 1_000 + len(inspect.stack())), (0, 100_000)):
            sys.setrecursionlimit(max(limit, most))
            assert called(depth, DEEPEST)
            for more in (DEEPEST + 2, 5_000):
                with pytest.raises(PatternError, match=f"nested more than {DEEPEST} deep"):
                    called(depth, more)
    finally:
        sys.setrecursionlimit(limit)


def test_a_flag_that_is_set_again_opens_nothing() -> None:
    assert compiled("(?i)" * 2_000 + "a").fullmatch("A")
    assert compiled("(?i)a|(?-i)b|c").fullmatch("C") is None
