"""What a record that a passive node holds tells people, where the node that has sent it has lost its disk, and the record with it: pure functions.

An event becomes one of the error store, as one that is in the journal of a returning node. All else is to be read: what a transaction has written, the text of
an app. That something is not needed any more tells nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from nadi.eventsync.contract import Surplus
from nadi.eventsync.journalrestore import events_of
from nadi.replica.contract import AppFile, JournalAppend, Record, Statements


def told(record: Record) -> list[Surplus]:
    """
    >>> told(Statements(7, [("delete from t where n = ?", msgspec.msgpack.encode([[3]]))]))[0].payload
    b'[["delete from t where n = ?",[[3]]]]'
    """
    match record:
        case JournalAppend():
            return _events(record)
        case Statements():
            written: list[tuple[str, Any]] = [(sql, msgspec.msgpack.decode(rows)) for sql, rows in record.statements]
            return [Surplus("", "", f"transaction {record.n} of the logs", 0, msgspec.json.encode(written))]
        case AppFile() if record.text is not None:
            return [Surplus(record.name, "", "the text of an app", 0, record.text.encode())]
        case _:
            return []


def _events(record: JournalAppend) -> list[Surplus]:
    """The events of a message of the journal; the message itself, where no journal of nadi has written it."""
    try:
        return events_of(record.stream, record.subject, record.first, record.payload)
    except msgspec.MsgspecError:
        return [
            Surplus(record.stream, record.subject, f"message {record.first} of {record.subject}", 0, record.payload)
        ]
