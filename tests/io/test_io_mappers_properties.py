"""What holds for all values: what is encoded is decoded to the same, and the company of a message changes nothing about it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from io_build import connector, messages, output

from nadi.io.contract import Connector, Decoded
from nadi.io.registry import make_sink_mapper, make_source_mapper

COLUMNS = "s string, i int, l long, f float, d double, b bool, o object"

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "",
        " ",
        '"',
        '""',
        "a,b",
        "x\ny",
        "\r",
        "\r\n",
        "null",
        "NA",
        "\0",
        "\ufeff",
        "{}",
        "'",
        "1",
        "\\",
        "é😀",
        "\u2028",
    ]
)
jsonable = st.recursive(
    st.none() | st.booleans() | st.integers() | text,
    lambda x: st.lists(x, max_size=3) | st.dictionaries(text, x, max_size=3),
)
finite = {"allow_nan": False, "allow_infinity": False}
events = st.tuples(
    st.none() | text,
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(width=32, **finite),  # type: ignore[arg-type]
    st.none() | st.floats(**finite),  # type: ignore[arg-type]
    st.none() | st.booleans(),
    st.none() | jsonable.filter(lambda v: v is not None).map(json.dumps),
)


def round_trip(chosen: Connector, batch: pa.RecordBatch) -> Decoded:
    payloads, _firsts = make_sink_mapper(chosen).encode(batch)
    return make_source_mapper(chosen).decode(messages(*payloads))


@pytest.mark.parametrize("kind", ["json", "csv", "arrow", "passThrough"])
@given(rows=st.lists(events, max_size=8), data=st.data())
@settings(max_examples=150, deadline=None)
def test_what_is_encoded_is_decoded_to_the_same(kind: str, rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    chunks = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)).map(sorted))
    batch = output(COLUMNS, rows, chunks)
    found = round_trip(connector(COLUMNS, kind), batch)
    assert found.failures == ()
    assert found.batch.to_pylist() == batch.select(found.batch.schema.names).to_pylist()
    assert len(found.message) == len(rows)


wanted = st.sampled_from(
    ["1", "2.5", '"x"', "true", "null", "[1, 2]", '{"a": 1}', "1e400", "99999999999", '"\\ud800"', "01", "-0.0"]
)
keys = st.sampled_from(["a", "b", "event", "z"])
objects = st.recursive(
    wanted,
    lambda x: st.lists(st.tuples(keys, x), max_size=4).map(lambda p: "{" + ",".join(f'"{k}":{v}' for k, v in p) + "}"),
    max_leaves=6,
)
json_messages = (
    objects
    | st.lists(objects, max_size=3).map(lambda x: "[" + ",".join(x) + "]")
    | objects.map(lambda x: f'{{"event":{x}}}')
    | st.sampled_from(
        ['{"event":{"a":1,"b":"x"}}', '{"a":2,"b":"y"}', "", "{", '{"a":1}}', '[{"event":{"a":3,"b":"z"}}]']
    )
).map(str.encode) | st.sampled_from(
    [b'{"event":{"a":1,"b":"\xff"}}', b'{"a":1,"b":"x","z":"\xff"}', b'\xef\xbb\xbf{"a":1,"b":"x"}']
)

fields = st.sampled_from(
    [
        "1",
        "-2",
        "x",
        '"x"',
        '"x,y"',
        '"x""y"',
        '"',
        'x"y',
        '"x"y',
        "",
        '""',
        " 1",
        "99999999999",
        "0x1",
        "a\nb",
        "\r\n",
        "NA",
    ]
)
csv_messages = st.lists(fields, min_size=1, max_size=4).map(",".join).map(str.encode) | st.sampled_from(
    [b"1,x", b"2,y", b"", b"1,\xff", b"\xef\xbb\xbf1,x"]
)
CASES = [
    (connector("a int, b string"), json_messages),
    (connector("a int, b string", map_options={"fail.on.missing.attribute": "false"}), json_messages),
    (connector("a int, b object", attributes={"a": "$.event.a", "b": "$.b"}), json_messages),
    (connector("a int, event object"), json_messages),
    (
        connector("a double, b bool", attributes={"a": "a", "b": "b"}, map_options={"enclosing.element": "$.event"}),
        json_messages,
    ),
    (connector("a int, b string", "csv"), csv_messages),
    (connector("a int, b double", "csv", {"null.values": "NA,1", "fail.on.unknown.attribute": "false"}), csv_messages),
    (connector("a string, b long", "csv", attributes={"a": "1", "b": "0"}), csv_messages),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_the_company_of_a_message_changes_nothing_about_it(case: int, data: st.DataObject) -> None:
    chosen, some = CASES[case]
    payloads = data.draw(st.lists(some, max_size=6))
    mapper = make_source_mapper(chosen)
    together = mapper.decode(messages(*payloads))
    apart = [mapper.decode(messages(p)) for p in payloads]
    assert together.batch.to_pylist() == [row for one in apart for row in one.batch.to_pylist()]
    assert together.message.tolist() == [i for i, one in enumerate(apart) for _ in range(one.batch.num_rows)]
    assert [(f.position - 100, f.reason, f.payload) for f in together.failures] == [
        (i, f.reason, f.payload) for i, one in enumerate(apart) for f in one.failures
    ]


def test_a_float_is_the_same_after_the_way_through_text() -> None:
    values = np.random.default_rng(7).integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    batch = output("f float", [(float(v),) for v in values])
    for kind in ("json", "csv"):
        found = round_trip(connector("f float", kind), batch)
        assert np.array_equal(found.batch.column("f").to_numpy().view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize(
    ("kind", "one", "several"),
    [
        ("json", '{"event": {"x": 1}}', '[{"event": {"x": 1}}, {"event": {}}]'),
        ("csv", "1,2", "1\n2"),
        ("xml", "<a/>", "<a/>"),
        ("text", "x:1", "x"),
    ],
)
def test_an_event_may_be_made_of_transport_properties_alone(kind: str, one: str, several: str) -> None:
    mapper = make_source_mapper(connector("a string, b int", kind, attributes={"a": "trp:h", "b": "trp:n"}))
    properties = [{"h": "v", "n": "1"}, {"h": "w"}, {"h": "x", "n": "3"}]
    found = mapper.decode(messages(one, one, several, properties=properties))
    expected = {0: {"a": "v", "b": 1}, 2: {"a": "x", "b": 3}}
    assert [f.reason for f in found.failures] == ["the transport property 'n' is missing"]
    assert found.batch.to_pylist() == [expected[m] for m in found.message.tolist()]
    assert sorted({*found.message.tolist()}) == [0, 2]
