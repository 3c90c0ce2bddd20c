"""The status page of a node of a pair, in a real browser. The node is made up; what its status looks like, and the page, are nadi's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait
from servers.browser import browser, complaints

from nadi.cluster.pair import PairStatus, Role
from nadi.cluster.pair.status import Partner
from nadi.errors import diagnostic
from nadi.eventsync.counters import Counters
from nadi.io.httpserver import HttpServer
from nadi.server.pair.pairview import PairView
from nadi.server.rest import page as pages
from nadi.server.rest.application import make_routes
from nadi.server.rest.node import NodeFacts

WITHIN = 100  # seconds: the machine may be busy
IN_ORDER = PairStatus(
    "node-1", "orders", Role.ACTIVE, 7, "node-1", Partner("node-2", "host:9893"), True, 1_764_000_000_000, 0, (), "", ""
)


class Node:
    """Says what a test wants it to."""

    def __init__(self) -> None:
        self.status = IN_ORDER

    @property
    def role(self) -> Role:
        return self.status.role


class Apps:
    """Has none."""

    is_open = True

    def names(self) -> list[str]:
        return []

    def starting(self) -> list[str]:
        return []


class World:
    def __init__(self, page: Chrome, node: Node, by_hand: list[str], url: str) -> None:
        self.page, self.node, self.by_hand, self.url = page, node, by_hand, url

    def shows(self, status: PairStatus) -> None:
        """The node is so, and the page looks."""
        self.node.status = status
        self.page.execute_script("return refresh()")

    def text(self, id_: str) -> str:
        return str(self.page.execute_script("return document.getElementById(arguments[0]).innerText", id_))

    def until(self, holds: Callable[[], object]) -> None:
        WebDriverWait(self.page, WITHIN, ignored_exceptions=(WebDriverException,)).until(lambda _page: holds())

    def alarms(self) -> list[str]:
        found: list[str] = self.page.execute_script(
            "return [...document.querySelectorAll('#alarms li')].map((one) => one.innerText)"
        )
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, node, by_hand = tmp_path_factory.mktemp("page"), Node(), list[str]()
    unasked: Any = None
    pairing = PairView(node, unasked, unasked, Counters(), lambda: by_hand)  # type: ignore[arg-type]
    facts = NodeFacts("node-1", folder, time.time())
    routes = pages.routes(Apps(), facts, lambda _app: [], pairing.status)  # type: ignore[arg-type]
    server = HttpServer(make_routes("test", [routes]), "127.0.0.1", 0)
    server.start()
    with ExitStack() as running:
        running.callback(server.stop)
        page = running.enter_context(browser(Path(folder / "profile")))
        page.get(f"http://127.0.0.1:{server.port}/")
        yield World(page, node, by_hand, f"http://127.0.0.1:{server.port}")
        # there is no login here, for which the page asks
        assert [said for said in complaints(page) if "/login/" not in said] == []


def test_a_person_sees_the_role_of_the_node_its_partner_and_that_both_have_the_same(world: World):
    world.shows(IN_ORDER)
    world.until(lambda: world.text("role") == "active")
    assert (world.text("group"), world.text("partner"), world.text("node")) == ("orders", "node-2", "node-1")
    assert world.text("sync").startswith("Both have the same, last at ")
    assert world.alarms() == []
    world.shows(replace(IN_ORDER, role=Role.PASSIVE, active="node-2", unready="Spark starts"))
    world.until(lambda: world.text("role") == "passive")
    assert world.text("sync").endswith("The passive one could not go on at once: Spark starts.")


def test_a_person_sees_that_a_node_is_alone_why_and_what_to_do(world: World):
    reason = "node-2: it does not answer: <b>nothing</b> came"
    alone = diagnostic("PAIR_ALONE", id="node-1", group="orders", reason=reason)
    world.shows(replace(IN_ORDER, in_sync=False, last_sync=None, reason=reason, alarms=(alone,)))
    world.until(lambda: world.text("sync").startswith("They do not have the same"))
    assert world.text("sync") == f"They do not have the same: {reason}."  # as text
    (told,) = world.alarms()
    assert alone.message in told
    assert alone.next_step in told
    world.shows(IN_ORDER)
    world.until(lambda: world.alarms() == [])


def test_a_person_sees_all_alarms_of_a_node_that_waits(world: World):
    nobody = diagnostic("PAIR_NO_ONE", group="orders", reason="only node-2 has everything (node-1: it does not answer)")
    skewed = diagnostic("PAIR_CLOCK_WRONG", id="node-1", skew=7_200_000, bound=120_000)
    world.by_hand.append("Foreign")
    try:
        waits = replace(
            IN_ORDER, role=Role.PASSIVE, active="", partner=None, in_sync=False, reason="it waits", alarms=(nobody, skewed)
        )  # fmt: skip
        world.shows(waits)
        world.until(lambda: len(world.alarms()) == 3)
    finally:
        world.by_hand.clear()
    assert world.text("partner") == "not there"
    for told, wanted in zip(world.alarms(), ("only node-2 has everything", "7200000", "Foreign"), strict=True):
        assert wanted in told


def test_the_page_of_a_suspended_node_says_so(world: World):
    waits = "the coordination database does not answer: it is away"
    world.shows(replace(IN_ORDER, role=Role.SUSPENDED, in_sync=False, reason=waits))
    world.until(lambda: world.text("role") == "suspended")
    assert waits in world.text("sync")
