"""For how long one app of a node holds up the others (docs/internals/pools.md): a node without Spark, with real host processes.

Two apps share one query and, where it is said, one host. What one of them does, or has done to it, is seen in the order in which both commit.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pipeline_orders
import pytest
from pipeline_bucket import gone, hosts_of_this_process
from pipeline_played import PlayedNode
from pipeline_work import Process, Rig, Within, ask_run, cuts_of, groups_of, sides, spec_of

from nadi.io.errorfile import FileErrorStore
from nadi.pipeline import stoptimes, supervised
from nadi.pipeline.coordinator import conduct, hostwatch
from nadi.pipeline.coordinator import group as groups
from nadi.pipeline.cutting.cutlog import newest_cut
from nadi.pipeline.cutting.cutlogs import cuts_folder, open_cut_log
from nadi.pipeline.history.replay import Inputs, logged
from nadi.pipeline.hosting import hostclient
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder
from nadi.pipeline.places import OwnHosts
from nadi.plan.nodes import App

APP = """@app:name('{name}')
@source(type='test', file='{folder}/in-{name}', endless='true') define stream In (n long);
@sink(type='test', file='{folder}/out-{name}', hold='{folder}/hold-{name}') define stream Out (total long);
from In select sum(n) as total insert into Out;"""

LOOPS = """@app:name('{name}')
@source(type='test', file='{folder}/in-{name}', endless='true') define stream In (n long);
@sink(type='test', file='{folder}/out-{name}') define stream Out (total long);
define function loops[javascript] return long {{ while (data[0] == 13) {{}} return data[0]; }};
from In select sum(loops(n)) as total insert into Out;"""

CUTS = 8


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that are silent for five seconds are killed: on a busy machine one that is well may be silent for some."""
    monkeypatch.setattr(hostwatch, "BEAT", 0.2)
    monkeypatch.setattr(hostwatch, "STARTING", 0.2)
    monkeypatch.setattr(hostwatch, "SILENT", 5.0)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[PlayedNode]:
    """A and C share host 0; B is in host 1. Its parameter is what the operator has set."""
    monkeypatch.setattr(groups, "PENDING_LOOK", 3600.0)  # who is waited for rings, or dies
    conf = getattr(request, "param", {})
    with PlayedNode(tmp_path, monkeypatch, {"A": APP, "B": APP, "C": APP}, conf=conf) as made:
        yield made


def goes_on(node: PlayedNode, name: str) -> None:
    """Give an app events, one after the other, each when the one before is committed."""
    for _ in range(CUTS):
        before = len(node.out(name))
        node.put(name, 1)
        node.until(lambda before=before: len(node.out(name)) > before)


def warm(node: PlayedNode) -> None:
    """All apps have committed something: their kernels are live."""
    for name in "ABC":
        node.put(name, 1)
    node.until(lambda: all(node.out(name) == [1] for name in "ABC"))


def test_a_slow_sink_holds_up_nobody_and_its_cut_commits_when_it_is_through(node: PlayedNode):
    warm(node)
    (node.folder / "hold-A").touch()
    node.put("A", 2)
    node.until((node.folder / "hold-A-0").exists)
    goes_on(node, "B")
    goes_on(node, "C")  # in the same host
    assert node.out("A") == [1]
    (node.folder / "hold-A").unlink()
    node.until(lambda: node.out("A") == [1, 3])


def test_a_kernel_that_computes_without_end_holds_up_nobody(node: PlayedNode):
    warm(node)
    node.order("A", "hold")
    node.put("A", 2)
    node.until((node.folder / "orders-A-at").exists)
    goes_on(node, "B")
    goes_on(node, "C")
    assert node.out("A") == [1]
    node.order("A", "")
    node.until(lambda: node.out("A") == [1, 3])


def test_an_endless_loop_in_a_script_costs_its_event_and_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with PlayedNode(tmp_path, monkeypatch, {"A": LOOPS, "B": APP, "C": APP}) as node:
        warm(node)
        node.put("A", 13)
        goes_on(node, "B")
        goes_on(node, "C")
        node.until(lambda: node.shown["A"].errors > 0)
        node.put("A", 2)
        node.until(lambda: node.out("A") == [1, 3])
        assert node.shown["A"].restarts == 0


def test_a_kernel_without_memory_is_tried_again_and_its_neighbours_keep_theirs(
    node: PlayedNode, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(conduct, "CRASHES", 1_000)  # however slow the machine is, nothing is set aside
    warm(node)
    host = node.pid(0)
    node.order("A", "memory")
    node.put("A", 2)
    node.until(lambda: node.shown["A"].restarts > 0)
    goes_on(node, "C")
    node.order("A", "")
    node.until(lambda: node.out("A") == [1, 3])
    assert node.pid(0) == host
    assert node.shown["C"].restarts == node.shown["B"].restarts == 0


def test_a_host_that_is_killed_is_started_again_and_its_apps_go_on_from_their_states(node: PlayedNode):
    warm(node)
    for name in "ABC":
        goes_on(node, name)
    killed, other = node.pid(0), node.pid(1)
    assert killed is not None
    assert other is not None
    os.kill(killed, signal.SIGKILL)
    for name in "BAC":
        goes_on(node, name)
        assert node.out(name) == list(range(1, 2 * CUTS + 2))
    assert node.pid(0) not in (None, killed)
    assert node.pid(1) == other
    assert [node.shown[name].restarts for name in "ABC"] == [0, 0, 0]


def test_who_waits_for_a_pending_cut_is_woken_by_the_death_of_its_host(node: PlayedNode):
    warm(node)
    (node.folder / "hold-A").touch()
    node.put("A", 2)
    node.until((node.folder / "hold-A-0").exists)
    goes_on(node, "B")  # the batch that A was in is through: A is pending
    killed = node.pid(0)
    assert killed is not None
    (node.folder / "hold-A").unlink()
    os.kill(killed, signal.SIGKILL)
    node.until(lambda: node.out("A") == [1, 3])  # nobody looks again for an hour


def test_a_host_that_hangs_is_killed_and_its_apps_go_on_in_another_one(brisk: None, node: PlayedNode):
    warm(node)
    stopped, other = node.pid(0), node.pid(1)
    assert stopped is not None
    assert other is not None
    os.kill(stopped, signal.SIGSTOP)
    for name in "ABC":
        node.put(name, 2)
    node.until(lambda: all(node.out(name) == [1, 3] for name in "ABC"))
    assert gone(stopped)
    assert node.pid(1) == other
    assert [node.shown[name].restarts for name in "ABC"] == [0, 0, 0]


def test_a_host_that_was_paused_for_a_while_goes_on(node: PlayedNode, monkeypatch: pytest.MonkeyPatch):
    warm(node)
    monkeypatch.setattr(hostwatch, "BEAT", 0.1)
    missed = threading.Event()
    answers = hostwatch.HostWatch._answers

    def noted(self: hostwatch.HostWatch, index: int) -> bool:
        found = answers(self, index)
        if not found:
            missed.set()
        return found

    monkeypatch.setattr(hostwatch.HostWatch, "_answers", noted)
    paused = node.pid(0)
    assert paused is not None
    os.kill(paused, signal.SIGSTOP)
    node.put("A", 2)
    assert missed.wait(60)
    os.kill(paused, signal.SIGCONT)
    node.until(lambda: node.out("A") == [1, 3])
    assert node.pid(0) == paused


@pytest.mark.parametrize("node", [{"nadi.host.within": "500"}], indirect=True, ids=["impatient"])
@pytest.mark.parametrize(("order", "bad"), [("poison 13", (2,)), ("loop 13", (2,)), ("fill 13", (2, 4))])
def test_an_event_that_its_host_dies_of_is_set_aside_and_all_apps_go_on(
    brisk: None, node: PlayedNode, order: str, bad: tuple[int, ...]
):
    warm(node)
    node.order("A", order)
    node.put("A", *((2, 13, 3, 13) if len(bad) == 2 else (2, 13, 3)))
    sums = [1, 3, 6]
    node.until(lambda: node.out("A") == sums)
    goes_on(node, "B")
    goes_on(node, "C")
    newest = newest_cut(cuts_folder(node.folder / "state" / "A"))
    assert newest is not None
    assert newest.aside == {(0, 0): bad}
    kept = list(FileErrorStore(node.folder / "state" / "A").rows())
    assert ["EVENT_SET_ASIDE" in str(row) for row in kept] == [True] * len(bad)
    live = node.live("A")
    assert live is not None
    with Inputs(live.spec) as inputs:  # as a replay reads them
        ((before, cut),) = [(b, c) for b, c in logged(open_cut_log(live.spec), 0) if c.aside]
        (given,) = inputs.read(before, cut)
    assert 13 not in [n for arrival in given.arrivals for n in arrival.batch.column("n").to_pylist()]
    assert len(given.errors) == len(bad)
    node.put("A", 4)
    node.until(lambda: node.out("A") == [*sums, sums[-1] + 4])
    node.until(lambda: node.shown["A"].set_aside == len(bad))


@pytest.mark.parametrize("what", ["hold", "die"])
def test_an_app_is_undeployed_though_its_kernel_comes_to_no_end(
    node: PlayedNode, monkeypatch: pytest.MonkeyPatch, what: str
):
    """The cut would be waited for a minute, and the loop goes on for as long as the order stands."""
    monkeypatch.setattr(stoptimes, "CUT_WITHIN", 3600.0)
    monkeypatch.setattr(stoptimes, "KERNEL_WITHIN", 0.2)
    warm(node)
    before = node.pid(0)
    assert before is not None
    node.order("A", what)
    node.put("A", 2)
    node.until((lambda: gone(before)) if what == "die" else (node.folder / "orders-A-at").exists)
    node.remove("A")
    node.until(lambda: node.shown["A"].state == "stopped")
    node.until(lambda: gone(before))
    goes_on(node, "B")
    goes_on(node, "C")  # it was in the same host
    assert node.out("A") == [1]


def test_a_node_stops_though_a_kernel_comes_to_no_end(node: PlayedNode, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stoptimes, "CUT_WITHIN", 3600.0)
    monkeypatch.setattr(stoptimes, "KERNEL_WITHIN", 0.2)
    warm(node)
    node.order("A", "hold")
    node.put("A", 2)
    node.until((node.folder / "orders-A-at").exists)
    node.stop()
    assert node.ended() == {"A": "stopped", "B": "stopped", "C": "stopped"}


def test_a_stop_waits_for_a_sink_that_waits_for_its_target(node: PlayedNode, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stoptimes, "KERNEL_WITHIN", 0.0)
    monkeypatch.setattr(supervised, "QUIET", 0.1)
    warm(node)
    (node.folder / "hold-A").touch()
    node.put("A", 2)
    node.until((node.folder / "hold-A-0").exists)
    node.stop()
    node.until(lambda: node.shown["A"].state == "stopping")
    (node.folder / "hold-A").unlink()
    assert node.ended() == {"A": "stopped", "B": "stopped", "C": "stopped"}
    assert node.out("A") == [1, 3]


def test_an_app_ends_though_its_host_hangs(node: PlayedNode, monkeypatch: pytest.MonkeyPatch):
    warm(node)
    monkeypatch.setattr(hostclient, "TOLD_WITHIN", 0.5)
    stopped = node.pid(0)
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    node.stop()
    assert node.ended() == {"A": "stopped", "B": "stopped", "C": "stopped"}
    assert node.pid(0) == stopped  # nobody had to wait for its end


# ---- one host, without a node

WORK = """@app:name('Work')
@source(type='test', file='{folder}/in') define stream In (k string, n long);
@sink(type='test', file='{folder}/out') define stream Out (k string, s long);
from In#window.length(50) select k, sum(n) as s group by k insert into Out;"""


def made(folder: Path, **more: object) -> Rig:
    spec = spec_of(folder, WORK, **more)
    (folder / "in").write_text("".join(f'{i * 10}\t["k{i % 7}", {i}]\n' for i in range(200)))
    return Rig(spec, cuts_of(folder / "in", range(20, 201, 20)))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Within]:
    for made_here in sides(tmp_path, 1):
        yield made_here[0]


def test_an_app_that_is_being_planned_holds_up_no_other_one(
    host: Within, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    planned = threading.Event()
    known = made(tmp_path / "known")
    known.step(host)
    orders = {"orders": str(tmp_path / "orders")}
    fresh = made(tmp_path / "fresh", engine="pipeline_orders", properties=orders)
    plan = pipeline_orders.plan_app

    def slowly(text: str) -> App:
        assert planned.wait(60)
        return plan(text)

    monkeypatch.setattr(pipeline_orders, "plan_app", slowly)
    for n in range(2, 6):
        (row,) = host.read(ask_run([fresh.group(1), known.group(n)], 0.2))
        pending, done = groups_of(row.body)
        assert (pending["state"], pending["app"]) == ("pending", fresh.spec.id)
        while done["state"] == "pending":  # the machine may be busy
            (row,) = host.read(ask_run([known.group(n)], 0.2))
            (done,) = groups_of(row.body)
        known.commit(done)
    planned.set()
    (row,) = host.read(ask_run([fresh.group(1)], 60.0))
    fresh.commit(*groups_of(row.body))
    known.check()
    fresh.check()


def test_an_app_whose_text_cannot_be_planned_fails_and_the_others_do_not(host: Within, tmp_path: Path):
    known, broken = made(tmp_path / "known"), made(tmp_path / "broken")
    told = broken.group(1)
    told["spec"] = told["spec"].replace("from In#window", "from Nowhere#window")
    (row,) = host.read(ask_run([told, known.group(1)], 60.0))
    failed, done = groups_of(row.body)
    assert failed["state"] == "failed"
    assert "Nowhere" in str(failed["error"])
    known.commit(done)
    known.check()


def test_hosts_are_told_within_a_bound_and_nobody_is_started_for_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hostclient, "TOLD_WITHIN", 0.5)
    for ask in hosts_of_this_process(2):
        ask.call(0, {"op": "ping"})
        stopped = int((hosts_folder(os.getpid()) / "0.alive").read_text())
        os.kill(stopped, signal.SIGSTOP)
        ask.forget("nobody")
        ask.forget("nobody", [0, 1])
        ask.end([0, 1])
        assert not (hosts_folder(os.getpid()) / "1.alive").exists()


def test_a_host_that_is_told_to_end_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NADI_LOG_DIR", raising=False)  # a session that a test before this one started names its own
    for ask in hosts_of_this_process(2):
        ask.call(0, {"op": "ping"})
        ask.call(1, {"op": "ping"})
        pid = int((hosts_folder(os.getpid()) / "1.alive").read_text())
        ask.end([1])
        assert gone(pid)
        assert [path.name for path in hosts_folder(os.getpid()).glob("1.*")] == ["1.log"]
        assert ask.call(0, {"op": "ping"}).head["ok"]


def test_a_run_that_was_left_is_refused_by_hosts_that_were_there_and_by_those_that_start_later(tmp_path: Path):
    for ask in hosts_of_this_process(2):
        rig, host = made(tmp_path), Process(ask, 0)
        rig.step(host)
        own = OwnHosts(hosts_folder(os.getpid()), os.getpid())
        own.left(rig.spec, replace(rig.spec, epoch=2))
        assert rig.run(host)["state"] == "fenced"
        kill_host(ask)
        assert rig.run(host)["state"] == "fenced"
        rig.epoch = 2
        rig.step(host)
        own.forget(rig.spec)
        rig.epoch = 1  # another app of that folder may begin anew
        assert rig.run(host)["state"] == "done"
        own.close()


def kill_host(ask: Hosts) -> None:
    pid = int((hosts_folder(os.getpid()) / "0.alive").read_text())
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
