"""The kill test of a cluster: whatever dies, is cut off or stands still, nothing acknowledged is lost, and what comes out is what the journal says.

    pytest tests/chaos/cluster --rounds 30 --seed 7 -s

Two managers and three workers, NATS and a database, as processes; one app of three groups, from http into a database, under load. Each round is one fault
(`clusterfaults`); then the app must run, and new events come out. Every few rounds, and at the end, senders rest, and everything is compared (`clusteroracle`).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from clusterfaults import FAULTS, deck
from clusterload import Sender
from clusteroracle import AWAY, Oracle
from clusterworld import ClusterWorld, cluster_world
from nodes import TRACE, Late

pytestmark = [pytest.mark.spark]

PATIENCE = 180.0  # seconds after a fault within which new events must come out
COMPARED = 6  # rounds between two comparisons
BURST = 0.3
"""How often the next fault comes while the cluster still recovers from the last one."""
PAUSES = (0.05, 0.08)  # seconds between two requests, of each sender


class Campaign:
    """The faults of a run."""

    def __init__(self, world: ClusterWorld, oracle: Oracle, senders: list[Sender], dice: random.Random) -> None:
        self._world = world
        self._oracle = oracle
        self._senders = senders
        self._dice = dice
        self._began = time.monotonic()
        self.history: list[str] = []
        self.kinds: Counter[str] = Counter()
        self.recoveries: list[float] = []

    def run(self, rounds: int, kinds: list[str]) -> None:
        cards = (
            iter(lambda: self._dice.choice(kinds), "") if kinds else deck(self._dice, self._world.database is not None)
        )
        compared = 0
        self.recovered()
        for number in range(1, rounds + 1):
            kind = next(cards)
            time.sleep(self._dice.uniform(0, 2))  # the moment of the fault
            self._say(f"round {number}: {kind}")
            what = FAULTS[kind](self._world, self._dice)
            self.kinds[kind] += 1
            self.history.append(f"round {number}, {kind}: {what}")
            if self._dice.random() < BURST and number < rounds:
                self._say(f"round {number}: {what}; and at once")
                continue
            took = self.recovered()
            self.recoveries.append(took)
            self._say(f"round {number}: {what}; again after {took:.1f} s")
            if number - compared >= COMPARED and number < rounds:
                self.compare()
                compared = number

    def recovered(self) -> float:
        """Wait until the app runs and what is sent now comes out. -> s"""
        began = time.monotonic()
        self._world.until(self._world.is_active, PATIENCE, "the app is active again")
        for sender in self._senders:
            before = sender.passing
            self._world.until(lambda: sender.passing != before, PATIENCE, "events are taken again")  # noqa: B023
            id_ = sender.passing
            self._world.until(lambda: self._arrived(id_), PATIENCE, f"event {id_} comes out")  # noqa: B023
        return time.monotonic() - began

    def _arrived(self, id_: str) -> bool:
        try:
            return self._oracle.arrived(id_)
        except AWAY:
            return False

    def compare(self) -> None:
        """Senders rest; then all must be there, and nothing else."""
        for sender in self._senders:
            sender.rest()
        try:
            self._world.until(self._complete, PATIENCE, "all rows come out")
        except Late as late:
            raise Late("\n".join([*self._oracle.missing(), str(late)])) from late
        told = self._oracle.wrong()
        assert not told, "\n".join(told)
        self._say(f"compared: {len(self._oracle.reference.ids)} events, {self._oracle.records} progress records")
        for sender in self._senders:
            sender.go_on()

    def _complete(self) -> bool:
        try:
            return self._oracle.complete()
        except AWAY:
            return False

    def _say(self, what: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {what}", flush=True)


def test_whatever_happens_to_a_cluster_what_comes_out_is_what_its_journal_says(
    tmp_path: Path, rounds: int, seed: int, kinds: list[str], request: pytest.FixtureRequest
) -> None:
    with cluster_world(tmp_path) as world:
        senders = [Sender(f"s{n}", seed, world.addresses, world.port, pause) for n, pause in enumerate(PAUSES)]
        oracle = Oracle(world, senders)
        campaign = Campaign(world, oracle, senders, random.Random(seed))
        try:
            for sender in senders:
                sender.start()
            campaign.run(rounds, kinds)
            campaign.compare()
        except (AssertionError, Late) as failure:
            told = [f"seed {seed}, state kept in {world.folder}", *campaign.history, str(failure)]
            raise AssertionError("\n".join(told)) from failure
        finally:
            for sender in senders:
                sender.stop()
            oracle.close()
        wrong = [one.name for one in world.nodes if hasattr(one, "node") and TRACE in one.node.said()]
        assert not wrong, world.said()
        text = report(campaign, oracle, senders, seed)
    request.config.stash.setdefault(request.getfixturevalue("reports"), []).append(text)


def report(campaign: Campaign, oracle: Oracle, senders: list[Sender], seed: int) -> str:
    """What was done and seen."""
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(campaign.kinds.items()))
    sent, known = sum(len(s.sent) for s in senders), sum(len(s.acknowledged) for s in senders)
    took = sorted(campaign.recoveries) or [0.0]
    return "\n".join(
        [
            f"{len(campaign.history)} rounds with seed {seed}: {kinds}",
            *campaign.history,
            f"events came out again {took[len(took) // 2]:.1f} s after a fault (max {took[-1]:.1f} s)",
            f"{sent} events sent, {known} acknowledged, {len(oracle.reference.ids)} in the journal",
            f"{oracle.records} progress records; epochs: "
            + ", ".join(f"{name} {epoch}" for name, epoch in sorted(oracle.epochs.items())),
        ]
    )
