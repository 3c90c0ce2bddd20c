from __future__ import annotations

from dataclasses import replace

from nadi.cluster.contract import Seen
from nadi.cluster.overview import ManagerView, overview_of
from nadi.cluster.rows import (
    Actual,
    App,
    Beat,
    Failure,
    Lease,
    ManagerRow,
    Part,
    Placement,
    Row,
    Waiting,
    WorkerRow,
    key_of,
)

LEASE = Lease("sp", "m1", "i1", "host:1", 7, 900, 1_100)
PART = Part("A-g-1", "A", "A-g", "d1", "text", False, 1.0)
WORKER = WorkerRow("w1", "host:3", "i3", True, False, False, 0)
ROWS: tuple[Row, ...] = (
    LEASE,
    ManagerRow("m1", "host:1", "i1", False, 950),
    ManagerRow("m2", "host:2", "i2", False, 960),
    WORKER,
    Beat("w1", 940, 0.5, None, 0.2),
    App("A", 3, "d", "app A"),
    PART,
    Placement("A-g-1", "w1", 4, "d1", True),
    Actual("A-g-1", "w1", 4, "failed", "no room"),
    Failure("A-g-1", 2, 4, "no room"),
)


def seen(*rows: Row) -> Seen:
    return Seen(1_000, {key_of(row): row for row in rows})


def test_an_overview_says_who_leads_while_the_lease_lasts() -> None:
    found = overview_of(seen(*ROWS))
    assert found.token == 7
    assert found.managers == (ManagerView("m1", "host:1", True, 950), ManagerView("m2", "host:2", False, 960))
    late = overview_of(seen(*ROWS, replace(LEASE, expires=1_000)))
    assert not any(manager.leads for manager in late.managers)


def test_an_overview_says_what_runs_where() -> None:
    app = overview_of(seen(*ROWS)).app("A")
    assert app is not None
    (instance,) = app.instances
    assert (instance.worker, instance.address, instance.epoch) == ("w1", "host:3", 4)
    assert (instance.state, instance.reason, instance.failures) == ("failed", "no room", 2)


def test_what_was_said_of_an_earlier_epoch_is_not_said_of_this_one() -> None:
    app = overview_of(seen(*ROWS, Placement("A-g-1", "w1", 5, "d1", True))).app("A")
    assert app is not None
    assert (app.instances[0].state, app.instances[0].reason) == ("ordered", "")


RUNS = Actual("A-g-1", "w1", 4, "running", "")


def test_an_app_is_active_while_all_of_it_runs_where_and_with_what_it_should() -> None:
    def app(*rows: Row) -> tuple[bool, str]:
        found = overview_of(seen(*ROWS[:-2], *rows)).app("A")
        assert found is not None
        return found.active, found.reason

    assert app(RUNS) == (True, "")
    assert app() == (False, "starting: A-g-1")
    assert app(replace(RUNS, epoch=3)) == (False, "starting: A-g-1")
    assert app(replace(RUNS, state="stopping")) == (False, "starting: A-g-1")
    assert app(RUNS, Placement("A-g-1", "w1", 4, "d0", True)) == (False, "starting: A-g-1"), "the text is an old one"
    assert app(RUNS, Placement("A-g-1", "w1", 4, "d1", False)) == (False, "starting: A-g-1"), "it is to stop"
    assert app(Failure("A-g-1", 2, 4, "no room")) == (False, "A-g-1: no room")
    assert app(RUNS, Waiting("A", "no worker is there")) == (False, "no worker is there")


def test_an_app_that_waits_says_why() -> None:
    app = overview_of(seen(App("A", 1, "d", ""), PART, Waiting("A", "no worker is there"))).app("A")
    assert app is not None
    assert app.waiting == "no worker is there"
    assert [instance.state for instance in app.instances] == ["waiting"]


def test_workers_are_there_or_draining_or_gone() -> None:
    rows = (WORKER, replace(WORKER, id="w2", draining=True), replace(WORKER, id="w3", draining=True, gone=True))
    found = overview_of(seen(*rows, Beat("w2", 940, 0.5, None, 0.2), Placement("x", "w2", 1, "", True)))
    assert [(w.id, w.state, w.cpu, w.heartbeat, w.instances) for w in found.workers] == [
        ("w1", "there", None, None, 0),
        ("w2", "draining", 0.5, 940, 1),
        ("w3", "gone", None, None, 0),
    ]


def test_a_cluster_that_never_was_is_empty() -> None:
    found = overview_of(seen())
    assert (found.token, found.managers, found.workers, found.apps) == (0, (), (), ())
