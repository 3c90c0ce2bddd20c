"""A take-over waits for apps no longer than it may, and not at all where the node is to end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from nadi.server.deployer import AppStatus
from nadi.server.pair import roles
from nadi.server.pair.roles import ActiveRole, Roles

WITHIN = 10.0  # seconds


class Deployer:
    """Of two apps that do not come to run."""

    def __init__(self) -> None:
        self.waited: list[float] = []
        self.waits, self.hurried = threading.Event(), threading.Event()

    def start(self, _host: object) -> None:
        """Nothing begins."""

    def look(self) -> None:
        """There is nothing else."""

    def all(self) -> list[AppStatus]:
        return [AppStatus(name, "", "inactive") for name in ("One", "Two")]

    def settled(self, _name: str, within: float) -> None:
        self.waited.append(within)
        self.waits.set()
        self.hurried.wait(min(within, WITHIN))

    def hurry(self) -> None:
        self.hurried.set()


class Makes:
    def __init__(self) -> None:
        self.deployer = Deployer()

    def active(self, _token: int) -> ActiveRole:
        nothing: Any = None
        return ActiveRole(self.deployer, nothing, nothing, nothing, contextlib.ExitStack())  # type: ignore[arg-type]

    def passive(self) -> Any:
        raise AssertionError("it does not become passive")

    def queries(self) -> Iterator[Any]:
        return iter(())


async def taken_over() -> None:
    """Nothing was held back."""


def made() -> tuple[Roles, Deployer]:
    makes = Makes()
    return Roles(makes, taken_over, lambda: None, lambda: ""), makes.deployer


def test_apps_that_do_not_come_to_run_are_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "BEGINS_WITHIN", 0.2)
    found, deployer = made()
    asyncio.run(found.activate(7))
    assert deployer.waited[0] > 0.1
    assert deployer.waited[1] < 0.1


@pytest.mark.parametrize("early", [True, False])
def test_a_node_that_is_to_end_waits_for_no_app(early: bool) -> None:
    found, deployer = made()

    async def scene() -> None:
        beginning = asyncio.ensure_future(found.activate(7))
        await asyncio.sleep(0)
        if not early:
            await asyncio.to_thread(deployer.waits.wait, WITHIN)
        found.hurry()
        async with asyncio.timeout(WITHIN / 2):
            await beginning

    asyncio.run(scene())
