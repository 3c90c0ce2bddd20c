"""The table of the suite `node`: a row for each figure, beside its goal, a column for each checkout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.many import BESIDE, GOALS, POISONS, met
from bench.report_cells import Table
from bench.report_public import sides_of

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the table: where its figure is found (None where it was not measured), how it is written, which goal it has ("" for none), and of which stage it
    is."""

    name: str
    stage: str
    value: Callable[[Told], float | None]
    form: str = "{:,.1f}"
    goal: str = ""


def _at(*path: str) -> Callable[[Told], float | None]:
    """What is found along a path."""

    def look(told: Any) -> float | None:
        for name in path:
            told = told.get(name) if isinstance(told, dict) else None
        return told if isinstance(told, (int, float)) else None

    return look


def _mb(*path: str) -> Callable[[Told], float | None]:
    def look(told: Told) -> float | None:
        found = _at(*path)(told)
        return None if found is None else found / 1e6

    return look


def app_mb(told: Told, apps: int) -> float | None:
    """MB of each app beyond the first.

    >>> app_mb({"memory": {"pss": 1_099e6}, "one": {"pss": 109e6}}, 100)
    10.0
    """
    many, one = _at("memory", "pss")(told), _at("one", "pss")(told)
    return None if many is None or one is None else (many - one) / 1e6 / (apps - 1)


def _lines(apps: int) -> list[Line]:
    kills = [
        line
        for stage, what in (("kill-jvm", "kill -9 of Java"), ("kill-host", "kill -9 of a host"))
        for line in (
            Line(f"{what}: all have answered again, s", stage, _at(stage, "answered_s")),
            Line(f"{what}: longest answer, s", stage, _at(stage, "longest_s")),
        )
    ]
    poisons = [
        line
        for kind in POISONS
        for line in (
            Line(f"an event that does this: {kind}: set aside after, s", "poison", _at("poison", kind, "aside_s")),
            *(
                Line(f"{kind}: ten others {when}, p99, ms", "poison", _at("poison", kind, when, "p99"), "{:,.0f}")
                for when in ("before", "meanwhile", "after")
            ),
        )
    ]
    return [
        Line("all accept, cold, s", "cold", _at("cold", "accept_s"), goal="accept_s"),
        Line("all have answered, cold, s", "cold", _at("cold", "answered_s"), goal="answered_cold_s"),
        *(
            line
            for stage, what, goal in (
                ("rest-cold", "over REST, cold", "rest_answered_cold_s"),
                ("rest", "over REST", "rest_answered_s"),
            )
            for line in (
                Line(f"{what}: texts taken, s", stage, _at(stage, "taken_s")),
                Line(f"{what}: all accept, s", stage, _at(stage, "accept_s"), goal="rest_accept_s"),
                Line(f"{what}: all have answered, s", stage, _at(stage, "answered_s"), goal=goal),
            )
        ),
        Line("all accept, s", "warm", _at("warm", "accept_s"), goal="accept_s"),
        Line("all have answered, s", "warm", _at("warm", "answered_s"), goal="answered_warm_s"),
        Line("processes", "warm", _at("memory", "processes"), "{:,.0f}", "processes"),
        Line("memory (PSS), MB", "warm", _mb("memory", "pss"), "{:,.0f}"),
        Line("memory with one app, MB", "one", _mb("one", "pss"), "{:,.0f}"),
        Line("memory of each app beyond the first, MB", "one", lambda told: app_mb(told, apps), goal="app_mb"),
        Line("idle: cores", "idle", _at("idle", "cores"), "{:.3f}", "idle_core"),
        Line("one event at a time: p50, ms", "single", _at("single", "ms", "p50"), "{:,.0f}", "single_p50"),
        Line("one event at a time: p99, ms", "single", _at("single", "ms", "p99"), "{:,.0f}", "single_p99"),
        Line("an event a second each: p50, ms", "each", _at("each", "ms", "p50"), "{:,.0f}", "each_p50"),
        Line("an event a second each: p99, ms", "each", _at("each", "ms", "p99"), "{:,.0f}", "each_p99"),
        *kills,
        Line(f"app {apps + 1} accepts, s", "add", _at("add", "accept_s")),
        Line(f"app {apps + 1} has answered, s", "add", _at("add", "answered_s")),
        Line("no other app answers meanwhile for, s", "add", _at("add", "gap_s"), "{:,.2f}", "add_gap"),
        Line("longest time without an answer before, s", "add", _at("add", "gap_before_s"), "{:,.2f}"),
        Line("longest answer of the others meanwhile, s", "add", _at("add", "longest_s"), "{:,.2f}"),
        Line("longest answer before, s", "add", _at("add", "longest_before_s"), "{:,.2f}"),
        Line("a busy app alone, events/s", "busy", _at("busy", "alone", "events_per_s"), "{:,.0f}"),
        Line(f"beside {apps - 1} that idle, events/s", "busy", _at("busy", "beside", "events_per_s"), "{:,.0f}"),
        Line("beside others to alone", "busy", _at("busy", "ratio"), "{:.2f}", "busy_ratio"),
        *poisons,
        Line("events answered, each once", "warm", _at("warm", "rows"), "{:,.0f}"),
    ]


def stage_text(told: Told, stage: str, apps: int) -> str:
    """The figures of one stage in a line; why there are none.

    >>> stage_text({"too_slow": {}, "single": {"ms": {"p50": 20.0, "p99": 400.0}}}, "single", 100)
    'one event at a time: p50, ms: 20; one event at a time: p99, ms: 400 (missed)'
    """
    cells = [(line.name, _cell(line, told)) for line in _lines(apps) if line.stage == stage]
    return "; ".join(f"{name}: {cell}" for name, cell in cells if cell) or told["too_slow"].get(stage, "done")


def node_table(result: Told) -> Table:
    """All figures with their goals; where there is none, why."""
    apps = result["settings"]["apps"]
    names = sides_of(result)
    header = ("figure", "goal", *names.values())
    rows = []
    for line in _lines(apps):
        cells = [_cell(line, result["apps"][label]) if label in result["apps"] else "" for label in names]
        if any(cells):
            rows.append([line.name, _goal(line), *(cell or "–" for cell in cells)])
    caches = {told["warm"]["cache"] for label in names if "warm" in (told := result["apps"].get(label, {}))}
    return f"A node of {apps:,} apps (compile cache {', '.join(sorted(caches)) or 'of this run'})", header, rows


def _cell(line: Line, told: Told) -> str:
    """A figure, with a mark where it misses its goal; the reason where there is none, "" where it was not asked for."""
    value = line.value(told)
    if value is not None:
        missed = line.goal and not met(line.goal, value)
        return line.form.format(value) + (" (missed)" if missed else "")
    skipped = told.get(line.stage, {}).get("skipped")
    if skipped:
        return f"skipped: {skipped}"
    return "too slow" if line.stage in told["too_slow"] else ""


def _goal(line: Line) -> str:
    if not line.goal:
        return "–"
    sign = "≥" if line.goal == "busy_ratio" else "≤"
    return f"{sign} {GOALS[line.goal]:g}"


def idle_table(result: Told) -> Table:
    """Shares of a core while nothing is sent, by kind of process, beside those of Spark alone and a NATS server alone."""
    columns: dict[str, dict[str, float]] = {}
    for label, name in sides_of(result).items():
        if "idle" in result["apps"].get(label, {}):
            columns[name] = result["apps"][label]["idle"]["by_kind"]
    for what, told in result["apps"].get(BESIDE, {}).items():
        columns[f"{what} alone"] = told["by_kind"]
    kinds = dict.fromkeys(kind for shares in columns.values() for kind in shares)
    rows = [[kind, *(f"{c[kind]:.4f}" if kind in c else "–" for c in columns.values())] for kind in kinds]
    if rows:
        rows.append(["all", *(f"{sum(c.values()):.4f}" for c in columns.values())])
    return "Idle: cores used, by kind of process", ("processes", *columns), rows


def memory_table(result: Told) -> Table:
    """Memory by kind of process, MB."""
    columns: dict[str, dict[str, float]] = {}
    for label, name in sides_of(result).items():
        told = result["apps"].get(label, {})
        columns |= {f"{name}, {what}": told[what]["by_kind"] for what in ("memory", "one") if what in told}
    for what, told in result["apps"].get(BESIDE, {}).items():
        columns[f"{what} alone"] = told["pss_by_kind"]
    kinds = dict.fromkeys(kind for held in columns.values() for kind in held)
    rows = [[kind, *(f"{c[kind] / 1e6:,.0f}" if kind in c else "–" for c in columns.values())] for kind in kinds]
    header = ("processes", *(c.replace(", memory", ", all apps").replace(", one", ", one app") for c in columns))
    return "Memory (PSS), MB, by kind of process", header, rows


def reasons_table(result: Told) -> Table:
    """What was too slow, and what was said of it."""
    rows = [
        [f"{name}, {stage}", reason]
        for label, name in sides_of(result).items()
        for stage, reason in result["apps"].get(label, {}).get("too_slow", {}).items()
    ]
    return "Given up", ("stage", "why"), rows
