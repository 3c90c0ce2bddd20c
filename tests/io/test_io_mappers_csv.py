from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from io_build import connector, messages, output

from nadi.errors import NadiError
from nadi.io.contract import Decoded
from nadi.io.registry import make_sink_mapper, make_source_mapper


def decode(columns: str, *payloads: bytes | str, header: tuple[str, ...] = (), **given: object) -> Decoded:
    mapper = make_source_mapper(connector(columns, "csv", type_="file", **given))  # type: ignore[arg-type]
    return mapper.decode(messages(*payloads, header=header))


def rows(found: Decoded) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in found.batch.to_pylist()]


def reasons(found: Decoded) -> list[tuple[int, str]]:
    return [(f.position, f.reason) for f in found.failures]


ALL = "s string, i int, l long, f float, d double, b bool"


def test_all_types_are_read() -> None:
    found = decode(ALL, "x,1,1099511627776,1.5,-2e3,true", " y , +2 , 3 ,.5, 4. , FALSE ")
    assert rows(found) == [("x", 1, 2**40, 1.5, -2000.0, True), (" y ", 2, 3, 0.5, 4.0, False)]
    assert found.failures == ()


def test_an_empty_field_is_null_and_a_quoted_empty_one_is_the_empty_string() -> None:
    assert rows(decode("s string, t string, i int", ',"",', '"",,""')) == [(None, "", None), ("", None, None)]


def test_an_empty_field_after_a_quoted_one_is_null_at_the_end_too() -> None:
    assert rows(decode("s string, t string", '"x",')) == [("x", None)]
    assert rows(decode("s string, t string", '"x",', '"",')) == [("x", None), ("", None)]


def test_real_files_say_na() -> None:
    found = decode("s string, i int", "NA,NA", '"NA",1', "x, NA ", map_options={"null.values": "NA,"})
    assert rows(found) == [(None, None), ("NA", 1), ("x", None)]


def test_columns_go_by_the_names_of_the_header() -> None:
    found = decode("a int, b string", "x,9,1", "y,9,2", header=("b", "z", "a"))
    assert rows(found) == [(1, "x"), (2, "y")]


def test_a_header_without_an_attribute_fails_every_record() -> None:
    assert reasons(decode("a int", "1", "2", header=("b",))) == [
        (100, "the header has no column 'a'"),
        (101, "the header has no column 'a'"),
    ]


def test_places_are_given_by_index_or_by_header_name() -> None:
    found = decode("a int, b string", "p,7,q", "r,8,s,more", attributes={"a": "1", "b": "0"})
    assert rows(found) == [(7, "p"), (8, "r")]
    found = decode("a int, b string", "p,7", header=("x", "y"), attributes={"a": "y", "b": "0"})
    assert rows(found) == [(7, "p")]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("x", "1 fields where 2 are expected"),
        ("q,x", "attribute 'a': 'q' is not an int"),
        ("1.0,x", "attribute 'a': '1.0' is not an int"),
        ("0x10,x", "attribute 'a': '0x10' is not an int"),
        ("1_0,x", "attribute 'a': '1_0' is not an int"),
        ("2147483648,x", "attribute 'a': 2147483648 is out of range for an int"),
        ('1,"x', "not CSV: a quoted field is not closed"),
        ('1,"x"y', "not CSV: a quoted field goes on after its closing quote, at character 6"),
        (b"1,\xff", "not UTF-8"),
        ("", "the message is empty"),
    ],
)
def test_a_bad_record_is_a_failure_and_costs_no_neighbour(payload: bytes | str, reason: str) -> None:
    found = decode("a int, b string", "1,one", payload, '2,"tw""o"', "3,three")
    assert rows(found) == [(1, "one"), (2, 'tw"o'), (3, "three")]
    assert found.message.tolist() == [0, 2, 3]
    assert reasons(found) == [(101, reason)]


def test_a_record_wider_than_the_header_is_a_failure() -> None:
    found = decode("a int, b int", "1,2", "1,2,3", header=("a", "b"))
    assert (rows(found), reasons(found)) == ([(1, 2)], [(101, "3 fields where 2 are expected")])


def test_a_quote_inside_a_field_does_not_swallow_the_next_message() -> None:
    found = decode("a string, b string", 'x"y,"z', "1,2", 'p"q,r"s')
    assert rows(found) == [("1", "2"), ('p"q', 'r"s')]
    assert [f.position for f in found.failures] == [100]


def test_a_message_of_several_lines_is_a_chunk() -> None:
    found = decode("a int, b string", '1,x\r\nbad,y\n\n3,"two\nlines"\n', "4,z")
    assert rows(found) == [(1, "x"), (3, "two\nlines"), (4, "z")]
    assert found.message.tolist() == [0, 0, 1]
    assert [(f.position, f.payload) for f in found.failures] == [(100, b"bad,y")]


def test_other_delimiters_and_quotes() -> None:
    assert rows(decode("a int, b string", "1\t'x\ty'", map_options={"delimiter": "\\t", "quote": "'"})) == [(1, "x\ty")]
    with pytest.raises(NadiError):
        decode("a int", map_options={"delimiter": ':"', "quote": '"'})


def test_what_does_not_fit_is_null_where_that_is_asked_for() -> None:
    found = decode("a int, b string", "q,x", "1", map_options={"fail.on.unknown.attribute": "false"})
    assert rows(found) == [(None, "x"), (1, None)]


def test_a_header_needs_a_file() -> None:
    with pytest.raises(NadiError) as e:
        make_source_mapper(connector("a int", "csv", {"header": "true"}, type_="kafka"))
    assert e.value.condition == "MAPPING_INVALID"


def encode(
    columns: str, data: list[tuple[object, ...]], chunks: list[int] | None = None, **given: object
) -> list[bytes]:
    mapper = make_sink_mapper(connector(columns, "csv", type_="file", **given))  # type: ignore[arg-type]
    return list(mapper.encode(output(columns, data, chunks))[0])


def test_fields_are_quoted_where_they_must_be() -> None:
    given = ["plain", "a,b", 'q"q', "line\nline", " spaced", "", None, "ü"]
    assert encode("s string, i int", [(s, 1) for s in given]) == [
        b"plain,1",
        b'"a,b",1',
        b'"q""q",1',
        b'"line\nline",1',
        b'" spaced",1',
        b'"",1',
        b",1",
        "ü,1".encode(),
    ]


def test_numbers_are_short_and_bools_are_words() -> None:
    assert encode("f float, d double, b bool, l long", [(1.1, 100.0, True, 7), (None, 1e300, False, None)]) == [
        b"1.1,100.0,true,7",
        b",1e+300,false,",
    ]


def test_a_payload_orders_and_chooses_the_columns() -> None:
    assert encode("a int, b int, c int", [(1, 2, 3)], payload={"c": "0", "a": "1"}) == [b"3,1"]
    with pytest.raises(NadiError):
        encode("a int, b int", [], payload={"a": "1"})


def test_null_may_be_written_as_siddhi_does() -> None:
    assert encode("s string, i int", [(None, None), ("null", 1)], map_options={"null.value": "null"}) == [
        b"null,null",
        b'"null",1',
    ]


def test_a_chunk_is_one_message_where_that_is_asked_for() -> None:
    grouped = {"event.grouping.enabled": "true"}
    assert encode("a int", [(1,), (2,), (3,)], [0, 0, 2], map_options=grouped) == [b"1\n2", b"3"]


# ---- delimiters of several characters --------------------------------------------------------------------------------


def test_a_delimiter_may_have_several_characters() -> None:
    payloads = ["WSO2||55.6||100", 'a "q"||1|||2', '"x||y"||2.5||3', "||1||2", '""||1||2', "x|1|2", "x||1||2||more"]
    found = decode("s string, d double, v int", *payloads, map_options={"delimiter": "||"})
    assert rows(found) == [
        ("WSO2", 55.6, 100),
        ("x||y", 2.5, 3),
        (None, 1.0, 2),
        ("", 1.0, 2),
        ("x", 1.0, 2),
    ]
    assert [f.reason for f in found.failures] == ["attribute 'v': '|2' is not an int", "1 fields where 3 are expected"]
    many = decode("s string, d double, v int", *["a~~1.5~~7"] * 300, map_options={"delimiter": "~~"})
    assert rows(many) == [("a", 1.5, 7)] * 300
    assert rows(decode("a int, b int", "1→2", map_options={"delimiter": "→"})) == [(1, 2)]


@pytest.mark.parametrize("delimiter", ["", 'x"', "\n", "||\r"])
def test_a_delimiter_that_cannot_be_told_apart_is_refused(delimiter: str) -> None:
    for make in (make_source_mapper, make_sink_mapper):
        with pytest.raises(NadiError, match="without quotes and line ends"):
            make(connector("a int", "csv", {"delimiter": delimiter}))


@given(
    texts=st.lists(st.tuples(*[st.text('ab|~",\n ', max_size=5)] * 2), min_size=1, max_size=5),
    delimiter=st.sampled_from(["||", "|~", "ab", "aba"]),
)
def test_what_is_written_with_a_long_delimiter_is_read_to_the_same(
    texts: list[tuple[str, str]], delimiter: str
) -> None:
    chosen = connector("a string, b string", "csv", {"delimiter": delimiter})
    payloads, _firsts = make_sink_mapper(chosen).encode(output("a string, b string", texts))
    assert rows(make_source_mapper(chosen).decode(messages(*payloads))) == texts
