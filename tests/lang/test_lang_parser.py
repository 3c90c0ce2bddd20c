"""The grammar, construct by construct."""

from __future__ import annotations

import pytest

from nadi.lang import (
    parse,
    parse_aggregation_definition,
    parse_definition,
    parse_expression,
    parse_function_definition,
    parse_on_demand,
    parse_partition,
    parse_query,
    parse_stream_definition,
    parse_table_definition,
    parse_time,
    parse_trigger_definition,
    parse_window_definition,
)
from nadi.lang.tree import (
    AbsentState,
    Annotation,
    AnonymousInput,
    Attribute,
    Binary,
    Constant,
    CountState,
    Delete,
    Element,
    Events,
    EveryState,
    Filter,
    FunctionCall,
    In,
    InsertInto,
    IsNull,
    IsNullStream,
    JoinInput,
    JoinKind,
    LogicalState,
    NextState,
    Not,
    OrderBy,
    RangeKey,
    Rate,
    Return,
    Selection,
    SelectItem,
    SetAssignment,
    SingleInput,
    Source,
    StateInput,
    StreamFunction,
    StreamState,
    TimeConstant,
    Type,
    Update,
    UpdateOrInsert,
    ValueKey,
    Variable,
    Window,
)

SECOND = TimeConstant(1000, ((1, "sec"),))


def var(name: str, stream: str | None = None, index: int | None = None) -> Variable:
    return Variable(name, stream, index)


def integer(value: int) -> Constant:
    return Constant(value, Type.INT)


def single(name: str, *handlers) -> SingleInput:
    return SingleInput(Source(name), handlers)


def stream(name: str, reference: str | None = None) -> StreamState:
    return StreamState(single(name), reference)


def read_by(text: str):
    """The input of `from <text> insert into Out`."""
    return parse_query(f"from {text} insert into Out").input


# ---- expressions ----


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", Binary("+", var("a"), Binary("*", var("b"), var("c")))),
        ("a - b - c", Binary("-", Binary("-", var("a"), var("b")), var("c"))),
        ("a -1", Binary("-", var("a"), integer(1))),
        ("a-1", Binary("-", var("a"), integer(1))),
        ("a - -1", Binary("-", var("a"), integer(-1))),
        ("not a > 1", Binary(">", Not(var("a")), integer(1))),
        ("not(a > 1)", Not(Binary(">", var("a"), integer(1)))),
        ("a > 1 == b", Binary("==", Binary(">", var("a"), integer(1)), var("b"))),
        ("a == b in T", In(Binary("==", var("a"), var("b")), "T")),
        ("a and b in T", Binary("and", var("a"), In(var("b"), "T"))),
        ("a or b AND c", Binary("or", var("a"), Binary("and", var("b"), var("c")))),
        ("a + b is null", Binary("+", var("a"), IsNull(var("b")))),
        ("not a is null", Not(IsNull(var("a")))),
        ("f(a) is null", IsNull(FunctionCall("f", (var("a"),)))),
        ("e1[1] is null", IsNullStream("e1", 1)),
        ("e1[last] is null", IsNullStream("e1", -1)),
        ("#I is null", IsNullStream("I", inner=True)),
        ("!S is null", IsNullStream("S", fault=True)),
        ("S.a", var("a", "S")),
        ("e1[2].a", var("a", "e1", 2)),
        ("e1[last].a", var("a", "e1", -1)),
        ("e1[last-1].a", var("a", "e1", -2)),
        ("e1[LAST - 2].a", var("a", "e1", -3)),
        ("#I.a", Variable("a", "I", inner=True)),
        ("!S._error", Variable("_error", "S", fault=True)),
        ("`a b`.`select`", var("select", "a b")),
        ("now()", FunctionCall("now")),
        ("count(*)", FunctionCall("count", star=True)),
        ("str:concat(a, 'x')", FunctionCall("concat", (var("a"), Constant("x", Type.STRING)), "str")),
        ("and(a)", FunctionCall("and", (var("a"),))),
        ("min(a)", FunctionCall("min", (var("a"),))),
        ("last + all", Binary("+", var("last"), var("all"))),
        ("select.from", var("from", "select")),
        ("true.x", var("x", "true")),
        ("5 sec + 1", Binary("+", TimeConstant(5000, ((5, "sec"),)), integer(1))),
        ("1 hour 30 min", TimeConstant(5_400_000, ((1, "hour"), (30, "min")))),
        ("3sec", TimeConstant(3000, ((3, "sec"),))),
    ],
)
def test_expressions(text, tree):
    assert parse_expression(text) == tree


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1 year", 31_536_000_000),
        ("2 months", 5_184_000_000),
        ("1 week", 604_800_000),
        ("1 day", 86_400_000),
        ("1 Hours", 3_600_000),
        ("1 minute", 60_000),
        ("2 MINUTES", 120_000),
        ("1 second", 1_000),
        ("5 milliseconds", 5),
        ("1 year 2 months 3 weeks 4 days 5 hours 6 min 7 sec 8 millisec", 38_898_367_008),
    ],
)
def test_times_are_milliseconds(text, milliseconds):
    assert parse_time(text).milliseconds == milliseconds


# ---- annotations and definitions ----


def test_annotations_have_keys_with_separators_and_nested_annotations():
    definition = parse_stream_definition(
        "@Source(type='x', a.b-c:d=\"1\", 'quoted key'='2', @map('y', @attributes(z='$.z'))) @Async define stream S (a int)"
    )
    assert definition.annotations == (
        Annotation(
            "Source",
            (Element("type", "x"), Element("a.b-c:d", "1"), Element("quoted key", "2")),
            (Annotation("map", (Element("", "y"),), (Annotation("attributes", (Element("z", "$.z"),)),)),),
        ),
        Annotation("Async"),
    )


def test_app_annotations_come_first():
    app = parse(
        "@app:name('x') @App:Playback(idle.time='1 sec', increment='2 sec') @app:statistics define stream S (a int)"
    )
    assert [a.name for a in app.annotations] == ["app:name", "app:Playback", "app:statistics"]
    assert app.annotations[1].get("IDLE.TIME") == "1 sec"


def test_attributes_of_all_types_and_streams_with_marks():
    definition = parse_stream_definition(
        "define stream #S (a string, b INT, c long, d float, e double, f bool, object object);"
    )
    assert definition.source == Source("S", inner=True)
    assert [a.type for a in definition.attributes] == [
        Type.STRING,
        Type.INT,
        Type.LONG,
        Type.FLOAT,
        Type.DOUBLE,
        Type.BOOL,
        Type.OBJECT,
    ]
    assert definition.attributes[-1].name == "object"


def test_tables_windows_triggers_and_functions_are_defined():
    table = parse_table_definition("@primaryKey('a') @index('b') define table T (a int, b int)")
    assert [a.name for a in table.annotations] == ["primaryKey", "index"]
    window = parse_window_definition("define window W (a int) unique:length(a, 5) output expired events")
    assert (window.window.namespace, window.window.name, window.output) == ("unique", "length", Events.EXPIRED)
    assert parse_window_definition("define window W (a int) length(5)").output is None
    assert parse_window_definition("define window W (a int) length(5) output events").output is Events.CURRENT
    assert parse_trigger_definition("define trigger T at every 1 sec").every == SECOND
    assert parse_trigger_definition("define trigger T at 'start';").at == "start"
    function = parse_function_definition("define function f[javascript] return string { return 'x'; }")
    assert (function.name, function.language, function.type, function.body) == (
        "f",
        "javascript",
        Type.STRING,
        " return 'x'; ",
    )


def test_aggregations_are_defined_over_a_range_or_a_list_of_durations():
    text = "define aggregation A from S[a > 1] select k, sum(a) as s group by k aggregate by ts every {}"
    ranged = parse_aggregation_definition(text.format("sec...year"))
    assert (ranged.durations, ranged.is_range) == (("sec", "year"), True)
    assert ranged.aggregate_by == var("ts")
    assert ranged.selection.group_by == (var("k"),)
    assert ranged.input.handlers == (Filter(Binary(">", var("a"), integer(1))),)
    listed = parse_aggregation_definition(text.format("seconds, min, hours"))
    assert (listed.durations, listed.is_range) == (("sec", "min", "hour"), False)
    assert parse_aggregation_definition("define aggregation A from S select * aggregate every day").aggregate_by is None


def test_a_definition_of_any_kind_can_be_read():
    assert parse_definition("define table T (a int)") == parse_table_definition("define table T (a int)")


# ---- inputs ----


def test_handlers_are_read_in_order_on_both_sides_of_the_window():
    assert read_by("S[a]#[b]#f(1)#ns:g()#window.ns:w(a, 5)[c]#h()") == single(
        "S",
        Filter(var("a")),
        Filter(var("b")),
        StreamFunction(FunctionCall("f", (integer(1),))),
        StreamFunction(FunctionCall("g", namespace="ns")),
        Window(FunctionCall("w", (var("a"), integer(5)), "ns")),
        Filter(var("c")),
        StreamFunction(FunctionCall("h")),
    )


@pytest.mark.parametrize("name", ["every", "not", "from", "select", "join", "events", "window", "`a-b`"])
def test_any_keyword_can_name_a_stream(name):
    assert read_by(f"{name}[a]").source.name == name.strip("`")
    assert parse(f"define stream {name} (a int); from {name} select a insert into {name}").elements


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("join", JoinKind.INNER),
        ("inner join", JoinKind.INNER),
        ("left outer join", JoinKind.LEFT),
        ("RIGHT OUTER JOIN", JoinKind.RIGHT),
        ("full outer join", JoinKind.FULL),
        ("outer join", JoinKind.FULL),
    ],
)
def test_joins_of_all_kinds(text, kind):
    assert read_by(f"A {text} B") == JoinInput(single("A"), kind, single("B"))


def test_a_join_with_everything():
    read = read_by(
        "A[x]#window.length(1) as l unidirectional join B#f() as r on l.x == r.x within '2017', '2018' per 'days'"
    )
    assert read == JoinInput(
        SingleInput(Source("A"), (Filter(var("x")), Window(FunctionCall("length", (integer(1),)))), "l"),
        JoinKind.INNER,
        SingleInput(Source("B"), (StreamFunction(FunctionCall("f")),), "r"),
        "left",
        Binary("==", var("x", "l"), var("x", "r")),
        (Constant("2017", Type.STRING), Constant("2018", Type.STRING)),
        Constant("days", Type.STRING),
    )
    assert read_by("A join B as b unidirectional").unidirectional == "right"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("A -> B", NextState((stream("A"), stream("B")))),
        ("e1=A", stream("A", "e1")),
        ("(A)", stream("A")),
        ("every A -> B -> C", NextState((EveryState(stream("A")), stream("B"), stream("C")))),
        ("A->every B", NextState((stream("A"), EveryState(stream("B"))))),
        ("every (A -> B)", EveryState(NextState((stream("A"), stream("B"))), True)),
        ("every (A)", EveryState(stream("A"), True)),
        ("(A -> (B -> C))", NextState((stream("A"), stream("B"), stream("C")))),
        (
            "A -> every (B -> C) -> D",
            NextState((stream("A"), EveryState(NextState((stream("B"), stream("C"))), True), stream("D"))),
        ),
        ("every e1=A<2:5>", EveryState(CountState(stream("A", "e1"), 2, 5))),
        (
            "A<2> -> B<3:> -> C<:4>",
            NextState((CountState(stream("A"), 2, 2), CountState(stream("B"), 3, None), CountState(stream("C"), 0, 4))),
        ),
        ("e1=A and e2=B", LogicalState("and", stream("A", "e1"), stream("B", "e2"))),
        ("every A or B", EveryState(LogicalState("or", stream("A"), stream("B")))),
        ("not A for 1 sec", AbsentState(single("A"), SECOND)),
        (
            "A -> not B and e=C",
            NextState((stream("A"), LogicalState("and", AbsentState(single("B")), stream("C", "e")))),
        ),
        (
            "A -> (not B for 1 sec or not C for 1 sec)",
            NextState(
                (stream("A"), LogicalState("or", AbsentState(single("B"), SECOND), AbsentState(single("C"), SECOND)))
            ),
        ),
        ("every not A for 1 sec -> B", NextState((EveryState(AbsentState(single("A"), SECOND)), stream("B")))),
        (
            "not A for 1 sec -> B -> not C for 1 sec",
            NextState((AbsentState(single("A"), SECOND), stream("B"), AbsentState(single("C"), SECOND))),
        ),
        (
            "#I -> !F",
            NextState(
                (StreamState(SingleInput(Source("I", inner=True))), StreamState(SingleInput(Source("F", fault=True))))
            ),
        ),
    ],
)
def test_patterns(text, state):
    assert read_by(text) == StateInput("pattern", state)
    assert read_by(f"{text} within 1 sec") == StateInput("pattern", state, SECOND)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("A, B", NextState((stream("A"), stream("B")))),
        ("every e1=A, e2=B", NextState((EveryState(stream("A", "e1")), stream("B", "e2")))),
        ("A*, B+, C?, D<1:2>", NextState((
            CountState(stream("A"), 0, None, "*"),
            CountState(stream("B"), 1, None, "+"),
            CountState(stream("C"), 0, 1, "?"),
            CountState(stream("D"), 1, 2),
        ))),
        ("A, B and C, D", NextState((stream("A"), LogicalState("and", stream("B"), stream("C")), stream("D")))),
        ("A, not B for 1 sec", NextState((stream("A"), AbsentState(single("B"), SECOND)))),
        ("every (A, B)", EveryState(NextState((stream("A"), stream("B"))), True)),
    ],
)  # fmt: skip
def test_sequences(text, state):
    assert read_by(text) == StateInput("sequence", state)
    assert read_by(f"{text} within 1 sec") == StateInput("sequence", state, SECOND)


def test_filters_of_a_state_can_refer_to_other_states():
    read = read_by("every e1=A[x > 1] -> e2=B[x > e1.x and e1[last].x is null]#log('z')")
    assert len(read.state.states[1].input.handlers) == 2


@pytest.mark.parametrize("text", ["(from S select a return)", "((from S select a return))", "from S select a return"])
def test_anonymous_streams(text):
    read = read_by(text)
    assert isinstance(read, AnonymousInput)
    assert read.query.output == Return()
    assert read.query.input == single("S")


def test_anonymous_streams_nest_and_limit_rates():
    read = read_by(
        "(from (from A -> B select A.x return) output every 5 events return expired events)#window.length(1)"
    )
    assert read.query.rate == Rate("", None, 5)
    assert read.query.output == Return(Events.EXPIRED)
    assert read.query.input.query.input.kind == "pattern"
    assert len(read.handlers) == 1


# ---- selections, rates, outputs ----


def test_a_selection_with_everything():
    query = parse_query(
        "from S select a, b+1 as c, T.d group by a, T.d having c > 1 order by a asc, c DESC, d limit 5 offset 1 insert into O"
    )
    assert query.selection == Selection(
        (SelectItem(var("a")), SelectItem(Binary("+", var("b"), integer(1)), "c"), SelectItem(var("d", "T"))),
        False,
        (var("a"), var("d", "T")),
        Binary(">", var("c"), integer(1)),
        (OrderBy(var("a"), "asc"), OrderBy(var("c"), "desc"), OrderBy(var("d"))),
        integer(5),
        integer(1),
    )


def test_missing_and_starred_selections_differ():
    assert parse_query("from S insert into O").selection == Selection()
    assert parse_query("from S select * insert into O").selection == Selection(star=True)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("every 5 events", Rate("", None, 5)),
        ("all every 1 sec", Rate("all", SECOND)),
        ("first every 5 events", Rate("first", None, 5)),
        ("last every 1 sec", Rate("last", SECOND)),
        ("snapshot every 1 sec", Rate("snapshot", SECOND)),
    ],
)
def test_rates(text, rate):
    assert parse_query(f"from S output {text} insert into O").rate == rate


ON = Binary("==", var("a", "T"), var("a"))
SET = (SetAssignment(var("b", "T"), integer(1)), SetAssignment(var("c", "T"), var("c")))


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("insert into T", InsertInto(Source("T"))),
        ("INSERT INTO #T", InsertInto(Source("T", inner=True))),
        ("insert events into !T", InsertInto(Source("T", fault=True), Events.CURRENT)),
        ("insert current events into T", InsertInto(Source("T"), Events.CURRENT)),
        ("insert all events into T", InsertInto(Source("T"), Events.ALL)),
        ("insert expired events into T", InsertInto(Source("T"), Events.EXPIRED)),
        ("delete T", Delete(Source("T"))),
        ("delete T for all events on T.a == a", Delete(Source("T"), Events.ALL, ON)),
        ("update T on T.a == a", Update(Source("T"), ON)),
        ("update T for expired events set T.b = 1, T.c=c on T.a == a", Update(Source("T"), ON, Events.EXPIRED, SET)),
        ("update or insert into T on T.a==a", UpdateOrInsert(Source("T"), ON)),
        (
            "Update Or Insert Into T for all events set T.b=1,T.c=c on T.a==a",
            UpdateOrInsert(Source("T"), ON, Events.ALL, SET),
        ),
        ("return", Return()),
        ("return all events", Return(Events.ALL)),
    ],
)
def test_outputs(text, output):
    assert parse_query(f"from S {text};").output == output


# ---- partitions, on-demand queries, apps ----


def test_partitions_have_keys_and_queries():
    partition = parse_partition(
        "@purge(enable='true') partition with (a + 1 of S, a < 5 as 'low' or a >= 5 as 'high' of R) "
        "begin @info(name='q') from S insert into #I; from #I insert into T; end"
    )
    assert partition.keys == (
        ValueKey(Binary("+", var("a"), integer(1)), "S"),
        RangeKey(((Binary("<", var("a"), integer(5)), "low"), (Binary(">=", var("a"), integer(5)), "high")), "R"),
    )
    assert [q.annotations for q in partition.queries] == [(Annotation("info", (Element("name", "q"),)),), ()]
    assert partition.annotations[0].name == "purge"
    assert len(parse_partition("partition with (a of S) begin from S insert into T end;").queries) == 1


def test_on_demand_queries_of_all_kinds():
    find = parse_on_demand("from T as t on t.a > 1 within 1L, 2L per 'sec' select a limit 5;")
    assert find.input == SingleInput(Source("T"), (), "t")
    assert (find.on, len(find.within), find.per) == (
        Binary(">", var("a", "t"), integer(1)),
        2,
        Constant("sec", Type.STRING),
    )
    assert find.output == Return()
    assert parse_on_demand("from T").selection == Selection()
    assert parse_on_demand("select 1 as a insert into T").output == InsertInto(Source("T"))
    assert parse_on_demand("delete T on T.a == a").output == Delete(Source("T"), None, ON)
    assert parse_on_demand("select 1 as a delete T on T.a == a").output == Delete(Source("T"), None, ON)
    assert parse_on_demand("update T set T.b = 1, T.c = c on T.a == a").output == Update(Source("T"), ON, None, SET)
    assert isinstance(parse_on_demand("select 1 as a update or insert into T on T.a == a").output, UpdateOrInsert)


def test_spans_cover_what_was_read():
    text = "define stream S (a int);\nfrom S[a > 5]\nselect a insert into T;"
    app = parse(text)
    query = app.elements[0]
    condition = query.input.handlers[0].condition
    assert text[condition.span.start : condition.span.end] == "a > 5"
    assert (condition.span.line, condition.span.column, condition.span.end_column) == (2, 8, 13)
    assert text[query.span.start : query.span.end] == text[25:-1]
    assert text[app.span.start : app.span.end] == text
    assert app.definitions[0].attributes == (Attribute("a", Type.INT),)


def test_names_that_look_like_units_or_outputs_are_names_where_names_stand():
    app = parse(
        "define stream S (sec int, min int, day int, events int); from S select sec, min, day, events, min(sec) as year insert into hour"
    )
    assert [i.expression.name for i in app.elements[0].selection.items] == ["sec", "min", "day", "events", "min"]


def test_an_app_of_a_thousand_queries_is_read():
    part = "@info(name='q') from S[a > 5 and b != 'x']#window.time(1 min) select a, sum(b) as s group by a insert into T{};\n"
    text = "define stream S (a int, b int);\n" + "".join(part.format(i) for i in range(1000))
    assert len(text) > 100_000
    assert len(parse(text).elements) == 1000
