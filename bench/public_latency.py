"""The suite `latency` with `--against`: `nadi run` of two checkouts, in turn over one broker, and the floor without Spark beside them.

Load, checks and latencies are those of `bench.live`, and of this checkout for both. Each run has a node, topics and a state folder of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from bench.analysis import spread
from bench.checkouts import OTHER, THIS, Checkout
from bench.checks import WrongOutputError
from bench.children import Child
from bench.floor import FloorBatch, FloorOrder, batch_figures
from bench.latency_load import Order
from bench.live import Course, Say, live_figures, make_topics
from bench.load import FIRST_WITHIN
from bench.processors import Used, processor_seconds, shares
from bench.publicnode import PublicNode, check_end

APPS = ("pattern", "window")
INTERVALS = (0.0, 5.0, 10.0, 20.0, 50.0)  # ms
QUIET = 4.0  # seconds without a row after which all are there: longer than any batch that keeps up
DRAINED_WITHIN = 120.0
FLOOR_WARM = 10.0  # seconds are enough where no Java has to get warm
QUANTILES = ("p50", "p90", "p99", "max")


@dataclass(frozen=True, slots=True)
class PublicLatencySetting:
    """`rate` events/s, `warm` seconds of it that do not count and `seconds` that do, `repeat` runs of each side; `intervals` (ms) of the floor, none for no
    floor; `conf` are settings of Spark and nadi."""

    folder: Path
    servers: str
    checkouts: tuple[Checkout, ...]
    rate: int
    warm: float
    seconds: float
    repeat: int
    master: str
    intervals: tuple[float, ...] = INTERVALS
    conf: Mapping[str, str] = field(default_factory=dict)


def measure_public_latency(app: str, setting: PublicLatencySetting, say: Say) -> dict[str, Any]:
    """Runs of all sides, in turn, their medians and ratio, and the floor. Errors: ChildFailedError, WrongOutputError."""
    runs: dict[str, list[dict[str, Any]]] = {c.label: [] for c in setting.checkouts}
    for turn in range(setting.repeat):
        for checkout in in_turn(setting.checkouts, turn):
            runs[checkout.label].append(_of_node(app, checkout, turn, setting, say))
    floor = [_of_floor(app, interval, setting, say) for interval in setting.intervals]
    return {"runs": runs, **comparison(runs), "floor": floor}


def in_turn(sides: Sequence[Checkout], turn: int) -> list[Checkout]:
    """The order of a turn: who was first in one is last in the next, so that a machine that gets slower favours nobody."""
    return list(sides) if turn % 2 == 0 else list(reversed(sides))


def comparison(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Spreads over the runs of each side, by kind and quantile, and the ratios of their medians: less than 1, this checkout is quicker."""
    sides = {
        label: {
            kind: {q: spread([run[kind][q] for run in made if q in run[kind]]) for q in QUANTILES}
            for kind in ("append_ms", "seen_ms")
        }
        for label, made in runs.items()
    }
    if OTHER not in sides:
        return {"sides": sides, "ratios": {}}
    mine, theirs = sides[THIS], sides[OTHER]
    ratios = {
        kind: {
            q: round(mine[kind][q].median / theirs[kind][q].median, 3)
            for q in QUANTILES
            if theirs[kind][q].median and mine[kind][q].median
        }
        for kind in mine
    }
    return {"sides": sides, "ratios": ratios}


# ---- a node --------------------------------------------------------------------------------------------------------


def _of_node(app: str, checkout: Checkout, turn: int, setting: PublicLatencySetting, say: Say) -> dict[str, Any]:
    label = f"{app}, {checkout.label}, run {turn + 1} of {setting.repeat}"
    name = f"{app}-{checkout.label}-{turn}"
    folder = setting.folder / name
    course = Course(setting.servers, f"latency.{name}.in", f"latency.{name}.out")
    folder.mkdir(parents=True)
    make_topics(course)
    text = folder / f"{name}.siddhi"
    text.write_text(course.text(app, name))
    before = os.getloadavg()[0]
    say(f"{label}: starting nadi run")
    with PublicNode(checkout, folder / "node", [text], master=setting.master, conf=setting.conf) as node:
        order = course.order(setting.rate, setting.warm, setting.seconds, folder / "load", QUIET)
        with load_run(label, order, setting.folder, say, node.check) as loaded:
            ended = node.stop()
        say(f"{label}: checking what came out")
        figures = live_figures(app, course, folder / "load", loaded, setting.seconds)
        check_end(label, ended, name, node.lines, figures["sent"])
    figures |= {"cores": loaded["cores"], "load": (before, os.getloadavg()[0])}
    said = ", ".join(f"{q} {figures['append_ms'].get(q, float('nan')):,.0f} ms" for q in ("p50", "p99"))
    say(f"{label}: {said}")
    return figures


@contextmanager
def load_run(label: str, order: Order, folder: Path, say: Say, check: Callable[[], object]) -> Iterator[dict[str, Any]]:
    """Send at a steady rate and take the rows; gives what the load told, once all rows are out. `folder` is what the processes of the run have in common."""
    path = Path(order.folder).with_suffix(".json")
    path.write_bytes(msgspec.json.encode(order))
    used: list[tuple[float, Used]] = []

    def show(told: dict[str, Any]) -> None:
        check()
        if told["at"] == "sending":
            if told["phase"] == "measuring":
                used.append((time.monotonic(), processor_seconds(folder)))
            say(f"{label}: {told['phase']}, {told['left']:.0f} s left, {told['sent']:,} sent, {told['got']:,} came")

    load = Child("bench.latency_load", path, path.with_suffix(".log"), {})
    try:
        sent = load.until("sent", FIRST_WITHIN + order.warm + order.seconds + 60, show)
        if not sent["got"]:
            raise WrongOutputError(f"{label}: not one row came within {FIRST_WITHIN:.0f} s of sending")
        load.say("all rows are out, or will be before it is quiet")
        told = load.until("done", DRAINED_WITHIN, show)
        cores: dict[str, float] = {}
        if len(used) > 1:
            (since, before), (until, after) = used[0], used[-1]
            cores = shares(before, after, until - since)
        yield {**told, "cores": cores}
    finally:
        load.end()


# ---- the floor -----------------------------------------------------------------------------------------------------


def _of_floor(app: str, interval: float, setting: PublicLatencySetting, say: Say) -> dict[str, Any]:
    label, name = f"{app}, without Spark, every {interval:g} ms", f"{app}-floor-{interval:g}"
    folder = setting.folder / name
    course = Course(setting.servers, f"latency.{name}.in", f"latency.{name}.out")
    folder.mkdir(parents=True)
    make_topics(course)
    plan = folder / "floor.json"
    plan.write_bytes(msgspec.json.encode(FloorOrder(course.text(app, name), str(folder), interval)))
    before = os.getloadavg()[0]
    chain = Child("bench.floor", plan, folder / "floor.log", {})
    try:
        order = course.order(setting.rate, min(setting.warm, FLOOR_WARM), setting.seconds, folder / "load", QUIET)
        with load_run(label, order, setting.folder, say, chain.check) as loaded:
            chain.say("stop")
            ended = chain.until("ended", 60, lambda _: None)
    finally:
        chain.end()
    figures = live_figures(app, course, folder / "load", loaded, setting.seconds)
    if ended["taken"] != figures["sent"]:
        raise WrongOutputError(f"{label}: {ended['taken']:,} of {figures['sent']:,} events taken")
    batches = msgspec.convert(ended["batches_ms"], list[FloorBatch])
    phases = batch_figures(batches, *(us / 1000 for us in loaded["counted"]))
    told = {"interval_ms": interval, "phases_ms": phases, "load": (before, os.getloadavg()[0])}
    return {**figures, **told, "cores": loaded["cores"]}
