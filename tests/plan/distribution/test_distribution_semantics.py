"""Distribution changes nothing: the partial apps of a generated app, joined by channels, give the same rows for each key in the same order."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from clusters import Cluster
from generated import GRID, LATER, Generated, Messages, apps, messages
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.plan.distribution import Topology, distribute
from nadi.runtime import RuntimeManager

REGISTRY = default_registry()
Told = dict[tuple[str, object], list[tuple[int, tuple[object, ...]]]]


def whole_rows(made: Generated, sent: Messages) -> Told:
    told: Told = defaultdict(list)
    manager = RuntimeManager()
    app = manager.create(made.text)
    for stream in made.outputs:
        app.on_stream(stream, lambda chunk, stream=stream: _note(told, stream, chunk))
    app.start()
    manager.advance(LATER)
    for steps, stream, k, v, times in sent:
        manager.advance(steps * GRID)
        app.send(stream, [(manager.now, (k, v))] * times)
    manager.advance(20 * GRID)
    return told


def cut_rows(topology: Topology, made: Generated, sent: Messages) -> Told:
    told: Told = defaultdict(list)
    cluster = Cluster(topology, made.outputs, lambda stream, chunk: _note(told, stream, chunk))
    cluster.manager.advance(LATER)
    for steps, stream, k, v, times in sent:
        cluster.manager.advance(steps * GRID)
        cluster.send(stream, *[(k, v)] * times)
    cluster.manager.advance(20 * GRID)
    return told


def _note(told: Told, stream: str, chunk: object) -> None:
    for event in chunk:
        told[stream, event.row[0]].append((event.ts, tuple(event.row)))


@settings(max_examples=30, deadline=None)
@given(made=apps(scripts=False), transport=st.sampled_from(["nats", "kafka"]), sent=messages)
def test_an_app_in_parts_gives_the_same_rows_for_each_key_in_order(made, transport, sent):
    try:
        topology = distribute(made.text, REGISTRY, connectors, transport=transport)
    except NadiError as refused:
        assume(not refused.condition.startswith("DIST_"))
        raise
    assert not [note for note in topology.notes if "two ways" in note]
    assert cut_rows(topology, made, sent) == whole_rows(made, sent)


# ---- what generated apps meet rarely -------------------------------------------------------------------------------

HEAD = """@source(type='http') define stream S (k string, v int);
@source(type='http') define stream R (k string, v int);
@sink(type='log') define stream M (k string, v int);
define table T (k string, v int);
define stream Out (k string, v int);
define stream Out2 (k string, v int);
"""
BY = "partition with ({keys}) begin {query} end;\n"
JOIN = "from S#window.length(3) join R#window.length(3) on S.k == R.k select S.k as k, S.v + R.v as v insert into Out;"
COUNT = "from {source} select k, convert(sum(v), 'int') as v insert into {to};"
RARE = {
    "a stream that several groups make, that one of these reads, and another one too": (
        "@dist(execGroup='a') from S select * insert into M;\n"
        "@dist(execGroup='b') from R[v > 1] select * insert into M;\n"
        "@dist(execGroup='b') from M#window.length(2) select k, convert(sum(v), 'int') as v insert into Out;\n"
        "@dist(execGroup='c', parallel='2') " + BY.format(keys="k of M", query=COUNT.format(source="M", to="Out2"))
    ),
    "streams that are divided into different numbers of parts elsewhere": (
        "@dist(execGroup='a', parallel='3') "
        + BY.format(keys="k of S, k of R", query=JOIN)
        + "@dist(execGroup='b', parallel='7') "
        + BY.format(keys="k of S", query=COUNT.format(source="S", to="Out2"))
    ),
    "two keys of a stream in a group": (
        "@dist(execGroup='a', parallel='4') "
        + BY.format(keys="k of S", query=COUNT.format(source="S", to="Out"))
        + "@dist(execGroup='a', parallel='4') "
        + BY.format(keys="v of S", query=COUNT.format(source="S", to="Out2"))
    ),
    "a table that queries change and look into in their order": (
        "@dist(execGroup='a', parallel='2') from S select * insert into M;\n"
        "@dist(execGroup='b') from M[k == T.k in T] select k, v insert into Out;\n"
        "@dist(execGroup='b') from M select k, v update or insert into T set T.v = v on T.k == k;\n"
        "@dist(execGroup='b') from M join T on M.k == T.k select M.k as k, T.v as v insert into Out2;\n"
    ),
    "groups that feed each other": (
        "@dist(execGroup='a', parallel='2') from S select * insert into M;\n"
        "@dist(execGroup='b', parallel='2') from M[v < 9] select k, v + 3 as v insert into S;\n"
        "@dist(execGroup='c') from M#window.length(3) select k, max(v) as v insert into Out;\n"
    ),
}


@pytest.mark.parametrize("transport", ["nats", "kafka"])
@pytest.mark.parametrize("case", RARE)
def test_what_generated_apps_meet_rarely(case, transport):
    made = Generated((HEAD,), (RARE[case],), ("S", "R"), ("Out", "Out2"))
    chosen = random.Random(7)
    fed = [
        (chosen.randint(1, 3), chosen.choice("SR"), chosen.choice("abcdefgh"), chosen.randrange(6), 1)
        for _ in range(80)
    ]
    whole = whole_rows(made, fed)
    assert whole
    assert cut_rows(distribute(made.text, REGISTRY, connectors, transport=transport), made, fed) == whole


def test_a_trigger_of_another_group_finds_the_clock_at_its_time():
    head = HEAD.replace(
        "define stream Out2",
        "define trigger Tick at every 300000 millisec;\ndefine stream Ticks (k string, v int);\ndefine stream Out2",
    )
    queries = (
        "from Tick select 't' as k, convert(triggered_time % 7, 'int') as v insert into Ticks;\n",
        "@dist(execGroup='g') partition with (k of S) begin from S#window.time(100002 millisec) left outer join Ticks#window.length(1) "
        "on S.v > Ticks.v select S.k as k, S.v as v insert all events into Out; end;\n",
    )
    made = Generated((head,), queries, ("S",), ("Out",))
    fed = [(1, "S", "a", v, 1) for v in [0] * 19 + [7]]
    whole = whole_rows(made, fed)
    assert cut_rows(distribute(made.text, REGISTRY, connectors), made, fed) == whole
