"""`nadi replay` beside a running app, and the page about replay and backtest with its commands."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from httpclient import post
from nodes import COMMAND, environment, events, lines, nadi, running
from servers.ports import free_port
from sums import APP

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "replay.md"


def test_a_replay_beside_a_running_app_gives_what_it_has_emitted(tmp_path: Path):
    url = f"http://127.0.0.1:{free_port()}/in"
    app, out, rows = tmp_path / "sums.siddhi", tmp_path / "out.jsonl", tmp_path / "rows.jsonl"
    app.write_text(
        APP.format(source=f"type = 'http', receiver.url = '{url}'", sink=f"type = 'file', file.uri = '{out}'", every=1)
    )
    state = tmp_path / "state"
    with running(app, state=state, conf={"buckets": 2, "hosts": 2}) as node:
        for n in range(40):
            body = json.dumps([{"event": {"k": f"key{(n + i) % 7}", "request": n, "n": i}} for i in range(5)])
            assert post(url, body.encode())[0] == 202
        node.until(lambda: len(events(out)) == 200)
        node.until(lambda: node.taken("Sums") == 200)
        done = nadi("replay", "Sums", "--state-dir", state, "--output", rows)
        assert node.process.poll() is None, node.said()
    assert (done.returncode, done.stderr) == (0, "")
    assert f"file sink of Out ({out}): equal to what was emitted in cuts 1 to " in done.stdout
    made = [json.loads(line) for line in lines(rows)]
    assert sorted(json.dumps(row["event"]) for row in made) == sorted(json.dumps(event) for event in events(out))
    # And again from its file, when no node runs: the journal is started for it.
    again = nadi("replay", app, "--state-dir", state, "--output", tmp_path / "again.jsonl")
    assert (again.returncode, again.stderr) == (0, "")
    assert lines(tmp_path / "again.jsonl") == lines(rows)


def test_the_commands_of_the_page_about_replay_print_what_it_shows(tmp_path: Path):
    text = PAGE.read_text(encoding="utf-8")
    for app in re.findall(r"^```sql\n(-- (\S+)\n.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (tmp_path / app[1]).write_text(app[0], encoding="utf-8")
    (history,) = re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "trades.jsonl").write_text(history, encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    pairs = [part.partition("\n") for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    assert len(pairs) >= 4
    for command, _, shown in pairs:
        words = shlex.split(command)
        assert words[0] == "nadi"
        done = subprocess.run(
            [*COMMAND, *words[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=environment(),
            timeout=400,
            check=False,
        )
        assert done.returncode == (1 if " only from " in shown else 0), f"{command}\n{done.stdout}{done.stderr}"
        if words[1] != "run":
            assert done.stdout.replace(str(tmp_path), "/home/ana").rstrip() == shown.rstrip(), (
                f"{command}\n{done.stderr}"
            )
    shown_row = next(line for line in text.splitlines() if line.startswith('{"cut":'))
    assert shown_row in lines(tmp_path / "rows.jsonl")
