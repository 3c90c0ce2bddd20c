"""However a node ends, no process outlives the command, its next start goes on, and Spark's log is not on the screen."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nodes import TRACE, Node, events, run, running
from sums import APP, expected, made, per_key

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

COUNT = 30_000


class Terminal:
    """A terminal of 120 × 40; `text` is what was written to it."""

    def __init__(self) -> None:
        self._master, self.descriptor = pty.openpty()
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._parts: list[bytes] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        return b"".join(self._parts).decode(errors="replace")

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # nobody has the other end any more
            while part := os.read(self._master, 65_536):
                self._parts.append(part)

    def close(self) -> None:
        os.close(self.descriptor)
        self._thread.join(30)
        os.close(self._master)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.fixture
def long_app(tmp_path: Path) -> Path:
    """An app with enough input for many batches."""
    given = made(COUNT)
    rows = [json.dumps({"event": {"k": k, "request": request, "n": n}}) for k, request, n in given]
    (tmp_path / "in.jsonl").write_text("\n".join(rows) + "\n")
    source, sink = (f"type = 'file', file.uri = '{tmp_path}/{name}.jsonl'" for name in ("in", "out"))
    path = tmp_path / "sums.siddhi"
    path.write_text(APP.format(source=source, sink=sink, every=1))
    return path


def quiet(screen: str) -> None:
    """Nothing of Spark, of Java or of a stack trace is on the screen."""
    for word in (TRACE, "org.apache", "py4j", "WARN", "ERROR", "Exception", "log4j", "KeyboardInterrupt"):
        assert word not in screen, screen


def left_nothing(node: Node) -> None:
    """After an orderly end: at once."""
    assert node.processes() == set(), node.commands()


SMALL: dict[str, Any] = {"batch.events": 250, "buckets": 2, "hosts": 2}


def to_the_end(app: Path, folder: Path) -> str:
    """Run what is left of the input; -> what was said. Every event is in the result once."""
    assert len(events(folder / "out.jsonl")) < COUNT
    said = run(app, state=folder / "state", conf={"batch.events": 0})
    assert per_key(events(folder / "out.jsonl")) == expected(made(COUNT))
    return said


@pytest.mark.slow
def test_a_node_that_is_stopped_on_its_terminal_finishes_the_batch_and_goes_on_later(
    long_app: Path, tmp_path: Path, terminal: Terminal
):
    with running(long_app, state=tmp_path / "state", conf=SMALL, terminal=terminal.descriptor) as node:
        node.until(lambda: node.taken("Sums") >= 500)
        node.until(lambda: "Sums" in terminal.text)
        node.signal(signal.SIGINT)
        assert node.wait() == 0, terminal.text
        left_nothing(node)
    shown, taken = terminal.text, node.taken("Sums")
    assert "stopping after this batch" in shown
    assert f"Sums: stopped, {taken:,} events in, {taken:,} out" in shown
    assert "╭" in shown  # a panel
    assert "events/s" in shown
    quiet(shown)
    assert per_key(events(tmp_path / "out.jsonl")) == expected(made(taken))

    said = to_the_end(long_app, tmp_path)
    quiet(said)
    assert f"Sums: finished, {COUNT:,} events in, {COUNT:,} out" in said
    assert (tmp_path / "state" / "logs" / "spark.log").exists()


@pytest.mark.slow
def test_a_second_ctrl_c_ends_the_node_at_once_and_it_goes_on_later(long_app: Path, tmp_path: Path):
    with running(long_app, state=tmp_path / "state", conf=SMALL) as node:
        node.until(lambda: node.taken("Sums") >= 500)
        node.signal(signal.SIGINT)
        node.until(lambda: "stopping after this batch" in node.said())
        node.signal(signal.SIGINT)
        assert node.wait(20) == 130
        node.gone()
    quiet(node.said())
    assert "╭" not in node.said()  # lines, where the screen is no terminal
    to_the_end(long_app, tmp_path)


@pytest.mark.slow
def test_a_kill_of_the_command_alone_takes_everything_with_it(long_app: Path, tmp_path: Path):
    with running(long_app, state=tmp_path / "state", conf=SMALL) as node:
        node.until(lambda: node.taken("Sums") >= 500)
        assert len(node.processes()) > 4
        node.kill_driver()
        node.gone()
    to_the_end(long_app, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "number"),
    [("starting Spark", signal.SIGINT), ("starting Spark", signal.SIGTERM), ("Sums: starting", signal.SIGINT)],
)
def test_a_signal_at_any_time_of_the_start_ends_the_node_in_order(
    long_app: Path, tmp_path: Path, when: str, number: signal.Signals
):
    with running(long_app, state=tmp_path / "state", conf={"batch.events": 250}) as node:
        node.until(lambda: when in node.said())
        node.signal(number)
        assert node.wait() == 0, node.said()
        left_nothing(node)
    quiet(node.said())
    assert "Sums: stopped" in node.said()
