"""The examples that start servers and nodes: one command starts all of it, they tell their story, and end with all that they have started."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from nodes import MARK, environment, marked, until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LOST = (
    "kill -9 worker-", "goes on at worker-", "kill -9 manager-", "leads now", "nothing is lost, nothing is there twice",
)  # fmt: skip
BACK = (
    "kill -9 node-", "is active, and goes on where node-", "has come back with an empty disk", "is active again: after",
    "the totals have counted 180 readings: each once",
)  # fmt: skip
TWICE = ("came through both centres", "the app goes on", "the app was killed meanwhile", "120 have counted")


class Example:
    """One that runs, as whoever calls it from a shell sees it."""

    def __init__(self, name: str, folder: Path) -> None:
        self._mark, self._screen = secrets.token_hex(8), folder / "screen"
        with self._screen.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(EXAMPLES / name / "run.py")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=environment(**{MARK: self._mark}),
            )

    def said(self) -> str:
        return self._screen.read_text(errors="replace")

    def until(self, sentence: str) -> None:
        """Wait until it says so."""
        until(lambda: sentence in self.said() or self.process.poll() is not None, 800, self.said)
        assert sentence in self.said()

    def gone(self) -> None:
        """Wait until nothing of it is left."""
        until(lambda: not marked(self._mark), 60, self.said)

    def kill(self) -> None:
        for left in marked(self._mark):
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Callable[[str], Example]]:
    """Starts one."""
    started: list[Example] = []

    def start(name: str) -> Example:
        started.append(Example(name, tmp_path))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "story"), [("cluster", LOST), ("ha", BACK)], ids=["cluster", "pair"])
def test_an_example_tells_its_story_counts_right_and_goes_on_until_ctrl_c(
    name: str, story: tuple[str, ...], example: Callable[[str], Example]
):
    run = example(name)
    run.until("Ctrl-C ends everything")
    assert run.process.poll() is None, run.said()
    assert [sentence for sentence in story if sentence not in run.said()] == []
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(200) == 130, run.said()
    run.gone()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_example_of_two_data_centres_tells_its_story_counts_right_and_ends(example: Callable[[str], Example]):
    run = example("datacentres")
    assert run.process.wait(800) == 0, run.said()
    assert [sentence for sentence in TWICE if sentence not in run.said()] == []
    run.gone()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "number"),
    [("cluster", signal.SIGTERM), ("ha", signal.SIGHUP)],
    ids=["an orderly end", "a closed terminal"],
)
def test_a_signal_that_comes_twice_while_an_example_starts_ends_all_that_it_has_started(
    name: str, number: signal.Signals, example: Callable[[str], Example]
):
    run = example(name)
    run.until("The database")
    for _ in range(2):
        run.process.send_signal(number)
    assert run.process.wait(200) == 128 + number, run.said()
    assert "Ended." in run.said()
    run.gone()
