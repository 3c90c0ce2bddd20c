"""The examples that start servers and nodes: one command starts all of it, they tell their story, and end with all that they have started."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nodes import MARK, Node, environment

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LOST = (
    "kill -9 worker-", "goes on at worker-", "kill -9 manager-", "leads now", "nothing is lost, nothing is there twice",
)  # fmt: skip
BACK = (
    "kill -9 node-", "is active, and goes on where node-", "has come back with an empty disk", "is active again: after",
    "the totals have counted 180 readings: each once",
)  # fmt: skip
TWICE = ("came through both centres", "the app goes on", "the app was killed meanwhile", "120 have counted")


Start = Callable[[str], Node]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the example of a name as a shell does; nothing of it is left behind."""
    started: list[Node] = []

    def run(name: str) -> Node:
        screen, mark = tmp_path / "screen", secrets.token_hex(8)
        with screen.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, str(EXAMPLES / name / "run.py")],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=environment(**{MARK: mark}),
            )
        started.append(Node(process, mark, tmp_path, screen))
        return started[-1]

    yield run
    for each in started:
        each.kill_tree()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "story"), [("cluster", LOST), ("ha", BACK)], ids=["cluster", "pair"])
def test_an_example_tells_its_story_counts_right_and_goes_on_until_ctrl_c(
    name: str, story: tuple[str, ...], start: Start
):
    run = start(name)
    run.until(lambda: "Ctrl-C ends everything" in run.said(), 800)
    assert run.process.poll() is None, run.said()
    assert [sentence for sentence in story if sentence not in run.said()] == []
    run.process.send_signal(signal.SIGINT)
    assert run.wait(200) == 130, run.said()
    run.gone(60)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_example_of_two_data_centres_tells_its_story_counts_right_and_ends(start: Start):
    run = start("datacentres")
    assert run.wait(800) == 0, run.said()
    assert [sentence for sentence in TWICE if sentence not in run.said()] == []
    run.gone(60)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "number"),
    [("cluster", signal.SIGTERM), ("ha", signal.SIGHUP)],
    ids=["an orderly end", "a closed terminal"],
)
def test_a_signal_that_comes_twice_while_an_example_starts_ends_all_that_it_has_started(
    name: str, number: signal.Signals, start: Start
):
    run = start(name)
    run.until(lambda: "The database" in run.said(), 800)
    for _ in range(2):
        run.process.send_signal(number)
    assert run.wait(200) == 128 + number, run.said()
    assert "Ended." in run.said()
    run.gone(60)
