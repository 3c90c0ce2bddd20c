"""The loop over blocks of JSON messages against the ways that take one message at a time: whatever the messages are, the same events and the same failures."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from io_build import connector, messages, output

from nadi.io.block import Block
from nadi.io.contract import Decoded, Messages
from nadi.io.mappers import json_block, json_sink, json_source
from nadi.io.mappers.json_sink import JsonSink
from nadi.io.mappers.json_source import JsonSource

COLUMNS = "s string, i int, l long, f float, d double, b bool"

NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.integers(-100, 100).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda v: f"{v:.2f}"),
    st.sampled_from(["0", "-0", "-0.0", "0.0", "01", "1.", ".5", "1e5", "1E+2", "1e-30", "1e309", "1e22", "1e23"]),
    st.sampled_from(["9007199254740993.0", "-", "--1", "NaN", "Infinity", "123456789012345678", "1234567890123456789"]),
    st.sampled_from(["3.4028236e38", "1e38", "-2147483648", "2147483648", "1e99999999999", "0.1234567890123456789"]),
    st.sampled_from(["1.7976931348623157e308", "4.9e-324", "+1", "1e"]),
)
STRINGS = st.one_of(
    st.text(max_size=4).map(lambda v: json.dumps(v, ensure_ascii=False)),
    st.text(max_size=4).map(json.dumps),
    st.sampled_from(['"a', '"\\"', '"tab\t"', '""', '"\u007f"', '"\ud7ff"']),
)
VALUES = st.one_of(
    NUMBERS, STRINGS, st.sampled_from(["null", "true", "false", "nul", "tru", "{}", "[]", '{"a":1}', ""])
)
FITTING = {"s": STRINGS, "i": st.integers(-(2**31), 2**31 - 1).map(str), "l": st.integers(-(2**63), 2**63 - 1).map(str)}
FITTING |= {"f": NUMBERS, "d": NUMBERS, "b": st.sampled_from(["true", "false"])}
SPACE = st.sampled_from(["", "", "", "", " ", "\n", "\t\r "])


@st.composite
def events(draw: st.DrawFn) -> str:
    """A message: most are right, some are wrong in one place or another."""
    names = draw(st.permutations(list(FITTING)))
    strange = draw(st.integers(0, 9)) == 0
    if strange:
        names = [n for n in names if draw(st.booleans())] + draw(
            st.lists(st.sampled_from(["s", "d", "x", "event", "ev"]), max_size=2)
        )
    members = []
    for name in names:
        value = draw(VALUES if strange or draw(st.integers(0, 14)) == 0 else st.one_of(FITTING[name], st.just("null")))
        members.append(f"{draw(SPACE)}{json.dumps(name)}{draw(SPACE)}:{draw(SPACE)}{value}{draw(SPACE)}")
    inner = "{" + ",".join(members) + "}"
    form = draw(st.integers(0, 19))
    if form < 9:
        return f'{draw(SPACE)}{{{draw(SPACE)}"event"{draw(SPACE)}:{draw(SPACE)}{inner}{draw(SPACE)}}}{draw(SPACE)}'
    return (
        inner
        if form < 16
        else draw(st.sampled_from([f"[{inner}]", f'{{"event":{inner}', inner + "x", f'{{"event":{inner},"z":1}}']))
    )


def decoded(given_messages: Messages, strict: bool, plain: bool) -> Decoded:
    mapper = JsonSource(connector(COLUMNS, map_options={"fail.on.missing.attribute": str(strict).lower()}))
    mapper._plain = plain
    return mapper.decode(given_messages)


def same(left: Decoded, right: Decoded) -> None:
    assert repr(left.batch.to_pylist()) == repr(right.batch.to_pylist())  # tells -0.0 from 0.0
    assert left.batch.schema == right.batch.schema
    left.batch.validate(full=True)
    assert left.message.tolist() == right.message.tolist()
    assert left.failures == right.failures


TEXTS = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5), st.just('a"b\\c\n\x00'))
ROWS = st.tuples(
    TEXTS,
    st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.just(-(2**63))),
    st.one_of(st.none(), st.floats(width=32)),
    st.one_of(st.none(), st.floats(), st.floats(-1e6, 1e6).map(lambda v: round(v, 2))),
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), st.sampled_from(['{"a":[1,"x"]}', "[]", "12"])),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(ROWS, min_size=1, max_size=9), st.data(), st.sampled_from(["$", "$.a.b"]), st.booleans())
def test_a_loop_writes_what_others_write(
    rows: list[tuple[object, ...]], data: st.DataObject, enclosing: str, grouped: bool
) -> None:
    columns = f"{COLUMNS}, o object"
    batch = output(columns, rows, sorted(data.draw(st.integers(0, 4)) for _row in rows))
    part = batch.slice(data.draw(st.integers(0, len(rows) - 1)))
    options = {"enclosing.element": enclosing, "event.grouping.enabled": str(grouped).lower()}
    for given_rows in (batch, part):
        found, firsts = JsonSink(connector(columns, map_options=options)).encode(given_rows)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_sink, "worth_it", lambda _count: False)
            wanted, wanted_firsts = JsonSink(connector(columns, map_options=options)).encode(given_rows)
        assert isinstance(found, Block)
        assert list(found) == wanted
        assert firsts == wanted_firsts
        assert found.lines() == b"".join(payload + b"\n" for payload in wanted)
        assert found[1:].lines() == b"".join(payload + b"\n" for payload in wanted[1:])


@pytest.fixture(autouse=True)
def few_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for way in (json_source, json_sink):
        monkeypatch.setattr(way, "worth_it", lambda _count: True)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(events(), min_size=1, max_size=12), st.booleans())
def test_a_loop_reads_what_others_read(texts: Sequence[str], strict: bool) -> None:
    one = messages(*[t.encode("utf-8", "surrogatepass") for t in texts])
    block = Messages(one.positions, one.times, Block.of(one.payloads))  # type: ignore[arg-type]  # no batch
    same(decoded(block, strict, plain=True), decoded(one, strict, plain=False))


def test_bytes_that_are_no_text_are_failures_also_in_a_block() -> None:
    good = b'{"s":"x","i":1,"l":2,"f":1.5,"d":2.5,"b":true}'
    one = messages(good, good.replace(b"x", b"\xff"), good, b"\xa9" + good, good.replace(b"x", "é".encode()))
    found = decoded(one, strict=True, plain=True)
    same(found, decoded(one, strict=True, plain=False))
    assert len(found.failures) == 2


def test_plain_messages_are_all_read_by_the_loop() -> None:
    text = '{"event":{"s":"x","i":%d,"l":2,"f":1.5,"d":0.1234567890123456789,"b":true}}'
    block = Block.of([(text % i).encode() for i in range(50)])
    mapper = JsonSource(connector(COLUMNS))
    reader = json_block.BlockReader(mapper._inner, strict=True)
    read = reader.read(block)
    assert read is not None
    assert read.messages.tolist() == list(range(50))
    assert read.batch.column("i").to_pylist() == list(range(50))
    assert set(read.batch.column("d").to_pylist()) == {0.1234567890123456789}


def test_a_log_of_other_messages_does_not_go_through_the_loop_again() -> None:
    mapper = JsonSource(connector("a int"))
    mapper.decode(messages(*['[{"a":1},{"a":2}]'] * 5))
    assert not mapper._plain
    found = mapper.decode(messages(*['{"a":1}'] * 5))
    assert found.batch.num_rows == 5


def test_a_part_of_a_block_is_a_block() -> None:
    block = Block.of([b"one", b"two", b"", b"four"])
    assert list(block[1:3]) == [b"two", b""]
    assert block[-1] == b"four"
    assert block.taken(np.array([0, 3])) == [b"one", b"four"]
    assert block.nbytes == 10
