"""From an app and what is told of it to metrics with the names of the reference."""

from __future__ import annotations

import pytest

from nadi.metrics import AppProgress
from nadi.metrics.annotation import statistics_of
from nadi.metrics.appmeters import AppMeters
from nadi.metrics.lastminutes import LastMinutes
from nadi.metrics.levels import Level, Levels
from nadi.metrics.measured import MOST, Key, Measured, Tally
from nadi.metrics.registry import Registry
from nadi.metrics.reservoirs import DecayingReservoir
from nadi.pipeline import engine

APP = """@App:name('Orders') {statistics}
@source(type='http', @map(type='json')) define stream In (symbol string, volume long);
define table Last (symbol string, volume long);
@info(name='sums') from In#window.length(5) select symbol, sum(volume) as total group by symbol insert into Out;
from In select symbol, volume update or insert into Last on Last.symbol == symbol;
"""
PREFIX = "org.wso2.siddhi.SiddhiApps.Orders.Siddhi."


def app_of(statistics: str = ""):
    return engine.plan_app(APP.format(statistics=statistics))


def progress(**more) -> AppProgress:
    measured = Measured(
        {Key("Sources", "In", "http"): 10, Key("Streams", "In"): 10, Key("Inputs", "In"): 2},
        {Key("Queries", "sums"): ((0.5, 10),), Key("Tables", "Last", "updateOrInsert"): ((0.1, 4),)},
        ((20.0, 10),),
    )
    entries = {"sums/window": 5, "sums/selector": 3, "Last/table": 8, "app/clock": 0}
    told = {"entries": entries, "state_bytes": 1_600, "batches": 7, "measured": measured, "batch_ms": {"addBatch": 9}}
    return AppProgress("Orders", "running", **{**told, "lag": {"In": 3}, **more})


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("", Level.OFF),
        ("@app:statistics", Level.BASIC),
        ("@App:statistics('true')", Level.BASIC),
        ("@app:Statistics('false')", Level.OFF),
        ("@app:statistics(enable='true', include='*.Sources.*')", Level.BASIC),
        ("@app:statistics(enable='false')", Level.OFF),
        ("@app:statistics(reporter='console', interval='5')", Level.BASIC),
    ],
)
def test_the_annotation_says_what_is_measured_from_the_start(text: str, level: Level):
    found = statistics_of(app_of(text).annotations)
    assert found.level is level
    assert len(found.notices) == (2 if "reporter" in text else 0)


def test_metrics_have_the_names_of_the_reference_and_appear_at_their_level():
    registry = Registry(lambda now: DecayingReservoir(now, seed=1))
    meters = AppMeters(app_of(), lambda _name: True, registry)
    meters.take(progress(), Level.DETAIL, 0.0)
    meters.take(progress(batches=8), Level.OFF, 0.5)
    meters.take(progress(batches=10), Level.DETAIL, 1.0)
    basic = registry.snapshot(5, 1.0, lambda name: name.level <= Level.BASIC).by_name()
    detail = registry.snapshot(5, 1.0, lambda name: name.level <= Level.DETAIL).by_name()
    assert registry.snapshot(5, 1.0, lambda name: name.level <= Level.OFF).values == ()
    assert {name.removeprefix(PREFIX) for name in basic} == {
        "Sources.In.http.throughput",
        "Tables.Last.updateOrInsert.latency",
        "Tables.Last.memory",
        "Queries.sums.memory",
        "Queries.query_2.memory",
        "App.events.latency",
        "App.cuts.throughput",
        "App.state.size",
        "App.errors.count",
        "App.refused.count",
        "App.setAside.count",
        "App.restarts.count",
        "App.batch.addBatch.duration",
        "Inputs.In.lag",
        "Inputs.In.late",
    }
    assert {name.removeprefix(PREFIX) for name in detail.keys() - basic.keys()} == {
        "Streams.In.throughput",
        "Queries.sums.latency",
    }
    assert basic[PREFIX + "Sources.In.http.throughput"].count == 20
    assert basic[PREFIX + "Tables.Last.memory"] == 800
    assert basic[PREFIX + "Queries.sums.memory"] == 800
    assert basic[PREFIX + "App.cuts.throughput"].count == 2
    assert basic[PREFIX + "App.events.latency"].lengths.mean == pytest.approx(20.0)


def test_an_app_has_the_metrics_that_it_includes_and_no_others():
    registry = Registry()
    statistics = statistics_of(app_of("@app:statistics(include='*.Sources.*.throughput, *memory')").annotations)
    AppMeters(app_of(), statistics.includes, registry).take(progress(), Level.DETAIL, 0.0)
    found = registry.snapshot(5, 1.0, lambda name: True).by_name()
    assert {name.removeprefix(PREFIX) for name in found} == {
        "Sources.In.http.throughput",
        "Tables.Last.memory",
        "Queries.sums.memory",
        "Queries.query_2.memory",
    }


def test_a_tally_adds_up_what_cuts_tell_and_is_bounded():
    tally = Tally()
    for i in range(3 * MOST):
        told = {"marks": {"Streams//In": 2}, "times": {"Queries//q": [3_000_000 * (i + 1), 3]}, "orders": [[1_000, 2]]}
        tally.add([told, {}], 1_000 + i)
    found = tally.take()
    assert found.marks == {Key("Streams", "In"): 6 * MOST}
    for pairs, each in ((found.times[Key("Queries", "q")], 3), (found.delays, 2)):
        assert len(pairs) == MOST
        assert sum(n for _, n in pairs) == each * 3 * MOST
    assert sum(ms * n for ms, n in found.delays) == pytest.approx(2 * sum(range(3 * MOST)))
    assert tally.take() == Measured()


def test_a_muted_node_measures_nothing_and_remembers_what_apps_were_given():
    levels = Levels()
    assert levels.set("A", Level.DETAIL)
    assert not levels.set("A", Level.DETAIL)
    levels.mute(True)
    assert (levels.of("A"), levels.given("A")) == (Level.OFF, Level.DETAIL)
    levels.mute(False)
    assert (levels.of("A"), levels.of("B")) == (Level.DETAIL, Level.OFF)


def test_the_last_minutes_have_a_point_for_each_second():
    minutes = LastMinutes(seconds=10)
    for at, total in ((100, 50), (101, 60), (101, 65), (104, 70)):
        minutes.note(AppProgress("A", events_in={"In": total}, batch_ms={"triggerExecution": 7}, state_bytes=at), at)
    points = minutes.of("A", 106)
    assert [p.at for p in points] == list(range(100, 107))
    assert [p.events_in for p in points] == [0, 15, 0, 0, 5, 0, 0]  # the first total is of before
    assert [p.latency for p in points] == [0.0, 7.0, 0.0, 0.0, 7.0, 0.0, 0.0]
    assert [p.state_bytes for p in points] == [100, 101, 101, 101, 104, 104, 104]
    assert len(minutes.of("A", 112)) == 10
    assert minutes.of("B", 106) == []
