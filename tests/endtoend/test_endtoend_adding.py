"""`nadi app add` and `nadi app remove` against a node that runs."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from httpclient import post
from nodes import TRACE, events, nadi, running
from servers.ports import free_port
from test_endtoend_crashes import jvm

from nadi.pipeline.node import is_locked

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

SUMS = """@app:name('{name}')
@source(type = 'http', receiver.url = 'http://127.0.0.1:{port}/{name}', @map(type = 'json'))
define stream In (n long);
@sink(type = 'file', file.uri = '{out}', @map(type = 'json'))
define stream Out (n long, total long);
from In select n, sum(n) as total insert into Out;
"""
WRONG = "@app:name('Wrong') define stream In (n long); from Inn select n insert into Out;"


class App:
    """An app that sums up what is sent to it, and what was sent."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        self.name, self.out, self.file = name, folder / f"{name}.jsonl", folder / f"{name}.siddhi"
        self.url = f"http://127.0.0.1:{port}/{name}"
        self.sent: list[int] = []
        self.file.write_text(SUMS.format(name=name, port=port, out=self.out))

    def send(self) -> int:
        """Send the next number; -> the status."""
        number = len(self.sent) + 1
        status = post(self.url, json.dumps({"event": {"n": number}}).encode())[0]
        if status == 202:
            self.sent.append(number)
        return status

    def answered(self) -> bool:
        """Whether there is a row for each event."""
        return len(events(self.out)) >= len(self.sent)

    def check(self) -> None:
        """Each event has one row, in order, with the sum over all runs."""
        wanted = [{"n": n, "total": n * (n + 1) // 2} for n in self.sent]
        assert events(self.out) == wanted


@contextmanager
def traffic(app: App) -> Iterator[None]:
    """Events, one after the other, for the time of a block; each must be accepted."""
    over = threading.Event()
    refused: list[int] = []

    def send() -> None:
        while not over.wait(0.02):
            if (status := app.send()) != 202:
                refused.append(status)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert refused == []


def test_apps_enter_and_leave_while_another_goes_on_and_come_back_with_their_state(tmp_path: Path):
    port, state = free_port(), tmp_path / "state"
    first, second = App(tmp_path, "First", port), App(tmp_path, "Second", port)

    def ask(*words: object) -> str:
        done = nadi("app", *words, "--state-dir", state)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with running(first.file, state=state, conf={"hosts": 1}) as node:
        node.until(lambda: is_locked(state))
        assert ask("add", second.file) == "Second: running\n"  # it waits for the node to start
        node.until(lambda: first.send() == 202)
        with traffic(first):
            assert second.send() == 202
            node.until(second.answered)
            assert ask("remove", "Second") == "Second: stopped\n"
            assert second.send() == 503
            assert ask("add", second.file) == "Second: running\n"
            assert second.send() == 202
            node.until(second.answered)

            twice = nadi("app", "add", second.file, "--state-dir", state)
            assert (twice.returncode, "[APP_RUNS]" in twice.stderr) == (1, True), twice.stderr
            unknown = nadi("app", "remove", "Secnd", "--state-dir", state)
            assert unknown.returncode == 1
            assert "[APP_NOT_ON_NODE]" in unknown.stderr
            assert "did you mean 'Second'?" in unknown.stderr
        node.until(first.answered)

        os.kill(jvm(node), signal.SIGKILL)
        assert (first.send(), second.send()) == (202, 202)
        node.until(lambda: first.answered() and second.answered())

        node.signal(signal.SIGINT)
        assert node.wait() == 0
        said = node.said()
        assert f"First: stopped, {len(first.sent)} events in" in said
        assert "Second: stopped, 3 events in" in said
        assert TRACE not in said
    first.check()
    second.check()
    late = nadi("app", "add", second.file, "--state-dir", state)
    assert (late.returncode, "[NODE_NOT_RUNNING]" in late.stderr) == (1, True), late.stderr


def test_a_text_that_is_wrong_is_told_as_nadi_run_tells_it_before_a_node_is_looked_for(tmp_path: Path):
    (tmp_path / "wrong.siddhi").write_text(WRONG)
    done = nadi("app", "add", tmp_path / "wrong.siddhi", "--state-dir", tmp_path / "state")
    run = nadi("run", tmp_path / "wrong.siddhi", "--state-dir", tmp_path / "state")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{tmp_path}/wrong.siddhi:1:52: [STREAM_NOT_DEFINED]" in done.stderr
    assert done.stderr.strip() in run.stdout + run.stderr
