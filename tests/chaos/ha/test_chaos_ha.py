"""The kill test of a pair: whatever dies, is cut off or stands still, nothing acknowledged is lost or counted twice, and what comes out is what the logs say.

    pytest tests/chaos/ha --rounds 40 --seed 7 -s [--load 5000] [--kinds active,switch]

Two real nodes, PostgreSQL, Kafka and Mosquitto; one app with sources of http, Kafka and MQTT under load. Each round is one fault (`hafaults`); then the pair
must be in sync again, and new rows come out. In each round a revision is asked for (`harevisions`). Every few rounds, and at the end, senders rest, and
everything is compared (`haoracle`).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hafaults import FAULTS, Struck, deck
from haload import SIZE, HttpLoad, KafkaLoad, Load, MqttLoad
from haoracle import AWAY, Oracle, keyed_counts
from harevisions import Asking
from harows import Rows
from haworld import PairWorld, Watch, pair_world
from nodes import TRACE, Late
from servers.databases import NotPossible as NoDatabase
from servers.mosquitto import NotPossible as NoMosquitto

pytestmark = [pytest.mark.spark]

PATIENCE = 240.0  # seconds after a fault within which the pair must be in sync, and rows come out
COMPARED = 4  # rounds between two comparisons
SETTLED = 0.3
"""Seconds after a kill in which rows of the dead node may still be read."""
LOAD = 5_000  # events a second
SHARES = {"keyed 1": 0.2, "keyed 2": 0.2, "bare 1": 0.1, "bare 2": 0.1, "kafka": 0.3, "mqtt": 0.1}
"""Of the load, by sender: clients of http with idempotency keys, and without."""


class Campaign:
    """The faults of a run."""

    def __init__(
        self, world: PairWorld, oracle: Oracle, loads: Sequence[Load], rows: Rows, dice: random.Random
    ) -> None:
        self._world, self._oracle, self._loads, self._rows, self._dice = world, oracle, loads, rows, dice
        self._began = time.monotonic()
        self.asking = Asking(world)
        self.history: list[str] = []
        self.kinds: Counter[str] = Counter()
        self.takeovers: list[float] = []
        self.switches: list[float] = []
        self.compared = 0

    def begin(self) -> None:
        """Before the senders begin: make the first revision, to which the logs reach back from then on. There are two cuts by then, one of a body and one of a
        timer after it. The cut before that of the revision stays, so none goes that was not taken."""
        first = next(one for one in self._loads if isinstance(one, HttpLoad))
        self._world.until(first.send_first, PATIENCE, "a body is taken")
        self._world.until(lambda: self._followed() and self._oracle.cuts, PATIENCE, "a cut is made")
        self._world.until(self.asking.made, PATIENCE, "a revision is made")
        self.asking.outcomes.clear()  # there is none until something is committed

    def run(self, rounds: int, kinds: list[str]) -> None:
        cards = iter(lambda: self._dice.choice(kinds), "") if kinds else deck(self._dice)
        self._recovered(time.monotonic())
        for number in range(1, rounds + 1):
            kind = next(cards)
            dice = random.Random(self._dice.random())  # a fault takes what it needs; the next ones stay as they are
            self.asking.ask(number)
            time.sleep(dice.uniform(0, 2))  # the moment of the fault
            self._say(f"round {number}: {kind}")
            struck = FAULTS[kind](self._world, dice)
            self.kinds[kind] += 1
            took = self._recovered(time.monotonic())
            self.history.append(f"round {number}, {kind}: {struck.what}; in sync after {took:.1f} s{self._out(struck)}")
            self._say(self.history[-1])
            if number % COMPARED == 0 and number < rounds:
                self.compare()

    def _out(self, struck: Struck) -> str:
        """When something came out again, after a kill or a switch."""
        if not struck.killed:
            return ""
        if struck.planned:  # the node that hands over writes on until it does
            self.switches.append(self._rows.longest_after(struck.killed))
            return f"; no rows for {self.switches[-1]:.1f} s"
        first = self._rows.first_after(struck.killed + SETTLED)
        assert first is not None
        self.takeovers.append(first - struck.killed)
        return f"; first row after {self.takeovers[-1]:.1f} s"

    def _recovered(self, struck: float) -> float:
        """Wait until the pair is in sync, bodies of each sender are taken and rows come out, and take what is in the logs. -> s"""
        self._world.until(self._world.in_sync, PATIENCE, "the pair is in sync")
        took = time.monotonic() - struck
        for load in self._loads:
            before = len(load.acknowledged)
            self._world.until(lambda: len(load.acknowledged) > before, PATIENCE, f"{load.name} goes on")  # noqa: B023
        now = time.monotonic()
        self._world.until(lambda: self._rows.first_after(now), PATIENCE, "rows come out")
        self._world.until(self._followed, PATIENCE, "the logs can be read")
        return took

    def _followed(self) -> bool:
        try:
            self._oracle.follow()
        except AWAY:
            return False
        return True

    def compare(self) -> None:
        """Senders rest; then all must be there, on both nodes, and nothing else."""
        for load in self._loads:
            load.rest()
        try:
            self._world.until(self._complete, PATIENCE, "all rows come out")
        except Late as late:
            raise Late("\n".join([self._oracle.state(), *self._oracle.wrong(), str(late)])) from late
        self._world.until(self._world.in_sync, PATIENCE, "the pair is in sync")
        self._world.until(self.asking.made, PATIENCE, "a revision is made")
        told = [*self._oracle.wrong(), *self.asking.wrong()]
        assert not told, "\n".join(told)
        self.compared += 1
        self._say(f"compared: {sum(self._oracle.events.values())} events, {self._oracle.cuts} cuts")
        for load in self._loads:
            load.go_on()

    def _complete(self) -> bool:
        try:
            return self._oracle.complete()
        except AWAY:
            return False

    def _say(self, what: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {what}", flush=True)


@pytest.fixture
def load(request: pytest.FixtureRequest) -> int:
    given: int | None = request.config.getoption("load", None)
    return LOAD if given is None else given


def senders(world: PairWorld, seed: int, load: int) -> list[Load]:
    """Who sends, so that they send as many events a second as `load` together."""
    made: list[Load] = []
    for name, share in SHARES.items():
        pause = SIZE / (load * share)
        if name == "kafka":
            made.append(KafkaLoad(seed, pause, world.broker.address))
        elif name == "mqtt":
            made.append(MqttLoad(seed, pause, world.mqtt.port))
        else:
            keyed = name.startswith("keyed")
            made.append(HttpLoad(name.replace(" ", ""), seed, pause, world.addresses, world.port, keyed))
    return made


def test_whatever_happens_to_a_pair_each_event_counts_once_and_what_comes_out_is_what_its_logs_say(
    tmp_path: Path,
    broker_module: Any,
    rounds: int,
    seed: int,
    load: int,
    kinds: list[str],
    request: pytest.FixtureRequest,
) -> None:
    try:
        _campaign(tmp_path, broker_module, rounds, seed, load, kinds, request)
    except (NoDatabase, NoMosquitto, broker_module.NotPossible) as reason:
        pytest.skip(str(reason))


def _campaign(
    folder: Path,
    broker_module: Any,
    rounds: int,
    seed: int,
    load: int,
    kinds: list[str],
    request: pytest.FixtureRequest,
) -> None:
    with pair_world(folder, broker_module) as world:
        loads, rows, watch = senders(world, seed, load), Rows(world.broker.address), Watch(world)
        oracle = Oracle(world, loads, rows)
        campaign = Campaign(world, oracle, loads, rows, random.Random(seed))
        began = time.monotonic()
        try:
            campaign.begin()
            for each in (rows, watch, *loads):
                each.start()
            campaign.run(rounds, kinds)
            campaign.compare()
            assert not (told := watch.wrong()), told
        except (AssertionError, Late) as failure:
            told = [f"seed {seed}, state kept in {world.folder}", *campaign.history, str(failure)]
            raise AssertionError("\n".join(told)) from failure
        finally:
            for each in (*loads, watch, rows):
                each.stop()
            oracle.close()
        wrong = [one.id for one in world.nodes if TRACE in one.node.said()]
        assert not wrong, world.said()
        text = report(campaign, oracle, loads, watch, seed, time.monotonic() - began)
    request.config.stash.setdefault(request.getfixturevalue("reports"), []).append(text)


def report(campaign: Campaign, oracle: Oracle, loads: Sequence[Load], watch: Watch, seed: int, seconds: float) -> str:
    """What was done and seen."""
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(campaign.kinds.items()))
    outcomes = ", ".join(f"{what} {count}" for what, count in sorted(campaign.asking.outcomes.items()))
    taken = sum(oracle.events.values())
    known = SIZE * sum(len(one.acknowledged) for one in loads)
    return "\n".join(
        [
            f"{len(campaign.history)} rounds with seed {seed}: {kinds}",
            *campaign.history,
            f"from kill to first row: {spread(campaign.takeovers)}",
            f"without a row at a switch: {spread(campaign.switches)}",
            f"{known} events acknowledged, {taken} in the logs, {taken / seconds:.0f} a second; {keyed_counts(oracle, loads)}",
            f"revisions that were asked for: {outcomes}",
            f"{oracle.cuts} cuts of {oracle.epochs} runs, {len(watch.active)} tokens; compared {campaign.compared} times",
        ]
    )


def spread(values: Sequence[float]) -> str:
    """Median and maximum.

    >>> spread([1.0, 2.0, 9.0])
    'median 2.0 s, max 9.0 s (3 times)'
    """
    if not values:
        return "not measured"
    return f"median {median(values):.1f} s, max {max(values):.1f} s ({len(values)} times)"
