"""Ctrl-C and SIGTERM: a command stops in order, whoever reads what it says."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from nadi.cli.interrupts import STOPPED_AT_ONCE, stops


@pytest.mark.parametrize("gone", [BrokenPipeError("nobody reads"), RuntimeError("reentrant call"), None])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_one_asks_to_stop_though_its_sentence_reaches_nobody(
    number: signal.Signals, gone: Exception | None
) -> None:
    asked: list[str] = []

    def say(sentence: str) -> None:
        asked.append(sentence)
        if gone is not None:
            raise gone

    before = signal.getsignal(number)
    with stops(lambda: asked.append("stop"), say, "stopping"):
        signal.raise_signal(number)
        assert asked == ["stop", "stopping (once more: at once; the next start goes on where this one was)"]
    assert signal.getsignal(number) is before


TWICE = """
import signal
from nadi.cli.interrupts import stops
with stops(lambda: None, print, "stopping", "nothing is lost"):
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
    print("not reached", flush=True)
"""


def test_the_second_one_ends_the_process_at_once() -> None:
    done = subprocess.run([sys.executable, "-u", "-c", TWICE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == STOPPED_AT_ONCE
    assert done.stdout == "stopping (once more: at once; nothing is lost)\n"
