"""Who published a message of one of several data centres, and which number it has there: as nadi's sinks say it in headers, or Siddhi's before the message.

nadi      the headers `Nadi-Producer`, `Nadi-Group`, `Nadi-Number`, `Nadi-Count` (`nadi.io.sinks.numbers`); the producer's name ends in @ and its incarnation
Siddhi    `<sequence.id>:<number>~` before a text; before bytes the same with its length in front, four bytes. It has no incarnations
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nadi.io.seen import LARGEST, LONGEST, NumberMark
from nadi.io.sinks.numbers import COUNT, GROUP, NUMBER, PRODUCER

NAMES = (PRODUCER, GROUP, NUMBER, COUNT)
"""The properties that are looked at."""
LIFE = "@"
"""Stands between the name of a publisher and its incarnation."""
BEFORE = 300  # bytes of what stands before a text
LENGTH = 4


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message stands: the centre, the partition there, and the position in it."""

    centre: int
    partition: int
    position: int


def marked(
    payload: bytes, properties: Mapping[str, str], place: Place, binary: bool = False
) -> tuple[NumberMark | None, bytes]:
    """The mark of a message, None where it says none, and the message without it.

    >>> mark, body = marked(b"shop:17~{}", {}, Place(0, 0, 5))
    >>> mark.publisher, mark.incarnation, mark.first, body
    ('shop', None, 17, b'{}')
    >>> headers = {"Nadi-Producer": "shop@a7", "Nadi-Group": "3", "Nadi-Number": "10", "Nadi-Count": "2"}
    >>> mark, body = marked(b"{}", headers, Place(0, 0, 6))
    >>> mark.publisher, mark.incarnation, mark.first, mark.count, body
    ('shop/3', 'a7', 10, 2, b'{}')
    """
    if PRODUCER in properties:
        return _of_headers(properties, place), payload
    found = _before_bytes(payload) if binary else _before_text(payload)
    if found is None:
        return None, payload
    head, body = found
    name, colon, number = head.rpartition(b":")
    if not colon or not 0 < len(number) < 17 or not number.isdigit() or int(number) >= LARGEST:
        return None, payload
    publisher = name.decode("utf-8", "replace")[:LONGEST]
    return NumberMark(publisher, None, int(number), 1, place.centre, place.partition, place.position), body


def _of_headers(properties: Mapping[str, str], place: Place) -> NumberMark | None:
    name, _, incarnation = properties[PRODUCER].rpartition(LIFE)
    numbers = [_number(properties.get(header, "")) for header in (GROUP, NUMBER, COUNT)]
    if not name or not incarnation or len(properties[PRODUCER]) > LONGEST or min(numbers) < 0 or numbers[2] == 0:
        return None
    group, first, count = numbers
    return NumberMark(f"{name}/{group}", incarnation, first, count, place.centre, place.partition, place.position)


def _number(text: str) -> int:
    """A number from a header, -1 for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 17 and int(text) < LARGEST else -1


def _before_text(payload: bytes) -> tuple[bytes, bytes] | None:
    end = payload.find(b"~", 0, BEFORE)
    return None if end <= 0 else (payload[:end], payload[end + 1 :])


def _before_bytes(payload: bytes) -> tuple[bytes, bytes] | None:
    size = int.from_bytes(payload[:LENGTH])
    if not 0 < size <= BEFORE or len(payload) < LENGTH + size:
        return None
    return payload[LENGTH : LENGTH + size].removesuffix(b"~"), payload[LENGTH + size :]
