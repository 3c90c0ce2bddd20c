"""A run of the suite `state`: a node is filled, measured, asked for revisions, killed in part and whole, and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench import timed
from bench.checks import WrongOutputError, compare, window_rows
from bench.children import Child, ChildFailedError
from bench.pace import Pace, write_pace
from bench.state import (
    AFTER_KILL,
    BATCH,
    HOUR_MS,
    Held,
    StateSetting,
    app_name,
    app_text,
    events_of,
    figures,
    host_pids,
    read_batches,
    read_output,
    read_told,
    write_input,
)
from bench.state_node import StatePlan
from bench.state_revision import Asked, ask, read_back, revision_figures
from nadi.errors import NadiError
from nadi.pipeline.statelog.lines import POLICY

NEAR = 10  # batches before the renewal of a base
BEFORE = 30  # paced batches before the first revision
DURING = 25  # batches while revisions are made, so many revisions are asked for …
REVISIONS = 8  # … but no more than this
LOAD = 1.5  # the pace: so many times the median of a batch
AT_LEAST = 0.5  # seconds
WITHIN = 600.0  # seconds for a revision
LOOK = 0.2  # seconds between two looks at disk and memory

Say = Callable[[str], object]


@dataclass(slots=True)
class Run:
    """What a run has noted of itself. Positions count events; times are seconds since the epoch."""

    setting: StateSetting
    name: str
    say: Say
    given: int = 0
    steady: tuple[int, int] = (0, 0)
    paced: Pace | None = None
    asked: list[Asked] = field(default_factory=list)
    took: dict[str, float] = field(default_factory=dict)
    since: float = field(default_factory=time.time)

    def lap(self, phase: str) -> None:
        """What has gone on until now was this phase."""
        now = time.time()
        self.took[phase] = round(now - self.since, 1)
        self.since = now

    def give(self, pace: Pace) -> None:
        self.given = pace.upto
        write_pace(self.setting.folder / "pace.json", pace)

    def show(self, told: dict[str, Any]) -> None:
        if told["at"] == "running":
            state = f"state {told['state'] / 1e6:,.1f} MB {told['error']}"
            self.say(f"{self.name}: batch {told['batches']}, {told['in']:,} in, {state}")


def measure_sizes(setting: StateSetting, say: Say) -> dict[str, Any]:
    """The figures of one size. Errors: ChildFailedError, WrongOutputError."""
    folder, name = setting.folder, f"{setting.app}, {setting.mb} MB"
    folder.mkdir(parents=True)
    run = Run(setting, name, say)
    say(f"{name}: writing {setting.total:,} events")
    write_input(setting)
    run.lap("writing the input")
    plan = folder / "plan.json"
    files = (str(folder / "pace.json"), str(folder / "batches.jsonl"))
    described = StatePlan(str(folder / "state"), app_text(setting), *files, setting.master, dict(setting.conf))
    plan.write_bytes(msgspec.json.encode(described))
    with _sampled(folder / "state" / app_name(setting) / "log") as used:
        killed = _first_life(run, plan)
        started = time.time()
        say(f"{name}: starting the node again")
        node = _node(folder, plan)
        try:
            ready = node.until("ready", 120, _nothing)
            ended = node.until("ended", 600, run.show)
        finally:
            node.end()
    run.lap("another node")
    if ended["state"] != "finished" or ended["errors"] or ended["restarts"]:
        raise WrongOutputError(f"{name}: the app {ended['state']}. {ended['error']}")
    say(f"{name}: checking what came out")
    check = compare(window_rows(events_of(setting, 0, run.given), HOUR_MS), read_output(folder / "out.jsonl"))
    run.lap("checking")
    times = {"killed": killed, "started": started, "ready": ready["t"], "memory": used.most_memory}
    made = figures(setting, times, run.steady, used.held)
    if run.paced is not None:
        made["revision"] = _revisions(run)
        run.lap("reading revisions back")
    (folder / "in.jsonl").unlink()
    return {**made, "check": check, "took_s": run.took}


def _revisions(run: Run) -> dict[str, Any]:
    assert run.paced is not None
    run.say(f"{run.name}: reading the newest revision back")
    folder = run.setting.folder
    try:
        back = read_back(folder / "state", app_name(run.setting), run.asked)
    except NadiError as problem:
        raise WrongOutputError(f"{run.name}: {problem}") from problem
    return {**revision_figures(read_batches(folder / "batches.jsonl"), run.paced, run.asked), **back}


def _node(folder: Path, plan: Path) -> Child:
    environment = {timed.NOTES: str(folder / "notes"), timed.PROFILE: ""}
    return Child("bench.state_node", plan, folder / "node.log", environment)


def _nothing(_told: dict[str, Any]) -> None:
    """Nothing to show yet."""


def _first_life(run: Run, plan: Path) -> float:
    """Fill the state, measure over it, ask for revisions, kill the hosts, then all; -> when the hosts were killed (s since the epoch)."""
    setting = run.setting
    run.give(Pace(setting.fill, setting.fill_step))
    node = _node(setting.folder, plan)
    try:
        jvm = node.until("ready", 120, _nothing)["jvm"]
        run.lap("starting Spark")
        _until_taken(run, node, setting.fill)
        _come_near_a_renewal(run, node)
        run.lap("filling")
        first = run.given
        run.give(Pace(first + setting.steady * BATCH, BATCH))
        run.steady = (first, run.given)
        _until_taken(run, node, run.given)
        run.lap("steady batches")
        if setting.revision:
            _ask_for_revisions(run, node)
            run.lap("paced batches and revisions")
        killed = _kill(run, node, jvm)
        run.lap("killing hosts")
        return killed
    finally:
        node.end()


def _kill(run: Run, node: Child, jvm: int) -> float:
    """Kill the hosts while batches go on, and some batches later everything; -> when the hosts were killed."""
    before = run.given
    run.give(Pace(before + run.setting.rest, BATCH, over=True))
    _until_taken(run, node, before + 2 * BATCH)
    for pid in host_pids(jvm):
        os.kill(pid, signal.SIGKILL)
    killed = time.time()
    taken = node.until("running", 60, run.show)["in"]
    _until_taken(run, node, taken + AFTER_KILL * BATCH)
    for pid in [*host_pids(jvm), jvm, node.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return killed


def _until_taken(run: Run, node: Child, events: int) -> None:
    before, limit = -1, time.monotonic() + 300
    while (told := node.until("running", 120, run.show))["in"] < events:
        run.show(told)
        if told["in"] != before:
            before, limit = told["in"], time.monotonic() + 300
        if time.monotonic() > limit:
            raise ChildFailedError(f"no batch came to its end in 300 s. {told['error']}")


# ---- the renewal of a base -----------------------------------------------------------------------------------------


def _come_near_a_renewal(run: Run, node: Child) -> None:
    """Move a large window on in large batches until its base is about to be renewed, so that this is among the batches that are measured."""
    setting = run.setting
    while (left := setting.fill + setting.roll - run.given) > 0:
        away = batches_to_renewal(setting.folder / "notes") - NEAR
        if away <= 0:
            return
        run.give(Pace(run.given + min(left, setting.fill_step, away * BATCH), setting.fill_step))
        _until_taken(run, node, run.given)


def batches_to_renewal(notes: Path) -> int:
    """How many batches of `BATCH` events there are until deltas weigh as much as the bases that count now wait for; 0 where there was nothing since."""
    told = read_told(notes)
    bases = {t.bucket: t for t in told if t.base}
    since = [t for t in told if t.bucket in bases and t.cut > bases[t.bucket].cut]
    events = sum(t.events for t in since)
    if not events:
        return 0
    weight = sum(t.delta for t in since) + POLICY.piece * len(since)
    of_batch = sum(t.delta for t in since) / events * BATCH + POLICY.piece * len(bases)
    return max(0, int((sum(t.base_wait for t in bases.values()) - weight) / of_batch))


# ---- revisions -----------------------------------------------------------------------------------------------------


def _ask_for_revisions(run: Run, node: Child) -> None:
    """Go on with a batch every so often, and then ask for revisions while that goes on."""
    setting, base = run.setting, run.given
    ms = [b.ms["triggerExecution"] for b in read_batches(setting.folder / "batches.jsonl")[-setting.steady :]]
    period = round(max(AT_LEAST, LOAD * float(np.median(ms)) / 1000), 2)
    run.paced = pace = Pace(base + setting.paced * BATCH, BATCH, period, time.time(), base)
    run.give(pace)
    _until_taken(run, node, base + BEFORE * BATCH)
    state = setting.folder / "state" / app_name(setting)
    begin = time.time()
    while len(run.asked) < REVISIONS and time.time() - begin < DURING * period:
        run.say(f"{run.name}: revision {len(run.asked) + 1}, a batch each {period:.2f} s")
        try:
            run.asked.append(ask(state, WITHIN))
        except NadiError as problem:
            raise ChildFailedError(f"{run.name}: no revision: {problem}") from problem
    reached = pace.released(time.time())
    if reached >= pace.upto:
        raise ChildFailedError(f"{run.name}: revisions took longer than {setting.paced} batches a {period:.2f} s")
    run.give(Pace(reached + BATCH, BATCH))
    _until_taken(run, node, run.given)


@dataclass(slots=True)
class Used:
    """What was used while somebody looked: of the machine's memory at most (bytes), and what the state log had on the disk."""

    most_memory: int = 0
    held: list[Held] = field(default_factory=list)


@contextlib.contextmanager
def _sampled(log: Path) -> Iterator[Used]:
    """Looks several times a second."""
    used, before, over = Used(), _available(), threading.Event()

    def look() -> None:
        while not over.wait(LOOK):
            used.most_memory = max(used.most_memory, before - _available())
            used.held.append(_held(log))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield used
    finally:
        over.set()
        watcher.join()


def _held(log: Path) -> Held:
    sizes = []
    with contextlib.suppress(FileNotFoundError), os.scandir(log) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                sizes.append(entry.stat().st_size)
    return Held(time.time(), sum(sizes), len(sizes))


def _available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
