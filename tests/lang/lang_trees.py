"""Random syntax trees of the shapes that the parser can make."""

from __future__ import annotations

from hypothesis import strategies as st

from nadi.lang.expressions import float32
from nadi.lang.tokens import KEYWORDS, UNIT_MILLISECONDS, UNITS
from nadi.lang.tree import (
    AbsentState,
    AggregationDefinition,
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
    FunctionDefinition,
    In,
    InsertInto,
    IsNull,
    IsNullStream,
    JoinInput,
    JoinKind,
    LogicalState,
    NextState,
    Not,
    OnDemandQuery,
    OrderBy,
    Partition,
    Query,
    RangeKey,
    Rate,
    Return,
    Selection,
    SelectItem,
    SetAssignment,
    SiddhiApp,
    SingleInput,
    Source,
    StateInput,
    StreamDefinition,
    StreamFunction,
    StreamState,
    TableDefinition,
    TimeConstant,
    TriggerDefinition,
    Type,
    Update,
    UpdateOrInsert,
    ValueKey,
    Variable,
    Window,
    WindowDefinition,
)

plain_names = st.from_regex(r"[a-zA-Z_][a-zA-Z_0-9]{0,6}", fullmatch=True)
names = st.one_of(
    plain_names,
    plain_names,
    st.sampled_from(sorted(KEYWORDS | set(UNITS))),
    st.sampled_from(["Select", "NOT", "two words", "1st", "a.b", "ä", "x;y", "--", ""]),
)
function_names = st.one_of(plain_names, st.sampled_from(["and", "or", "min", "not", "window", "select", "true"]))
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
small = st.integers(0, 9)


def maybe(strategy: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | strategy


def several(strategy: st.SearchStrategy, least: int = 0, most: int = 3) -> st.SearchStrategy:
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


def time_of(amounts: dict[str, int]) -> TimeConstant:
    units = tuple((amounts[u], u) for u in UNIT_MILLISECONDS if u in amounts)
    return TimeConstant(sum(n * UNIT_MILLISECONDS[u] for n, u in units), units)


times = st.dictionaries(st.sampled_from(list(UNIT_MILLISECONDS)), st.integers(0, 1000), min_size=1, max_size=3).map(
    time_of
)
constants = st.one_of(
    st.integers(-(2**31), 2**31 - 1).map(lambda v: Constant(v, Type.INT)),
    st.integers(-(2**63), 2**63 - 1).map(lambda v: Constant(v, Type.LONG)),
    st.floats(width=32, allow_nan=False).map(lambda v: Constant(float32(v), Type.FLOAT)),
    st.floats(allow_nan=False).map(lambda v: Constant(v, Type.DOUBLE)),
    st.booleans().map(lambda v: Constant(v, Type.BOOL)),
    strings.map(lambda v: Constant(v, Type.STRING)),
)


def marked(make):
    """With `#`, `!` or neither."""
    return st.sampled_from([(False, False), (True, False), (False, True)]).flatmap(
        lambda m: make(inner=m[0], fault=m[1])
    )


indexes = st.none() | st.integers(-4, 9)
variables = st.one_of(
    names.map(Variable),
    marked(lambda inner, fault: st.builds(Variable, names, names, indexes, st.just(inner), st.just(fault))),
)
stream_nulls = st.one_of(
    st.builds(IsNullStream, names, st.integers(-4, 9)),
    marked(lambda inner, fault: st.builds(IsNullStream, names, indexes, st.just(inner), st.just(fault))).filter(
        lambda n: n.inner or n.fault or n.index is not None
    ),
)


def calls(arguments: st.SearchStrategy) -> st.SearchStrategy:
    namespaces = st.just("") | function_names
    return st.one_of(
        st.builds(FunctionCall, function_names, several(arguments), namespaces),
        st.builds(FunctionCall, function_names, st.just(()), namespaces, st.just(True)),
    )


OPERATORS = ["*", "/", "%", "+", "-", "<", "<=", ">", ">=", "==", "!=", "and", "or"]
expressions = st.recursive(
    st.one_of(constants, times, variables, stream_nulls),
    lambda inner: st.one_of(
        calls(inner),
        st.builds(Binary, st.sampled_from(OPERATORS), inner, inner),
        st.builds(Not, inner),
        st.builds(In, inner, names),
        st.builds(IsNull, variables | calls(inner)),
    ),
    max_leaves=8,
)
sources = marked(lambda inner, fault: st.builds(Source, names, st.just(inner), st.just(fault)))
filters = st.builds(Filter, expressions)
any_calls = calls(expressions)
handlers = filters | st.builds(StreamFunction, any_calls)
windows = st.builds(Window, any_calls)


def around(before: tuple, window: Window | None, after: tuple) -> tuple:
    return before + ((window,) if window else ()) + after


singles = st.builds(SingleInput, sources, st.builds(around, several(handlers), maybe(windows), several(handlers)))
sides = st.builds(
    SingleInput, sources, st.builds(around, several(handlers, most=2), maybe(windows), st.just(())), maybe(names)
)
ranges = st.one_of(st.just(((), None)), st.tuples(several(expressions, 1, 2), expressions))
joins = st.builds(
    lambda left, kind, right, one, on, within: JoinInput(left, kind, right, one, on, *within),
    sides,
    st.sampled_from(JoinKind),
    sides,
    st.sampled_from([None, "left", "right"]),
    maybe(expressions),
    ranges,
)

# ---- patterns and sequences ----

stateful = st.builds(SingleInput, sources, several(handlers, most=2))
streams = st.builds(StreamState, stateful, maybe(names))
absents = st.builds(AbsentState, stateful, times)


def count_of(state: StreamState, low: int, more: int | None) -> CountState:
    return CountState(state, low, None if more is None else low + more)


counts = st.builds(count_of, streams, small, maybe(small))
signs = st.builds(
    lambda state, sign: CountState(state, *{"*": (0, None), "+": (1, None), "?": (0, 1)}[sign], sign),
    streams,
    st.sampled_from("*+?"),
)
logicals = st.one_of(
    st.builds(LogicalState, st.sampled_from(["and", "or"]), streams | absents, streams | absents),
    st.builds(LogicalState, st.just("and"), st.builds(AbsentState, stateful), streams),
    st.builds(LogicalState, st.just("and"), streams, st.builds(AbsentState, stateful)),
)
present = streams | counts | logicals


def chain(elements: st.SearchStrategy, least: int = 2) -> st.SearchStrategy:
    return several(elements, least, 4).map(NextState)


pattern_elements = st.one_of(
    present,
    st.builds(EveryState, present),
    st.builds(EveryState, present | chain(present), st.just(True)),
).filter(lambda e: not (isinstance(e, EveryState) and isinstance(e.state, NextState) and not e.parenthesised))
patterns = st.one_of(
    st.builds(StateInput, st.just("pattern"), chain(pattern_elements), maybe(times)),
    st.builds(StateInput, st.just("pattern"), pattern_elements, maybe(times)),
    st.builds(lambda p, a: StateInput("pattern", NextState((p, a))), pattern_elements, absents),
    st.builds(StateInput, st.just("pattern"), absents | st.builds(EveryState, absents)),
)
sequence_elements = present | signs
sequences = st.builds(
    lambda first, every, rest, within: StateInput(
        "sequence", NextState((EveryState(first) if every else first, *rest)), within
    ),
    sequence_elements,
    st.booleans(),
    several(sequence_elements, 1),
    maybe(times),
)

# ---- queries ----

items = st.builds(SelectItem, expressions, names) | st.builds(SelectItem, variables)


def named_once(found: tuple[SelectItem, ...]) -> tuple[SelectItem, ...]:
    """The items without those whose output has the name of another one: no text may have these."""
    return tuple({item.alias or getattr(item.expression, "name", item): item for item in found}.values())


selections = st.one_of(
    st.just(Selection()),
    st.builds(
        lambda items, *rest: Selection(items, not items, *rest),
        several(items).map(named_once),
        several(variables),
        maybe(expressions),
        several(st.builds(OrderBy, variables, st.sampled_from(["", "asc", "desc"]))),
        maybe(expressions),
        maybe(expressions),
    ),
)
events = maybe(st.sampled_from(Events))
assignments = several(st.builds(SetAssignment, variables, expressions))
outputs = st.one_of(
    st.builds(InsertInto, sources, events),
    st.builds(Delete, sources, events, maybe(expressions)),
    st.builds(Update, sources, expressions, events, assignments),
    st.builds(UpdateOrInsert, sources, expressions, events, assignments),
    st.builds(Return, events),
)
kinds = st.sampled_from(["", "all", "first", "last"])
rates = st.one_of(
    st.builds(Rate, kinds, times),
    st.builds(Rate, kinds, st.none(), small),
    st.builds(Rate, st.just("snapshot"), times),
)
annotations = st.recursive(
    st.builds(Annotation, names),
    lambda inner: st.builds(
        Annotation,
        names,
        several(st.builds(Element, st.sampled_from(["", "a", "a.b-c:d", "no key", "on"]), strings)),
        several(inner),
    ),
    max_leaves=3,
).filter(lambda a: not a.name.lower().startswith("app:"))
marks = several(annotations, most=2)
simple_inputs = singles | joins | patterns | sequences
inner_queries = st.builds(Query, simple_inputs, selections, st.builds(Return, events), maybe(rates))
inputs = st.one_of(simple_inputs, st.builds(AnonymousInput, inner_queries, several(handlers, most=1)))
queries = st.builds(Query, inputs, selections, outputs, maybe(rates), marks)
keys = st.one_of(
    st.builds(ValueKey, expressions, names),
    st.builds(RangeKey, several(st.tuples(expressions, strings), 1), names),
)
partitions = st.builds(Partition, several(keys, 1), several(queries, 1), marks)

# ---- definitions and apps ----

attributes = several(st.builds(Attribute, names, st.sampled_from(Type)), 1, 4).map(
    lambda found: tuple({one.name: one for one in found}.values())  # an attribute is named once
)
bodies = st.sampled_from([" return a; ", "", " if (x) { '}' } else { /* } */ } ", "\n  // don't {\n  f();\n", ' "}" '])
units = st.sampled_from(["sec", "min", "hour", "day", "week", "month", "year"])
definitions = st.one_of(
    st.builds(StreamDefinition, sources, attributes, marks),
    st.builds(TableDefinition, sources, attributes, marks),
    st.builds(WindowDefinition, sources, attributes, any_calls, events, marks),
    st.builds(TriggerDefinition, names, times, st.none(), marks),
    st.builds(TriggerDefinition, names, st.none(), strings, marks),
    st.builds(FunctionDefinition, names, names, st.sampled_from(Type), bodies, marks),
    st.builds(
        lambda name, read, items, group, by, durations, marks: AggregationDefinition(
            name, read, Selection(items, not items, group), by, *durations, marks
        ),
        names,
        singles,
        several(items).map(named_once),
        several(variables),
        maybe(variables),
        st.one_of(
            st.tuples(several(units, 2, 2), st.just(True)),
            st.tuples(several(units, 1), st.just(False)),
        ),
        marks,
    ),
)
app_annotations = st.builds(
    Annotation, names.map(lambda n: "app:" + n), several(st.builds(Element, st.just(""), strings))
)
apps = st.builds(
    SiddhiApp, several(app_annotations, most=2), several(definitions, 1), several(st.one_of(queries, partitions))
)
on_demand_queries = st.one_of(
    st.builds(
        lambda name, alias, on, within, selected: OnDemandQuery(
            SingleInput(Source(name), (), alias), selected, Return(), on, *within
        ),
        names,
        maybe(names),
        maybe(expressions),
        ranges,
        selections,
    ),
    st.builds(OnDemandQuery, st.none(), selections.filter(lambda s: s != Selection()), st.builds(InsertInto, sources)),
    st.builds(OnDemandQuery, st.none(), selections, st.builds(Delete, sources, st.none(), maybe(expressions))),
    st.builds(OnDemandQuery, st.none(), selections, st.builds(Update, sources, expressions, st.none(), assignments)),
)
