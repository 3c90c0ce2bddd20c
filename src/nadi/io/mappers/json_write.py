"""The loop that writes JSON events one behind the other, without an object each."""

from __future__ import annotations

from typing import Any

import numpy as np

from nadi.kernel.columns.jit import bare

NUMBER, BOOL, STRING, TEXT, NULL = range(5)
"""How a value is given: an int, a bool, a string without anything to escape, JSON that is copied; or not at all."""


@bare
def _copied(out: Any, at: int, data: Any, start: int, end: int) -> Any:
    """Copy bytes; the place behind them."""
    for i in range(start, end):
        out[at] = data[i]
        at += 1
    return at


@bare
def _digits(out: Any, at: int, value: int) -> Any:
    """Write an int; the place behind it."""
    rest = np.uint64(value)
    if value < 0:
        out[at] = 45
        at += 1
        rest = np.uint64(0) - rest
    count, left = 1, rest
    while left >= np.uint64(10):
        left //= np.uint64(10)
        count += 1
    for i in range(count):
        out[at + count - 1 - i] = np.uint64(48) + rest % np.uint64(10)
        rest //= np.uint64(10)
    return at + count


@bare
def _value(
    out: Any, at: int, kind: int, place: int, numbers: Any, data: Any, starts: Any, ends: Any, words: Any
) -> Any:
    """Write one value; the place behind it. `words`: null, true and false, five bytes each."""
    if kind == NUMBER:
        return _digits(out, at, numbers[place])
    if kind == BOOL:
        return _copied(out, at, words, 5, 9) if numbers[place] else _copied(out, at, words, 10, 15)
    if kind == NULL:
        return _copied(out, at, words, 0, 4)
    if kind == TEXT:
        return _copied(out, at, data, starts[place], ends[place])
    out[at] = 34
    at = _copied(out, at + 1, data, starts[place], ends[place])
    out[at] = 34
    return at + 1


@bare
def write(
    kinds: Any, keys: Any, key_ends: Any, tail: Any, before: Any, after: Any, valid: Any, numbers: Any, data: Any, starts: Any, ends: Any,
    firsts: Any, words: Any, out: Any, begins: Any, stops: Any,
) -> None:  # fmt: skip
    """Write the events of all messages, and a line end behind each message.

    Args:
        kinds: of the columns; `keys`, `key_ends` what stands before each value, and `tail` behind the last one.
        before, after: what stands around a message.
        valid: whether there is a value, column by column; `numbers`: ints and bools, so; `starts`, `ends`: places in `data` of strings and texts, so.
        firsts: the first row of each message, and the number of rows; a message of several rows is an array.
        words: null, true and false, five bytes each.
        out: room for all; `begins`, `stops`: where each message begins and ends.
    """
    size, columns = len(valid) // len(kinds), len(kinds)
    at = 0
    for message in range(len(firsts) - 1):
        begins[message] = at
        at = _copied(out, at, before, 0, len(before))
        first, last = firsts[message], firsts[message + 1]
        if last - first > 1:
            out[at] = 91
            at += 1
        for row in range(first, last):
            if row > first:
                out[at] = 44
                at += 1
            for column in range(columns):
                at = _copied(out, at, keys, key_ends[column], key_ends[column + 1])
                place = column * size + row
                kind = kinds[column] if valid[place] else NULL
                at = _value(out, at, kind, place, numbers, data, starts, ends, words)
            at = _copied(out, at, tail, 0, len(tail))
        if last - first > 1:
            out[at] = 93
            at += 1
        at = _copied(out, at, after, 0, len(after))
        stops[message] = at
        out[at] = 10
        at += 1


@bare
def escapes(data: Any) -> Any:
    """Whether any byte of strings has to be escaped in JSON."""
    found = np.uint8(0)
    for i in range(len(data)):
        byte = data[i]
        found |= np.uint8(byte < 32) | np.uint8(byte == 34) | np.uint8(byte == 92)
    return found != 0
