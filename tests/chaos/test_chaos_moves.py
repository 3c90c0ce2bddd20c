"""An app goes to another query or to other hosts, and who works for it dies at each step of the way: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import signal
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import nodes
import pytest
from faults import hosts_of
from holding import AT_MOVES, FOLDER
from moments import asked, come, want
from nodes import TRACE, Node
from world import World

pytestmark = [pytest.mark.spark]

APP = """
@app:name('{name}')
@source(type = 'file', file.uri = '{folder}/in.jsonl', @map(type = 'json'))
define stream In (k string, v long);
@sink(type = 'file', file.uri = '{folder}/{name}.jsonl', @map(type = 'json'))
define stream Out (k string, total long);
partition with (k of In) begin
    from In select k, sum(v) as total insert into Out;
end;
"""
NAMES = ("Moves", "Stays")
EVENTS, KEYS = 15_000, 7
HERE = Path(__file__).parent


def start(folder: Path) -> Node:
    """A node with both apps, in one query."""
    return nodes.start(
        *(folder / f"{name}.siddhi" for name in NAMES),
        state=folder / "state",
        conf={"batch.events": 100, "buckets": 2, "hosts": 2},
        until_end=True,
        nadi=(sys.executable, str(HERE / "chaosnode.py")),
        **{FOLDER: str(folder / "moments"), "PYTHONPATH": str(HERE)},
    )


@pytest.mark.parametrize("victim", ["the hosts", "the node"])
@pytest.mark.parametrize("step", AT_MOVES)
def test_whoever_dies_at_whichever_step_of_a_move_nothing_is_lost_or_doubled(tmp_path: Path, step: str, victim: str):
    rows = [(f"k{i % KEYS}", i) for i in range(EVENTS)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"event": {"k": k, "v": v}}) + "\n" for k, v in rows))
    (tmp_path / "moments").mkdir()
    apps = tuple(tmp_path / f"{name}.siddhi" for name in NAMES)
    for name, path in zip(NAMES, apps, strict=True):
        path.write_text(APP.format(folder=tmp_path, name=name))
    world = World(tmp_path, apps, None, None, cast("Any", None), nodes=[start(tmp_path)])
    try:
        want(world, step, "Moves")
        asked(world, "other hosts" if step == "raised" else "move", ["Moves"])
        held = come(world, step)
        assert held is not None
        if victim == "the node":
            world.node.kill_tree()
            world.nodes.append(start(tmp_path))
        else:
            for host in hosts_of(world):
                host.kill()
            held.send(signal.SIGCONT)
        assert world.node.wait() == 0, world.node.said()
        assert TRACE not in world.node.said()
    finally:
        for node in world.nodes:
            node.kill_tree()
            node.process.wait()
    for name in NAMES:
        found: dict[str, list[int]] = {}
        for row in nodes.events(tmp_path / f"{name}.jsonl"):
            found.setdefault(row["k"], []).append(row["total"])
        assert found == {f"k{key}": list(accumulate(range(key, EVENTS, KEYS))) for key in range(KEYS)}
