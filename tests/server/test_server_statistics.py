"""`/statistics`, `/siddhi-apps/statistics`, `/metrics`: bodies and codes of the contract; reporters that come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from servers import asking

from nadi.io.httpserver import HttpServer
from nadi.metrics import AppProgress
from nadi.metrics.filters import Filter, Shown
from nadi.metrics.levels import Level
from nadi.metrics.measured import Key, Measured
from nadi.metrics.names import MetricName
from nadi.metrics.registry import Registry, Snapshot
from nadi.metrics.reporters.exposition import exposition
from nadi.metrics.reporters.poll import Polling
from nadi.metrics.system import NodeGauges
from nadi.pipeline.node import AppText, NodeOptions
from nadi.server.deployer import ACTIVE, INACTIVE, AppStatus
from nadi.server.rest.application import make_routes
from nadi.server.rest.statistics import app_routes, node_routes
from nadi.server.statistics import Statistics

TEXT = "@App:name('{name}') {more} define stream In (a int); @info(name='q') from In select a insert into Out;"


class KnownApps:
    """What the routes ask of the apps."""

    def __init__(self, **states: str) -> None:
        self.states = states

    def statuses(self) -> list[AppStatus]:
        return [AppStatus(name, "", state, since=1_000) for name, state in sorted(self.states.items())]

    def status(self, name: str) -> AppStatus | None:
        return next((s for s in self.statuses() if s.name == name), None)


class Told:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.polls: list[Snapshot] = []
        self.closed = 0

    def report(self, snapshot: Snapshot) -> None:
        self.polls.append(snapshot)

    def close(self) -> None:
        self.closed += 1


class Server:
    """The routes with apps A (active) and B (inactive)."""

    def __init__(self, shown: Shown | None = None) -> None:
        self.apps = KnownApps(A=ACTIVE, B=INACTIVE)
        self.told = Told()
        self.options = NodeOptions()

        def starts(collect: Callable[[], Snapshot]) -> Polling:
            return Polling("told", self.told, Filter(), 3_600, collect)

        self.statistics = Statistics(self.options, Registry(), NodeGauges(), (starts,), shown=shown or Shown())
        for name in self.apps.states:
            self.statistics.enter(AppText(TEXT.format(name=name, more="")))
        self.statistics.start(lambda name: self.apps.status(name) is not None)
        apps: Any = self.apps
        routers = [app_routes(apps, self.statistics), node_routes(self.statistics, lambda: 1_000)]
        self.server = HttpServer(make_routes("test", routers), "127.0.0.1", 0, None)
        self.server.start()
        self.client = asking.client(base_url=f"http://127.0.0.1:{self.server.port}")

    def close(self) -> None:
        self.statistics.close()
        self.client.close()
        self.server.stop()

    def ask(self, method: str, path: str, **given: Any) -> tuple[int, Any]:
        answer = self.client.request(method, path, **given)
        return answer.status_code, answer.json()

    def feed(self, app: str, events: int) -> None:
        measured = Measured({Key("Sources", "In", "http"): events, Key("Streams", "In"): events})
        self.statistics.note(AppProgress(app, "running", events_in={"In": events}, measured=measured))

    def counted(self, app: str = "A", kind: str = "Sources.In.http") -> int | None:
        found = self.statistics.snapshot().by_name()
        meter: Any = found.get(f"org.wso2.siddhi.SiddhiApps.{app}.Siddhi.{kind}.throughput")
        return None if meter is None else int(meter.count)


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def test_metrics_of_the_node_are_told_whatever_the_levels_of_apps_are(server: Server):
    name = MetricName.of_node("org.wso2.ha.sending.throughput")
    server.statistics.feed(lambda registry, now: registry.mark(name, 3, now))
    meter: Any = server.statistics.snapshot().by_name()[name.full]
    assert meter.count == 3
    assert b"# TYPE org_wso2_ha_sending_throughput" in exposition(server.statistics.snapshot())


@pytest.mark.parametrize(
    ("levels", "there"),
    [
        ({}, (True, True)),
        ({"org.wso2.siddhi": "OFF"}, (False, False)),
        ({"org.wso2.siddhi.SiddhiApps.A": "OFF"}, (False, True)),
        ({"org.wso2.siddhi": "OFF", "org.wso2.siddhi.SiddhiApps.B": "INFO"}, (False, True)),
    ],
)
def test_levels_of_names_say_which_metrics_of_apps_there_are(levels: dict[str, str], there: tuple[bool, bool]):
    server = Server(Shown(levels=levels))
    try:
        for app, wanted in zip("AB", there, strict=True):
            server.statistics.switch(app, Level.DETAIL)
            server.feed(app, 5)
            server.statistics.asked(app, 0.5)
            told = (
                f"org.wso2.siddhi.SiddhiApps.{app}.Siddhi.StoreQueries.query.latency"
                in server.statistics.snapshot().by_name()
            )
            assert (server.counted(app), told) == ((5, True) if wanted else (None, False))
    finally:
        server.close()


def test_a_root_level_off_leaves_the_names_that_have_a_level_of_their_own():
    server = Server(Shown("OFF", {"org.wso2.siddhi.SiddhiApps.A.Siddhi.Sources": "INFO"}))
    try:
        server.statistics.feed(lambda registry, now: registry.mark(MetricName.of_node("org.wso2.ha.x"), 3, now))
        server.statistics.switch("A", Level.DETAIL)
        server.feed("A", 5)
        told = {name for name in server.statistics.snapshot().by_name() if name.startswith("org.")}
        assert told == {"org.wso2.siddhi.SiddhiApps.A.Siddhi.Sources.In.http.throughput"}
    finally:
        server.close()


def test_all_apps_are_listed_or_those_that_are_active_or_those_that_are_not(server: Server):
    status, rows = server.ask("GET", "/siddhi-apps/statistics")
    assert status == 200
    assert [(row["appName"], row["status"], row["isStatEnabled"]) for row in rows] == [
        ("A", "active", "OFF"),
        ("B", "inactive", "OFF"),
    ]
    assert all(row["age"] > 1_000_000 for row in rows)
    for asked, names in (("true", ["A"]), ("false", ["B"]), ("", ["A", "B"])):
        _, rows = server.ask("GET", f"/siddhi-apps/statistics?isActive={asked}")
        assert [row["appName"] for row in rows] == names
    server.apps.states = {}
    status, body = server.ask("GET", "/siddhi-apps/statistics")
    assert (status, body["type"]) == (404, "not-found")


@pytest.mark.parametrize(
    ("body", "level"),
    [
        ({"statsEnable": True}, "DETAIL"),
        ({"enabledStatLevel": "BASIC"}, "BASIC"),
        ({"enabledStatLevel": "detail"}, "DETAIL"),
        ({"statsEnable": True, "enabledStatLevel": "BASIC"}, "BASIC"),
        ({"statsEnable": False, "enabledStatLevel": "OFF"}, "OFF"),
        ({"statsEnable": "true"}, "DETAIL"),
    ],
)
def test_a_level_is_given_by_either_key(server: Server, body: dict[str, Any], level: str):
    for path in ("/siddhi-apps/A/statistics", "/siddhi-apps/statistics"):
        for _ in range(2):  # also where nothing changes
            status, said = server.ask("PUT", path, json=body)
            assert (status, said["type"]) == (200, "success")
    assert server.statistics.level("A").name == server.statistics.level("B").name == level
    assert server.options.levels.of("A").name == level


def test_what_is_no_level_is_refused_and_so_is_an_app_that_is_not_there(server: Server):
    for body in ({}, {"enabledStatLevel": "ALL"}, {"statsEnable": None}):
        for path in ("/siddhi-apps/A/statistics", "/siddhi-apps/statistics", "/statistics"):
            assert server.ask("PUT", path, json=body)[0] == 400
    status, body = server.ask("PUT", "/siddhi-apps/No/statistics", json={"statsEnable": True})
    assert (status, body["type"]) == (404, "not-found")


def test_a_level_is_switched_while_the_app_runs_and_counts_go_on(server: Server):
    server.feed("A", 5)
    assert server.counted() is None
    server.ask("PUT", "/siddhi-apps/A/statistics", json={"enabledStatLevel": "BASIC"})
    server.feed("A", 5)
    assert (server.counted(), server.counted(kind="Streams.In")) == (5, None)
    server.ask("PUT", "/siddhi-apps/A/statistics", json={"enabledStatLevel": "DETAIL"})
    server.feed("A", 5)
    assert (server.counted(), server.counted(kind="Streams.In")) == (10, 10)
    server.ask("PUT", "/siddhi-apps/A/statistics", json={"enabledStatLevel": "OFF"})
    assert server.counted() is None
    assert server.counted("B") is None


def test_the_node_tells_how_it_is_with_the_keys_of_the_contract(server: Server):
    status, body = server.ask("GET", "/statistics")
    assert status == 200
    assert body.keys() == {
        *("workerMetrics", "runningStatus", "isStatsEnabled", "clusterID", "lastSyncTime"),
        *("lastSnapshotTime", "osName", "isInSync", "message"),
    }
    assert body["workerMetrics"].keys() == {"processCPU", "systemCPU", "loadAverage", "memoryUsage"}
    assert (body["clusterID"], body["lastSyncTime"], body["osName"]) == ("Single Node Deployments", "n/a", "other")
    assert body["lastSnapshotTime"] == "Thu, 01 Jan 1970 00:00:01 UTC"


def test_metrics_of_the_node_are_switched_with_those_of_all_apps_and_its_reporters(server: Server):
    said = [server.ask("PUT", "/statistics", json={"statsEnable": on}) for on in (True, False, False)]
    assert [body for _, body in said] == [
        {"code": 4, "type": "ok", "message": "Metrics are enabled already."},
        {"code": 4, "type": "ok", "message": "Successfully disabled the metrics."},
        {"code": 4, "type": "ok", "message": "Metrics are disabled already."},
    ]
    assert server.told.closed == 1  # it has told once more, and ended
    assert len(server.told.polls) == 1
    assert server.ask("GET", "/statistics")[1]["message"] == "Metrics are disabled."
    assert server.options.levels.of("A") is Level.OFF
    said = server.ask("PUT", "/statistics", json={"statsEnable": True})
    assert said[1]["message"] == "Successfully enabled the metrics."
    assert {server.statistics.level(name) for name in "AB"} == {Level.DETAIL}
    server.statistics.close()
    assert server.told.closed == 2


def test_an_app_begins_with_what_its_text_says_and_keeps_what_it_was_given(server: Server):
    text = AppText(TEXT.format(name="A", more="@app:statistics(enable='true', include='*.Sources.*')"))
    server.statistics.enter(text)
    assert server.statistics.level("A") is Level.BASIC
    server.statistics.switch("A", Level.DETAIL)
    server.feed("A", 5)
    server.statistics.enter(text)  # it is started again
    assert server.statistics.level("A") is Level.DETAIL
    assert (server.counted(), server.counted(kind="Streams.In")) == (5, None)
    server.statistics.enter(AppText(TEXT.format(name="A", more="")))
    assert server.statistics.level("A") is Level.OFF
    assert server.counted() is None


def test_an_app_that_has_gone_is_forgotten(server: Server):
    server.statistics.switch("A", Level.DETAIL)
    server.feed("A", 5)
    assert server.counted() == 5
    assert [p.events_in for p in server.statistics.last_minutes("A")] == [0]
    del server.apps.states["A"]
    assert server.counted() is None
    assert server.statistics.last_minutes("A") == []
    assert server.statistics.level("A") is Level.OFF


def test_prometheus_reads_all_of_it(server: Server):
    server.statistics.switch("A", Level.BASIC)
    server.feed("A", 5)
    answer = server.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'nadi_events_total{app="A",element="In",function="http",type="Sources"} 5.0' in answer.text
    assert "jvm_os_system_load_average" in answer.text
