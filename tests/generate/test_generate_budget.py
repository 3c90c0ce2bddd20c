"""Generated cases within a budget: planted tests, in a project of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.generate.budget import SLICE, Dice
from tests.suites.outcome import Outcome
from tests.suites.processes import Processes

HERE = Path(__file__).parents[2]
CONFTEST = """
from tests.generate.budget import dice

def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=None)

def pytest_configure(config):
    dice.begin(config)
"""
PLANTED = """
from pathlib import Path
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generate.budget import Examples

@Examples(settings(deadline=None, database=None), seconds={seconds})
@given(number=st.integers(0, 1_000_000_000))
def test_it(number):
    with (Path(__file__).parent / "numbers").open("a") as file:
        file.write(f"{{number}}\\n")
    assert {holds}
"""

Run = Callable[..., tuple[Outcome, list[int]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run one generated test, with these options; -> what came out, and the numbers that it was given."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds
    for name in (Dice.VARIABLE, "NADI_GENERATE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    processes = Processes(tmp_path, tmp_path / "outputs")

    def runs(*options: str, seconds: float = 0.0, holds: str = "True") -> tuple[Outcome, list[int]]:
        (tmp_path / "test_a.py").write_text(PLANTED.format(seconds=seconds, holds=holds))
        (tmp_path / "numbers").unlink(missing_ok=True)
        outcome = processes.run(f"run{len(os.listdir(tmp_path / 'outputs'))}", options, live=False)
        return outcome, [int(line) for line in (tmp_path / "numbers").read_text().split()]

    return runs


def test_a_test_without_time_left_has_one_slice_of_examples(run: Run):
    outcome, numbers = run()
    assert outcome.green
    assert len(numbers) == SLICE


def test_a_test_with_time_has_more_slices_and_none_is_like_another(run: Run):
    _outcome, numbers = run(seconds=0.5)
    assert len(numbers) > 3 * SLICE
    assert len(set(numbers)) > len(numbers) / 2


def test_generated_tests_are_marked_for_who_runs_more_cases_of_them(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NADI_GENERATE", "37")
    outcome, numbers = run("-m", "generated")
    assert outcome.green
    assert len(numbers) == 37


def test_each_run_has_other_dice_and_a_seed_has_the_same(run: Run):
    assert run()[1] != run()[1]
    assert run("--seed", "7")[1] == run("--seed", "7")[1]
    assert run("--seed", "7")[1] != run("--seed", "8")[1]


def test_what_fails_is_noted_with_its_seed_and_fails_again_with_it(run: Run):
    (failure,) = run(seconds=1.0, holds="number < 500_000_000")[0].failures
    assert failure.seed is not None
    (again,) = run("--seed", str(failure.seed), seconds=1.0, holds="number < 500_000_000")[0].failures
    assert again.name == failure.name
