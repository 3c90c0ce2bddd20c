"""`ref='…'` in the text of an app."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.lang import parse
from nadi.lang.refs import with_refs

REFS = {
    "orders": ("http", {"receiver.url": "http://0.0.0.0:1/x", "basic.auth.enabled": "false"}),
    "db": ("rdbms", {"jdbc.url": "jdbc:sqlite:x", "password": 'it\'s "so"'}),
    "log": ("log", {}),
}


def test_a_ref_stands_for_a_type_and_options_in_sources_sinks_and_stores():
    text = """@source(ref='orders', @map(type='json')) define stream S (a int);
@sink(REF = "log") define stream T (a int);
@store(ref='db') define table U (a int);"""
    (source,), (sink,), (store,) = (one.annotations for one in parse(with_refs(text, REFS)).definitions)
    assert (source.get("type"), source.get("receiver.url"), len(source.all("map"))) == ("http", "http://0.0.0.0:1/x", 1)
    assert sink.get("type") == "log"
    assert (store.get("type"), store.get("password")) == ("rdbms", 'it\'s "so"')


def test_a_ref_of_a_destination_stands_for_options_alone():
    refs = {**REFS, "near": ("inMemory", {"topic": "a", "client.id": "x"})}
    destinations = "@destination(ref='near'), @destination(ref='near', topic='b'), @destination(ref='log')"
    text = f"@sink(type='inMemory', @distribution(strategy='broadcast', {destinations})) define stream S (a int);"
    (sink,) = parse(with_refs(text, refs)).definitions[0].annotations
    made = [one for nested in sink.all("distribution") for one in nested.all("destination")]
    assert [(one.get("topic"), one.get("client.id"), one.get("ref")) for one in made[:2]] == [
        ("a", "x", None),
        ("b", "x", None),
    ]
    with pytest.raises(NadiError, match="did you mean 'near'"):
        with_refs(text.replace("ref='near', topic", "ref='nera', topic"), refs)


def test_what_the_annotation_says_itself_counts():
    made = with_refs("@source(ref='orders', receiver.url='mine') define stream S (a int);", REFS)
    assert "0.0.0.0" not in made
    assert "receiver.url='mine'" in made


def test_a_ref_that_is_unknown_or_of_another_type_is_an_error_with_its_place():
    for text, name, part in (
        ("@source(ref='order') define stream S (a int);", "REF_UNKNOWN", "did you mean 'orders'?"),
        ("@sink(type='file', ref='log') define stream S (a int);", "REF_OF_ANOTHER_TYPE", "of type 'log'"),
    ):
        with pytest.raises(NadiError) as raised:
            with_refs(text, REFS)
        assert raised.value.condition == name
        assert part in str(raised.value)
        assert "ref=" in str(raised.value)


def test_a_text_without_refs_or_with_errors_stays_as_it_is():
    for text in ("define stream S (a int); -- ref", "@source(ref='orders' define strem S (a int);"):
        assert with_refs(text, REFS) == text
