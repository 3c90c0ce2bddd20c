"""What a node cannot take has a clear reason and a place, loses nothing, and shows no stack trace; `nadi errors` lists it."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from httpclient import post
from nodes import TRACE, events, lines, nadi, running
from servers.ports import free_port

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

APP = """@app:name('{name}')
@source({source})
define stream In (name string, n int);
@sink(type = 'file', file.uri = '{out}', @map(type = 'json'))
define stream Out (name string, n int);
from In select name, n insert into Out;
"""
BODIES = {
    "undecodable": b'{"event": {"name": "broken"',
    "missing": b'{"event": {"name": "missing"}}',
    "type": b'{"event": {"name": "type", "n": "many"}}',
    "good": b'{"event": {"name": "good", "n": 1}}',
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run with bad input left behind."""

    folder: Path
    said: str
    answers: dict[str, tuple[int, str]]
    locked: Any

    def stored(self, app: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in lines(self.folder / "state" / app / "errors.jsonl")]

    def out(self, app: str) -> list[tuple[str, int]]:
        return [(e["name"], e["n"]) for e in events(self.folder / f"{app}.out")]


def bad_inputs(folder: Path, url: str) -> list[Path]:
    """Files that are broken in several ways, and an app for each."""
    (folder / "lines.jsonl").write_bytes(
        b"\n".join([BODIES["good"], BODIES["undecodable"], BODIES["missing"], BODIES["type"], BODIES["good"]]) + b"\n"
    )
    (folder / "table.csv").write_bytes(b"name,n\ngood,1\nbad\xff\xfe,2\nmany,x\ngood,3\n")
    columns = folder / "columns"
    columns.mkdir()
    table = pa.table({"name": ["good"] * 100, "n": pa.array(range(100), pa.int32())})
    pq.write_table(table, columns / "a.parquet")
    whole = (columns / "a.parquet").read_bytes()
    (columns / "b.parquet").write_bytes(whole[: len(whole) // 2])
    pq.write_table(table, columns / "c.parquet")
    sources = {
        "Posted": f"type = 'http', receiver.url = '{url}', @map(type = 'json')",
        "Lines": f"type = 'file', file.uri = '{folder}/lines.jsonl', @map(type = 'json')",
        "Table": f"type = 'file', file.uri = '{folder}/table.csv', @map(type = 'csv', header = 'true')",
        "Columns": f"type = 'file', dir.uri = '{columns}', @map(type = 'parquet')",
    }
    made = []
    for name, source in sources.items():
        made.append(folder / f"{name}.siddhi")
        made[-1].write_text(APP.format(name=name, source=source, out=folder / f"{name}.out"))
    return made


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("faults")
    url = f"http://127.0.0.1:{free_port()}/in"
    apps = bad_inputs(folder, url)
    with running(*apps, state=folder / "state", conf={"buckets": 1, "hosts": 2}) as node:
        answers = {name: post(url, body) for name, body in BODIES.items()}
        locked = nadi("run", apps[1], "--state-dir", folder / "state")
        for name, count in {"Posted": 1, "Lines": 2, "Table": 2, "Columns": 200}.items():
            node.until(lambda name=name, count=count: len(lines(folder / f"{name}.out")) >= count)
        for name, count in {"Lines": 3, "Table": 2, "Columns": 1}.items():
            node.until(lambda name=name, count=count: len(lines(node.state / name / "errors.jsonl")) >= count)
        node.signal(signal.SIGINT)
        assert node.wait() == 0, node.said()
        assert node.processes() == set(), node.commands()
        return Seen(folder, node.said(), answers, locked)


def test_no_stack_trace_is_shown(seen: Seen):
    assert TRACE not in seen.said
    assert "org.apache" not in seen.said


def test_http_refuses_what_it_cannot_take_with_the_reason_and_keeps_the_rest(seen: Seen):
    assert {name: status for name, (status, _) in seen.answers.items()} == {
        "undecodable": 400,
        "missing": 400,
        "type": 400,
        "good": 202,
    }
    assert "n" in json.loads(seen.answers["missing"][1])["error"]
    assert all(json.loads(body)["error"] for status, body in seen.answers.values() if status == 400)
    assert seen.out("Posted") == [("good", 1)]
    assert seen.stored("Posted") == []


def test_undecodable_lines_of_a_file_are_stored_with_place_and_reason(seen: Seen):
    assert seen.out("Lines") == [("good", 1)] * 2
    stored = seen.stored("Lines")
    assert [row["position"] for row in stored] == [1, 2, 3]
    assert [row["payload"].encode() for row in stored] == [BODIES[n] for n in ("undecodable", "missing", "type")]
    assert all(row["origin"] == "source file of In" and row["app"] == "Lines" and row["reason"] for row in stored)
    assert "'n'" in stored[1]["reason"]
    assert "'n'" in stored[2]["reason"]
    assert "Lines: stopped, 2 events in, 2 out, 3 in the error store (nadi errors Lines)" in seen.said


def test_csv_that_is_no_utf8_or_of_a_wrong_type_is_stored(seen: Seen):
    assert seen.out("Table") == [("good", 1), ("good", 3)]
    text, number = seen.stored("Table")
    assert (text["position"], text["encoding"]) == (1, "base64")
    assert "UTF-8" in text["reason"]
    assert (number["position"], number["payload"]) == (2, "many,x")


def test_a_truncated_parquet_file_is_one_row_of_the_error_store_and_other_files_are_read(seen: Seen):
    assert seen.out("Columns") == [("good", n) for n in range(100)] * 2
    (row,) = seen.stored("Columns")
    assert "b.parquet" in row["reason"] + row["payload"]


def test_a_state_folder_in_use_is_refused_at_once(seen: Seen):
    assert seen.locked.returncode == 1
    assert re.search(r"the state folder .* is in use by process \d+", seen.locked.stdout + seen.locked.stderr)
    assert TRACE not in seen.locked.stdout + seen.locked.stderr


def test_errors_lists_the_error_store(seen: Seen):
    found = nadi("errors", "Lines", "--state-dir", seen.folder / "state", COLUMNS="200")
    assert found.returncode == 0
    assert found.stdout.count("source file of In") == 3
    for place in ("0/1", "0/2", "0/3"):
        assert place in found.stdout
    empty = nadi("errors", "Posted", "--state-dir", seen.folder / "state")
    assert (empty.returncode, empty.stdout.strip()) == (0, "Posted: the error store is empty")
    unknown = nadi("errors", "Nobody", "--state-dir", seen.folder / "state")
    assert unknown.returncode == 1
    assert "no app 'Nobody' has run with the state folder" in unknown.stderr
    assert TRACE not in unknown.stderr


@pytest.mark.parametrize("change", ["another source", "another way to shard"])
def test_a_changed_app_is_not_run_on_the_state_of_the_old_one(seen: Seen, change: str):
    path = seen.folder / "Lines.siddhi"
    text = path.read_text()
    changed = seen.folder / "changed.siddhi"
    if change == "another source":
        changed.write_text(text.replace("In (", "Other (").replace("from In", "from Other"))
    else:
        changed.write_text(text.replace("from In select", "from In#window.time(1 hour) select"))
    before = [lines(seen.folder / "Lines.out"), seen.stored("Lines")]
    refused = nadi("run", changed, "--state-dir", seen.folder / "state")
    said = refused.stdout + refused.stderr
    assert refused.returncode == 1
    assert "the state of 'Lines' was made by another version of the app" in said
    assert "remove" in said
    assert TRACE not in said
    assert [lines(seen.folder / "Lines.out"), seen.stored("Lines")] == before
