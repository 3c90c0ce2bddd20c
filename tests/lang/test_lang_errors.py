"""Syntax errors: where, what was expected, what is meant; recovery; limits."""

from __future__ import annotations

import pickle

import pytest

from nadi.errors import NadiError
from nadi.lang import (
    parse,
    parse_collecting,
    parse_expression,
    parse_on_demand,
    parse_query,
    parse_stream_definition,
    parse_time,
    print_node,
    substitute,
)
from nadi.lang.cursor import MAX_CHAIN, MAX_DEPTH, MAX_HEIGHT

S = "define stream S (a int, b string);\n"
AFTER_A_STREAM = "expected '[', '#', 'as', 'join', 'unidirectional', '->', ',', 'select', 'output', 'insert', 'delete', 'update' or 'return'"
STATEMENT = "expected '@', 'define', 'from' or 'partition'"


def described(text: str) -> list[str]:
    """`line:column-endColumn message (next step)` of every error."""
    _app, found = parse_collecting(text)
    assert {d.siddhi_class for d in found} <= {"SiddhiParserException"}
    return [
        f"{d.span.line}:{d.span.column}-{d.span.end_column} {d.message}" + (f" ({d.next_step})" if d.next_step else "")
        for d in found
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (S + "from S selct a insert into T;", f"2:8-13 unexpected 'selct', {AFTER_A_STREAM} (did you mean 'select'?)"),
        (S + "form S insert into T;", f"2:1-5 unexpected 'form', {STATEMENT} (did you mean 'from'?)"),
        (S + "from S[a > 5 select a insert into T;", "2:14-20 unexpected 'select', expected ']'"),
        (S + "from S select sum(a) insert into T;", "2:22-28 unexpected 'insert', expected 'as'"),
        (S + "from S select a, insert into T;", "2:18-24 unexpected 'insert', expected an expression"),
        (
            S + "from S select a insert T;",
            "2:24-25 unexpected 'T', expected 'events', 'current', 'expired', 'all' or 'into'",
        ),
        (
            "define stream S (a integer);",
            "1:20-27 unexpected 'integer', expected 'string', 'int', 'long', 'float', 'double', 'bool' or 'object'",
        ),
        (
            "define stram S (a int);",
            "1:8-13 unexpected 'stram', expected 'stream', 'table', 'window', 'trigger', 'function' or 'aggregation' "
            "(did you mean 'stream'?)",
        ),
        (S + "from S[a = 5] insert into T;", "2:10-11 unexpected '=', expected an operator (did you mean '=='?)"),
        (
            S + "from S[b == 'x] insert into T;",
            "2:13-31 the string is not closed (close it with ' on the same line)",
        ),
        (
            S + "from S[b == 'a\"b'] insert into T;",
            "2:13-18 a string in single quotes cannot contain quotes or control characters (put it between three double quotes)",
        ),
        (S + "from S select a $ insert into T;", "2:17-18 the character '$' has no meaning here"),
        (S + "from S[-a > 4] insert into T;", "2:9-10 unexpected 'a', expected a number"),
        (
            S + "from S[a > 99999999999] insert into T;",
            "2:12-23 99999999999 does not fit into int (write 99999999999L for a long)",
        ),
        (S + "from S within 5 insert into T;", "2:17-23 unexpected 'insert', expected a unit of time, such as 'sec'"),
        (
            S + "from S#window.time(5 sec 1 min) insert into T;",
            "2:26-27 unexpected '1', expected a unit smaller than 'sec'",
        ),
        (S + "from S insert into T; define stream U (a int);", "2:23-29 definitions must stand before the first query"),
        (
            S + "@app:name('late') from S insert into T;",
            "2:2-5 annotations of the app must stand before the first definition",
        ),
        (S + "@info(name=q) from S insert into T;", "2:12-13 unexpected 'q', expected a string"),
        (
            S + "from S as s select a insert into T;",
            "2:13-19 unexpected 'select', expected 'unidirectional', 'join', 'inner', 'left', 'right', 'full' or 'outer'",
        ),
        (
            S + "from S#window.length(5)[a > 1] join S as s insert into T;",
            "2:24-25 unexpected '[', expected 'as', 'join' or 'unidirectional': a side of a join ends with its window",
        ),
        (
            S + "from S#window.length(5)#window.time(3) insert into T;",
            "2:24-25 a stream has at most one window in a query (put the second window into another query)",
        ),
        (
            S + "from S#window.length(5) -> S insert into T;",
            "2:7-24 a pattern or sequence reads streams without windows (limit its time with 'within')",
        ),
        (
            S + "from every e1=S, every e2=S insert into T;",
            "2:18-23 'every' of a sequence must stand in front of its first element only",
        ),
        (
            S + "from e1=S+ -> S insert into T;",
            "2:10-11 unexpected '+', expected '<' (the signs *, + and ? are for sequences)",
        ),
        (
            S + "from not S for 1 sec -> not S for 1 sec insert into T;",
            "2:25-40 an absent state must follow or precede a stream, not another absent state only "
            "(combine them as 'not A for <time> and not B for <time>')",
        ),
        (
            S + "from S or not S insert into T;",
            "2:11-16 'not' without 'for' can only stand beside a stream and 'and' (add 'for <time>')",
        ),
        (S + "from S insert into T;;", f"2:22-23 unexpected ';', {STATEMENT}"),
        (
            "define function f[js] return int { if (x) { 1; };",
            "1:34-35 the body of the function is not closed (close it with '}')",
        ),
        ("from S insert into T;", "1:1-5 unexpected 'from', expected 'define' or '@'"),
        ("", "1:1-1 unexpected the end of the text, expected 'define' or '@'"),
    ],
)
def test_a_mistake_is_one_error_at_its_place(text, message):
    assert described(text) == [message]


def test_all_errors_of_an_app_are_reported_and_the_rest_is_read():
    text = """\
define stream A (x int)
define stream B (x integer);
define stream C (x int);
from A selct x insert into T;
from C insert into U;
partition with (x of A)
begin
    from A select x insert inot V;
    from A insert into W;
    isert;
end;
from C[x > ] insert into X
"""
    app, found = parse_collecting(text)
    assert [(d.span.line, d.span.column) for d in found] == [(2, 1), (2, 20), (4, 8), (8, 28), (10, 5), (12, 12)]
    assert [d.source.name for d in app.definitions] == ["A", "C"]
    assert [print_node(e).splitlines()[0] for e in app.elements] == ["from C", "partition with (x of A)"]
    assert len(app.elements[1].queries) == 1


def test_a_missing_semicolon_costs_no_statement():
    app, found = parse_collecting(
        "define stream A (x int)\ndefine stream B (x int)\nfrom A insert into T\nfrom B insert into U"
    )
    assert [d.message for d in found] == [
        "unexpected 'define', expected ';'",
        "unexpected 'from', expected ';'",
        "unexpected 'from', expected ';'",
    ]
    assert (len(app.definitions), len(app.elements)) == (2, 2)


def test_the_first_error_is_raised_with_place_and_excerpt():
    with pytest.raises(NadiError) as caught:
        parse(S + "from S selct a insert into T; from X[;", file="app.siddhi")
    assert caught.value.siddhi_class == "SiddhiParserException"
    assert str(caught.value).startswith("app.siddhi:2:8: [MISSPELT_KEYWORD] unexpected 'selct'")
    assert str(caught.value).endswith("\n    from S selct a insert into T; from X[;\n           ^^^^^")
    assert pickle.loads(pickle.dumps(caught.value)).condition == "MISSPELT_KEYWORD"


@pytest.mark.parametrize(
    "text",
    [
        S + "from S[" + "(" * 5000 + "a" + ")" * 5000 + "] insert into T;",
        S + "from S[" + "not " * 5000 + "a] insert into T;",
        S + "from S[" + "f(" * 5000 + "a" + ")" * 5000 + "] insert into T;",
        S + "from " + "(" * 5000 + "S -> S" + ")" * 5000 + " insert into T;",
        S + "from " + "(from " * 5000 + "S insert into T;",
        "@a(" * 5000 + S,
        S + "from S[" + "a + " * (MAX_CHAIN + 1) + "a] insert into T;",
        S + "from S[" + "a or b and c == d < e + f * (" * 99 + "a" + ")" * 99 + "] insert into T;",
    ],
    ids=["parentheses", "not", "calls", "patterns", "anonymous", "annotations", "chain", "precedences"],
)
def test_text_nested_too_deeply_is_a_named_error(text):
    assert [d.condition for d in parse_collecting(text)[1]] == ["TOO_DEEP"]


def test_text_as_deep_as_allowed_is_read_printed_and_compared():
    deep = "(a + " * (MAX_DEPTH - 1) + "a" + ")" * (MAX_DEPTH - 1)
    high = "a or b * (" * (MAX_HEIGHT // 2 - 1) + "a" + ")" * (MAX_HEIGHT // 2 - 1)
    for text in (deep, high):
        tree = parse_expression(text)
        assert parse_expression(print_node(tree)) == tree


def test_single_statements_must_be_alone_and_of_their_kind():
    with pytest.raises(NadiError, match="unexpected 'from', expected the end of the text"):
        parse_query("from S insert into T; from S insert into U")
    with pytest.raises(NadiError, match="unexpected 'table', expected 'stream'"):
        parse_stream_definition("define table T (a int)")
    with pytest.raises(NadiError, match="the string is not closed"):
        parse_time("'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from T select sum(v)  total", "unexpected 'total', expected 'as'"),
        ("insert into T", "unexpected 'insert', expected"),
        ("select a insert expired events into T", "unexpected '… events', expected 'into'"),
        ("delete T for all events on a == 1", "unexpected 'for … events', expected 'set' or 'on'"),
        ("select a return", "unexpected 'return', expected 'insert'"),
        ("update or insert into T on a == 1", "expected 'select' before it"),
        ("from T within 1, 2", "unexpected the end of the text, expected 'per'"),
    ],
)
def test_on_demand_queries_allow_less_than_queries(text, message):
    with pytest.raises(NadiError, match=message):
        parse_on_demand(text)


def test_variables_are_replaced_before_parsing_and_every_missing_one_is_named():
    app = parse("define stream ${name} (a int); -- ${name}", variables={"name": "S"})
    assert app.definitions[0].source.name == "S"
    assert app.definitions[0].source.span.column == 15
    assert app.comments[0].text == "-- ${name}"
    _app, found = parse_collecting("define stream ${x} (a int);\nfrom ${y} insert into T;", variables={})
    assert [(d.condition, d.span.line, d.span.column, d.span.end_column) for d in found] == [
        ("VARIABLE_NOT_SET", 1, 15, 19),
        ("VARIABLE_NOT_SET", 2, 6, 10),
    ]
    with pytest.raises(NadiError, match=r"\$\{x\} has no value"):
        substitute("${x}", {})
    assert substitute("'${a}${a b}'", {"a": "${a}"}) == "'${a}${a b}'"
