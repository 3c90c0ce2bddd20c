"""The three engines of a pattern give the same, and each gives up after the same number of steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from re import _parser as parser  # CPython has it since 3.11
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors.exceptions import SiddhiAppRuntimeException
from nadi.functions import boundedpatterns, countedpatterns
from nadi.functions.boundedpatterns import Pattern
from nadi.functions.countedpatterns import Allowance, counted
from nadi.functions.javaregex import PatternError, compiled
from nadi.functions.linearpatterns import Encoded, linear
from nadi.functions.patternbounds import LONGEST, Bounds, bounds

EXAMPLES = 120
Spans = tuple[tuple[int, int], ...]

TEXTS = st.text(alphabet="aAbBc1 \n\ré\u2028K\u212a😀", max_size=9)
SINGLES = st.sampled_from(
    ["a", "b", "c", "B", "é", ".", "[ab]", "[^a]", r"\w", r"\W", r"\d", r"\s", "[a-c&&[^b]]", "[B-Dé]", "😀", r"\R"]
)
PLACES = st.sampled_from(["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", "(?=a)", "(?!b)", "(?<=a)", "(?<!b)", r"\1"])
COUNTS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{2,}", "*+", "?+"])


def repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(inner, COUNTS).map("".join)


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    heads = st.sampled_from(["(", "(?:", "(?i:", "(?>", "(?=", "(?!"])
    return st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join).map("(?:{})".format),
        st.tuples(heads, inner, st.just(")")).map("".join),
        st.tuples(st.just("("), inner, st.just(")"), COUNTS).map("".join),
    )


PATTERNS = st.tuples(
    st.sampled_from(["", "", "", "(?i)", "(?s)", "(?m)", "(?iu)", "(b)?"]),
    st.recursive(st.one_of(SINGLES, repeated(SINGLES), PLACES), nested, max_leaves=6),
    st.sampled_from(["", "", "$"]),
).map("".join)


def translated(pattern: str) -> str | None:
    """A pattern of Java as Python's, where it is one that is taken."""
    try:
        made = compiled(pattern)
    except PatternError:
        return None
    return made.text


def spans(found: re.Match[str] | None) -> Spans | None:
    return None if found is None else found.regs


def counted_spans(tree: Any, call: Callable[..., Spans | None], *arguments: Any, **named: Any) -> Spans | None:
    return call(counted(tree), *arguments, Allowance(1_000_000), **named)


@given(PATTERNS, TEXTS)
@settings(max_examples=EXAMPLES)
def test_what_is_counted_or_linear_matches_as_pythons_engine_does(pattern: str, text: str) -> None:
    made = translated(pattern)
    if made is None:
        return
    quick, tree = re.compile(made, re.ASCII), parser.parse(made, re.ASCII)
    whole, begin, first = (spans(ask(text)) for ask in (quick.fullmatch, quick.match, quick.search))
    assert counted_spans(tree, countedpatterns.match, text, 0, whole=True) == whole
    assert counted_spans(tree, countedpatterns.match, text, 0) == begin
    assert counted_spans(tree, countedpatterns.search, text, 0) == first
    engine = linear(tree)
    if engine is not None and engine.takes(text):
        assert engine.fullmatch(Encoded(text)) == whole
        assert engine.match(Encoded(text)) == begin
        assert engine.search(Encoded(text), 0) == first


@given(PATTERNS, TEXTS)
@settings(max_examples=EXAMPLES)
def test_all_engines_find_the_same_matches_one_behind_the_other(pattern: str, text: str) -> None:
    made = translated(pattern)
    if made is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boundedpatterns, "QUICK", 10**15)
        patch.setattr(boundedpatterns, "QUICK_BESIDE_LINEAR", 10**15)
        quick = [(f.start(), f.end()) for f in Pattern(made, re.ASCII).finditer(text)]
        patch.setattr(boundedpatterns, "bounds", lambda tree, steps: Bounds(-1, -1, -1))
        assert [(f.start(), f.end()) for f in Pattern(made, re.ASCII).finditer(text)] == quick
        patch.setattr(boundedpatterns, "linear", lambda tree: None)
        assert [(f.start(), f.end()) for f in Pattern(made, re.ASCII).finditer(text)] == quick


@pytest.mark.parametrize(
    ("pattern", "is_linear"),
    [
        (".*foo.*bar.*baz", True),
        (r"^\w+@\w+\.(com|org)$", True),
        (r"(?i)error: (\d+)", True),
        (r"\s*,\s*", True),
        (r"\p{Lu}\w*|a$", True),
        (r"(a$)", False),
        (r"a$b", False),
        (r"(?=a)b", False),
        (r"(a)\1", False),
        (r"a++b", False),
        (r"(a?b){2}(c|)?", False),
        (r"(?m)^a", False),
        (r"(?iu)ä", False),
        (r"(?U)\w", True),
        (r"a{1001}", False),
        (r"\B", False),
    ],
)
def test_a_pattern_is_linear_only_where_it_surely_means_the_same(pattern: str, is_linear: bool) -> None:
    assert (linear(parser.parse(compiled(pattern).text, re.ASCII)) is not None) is is_linear


@pytest.mark.parametrize("pattern", [".*foo.*bar.*baz", "(.*)" * 8 + "x", r"\s+$", r"(\w+ )*;"])
def test_a_long_text_is_read_in_linear_time(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the other engines it takes too many steps, or hours."""
    monkeypatch.setattr(countedpatterns, "match", None)
    made = compiled(pattern)
    for text in ("foo" * 7000 + "bar" * 7000, "a" * 100_000, " " * 100_000 + "x"):
        assert made.fullmatch(text + "-") is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("(?=(.*)(.*)(.*)x)a", "a" * 400), (r"(a*)(a*)\1b", "a" * 2000), ("b*+(.*)(.*)c", "ab" * 1000)],
)
def test_steps_are_counted_where_a_pattern_is_not_linear(pattern: str, text: str) -> None:
    for _ in range(2):
        with pytest.raises(SiddhiAppRuntimeException, match=r"takes more than 500000 steps") as failure:
            compiled(pattern).fullmatch(text)
        assert failure.value.condition == "PATTERN_STEPS"


def test_a_bound_depends_on_the_length_alone_and_holds_for_all_matches_of_a_text() -> None:
    found = bounds(parser.parse(r"\s*,\s*"), 10_000)
    assert found.all < found.whole < found.beginning
    assert bounds(parser.parse(r",\s+"), 10).all == LONGEST


def test_a_match_without_width_is_followed_a_character_later_as_in_java() -> None:
    assert [f[0] for f in compiled(r"\b|:+").finditer("a::bc")] == ["", "", ":", "", ""]
