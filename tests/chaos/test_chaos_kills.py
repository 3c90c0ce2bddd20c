"""The kill test: whatever is killed, and whenever, the sinks hold exactly what the reference makes of the recorded inputs and the cut log.

    pytest tests/chaos --rounds 20 --seed 7 --pools both

Three apps run in one node: one from Kafka to Kafka, one from http (through the journal) into a file and to NATS, a small one from http into a file; the last
two share a query of Spark, or each app has its own. In each round one thing is killed (or the node stopped), at a random moment or at one that is chosen, while
producers send on and revisions are made; up to three faults come in a burst, the later ones while things still recover. Then all apps must write a cut that was
made after it. Beside all this the sinks are compared with the reference again and again: every row of a
committed cut is there, under its number and in its order per key-group, and nothing else is. At the end every acknowledged message has been taken exactly
once, and the revisions that are kept lead to the same rows.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from chaosapps import APPS, NAMES
from confluent_kafka.admin import AdminClient, NewTopic
from faults import Fault
from nodes import TRACE, Late
from piling import files, left_over, more_memory, too_many
from report import Report
from revisions import Asking
from servers.ports import free_port
from sides import AWAY, Judge, Sides
from strikes import deck, strike
from world import World

from nadi.io.natsserver import NatsServer

pytestmark = [pytest.mark.spark]

T = TypeVar("T")

PATIENCE = 300.0  # seconds after a burst within which all apps must write again
LOOK = 0.1
BURSTS = (1, 1, 2, 2, 3)
GAP = 2.5  # seconds between two faults of a burst, on average
FAILING = ("host", "half delta", "delta", "base", "twice", "move")
FAILURES = 2  # of these in a burst: after three without a cut in between an app ends (PIPELINE_FAILED)


@pytest.fixture
def world(broker_module: Any, tmp_path: Path, pools: bool) -> Iterator[World]:
    try:
        broker = broker_module.start(tmp_path / "kafka")
    except broker_module.NotPossible as reason:
        pytest.skip(str(reason))
    nats = NatsServer(tmp_path / "nats")
    nats.start()
    apps = tuple(tmp_path / f"{name}.siddhi" for name in APPS)
    made = World(tmp_path, apps, broker_module, broker, nats, pools, brokers=[broker])
    try:
        yield made
    finally:
        made.close()


def topics(address: str) -> None:
    wanted = [
        NewTopic("left", num_partitions=2),
        NewTopic("right", num_partitions=1),
        NewTopic("out", num_partitions=1),
    ]
    admin = AdminClient({"bootstrap.servers": address})  # must live as long as what it owes
    for created in admin.create_topics(wanted).values():
        created.result(60)


class Campaign:
    """The faults of a run, one after another."""

    def __init__(self, world: World, sides: Sides, judge: Judge, asking: Asking, dice: random.Random, report: Report):
        self._world = world
        self._sides = sides
        self._judge = judge
        self._asking = asking
        self._dice = dice
        self._report = report
        self._open: list[Fault] = []
        self._began = time.monotonic()

    def run(self, rounds: int) -> None:
        """So many rounds. Errors: Late, AssertionError."""
        cards = deck(self._dice)
        burst: list[str] = []
        wanted = self._dice.choice(BURSTS)
        self._wait(self._dice.uniform(0, 1.5))
        for number in range(1, rounds + 1):
            kind = next(cards)
            if len(burst) == wanted or (kind in FAILING and sum(k in FAILING for k in burst) == FAILURES):
                self._recovered(len(burst))
                burst, wanted = [], self._dice.choice(BURSTS)
                self._wait(self._dice.uniform(0, 1.5))
            elif burst:
                self._wait(min(3 * GAP, self._dice.expovariate(1 / GAP)))
            burst.append(kind)
            self._strike(number, kind)
        self._recovered(len(burst))

    def _strike(self, number: int, kind: str) -> None:
        self._alive()
        fault = strike(kind, self._world, self._dice, self._asking)
        self._report.faults.append(fault)
        self._open.append(fault)
        self._say(f"round {number}: {fault.what}")

    def _wait(self, seconds: float) -> None:
        """Until the random moment; meanwhile it is seen what becomes of the faults."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._look()
            time.sleep(min(LOOK, left))

    def _look(self) -> None:
        self._judge.check()
        self._open = [fault for fault in self._open if not fault.look()]

    def _alive(self) -> None:
        self._judge.check()
        if self._world.node.process.poll() is not None:
            raise Late(f"the node ended\n{self._world.node.said()[-6_000:]}")

    def _recovered(self, burst: int) -> None:
        """Wait until all that was struck has been seen to end and to come back, all apps have written a cut made after it, and no host is one too many."""
        began, at, slow, many = time.monotonic(), 0.0, "", ""
        before = self._sides.cut()
        while at == 0.0 or self._open or (many := too_many(self._world)):
            self._alive()
            self._look()
            if at == 0.0 and all(now > then for now, then in zip(self._sides.written(), before)):
                at = time.monotonic()
            slow = f"too many hosts: {many}" if at else f"no cut after {before}, written {self._sides.written()} "
            if time.monotonic() - began > PATIENCE:
                raise Late(slow + "; ".join(map(str, self._open)) + f"\n{self._world.node.said()[-6_000:]}")
            time.sleep(LOOK)
        self._report.memory = more_memory(self._report.memory, self._world)
        self._report.recoveries.append(at - began)
        self._report.bursts.append(burst)
        self._say(f"again after {at - began:.1f} s; cuts {self._sides.written()}")

    def _say(self, what: str) -> None:
        print(f"[{time.monotonic() - self._began:6.1f} s] {what}", flush=True)


def test_whatever_is_killed_the_sinks_hold_exactly_what_the_logs_say(
    world: World, rounds: int, seed: int, request: pytest.FixtureRequest
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    topics(world.broker.address)
    files = {"file": world.folder / "out.jsonl", "small": world.folder / "small.jsonl"}
    places = {"broker": world.broker.address, "url": url, "nats": world.nats.url, **files}
    for path, text in zip(world.apps, APPS.values(), strict=True):
        path.write_text(text.format(**places))
    world.start_node()
    sides = Sides(world, seed, url)
    judge, asking, report = Judge(sides), Asking(world, NAMES), Report(seed, world.pools)
    clock = time.monotonic()

    def phase(name: str) -> None:
        nonlocal clock
        report.phases.append((name, time.monotonic() - clock))
        clock = time.monotonic()

    try:
        for sender in sides.senders:
            sender.start()
        patiently(lambda: min(sides.written()) > 3, "the apps do not begin", world)
        judge.start()
        phase("start")
        Campaign(world, sides, judge, asking, random.Random(seed), report).run(rounds)
        judge.stop()
        phase("faults")
        finish(sides, world, asking, report)
        phase("end")
        assert judge.compared, f"nothing was compared while it ran: {judge.reason}"
    except (AssertionError, Late) as failure:
        history = [f"round {n}: {fault}" for n, fault in enumerate(report.faults, 1)]
        told = "\n".join([f"seed {seed}, state kept in {world.folder}", *history, str(failure)])
        raise AssertionError(told) from failure
    finally:
        sides.close()
    text = report.text(sides, judge, asking)
    request.config.stash.setdefault(request.getfixturevalue("reports"), []).append(text)


def patiently(holds: Callable[[], bool], what: str, world: World) -> None:
    """Wait until something holds; what is away while we look is asked again. Errors: Late."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            if holds():
                return
            reason = ""
        except AWAY as away:
            reason = str(away)
        if time.monotonic() > until or world.node.process.poll() is not None:
            raise Late(f"{what} {reason}\n{world.node.said()[-6_000:]}")
        time.sleep(LOOK)


def answered(ask: Callable[[], T]) -> T:
    """What is told once nothing is away: of a reader that was idle the broker may have closed the only connection. Errors: those of AWAY, after PATIENCE."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except AWAY:
            if time.monotonic() > until:
                raise
        time.sleep(LOOK)


def finish(sides: Sides, world: World, asking: Asking, report: Report) -> None:
    """Producers end, all that was acknowledged is taken, the node stops: now the sinks are exactly the reference."""
    for sender in sides.senders:
        sender.stop()

    def taken() -> bool:
        for reference in sides.references:
            reference.follow()
        return not sides.missing()

    patiently(taken, "acknowledged messages are not taken", world)
    world.node.signal(signal.SIGINT)
    assert world.node.wait() == 0, world.node.said()[-6_000:]
    for node in world.nodes:
        node.gone()
    with NatsServer(world.state / "nats") as journal:
        told = answered(lambda: sides.wrong(journal.url))
        assert not told, "\n".join(told)
        told = [line for reference in sides.references for line in asking.wrong(reference, journal.url)]
    assert not told, "\n".join(told)
    assert sides.written() == sides.cut() == tuple(reference.at for reference in sides.references)
    assert sides.missing() == sides.foreign() == []
    assert all(len(reference.rows) > 50 for reference in sides.references)
    assert TRACE not in world.node.said(), world.node.said()[-6_000:]
    assert not (told := [line for app in NAMES for line in left_over(world.state / app)]), "\n".join(told)
    report.files = [files(world.state / app) for app in NAMES]
    kept = [len(asking.kept(reference.app)) for reference in sides.references]
    assert all(kept), "a stop makes a revision, and there is none"
    report.revisions = f"{sum(kept)} are kept, and the cuts after each of them give the same rows"
