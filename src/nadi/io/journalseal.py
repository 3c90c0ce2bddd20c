"""The end of a part of a journal: a message without events, behind which nothing can be appended, by whomever. What is there can be read until it is removed.

An app that is to go on as another one seals what its sources receive before it takes what is left: a process that was stopped for a while, and goes on
receiving when it is woken, can acknowledge nothing that nobody would read.
"""

from __future__ import annotations

from nadi.errors import NadiError
from nadi.io.journal import open_journal
from nadi.io.journalmessages import SEALED, is_sealed


def seal(url: str, app: str, ordinal: int) -> None:
    """Seal what a source of an app has received. Errors: CONNECTION_UNAVAILABLE, REFUSED."""
    journal = open_journal(url, app)
    while True:
        last = journal.last(ordinal)
        if is_sealed(last):
            return
        try:
            journal.append_behind(ordinal, [], last, {SEALED: "true"})
        except NadiError as reason:
            if reason.condition != "SEQUENCE_TAKEN":
                raise  # else somebody was faster: what was appended is behind the last one that was known
