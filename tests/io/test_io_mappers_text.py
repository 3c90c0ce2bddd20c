from __future__ import annotations

import pyarrow as pa
import pytest
from io_build import connector, messages, output

from nadi.errors import NadiError
from nadi.io.contract import Decoded, Messages
from nadi.io.mappers.arrow import ipc_bytes
from nadi.io.registry import make_sink_mapper, make_source_mapper


def decode(columns: str, *payloads: bytes | str, **given: object) -> Decoded:
    return make_source_mapper(connector(columns, "text", **given)).decode(messages(*payloads))  # type: ignore[arg-type]


def rows(found: Decoded) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in found.batch.to_pylist()]


@pytest.mark.parametrize(
    "payload",
    [
        'symbol:"A, b:c",\nprice:55.6,\nvolume:1,000',
        "symbol:'A, b:c',price:55.6,volume:1000",
        'volume: 1000 , symbol : "A, b:c" ,\r\nprice: 55.6\n',
        'symbol:"A, b:c",symbol:"second",price:55.6,volume:1000,other:5',
    ],
)
def test_pairs_are_read_in_any_order(payload: str) -> None:
    found = decode("symbol string, price double, volume long", payload)
    assert (rows(found), found.failures) == ([("A, b:c", 55.6, 1000)], ())


def test_a_missing_or_wrong_pair_is_a_failure() -> None:
    found = decode("a int, b string", "a:1", 'a:x,b:"y"', "nothing", 'a:null,b:"z"', b"\xff")
    assert rows(found) == [(None, "z")]
    assert [f.reason for f in found.failures] == [
        "the attribute 'b' is missing",
        "attribute 'a': 'x' is not an int",
        "'nothing' is not name:value",
        "not UTF-8",
    ]


def test_groups_of_expressions_are_found_anywhere() -> None:
    found = decode(
        "symbol string, price int, volume long",
        "wso2 550 volume 100",
        "nothing here",
        map_options={"regex.A": r"(\w+)\s([-0-9]+)", "regex.B": r"volume\s([-0-9]+)"},
        attributes={"symbol": "A[1]", "price": "A[2]", "volume": "B"},
    )
    assert rows(found) == [("wso2", 550, 100)]
    assert [f.reason for f in found.failures] == ["the attribute 'symbol' is missing"]


@pytest.mark.parametrize("place", ["B", "A[3]", "A[", "1"])
def test_a_place_without_an_expression_is_refused(place: str) -> None:
    with pytest.raises(NadiError) as e:
        decode("a string", map_options={"regex.A": "(x)(y)"}, attributes={"a": place})
    assert e.value.condition == "MAPPING_INVALID"


def test_a_group_of_events_is_a_chunk() -> None:
    found = decode("a int", "a:1\n~~~~~~~~~~\na:2", map_options={"event.grouping.enabled": "true"})
    assert (rows(found), found.message.tolist()) == ([(1,), (2,)], [0, 0])


def test_events_are_written_as_pairs_or_by_template() -> None:
    batch = output("s string, f float, i int", [("x", 1.1, 5), (None, 2.0, None)], [0, 0])
    plain = make_sink_mapper(connector("s string, f float, i int", "text"))
    assert plain.encode(batch)[0] == [b's:"x",\nf:1.1,\ni:5', b"s:null,\nf:2.0,\ni:null"]
    grouped = {"event.grouping.enabled": "true"}
    filled = make_sink_mapper(connector("s string, f float, i int", "text", grouped, payload=["{{s}} costs {{f}}"]))
    assert filled.encode(batch) == ([b"x costs 1.1\n~~~~~~~~~~\nnull costs 2.0"], [0])


def test_what_was_written_as_pairs_is_read_again() -> None:
    chosen = connector("s string, f float, i int", "text")
    payloads, _ = make_sink_mapper(chosen).encode(output("s string, f float, i int", [("x y", 1.5, 5), ("", None, -1)]))
    found = make_source_mapper(chosen).decode(messages(*payloads))
    assert rows(found) == [("x y", 1.5, 5), ("", None, -1)]


def test_mustache_is_refused() -> None:
    with pytest.raises(NadiError) as e:
        make_sink_mapper(connector("a int", "text", {"mustache.enabled": "true"}))
    assert e.value.condition == "NOT_SUPPORTED"


# ---- arrow, parquet, passThrough -----------------------------------------------------------------------------------


def test_arrow_messages_are_matched_by_name_and_widened() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"b": pa.array(["x", None]), "z": pa.array([1, 2]), "a": pa.array([1, 2], pa.int16())}
    )
    mapper = make_source_mapper(connector("a long, b string", "arrow"))
    found = mapper.decode(messages(ipc_bytes(batch), b"nonsense", ipc_bytes(batch.slice(0, 1))))
    assert rows(found) == [(1, "x"), (2, None), (1, "x")]
    assert found.message.tolist() == [0, 0, 2]
    assert [f.position for f in found.failures] == [101]


def test_typed_rows_that_do_not_fit_fail_one_by_one() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1, 2**40, None]), "f": pa.array([1.5, 2.5, 3.5])})
    times = messages("", "", "")
    mapper = make_source_mapper(connector("a int, f float", "parquet"))
    found = mapper.decode(Messages(times.positions, times.times, batch))
    assert rows(found) == [(1, 1.5), (None, 3.5)]
    assert found.message.tolist() == [0, 2]
    assert [(f.position, f.reason) for f in found.failures] == [
        (101, f"attribute 'a': {2**40} is out of range for int")
    ]


@pytest.mark.parametrize("column", [pa.array(["5"]), pa.array([1.5]), pa.array([True]), pa.array([[1]])])
def test_typed_rows_of_another_type_are_not_converted(column: pa.Array) -> None:
    batch = pa.RecordBatch.from_pydict({"a": column})
    found = make_source_mapper(connector("a int", "arrow")).decode(messages(ipc_bytes(batch)))
    assert rows(found) == []
    assert found.failures[0].reason == f"column 'a' is {column.type}, not int"


def test_timestamps_become_milliseconds() -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.array([1_700_000_000_123_456], pa.timestamp("us"))})
    assert rows(make_source_mapper(connector("a long", "arrow")).decode(messages(ipc_bytes(batch)))) == [
        (1_700_000_000_123,)
    ]


def test_columns_of_other_names_are_mapped() -> None:
    batch = pa.RecordBatch.from_pydict({"x y": pa.array([1]), "b": pa.array(["z"])})
    mapper = make_source_mapper(connector("a int, b string", "arrow", attributes={"a": "x y", "b": "b"}))
    assert rows(mapper.decode(messages(ipc_bytes(batch)))) == [(1, "z")]
    with pytest.raises(NadiError):
        make_sink_mapper(connector("a int", "arrow", payload=["{{a}}"]))


def test_what_passes_through_goes_to_attributes_by_position_whatever_they_are_called() -> None:
    sent = connector("av double, total long, k string", "passThrough")
    payloads, _firsts = make_sink_mapper(sent).encode(
        output("av double, total long, k string", [(2.0, 1, "x"), (None, None, None)])
    )
    for attributes in (None, {"total": "total", "cnt": "k", "av": "av"}):
        heard = make_source_mapper(connector("total double, cnt long, av string", "passThrough", attributes=attributes))
        found = heard.decode(messages(*payloads))
        assert (rows(found), found.failures) == ([(2.0, 1, "x"), (None, None, None)], ())


@pytest.mark.parametrize(
    "heard", ["payload string", "a double", "a double, b long, c long", "a double, b int", "a float, b long"]
)
def test_what_passes_through_with_other_types_or_another_number_of_values_is_a_failure(heard: str) -> None:
    batch = output("a double, b long", [(2.0, 1), (3.0, 2)], [0, 1])
    payloads, _firsts = make_sink_mapper(connector("a double, b long", "passThrough")).encode(batch)
    found = make_source_mapper(connector(heard, "passThrough")).decode(messages(*payloads, b"nonsense"))
    assert rows(found) == []
    assert [f.position for f in found.failures] == [100, 101, 102]
    assert found.failures[0].reason.startswith("its values are of the types (double, long), those of the stream are (")


def test_texts_pass_through_however_arrow_keeps_them() -> None:
    column = pa.array(["x", None, "x"]).dictionary_encode()
    batch = pa.RecordBatch.from_pydict({"a": column, "b": pa.array(["y", "z", ""], pa.large_string())})
    found = make_source_mapper(connector("k string, o object", "passThrough")).decode(messages(ipc_bytes(batch)))
    assert rows(found) == [("x", "y"), (None, "z"), ("x", "")]


def test_finding_1_spaces_inside_a_value_are_read_once() -> None:
    """Security finding 1: the pattern that read pairs took cubic time, 10 s for 2,000 spaces. A million would take weeks."""
    found = decode("a string", "a:x" + " " * 1_000_000 + "y\n z")
    assert [f.reason for f in found.failures] == ["'a:x' is not name:value"]


@pytest.mark.parametrize(
    "payload", ['a:"x,' * 100_000, "a:',b:\"," * 100_000, "a:" + " ," * 400_000, "," * 800_000, ", a " * 200_000]
)
def test_finding_1_no_message_of_a_megabyte_takes_more_than_a_moment(payload: str) -> None:
    decode("a string", payload)


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ("a:", ""),
        ("a:x,,", "x,"),
        ("a:x , \n", "x"),
        ('a:"x",y,b:1', '"x",y'),
        ('a:"x"y"', 'x"y'),
        ("a:'x\ny' ,b:1", "x\ny"),
        ("a: 1,000 , b : 2", "1,000"),
        ("a:x y:z", "x y:z"),
    ],
)
def test_a_value_ends_before_the_next_name_or_the_end(payload: str, value: str) -> None:
    found = decode("a string", payload)
    assert (rows(found), found.failures) == ([(value,)], ())


@pytest.mark.parametrize("payload", [" ", "a:x\ny,b:1", "a", ":x", ",a:1"])
def test_what_is_no_list_of_pairs_is_a_failure(payload: str) -> None:
    assert len(decode("a string", payload, map_options={"fail.on.missing.attribute": "false"}).failures) == 1
