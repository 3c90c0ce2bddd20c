"""An app that exceeds its bounds again and again is served by a host of its own, and comes back: a node without Spark, with real host processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
from pipeline_bucket import gone
from pipeline_played import HOSTS, PlayedNode
from test_pipeline_bounds import APP, goes_on, warm

from nadi.pipeline.coordinator import conduct
from nadi.pipeline.coordinator.share import Share
from nadi.pipeline.hosting import hostclient
from nadi.pipeline.hosting.hostclient import hosts_folder
from nadi.pipeline.hosting.standby import Standby
from nadi.pipeline.places import OwnHosts, Place, Placement
from nadi.pipeline.queries import SHARED
from nadi.pipeline.spec import AppSpec


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedNode]:
    """A and C share host 0; B is in host 1."""
    monkeypatch.setattr(conduct, "LATE_CUTS", 3)
    with PlayedNode(tmp_path, monkeypatch, {"A": APP, "B": APP, "C": APP}) as made:
        yield made


def sums(count: int) -> list[int]:
    """What an app gives of so many events, each of them 1."""
    return list(accumulate([1] * count))


def is_apart(node: PlayedNode, name: str = "A") -> bool:
    return node.host_of(name) >= HOSTS


def offend(node: PlayedNode) -> None:
    """A is late until it is moved: one event after the other."""
    node.order("A", "compute 0.3")

    def put() -> None:
        if len((node.folder / "in-A").read_text().splitlines()) == len(node.out("A")):
            node.put("A", 1)

    node.until(lambda: is_apart(node), put)


def check(node: PlayedNode) -> None:
    """Nothing was lost, and nothing doubled."""
    for name in "ABC":
        given = len((node.folder / f"in-{name}").read_text().splitlines())
        node.until(lambda name=name, given=given: len(node.out(name)) == given)
        assert node.out(name) == sums(given)


def test_an_app_that_computes_long_again_and_again_gets_a_host_of_its_own_and_its_neighbours_keep_theirs(
    node: PlayedNode,
):
    warm(node)
    before = node.pid(0), node.pid(1)
    offend(node)
    node.put("A", 1)
    node.until(lambda: node.pid(node.host_of("A")) is not None)
    own = node.pid(node.host_of("A"))
    assert own not in before
    assert (node.pid(0), node.pid(1)) == before
    (shared,) = node.queries[SHARED]
    node.order("A", "hold")  # computes without end, in a process of its own, in a query of its own
    node.put("A", 1)
    node.until((node.folder / "orders-A-at").exists)
    done = len(node.out("A"))
    seen = len(shared.batches)
    for name in "BC":
        goes_on(node, name)
    assert len(node.out("A")) == done
    assert set(shared.batches[seen:]) == {1}  # the host of who has an event, and nobody else's
    assert [node.host_of(name) for name in "BC"] == [1, 0]
    node.order("A", "")
    check(node)


def test_it_comes_back_when_it_has_behaved_and_its_own_host_ends(node: PlayedNode, monkeypatch: pytest.MonkeyPatch):
    warm(node)
    offend(node)
    node.put("A", 1)
    node.until(lambda: node.pid(node.host_of("A")) is not None)
    index = node.host_of("A")
    own = node.pid(index)
    assert own is not None
    node.order("A", "")
    monkeypatch.setattr(conduct, "WINDOW", 1.0)
    monkeypatch.setattr(conduct, "GOOD_FOR", 1.0)
    node.until(lambda: node.host_of("A") == 0)
    assert gone(own)
    node.until(lambda: index not in node.up())
    for name in "ABC":
        goes_on(node, name)
    assert node.pid(index) is None
    check(node)


def test_an_app_whose_sink_blocks_again_and_again_gets_a_host_of_its_own(node: PlayedNode):
    warm(node)
    hold = node.folder / "hold-A"
    for _ in range(conduct.LATE_CUTS):
        done = len(node.out("A"))
        hold.touch()
        node.put("A", 1)
        node.until((node.folder / "hold-A-0").exists)
        goes_on(node, "C")
        hold.unlink()
        (node.folder / "hold-A-0").unlink()
        node.until(lambda done=done: len(node.out("A")) > done)
    node.until(lambda: is_apart(node))
    check(node)


def test_an_app_whose_cut_kills_its_host_kills_that_of_its_neighbours_once_and_goes_on_without_the_event(
    node: PlayedNode,
):
    warm(node)
    before = node.pid(0)
    seen: set[int | None] = set()
    node.order("A", "die")
    node.put("A", 1)
    node.until(lambda: is_apart(node))
    for name in "BC":
        goes_on(node, name)
    node.until(lambda: node.shown["A"].set_aside == 1, lambda: seen.add(node.pid(0)))
    assert len(seen - {None, before}) == 1, "A has died again and again, in hosts of its own"
    assert node.pid(0) in seen
    assert [is_apart(node, name) for name in "BC"] == [False, False]
    assert [node.shown[name].restarts for name in "BC"] == [0, 0]
    node.order("A", "")
    node.put("A", 1)
    given = len((node.folder / "in-A").read_text().splitlines())
    node.until(lambda: node.out("A") == sums(given - 1))


def test_a_process_that_stands_by_becomes_the_host_that_has_died(node: PlayedNode, monkeypatch: pytest.MonkeyPatch):
    coordinator = node.coordinator
    standby = coordinator._standby
    assert standby is not None
    standby.close()  # what the node would start in a while
    spare = Standby(hosts_folder(os.getpid()), os.getpid(), node.folder, coordinator._needs)
    monkeypatch.setattr(coordinator, "_standby", spare)
    monkeypatch.setattr(hostclient, "HANDED_WITHIN", 60.0)  # on a busy machine the node would start one of its own
    spare.want(0.0)
    warm(node)
    node.until(lambda: spare.pid is not None)
    stands_by, before = spare.pid, node.pid(1)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    assert gone(before)
    goes_on(node, "B")
    assert node.pid(1) == stands_by
    spare.close()
    check(node)


# ---- who gets one


def placement(own: OwnHosts, name: str, **more: object) -> Placement:
    spec = replace(AppSpec(name, "", f"/{name}", hosts=2), **more)
    return Placement(spec, own, lambda: True, lambda: True)


@pytest.fixture
def own(tmp_path: Path) -> OwnHosts:
    return OwnHosts(tmp_path, os.getpid())


def offends(made: Placement, now: float) -> None:
    for second in range(conduct.LATE_CUTS):
        made.conduct.cut(now + second, 1.0)


def test_an_app_of_several_buckets_needs_several_own_hosts_and_more_than_shared_ones_there_are_not(own: OwnHosts):
    wide, narrow = AppSpec("A", "", "/A", buckets=5, hosts=2), AppSpec("B", "", "/B", hosts=2)
    assert own.take(narrow) == 2
    assert own.take(wide) is None
    own.give_back(narrow)
    assert own.take(wide) == own.take(wide) == 2
    assert own.take(narrow) is None


def test_there_are_as_many_own_hosts_as_shared_ones(own: OwnHosts):
    quiet = Share(0.0)
    made = {name: placement(own, name) for name in "ABC"}
    for each in made.values():
        offends(each, 100.0)
    spec = AppSpec("A", "", "/A", hosts=2)
    assert made["A"].wanted(110.0, quiet) == Place(True, 2)
    assert made["A"].move(spec).offset == 2
    assert made["B"].wanted(110.0, quiet) == Place(True, 4)
    assert made["C"].wanted(110.0, quiet) is None
    made["B"].stay()
    assert made["C"].wanted(110.0, quiet) == Place(True, 4)
    assert made["A"].wanted(110.0, quiet) is None
    assert made["A"].wanted(500.0, quiet) == Place(False)
    assert made["A"].move(spec).offset == 0
    assert made["B"].wanted(110.0, quiet) == Place(True, 2)


def test_apps_that_have_hosts_die_get_more_of_them_than_those_that_are_late(own: OwnHosts):
    made = {name: placement(own, name) for name in "ABCD"}
    for name in "ABC":
        made[name].conduct.crash(100.0, True)
    offends(made["D"], 100.0)
    found = {name: made[name].wanted(110.0, Share(0.0)) for name in "ABCD"}
    assert found == {"A": Place(True, 2), "B": Place(True, 4), "C": Place(True, 6), "D": None}


def test_an_app_whose_cut_was_not_what_the_host_died_of_goes_back_at_once(own: OwnHosts):
    made = placement(own, "A")
    made.conduct.die(7)
    made.conduct.crash(100.0, True)
    assert made.wanted(100.0, Share(0.0)) == Place(True, 2)
    made.move(AppSpec("A", "", "/A", hosts=2))
    made.conduct.done(7)
    assert made.wanted(200.0, Share(0.0)) == Place(False)


def test_a_crash_while_its_kernel_computed_is_reason_enough(own: OwnHosts):
    made = placement(own, "A")
    made.conduct.crash(100.0, True)
    assert made.wanted(100.0, Share(0.0)) == Place(True, 2)
    assert made.in_haste(100.0)


def test_another_crash_is_no_reason_and_the_second_one_is_in_haste(own: OwnHosts):
    made = placement(own, "A")
    made.conduct.crash(100.0)
    assert made.wanted(100.0, Share(0.0)) is None
    made.conduct.crash(130.0)
    assert made.wanted(130.0, Share(0.0)) == Place(True, 2)
    assert made.in_haste(130.0)


def test_an_app_that_is_pinned_keeps_its_query(own: OwnHosts):
    for pool, alone in (("own", True), ("shared", False)):
        made = placement(own, pool, pool=pool)
        offends(made, 100.0)
        found = made.wanted(110.0, Share(0.0))
        assert found is not None
        assert (found.alone, found.offset > 0) == (alone, True)
        made.move(AppSpec(pool, "", "", hosts=2))
        assert made.wanted(500.0, Share(0.0)) == Place(alone)


def test_an_app_that_is_alone_or_on_a_cluster_has_nobody_to_be_kept_from(own: OwnHosts):
    alone = Placement(AppSpec("A", "", "/A"), own, lambda: False, lambda: False)
    far = placement(own, "B", cluster=True)
    for made in (alone, far):
        offends(made, 100.0)
        assert made.wanted(110.0, Share(0.0)) is None
