"""What `bench.node` is asked to do and what it tells of a batch: plain values, which need nothing of nadi or Spark."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Task(msgspec.Struct, frozen=True):
    """One app to run; `identity` takes a kernel that copies; `at_most` ends it after so many seconds of its first batch (0: never).

    `module` has the engine and the connectors; `events`: the app is stopped once it has taken so many (0: never).
    """

    text: str
    until_end: bool
    identity: bool = False
    conf: dict[str, str] = {}
    at_most: float = 0.0
    module: str = "bench.timed"
    events: int = 0


class Plan(msgspec.Struct, frozen=True):
    """What a node has to do: `state` is its state folder, `conf` settings of Spark that go before ours."""

    state: str
    tasks: list[Task]
    master: str = "local[*,4]"
    conf: dict[str, str] = {}


class Batch(msgspec.Struct, frozen=True):
    """A batch by the number of its cut: begin (ms since the epoch), events, Spark's `durationMs`. Waiting for events is no part of it."""

    id: int
    begin: int
    events: int
    ms: dict[str, int]


def spark_only(conf: Mapping[str, str]) -> dict[str, str]:
    """Those of Spark, which hold for a node; the others hold for an app.

    >>> spark_only({"spark.ui.enabled": "true", "nadi.kernel": "auto"})
    {'spark.ui.enabled': 'true'}
    """
    return {name: value for name, value in conf.items() if name.startswith("spark.")}
