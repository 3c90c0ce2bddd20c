"""The loop that reads plain JSON events out of a block of messages, without an object each.

It knows what most messages are made of: one object, or `{"event": {…}}`, of strings without escapes, numbers of common size, bools and
nulls. A message that has anything else (nested values, escapes, a value of another type, a missing attribute, an error) it leaves to
whoever can say what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nadi.kernel.columns.jit import bare

INT, LONG, REAL, BOOL, STRING = range(5)
"""Kinds of columns. `REAL` is a double, or a float whose value is rounded later."""

NULL, MISSING = 1, 2
TENS = np.array([10.0**i for i in range(23)])
"""All powers of ten that a double has exactly: a product or quotient of such with an int of 53 bits is rounded once, as it must be."""

_EXACT = 2**53
_DIGITS = 18  # that an int64 takes for certain
_LARGEST = 300  # decimal exponent of what is neither 0 nor infinite for certain


@bare
def _skip(data: Any, at: int, end: int) -> Any:
    """The first place that is no white space."""
    while at < end and (data[at] == 32 or data[at] == 10 or data[at] == 9 or data[at] == 13):
        at += 1
    return at


@bare
def _quote(data: Any, at: int, end: int, made: Any) -> Any:
    """The place of the quote that ends a string; -1 where there is none, or an escape before it."""
    high = np.uint8(0)
    while at < end:
        byte = data[at]
        if byte == 34:
            if high >= 128:
                made[2] = 1
            return at
        if byte == 92 or byte < 32:
            return -1
        high |= byte
        at += 1
    return -1


@bare
def _word(data: Any, at: int, end: int, word: Any) -> Any:
    """Whether a literal stands at a place."""
    if at + len(word) > end:
        return False
    for i in range(len(word)):  # noqa: SIM110  # a loop for Numba
        if data[at + i] != word[i]:
            return False
    return True


@bare
def _column(data: Any, start: int, end: int, names: Any, name_ends: Any, guess: int) -> Any:
    """The column of a name, -1 for none. Names mostly come in the same order: `guess` is asked first."""
    count = len(name_ends)
    for turn in range(count):
        column = guess + turn
        if column >= count:
            column -= count
        first = name_ends[column - 1] if column else 0
        if name_ends[column] - first == end - start:
            same = True
            for i in range(end - start):
                if names[first + i] != data[start + i]:
                    same = False
                    break
            if same:
                return column
    return -1


@bare
def _number(data: Any, at: int, end: int, told: Any) -> Any:
    """The place behind a number, -1 where it is none. `told`: its digits as an int, how many, decimal exponent, negative, with point or exponent."""
    for i in range(5):
        told[i] = 0
    if at < end and data[at] == 45:
        told[3] = 1
        at += 1
    if at >= end or data[at] < 48 or data[at] > 57:
        return -1
    if data[at] == 48 and at + 1 < end and 48 <= data[at + 1] <= 57:
        return -1
    while at < end and 48 <= data[at] <= 57:
        if told[1] < _DIGITS:
            told[0] = told[0] * 10 + (data[at] - 48)
        told[1] += 1
        at += 1
    if at < end and data[at] == 46:
        told[4] = 1
        before = told[1]
        at += 1
        while at < end and 48 <= data[at] <= 57:
            if told[1] < _DIGITS:
                told[0] = told[0] * 10 + (data[at] - 48)
            told[1] += 1
            at += 1
        told[2] = before - told[1]
        if before == told[1]:
            return -1
    if at < end and (data[at] == 101 or data[at] == 69):
        told[4] = 1
        at += 1
        down = False
        if at < end and (data[at] == 43 or data[at] == 45):
            down = data[at] == 45
            at += 1
        if at >= end or data[at] < 48 or data[at] > 57:
            return -1
        power = 0
        while at < end and 48 <= data[at] <= 57:
            power = min(power * 10 + (data[at] - 48), 100_000)
            at += 1
        told[2] += -power if down else power
    return at


@bare
def _take_number(
    data: Any,
    start: int,
    end: int,
    kind: int,
    narrow: bool,
    place: int,
    words: Any,
    reals: Any,
    hard: Any,
    told: Any,
    made: Any,
) -> Any:
    """Take a number as a value of a kind; the place behind it, -1 where it is left to others."""
    at = _number(data, start, end, told)
    if at < 0:
        return -1
    digits, count, power = told[0], told[1], told[2]
    if kind <= LONG:
        if told[4] or count > _DIGITS or (told[3] and digits == 0):
            return -1
        value = -digits if told[3] else digits
        if kind == INT and (value < -(2**31) or value > 2**31 - 1):
            return -1
        words[place] = value
        return at
    whole = not told[4]
    if kind != REAL or (whole and (digits > _EXACT or count > _DIGITS or (told[3] and digits == 0))):
        return -1
    if count <= _DIGITS and digits <= _EXACT and -22 <= power <= 22:
        value = digits / TENS[-power] if power < 0 else digits * TENS[power]
        reals[place] = -value if told[3] else value
        return -1 if narrow and value > 1e37 else at
    if narrow or abs(power) + count > _LARGEST:
        return -1
    number = made[1]
    hard[0, number], hard[1, number], hard[2, number] = place, start, at
    made[1] = number + 1
    return at


@bare
def _object(
    data: Any, at: int, end: int, row: int, size: int, names: Any, name_ends: Any, kinds: Any, narrow: Any, words: Any, reals: Any,
    tails: Any, nulls: Any, hard: Any, told: Any, made: Any, true: Any, false: Any, null: Any,
) -> Any:  # fmt: skip
    """Take the event whose members begin at a place; the place behind it, -1 where it is left to others."""
    guess = 0
    while True:
        if at >= end or data[at] != 34:
            return -1
        name_end = _quote(data, at + 1, end, made)
        if name_end < 0:
            return -1
        column = _column(data, at + 1, name_end, names, name_ends, guess)
        at = _skip(data, name_end + 1, end)
        if at >= end or data[at] != 58:
            return -1
        at = _skip(data, at + 1, end)
        if at >= end or column < 0:
            return -1
        kind, place, first = kinds[column], column * size + row, data[at]
        if nulls[place] != MISSING:  # a name that stands twice
            return -1
        nulls[place] = 0
        if first == 34:
            tail = _quote(data, at + 1, end, made)
            if kind != STRING or tail < 0:
                return -1
            words[place], tails[place] = at + 1, tail
            at = tail + 1
        elif first == 110 and _word(data, at, end, null):
            nulls[place] = NULL
            words[place] = 0
            tails[place] = 0
            at += 4
        elif first == 116 and kind == BOOL and _word(data, at, end, true):
            words[place] = 1
            at += 4
        elif first == 102 and kind == BOOL and _word(data, at, end, false):
            words[place] = 0
            at += 5
        else:
            at = _take_number(data, at, end, kind, narrow[column], place, words, reals, hard, told, made)
            if at < 0:
                return -1
        guess = column + 1 if column + 1 < len(kinds) else 0
        at = _skip(data, at, end)
        if at >= end:
            return -1
        if data[at] == 125:
            return at + 1
        if data[at] != 44:
            return -1
        at = _skip(data, at + 1, end)


@bare
def _framed(data: Any, at: int, end: int, event: Any) -> Any:
    """Where the members of `{"event": {` begin, when that is what stands at a place behind the first brace; else -1."""
    if not _word(data, at, end, event):
        return -1
    at = _skip(data, at + len(event), end)
    if at >= end or data[at] != 58:
        return -1
    at = _skip(data, at + 1, end)
    if at >= end or data[at] != 123:
        return -1
    return _skip(data, at + 1, end)


@bare
def scan(
    data: Any, starts: Any, ends: Any, names: Any, name_ends: Any, kinds: Any, narrow: Any, lenient: bool, words: Any, reals: Any,
    tails: Any, nulls: Any, rows: Any, hard: Any, told: Any, made: Any, true: Any, false: Any, null: Any, event: Any,
) -> None:  # fmt: skip
    """Read the messages that can be read; the others are left out.

    Args:
        data, starts, ends: a `Block`.
        names, name_ends, kinds, narrow: of the columns; `narrow` where a value has to be a float.
        lenient: whether a missing attribute is null.
        words: int64, room for all rows column by column: ints, bools, the first byte of a string. `reals` is the same memory as doubles,
            `tails` has the ends of strings, `nulls` whether there is no value.
        rows: the message of each row. `hard`: place, first byte and end of numbers that take more than a multiplication. `told`: room for `_number`.
        made: how many rows, how many hard numbers, whether a byte is no ASCII.
        true, false, null, event: these words; the last one with its quotes.
    """
    size, columns = len(starts), len(kinds)
    row = 0
    for i in range(size):
        end, before = ends[i], made[1]
        at = _skip(data, starts[i], end)
        if at >= end or data[at] != 123:
            continue
        at = _skip(data, at + 1, end)
        inner = _framed(data, at, end, event)
        for column in range(columns):
            nulls[column * size + row] = MISSING
        at = _object(
            data, at if inner < 0 else inner, end, row, size, names, name_ends, kinds, narrow, words, reals,
            tails, nulls, hard, told, made, true, false, null,
        )  # fmt: skip
        if at >= 0 and inner >= 0:
            at = _skip(data, at, end)
            at = at + 1 if at < end and data[at] == 125 else -1
        good = at >= 0 and _skip(data, at, end) == end
        for column in range(columns):
            place = column * size + row
            if nulls[place] == MISSING:
                good = good and lenient
                nulls[place] = NULL
                words[place] = 0
                tails[place] = 0
        if good and made[1] + columns < hard.shape[1]:
            rows[row] = i
            row += 1
        else:
            made[1] = before
    made[0] = row


@bare
def gather(data: Any, starts: Any, ends: Any, offsets: Any, out: Any) -> None:
    """Strings out of a block, one behind the other: `offsets` says where each begins."""
    for i in range(len(starts)):
        to = offsets[i]
        for at in range(starts[i], ends[i]):
            out[to] = data[at]
            to += 1
