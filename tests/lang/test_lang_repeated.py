"""An attribute that is named twice is refused when a text is read, as Siddhi does, and reported with all other errors where all are collected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nadi.errors import NadiError
from nadi.lang import (
    parse,
    parse_aggregation_definition,
    parse_collecting,
    parse_on_demand,
    parse_partition,
    parse_query,
    parse_stream_definition,
    parse_table_definition,
    parse_window_definition,
)

S = "define stream S (a int, b int);\n"


@pytest.mark.parametrize(
    ("read", "text", "underlined"),
    [
        (parse, "define stream S (a int, b int, a long);", "a long"),
        (parse, "define stream S (a int, a int);", "a int"),
        (parse, S + "define table T (k string, k string);", "k string"),
        (parse, S + "define window W (k string, k int) length(3);", "k int"),
        (parse, S + "from S select a, b as a insert into O;", "b as a"),
        (parse, S + "from S select a, S.a insert into O;", "S.a"),
        (parse, S + "from S select a + 1 as x, b as x insert into O;", "b as x"),
        (parse, S + "from (from S select a, a return) select a insert into O;", "a"),
        (parse, S + "partition with (a of S) begin from S select b, a as b insert into O; end;", "a as b"),
        (parse, S + "define aggregation G from S select a as x, sum(b) as x aggregate every sec;", "sum(b) as x"),
        (parse_stream_definition, "define stream S (a int, a long)", "a long"),
        (parse_table_definition, "define table T (a int, a long)", "a long"),
        (parse_window_definition, "define window W (a int, a long) length(3)", "a long"),
        (parse_aggregation_definition, "define aggregation G from S select a, a aggregate every sec", "a"),
        (parse_query, "from S select a, b as a insert into O", "b as a"),
        (parse_partition, "partition with (a of S) begin from S select b, a as b insert into O; end", "a as b"),
        (parse_on_demand, "from T select a, a", "a"),
    ],
)
def test_a_text_with_a_name_twice_is_not_read(read: Callable[[str], object], text: str, underlined: str) -> None:
    with pytest.raises(NadiError) as caught:
        read(text)
    found = caught.value.diagnostic
    wanted = ("DUPLICATE_ATTRIBUTE", "DuplicateAttributeException")
    if text.startswith("define stream") and underlined in ("a long", "a int"):
        # seen with Siddhi 5.1.30: of streams it says that they cannot be read
        wanted = ("ATTRIBUTE_DEFINED_TWICE", "SiddhiParserException")
    assert (found.condition, found.siddhi_class) == wanted
    assert text[found.span.start : found.span.end] == underlined
    assert found.source == text


@pytest.mark.parametrize(
    "text",
    [
        "define stream S (a int, A int);",  # capitals matter
        S + "from S select a, b insert into O;",
        S + "from S select a as b, b as a insert into O;",
        S + "from S select * insert into O;",
        S + "define stream U (a int); from e1=S -> e2=S select e1.a as x, e2.a as y insert into O;",
    ],
)
def test_a_text_with_each_name_once_is_read(text: str) -> None:
    parse(text)


def test_an_error_of_syntax_comes_first() -> None:
    with pytest.raises(NadiError) as caught:
        parse("define stream S (a int, a int); from S slect a insert into O;")
    assert caught.value.condition == "MISSPELT_KEYWORD"


def test_who_collects_errors_has_the_statement_all_the_same() -> None:
    app, unread = parse_collecting("define stream S (a int, a int);")
    assert unread == ()
    assert len(app.definitions) == 1
