"""Functions on columns: in loops, and before and behind them, give exactly what rows give; so do those that fail."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from nadi.functions import core, mathematics, strings, times
from nadi.functions.entries import ScalarFunction
from nadi.functions.registry import default_registry
from nadi.kernel.columns.computing import Computing
from nadi.kernel.columns.stretch import Column, Stretch
from nadi.lang.tree import Type
from nadi.plan.catalog import Argument
from nadi.plan.columns.functionsupport import KNOWN
from nadi.plan.columns.islands import islands
from nadi.plan.nodes import Attr, Call, Const
from tests.generate.apps import Generated
from tests.generate.choices import SCHEMA
from tests.generate.feeding import planned
from tests.generate.inputs import Cut, Message, cuts, messages
from tests.kernel.columns.comparing import OF_ONE_APP, MixedFeeding, same_as_rows

ELSEWHERE = {
    "UUID": "another one with each call",
    "math:rand": "another one with each call",
    "createSet": "gives an object",
    "sizeOfSet": "takes an object",
}


def test_columns_know_all_functions_of_core_texts_numbers_and_dates():
    entries = (*core.FUNCTIONS, *strings.ENTRIES, *mathematics.ENTRIES, *times.ENTRIES)
    missing = {e.name for e in entries if isinstance(e, ScalarFunction)} - KNOWN
    assert missing == ELSEWHERE.keys()


# ---- numbers ---------------------------------------------------------------------------------------------------------

_SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    8.0,
    27.0,
    709.9,
    -746.0,
    5e-324,
    1e16,
    2.0**31,
    -(2.0**63),
    2.0**63,
]
_SPECIAL += [
    1.7976931348623157e308,
    -1.7976931348623157e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    4503599627370497.5,
]
_TYPES = (Type.DOUBLE, Type.DOUBLE, Type.FLOAT, Type.INT, Type.LONG)
_D, _E, _F, _I, _L = (Attr(0, n, kind) for n, kind in enumerate(_TYPES))
_ONE = (
    *(
        "abs",
        "atan",
        "cos",
        "cosh",
        "exp",
        "ln",
        "log10",
        "log2",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "toDegrees",
        "toRadians",
    ),
    *("acos", "asin", "ceil", "floor"),
)


def _calls() -> list[Call]:
    made = [Call(f"math:{name}", (given,), Type.DOUBLE) for name in _ONE for given in (_D, _F)]
    made += [Call(f"math:{name}", (_L,), Type.DOUBLE) for name in ("sin", "sqrt", "abs", "floor")]
    made += [
        Call(f"math:{name}", pair, Type.DOUBLE)
        for name in ("atan", "copySign", "max", "min", "power")
        for pair in ((_D, _E), (_F, _L))
    ]
    made += [Call("math:power", (_D, Const(value, Type.DOUBLE)), Type.DOUBLE) for value in (2, 0.5, 3, -1)]
    made += [Call("math:log", (_D, Const(value, Type.DOUBLE)), Type.DOUBLE) for value in (2, 0.5)]
    made += [
        Call("math:signum", (_D,), Type.INT),
        Call("math:round", (_D,), Type.LONG),
        Call("math:round", (_F,), Type.INT),
    ]
    made += [Call("math:getExponent", (one,), Type.INT) for one in (_D, _F, _I)]
    made += [Call(f"math:{name}", (_D,), Type.BOOL) for name in ("isNan", "isInfinite")]
    for one in (_D, _F, _I, _L):
        kinds = (Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.BOOL)
        made += [Call("convert", (one, Const(kind.value, Type.STRING)), kind) for kind in kinds]
        made += [
            Call(f"instanceOf{name}", (one,), Type.BOOL) for name in ("Double", "Float", "Integer", "Long", "String")
        ]
        made += [Call(name, given, one.type) for name in ("maximum", "minimum") for given in ((one,), (one, one))]
    return made


def _values() -> tuple[np.ndarray, ...]:
    numbers = np.random.default_rng(7)
    pairs = [(one, other) for one in _SPECIAL for other in _SPECIAL]
    wide = numbers.integers(-(2**63), 2**63 - 1, 1000).view(np.float64)
    usual = np.concatenate(
        [numbers.normal(size=1500) * 100.0, numbers.uniform(-1, 1, 500), np.round(numbers.uniform(0, 1000, 500), 2)]
    )
    one = np.concatenate([[p for p, _other in pairs], np.where(np.isnan(wide), 1.0, wide), usual])
    other = np.concatenate([[q for _one, q in pairs], numbers.permutation(one[len(pairs) :])])
    with np.errstate(all="ignore"):
        floats = one.astype(np.float32)
    ints = numbers.integers(-(2**31), 2**31, len(one)).astype(np.int32)
    longs = numbers.integers(-(2**63), 2**63 - 1, len(one))
    ints[:5], longs[:5] = (0, 1, -1, 2**31 - 1, -(2**31)), (0, 1, -1, 2**63 - 1, -(2**63))
    return one, other, floats, ints, longs


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (one != one and other != other) or struct.pack("d", one) == struct.pack("d", other)
    return one == other and type(one) is type(other)


def test_functions_of_numbers_give_in_loops_what_rows_give_to_the_last_bit():
    values, calls = _values(), _calls()
    ordinals = np.arange(len(values[0]))
    given = Stretch(tuple(Column(None, v) for v in values), ordinals, ordinals, ordinals)
    made = Computing(_TYPES, calls).widened(given).columns[len(_TYPES) :]
    listed = [v.tolist() for v in values]
    for call, column in zip(calls, made, strict=True):
        arguments = tuple(Argument(a.type, isinstance(a, Const), getattr(a, "value", None)) for a in call.args)
        function = default_registry().function(call.function).make(arguments, call.type)
        taken = [listed[a.position] if isinstance(a, Attr) else [a.value] * len(ordinals) for a in call.args]
        wanted = list(map(function, *taken))
        got = [None if null else value for value, null in zip(column.values().tolist(), column.nulls().tolist())]
        different = [(row, w, g) for *row, w, g in zip(*taken, wanted, got) if not _same(w, g)]
        assert not different, (call, different[:3])


# ---- whole queries ---------------------------------------------------------------------------------------------------

FAILING = {
    "null": "str:upper(k) as a, v",
    "an index": "str:charAt(str:concat(k, v), 1) as a, str:substr(default(k, 'x'), 1) as c",
    "a part": "str:split(k, 'a', 0) as a, k",
    "a condition in front": "ifThenElse(v > 1, str:upper(k), 'none') as a, ifThenElse(k is null, v, str:length(k)) as c",
    "the first null of a sum": "v + str:length(k) as a",
    "dates": "time:dateFormat(l, 'yyyy-MM-dd HH:mm:ss.SSS') as a, time:extract(l, 'SECOND') as c, time:dateAdd(l, v, 'DAY') as e",
    "dates of texts": "time:dateFormat(str:concat('2024-0', v, '-01'), 'yyyy', 'yyyy-MM-dd') as a, time:dayOfWeek('2024-02-01', 'yyyy-MM-dd') as c",
    "now": "time:currentTimestamp() as a, time:currentDate() as c, time:utcTimestamp('ss') as e, time:timestampInMilliseconds() as g",
    "now and text": "str:concat(time:currentTime(), k) as a, time:currentTimestamp(k) as c",
    "numbers in texts": "math:parseInt(k) as a, math:conv(convert(v, 'string'), 10, 2) as c",
    "a base": "math:log(d, f) as a, math:log(d, 3) as c",
    "a template": "str:fillTemplate('{{1}} of {{2}}', v, d) as a, str:fillTemplate(k, v) as c",
    "replacements": "str:replaceAll(str:concat(k, 'ab'), '(a)', '$1$1') as a, str:replaceFirst(k, 'a', '$2') as c, str:repeat('ab', v) as e",
    "all else": "str:equalsIgnoreCase(k, 'A') as a, str:contains('abc', k) as c, str:unhex(str:hex(default(k, 'q'))) as e, math:bin(v) as g, math:hex(d) as i",
    "zeros": "convert(d * (v - 2), 'string') as a, convert(f * (v - 2), 'string') as c, math:hex(d * (v - 2)) as e",
}


def _app(select: str, filters: str = "") -> str:
    return f"define stream S ({SCHEMA});\ndefine stream R (k string);\nfrom S{filters} select {select} insert into Out;"


def _checked(text: str, outputs: tuple[str, ...], sent: list[Message], parts: list[Cut]) -> None:
    made = Generated(text, outputs, ())
    plan = planned(made)
    assert islands(plan).columns, islands(plan).why
    sent = [Message(m.order, "S", m.events) for m in sent]
    same_as_rows(made, plan, sent, [], parts, seen=lambda run: (run.rows, run.failures))


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_on_rows_fails_on_columns_and_takes_its_chunk_along(name: str) -> None:
    @OF_ONE_APP
    @given(sent=messages, parts=cuts)
    def holds(sent: list[Message], parts: list[Cut]) -> None:
        _checked(_app(FAILING[name]), ("Out", "S"), sent, parts)

    holds()


@OF_ONE_APP
@given(sent=messages, parts=cuts)
def test_filters_that_fail_end_the_delivery_where_they_are_asked(sent: list[Message], parts: list[Cut]) -> None:
    _checked(
        _app("k, str:substr(k, 0, v) as a", "[v > 1][str:charAt(k, v - 2) == 'a' or b]"), ("Out", "S"), sent, parts
    )


@OF_ONE_APP
@given(sent=messages, parts=cuts)
def test_bools_of_functions_are_false_for_null_on_columns_too(sent: list[Message], parts: list[Cut]) -> None:
    items = "coalesce(b, b) as a, ifThenElse(v > 1, b, b) as c, math:isNan(d) as e, cast(b, 'bool') as g"
    around = (
        "coalesce(coalesce(b, b), true) as i, (cast(b, 'bool') == math:isInfinite(f)) as m, coalesce(b, b) is null as o"
    )
    _checked(_app(f"{items}, {around}"), ("Out", "S"), sent, parts)


BEFORE = {
    "a fault stream": f"@OnError(action='STREAM') define stream S ({SCHEMA}); from S select str:upper(k) as a insert into Out;",
    "a query behind": f"define stream S ({SCHEMA}); from S select str:upper(k) as a insert into Out; from S select v insert into Out2;",
    "a window": f"define stream S ({SCHEMA}); from S#window.length(2) select str:upper(k) as a, sum(v) as s insert into Out;",
    "having": f"define stream S ({SCHEMA}); from S select str:upper(k) as a, v having v > 1 insert into Out;",
}


@pytest.mark.parametrize("name", BEFORE)
def test_a_query_that_may_fail_is_on_rows_where_others_are_concerned(name: str) -> None:
    plan = planned(Generated(BEFORE[name], ("Out",), ()))
    first = plan.queries[0]
    assert islands(plan).queries[first.id].runs_on == "rows"
    assert "str:upper() fails where k is null" in islands(plan).queries[first.id].why


# ---- events that are not there ---------------------------------------------------------------------------------------

_X = "str:concat({}, 'x')"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("from every e1=R, e2=S*, e3=R[{k} == {e2.k}] select e1.v as v", False),
        ("from every e1=R -> e2=S<0:2> -> e3=R[{k} == {e2.k}] select e1.v as v", False),
        ("from every e1=R -> e2=S<1:2> -> e3=R[{k} == {e2[1].k}] select e1.v as v", False),
        ("from every e1=R, e2=R[{k} == {e2[last].k}]+, e3=S select e1.v as v", False),
        ("from every e1=R -> e2=S or e3=R -> e4=R[{k} == {e2.k}] select e1.v as v", False),
        ("from every e1=R -> e2=S<1:> -> e3=R[{k} == {e2.k} or {k} == {e1.k}] select e1.v as v", True),
        ("from every e1=R -> e2=S and e3=R -> e4=R[{k} == {e2.k}] select e1.v as v", True),
        ("from S#window.length(2) as e1 left outer join R#window.length(2) as e2 on e1.v == e2.v "
         "select sum(str:length({e2.k})) as v", False),
        ("from S#window.length(2) as e1 left outer join R#window.length(2) as e2 on e1.v == e2.v "
         "select sum(str:length({e1.k})) as v", True),
    ],
)  # fmt: skip
def test_what_is_computed_of_an_event_that_is_not_there_is_computed_of_nulls(text: str, columns: bool):
    """`str:concat(null, 'x')` is 'x': what is computed ahead of events does not tell it where there is no event."""
    for name in ("k", "e1.k", "e2.k", "e2[1].k", "e2[last].k"):
        text = text.replace(f"{{{name}}}", _X.format(name))
    streams = "".join(f"define stream {name} ({SCHEMA});\n" for name in "SR")
    made = Generated(f"{streams}{text} insert into Out1;", ("Out1",), ())
    plan = planned(made)
    assert islands(plan).columns is columns
    one = lambda k, v=0: (k, v, 0, 0.0, 0.0, False)  # noqa: E731
    sent = [
        Message(1, "R", ((0, one("a")), (0, one(None)), (0, one("b")), (0, one(None)))),
        Message(2, "S", ((0, one("a")), (0, one(None, 3)))),
        Message(3, "R", ((0, one("a")), (0, one(None)), (0, one("b")), (0, one(None)))),
        Message(4, "S", ((0, one("b")),)),
        Message(5, "R", ((0, one(None)), (0, one("b")))),
    ]
    rows = same_as_rows(made, plan, sent, [], on=MixedFeeding)
    assert len(rows["Out1"]) > 1
