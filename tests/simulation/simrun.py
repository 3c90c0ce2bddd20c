"""Running schedules: one, many, in several processes; and what a failing one says."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from simcheck import Broken
from simworld import Outcome, World


class Schedule(Protocol):
    """A world made from a seed."""

    def run(self) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Suite:
    """What is simulated, and the folder of its tests."""

    folder: str
    world: Callable[[int], Schedule]


CLUSTER = Suite("tests/simulation", World)


@dataclass(frozen=True, slots=True)
class Found:
    """A schedule that found something."""

    seed: int
    broken: str
    where: str
    folder: str = CLUSTER.folder

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.broken}\nreplay it: {replay(self.seed, self.folder)}\n{self.where}"


def replay(seed: int, folder: str = CLUSTER.folder) -> str:
    """The command that runs one schedule again, bit for bit."""
    return f"pytest {folder} -k find_nothing --schedules 1 --seed {seed}"


def run(seed: int, suite: Suite = CLUSTER) -> Outcome | Found:
    """One schedule."""
    try:
        return suite.world(seed).run()
    except Broken as reason:
        return Found(seed, str(reason), "", suite.folder)
    except Exception as reason:  # a production module failed: that is found, too
        return Found(seed, repr(reason), traceback.format_exc(), suite.folder)


def schedules(first: int, number: int, suite: Suite = CLUSTER) -> Iterator[Outcome | Found]:
    """Schedules with seeds one after the other. Worlds are full of cycles: they are collected in between, not whenever it happens."""
    gc.disable()
    try:
        for n in range(number):
            yield run(first + n, suite)
            if n % 20 == 19:
                gc.collect()
    finally:
        gc.enable()
        gc.collect()


def first_found(first: int, most: int, suite: Suite = CLUSTER) -> tuple[int, Found] | None:
    """How many schedules it took to find something, and what."""
    for n, outcome in enumerate(schedules(first, most, suite), 1):
        if isinstance(outcome, Found):
            return n, outcome
    return None
