"""An app with a time window and no further input: its events expire at the right virtual time, and then it is quiet."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from httpclient import post
from nodes import events, running, steady
from servers.ports import free_port

from nadi.runtime.runtime import Runtime

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

APP = """@app:name('{name}')
@source({source}, @map(type = 'json'))
define stream In (n int);
@sink(type = 'file', file.uri = '{out}', @map(type = 'json'))
define stream Out (n int, at long);

from In#window.time(2 sec)
select n, eventTimestamp() as at
insert all events into Out;
"""


def in_process(text: str, begin: int) -> list[dict[str, int]]:
    """What the runtime in this process says when events 1 and 2 come as one chunk at `begin` and time goes on."""
    app = Runtime("\n".join(line for line in text.splitlines() if not line.startswith(("@source", "@sink"))))
    rows: list[dict[str, int]] = []
    app.on_stream("Out", lambda chunk: rows.extend(dict(zip(("n", "at"), e.row, strict=True)) for e in chunk))
    app.start(begin)
    app.send("In", [(begin, (1,)), (begin, (2,))])
    app.advance(10_000)
    return rows


def test_expired_events_come_at_their_time_and_then_no_more_batches_are_made(tmp_path: Path):
    url = f"http://127.0.0.1:{free_port()}/in"
    sources = {
        "Posted": f"type = 'http', receiver.url = '{url}'",
        "Filed": f"type = 'file', file.uri = '{tmp_path}/in.jsonl'",
    }
    chunk = json.dumps([{"event": {"n": n}} for n in (1, 2)])
    (tmp_path / "in.jsonl").write_text(f"{chunk}\n")
    texts, files = {}, []
    for name, source in sources.items():
        texts[name] = APP.format(name=name, source=source, out=tmp_path / f"{name}.jsonl")
        files.append(tmp_path / f"{name}.siddhi")
        files[-1].write_text(texts[name])

    with running(*files, state=tmp_path / "state", conf={"buckets": 1, "hosts": 1}) as node:
        assert post(url, chunk.encode())[0] == 202
        for name in sources:
            node.until(lambda name=name: len(events(tmp_path / f"{name}.jsonl")) == 4)
        node.until(lambda: all(node.progress(name).get("n") == len(node.cuts(name)) - 1 for name in sources))
        steady(lambda: [len(node.cuts(name)) for name in sources], seconds=3)
        for name in sources:
            rows = events(tmp_path / f"{name}.jsonl")
            began = rows[0]["at"]
            assert rows == in_process(texts[name], began)
            expired = [cut for cut in node.cuts(name) if cut["clock"] >= began + 2_000]
            assert len(expired) <= 2  # the one that the timer asked for, and perhaps the one that brought the events
        assert (
            abs(events(tmp_path / "Filed.jsonl")[0]["at"] - (tmp_path / "in.jsonl").stat().st_mtime_ns // 1_000_000)
            <= 1
        )
        node.signal(signal.SIGTERM)
        assert node.wait() == 0
        assert node.processes() == set()
        said = node.said()
    assert "Posted: stopped, 2 events in, 4 out" in said
    assert "Filed: stopped, 2 events in, 4 out" in said
