"""Distribution changes nothing: generated apps with random groups, parallelism and buckets, cut, and run through the whole pipeline on channels in memory.

Instances take cuts of random size in a random order, die before or after their sinks commit, and begin again in hosts that know nothing. What comes of it is
what the in-process runtime gives of the whole app: for each stream and key the same rows, in order, at the same times.

`--examples N` makes N apps, and another number of them at each run: hypothesis prints what it needs to repeat one that fails.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import channels_memory
import pytest
from channels_cluster import Clock, LocalCluster, whole
from generated import GRID, LATER, Generated, Messages, apps, messages
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from test_distribution_semantics import HEAD, RARE

from nadi.channels import transport
from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.plan.distribution import Topology, distribute
from tests.generate.budget import GENERATED

EXAMPLES = 40
MEMORY = Path("/dev/shm")  # a cut waits for the disk several times


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_open_of", lambda _kind: channels_memory.open_channel)


@pytest.fixture
def folder() -> Iterator[Path]:
    """For states, each in a folder of its own."""
    made = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    yield made
    shutil.rmtree(made)


def happens(cluster: LocalCluster, sent: Messages, chance: random.Random) -> None:
    """Messages come, instances move and die as chance has it; in the end nothing is left to do."""
    nodes = list(cluster.nodes)
    cluster.clock.now += LATER
    for steps, stream, k, v, times in sent:
        cluster.clock.now += steps * GRID
        cluster.send(stream, *[(k, v)] * times)
        for _ in range(chance.randrange(2 * len(nodes))):
            step(cluster, chance.choice(nodes), chance)
    cluster.advance(20 * GRID)


def step(cluster: LocalCluster, name: str, chance: random.Random) -> None:
    """A cut of an instance, or a word that there is none; now and then it dies."""
    fate = chance.random()
    if fate < 0.05:
        cluster.start(name)
    cluster.nodes[name].batch(settled=fate < 0.9, recorded=fate < 0.8)


def check(made: Generated, topology: Topology, sent: Messages, seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    channels_memory.CHANNELS.clear()
    with Clock().kept() as clock:
        cluster = LocalCluster(
            topology,
            Path(tempfile.mkdtemp(dir=folder)),
            clock,
            shaped=lambda spec: replace(
                spec, buckets=min(spec.buckets, chance.randint(1, 3)), max_events=chance.choice((1, 3, 1_000))
            ),
        )
        try:
            happens(cluster, sent, chance)
            assert cluster.per_key(*made.outputs) == whole(made.text, cluster.happened, *made.outputs)
        finally:
            cluster.close()


def test_a_generated_app_in_parts_gives_what_it_gives_as_a_whole(folder: Path, request: pytest.FixtureRequest) -> None:
    examples = request.config.getoption("--examples")

    @settings(
        GENERATED,
        max_examples=examples or EXAMPLES,
        phases=[phase for phase in GENERATED.phases if phase is not Phase.shrink],  # that takes minutes
        derandomize=False,
        print_blob=True,
    )
    @given(
        made=apps(scripts=False, sinks=True),
        kind=st.sampled_from(["nats", "kafka"]),
        sent=messages,
        seed=st.integers(0, 1 << 32),
    )
    def holds(made: Generated, kind: str, sent: Messages, seed: int) -> None:
        try:
            topology = distribute(made.text, default_registry(), connectors, transport=kind)
        except NadiError as refused:
            assume(not refused.condition.startswith("DIST_"))
            raise
        try:
            check(made, topology, sent, seed, folder)
        except Exception as reason:
            reason.add_note(f"{made.text}# sent: {sent}\n# seed {seed}, {kind}")
            raise

    holds()


@pytest.mark.parametrize("kind", ["nats", "kafka"])
@pytest.mark.parametrize("case", RARE)
def test_so_does_what_is_generated_rarely(folder: Path, case: str, kind: str) -> None:
    head = HEAD.replace("define stream Out", "@sink(type='log') define stream Out")
    made = Generated((head,), (RARE[case],), ("S", "R"), ("M", "Out", "Out2"))
    chance = random.Random(len(case))
    sent = [
        (chance.randint(1, 3), chance.choice("SR"), chance.choice("abcdefgh"), chance.randrange(6), 1)
        for _ in range(25)
    ]
    check(made, distribute(made.text, default_registry(), connectors, transport=kind), sent, len(case), folder)
