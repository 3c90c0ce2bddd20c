from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from io_build import connector, messages, output

from nadi.errors import NadiError
from nadi.io.contract import Decoded
from nadi.io.registry import make_sink_mapper, make_source_mapper

STOCK = "symbol string, price float, volume long"
PORTFOLIO = """<?xml version="1.0"?>
<portfolio xmlns:dt="urn:schemas-microsoft-com:datatypes">
  <stock exchange="nasdaq"><volume>100</volume><company><symbol>WSO2</symbol></company><price dt:type="number">55.6</price></stock>
  <stock exchange="nyse"><volume>50</volume><company><symbol>IBM</symbol></company><price dt:type="text">7</price></stock>
</portfolio>"""


def decode(columns: str, *payloads: bytes | str, **told: object) -> Decoded:
    return make_source_mapper(connector(columns, "xml", **told)).decode(messages(*payloads))  # type: ignore[arg-type]


def rows(found: Decoded) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in found.batch.to_pylist()]


def reasons(found: Decoded) -> list[str]:
    return [f.reason for f in found.failures]


def encode(columns: str, given_rows: list[list[object]], chunks: list[int] | None = None, **told: object) -> list[str]:
    mapper = make_sink_mapper(connector(columns, "xml", **told))  # type: ignore[arg-type]
    payloads, _ = mapper.encode(output(columns, given_rows, chunks))
    return [p.decode() for p in payloads]


def event(inner: str) -> str:
    return f"<events><event>{inner}</event></events>"


# ---- source, default mapping


def test_the_default_form_is_read_in_any_order_and_what_is_no_attribute_is_ignored() -> None:
    text = event("\n <volume> 100 </volume><other/><symbol>W &amp; S</symbol><price>55.5</price>")
    found = decode(STOCK, f'<?xml version="1.0" encoding="UTF-8"?>\n<!-- a - b -- ->-->\n{text}'.replace(" -- ->", ""))
    assert (rows(found), found.failures) == ([("W & S", 55.5, 100)], ())


def test_the_events_of_a_message_are_one_chunk() -> None:
    two = "<events><event><a>1</a></event><event><a>2</a></event></events>"
    found = decode("a int", two, "<events/>", event("<a>3</a>"))
    assert (rows(found), found.message.tolist()) == ([(1,), (2,), (3,)], [0, 0, 2])


def test_namespaces_are_not_looked_at_by_the_default_mapping() -> None:
    text = '<x:events xmlns:x="urn:x"><x:event><a xmlns="urn:y">1</a></x:event></x:events>'
    assert rows(decode("a int", text)) == [(1,)]


def test_of_an_element_that_stands_twice_the_last_counts() -> None:
    assert rows(decode("a int", event("<a>1</a><a>2</a>"))) == [(2,)]


def test_an_attribute_that_is_missing_or_empty_is_a_failure_or_null() -> None:
    texts = (event("<a>1</a>"), event("<a/><b>x</b>"), event("<a> </a><b/>"))
    assert reasons(decode("a int, b string", *texts)) == [
        "the attribute 'b' is missing",
        "the attribute 'a' is empty",
        "the attribute 'a' is empty",
    ]
    lenient = decode("a int, b string", *texts, map_options={"fail.on.missing.attribute": "false"})
    assert rows(lenient) == [(1, None), (None, "x"), (None, "")]


def test_an_element_may_say_that_it_is_null_also_as_siddhi_writes_it() -> None:
    declared = (
        '<events xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><event><a xsi:nil="true"/></event></events>'
    )
    undeclared = '<!-- <b> --><events><event><a xsi:nil="true"/></event></events>'
    assert rows(decode("a int", declared, undeclared)) == [(None,), (None,)]


def test_one_event_that_fails_leaves_the_others_of_its_message() -> None:
    found = decode("a int", "<events><event><a>1</a></event><event><a>x</a></event> </events>")
    assert rows(found) == [(1,)]
    (failure,) = found.failures
    assert failure.reason == "attribute 'a': 'x' is not an int"
    assert failure.payload == b"<event><a>x</a></event>"


def test_a_text_that_is_no_such_message_is_a_failure() -> None:
    found = decode("a int", "<event><a>1</a></event>", "<events><event></events>", "", b"<events>\xff</events>", "a:1")
    assert rows(found) == []
    assert [r.partition(":")[0] for r in reasons(found)] == [
        "the root element is 'event', not 'events'",
        "not XML",
        "not XML",
        "not UTF-8",
        "not XML",
    ]


def test_a_string_takes_elements_as_their_xml_and_a_number_does_not() -> None:
    assert rows(decode("a string", event("<a>x<b>1</b>y</a>"))) == [("<a>x<b>1</b>y</a>",)]
    assert reasons(decode("a int", event("<a><b>1</b></a>"))) == [
        "attribute 'a': there are elements in it where int is wanted"
    ]


# ---- source, paths


def test_values_are_taken_by_path_from_each_child_of_the_enclosing_element() -> None:
    found = decode(
        "symbol string, price double, volume int, exchange string",
        PORTFOLIO,
        map_options={"enclosing.element": "//portfolio", "namespaces": "dt=urn:schemas-microsoft-com:datatypes"},
        attributes={"symbol": "company/symbol", "price": "price", "volume": "volume/text()", "exchange": "@exchange"},
    )
    assert rows(found) == [("WSO2", 55.6, 100, "nasdaq"), ("IBM", 7.0, 50, "nyse")]


def test_the_enclosing_element_may_be_the_event_itself() -> None:
    found = decode(
        "symbol string, kind string",
        PORTFOLIO,
        map_options={
            "enclosing.element": "/portfolio/stock[@exchange='nyse']",
            "enclosing.element.as.event": "true",
            "namespaces": "dt=urn:schemas-microsoft-com:datatypes",
        },
        attributes={"symbol": "company/symbol", "kind": "price/@dt:type"},
    )
    assert rows(found) == [("IBM", "text")]


def test_without_an_enclosing_element_a_message_is_one_event() -> None:
    found = decode("a int, b int, c string", "<r><x><y>1</y><y>2</y></x></r>", attributes=["x/y", "//y[2]", "x"])
    assert rows(found) == [(1, 2, "<x><y>1</y><y>2</y></x>")]


def test_an_enclosing_element_that_is_not_there_is_a_failure() -> None:
    found = decode("a int", "<r/>", map_options={"enclosing.element": "/x"}, attributes=["a"])
    assert reasons(found) == ["there is no element at the path of enclosing.element"]


@pytest.mark.parametrize("path", ["count(a)", "a/@b/c", "q:a", "@q:a", "/", "", "a[", "a[position()>1]"])
def test_a_path_that_is_not_supported_is_refused_at_once(path: str) -> None:
    with pytest.raises(NadiError) as e:
        decode("a int", attributes=[path])
    assert e.value.condition == "MAPPING_INVALID"


@pytest.mark.parametrize("given_text", ["x", "=urn:x", "1=urn:x", "x="])
def test_namespaces_are_checked(given_text: str) -> None:
    with pytest.raises(NadiError, match="prefix=address"):
        decode("a int", attributes=["a"], map_options={"namespaces": given_text})


@pytest.mark.parametrize("name", ["enable.streaming.xml.content", "extract.leaf.node.data"])
def test_what_is_not_supported_says_so(name: str) -> None:
    decode("a int", map_options={name: "false"})
    with pytest.raises(NadiError, match=name) as e:
        decode("a int", map_options={name: "true"})
    assert e.value.condition == "NOT_SUPPORTED"


def test_transport_properties_complete_the_events() -> None:
    mapper = make_source_mapper(connector("a int, t string", "xml", attributes={"a": "a", "t": "trp:subject"}))
    assert rows(mapper.decode(messages("<e><a>1</a></e>", properties=[{"subject": "s"}]))) == [(1, "s")]


# ---- source, what strangers send


BILLION = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><events><event><a>&b;</a></event></events>'


@pytest.mark.parametrize(
    "text",
    [
        BILLION,
        f"\ufeff<?xml version='1.0'?> <!-- a --> <?p q? ?> {BILLION}",
        '<!DOCTYPE x SYSTEM "file:///etc/passwd"><events/>',
        '<!DOCTYPE x PUBLIC "-//x" "http://127.0.0.1:1/x"><events/>',
    ],
)
def test_document_types_are_refused_before_anything_is_parsed(text: str) -> None:
    assert reasons(decode("a string", text)) == ["document types and entities are not supported"]


def test_a_document_type_elsewhere_is_no_xml_and_in_cdata_it_is_text() -> None:
    late = "<events><!DOCTYPE x></events>"
    assert reasons(decode("a string", late))[0].startswith("not XML")
    assert rows(decode("a string", event("<a><![CDATA[<!DOCTYPE html>]]></a>"))) == [("<!DOCTYPE html>",)]


def test_entities_that_nobody_has_defined_are_no_xml() -> None:
    assert reasons(decode("a string", event("<a>&b;</a>")))[0].startswith("not XML")


def test_depth_is_bounded() -> None:
    deep = event("<a>" + "<b>" * 200_000 + "</b>" * 200_000 + "</a>")
    fits = event("<a>" + "<b>" * 97 + "</b>" * 97 + "</a>")
    found = decode("a string", deep, fits)
    assert (reasons(found), len(rows(found))) == (["it is nested too deep: 100 levels are the most"], 1)


@pytest.mark.parametrize("name", ["utf-16", "latin-1", "UTF-7"])
def test_another_encoding_than_utf_8_is_refused(name: str) -> None:
    found = decode("a int", f'<?xml version="1.0" encoding="{name}"?>{event("<a>1</a>")}')
    assert reasons(found) == [f"it says that it is in {name}, and UTF-8 is read only"]


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: f"<events>{t}</events>".encode(errors="replace")))
def test_no_bytes_make_the_mapper_fail(payload: bytes) -> None:
    found = decode("a int", payload)
    assert found.batch.num_rows == 0


# ---- sink


def test_the_default_form_has_the_events_of_a_chunk() -> None:
    written = encode("a string, b float", [["x", 1.1], ["y", 2.0], ["z", None]], [0, 0, 1])
    assert written == [
        "<events><event><a>x</a><b>1.1</b></event><event><a>y</a><b>2.0</b></event></events>",
        '<events><event><a>z</a><b xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"/></event></events>',
    ]


def test_values_are_escaped_and_what_xml_does_not_have_is_replaced() -> None:
    assert encode("a string", [["<a> & 'b' \x00\x1f\ufffe\r\n"]]) == [
        "<events><event><a>&lt;a&gt; &amp; 'b' \ufffd\ufffd\ufffd&#13;\n</a></event></events>"
    ]


def test_another_element_may_be_around_the_events() -> None:
    told = {"enclosing.element": '<list kind="x">'}
    assert encode("a int", [[1]], map_options=told) == ['<list kind="x"><event><a>1</a></event></list>']


def test_a_payload_is_a_message_per_event_or_per_chunk_in_an_element() -> None:
    three: list[list[object]] = [[1], [2], [3]]
    assert encode("a int", three, [0, 0, 1], payload=["<x>{{a}}</x>"]) == ["<x>1</x>", "<x>2</x>", "<x>3</x>"]
    told = {"enclosing.element": "<p>"}
    assert encode("a int", three, [0, 0, 1], payload=["<x>{{a}}</x>"], map_options=told) == [
        "<p><x>1</x><x>2</x></p>",
        "<p><x>3</x></p>",
    ]


def test_validation_leaves_out_what_is_no_xml(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        written = encode("a string", [["1"], ["<"]], payload=["<x>{{a}}</x>"], map_options={"validate.xml": "true"})
    assert written == ["<x>1</x>"]
    assert "left out (not XML" in caplog.text


@pytest.mark.parametrize("tag", ["p", "<p/>", "<p", "<p a>", "<1>", "<a:p>", "<p><q>"])
def test_a_tag_that_is_none_is_refused(tag: str) -> None:
    with pytest.raises(NadiError) as e:
        encode("a int", [], map_options={"enclosing.element": tag})
    assert e.value.condition == "MAPPING_INVALID"


def test_an_attribute_that_is_no_name_of_an_element_is_refused() -> None:
    with pytest.raises(NadiError, match="no name of an element"):
        make_sink_mapper(connector("1a int", "xml"))
    make_sink_mapper(connector("1a int", "xml", payload=["<a>{{1a}}</a>"]))


# ---- both


ALL = "s string, i int, l long, f float, d double, b bool"
IN_XML = st.characters(exclude_categories=["Cs"]).filter(
    lambda c: c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff")
)


@given(
    st.lists(
        st.tuples(
            st.none() | st.text(IN_XML),
            st.none() | st.integers(-(2**31), 2**31 - 1),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats(width=32, allow_nan=False),
            st.none() | st.floats(allow_nan=False),
            st.none() | st.booleans(),
        ),
        max_size=5,
    )
)
def test_what_the_sink_writes_the_source_reads(given_rows: list[tuple[object, ...]]) -> None:
    batch = output(ALL, given_rows, [0] * len(given_rows))
    payloads, _ = make_sink_mapper(connector(ALL, "xml")).encode(batch)
    found = make_source_mapper(connector(ALL, "xml")).decode(messages(*payloads))
    assert found.failures == ()
    assert found.batch.equals(batch.select(found.batch.schema.names))
