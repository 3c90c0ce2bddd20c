"""The suite `http`: an http source of a `nadi worker`, as a team's clients use it. What is asked, and what the project wants of it.

A worker runs one app: http source → filter → file. `posts_load.py` is its clients: a process of their own that sends over raw sockets, so that the load takes
little of the processors. Each event has a number; each one that was acknowledged must come out exactly once, each other one at most once.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import numpy.typing as npt

from bench.checkouts import Checkout
from bench.checks import WrongOutputError
from bench.children import Child
from bench.posts_rest import Asking
from bench.processtree import memory, processes, used
from bench.publicnode import PublicNode
from nadi.io.natsserver import free_port

APP = "HttpBench"
SECONDS = 20.0
CLIENTS = 64  # of single events, each with one request at a time
BODY_EVENTS, BODY_RATE, BODY_CLIENTS = 100, 30_000, 16
IDLE = 10_000
USED = 1_000  # of the idle connections, which then send something
READY_WITHIN, ROWS_WITHIN = 300.0, 120.0
WARM = 5.0  # seconds of single events that are checked and not counted

GOALS: dict[str, float] = {"singles": 2_000, "bodies": BODY_RATE, "rest_p99": 200.0, "idle": IDLE}
"""Requests/s, events/s, ms, connections. All but the third are lower bounds."""

TEXT = """@App:name('{app}')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', socket.idle.timeout='600000', @map(type='json'))
define stream In (id long, price double);
@sink(type='file', file.uri='{output}', @map(type='json'))
define stream Out (id long, price double);
from In[price >= 50.0] select id, price insert into Out;
"""
DEPLOYMENT = """
wso2.transport.http:
  listenerConfigurations: [{{port: {rest}}}]
siddhi.stores.query.api:
  listenerConfigurations: [{{port: 0}}]
"""
_ID = re.compile(rb'"id":(\d+)')

Say = Callable[[str], object]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HttpSetting:
    """`conf`: settings of Spark and nadi."""

    folder: Path
    checkout: Checkout
    seconds: float
    master: str
    conf: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Running:
    """A worker whose app takes messages. `numbers` is where the next load begins to number its events."""

    node: PublicNode
    folder: Path
    url: str
    output: Path
    rest: str
    password: str

    def load(self, kind: str, numbers: int, **more: Any) -> Child:
        """Clients that begin at once."""
        plan = self.folder / f"{kind}.json"
        told = {"kind": kind, "url": self.url, "first": numbers, "taken": str(taken_file(self.folder, kind)), **more}
        plan.write_bytes(msgspec.json.encode(told))
        return Child("bench.posts_load", plan, self.folder / f"{kind}.log", {})


def taken_file(folder: Path, kind: str) -> Path:
    """Where clients note what was acknowledged: pairs of a first number and a count."""
    return folder / f"{kind}.taken"


def passes(number: int) -> bool:
    """Whether an event comes through the filter: those of even numbers do.

    >>> passes(2), passes(3)
    (True, False)
    """
    return number % 2 == 0


@contextlib.contextmanager
def running(setting: HttpSetting, say: Say) -> Iterator[Running]:
    """A worker with the app. Errors: ChildFailedError."""
    folder = setting.folder
    home = folder / "home"
    files, reached = home / "deployment/siddhi-files", home / "files"
    for made in (files, reached):
        made.mkdir(parents=True)
    output = reached / "out.jsonl"
    port, rest = free_port(), free_port()
    (files / f"{APP}.siddhi").write_text(TEXT.format(app=APP, port=port, output=output))
    deployment = DEPLOYMENT.format(rest=rest) + settings_text({"spark.master": setting.master, **setting.conf})
    (folder / "deployment.yaml").write_text(deployment)
    command = ["worker", "--conf", str(folder / "deployment.yaml"), "--home", str(home)]
    with PublicNode(setting.checkout, folder, [], command=command) as node:
        say("starting a worker")
        url, source = f"http://127.0.0.1:{rest}", f"http://127.0.0.1:{port}/in"
        node.until(lambda: takes(source) or None, READY_WITHIN, "message that is acknowledged")
        node.until(lambda: Asking.is_ready(url) or None, READY_WITHIN, "answer of /health/ready")
        yield Running(node, folder, source, output, url, node.password)


def takes(source: str) -> bool:
    """Whether a message is acknowledged, one that does not come through the filter. An app is ready when it has had its first batch, which wants an event."""
    with contextlib.suppress(httpx.HTTPError):
        return httpx.post(source, json={"event": {"id": 1, "price": 25.5}}).status_code == 202
    return False


def settings_text(conf: dict[str, str]) -> str:
    """Settings as sections of a deployment.yaml.

    >>> settings_text({"spark.master": "local[2]", "nadi.kernel": "auto"})
    'spark: {"master":"local[2]"}\\nnadi: {"kernel":"auto"}\\n'
    """
    sections: dict[str, dict[str, str]] = {}
    for name, value in conf.items():
        section, _, rest = name.partition(".")
        sections.setdefault(section, {})[rest] = value
    return "".join(f"{name}: {msgspec.json.encode(keys).decode()}\n" for name, keys in sections.items())


def measure_http(setting: HttpSetting, say: Say) -> dict[str, Any]:
    """The three goals, on one worker. Errors: ChildFailedError; WrongOutputError where a row is lost, wrong or there twice."""
    told: dict[str, Any] = {}
    kinds: list[str] = []

    def stage(kind: str, measure: Callable[[], dict[str, Any]]) -> None:
        say(f"{kind} …")
        kinds.append(kind)
        told[kind] = measure()

    with running(setting, say) as worker:
        stage("warm", lambda: of_singles(worker, "warm", 0, WARM))
        stage("singles", lambda: of_singles(worker, "singles", 100_000_000, setting.seconds))
        stage("bodies", lambda: of_bodies(worker, 200_000_000, setting.seconds))
        stage("idle", lambda: of_idle(worker, 300_000_000))
        taken = np.concatenate([taken_numbers(taken_file(setting.folder, kind)) for kind in kinds])
        wanted = int((taken % 2 == 0).sum())
        worker.node.until(lambda: len(numbers_in(worker.output)) >= wanted or None, ROWS_WITHIN, f"{wanted:,} rows")
        worker.node.stop()
        check_rows(taken, numbers_in(worker.output))
        told["rows"] = wanted
    return told


def of_singles(worker: Running, kind: str, first: int, seconds: float) -> dict[str, Any]:
    """One event in a request, as many as the source takes."""
    with contextlib.closing(_Load(worker, kind, first, clients=CLIENTS, seconds=seconds, events=1)) as load:
        return load.result(seconds)


def of_bodies(worker: Running, first: int, seconds: float) -> dict[str, Any]:
    """Many events in a request, at a rate, while the REST API is asked; then how long the last row takes."""
    given = {"clients": BODY_CLIENTS, "seconds": seconds, "events": BODY_EVENTS, "rate": BODY_RATE / BODY_EVENTS}
    with contextlib.closing(_Load(worker, "bodies", first, **given)) as load, Asking(worker) as asking:
        told = load.result(seconds)
    return {**told, "rest": asking.told()}


def of_idle(worker: Running, first: int) -> dict[str, Any]:
    """Connections that say nothing: what they cost, and whether they are answered when they do say something."""
    before = memory(worker.folder)
    load = worker.load("idle", first, clients=IDLE, used=USED, events=1)
    try:
        opened = load.until("open", 120, lambda _line: None)
        at_open = memory(worker.folder)
        begin, seen = time.monotonic(), processes(worker.folder)
        load.say("wait")
        load.until("waited", 60, lambda _line: None)
        cores = used(seen, processes(worker.folder), time.monotonic() - begin)
        load.say("use")
        told = load.until("done", 120, lambda _line: None)
    finally:
        load.end()
    cost = (at_open.pss - before.pss) / IDLE
    return {**told, "opened": opened["connections"], "bytes_each": cost, "cores": sum(cores.values())}


class _Load:
    """Clients at work, and what the processors do meanwhile."""

    def __init__(self, worker: Running, kind: str, first: int, **plan: Any) -> None:
        self._worker = worker
        self._begin, self._seen = time.monotonic(), processes(worker.folder)
        self._child = worker.load(kind, first, **plan)

    def result(self, seconds: float) -> dict[str, Any]:
        told = self._child.until("done", seconds + 60, lambda _line: None)
        cores = used(self._seen, processes(self._worker.folder), time.monotonic() - self._begin)
        return {**told, "cores": cores}

    def close(self) -> None:
        self._child.end()


# ---- what came out


def taken_numbers(file: Path) -> Ints:
    """The numbers of all events that were acknowledged."""
    pairs = np.fromfile(file, np.int64).reshape(-1, 2)
    first, count = pairs[:, 0], pairs[:, 1]
    offsets = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(first, count) + offsets


def numbers_in(file: Path) -> Ints:
    """The numbers of the events that came out; those of a body are in one line."""
    if not file.exists():
        return np.empty(0, np.int64)
    return np.array(_ID.findall(file.read_bytes()), dtype=np.int64)


def check_rows(taken: Ints, found: Ints) -> None:
    """Each acknowledged event that passes is there once, no other one more often. Errors: WrongOutputError.

    >>> check_rows(np.array([1, 2, 4]), np.array([4, 2, 6]))
    >>> check_rows(np.array([2, 4]), np.array([4, 4]))
    Traceback (most recent call last):
    bench.checks.WrongOutputError: of 2 acknowledged events that pass, 1 did not come out; 1 came out more than once, 0 must not have passed
    """
    wanted = taken[taken % 2 == 0]
    numbers, counts = np.unique(found, return_counts=True)
    lost = len(np.setdiff1d(wanted, numbers))
    twice, wrong = int((counts > 1).sum()), int((numbers % 2).sum())
    if lost or twice or wrong:
        raise WrongOutputError(
            f"of {len(wanted):,} acknowledged events that pass, {lost:,} did not come out; "
            f"{twice:,} came out more than once, {wrong:,} must not have passed"
        )
