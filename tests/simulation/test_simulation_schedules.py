from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from planted import PLANTED, planted
from simrun import Found, first_found, replay, run, schedules

from nadi.cluster import reconciliation

HERE = Path(__file__).parent


@pytest.mark.parametrize("half", [0, 1])  # so that two processes can share them
def test_schedules_find_nothing(half: int, number: int, first_seed: int) -> None:
    """Whole clusters of the production modules, each with what goes wrong in it."""
    first = (number + 1) // 2
    for outcome in schedules(first_seed + half * first, number - first if half else first):
        if isinstance(outcome, Found):
            pytest.fail(str(outcome), pytrace=False)


def test_a_seed_is_the_same_again_in_another_process() -> None:
    code = "from simrun import run; print([run(seed).trace for seed in (3, 24, 309)])"
    traces = set()
    for hashing in ("1", "2"):
        path = os.pathsep.join([str(HERE), *sys.path])
        environment = {**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        traces.add(done.stdout.strip())
    assert traces == {str([run(seed).trace for seed in (3, 24, 309)])}  # type: ignore[union-attr]


def test_a_schedule_that_finds_something_says_how_to_replay_it() -> None:
    with planted("an instance moves before it has stopped"):
        found = first_found(1, 100)
        assert found is not None
        seed = found[1].seed
        assert f"--schedules 1 --seed {seed}" in str(found[1])
        assert run(seed) == found[1]
    assert not isinstance(run(seed), Found)
    assert replay(seed) == f"pytest tests/simulation -k find_nothing --schedules 1 --seed {seed}"


# Found within so many schedules from seed 1 on: those that take longer are looked for by the slow test below.
QUICK = (
    "writes carry no token",
    "a manager takes a lease that is not over",
    "a new leader keeps the token",
    "a worker does not stop when its lease ends",
    "a new leader does not wait for the leases of the one before",
    "a start keeps the epoch of the one before",
    "epochs are forgotten with the instance",
    "a waiting app is forgotten",
    "a commit of unknown outcome is taken for not made",
    "a commit of unknown outcome is taken for made",
    "an instance moves before it has stopped",
    "a worker that was started again is taken for the one before",
    "a write is acknowledged before it is in the database",
    "a worker starts an epoch twice",
    "an instance that has not drained counts as one that has",
    "a worker that leaves is gone before it has stopped",
    "a leader counts a worker's lease too short",
)


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_found_soon(name: str) -> None:
    with planted(name):
        assert first_found(1, 150) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PLANTED.keys() - set(QUICK)))
def test_a_planted_bug_is_found_within_10000_schedules(name: str) -> None:
    with planted(name):
        assert first_found(1, 10_000) is not None


def test_a_duty_that_fails_is_found() -> None:
    def fails(_ledger: object, _about: object) -> None:
        raise ZeroDivisionError

    with patch.object(reconciliation, "STEPS", (fails,)):
        found = run(1)
    assert isinstance(found, Found)
    assert "ZeroDivisionError" in found.broken
