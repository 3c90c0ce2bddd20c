from __future__ import annotations

import json
import logging
import sys

import numpy as np
import pytest
from io_build import connector, messages, output

from nadi.errors import NadiError
from nadi.io.contract import Decoded
from nadi.io.registry import make_sink_mapper, make_source_mapper

ALL = "s string, i int, l long, f float, d double, b bool, o object"


def decode(columns: str, *payloads: bytes | str, **given: object) -> Decoded:
    return make_source_mapper(connector(columns, **given)).decode(messages(*payloads))  # type: ignore[arg-type]


def rows(found: Decoded) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in found.batch.to_pylist()]


def reasons(found: Decoded) -> list[tuple[int, str]]:
    return [(f.position, f.reason) for f in found.failures]


def event(**values: object) -> str:
    return json.dumps({"event": values})


def test_all_types_come_out_as_what_they_are() -> None:
    found = decode(ALL, event(s="x", i=1, l=2**40, f=1.1, d=2.5, b=True, o={"k": [1]}))
    assert rows(found) == [("x", 1, 2**40, float(np.float32(1.1)), 2.5, True, '{"k": [1]}')]
    assert found.message.tolist() == [0]
    assert found.failures == ()


def test_nulls_are_nulls() -> None:
    found = decode(ALL, event(s=None, i=None, l=None, f=None, d=None, b=None, o=None))
    assert rows(found) == [(None,) * 7]


@pytest.mark.parametrize(
    "payload", ['{"event":{"a":1}}', '{"a":1}', '[{"event":{"a":1}}]', '[{"a":1}]', ' {"a" :\n1} ']
)
def test_the_frame_and_the_array_are_optional(payload: str) -> None:
    assert rows(decode("a int", payload)) == [(1,)]


def test_messages_of_different_forms_stand_beside_each_other_in_order() -> None:
    found = decode("a int", '{"event":{"a":1}}', '[{"a":2},{"event":{"a":3}}]', '{"a":4}', "[]", '{"event":{"a":5}}')
    assert rows(found) == [(1,), (2,), (3,), (4,), (5,)]
    assert found.message.tolist() == [0, 1, 1, 2, 4]
    assert found.failures == ()


def test_a_chunk_keeps_its_good_events_beside_a_bad_one() -> None:
    found = decode("a int", '[{"event":{"a":1}},{"event":{"a":"x"}},{"event":{"a":3}}]', '[{"event":{"a":4}}]')
    assert rows(found) == [(1,), (3,), (4,)]
    assert found.message.tolist() == [0, 0, 1]
    assert [(f.position, f.payload) for f in found.failures] == [(100, b'{"event":{"a":"x"}}')]


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        ("a int", '"5"'),
        ("a int", "2147483648"),
        ("a int", "-2147483649"),
        ("a int", "1.5"),
        ("a int", "true"),
        ("a long", "9223372036854775808"),
        ("a long", "1" * 60),
        ("a float", '"1.5"'),
        ("a double", '"1.5"'),
        ("a double", "false"),
        ("a double", "1" + "0" * 400),
        ("a double", "{}"),
        ("a bool", "1"),
        ("a bool", '"true"'),
    ],
)
def test_a_value_of_a_wrong_type_is_a_failure_with_a_reason(columns: str, value: str) -> None:
    found = decode(columns, '{"event":{"a":' + value + "}}")
    assert rows(found) == []
    [(position, reason)] = reasons(found)
    assert position == 100
    assert reason


@pytest.mark.parametrize(
    ("columns", "value", "expected"),
    [
        ("a float", "3", 3.0),
        ("a double", "3", 3.0),
        ("a long", "3", 3),
        ("a long", "-9223372036854775808", -(2**63)),
        ("a int", "2147483647", 2**31 - 1),
        ("a string", "5", "5"),
        ("a string", "true", "true"),
        ("a string", '{"k":[1,2]}', '{"k":[1,2]}'),
        ("a string", '"\\ud83d\\ude00 \\u00fc"', "😀 ü"),
        ("a string", '"\\u0000"', "\0"),
        ("a string", '""', ""),
        ("a object", '"x"', '"x"'),
        ("a double", "-0.0", -0.0),
    ],
)
def test_values_are_widened_as_siddhi_does(columns: str, value: str, expected: object) -> None:
    found = decode(columns, '{"event":{"a":' + value + "}}")
    assert rows(found) == [(expected,)]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"   ",
        b"{",
        b"nonsense",
        b'{"event":{"a":1}',
        b'{"event":{"a":1}}{"event":{"a":2}}',
        b"5",
        b'"x"',
        b"[1]",
        b"null",
        b"\xff",
    ],
)
def test_what_is_no_event_is_a_failure_and_costs_no_neighbour(payload: bytes) -> None:
    found = decode("a int", '{"event":{"a":1}}', payload, '{"event":{"a":3}}')
    assert rows(found) == [(1,), (3,)]
    assert found.message.tolist() == [0, 2]
    assert [f.position for f in found.failures] == [101]


TOO_DEEP = "it is nested too deep: 100 levels are the most"


@pytest.mark.parametrize("limit", [1_000, 100_000], ids=["few frames", "many frames"])
@pytest.mark.parametrize("more", [0, 300], ids=["alone", "beside others"])
def test_how_deep_a_message_may_be_nested_does_not_depend_on_its_process_nor_on_its_neighbours(
    limit: int, more: int
) -> None:
    """Python's limit on frames does, which an app with a long chain of streams raises."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, limit))
    try:
        deep = [f'{{"event":{{"a":{n},"x":{"[" * n}{"]" * n}}}}}' for n in (98, 99, 1_500, 30_000)]
        found = decode("a int", *deep, '{"a":' * 100_000, *['{"event":{"a":1}}'] * more)
    finally:
        sys.setrecursionlimit(before)
    assert rows(found) == [(98,), *[(1,)] * more]
    assert reasons(found) == [(position, TOO_DEEP) for position in (101, 102, 103, 104)]


def test_two_halves_of_an_event_in_two_messages_are_two_failures() -> None:
    found = decode("a int", '{"event":', '{"a":1}}', '{"event":{"a":1}}{"event":{"a":2}}')
    assert rows(found) == []
    assert [f.position for f in found.failures] == [100, 101, 102]


def test_invalid_utf_8_is_a_failure_in_strings_and_in_objects() -> None:
    found = decode("a string", b'{"event":{"a":"\xff"}}', b'{"event":{"a":"ok"}}')
    assert (rows(found), reasons(found)) == ([("ok",)], [(100, "not UTF-8")])
    found = decode("a object", b'{"event":{"a":["\xff"]}}', b'{"event":{"a":["ok"]}}')
    assert (rows(found), reasons(found)) == ([('["ok"]',)], [(100, "not UTF-8")])


def test_a_missing_attribute_fails_unless_told_otherwise() -> None:
    found = decode("a int, b string", event(a=1))
    assert reasons(found) == [(100, "the attribute 'b' is missing")]
    lenient = {"fail.on.missing.attribute": "false"}
    found = decode("a int, b string, o object", event(a=1), "{}", map_options=lenient)
    assert rows(found) == [(1, None, None), (None, None, None)]


def test_of_a_key_that_stands_twice_the_last_counts_and_unknown_keys_are_ignored() -> None:
    assert rows(decode("a int", '{"event":{"a":1,"z":[{}],"a":2}}')) == [(2,)]
    assert rows(decode("a int", '[{"event":{"a":"x","a":2}}]')) == [(2,)]


def test_values_are_taken_by_path_from_the_elements_of_the_enclosing_one() -> None:
    given = {
        "attributes": {"symbol": "$.stock.company['the symbol']", "price": "stock.price"},
        "map_options": {"enclosing.element": "$.portfolio.all"},
    }
    one = '{"stock":{"company":{"the symbol":"A"},"price":1.5}}'
    two = '{"stock":{"company":{"the symbol":"B"},"price":2}}'
    payloads = [
        f'{{"portfolio":{{"all":[{one},{two}]}}}}',
        f'{{"portfolio":{{"all":{one}}}}}',
        '{"portfolio":{}}',
        '{"portfolio":{"all":[{"stock":{}}]}}',
    ]
    found = decode("symbol string, price double", *payloads, **given)
    assert rows(found) == [("A", 1.5), ("B", 2.0), ("A", 1.5)]
    assert found.message.tolist() == [0, 0, 1]
    assert reasons(found) == [(102, "the enclosing element is missing"), (103, "the attribute 'symbol' is missing")]


def test_array_indices_and_overlapping_paths_are_understood() -> None:
    found = decode(
        "a int, b object, c string", '{"x":[{"y":7}]}', attributes={"a": "$.x[0].y", "b": "$.x", "c": "$['x'][0]"}
    )
    assert rows(found) == [(7, '[{"y":7}]', '{"y":7}')]
    assert reasons(decode("a int", '{"x":[]}', attributes={"a": "$.x[0]"})) == [(100, "the attribute 'a' is missing")]


def test_a_missing_parent_is_null_where_missing_attributes_are_allowed() -> None:
    given = {"attributes": {"a": "$.x.y", "b": "$.z"}, "map_options": {"fail.on.missing.attribute": "false"}}
    found = decode("a int, b int", '{"z":1}', '{"x":null,"z":2}', '{"x":{"y":3}}', **given)
    assert rows(found) == [(None, 1), (None, 2), (3, None)]


@pytest.mark.parametrize("path", ["$..a", "$.a[*]", "$.a[?(@.b>1)]", "$.a[1:2]", "$.a.length()"])
def test_paths_beyond_the_subset_are_refused_at_deployment(path: str) -> None:
    with pytest.raises(NadiError) as e:
        make_source_mapper(connector("a int", attributes={"a": path}))
    assert e.value.condition == "NOT_SUPPORTED"


@pytest.mark.parametrize("attributes", [{"z": "$.z"}, {"a": "$.a"}, ["$.a"], {"a": "$.a", "b": "$.b", "B": "$.b"}])
def test_a_mapping_that_does_not_fit_the_stream_is_refused(attributes: object) -> None:
    with pytest.raises(NadiError) as e:
        make_source_mapper(connector("a int, b int", attributes=attributes))  # type: ignore[arg-type]
    assert e.value.condition == "MAPPING_INVALID"


def test_attributes_without_names_go_by_position() -> None:
    assert rows(decode("a int, b int", '{"x":1,"y":2}', attributes=["$.y", "$.x"])) == [(2, 1)]


def test_transport_properties_become_attributes() -> None:
    mapper = make_source_mapper(
        connector("a int, t string, n long", attributes={"a": "$.a", "t": "trp:topic", "n": "trp:n"})
    )
    properties = [{"topic": "x", "n": "5"}, {"topic": "y"}, {"topic": "z", "n": "q"}, {"topic": "w", "n": "6"}]
    found = mapper.decode(messages('{"a":1}', '{"a":2}', '{"a":3}', "broken", properties=properties))
    assert rows(found) == [(1, "x", 5)]
    assert reasons(found)[:2] == [
        (101, "the transport property 'n' is missing"),
        (102, "transport property 'n': 'q' is not a long"),
    ]
    assert [f.position for f in found.failures] == [101, 102, 103]


def test_the_event_time_is_the_attribute_or_the_time_of_the_log_where_that_is_null() -> None:
    mapper = make_source_mapper(connector("a int, ts long", options={"event.time": "ts"}))
    found = mapper.decode(messages(event(a=1, ts=77), "broken", event(a=2, ts=None)))
    assert found.timestamps is not None
    assert found.timestamps.tolist() == [77, 1020]


# ---- sink ----------------------------------------------------------------------------------------------------------


def encode(
    columns: str, data: list[tuple[object, ...]], chunks: list[int] | None = None, **given: object
) -> list[bytes]:
    return list(make_sink_mapper(connector(columns, **given)).encode(output(columns, data, chunks))[0])  # type: ignore[arg-type]


def test_an_event_is_framed_and_a_chunk_of_several_is_an_array() -> None:
    mapper = make_sink_mapper(connector("a int, s string"))
    payloads, firsts = mapper.encode(output("a int, s string", [(1, 'q"ü'), (2, None), (3, "x")], [0, 1, 1]))
    assert payloads == [
        '{"event":{"a":1,"s":"q\\"ü"}}'.encode(),
        b'[{"event":{"a":2,"s":null}},{"event":{"a":3,"s":"x"}}]',
    ]
    assert list(firsts) == [0, 1]


def test_chunks_may_be_taken_apart() -> None:
    apart = {"event.grouping.enabled": "false"}
    assert encode("a int", [(1,), (2,)], [0, 0], map_options=apart) == [b'{"event":{"a":1}}', b'{"event":{"a":2}}']


def test_floats_print_as_short_as_their_width_allows() -> None:
    given = [(1.1, 1.1), (1e10, 0.1 + 0.2), (16777216.0, 1e16), (float("nan"), float("-inf")), (None, None)]
    found = [tuple(json.loads(p)["event"].values()) for p in encode("f float, d double", given)]
    assert found == [(1.1, 1.1), (1e10, 0.1 + 0.2), (16777216.0, 1e16), (None, None), (None, None)]
    assert encode("f float", [(1.1,)]) == [b'{"event":{"f":1.1}}']


def test_an_object_is_written_as_its_json() -> None:
    assert encode("o object", [('{"k": 1}',), (None,)]) == [b'{"event":{"o":{"k": 1}}}', b'{"event":{"o":null}}']


def test_a_template_takes_the_values_as_they_are() -> None:
    text = '{"n":"{{s}}", "p":{{ f }}, "i":{{i}}}'
    data = [("x", 1.1, 5), ('a"b', 2.0, None)]
    assert encode("s string, f float, i int", data, payload=[text]) == [
        b'{"n":"x", "p":1.1, "i":5}',
        b'{"n":"a"b", "p":2.0, "i":null}',
    ]
    assert encode("s string", [("x",), ("y",)], [0, 0], payload=["{{s}}"]) == [b"[x,\ny]"]
    assert encode("s string", [("x",), ("y",)], payload=["fixed"]) == [b"fixed", b"fixed"]


def test_validation_keeps_a_broken_message_back_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        mapper = make_sink_mapper(
            connector("s string", payload=['{"n":"{{s}}"}'], map_options={"validate.json": "true"})
        )
        payloads, firsts = mapper.encode(output("s string", [("x",), ('"',), ("z",)]))
    assert (list(payloads), list(firsts)) == ([b'{"n":"x"}', b'{"n":"z"}'], [0, 2])
    assert len(caplog.records) == 1


def test_the_enclosing_element_stands_around_the_message() -> None:
    around = {"enclosing.element": "$.a.b"}
    assert encode("i int", [(1,)], map_options=around) == [b'{"a":{"b":{"event":{"i":1}}}}']
    assert encode("i int", [(1,)], map_options=around, payload=["{{i}}"]) == [b'{"a":{"b":1}}']


@pytest.mark.parametrize("payload", [["{{nope}}"], ["a", "b"], []])
def test_a_template_that_does_not_fit_the_stream_is_refused(payload: list[str]) -> None:
    with pytest.raises(NadiError) as e:
        make_sink_mapper(connector("a int", payload=payload))
    assert e.value.condition == "MAPPING_INVALID"


def test_nothing_to_encode_is_nothing() -> None:
    assert encode("a int", []) == []
    assert rows(decode("a int")) == []


# ---- by text ---------------------------------------------------------------------------------------------------------

BY_TEXT = [
    ("int", '"7"', 7),
    ("int", '"+7"', 7),
    ("int", "7", 7),
    ("long", '"-9000000000"', -9_000_000_000),
    ("double", '"2.5"', 2.5),
    ("double", '"1e3"', 1000.0),
    ("double", "3", 3.0),
    ("float", '"0.1"', float(np.float32(0.1))),
    ("bool", '"true"', True),
    ("bool", '"TRUE"', True),
    ("bool", "true", True),
    ("bool", '"yes"', False),
    ("bool", '""', False),
    ("bool", "1", False),
    ("bool", "[true]", False),
    ("string", "7.0", "7.0"),
    ("string", '""', ""),
    ("int", "null", None),
    ("bool", "null", None),
]
NO_NUMBERS = [
    ("int", "7.0"),
    ("int", '"7.0"'),
    ("int", '""'),
    ("int", '" 7"'),
    ("int", '"2147483648"'),
    ("int", "true"),
    ("long", '"abc"'),
    ("double", '""'),
    ("double", '"abc"'),
    ("float", "[1]"),
    ("double", "{}"),
]
_PATHS = {"a": "$.x.a"}


@pytest.mark.parametrize(("kind", "text", "value"), BY_TEXT)
def test_attributes_by_path_and_events_of_an_array_are_taken_by_their_text(kind: str, text: str, value: object) -> None:
    good = f'{{"x":{{"a":{text}}}}}'
    for payloads in ([good], [good, good, '{"x":{}}']):  # the first message tells how the others are read
        found = decode(f"a {kind}", *payloads, attributes=_PATHS)
        assert rows(found)[0] == (value,)
    under = decode(
        f"a {kind}", f'{{"x":[{{"a":{text}}}]}}', attributes={"a": "a"}, map_options={"enclosing.element": "$.x"}
    )
    assert rows(under) == [(value,)]
    assert rows(decode(f"a {kind}", f'[{{"event":{{"a":{text}}}}},{{"a":{text}}}]')) == [(value,)] * 2
    assert rows(decode(f"a {kind}", *[f'[{{"a":{text}}}]'] * 200)) == [(value,)] * 200


@pytest.mark.parametrize(("kind", "text"), NO_NUMBERS)
def test_what_is_no_number_by_its_text_is_a_failure(kind: str, text: str) -> None:
    for found in (
        decode(f"a {kind}", f'{{"x":{{"a":{text}}}}}', attributes=_PATHS),
        decode(f"a {kind}", f'[{{"a":{text}}}]'),
    ):
        assert rows(found) == []
        assert len(found.failures) == 1
        assert found.failures[0].reason.startswith("attribute 'a': ")


@pytest.mark.parametrize(("kind", "text"), [("int", '"7"'), ("double", '"1e3"'), ("bool", '"true"'), ("bool", "1")])
def test_a_single_event_without_attributes_wants_the_types_of_json(kind: str, text: str) -> None:
    for payload in (f'{{"event":{{"a":{text}}}}}', f'{{"a":{text}}}'):
        for found in (decode(f"a {kind}", payload), decode(f"a {kind}", *[payload] * 200)):
            assert rows(found) == []
            assert found.failures
