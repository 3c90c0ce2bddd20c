"""The example of a pair: one command starts it, it tells its story, Ctrl-C ends all of it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from nodes import MARK, environment, marked, until

RUN = Path(__file__).resolve().parents[2] / "examples" / "ha" / "run.py"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_example_loses_its_active_node_and_gets_it_back_counts_right_and_ends_with_all_that_it_started(
    tmp_path: Path,
):
    screen, mark = tmp_path / "screen", secrets.token_hex(8)
    with screen.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(RUN)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=environment(**{MARK: mark}),
        )

    def said() -> str:
        return screen.read_text(errors="replace")

    try:
        until(lambda: "Ctrl-C ends everything" in said() or process.poll() is not None, 800, said)
        assert process.poll() is None, said()
        for sentence in (
            "kill -9 node-",
            "is active, and goes on where node-",
            "has come back with an empty disk",
            "is active again: after",
            "the totals have counted 180 readings: each once",
        ):
            assert sentence in said()
        process.send_signal(signal.SIGINT)
        assert process.wait(200) == 130, said()
        until(lambda: not marked(mark), 60, said)
    finally:
        for left in marked(mark):
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        process.wait()
