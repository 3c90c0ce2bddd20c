"""Apps and inputs that mean harm, or might as well: a clear error or steady service, never a crash or a hang."""

from __future__ import annotations

import gc

import pytest

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.kernel.keys import key_group
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.rows.events import CURRENT, Chunk, Event
from nadi.plan import plan_app

STREAM = "define stream S (k string, v int);\n"
PURGED = (
    STREAM
    + """@purge(enable='true', interval='1 sec', idle.period='1 sec')
partition with (k of S) begin
  from S#window.time(500 milliseconds) select k, sum(v) as x group by v insert into Sums;
  from every e1=S -> e2=S[v > e1.v] within 1 sec select e1.k as k, e2.v as x insert into Rises;
  from S select k, v as x output last every 300 milliseconds insert into Lasts;
end;
"""
)
RISING = (
    STREAM
    + """@purge(enable='true', interval='1 sec', idle.period='1 sec')
partition with (k of S) begin
  from every e1=S -> e2=S[v > e1.v] within 1 sec select e1.k as k, e2.v as x insert into Rises;
end;
"""
)


def kernel_of(text: str) -> RowsKernel:
    registry = default_registry()
    kernel = RowsKernel(plan_app(text, registry), registry)
    kernel.start(0)
    return kernel


def answers(kernel: RowsKernel, key: str, value: int, stream: str = "O") -> list[object]:
    heard: Chunk = []
    kernel.on_stream(stream, heard.extend)
    kernel.deliver("S", [Event(CURRENT, 1, (key, value))])
    return [e.row for e in heard]


def many_queries(count: int) -> str:
    return STREAM + "".join(f"from S[v == {i}] select k, v + {i} as v insert into O;\n" for i in range(count))


def test_an_app_of_a_thousand_queries_runs() -> None:
    assert answers(kernel_of(many_queries(1_000)), "a", 999) == [("a", 1998)]


@pytest.mark.slow
def test_an_app_of_ten_thousand_queries_runs() -> None:
    assert answers(kernel_of(many_queries(10_000)), "a", 9_999) == [("a", 19_998)]


def test_a_chain_of_two_thousand_queries_ends_with_a_named_failure_and_the_app_goes_on() -> None:
    text = STREAM.replace("S", "S0") + "".join(f"from S{i} select k, v insert into S{i + 1};\n" for i in range(2_000))
    kernel = kernel_of(text)
    for _ in range(2):
        kernel.deliver("S0", [Event(CURRENT, 1, ("a", 1))])
        assert [f.condition for f in kernel.delivery.take_failures()] == ["NESTED_TOO_DEEP"]


def test_a_query_that_feeds_itself_ends_with_a_named_failure_and_the_app_goes_on() -> None:
    kernel = kernel_of(STREAM + "from S select k, v + 1 as v insert into S; from S select k, v insert into O;")
    for _ in range(2):
        kernel.deliver("S", [Event(CURRENT, 1, ("a", 1))])
        assert {f.condition for f in kernel.delivery.take_failures()} == {"NESTED_TOO_DEEP"}


DEEP = {
    "brackets": ("(" * 2_000 + "v" + ")" * 2_000),
    "sums in brackets": ("(" * 2_000 + "v" + " + 1)" * 2_000),
    "not": ("not " * 2_000 + "(v > 1)"),
    "functions": ("math:abs(" * 2_000 + "v" + ")" * 2_000),
    "choices": ("ifThenElse(v > 1, v, " * 2_000 + "v" + ")" * 2_000),
    "brackets that stay open": ("(" * 2_000),
}


@pytest.mark.parametrize("name", DEEP)
def test_an_expression_nested_two_thousand_deep_is_refused_by_name(name: str) -> None:
    with pytest.raises(NadiError) as refused:
        kernel_of(f"{STREAM}from S select {DEEP[name]} as x insert into O;")
    assert refused.value.condition == "TOO_DEEP"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(" * 95 + "v" + " + 1)" * 95, 100),
        ("v + (" * 95 + "v" + ")" * 95, 480),
        ("ifThenElse(v > 100, v, " * 95 + "v + 1" + ")" * 95, 6),
        ("coalesce(v, " * 95 + "v" + ")" * 95, 5),
        ("v" + " + v" * 5_000, 25_005),
    ],
)
def test_what_is_just_not_too_deep_or_only_long_is_computed(expression: str, value: int) -> None:
    assert answers(kernel_of(f"{STREAM}from S select {expression} as x insert into O;"), "a", 5) == [(value,)]


def purge(text: str, keys: int, per_second: int, every: int = 1) -> tuple[list[int], list[int]]:
    """Feeds so many keys, each with two events, so many in a second of virtual time; -> entries of state and objects of Python at the end of each
    second, or of one in `every`, but the first few. What was there before does not count."""
    gc.collect()
    gc.freeze()
    try:
        return _purge(kernel_of(text), keys, per_second, every)
    finally:
        gc.unfreeze()


def _purge(kernel: RowsKernel, keys: int, per_second: int, every: int) -> tuple[list[int], list[int]]:
    entries, objects = [], []
    for second in range(keys // per_second):
        for number in range(per_second):
            kernel.advance(1_000 * second + 1_000 * number // per_second)
            ts, key = kernel.flow.now, f"key {second * per_second + number}"
            kernel.deliver("S", [Event(CURRENT, ts, (key, 1)), Event(CURRENT, ts, (key, 2))])
        kernel.delta()
        if second >= 3 and second % every == 0:
            gc.collect()
            entries.append(sum(kernel.size().values()))
            objects.append(len(gc.get_objects()))
    assert not kernel.delivery.failures
    return entries, objects


def is_steady(sizes: list[int]) -> bool:
    return max(sizes) < 1.3 * sizes[0]  # what was made for keys that are gone is swept now and then


def test_keys_without_end_leave_nothing_behind_where_they_are_purged() -> None:
    entries, objects = purge(PURGED, 3_000, 300)
    assert is_steady(entries)
    assert is_steady(objects)


@pytest.mark.slow
def test_three_hundred_thousand_keys_leave_nothing_behind_where_they_are_purged() -> None:
    entries, objects = purge(RISING, 300_000, 5_000)
    assert is_steady(entries)
    assert is_steady(objects)


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_ten_million_keys_leave_nothing_behind_where_they_are_purged() -> None:
    entries, objects = purge(RISING, 10_000_000, 10_000, every=20)
    assert len(entries) == 49
    assert is_steady(entries)
    assert is_steady(objects)


def test_purged_keys_begin_anew() -> None:
    kernel = kernel_of(PURGED)
    heard: Chunk = []
    kernel.on_stream("Rises", heard.extend)
    kernel.deliver("S", [Event(CURRENT, 0, ("a", 1))])
    kernel.advance(5_000)
    assert not any("a" in element.flow_keys() for element in kernel.flow.store._elements.values())
    kernel.deliver("S", [Event(CURRENT, 5_000, ("a", 2))])
    assert heard == []
    kernel.deliver("S", [Event(CURRENT, 5_000, ("a", 3))])
    assert [e.row for e in heard] == [("a", 3)]


@pytest.mark.parametrize("key", ["\0", "\0a", "\x005", "\x00127", "", "\0\0"])
def test_a_key_may_be_any_text_and_its_state_is_that_of_its_own_key_group(key: str) -> None:
    kernel = kernel_of(RISING)
    kernel.flow.group = key_group(key)
    assert answers(kernel, key, 1, "Rises") == []
    saved = list(kernel.dump())
    assert {s.group for s in saved if s.element in ("unnamed_1/pattern", "partition_1/keys")} == {key_group(key)}
    again = kernel_of(RISING)
    again.load(saved)
    again.flow.group = key_group(key)
    assert answers(again, key, 2, "Rises") == [(key, 2)]
