"""The tables of the suite `ha`."""

from __future__ import annotations

from typing import Any

from bench.pair import GOALS, KILLS, SWITCHES, THROUGHPUT
from bench.report_cells import Table

Told = dict[str, Any]


def pair_tables(result: Told) -> list[Table]:
    """Those that have rows."""
    apps = result["apps"]
    return [t for t in (_throughput(apps.get(THROUGHPUT)), _times(apps), _phases(apps)) if t[2]]


def _throughput(told: Told | None) -> Table:
    if told is None:
        return "", (), []
    rows = [
        [name, f"{told[name]['events_per_s']:,.0f}", f"{told[name]['ms']['p50']:,.0f} / {told[name]['ms']['p99']:,.0f}"]
        for name in ("alone", "pair")
    ]
    rows.append(["pair to alone", f"{told['share']:.2f} (goal ≥ {GOALS['share']})", ""])
    return "An http source in bodies of 100, the active node on one core", ("", "events/s", "ms: p50 / p99"), rows


def _times(apps: Told) -> Table:
    rows = []
    for stage, goal in ((KILLS, GOALS["kill_s"]), (SWITCHES, GOALS["switch_s"])):
        if told := apps.get(stage):
            first, active = told["first_row_s"], told["active_s"]
            rows.append(
                [
                    f"{told['count']} {stage}, {told['state_mb']} MB of state",
                    f"{active['median']:.1f} / {active['max']:.1f}",
                    f"{first['median']:.1f} / {first['max']:.1f}",
                    f"≤ {goal:.0f}",
                ]
            )
    return "Take-overs, s: median / maximum", ("", "other node active", "first new row", "goal"), rows


def _phases(apps: Told) -> Table:
    stages = [stage for stage in (KILLS, SWITCHES) if stage in apps]
    names = dict.fromkeys(name for stage in stages for name in apps[stage]["phases_ms"])
    rows = []
    for name in names:
        found = [apps[stage]["phases_ms"].get(name) for stage in stages]
        rows.append(
            [name.removesuffix("_ms"), *(f"{one['median']:,.0f} / {one['max']:,.0f}" if one else "" for one in found)]
        )
    return "Phases of a take-over, ms: median / maximum", ("", *stages), rows
