"""Which records stand in the way of which.

Those of one lane are written in order, and wait for one before them that is not settled. Of those for one place the service has at most one.
"""

from __future__ import annotations

from collections.abc import Hashable

from nadi.replica.contract import AppFile, JournalAppend, JournalTrim, Record, Statements

OVERHEAD = 4096  # bytes that a record weighs beside its own, so that a bound of bytes bounds the number of records, too


def lane_of(record: Record) -> Hashable:
    """
    >>> lane_of(JournalTrim("s", "s.a", 5))
    ('journal', 's')
    """
    match record:
        case JournalAppend(stream=stream) | JournalTrim(stream=stream):
            return ("journal", stream)
        case Statements():
            return "sql"
        case AppFile(name=name):
            return ("app", name)
        case _:
            return "objects"


def place_of(record: Record) -> Hashable | None:
    """None where no other record can be for the same place.

    >>> place_of(Statements(7, [])), place_of(JournalTrim("s", "s.a", 5))
    (('sql', 7), None)
    """
    match record:
        case JournalAppend(stream=stream, subject=subject, first=first):
            return ("journal", stream, subject, first)
        case Statements(n=n):
            return ("sql", n)
        case _:
            return None


def weight_of(length: int) -> int:
    """What a record of so many bytes weighs in a bound."""
    return length + OVERHEAD
