"""`nadi simulate`: what the commands ask a worker, and print; the worker's apps are made up."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import Result
from server.simulation.simulation_build import STOCK, FakeTarget, FakeTargets, chance, config, simulator
from typer.testing import CliRunner

from nadi.cli.main import cli
from nadi.io.httpserver import HttpServer
from nadi.server.rest import simulation
from nadi.server.rest.application import make_routes


class Worker:
    """The REST API of a simulator, without a guard."""

    def __init__(self, folder: Path) -> None:
        self.app = FakeTarget(In=STOCK)
        self.targets = FakeTargets(Stocks=self.app)
        self.simulator = simulator(folder, self.targets)
        self.server = HttpServer(make_routes("test", [simulation.routes(self.simulator)]), "127.0.0.1", 0)
        self.server.start()

    @property
    def options(self) -> list[str]:
        return ["--url", f"http://127.0.0.1:{self.server.port}"]

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(
            cli, ["simulate", *arguments, *self.options], env={"NADI_PASSWORD": "x", "COLUMNS": "200"}
        )

    def close(self) -> None:
        self.server.stop()
        self.simulator.close()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(io.StringIO())
    )  # its log is not what commands print
    made = Worker(tmp_path / "deployment")
    yield made
    made.close()
    structlog.reset_defaults()


def written(folder: Path, document: dict[str, Any]) -> str:
    path = folder / "feed.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_an_event_is_sent_with_its_values_and_its_time(worker: Worker):
    ended = worker.run("event", "Stocks", "In", "IBM", "1.5", "null", "--timestamp", "77")
    assert (ended.exit_code, ended.output) == (0, "Stocks: an event was sent to In\n")
    assert worker.app.sent == [("In", 77, ("IBM", 1.5, None))]


def test_what_the_worker_refuses_is_told_with_its_reason(worker: Worker):
    ended = worker.run("event", "Stocks", "In", "IBM", "cheap", "1")
    assert ended.exit_code != 0
    assert "'price' is a double, and 'cheap' is none" in str(ended.exception) + ended.output


def test_a_feed_is_brought_with_its_files_and_run_to_its_end(worker: Worker, tmp_path: Path):
    source = {"simulationType": "CSV_SIMULATION", "siddhiAppName": "Stocks", "streamName": "In", "fileName": "a.csv"}
    (tmp_path / "a.csv").write_text("IBM,1,1\nIBM,2,2\n")
    file = written(tmp_path, config("sales", source, timeInterval=0))
    ended = worker.run("run", file)
    assert (ended.exit_code, ended.stdout) == (0, "sales: STOP, 2 events sent\n")
    (tmp_path / "a.csv").write_text("IBM,3,3\n")
    assert worker.run("run", file).stdout == "sales: STOP, 1 events sent\n"  # both are brought anew
    assert [values[2] for _, _, values in worker.app.sent] == [1, 2, 3]
    assert json.loads(worker.run("list", "--json").stdout)[0]["sent"] == 1
    assert worker.run("delete", file).stdout == "sales: deleted\n"
    assert json.loads(worker.run("list", "--json").stdout) == []


def test_a_feed_without_its_app_fails_with_the_reason(worker: Worker, tmp_path: Path):
    ended = worker.run("run", written(tmp_path, config("sales", chance("Later"))))
    assert ended.exit_code != 0
    assert "no active Siddhi App 'Later'" in str(ended.exception) + ended.output
    assert "no active Siddhi App" in " ".join(worker.run("list").stdout.split())


def test_a_feed_is_paused_resumed_and_stopped_by_its_name_or_file(worker: Worker, tmp_path: Path):
    file = written(tmp_path, config("sales"))
    assert worker.run("run", file, "--detach").stdout == "sales: RUN\n"
    again = worker.run("run", file)
    assert "is RUN already" in str(again.exception) + again.output
    assert worker.run("pause", "sales").stdout == "sales: PAUSE\n"
    assert worker.run("resume", file).stdout == "sales: RUN\n"
    assert worker.run("stop", "sales").stdout == "sales: STOP\n"


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"properties": {"simulationName": 5}}'])
def test_a_file_that_is_no_simulation_is_refused(worker: Worker, tmp_path: Path, text: str):
    path = tmp_path / "feed.json"
    path.write_text(text)
    ended = worker.run("run", str(path))
    assert ended.exit_code != 0
    assert "SIMULATION_INVALID" in str(ended.exception) + ended.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_the_feed_and_the_command_says_what_was_sent(
    worker: Worker, tmp_path: Path, number: signal.Signals
):
    file = written(tmp_path, config("sales", timeInterval=5))
    command = [sys.executable, "-m", "nadi", "simulate", "run", file, *worker.options]
    environment = {**os.environ, "NADI_PASSWORD": "x"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        worker.app.until(lambda: len(worker.app.sent) > 5)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    sent = len(worker.app.sent)
    assert out.decode() == f"sales: STOP, {sent:,} events sent\n"
    assert "stopping sales" in err.decode()
    assert "Traceback" not in err.decode()
    assert process.returncode == 130
