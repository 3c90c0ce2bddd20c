"""An http target that refuses rows, and changes its mind: whatever step a process dies at, each row is delivered or comes back, and that once."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pipeline_local
import pytest
from pipeline_local import LocalNode

from nadi.io import durablefiles
from nadi.io.sinks import ledger
from nadi.pipeline.coordinator import ledger as cutledger
from nadi.pipeline.cutting import commitlog, cutlog
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import needed_outputs
from nadi.pipeline.spec import AppSpec

APP = """@app:name('A')
@source(type = 'file', file.uri = '{folder}/in.jsonl', @map(type = 'json')) define stream In (n int);
@sink(type = 'http', publisher.url = '{url}', on.error = 'STREAM', @map(type = 'json'))
@OnError(action = 'STREAM') define stream Out (n int);
@sink(type = 'http', publisher.url = '{url}/stored', on.error = 'STORE', @map(type = 'json')) define stream Stored (n int);
@sink(type = 'file', file.uri = '{folder}/refused.jsonl', @map(type = 'json')) define stream Refused (n int);
from In select n insert into Out;
from In select n insert into Stored;
from !Out select n insert into Refused;
"""
COUNT = 12
PER_CUT = 5


class Crash(BaseException):
    """The process ends here."""


class Dying:
    """Dies before, after or half-way through the n-th of the steps that leave something behind; `count` is how many there were."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int = 0, how: str = "before") -> None:
        self.count, self._at, self._how = 0, at, how
        for module, name in (
            (durablefiles, "write"),
            (durablefiles, "rename"),
            (durablefiles, "truncate"),
            (durablefiles, "remove"),
            (ledger, "replace"),
            (cutlog.CutLog, "append"),
            (commitlog.CommitLog, "append"),
            (cutledger, "write_progress"),
        ):
            patch.setattr(module, name, self._wrapped(name, getattr(module, name)))
        patch.setattr(durablefiles, "sync", lambda _descriptor: None)  # no power fails here: quicker

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any) -> Any:
            self.count += 1
            if self.count != self._at:
                return real(*given)
            if self._how == "half" and name == "write":
                real(given[0], bytes(given[1])[: len(given[1]) // 2])
            elif self._how == "after":
                real(*given)
            raise Crash

        return step


class Fickle:
    """Refuses what 3 divides, the first time it is asked; `taken` are the (path, n) that it took."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()
        self.taken: set[tuple[str, int]] = set()
        self.before_answer: Callable[[], None] = lambda: None
        fickle = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                n = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["event"]["n"]
                place = (self.path, n)
                fickle.asked[place] += 1
                takes = n % 3 != 0 or fickle.asked[place] > 1
                if takes:
                    fickle.taken.add(place)
                fickle.before_answer()
                self.send_response(200 if takes else 422)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Not to the screen of the tests."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def target() -> Iterator[Fickle]:
    made = Fickle()
    yield made
    made.server.shutdown()
    made.server.server_close()


def spec(folder: Path, url: str) -> AppSpec:
    folder.mkdir()
    (folder / "state").mkdir()
    source = folder / "in.jsonl"
    source.write_text("".join(json.dumps({"event": {"n": n}}) + "\n" for n in range(COUNT)))
    os.utime(source, (1_000_000, 1_000_000))  # a file that still changes is not taken
    text = APP.format(folder=folder, url=url)
    outputs = needed_outputs(plan_app(text))
    return AppSpec("A", text, str(folder / "state"), outputs=outputs, max_events=PER_CUT, order_idle=0, until_end=True)


def through(given: AppSpec, patch: pytest.MonkeyPatch, at: int = 0, how: str = "before") -> int:
    """Run to the end, dying once and starting again; how many steps the first life made."""
    node = LocalNode(given, patch)
    with patch.context() as dying:
        sabotage = Dying(dying, at, how)
        try:
            node.run()
        except Crash:
            pass
        else:
            assert sabotage.count < at or not at
    node.close()
    again = LocalNode(given, patch)
    again.run()
    again.close()
    return sabotage.count


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["event"]["n"] for line in path.read_text().splitlines()] if path.exists() else []


def stored(folder: Path) -> list[int]:
    path = folder / "state" / "errors.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [json.loads(row["payload"])["event"]["n"] for row in rows]


def checked(folder: Path, target: Fickle) -> None:
    assert sorted([n for path, n in target.taken if path == "/"] + numbers(folder / "refused.jsonl")) == [*range(COUNT)]
    assert sorted([n for path, n in target.taken if path != "/"] + stored(folder)) == [*range(COUNT)]


def test_without_a_crash_what_is_refused_comes_back(tmp_path: Path, target: Fickle, monkeypatch: pytest.MonkeyPatch):
    assert through(spec(tmp_path / "a", target.url), monkeypatch) > 50
    checked(tmp_path / "a", target)
    assert numbers(tmp_path / "a" / "refused.jsonl") == stored(tmp_path / "a") == [0, 3, 6, 9]
    assert set(target.asked.values()) == {1}


@pytest.mark.parametrize("how", ["before", "half", "after"])
def test_a_death_at_some_steps_loses_no_row_and_doubles_none(
    tmp_path: Path, target: Fickle, monkeypatch: pytest.MonkeyPatch, how: str
):
    swept(tmp_path, target, monkeypatch, how, 13)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "half", "after"])
def test_a_death_at_any_step_loses_no_row_and_doubles_none(
    tmp_path: Path, target: Fickle, monkeypatch: pytest.MonkeyPatch, how: str
):
    swept(tmp_path, target, monkeypatch, how, 1)


def test_kill_9_while_the_target_is_about_to_answer_loses_no_row_and_doubles_none(tmp_path: Path, target: Fickle):
    folder = tmp_path / "a"
    given = spec(folder, target.url)
    command = [sys.executable, str(Path(pipeline_local.__file__)), given.to_json()]
    for asked in (3, 9, 4, 1):  # requests after which a life ends
        with subprocess.Popen(command) as process:
            left = itertools.count(asked - 1, -1)
            target.before_answer = lambda: process.kill() if next(left) == 0 else None  # noqa: B023 (called in this turn)
            assert process.wait(60) == -signal.SIGKILL
    target.before_answer = lambda: None
    assert subprocess.run(command, check=False, timeout=60).returncode == 0
    checked(folder, target)


def swept(folder: Path, target: Fickle, patch: pytest.MonkeyPatch, how: str, stride: int) -> None:
    steps = through(spec(folder / "whole", target.url), patch)
    for at in range(1, steps + 1, stride):
        target.asked.clear()
        target.taken.clear()
        part = folder / f"{how}-{at}"
        through(spec(part, target.url), patch, at, how)
        checked(part, target)
