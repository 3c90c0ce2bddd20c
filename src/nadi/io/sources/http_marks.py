"""What a posted message is known by, as its headers say.

| header | value |
|---|---|
| `Idempotency-Key` | a text that the client has chosen for the message and sends again with it |
| `Producer-Id` | who sends the message |
| `Producer-Incarnation` | which life of the producer it is; it begins its numbers anew |
| `Producer-Sequence` | the number of the message within it |
"""

from __future__ import annotations

from collections.abc import Sequence

from nadi.io.postanswer import Header
from nadi.io.seen import LARGEST, LONGEST, KeyMark, Mark, NumberMark

KEY, PRODUCER, INCARNATION, SEQUENCE = (
    b"idempotency-key",
    b"producer-id",
    b"producer-incarnation",
    b"producer-sequence",
)
NAMES = frozenset((KEY, PRODUCER, INCARNATION, SEQUENCE))


def mark_of(headers: Sequence[Header]) -> Mark | None:
    """What a message is known by, None for nothing. Raises ValueError where the headers say it wrongly, with the reason.

    >>> mark_of([(b"idempotency-key", b'"8e03978e"')])
    KeyMark(key='8e03978e')
    >>> mark_of([(b"producer-id", b"shop"), (b"producer-sequence", b"12")])
    NumberMark(publisher='shop', incarnation='', first=12, count=1, centre=-1, partition=0, position=-1)
    >>> mark_of([(b"host", b"localhost")])
    """
    given: dict[bytes, str] = {}
    for name, value in headers:
        if name in NAMES:
            if name in given:
                raise ValueError(f"the header {shown(name)} is there twice")
            given[name] = _text(name, value)
    if not given:
        return None
    if KEY in given:
        if len(given) > 1:
            raise ValueError("a message has an Idempotency-Key or a Producer-Id, not both")
        return KeyMark(given[KEY])
    if PRODUCER not in given or SEQUENCE not in given:
        raise ValueError("Producer-Id and Producer-Sequence belong together")
    number = given[SEQUENCE]
    if not (number.isascii() and number.isdecimal() and len(number) < 17 and int(number) < LARGEST):
        raise ValueError(f"Producer-Sequence is a whole number from 0 to {LARGEST - 1}")
    return NumberMark(given[PRODUCER], given.get(INCARNATION, ""), int(number))


def shown(name: bytes) -> str:
    """The name of a header as people write it.

    >>> shown(b"idempotency-key")
    'Idempotency-Key'
    """
    return "-".join(part.capitalize() for part in name.decode("latin-1").split("-"))


def _text(name: bytes, value: bytes) -> str:
    """A value, without the quotes that structured headers have around a text."""
    text = value.decode("latin-1").strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if not 0 < len(text) <= LONGEST:
        raise ValueError(f"{shown(name)} has from 1 to {LONGEST} characters")
    return text
