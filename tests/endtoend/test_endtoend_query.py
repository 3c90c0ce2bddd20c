"""`nadi query` against a node that runs, is killed and starts again."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from httpclient import post
from nodes import events, nadi, running
from servers.ports import free_port

from nadi.pipeline.node import is_locked

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

APP = """@app:name('Names')
@source(type = 'http', receiver.url = '{url}', @map(type = 'json'))
define stream In (k string, n long);
@sink(type = 'file', file.uri = '{out}', @map(type = 'json'))
define stream Out (k string, n long, name string);
@primaryKey('k') define table Names (k string, name string);
define window Last (k string, n long) length(10);

from In join Names on In.k == Names.k select In.k as k, In.n as n, Names.name as name insert into Out;
from In insert into Last;
"""


def ask(state: Path, text: str, *more: str) -> Any:
    done = nadi("query", "Names", text, "--state-dir", state, "--json", "--within", "120", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_changes_survive_a_kill_and_finds_are_answered_before_any_new_input(tmp_path: Path):
    url = f"http://127.0.0.1:{free_port()}/in"
    out, state, path = tmp_path / "out.jsonl", tmp_path / "state", tmp_path / "names.siddhi"
    path.write_text(APP.format(url=url, out=out))
    options: dict[str, Any] = {"state": state, "conf": {"hosts": 1}}
    with running(path, **options) as node:
        node.until((state / "Names").is_dir)
        assert ask(state, "select 'a' as k, 'Ana' as name insert into Names") == []
        assert post(url, json.dumps([{"event": {"k": "a", "n": n}} for n in (1, 2)]).encode())[0] == 202
        node.until(lambda: len(events(out)) == 2)
        assert ask(state, "select 'Bea' as name update Names set Names.name = name on Names.k == 'a'") == []
        node.kill_tree()
    late = nadi("query", "Names", "from Names select k", "--state-dir", state)
    assert (late.returncode, "APP_NOT_RUNNING" in late.stderr) == (1, True), late.stderr
    assert "did you mean 'Names'?" in nadi("query", "Name", "from Names select k", "--state-dir", state).stderr

    with running(path, **options) as node:
        node.until(lambda: is_locked(state))
        assert ask(state, "from Names select k, name") == [{"k": "a", "name": "Bea"}]
        assert ask(state, "from Last on n > 0L select k, sum(n) as total group by k") == [{"k": "a", "total": 3}]
        wrong = nadi("query", "Names", "from Nmaes select k", "--state-dir", state)
        assert wrong.returncode == 1
        assert "did you mean 'Names'?" in wrong.stderr
        assert post(url, json.dumps({"event": {"k": "a", "n": 3}}).encode())[0] == 202
        node.until(lambda: len(events(out)) == 3)
        node.signal(signal.SIGINT)
        assert node.wait() == 0
        assert "Names: stopped, 3 events in" in node.said()
    assert [(row["n"], row["name"]) for row in events(out)] == [(1, "Ana"), (2, "Ana"), (3, "Bea")]
    assert not (state / "Names" / "live.json").exists()
