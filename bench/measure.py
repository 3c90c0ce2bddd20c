"""Measuring one app: a node of its own, first latency at a steady rate, then throughput; then the checks, when nothing runs any more."""

from __future__ import annotations

import pstats
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench import timed
from bench.analysis import batch_summary, figures, latencies_us, percentiles, rate, read_notes, steady
from bench.apps import IN_SUBJECT, OUT_SUBJECT, on_files, on_nats
from bench.checks import WrongOutputError, check_live, compare, expected, parse
from bench.children import Child, ChildFailedError
from bench.events import Events
from bench.load import FIRST_WITHIN, Order, sent_events
from bench.plan import Batch, Plan, Task, spark_only

BATCH_EVENTS = 100_000  # the pipeline's own bound
BATCHES = 10  # at least so many, where there are fewer events
PROFILE_LINES = 25
PROCESSED_WITHIN = 240.0  # seconds; an app that cannot keep up has a backlog then

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run has been asked for. `seconds` or `events` 0 leaves that measure out; `at_most` bounds a throughput run (s). `conf`: settings of
    Spark and nadi."""

    folder: Path
    url: str
    input: Path
    events: Events
    rate: int
    warm: float
    seconds: float
    at_most: float
    profile: bool
    master: str
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def batch_events(self) -> int:
        return max(100, min(BATCH_EVENTS, len(self.events) // BATCHES))


def measure(app: str, setting: Setting, say: Say) -> dict[str, Any]:
    """The figures of one app. Errors: ChildFailedError, WrongOutputError (figures of wrong results are not given)."""
    folder = setting.folder / app
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    output = folder / "out.jsonl"
    kinds, tasks = _tasks(app, setting, output)
    plan = folder / "plan.json"
    plan.write_bytes(msgspec.json.encode(Plan(str(folder / "state"), tasks, setting.master, spark_only(setting.conf))))
    environment = {timed.NOTES: str(folder / "notes"), timed.PROFILE: "1" if setting.profile else ""}
    say(f"{app}: starting a node")
    node = Child("bench.node", plan, folder / "node.log", environment)
    ended: dict[str, dict[str, Any]] = {}
    try:
        node.until("ready", 120, _quiet)
        for kind in kinds:
            node.until("starting", 60, _quiet)
            if kind == "latency":
                ended["load"] = _run_load(app, setting, folder, node, say)
                node.say("stop")
            ended[kind] = node.until("ended", 240 + setting.at_most, _shower(app, kind, say))
    finally:
        node.end()
    say(f"{app}: checking what came out")
    return _results(app, setting, folder, ended)


def _tasks(app: str, setting: Setting, output: Path) -> tuple[list[str], list[Task]]:
    identity = app == "identity"
    kinds, tasks = [], []
    if setting.seconds > 0:
        kinds.append("latency")
        tasks.append(Task(on_nats(app, setting.url), until_end=False, identity=identity, conf=dict(setting.conf)))
    if len(setting.events):
        conf = {"nadi.batch.events": str(setting.batch_events), **setting.conf}
        kinds.append("throughput")
        tasks.append(Task(on_files(app, setting.input, output), True, identity, conf, setting.at_most))
    return kinds, tasks


def _quiet(_told: dict[str, Any]) -> None:
    """Nothing to show yet."""


def _shower(app: str, kind: str, say: Say) -> Callable[[dict[str, Any]], None]:
    def show(told: dict[str, Any]) -> None:
        if told["at"] == "running":
            trouble = f"  {told['error']}" if told["error"] else ""
            say(f"{app}: {kind}, batch {told['batches']}, {told['in']:,} in, {told['out']:,} out{trouble}")

    return show


def _run_load(app: str, setting: Setting, folder: Path, node: Child, say: Say) -> dict[str, Any]:
    names = {"source": IN_SUBJECT.format(app=app), "target": OUT_SUBJECT.format(app=app)}
    order = Order(
        setting.url, rate=setting.rate, warm=setting.warm, seconds=setting.seconds, folder=str(folder / "load"), **names
    )
    path = folder / "load.json"
    path.write_bytes(msgspec.json.encode(order))

    def show(told: dict[str, Any]) -> None:
        if told["at"] == "sending":
            say(
                f"{app}: latency, {told['phase']}, {told['left']:.0f} s left, {told['sent']:,} sent, {told['got']:,} came"
            )

    load = Child("bench.load", path, folder / "load.log", {})
    try:
        sent = load.until("sent", FIRST_WITHIN + setting.warm + setting.seconds + 30, show)["sent"]
        _wait_until_processed(app, node, sent, say)
        load.say("all rows are out")
        return load.until("done", 60, _quiet)
    finally:
        load.end()


def _wait_until_processed(app: str, node: Child, sent: int, say: Say) -> None:
    """Wait until the node has committed all that was sent. Errors: ChildFailedError."""
    limit = time.monotonic() + PROCESSED_WITHIN
    while (taken := node.until("running", 30, _quiet)["in"]) < sent:
        say(f"{app}: latency, {taken:,} of {sent:,} processed")
        if time.monotonic() > limit:
            raise ChildFailedError(
                f"{app}: {taken:,} of {sent:,} events processed {PROCESSED_WITHIN:.0f} s after the last"
            )


# ---- results -------------------------------------------------------------------------------------------------------


def _results(app: str, setting: Setting, folder: Path, ended: dict[str, dict[str, Any]]) -> dict[str, Any]:
    notes = read_notes(folder / "notes")
    made: dict[str, Any] = {}
    for kind in ("latency", "throughput"):
        if kind not in ended:
            continue
        told = ended[kind]
        _check_end(app, kind, told)
        batches = figures(msgspec.convert(told.pop("batches"), list[Batch]), notes)
        own = _latency if kind == "latency" else _throughput
        made[kind] = {"node": told, **own(app, setting, folder, ended, batches), "all_batches": batches}
    if setting.profile:
        made["profile"] = profile_text(folder / "notes")
    return made


def _check_end(app: str, kind: str, told: dict[str, Any]) -> None:
    if told["state"] not in ("finished", "stopped") or told["errors"] or told["restarts"]:
        trouble = f"{told['errors']} in the error store, {told['restarts']} restarts. {told['error']}"
        raise WrongOutputError(f"{app}, {kind}: the app {told['state']}, {trouble}")


def _throughput(
    app: str, setting: Setting, folder: Path, ended: dict[str, dict[str, Any]], batches: list[Any]
) -> dict[str, Any]:
    taken = ended["throughput"]["in"]
    output = folder / "out.jsonl"
    found, _ = parse(output.read_bytes().splitlines() if output.exists() else [])
    check = _named(app, "throughput", lambda: compare(expected(app, setting.events.first(taken)), found))
    chosen = steady(batches)
    return {
        "events": taken,
        "whole_input": taken == len(setting.events),
        "events_per_s": rate(chosen),
        "steady": [b.id for b in chosen],
        "check": check,
        **batch_summary(chosen),
    }


def _latency(
    app: str, setting: Setting, folder: Path, ended: dict[str, dict[str, Any]], batches: list[Any]
) -> dict[str, Any]:
    load = ended["load"]
    low, high = load["counted"]
    sent, came = sent_events(folder / "load"), np.load(folder / "load" / "came.npy")
    found, origin = parse((folder / "load" / "came.jsonl").read_bytes().splitlines())
    check = _named(app, "latency", lambda: check_live(app, sent, found))
    latencies = latencies_us(found["ts"], came[origin], (low, high)) if found else np.zeros(0, np.int64)
    counted = int(((sent.ts >= low) & (sent.ts < high)).sum())
    chosen = [b for b in batches if b.begin + b.ms > low / 1000 and b.begin < high / 1000]
    return {
        "ms": percentiles(latencies),
        "rows": len(latencies),
        "offered_per_s": counted / setting.seconds,
        "load_late_s": load["late"],
        "check": check,
        **batch_summary(chosen),
        "latencies_us": latencies.tolist(),
    }


def _named(app: str, kind: str, check: Callable[[], dict[str, int | float]]) -> dict[str, int | float]:
    try:
        return check()
    except WrongOutputError as reason:
        raise WrongOutputError(f"{app}, {kind}: {reason}") from None


def profile_text(folder: Path) -> str:
    """Where the hosts' time went, by function, over all hosts of a node; "" without profiles."""
    paths = [str(p) for p in sorted(folder.glob("*.prof"))]
    if not paths:
        return ""
    text = StringIO()
    stats = pstats.Stats(*paths, stream=text)
    stats.strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
    return text.getvalue()
