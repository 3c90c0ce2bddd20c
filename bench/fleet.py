"""A manager with a fleet: what heartbeats of 1,000 workers cost it, and what it costs to place 2,000 instances on 200 workers and to even them out.

The manager is a process (`nadi manager`, with its own file as database, or with PostgreSQL); workers are tasks of another process that speak the signed
protocol of nodes through nadi's own modules (`fleet_workers.py`). Processor time is that of the manager's process, user and system, as /proc has it.

| stage | what is measured |
|---|---|
| heartbeats | so many workers, two seconds between the heartbeats of each: share of a core |
| deploy | apps of 20 instances each are deployed on a fifth of the fleet, one after the other, until all run |
| grow | a tenth more workers join: instances move until loads are even |
| shrink | the same workers vanish: what they had is placed elsewhere |
| decisions | the decisions of deploy and grow alone, in this process: no database, no HTTP |

From the processor time of deploy, grow and shrink that of the heartbeats of the same time is taken off.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.children import Child, ChildFailedError
from nadi.cluster.ledger import Ledger
from nadi.cluster.messages import Deploy, Done, PartText, Running
from nadi.cluster.placement import Wish
from nadi.cluster.presence import Presence
from nadi.cluster.reconciliation import Situation, reconcile
from nadi.cluster.settings import Placing, Timing
from nadi.cluster.writes import written
from nadi.io.natsserver import free_port
from nadi.server.distributed.network import HttpNetwork
from nadi.server.distributed.nodekeys import NodeKey

Show = Callable[[str], object]

INSTANCES = 20  # of an app, ten groups of two
TEXT = "-- an instance\n" + "from In[a > 1] select a, b, c insert into Out;\n" * 40  # 2 KB, as partial apps have
SETTLES = 120.0  # seconds
TICK = os.sysconf("SC_CLK_TCK")
MANAGER = """
wso2.carbon: {{id: manager-1}}
wso2.transport.http: {{listenerConfigurations: [{{id: a, port: {port}}}]}}
deployment.config:
  type: distributed
  httpInterface: {{host: 127.0.0.1, port: {port}}}
  natsServerUrl: "nats://127.0.0.1:1"
nadi:
  cluster: {{secret: {secret}}}
{database}
"""
DATABASE = """
wso2.datasources:
  dataSources:
    - {{name: SP_MGT_DB, definition: {{configuration: {{jdbcUrl: "{url}"}}}}}}
"""


@dataclass(frozen=True, slots=True)
class FleetSetting:
    """`seconds` is how long heartbeats are measured. `database`: a URL, or "" for the manager's own file."""

    folder: Path
    workers: int = 1_000
    instances: int = 2_000
    seconds: float = 20.0
    database: str = ""

    @property
    def few(self) -> int:
        """On how many the instances are placed."""
        return self.workers // 5


class Manager:
    """A manager's process."""

    def __init__(self, setting: FleetSetting) -> None:
        self.secret = secrets.token_hex(24)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        file = setting.folder / "manager.yaml"
        database = DATABASE.format(url=setting.database) if setting.database else ""
        file.write_text(MANAGER.format(port=port, secret=self.secret, database=database))
        file.chmod(0o600)
        command = [sys.executable, "-m", "nadi", "manager", "--conf", str(file), "--home", str(setting.folder / "home")]
        if profiler := os.environ.get("NADI_BENCH_PROFILER"):  # a program that runs a module: `-m nadi …` follows it
            command[1:1] = profiler.split()
        self._log = setting.folder / "manager.log"
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        limit = time.monotonic() + 60
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > limit:
                raise ChildFailedError(f"the manager did not start, see {self._log}")
            time.sleep(0.1)

    def _ready(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/health/ready").json().get("leads") is True
        return False

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory(self) -> float:
        """MB that it holds."""
        for line in Path(f"/proc/{self._process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return round(int(line.split()[1]) / 1024, 1)
        return 0.0

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Fleet:
    """The workers' process."""

    def __init__(self, setting: FleetSetting, manager: Manager) -> None:
        file = setting.folder / "fleet.json"
        file.write_text(json.dumps({"secret": manager.secret, "port": free_port(), "manager": manager.url}))
        self._child = Child("bench.fleet_workers", file, setting.folder / "fleet.log", {})
        self._child.until("ready", 60, _nobody)

    def more(self, count: int) -> None:
        self._child.say(f"more {count}")
        self._child.until("more", 120, _nobody)

    def fewer(self, count: int) -> None:
        self._child.say(f"fewer {count}")
        self._child.until("fewer", 120, _nobody)

    def spread(self) -> dict[str, Any]:
        self._child.say("spread")
        return self._child.until("spread", 60, _nobody)

    def settled(self, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait until what workers have is as wanted. Errors: ChildFailedError."""
        limit = time.monotonic() + SETTLES
        while not holds(found := self.spread()):
            if time.monotonic() > limit:
                raise ChildFailedError(f"{what} did not come about: {found}")
            time.sleep(0.1)
        return found

    def end(self) -> None:
        self._child.end()


def _nobody(_told: dict[str, Any]) -> None:
    return None


@contextlib.contextmanager
def _running(setting: FleetSetting) -> Iterator[tuple[Manager, Fleet]]:
    setting.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        manager = Manager(setting)
        stack.callback(manager.end)
        fleet = Fleet(setting, manager)
        stack.callback(fleet.end)
        yield manager, fleet


def measure_heartbeats(setting: FleetSetting, show: Show) -> dict[str, Any]:
    """What the heartbeats of a fleet without instances cost. Errors: ChildFailedError."""
    with _running(setting) as (manager, fleet):
        show(f"{setting.workers:,} workers join")
        began, cpu = time.monotonic(), manager.cpu()
        fleet.more(setting.workers)
        joining, took = manager.cpu() - cpu, time.monotonic() - began
        time.sleep(6)
        told = _share(manager, fleet, setting.seconds, show)
        return {
            **told,
            "workers": setting.workers,
            "joining_cpu_s": joining,
            "joining_s": took,
            "memory_mb": manager.memory(),
        }


def _share(manager: Manager, fleet: Fleet, seconds: float, show: Show) -> dict[str, Any]:
    show(f"heartbeats for {seconds:.0f} s")
    fleet.spread()
    before, began = manager.cpu(), time.monotonic()
    time.sleep(seconds)
    cpu, took = manager.cpu() - before, time.monotonic() - began
    answers = fleet.spread()
    return {
        "share": round(cpu / took, 4),
        "unanswered": answers["failures"],
        "beats_per_s": round(answers["answers"] / took, 1),
        "us_a_beat": round(cpu / max(1, answers["answers"]) * 1e6, 1),
        "answer_ms": {"median": answers["median_ms"], "p99": answers["p99_ms"]},
        "load": list(os.getloadavg()),
    }


def measure_placement(setting: FleetSetting, show: Show) -> dict[str, Any]:
    """What it costs to place instances, and to even them out. Errors: ChildFailedError."""
    found: dict[str, Any] = {}
    with _running(setting) as (manager, fleet):
        fleet.more(setting.few)
        time.sleep(12)  # nothing moves onto workers that have just come
        share = found["idle"] = _share(manager, fleet, 6, show)

        def stage(name: str, work: Callable[[], object], holds: Callable[[dict[str, Any]], bool]) -> None:
            show(name)
            cpu, began = manager.cpu(), time.monotonic()
            work()
            spread = fleet.settled(holds, name)
            took, spent = time.monotonic() - began, manager.cpu() - cpu
            found[name] = {
                "cpu_s": round(max(0.0, spent - took * share["share"]), 3),
                "cpu_with_heartbeats_s": round(spent, 3),
                "took_s": round(took, 2),
                "least": spread["least"],
                "most": spread["most"],
            }

        more, each = setting.few // 10, setting.instances // setting.few
        stage("deploy", lambda: _deploy(manager, setting), lambda s: s["runs"] == setting.instances)
        share = found["with instances"] = _share(manager, fleet, 6, show)
        even = setting.instances // (setting.few + more)
        stage("grow", lambda: fleet.more(more), lambda s: s["runs"] == setting.instances and s["least"] >= even)
        stage("shrink", lambda: fleet.fewer(more), lambda s: s["runs"] == setting.instances and s["least"] >= each - 1)
    return found


def _deploy(manager: Manager, setting: FleetSetting) -> None:
    asyncio.run(_deployed(manager, setting))


async def _deployed(manager: Manager, setting: FleetSetting) -> None:
    network = HttpNetwork(NodeKey(manager.secret), {}, None)
    try:
        for n in range(setting.instances // INSTANCES):
            done = await network.ask(manager.url, Deploy(f"App{n}", TEXT, _parts(f"App{n}")), 10_000)
            if not isinstance(done, Done):
                raise ChildFailedError(f"an app was not deployed: {done}")
    finally:
        await network.close()


def _parts(app: str) -> tuple[PartText, ...]:
    return tuple(
        PartText(f"{app}-g{n // 2}-{n % 2 + 1}", f"{app}-g{n // 2}", f"-- {app} {n}\n{TEXT}") for n in range(INSTANCES)
    )


def measure_decisions(setting: FleetSetting, show: Show) -> dict[str, Any]:
    """The decisions alone: to place all instances at once, and to even them out over a tenth more workers. s of processor time of this process."""
    show("decisions alone")
    ledger = Ledger()
    for n in range(setting.instances // INSTANCES):
        written(ledger, _situation({}, {}, {}), Deploy(f"App{n}", TEXT, _parts(f"App{n}")))
    presences = {name: _present(name) for name in _names(0, setting.few)}
    wishes: dict[str, Wish] = {}
    ledger, place = _decided(ledger, presences, wishes, 0)
    before = {instance: row.worker for instance, row in ledger.placements.items()}
    presences |= {name: _present(name) for name in _names(setting.few, setting.few // 10)}
    even, rounds, quiet = 0.0, 0, 0
    while quiet < 2:  # a round that only hears that all runs, and one that has nothing to do
        rounds += 1
        of: dict[str, dict[str, Running]] = {name: {} for name in presences}
        for row in ledger.placements.values():
            if row.wanted:
                of[row.worker][row.instance] = Running(row.instance, row.epoch, "running")
        for name, heard in presences.items():
            heard.running, heard.applied = of[name], (1, rounds)
        placements = ledger.placements
        ledger, took = _decided(ledger, presences, wishes, rounds)
        even += took
        quiet = quiet + 1 if ledger.placements == placements else 0
    counts = [sum(row.worker == name for row in ledger.placements.values()) for name in presences]
    return {
        "place_s": round(place, 3),
        "even_s": round(even, 3),
        "rounds": rounds,
        "moved": sum(before[instance] != row.worker for instance, row in ledger.placements.items()),
        "least": min(counts),
        "most": max(counts),
    }


def _names(first: int, count: int) -> list[str]:
    return [f"w{n:04d}" for n in range(first, first + count)]


def _present(name: str) -> Presence:
    return Presence(name, f"http://{name}", "1", False, 0, until=10**9)


def _situation(presences: dict[str, Presence], told: dict[str, int], wishes: dict[str, Wish]) -> Situation:
    return Situation(100_000, 0, 0, 1, presences, told, wishes, Timing(), Placing())


def _decided(
    ledger: Ledger, presences: dict[str, Presence], wishes: dict[str, Wish], number: int
) -> tuple[Ledger, float]:
    draft = ledger.copy()
    told = {row.instance: number for row in ledger.placements.values() if not row.wanted}
    about = _situation(presences, told, wishes)
    began = time.process_time()
    reconcile(draft, about)
    return draft, time.process_time() - began
