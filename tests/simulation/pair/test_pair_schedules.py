from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pairplanted import PLANTED, planted
from pairrun import PAIR
from simrun import Found, first_found, replay, run, schedules

HERE = Path(__file__).parent
SEEDS = (3, 24, 309)


@pytest.mark.parametrize("half", [0, 1])  # so that two processes can share them
def test_schedules_of_a_pair_find_nothing(half: int, number: int, first_seed: int) -> None:
    """Two nodes of the production modules, each with what goes wrong around it."""
    first = (number + 1) // 2
    for outcome in schedules(first_seed + half * first, number - first if half else first, PAIR):
        if isinstance(outcome, Found):
            pytest.fail(str(outcome), pytrace=False)


def test_a_seed_of_a_pair_is_the_same_again_in_another_process() -> None:
    code = f"from simrun import run; from pairrun import PAIR; print([run(seed, PAIR).trace for seed in {SEEDS}])"
    traces = set()
    for hashing in ("1", "2"):
        path = os.pathsep.join([str(HERE), str(HERE.parent), *sys.path])
        environment = {**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        traces.add(done.stdout.strip())
    assert traces == {str([run(seed, PAIR).trace for seed in SEEDS])}  # type: ignore[union-attr]


def test_a_schedule_of_a_pair_that_finds_something_says_how_to_replay_it() -> None:
    with planted("a node takes over that is not in the set"):
        found = first_found(1, 200, PAIR)
        assert found is not None
        seed = found[1].seed
        assert run(seed, PAIR) == found[1]
    assert not isinstance(run(seed, PAIR), Found)
    assert replay(seed, PAIR.folder) in str(found[1])


# Found within so many schedules from seed 1 on: those that take longer are looked for by the slow test below.
QUICK = (
    "a node does not keep its promise",
    "a node takes over that is not in the set",
    "a node that has lost its disk counts as the one before",
    "a take-over keeps the token",
    "the partner is taken out of the set after the acknowledgement",
    "the partner is not taken out of the set",
    "the partner is put into the set before it has all",
    "what was under way before a session is not waited for",
    "a partner in the set is not needed",
)


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_of_a_pair_is_found_soon(name: str) -> None:
    with planted(name):
        assert first_found(1, 600, PAIR) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PLANTED.keys() - set(QUICK)))
def test_a_planted_bug_of_a_pair_is_found_within_10000_schedules(name: str) -> None:
    with planted(name):
        assert first_found(1, 10_000, PAIR) is not None
