"""One CSV text → records of fields, with what the standard library forgets: whether a field was quoted."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """The text of a field, without its quotes."""

    text: str
    quoted: bool


def records(text: str, delimiter: str, quote: str) -> list[list[Field]]:
    """The records of a text; empty lines are none. A quote opens a field only at its start; doubled, it stands for itself.

    Raises csv.Error where a quoted field is not closed or goes on after its closing quote.

    >>> [[f.text for f in r] for r in records('a,"b,c"', ",", '"')]
    [['a', 'b,c']]
    >>> [[f.text for f in r] for r in records('a||"b||c"||', "||", '"')]
    [['a', 'b||c', '']]
    """
    between = re.compile(f"{re.escape(delimiter)}|\r|\n")
    found: list[list[Field]] = []
    record: list[Field] = []
    at, end = 0, len(text)
    while at < end:
        if text[at] == quote:
            value, at = _quoted(text, at + 1, quote)
            record.append(Field(value, True))
            if at < end and not between.match(text, at):
                raise csv.Error(f"a quoted field goes on after its closing quote, at character {at + 1}")
        else:
            next_one = between.search(text, at)
            stop = next_one.start() if next_one else end
            record.append(Field(text[at:stop], False))
            at = stop
        if text.startswith(delimiter, at):
            at += len(delimiter)
            if at == end:
                record.append(Field("", False))
            continue
        at += 2 if text[at : at + 2] == "\r\n" else 1
        _add(found, record)
        record = []
    _add(found, record)
    return found


def _add(found: list[list[Field]], record: list[Field]) -> None:
    if record and not (len(record) == 1 and not record[0].text and not record[0].quoted):
        found.append(record)


def _quoted(text: str, at: int, quote: str) -> tuple[str, int]:
    parts: list[str] = []
    while True:
        close = text.find(quote, at)
        if close < 0:
            raise csv.Error("a quoted field is not closed")
        parts.append(text[at:close])
        if text[close + 1 : close + 2] != quote:
            return "".join(parts), close + 1
        parts.append(quote)
        at = close + 2
