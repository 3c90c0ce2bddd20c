"""Feeds: their pace on a clock that stands still, apps that they wait for, and when simulations are active."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from simulation_build import STOCK, WITHIN, Client, FakeTarget, FakeTargets, StillClock, chance, config, simulator

from nadi.server.simulation import targets as module
from nadi.server.simulation.events import Event
from nadi.server.simulation.feed import Feed
from nadi.server.simulation.targets import AppOutlet


@pytest.fixture
def app() -> FakeTarget:
    return FakeTarget(In=STOCK)


def run(client: Client, **properties: object) -> Feed:
    assert client.code("POST", "/feed", config(**properties)) == 201
    assert client.code("POST", "/feed/feed?action=run") == 200
    found = client.simulator.simulations._known["feed"].feed
    assert found is not None
    return found


def ended(feed: Feed) -> str:
    feed._thread.join(WITHIN)
    return feed.status


def test_events_come_at_the_pace_of_the_simulation(client: Client, app: FakeTarget, clock: StillClock):
    feed = run(client, timeInterval=2_000, noOfEvents=3, startTimestamp=100)
    clock.settle()
    assert [stamp for _, stamp, _ in app.sent] == [100]
    clock.advance(1.9)
    clock.settle()
    assert len(app.sent) == 1
    clock.advance(0.1)
    clock.settle()
    assert [stamp for _, stamp, _ in app.sent] == [100, 1_100]  # their own times are not those at which they are sent
    clock.advance(2.0)
    clock.settle()
    clock.advance(2.0)
    assert ended(feed) == "STOP"
    assert feed.sent == len(app.sent) == 3


def test_a_fast_feed_writes_twenty_times_a_second(client: Client, app: FakeTarget, clock: StillClock):
    run(client, timeInterval=1)
    clock.settle()
    for _ in range(20):
        clock.advance(0.05)
        clock.settle()
    assert 990 <= len(app.sent) <= 1_001
    assert app.calls == 21


def test_a_paused_feed_sends_nothing_and_does_not_make_up_for_it(client: Client, app: FakeTarget, clock: StillClock):
    run(client, timeInterval=1_000)
    clock.settle()
    client.code("POST", "/feed/feed?action=pause")
    clock.settle()
    known = len(app.sent)
    clock.advance(100.0)
    clock.settle()
    assert len(app.sent) == known
    client.code("POST", "/feed/feed?action=resume")
    clock.settle()
    assert len(app.sent) == known + 1


def test_without_an_interval_a_feed_waits_for_the_app_and_is_woken_when_that_has_taken_what_was_sent(
    client: Client, app: FakeTarget, clock: StillClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "WAITING", 5_000)
    app.holds = True
    feed = run(client, timeInterval=0, noOfEvents=12_500)
    app.until(lambda: len(app.sent) == 5_000)
    clock.settle()
    assert (feed.status, len(app.sent)) == ("RUN", 5_000)
    app.take()
    app.until(lambda: len(app.sent) == 10_000)
    clock.settle()
    app.take()
    app.until(lambda: len(app.sent) == 12_500)
    clock.ring()
    app.take()
    assert ended(feed) == "STOP"


def test_a_feed_waits_while_its_app_is_updated_and_goes_on(
    client: Client, app: FakeTarget, targets: FakeTargets, clock: StillClock
):
    feed = run(client, timeInterval=1_000)
    clock.settle()
    targets.starting.add("Stocks")
    client.simulator.wake()
    clock.advance(5.0)
    clock.settle()
    assert (feed.status, len(app.sent)) == ("RUN", 1)
    targets.starting.clear()
    client.simulator.wake()
    app.until(lambda: len(app.sent) > 1)
    assert feed.status == "RUN"


def test_a_simulation_becomes_inactive_with_its_app_and_active_again_with_it(
    client: Client, app: FakeTarget, targets: FakeTargets, clock: StillClock
):
    feed = run(client, timeInterval=1_000)
    clock.settle()
    del targets.apps["Stocks"]
    client.simulator.wake()
    assert ended(feed) == "STOP"
    found = until(client, "inActiveSimulations")
    assert "no active Siddhi App 'Stocks'" in found["exceptionReason"]
    targets.apps["Stocks"] = app
    client.simulator.wake()
    assert "exceptionReason" not in until(client, "activeSimulations")


def test_a_file_that_comes_makes_its_simulation_active_and_one_that_goes_inactive(client: Client):
    source = {"simulationType": "CSV_SIMULATION", "siddhiAppName": "Stocks", "streamName": "In", "fileName": "a.csv"}
    client.ask("POST", "/feed", config("feed", source))
    assert "no file 'a.csv'" in until(client, "inActiveSimulations")["exceptionReason"]
    client.upload("POST", "/files", "a.csv")
    until(client, "activeSimulations")
    client.code("DELETE", "/files/a.csv")
    until(client, "inActiveSimulations")


def until(client: Client, key: str) -> dict[str, str]:
    """The only simulation, once it is listed there."""
    pause = threading.Event()
    for _ in range(3_000):
        found = client.message("/feed")[key]
        if found:
            only: dict[str, str] = found[0]
            return only
        pause.wait(0.01)
    raise AssertionError("too late")


def test_a_feed_that_ran_when_the_worker_ended_is_stopped_after_the_next_start(
    tmp_path: Path, targets: FakeTargets, clock: StillClock
):
    first = Client(simulator(tmp_path, targets, lambda: clock))
    run(first, timeInterval=1_000)
    clock.settle()
    again = Client(simulator(tmp_path, targets))  # as after kill -9: nobody has closed the first
    assert again.ask("GET", "/feed/feed/status").json()["message"] == "STOP"
    again.simulator.close()
    first.simulator.close()


def test_a_file_of_a_simulation_that_cannot_be_read_is_inactive_and_stops_nobody(tmp_path: Path, targets: FakeTargets):
    folder = tmp_path / "simulation-configs"
    folder.mkdir()
    (folder / "broken.json").write_text("{")
    (folder / "other.json").write_text(json.dumps(config("name")))
    (folder / "good.json").write_text(json.dumps(config("good")))
    client = Client(simulator(tmp_path, targets))
    until(client, "activeSimulations")
    inactive = client.message("/feed")["inActiveSimulations"]
    assert [each["properties"]["simulationName"] for each in inactive] == ["broken", "other"]
    assert client.code("POST", "/feed/broken?action=run") == 403
    assert client.code("POST", "/feed", config("broken")) == 201
    assert client.code("DELETE", "/feed/other") == 200
    client.simulator.close()


def test_events_for_several_apps_go_to_each(tmp_path: Path, targets: FakeTargets, app: FakeTarget):
    other = targets.apps["Bonds"] = FakeTarget(In=STOCK)
    client = Client(simulator(tmp_path, targets))
    wanted = config("feed", chance(), chance("Bonds"), timeInterval=0, noOfEvents=50, startTimestamp=1)
    client.ask("POST", "/feed", wanted)
    client.code("POST", "/feed/feed?action=run")
    app.until(lambda: len(app.sent) == 25)
    other.until(lambda: len(other.sent) == 25)
    assert [stamp for _, stamp, _ in app.sent] == [1 + 1_000 * n for n in range(25)]
    client.simulator.close()


def test_a_feed_that_waits_for_what_does_not_come_back_is_about_to_stop(targets: FakeTargets, clock: StillClock):
    silent = threading.Event()

    @contextmanager
    def events() -> Iterator[Iterator[Event]]:
        silent.wait(60)
        yield iter(())

    feed = Feed("feed", events, AppOutlet(targets, ["Stocks"], clock.ring), 1.0, clock)
    feed.start()
    feed.stop(0.0)
    assert feed.status == "PENDING_STOP"
    silent.set()
    assert ended(feed) == "STOP"
