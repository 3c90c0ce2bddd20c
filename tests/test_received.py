"""JSON of others: one error for all that is wrong, and the same bound everywhere."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.received import DEEPEST, is_deep, read_json

MILLION = 1_000_000
TEXTS = st.text(st.sampled_from('[]{}",\\ \n\u00e9\ud800a'), max_size=6)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20
)


class Point(msgspec.Struct):
    x: int


def levels(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return int(isinstance(value, dict | list)) + max(map(levels, inner), default=0)


@pytest.mark.parametrize("type_", [Any, Point, list[Any], dict[str, int], list[msgspec.Raw]])
@pytest.mark.parametrize(
    "content",
    [
        b"[" * MILLION,
        b'{"a":' * MILLION,
        b'{"x":1,"y":' + b"[" * MILLION,
        b"",
        b"[1",
        b'"\xff"',
        b"9" * 5_000,
        "[" * MILLION,
        '"\ud800"',
    ],
)
def test_whatever_is_wrong_with_json_is_one_error(content: bytes | str, type_: Any) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_json(content, of=type_)


def test_the_bound_does_not_depend_on_who_calls() -> None:
    def called_from(depth: int) -> object:
        return called_from(depth - 1) if depth else read_json(b"[" * DEEPEST + b"]" * DEEPEST)

    assert called_from(0) == called_from(sys.getrecursionlimit() // 2)
    with pytest.raises(msgspec.DecodeError, match="too deep"):
        read_json(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1))


@given(VALUES, st.integers(DEEPEST - 3, DEEPEST + 1))
def test_levels_are_counted_as_they_are(value: object, around: int) -> None:
    for _ in range(around):
        value = [value]
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=1)):
        assert is_deep(text) == (levels(value) > DEEPEST)


@pytest.mark.parametrize("piece", [b'\\"', b'"', b'"[', b"\\", b'["\\'])
def test_no_text_takes_long_to_count(piece: bytes) -> None:
    """A scan that began anew at each quote would take hours for this."""
    is_deep(b"[" * 200 + b'"' + piece * MILLION)
