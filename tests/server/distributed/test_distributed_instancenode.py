"""Instances of a worker on a node that is made up: what starts, what stops, what is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from nadi.cluster.contract import Haste, StartFailed
from nadi.cluster.messages import Order
from nadi.errors import error
from nadi.metrics import AppProgress
from nadi.pipeline.node import AppText
from nadi.server.distributed import instancenode
from nadi.server.distributed.instancenode import InstanceNode


class Host:
    """A node whose apps begin at once, unless `held`; one that is `stuck` ends only when everything is broken off."""

    def __init__(self) -> None:
        self.runs: dict[str, AppText] = {}
        self.held = threading.Event()
        self.held.set()
        self.stuck = False
        self.broken = threading.Event()
        self.reached = threading.Event()

    def add(self, text: AppText, wanted: Callable[[], bool]) -> AppProgress:
        self.reached.set()
        self.held.wait()
        if not wanted():
            raise error("APP_NOT_ON_NODE", app=text.text, folder="", hint="")
        if text.text == "bad":
            raise error("NODE_STOPPING", folder="f")
        self.runs[text.text] = text
        return AppProgress(text.text, "running")

    def remove(self, name: str, revision: bool = True) -> object:
        assert not revision
        if name not in self.runs:
            raise error("APP_NOT_ON_NODE", app=name, folder="", hint="")
        if self.stuck:
            self.broken.wait()
        return self.runs.pop(name)

    def break_off(self) -> None:
        self.broken.set()


class Texts:
    """The text of an app is its name."""

    def name_of(self, text: str) -> str:
        return text

    def filled(self, text: str, file: str = "") -> AppText:
        return AppText(text, file)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def node(host: Host) -> InstanceNode:
    return InstanceNode(host, Texts(), lambda text: None)


def order(name: str, epoch: int = 1) -> Order:
    return Order(name, epoch, "digest", name)


def test_an_instance_runs_with_the_epoch_of_its_order_as_owner(host: Host, node: InstanceNode):
    asyncio.run(node.start(order("A-g-1", 7)))
    assert host.runs["A-g-1"].owner == 7
    assert [s.state for s in node.statuses()] == ["active"]


def test_an_instance_that_is_stopped_is_gone(host: Host, node: InstanceNode):
    async def life() -> None:
        await node.start(order("A"))
        await node.stop("A", Haste())

    asyncio.run(life())
    assert host.runs == {}
    assert node.statuses() == []


def test_a_text_that_is_another_app_is_not_started(node: InstanceNode):
    with pytest.raises(StartFailed, match="is that of 'B'"):
        asyncio.run(node.start(Order("A", 1, "digest", "B")))


def test_what_cannot_start_says_why(node: InstanceNode):
    with pytest.raises(StartFailed, match="NODE_STOPPING"):
        asyncio.run(node.start(order("bad")))


def test_what_is_stopped_while_it_starts_never_runs(host: Host, node: InstanceNode):
    async def life() -> None:
        host.held.clear()
        starting = asyncio.ensure_future(node.start(order("A")))
        await asyncio.to_thread(host.reached.wait)
        starting.cancel()
        await node.stop("A", Haste())
        host.held.set()

    asyncio.run(life())
    node.close()
    node._starts.shutdown(wait=True)
    assert host.runs == {}


def test_what_does_not_stop_before_the_lease_ends_is_ended_by_force(host: Host, node: InstanceNode):
    async def life() -> None:
        await node.start(order("A"))
        host.stuck = True
        haste = Haste(within=30)
        stopping = asyncio.ensure_future(node.stop("A", haste))
        await asyncio.sleep(0.1)
        assert not host.broken.is_set()  # there is no hurry yet
        haste.begun.set()
        await stopping

    asyncio.run(life())
    assert host.broken.is_set()
    assert host.runs == {}


def test_what_ends_late_but_before_the_lease_does_is_not_broken_off(host: Host, node: InstanceNode):
    async def life() -> None:
        await node.start(order("A"))
        host.stuck = True
        stopping = asyncio.ensure_future(node.stop("A", Haste(within=30)))
        await asyncio.sleep(0.1)
        host.broken.set()  # what it was about has come to its end
        await stopping

    host.break_off = lambda: pytest.fail("it was broken off")  # type: ignore[method-assign]
    asyncio.run(life())
    assert host.runs == {}


def test_what_never_stops_is_ended_by_force_also_without_any_hurry(
    host: Host, node: InstanceNode, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(instancenode, "PATIENCE", 0.01)

    async def life() -> None:
        await node.start(order("A"))
        host.stuck = True
        await node.stop("A", Haste())

    asyncio.run(life())
    assert host.broken.is_set()
    assert host.runs == {}


def test_an_end_by_itself_is_told_once_with_its_epoch_and_reason(node: InstanceNode):
    told: list[tuple[str, int, str]] = []
    node.watch(lambda *what: told.append(what), lambda *_: None)

    async def life() -> None:
        await node.start(order("A", 3))
        for _ in range(2):
            node.note(AppProgress("A", "failed", last_error="it broke"))
        await asyncio.sleep(0)

    asyncio.run(life())
    assert told == [("A", 3, "it broke")]
    assert [s.reason for s in node.statuses()] == ["it broke"]


def test_an_end_that_comes_when_the_loop_of_the_worker_has_ended_is_told_to_nobody(node: InstanceNode):
    told: list[tuple[str, int, str]] = []
    node.watch(lambda *what: told.append(what), lambda *_: None)
    asyncio.run(node.start(order("A", 3)))
    node.note(AppProgress("A", "failed", last_error="it broke"))  # the node ends its apps, as coordination has ended
    assert told == []
    assert [s.reason for s in node.statuses()] == ["it broke"]


def test_an_end_that_was_asked_for_is_not_told(node: InstanceNode):
    told: list[tuple[str, int, str]] = []
    node.watch(lambda *what: told.append(what), lambda *_: None)

    async def life() -> None:
        await node.start(order("A"))
        stopping = asyncio.ensure_future(node.stop("A", Haste()))
        await asyncio.sleep(0)
        node.note(AppProgress("A", "stopped"))
        await stopping

    asyncio.run(life())
    assert told == []


def test_an_instance_whose_jvm_has_ended_goes_on_in_the_next_one_and_has_not_ended(node: InstanceNode):
    told: list[tuple[str, int, str]] = []
    node.watch(lambda *what: told.append(what), lambda *_: None)

    async def life() -> None:
        await node.start(order("A", 3))
        node.note(AppProgress("A", "failed", last_error="the JVM ended", crashed=True))
        node.note(AppProgress("A", "waiting"))
        node.note(AppProgress("A", "running"))
        await asyncio.sleep(0)
        assert told == []
        assert [s.state for s in node.statuses()] == ["active"]
        node.note(AppProgress("A", "failed", last_error="it broke"))
        await asyncio.sleep(0)

    asyncio.run(life())
    assert told == [("A", 3, "it broke")]


def test_an_instance_that_has_drained_leaves_the_node_before_that_is_told(node: InstanceNode, host: Host):
    told: list[tuple[str, int]] = []
    ended: list[object] = []
    heard = asyncio.Event()

    def drained(instance: str, epoch: int) -> None:
        assert host.runs == {}
        told.append((instance, epoch))
        heard.set()

    node.watch(lambda *what: ended.append(what), drained)

    async def life() -> None:
        await node.start(Order("A", 3, "digest", "A", home="A~v2-0a1b2c", drain=True))
        assert (host.runs["A"].home, host.runs["A"].drains) == ("A~v2-0a1b2c", True)
        node.note(AppProgress("A", "finished"))
        await heard.wait()

    asyncio.run(life())
    assert (told, ended, node.statuses()) == ([("A", 3)], [], [])
