"""The suite `kafka`: JSON from Kafka to JSON in Kafka. What apps do of the rate of the pipeline alone; one app over 1, 2 and 4 partitions and buckets.

All runs are in one node, in turn, so that what the machine does meanwhile meets all of them. State is on disk, rows are numbered, batches are transactions.
Every row of every run is compared with numpy's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench import timed
from bench.analysis import batch_summary, figures, rate, read_notes, spread, steady
from bench.apps import app_text
from bench.checks import WrongOutputError, compare, expected, parse
from bench.children import Child
from bench.delivery import DeliverySetting, fill, make_topics, payloads, topic_in, topic_out
from bench.events import Events
from bench.plan import Batch, Plan, Task, spark_only

RUN_WITHIN = 300.0
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Course:
    """An app over a topic: how many keys the events have, over how many partitions they are spread, and how many buckets the app has."""

    app: str
    keys: int = 1_000
    partitions: int = 2
    buckets: int = 2

    @property
    def name(self) -> str:
        """What the result calls it.

        >>> Course("pattern", keys=100_000).name
        'pattern, 100,000 keys, 2 × 2'
        """
        keys = f", {self.keys:,} keys" if self.app == "pattern" else ""
        return f"{self.app}{keys}, {self.partitions} × {self.buckets}"


SHARES: tuple[Course, ...] = (
    Course("identity"),
    Course("filter"),
    Course("window"),
    Course("pattern"),
    Course("pattern", keys=100_000),
)
"""The first one is what the others are compared with."""
SPREADS: tuple[Course, ...] = tuple(Course("pattern", partitions=n, buckets=n) for n in (1, 2, 4))

HALVES: Mapping[str, tuple[Course, ...]] = {"shares": SHARES, "spreads": SPREADS}


@dataclass(frozen=True, slots=True)
class KafkaSetting:
    """`repeat`: runs of each course, after a first one that does not count."""

    folder: Path
    servers: str
    events: int
    repeat: int
    master: str
    conf: Mapping[str, str] = field(default_factory=dict)


def measure_courses(setting: KafkaSetting, courses: Sequence[Course], say: Say) -> dict[str, dict[str, Any]]:
    """Per course its figures: rates of all runs, phases of the last one. Errors: ChildFailedError, WrongOutputError."""
    setting.folder.mkdir(parents=True)
    before = os.getloadavg()[0]
    runs = (setting.repeat + 1) * len(courses)
    events: dict[int, Events] = {}
    for topics in {(c.keys, c.partitions): _of(setting, c) for c in courses}.values():
        make_topics(topics, runs)
        events[topics.keys] = fill(topics, say)
    ended = _run(setting, [courses[run % len(courses)] for run in range(runs)], say)
    told = _results(setting, courses, ended, events, say)
    base = told[courses[0].name]["events_per_s"].median
    for of in told.values():
        of["share"] = of["events_per_s"].median / base if base else 0.0
        of["load"] = (before, os.getloadavg()[0])
    return told


def _run(setting: KafkaSetting, runs: Sequence[Course], say: Say) -> list[dict[str, Any]]:
    """What the node tells of each run. Errors: ChildFailedError."""
    tasks = [_task(setting, course, run) for run, course in enumerate(runs)]
    plan = setting.folder / "plan.json"
    conf = spark_only(setting.conf)
    plan.write_bytes(msgspec.json.encode(Plan(str(setting.folder / "state"), tasks, setting.master, conf)))
    notes = {timed.NOTES: str(setting.folder / "notes"), timed.PROFILE: ""}
    node = Child("bench.node", plan, setting.folder / "node.log", notes)
    ended = []
    try:
        node.until("ready", 120, _quiet)
        for run, course in enumerate(runs):
            say(f"{course.name}: run {run + 1} of {len(runs)}")
            ended.append(node.until("ended", RUN_WITHIN, _quiet))
    finally:
        node.end()
    return ended


def _of(setting: KafkaSetting, course: Course) -> DeliverySetting:
    """The topics of a course."""
    folder = setting.folder / f"{course.keys}-{course.partitions}"
    return DeliverySetting(
        folder,
        setting.servers,
        course.keys,
        setting.events,
        setting.repeat,
        setting.master,
        setting.conf,
        course.partitions,
    )


def _task(setting: KafkaSetting, course: Course, run: int) -> Task:
    server = f"type='kafka', bootstrap.servers='{setting.servers}'"
    topics = _of(setting, course)
    text = app_text(
        course.app,
        f"kafka-{run}",
        f"{server}, topic.list='{topic_in(topics)}', event.time='ts'",
        f"{server}, topic='{topic_out(topics, run)}'",
    )
    conf = {"nadi.buckets": str(course.buckets), **setting.conf}
    return Task(text, False, identity=course.app == "identity", conf=conf, events=setting.events)


def _quiet(_told: dict[str, Any]) -> None:
    """Nothing to show."""


def _results(
    setting: KafkaSetting,
    courses: Sequence[Course],
    ended: Sequence[dict[str, Any]],
    events: Mapping[int, Events],
    say: Say,
) -> dict[str, dict[str, Any]]:
    """Per course, by its name, the rates of its runs but the first, and the phases of the last one."""
    notes = read_notes(setting.folder / "notes")
    rates: dict[Course, list[float]] = {course: [] for course in courses}
    last: dict[Course, dict[str, Any]] = {}
    for run, told in enumerate(ended):
        course = courses[run % len(courses)]
        say(f"{course.name}: checking run {run + 1} of {len(ended)}")
        last[course] = {"check": _checked(setting, course, run, told, events[course.keys])}
        batches = figures(msgspec.convert(told.pop("batches"), list[Batch]), notes)
        if run >= len(courses):
            chosen = steady(batches)
            rates[course].append(rate(chosen))
            last[course] |= batch_summary(chosen)
    return {c.name: {"events_per_s": spread(rates[c]), **last[c]} for c in courses}


def _checked(
    setting: KafkaSetting, course: Course, run: int, told: Mapping[str, Any], events: Events
) -> dict[str, int | float]:
    """Errors: WrongOutputError, also where a row is not numbered, or there twice."""
    if told["state"] != "stopped" or told["errors"] or told["restarts"] or told["in"] != setting.events:
        raise WrongOutputError(f"{course.name}: the app {told['state']} after {told['in']:,} events. {told['error']}")
    came = list(payloads(_of(setting, course), run))
    numbers = {number for _, number in came}
    once = course.app == "identity" or len(numbers) == len(
        came
    )  # what is only copied bears the numbers of its input, which each partition begins anew
    if None in numbers or not once:
        raise WrongOutputError(f"{course.name}: {len(came):,} messages have {len(numbers):,} numbers")
    found, _ = parse(payload for payload, _ in came)
    if course.app == "identity":  # it copies partition after partition
        order = np.argsort(found["ts"], kind="stable")
        found = {name: column[order] for name, column in found.items()}
    try:
        return compare(expected(course.app, events), found)
    except WrongOutputError as reason:
        raise WrongOutputError(f"{course.name}: {reason}") from None
