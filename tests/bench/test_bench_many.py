"""The suite of many small apps: what the apps must put out, what is sent when, and what the table says; without Spark."""

from __future__ import annotations

import doctest
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench import many, many_add, many_apps, many_busy, many_poison, many_traffic, processtree, report_many
from bench.checkouts import MARK, Checkout
from bench.checks import WrongOutputError, compare, length_rows
from bench.checks import rows_of as rows_of_messages
from bench.children import ROOT
from bench.events import make_events
from bench.many_apps import Sent, SmallApp, check_rows, small_apps
from bench.many_client import Client, send_to_all
from bench.many_watch import Outputs
from bench.report import markdown
from nadi.io.registry import connectors
from nadi.kernel.contract import ARRIVAL_COLUMNS, ArrivalBatch
from nadi.kernel.keys import key_group
from nadi.pipeline.engine import make_kernel, plan_app


def rows_of(app: SmallApp, count: int) -> list[bytes]:
    """What an app with a window of events puts out for its first events."""
    made = []
    for event in range(1, count + 1):
        held = [app.value(e) for e in range(max(1, event + 1 - app.length), event + 1)]
        more = {"max": max(held), "min": min(held), "avg": sum(held) / len(held), "sum": sum(held)}[app.aggregate]
        x = app.value(event) * (app.number + 2) + app.number
        row = {"id": event, "x": x, "n": len(held), "total": sum(held), "more": float(more)}
        made.append(json.dumps({"event": row}).encode())
    return made


def sent(count: int, every: float = 1.0) -> list[Sent]:
    return [Sent(event, event * every, event * every, True) for event in range(1, count + 1)]


@pytest.mark.parametrize("number", range(0, 8, 2))
def test_the_right_rows_of_an_app_are_taken(number: int) -> None:
    app = SmallApp(number, 1, Path())
    assert check_rows(app, sent(30), rows_of(app, 30)) == 30


def test_all_texts_differ_and_can_be_planned(tmp_path: Path) -> None:
    apps = small_apps(12, tmp_path)
    assert len({a.text.replace(a.name, "").replace(str(a.port), "") for a in apps}) == 12
    assert len({a.port for a in apps}) == 12
    planned = [plan_app(a.text) for a in apps]
    assert [connectors(app, "source")[0].type for app in planned] == ["http"] * 12


def test_bad_apps_call_functions_of_a_package_that_nodes_find(tmp_path: Path) -> None:
    apps = many_poison.bad_apps(tmp_path, many_poison.GOOD)
    assert [a.name for a in apps] == [f"bad-{kind}" for kind in many.POISONS]
    packages = many_poison.write_package(tmp_path / "packages")
    environment = Checkout("this", ROOT, "", (packages,)).environment(tmp_path)
    code = "import sys; from nadi.pipeline.engine import plan_app; [plan_app(text) for text in sys.argv[1:]]"
    subprocess.run([sys.executable, "-P", "-c", code, *(a.text for a in apps)], env=environment, check=True)


def test_a_row_that_is_lost_twice_there_out_of_order_or_strange_is_found() -> None:
    app = SmallApp(4, 1, Path())
    rows = rows_of(app, 9)
    for wrong, told in (
        (rows[:-1], "gave no row"),
        ([*rows, rows[-1]], "came twice"),
        ([*rows[:-2], rows[-1], rows[-2]], "order"),
        (rows_of(app, 10), "not sent"),
        ([*rows[:-1], b"{}"], "is no row"),
        ([*rows[:-1], rows[-1].replace(b'"total": ', b'"total": 1')], "total is"),
    ):
        with pytest.raises(WrongOutputError, match=told):
            check_rows(app, sent(9), wrong)


def test_an_event_that_was_not_accepted_may_be_there_or_not() -> None:
    app = SmallApp(0, 1, Path())
    maybe = [*sent(4), Sent(5, 5.0, 5.0, False)]
    assert check_rows(app, maybe, rows_of(app, 5)) == 5
    assert check_rows(app, maybe, rows_of(app, 4)) == 4


def test_a_window_of_seconds_may_hold_what_the_clocks_allow_and_nothing_else() -> None:
    app = SmallApp(1, 1, Path())  # three seconds

    def row(event: int, n: int) -> bytes:
        held = [app.value(e) for e in range(event + 1 - n, event + 1)]
        x = app.value(event) * 3 + 1
        return json.dumps({"event": {"id": event, "x": x, "n": n, "total": sum(held), "more": max(held)}}).encode()

    assert check_rows(app, sent(5), [row(1, 1), row(2, 2), row(3, 3), row(4, 3), row(5, 4)]) == 5
    with pytest.raises(WrongOutputError, match="the window held 2, not 3 to 4"):
        check_rows(app, sent(5), [row(1, 1), row(2, 2), row(3, 3), row(4, 3), row(5, 2)])


def test_the_busy_app_gives_the_rows_that_are_looked_for(tmp_path: Path) -> None:
    events = make_events(0, 3_000, 20)
    text = many_busy.busy_text(tmp_path, tmp_path / "out.jsonl")
    kernel = make_kernel(plan_app(text), ("Out",))
    kernel.start(0)
    keys = [f"S{k}" for k in events.key.tolist()]
    attributes = pa.schema([("ts", pa.int64()), ("sym", pa.string()), ("price", pa.float64()), ("vol", pa.int32())])
    nothing, order = np.zeros(len(events), np.int64), np.arange(len(events))
    columns: list[Any] = [events.ts, keys, events.cents / 100, events.vol, nothing, order, nothing, nothing]
    columns.append([key_group(key) for key in keys])
    schema = pa.schema([*attributes, *ARRIVAL_COLUMNS])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    fed = ArrivalBatch("In", 0, 0, pa.RecordBatch.from_arrays(arrays, schema=schema))
    rows = kernel.process([fed], 0).batches["Out"].select(["ts", "sym", "mean", "n"]).to_pylist()
    found = rows_of_messages(rows)
    assert compare(length_rows(events, many_busy.LENGTH), found)["rows"] == 3_000
    with pytest.raises(WrongOutputError):
        compare(length_rows(events, many_busy.LENGTH + 1), found)


# ---- sending and hearing -------------------------------------------------------------------------------------------


@contextmanager
def server(refuse: int) -> Iterator[tuple[int, list[bytes]]]:
    """An http server that says 503 so many times, and then 202; its port and what it took."""
    taken: list[bytes] = []
    left = [refuse]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            left[0] -= 1
            if left[0] < 0:
                taken.append(body)
            self._answer(503 if left[0] >= 0 else 202)

        def do_GET(self) -> None:
            self._answer(405)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Nothing is logged."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving.server_address[1], taken
        serving.shutdown()


def test_an_event_that_is_refused_is_followed_by_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.many_client.AGAIN", 0.0)
    with server(refuse=2) as (port, taken):
        client = Client(SmallApp(3, port, Path()))
        assert client.accepts()
        found = send_to_all([client], 10.0)
        client.close()
    assert [s.event for s in found if s is not None] == [3]
    assert [s.accepted for s in client.sent] == [False, False, True]
    assert taken == [client.app.message(3)]


def test_an_app_without_a_server_accepts_nothing() -> None:
    (app,) = small_apps(1, Path())
    client = Client(app)
    assert not client.accepts()
    assert send_to_all([client], 0.0) == [None]


def test_rows_are_heard_when_they_are_whole(tmp_path: Path) -> None:
    with Outputs(tmp_path) as outputs:
        before = time.monotonic()
        with (tmp_path / "3.jsonl").open("wb", buffering=0) as file:
            file.write(b'{"event":{"id":1,"x":5}}\n{"event":{"id"')
            assert outputs.wait([(3, 1)], 10.0)
            assert outputs.missing([(3, 1), (3, 2)]) == {(3, 2)}
            file.write(b":2}}\n")
        assert outputs.wait([(3, 2)], 10.0)
        assert before <= (outputs.came((3, 1)) or 0.0) <= (outputs.came((3, 2)) or 0.0) <= time.monotonic()
        assert not outputs.wait([(4, 1)], 0.0)


def test_events_of_a_second_each_stop_when_it_is_over() -> None:
    with server(refuse=0) as (port, taken):
        senders = [Client(SmallApp(n, port, Path())) for n in range(3)]
        with many_traffic.Traffic(senders, 1.0) as traffic:
            while traffic.running():
                time.sleep(0.01)
        for client in senders:
            client.close()
    assert sorted((a.app, a.event, a.accepted) for a in traffic.asked) == [(n, 1, True) for n in range(3)]
    assert len(taken) == 3
    assert max(a.due for a in traffic.asked) - min(a.due for a in traffic.asked) == pytest.approx(2 / 3)


# ---- processes -----------------------------------------------------------------------------------------------------


def test_processes_of_a_node_are_known_by_their_mark_whoever_started_them(tmp_path: Path) -> None:
    inner = "import sys; print(flush=True); sys.stdin.read()"
    outer = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {inner!r}, 'nadi.pipeline.executor.host'])"
    )
    environment = {**os.environ, MARK: str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", outer], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        started.stdout.readline()
        started.wait()
        (found,) = processtree.processes(tmp_path)
        assert found.kind == processtree.HOSTS
        assert processtree.pids(tmp_path, processtree.HOSTS) == [found.pid]
        held = processtree.memory(tmp_path)
        assert held.processes == 1
        assert held.pss == held.by_kind[processtree.HOSTS] > 1_000_000
        assert processtree.processes(tmp_path / "1") == []
        processtree.kill_all(tmp_path)
        assert started.stdout.read() == b""
    assert processtree.processes(tmp_path) == []
    assert started.returncode != -signal.SIGKILL


# ---- the table -----------------------------------------------------------------------------------------------------


def result(told: dict[str, Any]) -> dict[str, Any]:
    machine = dict.fromkeys(("commit", "cpu", "cores", "memory_gb", "java", "python", "pyspark"), "x")
    return {
        "suite": "node",
        "started": "now",
        "complete": True,
        "machine": {**machine, "load": [0.0]},
        "settings": {"apps": 100, "seconds": 60.0, "against": None, "commits": {"this": "abc"}},
        "apps": {"this": {"too_slow": {}, **told}},
    }


def test_a_figure_stands_beside_its_goal_and_says_where_it_misses_it() -> None:
    start = {"accept_s": 9.0, "answered_s": 75.0, "cache": "/c", "rows": 5}
    text = markdown(
        result({"warm": start, "add": {"skipped": "no command"}, "single": {"ms": {"p50": 20.0, "p99": 400.0}}})
    )
    assert "| all accept, s | ≤ 10 | 9.0 |" in text
    assert "| all have answered, s | ≤ 60 | 75.0 (missed) |" in text
    assert "| one event at a time: p99, ms | ≤ 300 | 400 (missed) |" in text
    assert "| app 101 accepts, s | – | skipped: no command |" in text
    assert "busy" not in text


def test_a_stage_that_was_too_slow_is_told_with_its_reason() -> None:
    text = markdown(result({"too_slow": {"cold": "no row of each event within 720 s"}}))
    assert "| all have answered, cold, s | ≤ 180 | too slow |" in text
    assert "| this (abc), cold | no row of each event within 720 s |" in text


def test_the_stage_that_adds_an_app_says_so_where_a_nadi_has_no_command_for_it(tmp_path: Path) -> None:
    checkout = Checkout("this", ROOT, "")
    node = SimpleNamespace(checkout=checkout, folder=tmp_path)
    made = SimpleNamespace(node=node, patience=60.0)
    assert many_add.of_adding(made, ("no-such-command",)) == {"skipped": many_add.SKIPPED}  # type: ignore[arg-type]


def test_how_others_are_held_up_stands_beside_its_goal() -> None:
    add = {"accept_s": 1.0, "answered_s": 2.0, "gap_s": 1.25, "gap_before_s": 0.1, "longest_s": 1.5}
    text = markdown(result({"warm": {"cache": "/c"}, "add": add}))
    assert "| no other app answers meanwhile for, s | ≤ 1 | 1.25 (missed) |" in text
    assert "| longest answer of the others meanwhile, s | – | 1.50 |" in text


@pytest.mark.parametrize("module", [many, many_add, many_apps, many_poison, many_traffic, processtree, report_many])
def test_the_examples_of_the_suite_are_true(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.failed == 0
    assert found.attempted > 0
