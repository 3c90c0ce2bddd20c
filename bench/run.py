"""Measures the pipeline, its latency, the rows or columns kernel alone, batches over states of several sizes, what exactly-once delivery costs, or nadi beside
its peers.

`python bench/run.py --suite pipeline|latency|rows|kernel|state|delivery|peers --json FILE`, see README.md.

Exit status: 0, 1 where an app put out something wrong or did not run, 130 after Ctrl-C (the file then holds what was measured, marked as incomplete).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec
from rich.console import Console
from rich.table import Table

from bench.apps import APPS
from bench.checks import WrongOutputError
from bench.children import ROOT, ChildFailedError, broker
from bench.delivery import KEYS, DeliverySetting, kafka, measure_delivery
from bench.events import make_events, write_file
from bench.kernel import BATCHES, KERNEL_APPS, measure_kernel
from bench.latency import APPS as LATENCY_APPS
from bench.latency import SECONDS, WARM, LatencySetting, measure_latency
from bench.measure import Setting, measure
from bench.peers import FEW, NoPeersError, find_peers, measure_peers, prepare
from bench.peers import REPEAT as PEER_REPEAT
from bench.peers_apps import SHAPES
from bench.peers_kafka import EVENTS as KAFKA_EVENTS
from bench.peers_kafka import KEYS as KAFKA_KEYS
from bench.peers_kafka import measure_kafka
from bench.report import tables
from bench.rows import FEEDS, RowsSetting, measure_rows, measure_state
from bench.rows_apps import ROWS_APPS
from bench.state import BODIES, SIZES, StateSetting
from bench.state_direct import measure_direct
from bench.state_run import measure_sizes

EVENTS = {
    "pipeline": 1_000_000,
    "rows": 300_000,
    "kernel": 2_000_000,
    "state": 0,
    "delivery": 600_000,
    "latency": 0,
    "peers": FEW,
}
REPEAT = {"rows": 5, "kernel": 5, "delivery": 3, "peers": PEER_REPEAT}
KAFKA = "kafka"  # what `--only` calls plain Spark over Kafka
STATE = "state"  # what `--only` calls the bytes of state per key
LINE_EVERY = 5.0  # seconds between two lines where the screen is no terminal


class Screen:
    """What the run is doing: one line that changes on a terminal, now and then a line elsewhere."""

    def __init__(self) -> None:
        self.console = Console()
        if not self.console.is_terminal:
            self.console.width = 140  # a file has room for the tables
        self._status = self.console.status("starting")
        self._said = 0.0

    def __enter__(self) -> Screen:
        if self.console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def show(self, line: str) -> None:
        if self.console.is_terminal:
            self._status.update(line)
        elif time.monotonic() - self._said > LINE_EVERY:
            self._said = time.monotonic()
            self.say(line)

    def say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def machine() -> dict[str, Any]:
    """What the figures hang on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "java": _said(["java", "-version"]).split('"')[1:2][0] if '"' in _said(["java", "-version"]) else "?",
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "pyarrow": version("pyarrow"),
        "numpy": version("numpy"),
        "commit": _said(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]) or "?",
        "load": list(os.getloadavg()),
    }


def _said(command: list[str]) -> str:
    """What a command prints, on whichever channel; "" where it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


class Result:
    """The file of a result, written again after every app."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path = path
        self.told: dict[str, Any] = {
            "suite": settings["suite"],
            "complete": False,
            "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "failed": "",
            "machine": machine(),
            "settings": settings,
            "apps": {},
        }

    def save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.write_bytes(msgspec.json.encode(self.told))
        fresh.replace(self._path)

    def add(self, app: str, figures: dict[str, Any]) -> None:
        # as a reader of the file finds them
        self.told["apps"][app] = json.loads(msgspec.json.encode(figures))
        if "identity" in self.told["apps"]:
            self.told["ratios_to_identity"] = ratios(self.told["apps"])
        self.save()

    def end(self, complete: bool, failed: str = "") -> None:
        self.told["complete"], self.told["failed"] = complete, failed
        self.told["machine"]["load_after"] = list(os.getloadavg())
        self.save()


def ratios(apps: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Each app to identity: events/s (less than 1 is slower), batch time and latencies (more than 1 is slower)."""
    base = apps.get("identity", {})
    made: dict[str, dict[str, float]] = {}
    for app, told in apps.items():
        mine: dict[str, float] = {}
        for kind, path in (
            ("throughput", ("events_per_s",)),
            ("throughput", ("batch_ms", "median")),
            ("latency", ("ms", "p50")),
            ("latency", ("ms", "p99")),
            ("latency", ("batch_ms", "median")),
        ):
            ours, theirs = _at(told.get(kind), path), _at(base.get(kind), path)
            if ours and theirs:
                mine[f"{kind} {path[0]} {path[-1]}" if len(path) > 1 else f"{kind} {path[0]}"] = round(ours / theirs, 3)
        made[app] = mine
    return made


def _at(told: Any, path: tuple[str, ...]) -> float | None:
    for name in path:
        told = told.get(name) if isinstance(told, dict) else None
    return told if isinstance(told, (int, float)) else None


def arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description="Benchmark of nadi.")
    options.add_argument("--suite", choices=tuple(EVENTS), default="pipeline")
    options.add_argument("--json", type=Path, required=True, help="file for the result")
    options.add_argument(
        "--seconds", type=float, help="of the latency measurement, after the warm-up (20, suite latency 30; 0: none)"
    )
    options.add_argument(
        "--warm", type=float, help="seconds of sending, after the first row, that do not count (15, suite latency 30)"
    )
    options.add_argument("--rate", type=int, default=5_000, help="events/s of the latency measurement")
    options.add_argument(
        "--events",
        type=int,
        help="of the throughput measurement (0: none; by default 1,000,000, of the rows 300,000, of delivery 600,000)",
    )
    options.add_argument(
        "--repeat",
        type=int,
        help="runs of each app of the suite rows (5; the fastest counts), of kernel (5) or delivery (3; the median counts)",
    )
    options.add_argument("--at-most", type=float, default=45.0, help="seconds of a throughput run (0: to its end)")
    options.add_argument(
        "--only",
        choices=tuple(dict.fromkeys([*APPS, *ROWS_APPS, *KERNEL_APPS, STATE, *BODIES, *SHAPES, KAFKA])),
        action="append",
        help="this app (of the pipeline identity, too); may be given again",
    )
    options.add_argument(
        "--size", type=int, action="append", help=f"MB of state (suite state; may be given again); by default {SIZES}"
    )
    options.add_argument(
        "--direct", action="store_true", help="suite state without Spark: batches over all sizes in turn"
    )
    options.add_argument(
        "--revision", action="store_true", help="suite state: make revisions while batches go on (not with --direct)"
    )
    options.add_argument(
        "--batches",
        type=int,
        default=0,
        help="batches over a state (0: 60, or as many as bring a new base into the store)",
    )
    options.add_argument(
        "--profile",
        action="store_true",
        help="cProfile in the hosts, or of the kernel: where the time goes; figures of the pipeline are slower than in truth",
    )
    options.add_argument("--master", default="local[*,4]", help="Spark's master")
    options.add_argument(
        "--conf",
        action="append",
        default=[],
        help="suite latency: key=value, a setting of Spark (spark.…) or nadi (nadi.…)",
    )
    options.add_argument(
        "--peers", type=Path, help="suite peers: the folder of the peers' programs (or in the environment, NADI_PEERS)"
    )
    options.add_argument("--keep", type=Path, help="keep all files in this (new) folder")
    asked = options.parse_args()
    known = {
        "rows": (*ROWS_APPS, STATE),
        "kernel": tuple(KERNEL_APPS),
        "state": tuple(BODIES),
        "pipeline": APPS,
        "delivery": (),
        "latency": LATENCY_APPS,
        "peers": (*SHAPES, KAFKA),
    }[asked.suite]
    if strange := [app for app in asked.only or () if app not in known]:
        options.error(f"the suite {asked.suite} has no {strange[0]}: it has {', '.join(known) or 'one app'}")
    if asked.revision and (asked.suite != "state" or asked.direct):
        options.error("--revision is for the suite state with Spark")
    if asked.events is None:
        asked.events = EVENTS[asked.suite]
    if asked.repeat is None:
        asked.repeat = REPEAT.get(asked.suite, 1)
    live = asked.suite == "latency"
    asked.warm = (WARM if live else 15.0) if asked.warm is None else asked.warm
    asked.seconds = (SECONDS if live else 20.0) if asked.seconds is None else asked.seconds
    return asked


def chosen_apps(only: list[str] | None) -> list[str]:
    """Identity is always among them: it is what the others are compared with."""
    return [app for app in APPS if not only or app in only or app == APPS[0]]


def show_tables(console: Console, result: dict[str, Any]) -> None:
    for caption, header, rows in tables(result):
        table = Table(title=caption, title_justify="left", header_style="bold")
        for i, name in enumerate(header):
            table.add_column(name, justify="left" if i == 0 else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def told_settings(asked: argparse.Namespace) -> dict[str, Any]:
    return {k: str(v) if isinstance(v, Path) else v for k, v in vars(asked).items()}


def measured(asked: argparse.Namespace, screen: Screen, work: Callable[[Result], None], **settings: Any) -> int:
    """Let a suite add its figures to the file of the result, whatever way it ends; -> exit status."""
    result = Result(asked.json, {**told_settings(asked), **settings})
    result.save()
    try:
        work(result)
    except KeyboardInterrupt:
        result.end(False, "interrupted")
        screen.say(f"interrupted: {asked.json} holds what was measured before, marked as incomplete")
        return 130
    except (WrongOutputError, ChildFailedError) as reason:
        result.end(False, str(reason))
        screen.say(f"FAILED: {reason}")
        return 1
    result.end(True)
    show_tables(screen.console, result.told)
    screen.say(f"{asked.json}; every output was checked row by row")
    return 0


def run_state(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure batches over states of several sizes; -> exit status."""
    apps = list(dict.fromkeys(asked.only or ["flat"]))

    def directly(result: Result) -> None:
        for name, told in measure_direct(folder, apps, asked.size or SIZES, asked.batches or 60, screen.show):
            result.add(name, told)

    def with_spark(result: Result) -> None:
        for app in apps:
            for mb in asked.size or SIZES:
                name = f"{app}, {mb} MB"
                setting = StateSetting(folder / f"{app}-{mb}", app, mb, asked.batches, asked.master, asked.revision)
                result.add(name, measure_sizes(setting, screen.show))
                ms = result.told["apps"][name]["batch_ms"]
                screen.say(f"{name}: batch {ms['median']:,.0f} ms, p99 {ms['p99']:,.0f} ms")

    return measured(asked, screen, directly if asked.direct else with_spark)


def run_delivery(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure exactly-once delivery against none; -> exit status."""

    def work(result: Result) -> None:
        with kafka(folder / "kafka") as servers:
            for keys in KEYS:
                into = folder / f"keys-{keys}"
                setting = DeliverySetting(into, servers, keys, asked.events, asked.repeat, asked.master)
                result.add(f"{keys:,} keys", measure_delivery(setting, screen.show))

    return measured(asked, screen, work)


def run_latency(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure latency from topic to topic; -> exit status."""
    conf = dict(pair.split("=", 1) for pair in asked.conf)

    def work(result: Result) -> None:
        with kafka(folder / "kafka") as servers:
            bounds = (asked.rate, asked.warm, asked.seconds, asked.profile, asked.master, conf)
            setting = LatencySetting(folder, servers, *bounds)
            for app in asked.only or LATENCY_APPS:
                figures = measure_latency(app, setting, screen.show)
                result.add(app, figures)
                ms = figures["append_ms"]
                if ms:
                    screen.say(
                        f"{app}: p50 {ms['p50']:,.0f} ms, p99 {ms['p99']:,.0f} ms, load {figures['load'][1]:.1f}"
                    )
                if figures.get("profile"):
                    screen.say(figures["profile"])

    return measured(asked, screen, work)


def run_peers(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure nadi beside Siddhi and plain Spark; -> exit status, 2 where there are none."""
    try:
        found = find_peers(asked.peers)
    except NoPeersError as reason:
        screen.say(str(reason))
        return 2

    def work(result: Result) -> None:
        peers = prepare(found, screen.show)
        for name, shape in SHAPES.items():
            if not asked.only or name in asked.only:
                figures = measure_peers(peers, shape, asked.events, asked.repeat, screen.show)
                result.add(name, figures)
                rates, load = figures["events_per_s"], figures["load"][1]
                both = f"nadi {rates['nadi'].median:,.0f} events/s, Siddhi {rates['siddhi'].median:,.0f}"
                screen.say(f"{shape.label}: {both}, ratio {figures['ratio']:.3f}, load {load:.1f}")
        if not asked.only or KAFKA in asked.only:
            with kafka(folder / "kafka") as servers:
                into = folder / "spark"
                setting = DeliverySetting(into, servers, KAFKA_KEYS, KAFKA_EVENTS, asked.repeat, asked.master)
                result.add(KAFKA, measure_kafka(peers, setting, screen.show))

    return measured(asked, screen, work)


def run_rows(asked: argparse.Namespace, screen: Screen) -> int:
    """Measure the rows kernel in this process; -> exit status."""
    setting = RowsSetting(asked.events, asked.repeat, asked.profile)

    def work(result: Result) -> None:
        for name, app in ROWS_APPS.items():
            if asked.only and name not in asked.only:
                continue
            for feed in FEEDS:
                label, figures = f"{name}, {feed}", measure_rows(app, feed, setting, screen.show)
                result.add(label, figures)
                load = figures["runs"][-1]["load"][1]
                screen.say(
                    f"{label}: {figures['events_per_s']:,.0f} events/s (goal {app.goal:,}), "
                    f"{figures['calls_per_event']:.1f} calls an event, load {load:.1f}"
                )
                if "profile" in figures:
                    screen.say(figures["profile"])
        if not asked.only or STATE in asked.only:
            result.add(STATE, measure_state(screen.show))

    return measured(asked, screen, work)


def run_kernel(asked: argparse.Namespace, screen: Screen) -> int:
    """Measure the columns kernel in this process; -> exit status."""

    def work(result: Result) -> None:
        for name, app in KERNEL_APPS.items():
            for size in BATCHES:
                if asked.only and name not in asked.only:
                    continue
                label = f"{name}, {size:,}"
                result.add(label, measure_kernel(app, size, asked.events, asked.repeat, screen.show))
                told = result.told["apps"][label]
                screen.say(
                    f"{label}: {told['events_per_s'] / 1e6:.1f} M {told['of']}/s (goal {told['goal'] / 1e6:.1f} M)"
                )

    return measured(asked, screen, work)


def run(asked: argparse.Namespace, folder: Path, screen: Screen) -> int:
    """Measure the pipeline; -> exit status."""
    screen.show(f"making {asked.events:,} events")
    source = folder / "in.jsonl"
    events = write_file(source, asked.events) if asked.events else make_events(0, 0)
    with broker(folder / "broker") as url:
        bounds = (asked.rate, asked.warm, asked.seconds, asked.at_most, asked.profile, asked.master)
        setting = Setting(folder, url, source, events, *bounds)

        def work(result: Result) -> None:
            for app in chosen_apps(asked.only):
                figures = measure(app, setting, screen.show)
                result.add(app, figures)
                screen.say(one_line(app, result.told["apps"][app]))
                if figures.get("profile"):
                    screen.say(figures["profile"])

        return measured(asked, screen, work, batch_events=setting.batch_events)


def one_line(app: str, told: dict[str, Any]) -> str:
    """What was found of an app, as soon as it is."""
    parts = []
    if "throughput" in told:
        parts.append(
            f"{told['throughput']['events_per_s']:,.0f} events/s, batch {told['throughput']['batch_ms']['median']:,.0f} ms"
        )
    if "latency" in told and told["latency"]["ms"]:
        ms = told["latency"]["ms"]
        parts.append(f"p50 {ms['p50']:,.0f} ms, p99 {ms['p99']:,.0f} ms")
    return f"{app}: " + "; ".join(parts)


def interrupted(_signal: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the processes are being ended; once is enough
    raise KeyboardInterrupt


def main() -> int:
    asked = arguments()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    if asked.keep is not None:
        asked.keep.mkdir(parents=True)
    folder = asked.keep.resolve() if asked.keep else Path(tempfile.mkdtemp(prefix="nadi-bench-"))
    try:
        with Screen() as screen:
            if asked.suite == "state":
                return run_state(asked, folder, screen)
            if asked.suite == "delivery":
                return run_delivery(asked, folder, screen)
            if asked.suite == "kernel":
                return run_kernel(asked, screen)
            if asked.suite == "peers":
                return run_peers(asked, folder, screen)
            if asked.suite == "latency":
                return run_latency(asked, folder, screen)
            return run_rows(asked, screen) if asked.suite == "rows" else run(asked, folder, screen)
    except KeyboardInterrupt:
        return 130
    finally:
        if asked.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
