"""Whatever an event has, a mapper writes what it reads again; whatever a message has, it is read, or refused in words of its format."""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from io_build import connector, messages, output

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nadi.io.registry import make_sink_mapper, make_source_mapper
from tests.generate.budget import dice
from tests.generate.hostile import BOOLS, DOUBLES, FLOATS, INTS, LONGS, TEXTS, words_of_python

SECONDS = 1.0  # of this process's time
KINDS = ("json", "xml", "csv", "text", "arrow", "passthrough")
COLUMNS = "s string, i int, l long, f float, d double, b bool"
VALUES = (TEXTS, INTS, LONGS, FLOATS, DOUBLES, BOOLS)
SHORT = tuple(value for value in TEXTS if value is None or len(value) < 100)


def as_read(kind: str, value: object) -> object:
    """What comes back: JSON has no numbers that are none, XML no character 0."""
    if kind == "json" and isinstance(value, float) and not math.isfinite(value):
        return None
    return value.replace("\0", "\ufffd") if kind == "xml" and isinstance(value, str) else value


@pytest.mark.parametrize("kind", KINDS)
def test_a_mapper_reads_what_it_has_written(kind: str) -> None:
    writes, reads = make_sink_mapper(connector(COLUMNS, kind)), make_source_mapper(connector(COLUMNS, kind))
    for own in map(random.Random, dice.cases(SECONDS)):
        row = tuple(own.choice(values) for values in VALUES)
        payloads, *_ = writes.encode(output(COLUMNS, [row]))
        found = reads.decode(messages(*payloads))
        assert not found.failures
        (read,) = found.batch.to_pylist()
        assert repr(tuple(read.values())[-6:]) == repr(tuple(as_read(kind, value) for value in row))


MAPPED: dict[str, tuple[bytes, dict[str, Any]]] = {
    "json": (
        b'{"a":{"s":"x"},"i":1,"x":[5],"f":1.5,"d":2,"b":true}',
        {"attributes": {"s": "$.a.s", "i": "$.i", "l": "$.x[0]", "f": "$.f", "d": "$.d", "b": "$.b"}},
    ),
    "xml": (
        b'<p><a><s>x</s></a><i>1</i><l x="5"/><f>1</f><d>2</d><b>true</b></p>',
        {
            "attributes": {"s": "a/s", "i": "i", "l": "l/@x", "f": "f", "d": "d", "b": "b"},
            "map_options": {"enclosing.element": "//p"},
        },
    ),
    "csv": (b"x--1--2--3--4--true", {"map_options": {"delimiter": "--"}}),
    "text": (
        b"hello 12",
        {
            "attributes": {"s": "A[1]", "i": "A[2]", "l": "A[2]", "f": "A[2]", "d": "A[2]", "b": "A[1]"},
            "map_options": {"regex.A": r"(\w+)\s([-.0-9]+)"},
        },
    ),
}
PIECES = (
    *(b"{", b"}", b"[", b"]", b'"', b"'", b",", b":", b"-", b"<", b">", b"</event>", b"<![CDATA[", b"&amp;", b"&#0;"),
    *(b"&lol;", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"null", b"true", b"NaN", b"Infinity", b"1e999", b"0x1", b"9" * 30),
    *(b"\\u", b"\\ud800", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\n", b"\r", b"\xef\xbb\xbf"),
)


def changed(own: random.Random, payload: bytes) -> bytes:
    """With pieces that somebody has put into it, and without some that it had."""
    made = bytearray(payload)
    for _ in range(own.randrange(1, 5)):
        at = own.randrange(len(made) + 1)
        if own.random() < 0.5:
            made[at:at] = own.choice(PIECES)
        else:
            del made[at : at + own.choice((1, 1, 2, 5))]
    return bytes(made)


@pytest.mark.parametrize("kind", ["json", "xml", "csv", "text"])
def test_a_message_is_read_or_refused_in_words_of_its_format(kind: str) -> None:
    payload, given = MAPPED[kind]
    usual, mapped = make_source_mapper(connector(COLUMNS, kind)), make_source_mapper(connector(COLUMNS, kind, **given))
    writes = make_sink_mapper(connector(COLUMNS, kind))
    for own in map(random.Random, dice.cases(SECONDS)):
        row = tuple(own.choice(values) for values in (SHORT, *VALUES[1:]))
        payloads, *_ = writes.encode(output(COLUMNS, [row, row], [0, 0]))
        for reads, written in ((usual, payloads[0]), (mapped, payload)):
            found = reads.decode(messages(changed(own, written), written))
            found.batch.validate(full=True)
            assert words_of_python([("MESSAGE", one.reason) for one in found.failures]) == []
