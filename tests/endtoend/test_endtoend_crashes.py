"""The JVM of a node dies, and nothing else of it: the node goes on in another one."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from nodes import Node, events, running

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

APP = """
@app:name('Sums')
@source(type = 'file', file.uri = '{folder}/in.jsonl', @map(type = 'json'))
define stream In (k string, v long);
@sink(type = 'file', file.uri = '{folder}/out.jsonl', @map(type = 'json'))
define stream Out (k string, total long);
partition with (k of In) begin
    from In select k, sum(v) as total insert into Out;
end;
"""
EVENTS = 20_000


def jvm(node: Node) -> int:
    # the oldest of them: what it forks bears its command line for a moment
    return min(pid for pid, text in node.commands().items() if "org.apache.spark.deploy.SparkSubmit" in text)


def test_a_node_whose_jvm_is_killed_goes_on_in_another_one_and_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rows = [(f"k{i % 7}", i) for i in range(EVENTS)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"event": {"k": k, "v": v}}) + "\n" for k, v in rows))
    app = tmp_path / "sums.siddhi"
    app.write_text(APP.format(folder=tmp_path))
    totals: dict[str, list[int]] = {}
    for k, v in rows:
        before = totals.setdefault(k, [])
        before.append(v + (before[-1] if before else 0))
    with running(app, state=tmp_path / "state", until_end=True, conf={"batch.events": 500}) as node:
        node.until(lambda: node.taken("Sums") >= 2_000)
        os.kill(jvm(node), signal.SIGKILL)
        assert node.wait() == 0, node.said()
        assert node.processes() == set(), node.commands()
        assert "SPARK_GONE" in node.said()
        assert "Traceback" not in node.said()
    found: dict[str, list[int]] = {}
    for event in events(tmp_path / "out.jsonl"):
        found.setdefault(event["k"], []).append(event["total"])
    assert found == totals
