"""The suite `node`: what a node of many small apps costs. What is asked, in which stages, and what the project wants of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.checkouts import Checkout

APPS = 100
SECONDS = 60.0  # of idling, and of an event a second for each app
BESIDE = "beside"  # what the result calls the things that stand beside a node
MANY = 200  # from so many apps on, only the start and idling are measured
STAGES = (
    "cold",
    "warm",
    "idle",
    "single",
    "each",
    "kill-jvm",
    "kill-host",
    "add",
    "busy",
    "poison",
    "one",
    "rest-cold",
    "rest",
    BESIDE,
)
"""The start with an empty compile cache; the start on which the next ones go on; …; apps with events that hosts die of; a node of one app, for its memory;
apps that come over REST to a worker, with an empty compile cache and once more; things beside a node."""
POISONS = ("crash", "memory", "loop")
"""What the bad events of the stage `poison` do."""
ON_A_NODE = ("warm", "idle", "single", "each", "kill-jvm", "kill-host", "add")
"""The stages of one node, in their order."""

GOALS: dict[str, float] = {
    "accept_s": 10.0,
    "answered_cold_s": 180.0,
    "answered_warm_s": 60.0,
    "processes": 12.0,
    "idle_core": 0.05,
    "app_mb": 10.0,
    "single_p50": 100.0,
    "single_p99": 300.0,
    "each_p50": 200.0,
    "each_p99": 600.0,
    "add_gap": 1.0,
    "busy_ratio": 0.9,
    "rest_accept_s": 15.0,
    "rest_answered_cold_s": 120.0,
    "rest_answered_s": 60.0,
}
"""What the project wants of 100 apps on two cores. All but `busy_ratio` are upper bounds."""


@dataclass(frozen=True, slots=True)
class NodeSetting:
    """`apps` of a node; `seconds` of idling and of an event a second each; `events` of the busy app; `conf`: settings of Spark and nadi."""

    folder: Path
    checkout: Checkout
    apps: int
    seconds: float
    events: int
    master: str
    stages: tuple[str, ...]
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def patience(self) -> float:
        """Seconds after which a node that has not come up, or not come back, is given up.

        >>> from bench.checkouts import Checkout
        >>> NodeSetting(Path(), Checkout("this", Path(), ""), 100, 60, 0, "local", ()).patience
        720.0
        """
        return 120.0 + 6.0 * self.apps


def stages_of(apps: int) -> tuple[str, ...]:
    """The stages that are measured where none are named.

    >>> stages_of(1_000)
    ('warm', 'idle', 'one', 'beside')
    """
    return STAGES if apps <= MANY else ("warm", "idle", "one", BESIDE)


def met(goal: str, value: float) -> bool:
    """Whether a figure is within its goal.

    >>> met("accept_s", 9.0), met("busy_ratio", 0.8)
    (True, False)
    """
    return value >= GOALS[goal] if goal == "busy_ratio" else value <= GOALS[goal]
