"""Revisions of an app that runs on Spark, and what goes on from them: the same app, into other buckets, a changed app."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from httpclient import post
from nodes import events, nadi, running
from servers.ports import free_port

from nadi.runtime import Runtime

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

APP = """@app:name('Sums')
@source(type = 'http', receiver.url = '{url}', @map(type = 'json'))
define stream In (k string, n long);
@sink(type = 'file', file.uri = '{out}', @map(type = 'json'))
define stream Out (k string, n long, total long);
partition with (k of In) begin
  @info(name = 'sums') from In[n >= 0L]#window.length(3) select k, n, sum(n) as total insert into Out;
end;
"""
KEYS = ("a", "b", "c", "d", "e")
Rows = list[tuple[str, int, int]]


def batch(first: int, count: int) -> list[tuple[str, int]]:
    return [(KEYS[n % len(KEYS)], n) for n in range(first, first + count)]


def send(url: str, given: Sequence[tuple[str, int]]) -> None:
    body = json.dumps([{"event": {"k": k, "n": n}} for k, n in given]).encode()
    assert post(url, body)[0] == 202


def expected(text: str, given: Sequence[tuple[str, int]]) -> Rows:
    """What the app gives for all events in one process that never stops."""
    runtime = Runtime(text)
    rows: Rows = []
    runtime.on_stream("Out", lambda chunk: rows.extend(tuple(e.row) for e in chunk))
    runtime.start()
    for event in given:
        runtime.send("In", [event])
    runtime.shutdown()
    return by_key(rows)


def by_key(rows: Rows) -> Rows:
    """In an order that does not depend on how keys meet: that of each key."""
    return sorted(rows, key=lambda row: row[0])


def written(out: Path) -> Rows:
    return by_key([(row["k"], row["n"], row["total"]) for row in events(out)])


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path, str, Path]:
    url = f"http://127.0.0.1:{free_port()}/in"
    app, out = tmp_path / "sums.siddhi", tmp_path / "out.jsonl"
    app.write_text(APP.format(url=url, out=out))
    return app, out, url, tmp_path / "state"


def stopped(node: Any) -> None:
    node.signal(signal.SIGINT)
    assert node.wait() == 0


def test_an_app_goes_on_from_a_revision_in_other_buckets_and_in_a_changed_form(
    place: tuple[Path, Path, str, Path], tmp_path: Path
):
    app, out, url, state = place
    config = tmp_path / "deployment.yaml"
    config.write_text("state.persistence: {enabled: true, intervalInMin: 0, revisionsToKeep: 5}\n")
    with running(app, state=state, conf={"buckets": 1}, config=config) as node:
        send(url, batch(0, 20))
        node.until(lambda: len(events(out)) == 20)
        first = nadi("revision", "create", "Sums", "--state-dir", state)
        assert first.returncode == 0, first.stderr
        send(url, batch(20, 20))
        node.until(lambda: len(events(out)) == 40)
        stopped(node)
    names = json.loads(nadi("revision", "list", "Sums", "--state-dir", state, "--json").stdout)
    assert len(names) == 2  # the one that was asked for, and that of the stop
    assert names[1]["revision"] == first.stdout.strip()
    shown = json.loads(nadi("revision", "show", "Sums", "--state-dir", state, "--json").stdout)
    assert shown["problem"] == ""

    # from the first one: cuts that were made after it are taken again, and the file is not written twice
    back = nadi("restore", app, "--revision", names[1]["revision"], "--state-dir", state)
    assert back.returncode == 0, back.stderr
    assert "cuts are taken again" in back.stdout
    with running(app, state=state, config=config) as node:
        send(url, batch(40, 10))
        node.until(lambda: len(events(out)) == 50)
        stopped(node)
    assert written(out) == expected(APP.format(url=url, out=out), batch(0, 50))

    # into three buckets, from the revision of the stop; an older one is refused
    older = nadi("restore", app, "--revision", names[0]["revision"], "--state-dir", state, "--conf", "nadi.buckets=3")
    assert (older.returncode, "RESTORE_NOT_POSSIBLE" in older.stderr) == (1, True), older.stderr
    spread = nadi("restore", app, "--state-dir", state, "--conf", "nadi.buckets=3")
    assert spread.returncode == 0, spread.stderr
    with running(app, state=state, config=config) as node:
        send(url, batch(50, 10))
        node.until(lambda: len(events(out)) == 60)
        node.kill_tree()  # before anything but the batch is written: the next start goes on by itself
    assert written(out) == expected(APP.format(url=url, out=out), batch(0, 60))

    # a filter that passes less keeps the windows; a window that is longer, too
    changed = APP.format(url=url, out=out).replace("n >= 0L", "n >= 65L").replace("length(3)", "length(4)")
    with running(app, state=state, config=config) as node:
        before = len(node.said())
        node.until(lambda: "Sums: running" in node.said()[before:])
        stopped(node)
    app.write_text(changed)
    wider = nadi("restore", app, "--state-dir", state)
    assert wider.returncode == 0, wider.stderr
    with running(app, state=state, config=config) as node:
        send(url, batch(60, 10))
        node.until(lambda: len(events(out)) == 65)
        stopped(node)
    last = {k: total for k, n, total in written(out) if n >= 65}
    assert last == {KEYS[n % 5]: n + sum(n - 10 - 5 * i for i in range(3)) for n in range(65, 70)}


def test_a_revision_needs_an_app_that_runs(tmp_path: Path):
    late = nadi("revision", "create", "Sums", "--state-dir", tmp_path)
    assert (late.returncode, "APP_NOT_RUNNING" in late.stderr) == (1, True), late.stderr
