"""Printing: the same tree when read again, a fixed point, every comment."""

from __future__ import annotations

import lang_trees as trees
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.lang import parse, parse_expression, parse_on_demand, parse_query, print_app, print_node
from nadi.lang.lexer import tokenise
from nadi.lang.tree import Binary, Constant, Not, SiddhiApp, Type, Variable
from tests.generate.budget import GENERATED, Examples

unhurried = Examples(GENERATED, seconds=0.6, most=80)


@unhurried
@given(trees.expressions)
def test_a_printed_expression_reads_as_the_same_tree(tree):
    assert parse_expression(print_node(tree)) == tree


@unhurried
@given(trees.queries)
def test_a_printed_query_reads_as_the_same_tree(tree):
    assert parse_query(print_node(tree)) == tree


@unhurried
@given(trees.apps)
def test_a_printed_app_reads_as_the_same_tree_and_prints_as_the_same_text(tree):
    text = print_app(tree)
    again = parse(text)
    assert again == tree
    assert print_app(again) == text


@unhurried
@given(trees.on_demand_queries)
def test_a_printed_on_demand_query_reads_as_the_same_tree(tree):
    assert parse_on_demand(print_node(tree)) == tree


@pytest.mark.parametrize("text", ["not as()", "not is(1)", "not as:f(1)", "not `as`.a"])
def test_not_before_a_function_that_is_called_as_or_is_negates_it(text: str):
    tree = parse_expression(text)
    assert isinstance(tree, Not)
    assert print_node(tree) == text


COMMENTS = ["-- to the end", "--", "/* inside */", "/* over\n   two lines */", "/**/", "-- it's ' \" {", "/* -- */"]


@unhurried
@given(st.data())
def test_every_comment_survives_printing_in_its_order_wherever_it_stands(data):
    text = print_app(data.draw(trees.apps))
    tokens = tokenise(text).tokens
    places = data.draw(st.lists(st.sampled_from(range(len(tokens))), min_size=1, max_size=8))
    written, last = [], 0
    for place in sorted(places):
        comment = data.draw(st.sampled_from(COMMENTS))
        before = data.draw(st.sampled_from([" ", "\n", "\n\n  "]))
        written += [text[last : tokens[place].start], before, comment, "\n" if comment.startswith("--") else " "]
        last = tokens[place].start
    commented = "".join(written) + text[last:]
    app = parse(commented)
    printed = print_app(app)
    again = parse(printed)
    assert again == parse(text)
    assert [c.text for c in again.comments] == [c.text for c in app.comments]
    assert print_app(again) == printed


def test_comments_stay_where_they_are_read():
    text = """\
-- what this is
@app:name('x') -- the name

/* the input */
define stream S (a int, b string); -- from the gate

-- the alarm
@info(name='alarm')
from S[a > 5] -- only high ones
select a, /* as is */ b
-- by gate
group by b
insert into T; -- done
-- the end
"""
    assert print_app(parse(text)) == text


def test_a_comment_inside_a_partition_stays_inside():
    text = """\
define stream S (a int);

partition with (a of S)
begin
    -- first
    from S
    insert into #I; -- inner

    -- second
    from #I
    insert into T;
end;
"""
    assert print_app(parse(text)) == text


def test_two_comments_to_the_end_of_a_line_are_never_joined_into_one():
    app = parse("define stream S (a int) -- one\n; -- two\nfrom S -- three\n insert -- four\n into T")
    assert [c.text for c in parse(print_app(app)).comments] == ["-- one", "-- two", "-- three", "-- four"]


def test_a_comment_that_the_end_of_the_text_closes_is_closed_by_the_printer():
    assert print_app(parse("define stream S (a int); /* open")).endswith("/* open*/\n")


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("(a + b) * c", "(a + b) * c"),
        ("((a * b)) + (c)", "a * b + c"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a - b) - c", "a - b - c"),
        ("not(a and b) or c", "not (a and b) or c"),
        ("(not a) and not (not b)", "not a and not not b"),
        ("(a == b) in T and (c in T)", "a == b in T and c in T"),
        ("(a and b) in T", "(a and b) in T"),
        ("a == (b in T)", "a == (b in T)"),
        ("`select` + `last` + `a b`", "`select` + last + `a b`"),
        ("A.`order`", "A.`order`"),
        ("AND(x)", "AND(x)"),
        ("5D", "5.0"),
        ("1e3", "1000.0"),
        (".5F", "0.5f"),
        ("3.4028235e38f", "3.4028235e+38f"),
        ("16777217f", "16777216.0f"),
        ("50f", "50.0f"),
        ("5l", "5L"),
        ("- 5 - - 5", "-5 - -5"),
        ("TRUE", "true"),
        ("'it'", "'it'"),
        ('"it\'s"', '"it\'s"'),
        ('"""say "it\'s" """', '"""say "it\'s" """'),
        ('"""\\n"""', '"""\n"""'),
        ("1 hour 30 minutes 1 second", "1 hour 30 min 1 sec"),
        ("2 Days", "2 days"),
        ("e1[last-1].x is null", "e1[last - 1].x is null"),
    ],
)
def test_expressions_are_printed_in_one_way(written, printed):
    assert print_node(parse_expression(written)) == printed


def test_a_query_has_one_clause_a_line():
    text = (
        "@info(name = 'q') from S[a>5]#window.length(5) select a,sum(b) as s group by a having s>1 order by a desc "
        "limit 5 offset 1 output last every 2 events update or insert into T for all events set T.s=s on T.a==a;"
    )
    assert (
        print_node(parse_query(text))
        == """\
@info(name='q')
from S[a > 5]#window.length(5)
select a, sum(b) as s
group by a
having s > 1
order by a desc
limit 5
offset 1
output last every 2 events
update or insert into T for all events
    set T.s = s
    on T.a == a"""
    )


def test_long_lists_and_patterns_are_broken_into_lines():
    text = (
        "from every e1=TemperatureStream[temperature > 30.0] -> e2=HumidityStream[humidity > e1.temperature and humidity < 99.5] "
        "within 5 min select e1.temperature as firstTemperature, e2.humidity as secondHumidity, "
        "e2.humidity - e1.temperature as differenceOfBoth insert into Alerts"
    )
    assert (
        print_node(parse_query(text))
        == """\
from every e1=TemperatureStream[temperature > 30.0]
    -> e2=HumidityStream[humidity > e1.temperature and humidity < 99.5]
    within 5 min
select
    e1.temperature as firstTemperature,
    e2.humidity as secondHumidity,
    e2.humidity - e1.temperature as differenceOfBoth
insert into Alerts"""
    )


def test_a_long_annotation_is_broken_into_lines():
    text = (
        "@source(type='kafka', topic.list='temperature-readings', bootstrap.servers='localhost:9092', group.id='readers', "
        "@map(type='json', fail.on.missing.attribute='false')) define stream S (a int);"
    )
    assert (
        print_app(parse(text))
        == """\
@source(
    type='kafka',
    topic.list='temperature-readings',
    bootstrap.servers='localhost:9092',
    group.id='readers',
    @map(type='json', fail.on.missing.attribute='false')
)
define stream S (a int);
"""
    )


def test_a_tree_that_was_made_and_not_read_prints_too():
    tree = Binary("*", Binary("+", Variable("a"), Constant(1, Type.INT)), Variable("b"))
    assert print_node(tree) == "(a + 1) * b"
    assert print_app(SiddhiApp()) == ""


def test_printing_something_else_is_refused():
    with pytest.raises(TypeError, match="int is not a node"):
        print_node(5)
