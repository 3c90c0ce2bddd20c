"""What sources give: rows of files and tables, and values by chance."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from simulation_build import STOCK, FakeTarget, FakeTargets, chance, config, schema, simulator

from nadi.errors import NadiError
from nadi.server.simulation.chance import LONGEST_TEXT, makers
from nadi.server.simulation.configuration import configuration_of
from nadi.server.simulation.people import PROPERTIES
from nadi.server.simulation.simulator import Simulator

NOW = 50_000


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Simulator]:
    found = simulator(tmp_path, FakeTargets(Stocks=FakeTarget(In=STOCK, Other=schema(n="int"))))
    yield found
    found.close()


def given(made: Simulator, *sources: dict[str, Any], seed: int | None = 7, **properties: Any) -> list[tuple[Any, ...]]:
    """(timestamp, stream, values) of the events of a simulation."""
    document = config("feed", *sources, **properties)
    if seed is None:
        del document["nadi"]
    else:
        document["nadi"]["seed"] = seed
    wanted = configuration_of(msgspec.json.encode(document))
    made.simulations._sources.check(wanted)
    with made.simulations._sources.opened(wanted, NOW) as events:
        return [(e.timestamp, e.stream, e.values) for e in events]


def csv(file: str = "a.csv", **more: Any) -> dict[str, Any]:
    source = {"simulationType": "CSV_SIMULATION", "siddhiAppName": "Stocks", "streamName": "In", "fileName": file}
    return {**source, "delimiter": ",", **more}


# ---- CSV -------------------------------------------------------------------------------------------------------------


def test_rows_of_a_file_get_timestamps_from_the_start_on_and_bad_ones_are_skipped(
    made: Simulator, capsys: pytest.CaptureFixture[str]
):
    data = b'\xef\xbb\xbfIBM,1.5,10\n\n"a ""b"", c",2,20\nbad,row\nIBM,cheap,1\nIBM,3,30\n,,\n'
    made.csv.add("a.csv", data)
    assert given(made, csv(timestampInterval="100"), startTimestamp="1000") == [
        (1_000, "In", ("IBM", 1.5, 10)),
        (1_100, "In", ('a "b", c', 2.0, 20)),
        (1_200, "In", ("IBM", 3.0, 30)),
        (1_300, "In", (None, None, None)),
    ]
    told = capsys.readouterr().out
    assert "3 attributes, 2 values" in told
    assert "'price' is a double, and 'cheap' is none" in told
    assert given(made, csv(), noOfEvents=1) == [(NOW, "In", ("IBM", 1.5, 10))]
    assert [e[0] for e in given(made, csv(), startTimestamp=0, endTimestamp=1_500)] == [0, 1_000]


def test_a_column_of_timestamps_bounds_and_orders_the_rows(made: Simulator):
    made.csv.add("a.csv", b"30,c,3,3\n10,a,1,1\nx,bad,1,1\n20,b,2,2\n20,b2,2,2\n40,d,4,4\n")
    timed = {"timestampAttribute": "0"}
    unordered = given(made, csv(isOrdered=False, **timed))
    assert [(stamp, values[0]) for stamp, _, values in unordered] == [
        (10, "a"),
        (20, "b"),
        (20, "b2"),
        (30, "c"),
        (40, "d"),
    ]
    ordered = given(made, csv(isOrdered="true", **timed))
    assert [stamp for stamp, _, _ in ordered] == [30, 10, 20, 20, 40]  # as they come
    bounded = given(made, csv(isOrdered=False, **timed), startTimestamp=20, endTimestamp=30)
    assert [stamp for stamp, _, _ in bounded] == [20, 20, 30]


@pytest.mark.parametrize(("delimiter", "between"), [(",", ","), (";", ";"), ("\\t", "\t"), ("|", "|"), ("", ",")])
def test_indices_choose_columns_and_delimiters_are_those_of_the_contract(made: Simulator, delimiter: str, between: str):
    made.csv.add("a.csv", between.join(["7", "x", "1.5", "IBM", "99"]).encode() + b"\n")
    source = csv(delimiter=delimiter, indices="3,2,0", timestampAttribute="4", isOrdered=True)
    assert given(made, source) == [(99, "In", ("IBM", 1.5, 7))]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (csv("none.csv"), "no file"),
        (csv(indices="0,1"), "'indices' has 2"),
        (csv(indices="0,x,1"), "'indices'"),
        (csv(delimiter="ab"), "'delimiter'"),
        (csv(streamName="None"), "no stream 'None'"),
        (csv(siddhiAppName="None"), "no active Siddhi App"),
    ],
)
def test_a_file_source_that_cannot_be_says_why(made: Simulator, source: dict[str, Any], reason: str):
    made.csv.add("a.csv", b"IBM,1,1\n")
    with pytest.raises(NadiError, match=re.escape(reason)):
        given(made, source)


# ---- databases -------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    connection = sqlite3.connect(tmp_path / "prices.db")
    with connection:
        connection.execute('create table "odd; ""name" (at integer, "sym;bol" text, price real, volume integer)')
        rows = [(30, "c", 3, 3), (10, "a", 1, 1), (None, "bad", 1, 1), (20, "b", "cheap", 2), (20, "b", 2, 2)]
        connection.executemany('insert into "odd; ""name" values (?, ?, ?, ?)', rows)
        connection.execute("create table Plain (symbol text, price real, volume integer)")
        connection.executemany("insert into Plain values (?, ?, ?)", [("x", 2.5, 2), ("a", 1.5, 1)])
    connection.close()
    source = {"simulationType": "DATABASE_SIMULATION", "siddhiAppName": "Stocks", "streamName": "In"}
    where = {"driver": "", "dataSourceLocation": "jdbc:sqlite:prices.db", "username": "", "password": ""}
    return {**source, **where, "tableName": "Plain"}


def test_a_table_comes_as_it_is_with_made_timestamps(made: Simulator, table: dict[str, Any]):
    assert given(made, {**table, "timestampInterval": 5}) == [
        (NOW, "In", ("x", 2.5, 2)),
        (NOW + 5, "In", ("a", 1.5, 1)),
    ]


def test_a_column_of_timestamps_selects_and_orders_and_names_are_quoted(made: Simulator, table: dict[str, Any]):
    odd = {**table, "tableName": 'odd; "name', "timestampAttribute": "at", "columnNamesList": "sym;bol,price,volume"}
    assert given(made, odd) == [(10, "In", ("a", 1.0, 1)), (20, "In", ("b", 2.0, 2)), (30, "In", ("c", 3.0, 3))]
    assert [e[0] for e in given(made, odd, startTimestamp=20, endTimestamp=29)] == [20]
    assert given(made, {**odd, "columnNamesList": ["sym;bol", "at", "at"]})[0] == (10, "In", ("a", 10.0, 10))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tableName": "sqlite_master"}, "lists no table"),
        ({"tableName": "Plain; drop table Plain"}, "lists no table"),
        ({"columnNamesList": "symbol,price"}, "'columnNamesList' has 2"),
        ({"columnNamesList": "symbol,price,1"}, "no column '1'"),
        ({"timestampAttribute": "price desc"}, "no column 'price desc'"),
        ({"dataSourceLocation": "jdbc:sqlite:../prices.db"}, "no file of SQLite"),
        ({"dataSourceLocation": "jdbc:what:x"}, "DATABASE_UNKNOWN"),
        ({"dataSourceLocation": "jdbc:postgresql://127.0.0.1:1/x"}, "CONNECTION_UNAVAILABLE"),
    ],
)
def test_a_table_source_that_cannot_be_says_why(
    made: Simulator, table: dict[str, Any], change: dict[str, str], reason: str
):
    with pytest.raises(NadiError, match=re.escape(reason)):
        given(made, {**table, **change})


# ---- chance ----------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_events_and_another_one_others(made: Simulator):
    some = [given(made, chance(), seed=seed, noOfEvents=20, startTimestamp=1) for seed in (7, 7, 8, None, None)]
    assert some[0] == some[1]
    assert some[0] != some[2]
    assert some[3] != some[4]
    assert [stamp for stamp, _, _ in some[0][:3]] == [1, 1_001, 2_001]
    for _, _, (symbol, price, volume) in some[0]:
        assert symbol in ("IBM", "WSO2")
        assert 10 <= price <= 20
        assert price == round(price, 2)
        assert 1 <= volume <= 9


def test_sources_of_one_simulation_are_merged_by_their_timestamps(made: Simulator):
    made.csv.add("a.csv", b"1500,IBM,1,1\n1600,IBM,2,2\n")
    other = {**chance(stream="Other", timestampInterval=250), "attributeConfiguration": [primitive("INT")]}
    events = given(made, csv(timestampAttribute=0, isOrdered=True), other, startTimestamp=1_200, noOfEvents=6)
    assert [(stamp, stream) for stamp, stream, _ in events] == [
        (1_200, "Other"),
        (1_450, "Other"),
        (1_500, "In"),
        (1_600, "In"),
        (1_700, "Other"),  # the file has ended, the other source goes on
        (1_950, "Other"),
    ]


def primitive(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "PRIMITIVE_BASED", "primitiveType": kind, **more}


def values(entry: dict[str, Any], kind: str, count: int = 50) -> list[Any]:
    (make,) = makers([entry], schema(x=kind), 7)
    return [make() for _ in range(count)]


def test_primitive_values_are_within_their_bounds():
    assert {*values(primitive("INT", min="3", max="5"), "int")} == {3, 4, 5}
    assert {*values(primitive("LONG", min=1 << 40, max=(1 << 40) + 1), "long")} == {1 << 40, (1 << 40) + 1}
    assert all(0.5 <= v <= 0.75 for v in values(primitive("FLOAT", min=0.5, max="0.75", precision=3), "float"))
    assert all(v == round(v, 1) for v in values(primitive("DOUBLE", min=-1, max=1, precision="1"), "double"))
    assert {len(v) for v in values(primitive("STRING", length="12"), "string")} == {12}
    assert {*values(primitive("BOOL"), "bool")} == {True, False}


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_property_gives_texts_and_the_same_ones_for_the_same_seed(name: str):
    entry = {"type": "PROPERTY_BASED", "property": name}
    found = values(entry, "string")
    assert all(isinstance(value, str) and value for value in found)
    assert found == values(entry, "string")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("YEAR", "int"), ("SECOND", "int"), ("HEIGHT_CM", "int"), ("HEIGHT_M", "double"), ("LATITUDE", "float")],
)
def test_properties_that_are_numbers_fit_attributes_that_are(name: str, kind: str):
    assert len(values({"type": "PROPERTY_BASED", "property": name}, kind)) == 50


@pytest.mark.parametrize(
    "pattern",
    ["[A-Z]{3}-[0-9]{1,4}", "(a|bc)*x", r"\w+@\w{2,5}\.(com|org)", "(ab)\\1", "x?y+?", "a{150}", "[a-c]{101,120}b{2,}"],
)
def test_texts_match_their_pattern(pattern: str):
    assert all(re.fullmatch(pattern, value) for value in values({"type": "REGEX_BASED", "pattern": pattern}, "string"))


@pytest.mark.parametrize(
    "pattern",
    [
        "a{1000000}",
        "((a{100}){100}){100}",
        "(((a*)*)*)*",
        "((((){1000}){1000}){1000})",
        "(a{5000})\\1\\1",
        "[a",
        "[\\ud800-\\udfff]",
        "(",
        "",
        "a" * 1_001,
        "(?P=x)",
        "(?=a)ab",
        "(?<!a)b",
        "(?>a*)b",
        "a*+",
    ],
)
def test_a_pattern_that_would_take_long_or_cannot_be_written_from_is_refused(pattern: str):
    with pytest.raises(ValueError, match="attribute 'x'"):
        values({"type": "REGEX_BASED", "pattern": pattern}, "string")


def test_a_custom_list_is_chosen_from():
    assert {*values({"type": "CUSTOM_DATA_BASED", "list": [1, 2]}, "int")} == {1, 2}
    assert {*values({"type": "CUSTOM_DATA_BASED", "list": "a, b"}, "string")} == {"a", "b"}


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({}, "int"),
        ({"type": "PROPERTY_BASED", "property": "NOSE"}, "string"),
        ({"type": "PROPERTY_BASED", "property": "CITY"}, "int"),
        (primitive("OBJECT"), "int"),
        (primitive("INT", min=5, max=4), "int"),
        (primitive("INT", max=1 << 31), "int"),
        (primitive("LONG", min=1 << 40, max=1 << 41), "int"),
        (primitive("DOUBLE", max="inf"), "double"),
        (primitive("DOUBLE", precision=99), "double"),
        (primitive("STRING", length=LONGEST_TEXT + 1), "string"),
        ({"type": "REGEX_BASED"}, "string"),
        ({"type": "CUSTOM_DATA_BASED", "list": []}, "string"),
        ({"type": "CUSTOM_DATA_BASED", "list": [[1]]}, "string"),
    ],
)
def test_an_entry_that_is_wrong_is_refused_with_the_name_of_its_attribute(entry: dict[str, Any], kind: str):
    with pytest.raises(ValueError, match="attribute 'x'"):
        values(entry, kind)
