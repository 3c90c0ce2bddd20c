"""The suite `latency`: from Kafka to Kafka at a steady rate, from the append of an event to that of the row which it completes.

What is measured is in `bench.live`; here a node of the bench runs the app, which tells the phases of its batches, too. Every row is compared with
numpy's before a figure counts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench import timed
from bench.analysis import batch_summary, figures, read_notes, timeline
from bench.checks import WrongOutputError
from bench.children import Child
from bench.live import Course, live_figures, make_topics
from bench.measure import profile_text
from bench.plan import Batch, Plan, Task, spark_only
from bench.public_latency import QUIET, load_run

APPS = ("filter", "window", "pattern")
GOALS = {"p50": 150.0, "p99": 250.0}  # ms, of the pattern, from append to append

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class LatencySetting:
    """`rate` events/s, `warm` seconds of it that do not count and `seconds` that do; `conf` are settings of Spark and nadi."""

    folder: Path
    servers: str
    rate: int
    warm: float
    seconds: float
    profile: bool
    master: str
    conf: dict[str, str]

    def course(self, app: str) -> Course:
        return Course(self.servers, f"latency.{app}.in", f"latency.{app}.out")


def text_of(app: str, setting: LatencySetting) -> str:
    """The app from topic to topic."""
    return setting.course(app).text(app, f"{app}-latency")


def measure_latency(app: str, setting: LatencySetting, say: Say) -> dict[str, Any]:
    """The figures of one app. Errors: ChildFailedError, WrongOutputError (figures of wrong results are not given)."""
    folder = setting.folder / app
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_topics(setting.course(app))
    plan = folder / "plan.json"
    task = Task(text_of(app, setting), False, conf=setting.conf)
    plan.write_bytes(msgspec.json.encode(Plan(str(folder / "state"), [task], setting.master, spark_only(setting.conf))))
    environment = {timed.NOTES: str(folder / "notes"), timed.PROFILE: "1" if setting.profile else ""}
    say(f"{app}: starting a node")
    load_before = os.getloadavg()[0]
    node = Child("bench.node", plan, folder / "node.log", environment)
    try:
        node.until("ready", 120, _quiet)
        node.until("starting", 60, _quiet)
        order = setting.course(app).order(setting.rate, setting.warm, setting.seconds, folder / "load", QUIET)
        with load_run(app, order, setting.folder, say, node.check) as loaded:
            node.say("stop")
            ended = node.until("ended", 240, _quiet)
    finally:
        node.end()
    say(f"{app}: checking what came out")
    return {"load": (load_before, os.getloadavg()[0]), **results(app, setting, folder, loaded, ended)}


def _quiet(_told: dict[str, Any]) -> None:
    """Nothing to show yet."""


# ---- results -------------------------------------------------------------------------------------------------------


def results(
    app: str, setting: LatencySetting, folder: Path, loaded: dict[str, Any], ended: dict[str, Any]
) -> dict[str, Any]:
    """Figures of a run that is over. Errors: WrongOutputError."""
    if ended["state"] != "stopped" or ended["errors"] or ended["restarts"]:
        trouble = f"{ended['errors']} in the error store, {ended['restarts']} restarts. {ended['error']}"
        raise WrongOutputError(f"{app}: the app {ended['state']}, {trouble}")
    low, high = loaded["counted"]
    told = live_figures(app, setting.course(app), folder / "load", loaded, setting.seconds)
    notes = read_notes(folder / "notes")
    batches = figures(msgspec.convert(ended.pop("batches"), list[Batch]), notes)
    chosen = [b for b in batches if b.begin + b.ms > low / 1000 and b.begin < high / 1000]
    told |= {
        "cores": loaded["cores"],
        **batch_summary(chosen),
        "timeline_ms": timeline(chosen, notes),
        "all_batches": batches,
    }
    return {**told, "profile": profile_text(folder / "notes")} if setting.profile else told
