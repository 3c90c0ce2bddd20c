"""The tables of the suite `http`: goal and figure side by side, and what the processors did."""

from __future__ import annotations

from typing import Any

from bench.posts import GOALS, IDLE
from bench.report_cells import Table

Told = dict[str, Any]


def goal_lines(told: Told) -> list[list[str]]:
    """A line for each goal: what it is, the goal, the figure, whether it is met."""
    singles, bodies, idle = told["singles"], told["bodies"], told["idle"]
    slowest = max(path["p99"] for path in bodies["rest"].values())
    rows = [
        ("single events acknowledged, requests/s", "≥", "singles", singles["requests_per_s"]),
        ("in bodies of 100, events/s", "≥", "bodies", bodies["events_per_s"]),
        ("REST meanwhile: p99, ms", "≤", "rest_p99", slowest),
        ("idle connections that stay", "≥", "idle", idle["alive"]),
    ]
    return [
        [name, f"{sign} {GOALS[goal]:,.0f}", f"{value:,.0f}", "yes" if _met(sign, goal, value) else "missed"]
        for name, sign, goal, value in rows
    ]


def _met(sign: str, goal: str, value: float) -> bool:
    """A rate that was asked for is met where all but a hundredth came: clocks and the last requests blur it."""
    return value <= GOALS[goal] if sign == "≤" else value >= GOALS[goal] * (0.99 if goal == "bodies" else 1)


def posts_goals(result: Told) -> Table:
    told = result["apps"].get("http", {})
    return "An http source of a worker", ("", "goal", "figure", "met"), goal_lines(told) if "idle" in told else []


def posts_more(result: Told) -> Table:
    """What stands behind the goals."""
    told = result["apps"].get("http", {})
    if "idle" not in told:
        return "More", (), []
    singles, bodies, idle = told["singles"], told["bodies"], told["idle"]
    rows = [
        ["a single event is acknowledged after: p50 / p99, ms", _pair(singles["ms"])],
        ["a body of 100: p50 / p99, ms", _pair(bodies["ms"])],
        *([f"GET {path}: p50 / p99, ms", _pair(took)] for path, took in bodies["rest"].items()),
        [f"each of {IDLE:,} idle connections, KB", f"{idle['bytes_each'] / 1000:,.1f}"],
        ["all of them, cores", f"{idle['cores']:.3f}"],
        ["one of them sends: p50 / p99, ms", _pair(idle["ms"])],
        ["answers other than 202", f"{sum(sum(told[kind]['others'].values()) for kind in told if kind != 'rows'):,}"],
        ["acknowledged events that passed the filter, each there once", f"{told['rows']:,}"],
    ]
    return "More", ("", "figure"), rows


def posts_cores(result: Told) -> Table:
    told = result["apps"].get("http", {})
    loads = {kind: told[kind]["cores"] for kind in ("singles", "bodies") if kind in told}
    kinds = dict.fromkeys(kind for cores in loads.values() for kind in cores)
    rows = [[kind, *(f"{cores.get(kind, 0.0):.2f}" for cores in loads.values())] for kind in kinds]
    return "Cores used, by kind of process (the clients are beside them)", ("processes", *loads), rows


def _pair(ms: Told) -> str:
    return f"{ms['p50']:,.0f} / {ms['p99']:,.0f}"
