"""An app of three groups over channels beside the same app in one node: events a second, processor time, latency.

The app drops events, sums them by key (one instance, or two), and passes each fourth row on: two hops. Undistributed it is `nadi run`; distributed it is a
manager and two workers, on the same cores, with channels on NATS (synced) or Kafka and a SQLite database for cuts and commits.

Throughput is from files to a file: the last four fifths of the events come when all rows of the first fifth are out, and the time counts until the last row
is. Processor time is that of all processes of nadi meanwhile, and of the servers that channels are on. Latency is that of single events from a NATS subject to
another one, at a steady rate. Every row is compared with numpy's.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np

from bench.analysis import percentiles
from bench.caps import capped
from bench.checkouts import Checkout
from bench.checks import WrongOutputError
from bench.children import Child, ChildFailedError, broker
from bench.delivery import kafka
from bench.events import PIECE, Events, Ints, make_events, messages
from bench.growth import FileGrowth
from bench.load import Order, sent_events
from bench.posts import settings_text
from bench.processtree import processes
from bench.publicnode import PublicNode, TooSlowError
from nadi.io.natsserver import free_port

Say = Callable[[str], object]

ALONE = "undistributed"
WAYS = (ALONE, "nats-1", "nats-2", "kafka-1", "kafka-2")
"""Undistributed, or on which channels, and how many instances the keyed group has."""
SCALES = ("scale-1", "scale-4")
"""A keyed group that is the slowest by far, in one instance and in four, on six workers that have a fifth of a core each."""
SCALED_EVENTS, SCALED_WORKERS, CAP = 400_000, 6, 0.2
HOPS = 2
CENTS = 2_500  # events of a lower price are dropped
EACH = 4
WARM = 0.2  # of the events
SETTLE = 200  # ms that a file must be unchanged before it is read
QUIET = 1.0  # seconds without a row after which it is looked whether all are there
STARTS_WITHIN = 240.0
LAST_LINES = 30
RUN_WITHIN = 600.0

APP = """@app:name('Bench')
@source({source}, @map(type='json'))
define stream In (ts long, sym string, price double, vol int);
@sink({sink}, @map(type='json'))
define stream Out (ts long, sym string, total long, n long);
@info(name='good') @dist(execGroup='good')
from In[price >= 25.0] select ts, sym, vol insert into Good;
@dist(execGroup='keyed', parallel='{parallel}')
partition with (sym of Good)
begin
  @info(name='sums') from Good select ts, sym, sum(vol) as total, count() as n{sieve} insert into Sums;
{more}end;
@info(name='last') @dist(execGroup='last')
from Sums[n % 4 == 0] select ts, sym, total, n insert into Out;
"""
HEAVY = """
  from Good#window.length(50) select ts, sym, avg(vol) as mean, stdDev(vol) as spread, minForever(vol) as low insert into Windows;
  from every e1=Good[vol >= 60] -> e2=Good[vol > e1.vol] -> e3=Good[vol < e2.vol] within 1 sec
  select e1.ts as ts, e1.sym as sym, e2.vol as vol insert into Runs;
"""
"""What the keyed group does besides where it is to be the slowest: nothing of it leaves the group."""
SIEVE = f" having n % {EACH} == 0"
"""There it drops itself what the last group would drop: else that one, of which there is only one, has as much to do as four of these."""
SLOW = {"nadi.kernel": "rows"}
"""In columns even that is so quick that what a batch costs by itself, however little is in it, decides: then one instance is enough."""
COMMON = """
nadi:
  cluster: {{secret: {secret}}}
  state: {{url: "{folder}/state"}}
  cuts: {{url: "sqlite:///{folder}/cuts.db"}}
  journal: {{url: "{nats}"}}
"""
MANAGER = """
wso2.carbon: {{id: manager-1}}
wso2.transport.http: {{listenerConfigurations: [{{id: a, port: {port}}}]}}
deployment.config:
  type: distributed
  httpInterface: {{host: 127.0.0.1, port: {port}}}
  {channels}
"""
WORKER = """
wso2.carbon: {{id: worker-{n}}}
wso2.transport.http: {{listenerConfigurations: [{{id: a, port: {port}}}]}}
siddhi.stores.query.api: {{listenerConfigurations: [{{id: q, port: {query}}}]}}
deployment.config:
  type: distributed
  httpInterface: {{host: 127.0.0.1, port: {port}}}
  resourceManagers: [{{host: 127.0.0.1, port: {manager}, scheme: http}}]
"""


@dataclass(frozen=True, slots=True)
class DistributedSetting:
    """`events` go from file to file; then `rate` a second are sent for `warm` and `seconds` seconds (0: not). `cap` is the share of a core that each worker
    has at most once the app runs (0: as much as it gets), `more` stands in the partition of the app."""

    folder: Path
    checkout: Checkout
    events: int
    rate: int
    warm: float
    seconds: float
    conf: Mapping[str, str] = field(default_factory=dict)
    workers: int = 2
    cap: float = 0.0
    more: str = ""

    @property
    def settings(self) -> dict[str, str]:
        return {"nadi.batch.events": str(max(1_000, min(50_000, self.events // 20))), **self.conf}


@dataclass(slots=True)
class Cluster:
    """A manager and workers that run."""

    manager: PublicNode
    workers: list[PublicNode]
    url: str
    password: str

    def deploy(self, text: str) -> None:
        """Deploy an app and wait until all of it runs. Errors: ChildFailedError, TooSlowError, with what the manager knows of the reason."""
        answer = httpx.post(f"{self.url}/siddhi-apps", content=text, auth=("admin", self.password), timeout=60)
        if answer.status_code != 201:
            said = "\n".join(self.manager.lines[-LAST_LINES:])
            raise ChildFailedError(f"the app was not deployed: {answer.text}\nthe manager said last:\n{said}")
        try:
            self.manager.until(lambda: self._is_active() or None, STARTS_WITHIN, "app that is active")
        except TooSlowError as late:
            raise TooSlowError(f"{late}\nthe app: {self._asked('details').text}") from late

    def _is_active(self) -> bool:
        for worker in self.workers:
            worker.check()
        return bool(self._asked("status").json() == {"status": "active"})

    def _asked(self, what: str) -> httpx.Response:
        return httpx.get(f"{self.url}/siddhi-apps/Bench/{what}", auth=("admin", self.password), timeout=60)


@contextlib.contextmanager
def cluster(setting: DistributedSetting, folder: Path, channels: str, nats: str) -> Iterator[Cluster]:
    """A manager and workers for the time of a block. Errors: ChildFailedError."""
    folder.mkdir(parents=True)
    (folder / "shared").mkdir(mode=0o700)
    common = COMMON.format(secret=secrets.token_hex(24), folder=folder / "shared", nats=nats)
    port = free_port()

    def started(name: str, command: str, text: str) -> PublicNode:
        file = folder / f"{name}.yaml"
        file.write_text(text)
        file.chmod(0o600)
        words = [command, "--conf", str(file), "--home", str(folder / f"{name}-home")]
        return PublicNode(setting.checkout, folder / name, [], command=words)

    with contextlib.ExitStack() as stack:
        manager = stack.enter_context(
            started("manager", "manager", MANAGER.format(port=port, channels=channels) + common)
        )
        url = f"http://127.0.0.1:{port}"
        manager.until(lambda: _is_ready(url) or None, 60, "answer")
        workers = []
        conf = {"spark.master": "local[2,4]", "nadi.connector.folders": str(folder.parent), **setting.settings}
        own = {key: value for key, value in conf.items() if not key.startswith("nadi.")}
        shared = "".join(f"  {key[5:]}: {value}\n" for key, value in conf.items() if key.startswith("nadi."))
        for n in range(1, setting.workers + 1):
            at = free_port()
            text = WORKER.format(n=n, port=at, query=free_port(), manager=port) + common + shared + settings_text(own)
            workers.append(stack.enter_context(started(f"worker-{n}", "worker", text)))
            workers[-1].until(lambda at=at: _is_ready(f"http://127.0.0.1:{at}") or None, 120, "place in the cluster")  # type: ignore[misc]
        yield Cluster(manager, workers, url, manager.password)


def _is_ready(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/health/ready", timeout=10).status_code == 200
    return False


# ---- what must come out


def expected(events: Events) -> set[tuple[int, str, int, int]]:
    """The rows, without numpy's types: (ts, sym, total, n)."""
    good = events.cents >= CENTS
    key, vol, ts = events.key[good], events.vol[good], events.ts[good]
    order = np.argsort(key, kind="stable")
    sums, begins = np.cumsum(vol[order]), np.flatnonzero(np.diff(key[order], prepend=-1))
    which = np.cumsum(np.diff(key[order], prepend=-1) != 0) - 1
    before = np.concatenate([[0], sums])[begins]
    total, n = sums - before[which], np.arange(len(order)) - begins[which] + 1
    out = n % EACH == 0
    columns = (ts[order][out], key[order][out], total[out], n[out])
    return {(t, f"S{k}", s, c) for t, k, s, c in zip(*(c.tolist() for c in columns), strict=True)}


def compared(lines: list[bytes], wanted: set[tuple[int, str, int, int]]) -> Ints:
    """The times of rows, in the order in which they came, if all that must be are there, once, and those of a key in order. Errors: WrongOutputError."""
    found, last = [], dict[str, int]()
    for line in lines:
        told = msgspec.json.decode(line)
        for one in told if isinstance(told, list) else [told]:
            event = one["event"]
            if last.get(event["sym"], 0) >= event["n"]:
                raise WrongOutputError(f"after row {last[event['sym']]} of {event['sym']} comes row {event['n']}")
            last[event["sym"]] = event["n"]
            found.append((event["ts"], event["sym"], event["total"], event["n"]))
    if wrong := set(found) ^ wanted:
        raise WrongOutputError(f"{len(found)} rows, wanted {len(wanted)}; {sorted(wrong)[:3]} differ")
    return np.array([row[0] for row in found], np.int64)


# ---- throughput


def cpu(folder: Path, servers: Mapping[str, int]) -> float:
    """Seconds of processor time of all processes of a run, and of servers by their process ids."""
    return sum(one.seconds for one in processes(folder)) + sum(_seconds(pid) for pid in servers.values())


def _seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Given:
    """The events of a run. The first `warm` of them are in a file of their own, which all have been through the app before the others come: what is measured
    then begins with empty channels and ends with empty ones."""

    events: Events
    warm: int
    files: tuple[Path, Path]


def written(folder: Path, count: int) -> Given:
    """Make the files."""
    warm = int(WARM * count)
    files = (folder / "warm.jsonl", folder / "rest.jsonl")
    for path, start, stop in zip(files, (0, warm), (warm, count), strict=True):
        with path.open("wb") as out:
            for at in range(start, stop, PIECE):
                out.write(b"\n".join(messages(make_events(at, min(stop, at + PIECE)))) + b"\n")
    return Given(make_events(0, count), warm, files)


def _throughput(given: Given, folder: Path, run: Run) -> dict[str, Any]:
    """From files to a file. Errors: ChildFailedError, TooSlowError, WrongOutputError."""
    source, target = folder / "in", folder / "out.jsonl"
    source.mkdir()
    os.link(given.files[0], source / "a.jsonl")
    wanted = expected(given.events)
    files = (
        f"type='file', dir.uri='{source}', file.settle='{SETTLE}', event.time='ts'",
        f"type='file', file.uri='{target}'",
    )
    with run(files) as (node, check, cpu_so_far), FileGrowth(target) as growth:

        def there(rows: int) -> bool | None:
            check()
            quiet = growth.samples and time.monotonic() - growth.samples[-1][0] > QUIET
            return (quiet and target.read_bytes().count(b'"n":') >= rows) or None

        node.until(lambda: there(len(expected(given.events.first(given.warm)))), STARTS_WITHIN, "end of the first rows")
        spent, began = cpu_so_far(), time.monotonic() + SETTLE / 1000
        os.link(given.files[1], source / "b.jsonl")
        node.until(lambda: there(len(wanted)), RUN_WITHIN, "last row")
        spent, took = cpu_so_far() - spent, growth.samples[-1][0] - began
    compared(target.read_bytes().splitlines(), wanted)
    count = len(given.events) - given.warm
    return {
        "events_per_s": round(count / took),
        "cpu_us_an_event": round(spent / count * 1e6, 2),
        "seconds": round(took, 1),
        "load": list(os.getloadavg()),
    }


def measure_way(way: str, setting: DistributedSetting, given: Given, say: Say) -> dict[str, Any]:
    """Figures of one way to run the app. Errors: ChildFailedError, WrongOutputError."""
    folder = setting.folder / way
    transport, _, number = way.partition("-")
    found: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(_prepared(setting, folder, transport, int(number or 1)))
        if setting.events:
            say(f"{way}: {setting.events:,} events from files to a file")
            found |= _throughput(given, folder, run)
            say(f"{way}: {found['events_per_s']:,} events/s, {found['cpu_us_an_event']:.1f} µs of processor time each")
        if setting.seconds:
            found["latency_ms"] = _latency(way, setting, folder, run, say)
    return found


Run = Callable[
    [tuple[str, str]], contextlib.AbstractContextManager[tuple[PublicNode, Callable[[], object], Callable[[], float]]]
]
"""Runs the app with a source and a sink: a process to watch, a check that all live, the processor time so far."""


@contextlib.contextmanager
def _prepared(setting: DistributedSetting, folder: Path, transport: str, parallel: int) -> Iterator[Run]:
    """The servers of a way to run the app."""
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        if transport == ALONE:
            yield lambda ends: _alone(setting, folder / secrets.token_hex(3), ends)
            return
        nats = stack.enter_context(broker(folder / "nats", synced=True))
        servers, channels = {"nats": _listener(nats)}, f'natsServerUrl: "{nats}"'
        if transport == "kafka":
            address = stack.enter_context(kafka(folder / "kafka"))
            channels = f'bootstrapURLs: "{address}"'
            servers["kafka"] = _listener(address)
        yield lambda ends: _spread(setting, folder / secrets.token_hex(3), ends, parallel, (channels, nats), servers)


@contextlib.contextmanager
def _alone(setting: DistributedSetting, folder: Path, ends: tuple[str, str]) -> Iterator[Any]:
    folder.mkdir()
    file = folder / "bench.siddhi"
    file.write_text(APP.format(source=ends[0], sink=ends[1], parallel=1, more="", sieve=""))
    with PublicNode(setting.checkout, folder / "node", [file], conf=setting.settings) as node:
        yield node, node.check, lambda: cpu(folder / "node", {})


@contextlib.contextmanager
def _spread(
    setting: DistributedSetting,
    folder: Path,
    ends: tuple[str, str],
    parallel: int,
    places: tuple[str, str],
    servers: Mapping[str, int],
) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        caps = stack.enter_context(contextlib.ExitStack())  # groups are removed when their processes have ended
        running = stack.enter_context(cluster(setting, folder, *places))
        running.deploy(
            APP.format(
                source=ends[0], sink=ends[1], parallel=parallel, more=setting.more, sieve=SIEVE if setting.more else ""
            )
        )
        for worker in running.workers if setting.cap else ():
            caps.enter_context(capped([one.pid for one in processes(worker.folder)], setting.cap))
        nodes = [running.manager, *running.workers]

        def check() -> None:
            for node in nodes:
                node.check()

        def spent() -> float:
            return sum(cpu(node.folder, {}) for node in nodes) + cpu(folder, servers)

        yield running.manager, check, spent


def _listener(address: str) -> int:
    """The process that listens on the port of an address."""
    wanted = f":{int(address.rpartition(':')[2]):04X}"
    for line in (*Path("/proc/net/tcp").read_text().splitlines(), *Path("/proc/net/tcp6").read_text().splitlines()):
        words = line.split()
        if words[1].endswith(wanted) and words[3] == "0A":
            inode = f"socket:[{words[9]}]"
            for path in Path("/proc").glob("[0-9]*/fd/*"):
                with contextlib.suppress(OSError):
                    if os.readlink(path) == inode:
                        return int(path.parts[2])
    raise WrongOutputError(f"nobody listens on {address}")


# ---- latency


def _latency(way: str, setting: DistributedSetting, folder: Path, run: Run, say: Say) -> dict[str, float]:
    say(f"{way}: {setting.rate:,} events/s for {setting.seconds:.0f} s")
    with broker(folder / "ends") as url:
        server = f"type='nats', bootstrap.servers='{url}', destination="
        order = Order(url, "bench.in", "bench.out", setting.rate, setting.warm, setting.seconds, str(folder / "load"))
        file = folder / "order.json"
        file.write_bytes(msgspec.json.encode(order))
        load = Child("bench.load", file, folder / "load.log", {})
        try:
            load.until("ready", 60, lambda _told: None)
            with run((f"{server}'bench.in'", f"{server}'bench.out'")):
                told = load.until("sent", 180 + setting.warm + setting.seconds, lambda _told: None)
                time.sleep(3)  # all rows are on their way; what does not come is found by the comparison
                load.say("all")
                told = load.until("done", 60, lambda _told: None)
        finally:
            load.end()
    sent, came = sent_events(folder / "load"), np.load(folder / "load" / "came.npy")
    lines = (folder / "load" / "came.jsonl").read_bytes().splitlines()
    times = compared(lines, expected(sent))
    counts = [len(found) if isinstance(found := msgspec.json.decode(line), list) else 1 for line in lines]
    arrived = np.repeat(came, counts)
    low, high = told["counted"]
    inside = (times >= low) & (times < high)
    found = percentiles(arrived[inside] - times[inside])
    say(f"{way}: p50 {found.get('p50', 0):,.0f} ms, p99 {found.get('p99', 0):,.0f} ms")
    return found


def measure_distributed(
    setting: DistributedSetting, ways: Sequence[str], say: Say
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Figures of each way, one after the other; undistributed first. Errors: ChildFailedError, WrongOutputError."""
    given = written(setting.folder, setting.events)
    base: dict[str, Any] = {}
    for way in (ALONE, *(way for way in ways if way != ALONE)):
        told = measure_way(way, setting, given, say)
        base = base or told
        if way != ALONE:
            told |= beside(told, base)
        yield way, told


def measure_scale(setting: DistributedSetting, say: Say) -> Iterator[tuple[str, dict[str, Any]]]:
    """How much faster four instances are than one where each worker has little of a core. Errors: ChildFailedError, WrongOutputError."""
    setting = replace(
        setting,
        folder=setting.folder / "scaled",
        workers=SCALED_WORKERS,
        cap=CAP,
        more=HEAVY,
        events=SCALED_EVENTS,
        seconds=0.0,
        conf={**setting.conf, **SLOW},
    )
    setting.folder.mkdir(exist_ok=True)
    given = written(setting.folder, setting.events)
    base = 0.0
    for way in SCALES:
        told = measure_way(way, setting, given, say)
        base = base or told["events_per_s"]
        yield way, {**told, "times": round(told["events_per_s"] / base, 2)}


def beside(told: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """What a way costs more than the app undistributed."""
    found: dict[str, Any] = {}
    if "events_per_s" in told:
        found["share"] = round(told["events_per_s"] / base["events_per_s"], 3)
        found["hop_us_an_event"] = round((told["cpu_us_an_event"] - base["cpu_us_an_event"]) / HOPS, 2)
    if told.get("latency_ms"):
        found["hop_ms"] = round((told["latency_ms"]["p50"] - base["latency_ms"]["p50"]) / HOPS, 1)
    return found
