"""Tables of the suites `fleet` and `distributed`."""

from __future__ import annotations

from typing import Any

from bench.report_cells import Table

Told = dict[str, Any]

SHARE, PLACING = 0.2, 1.0
"""Goals: the share of a core that 1,000 workers' heartbeats take; s of the manager's processor time to place 2,000 instances and to even them out."""


def fleet_tables(result: Told) -> list[Table]:
    """Those of the suite `fleet` that have rows."""
    apps = result["apps"]
    return [t for t in (_heartbeats(apps.get("heartbeats", {})), _placement(apps)) if t[2]]


def _heartbeats(told: Told) -> Table:
    if not told:
        return "", (), []
    ms = told["answer_ms"]
    rows = [
        [f"of a core, goal {SHARE}", f"{told['share']:.3f}"],
        ["heartbeats/s", f"{told['beats_per_s']:,.0f}"],
        ["µs of processor time a heartbeat", f"{told['us_a_beat']:,.0f}"],
        ["not answered within a second", f"{told['unanswered']:,}"],
        ["ms to an answer: median, p99", f"{ms['median']:,.1f}, {ms['p99']:,.1f}"],
        ["s of processor time until all had joined", f"{told['joining_cpu_s']:,.1f}"],
        ["MB that the manager holds", f"{told['memory_mb']:,.0f}"],
    ]
    return f"Heartbeats of {told['workers']:,} workers", ("", "figure"), rows


def _placement(apps: Told) -> Table:
    decisions, stages = apps.get("decisions", {}), apps.get("placement", {})
    rows = []
    if decisions:
        rows += [
            [f"decisions alone: place all, goal {PLACING:.0f} for both", f"{decisions['place_s']:.2f}", "", ""],
            ["decisions alone: even them out", f"{decisions['even_s']:.2f}", "", _range(decisions)],
        ]
    rows += [
        [stage, f"{told['cpu_s']:.2f}", f"{told['took_s']:.1f}", _range(told)]
        for stage, told in stages.items()
        if "cpu_s" in told
    ]
    return "Placing instances, and evening them out", ("", "s of processor time", "s", "instances a worker"), rows


def _range(told: Told) -> str:
    return f"{told['least']}-{told['most']}"


def _share(told: Told) -> str:
    return f"{told['share']:.2f}" if "share" in told else f"{told['times']:.1f} × scale-1" if "times" in told else ""


def distributed_table(result: Told) -> Table:
    """A row for each way to run the app."""
    rows = []
    for way, told in result["apps"].items():
        ms = told.get("latency_ms") or {}
        rows.append(
            [
                way,
                f"{told['events_per_s']:,}" if "events_per_s" in told else "",
                _share(told),
                f"{told['cpu_us_an_event']:.1f}" if "cpu_us_an_event" in told else "",
                f"{told['hop_us_an_event']:.1f}" if "hop_us_an_event" in told else "",
                f"{ms['p50']:,.0f} / {ms['p99']:,.0f}" if ms else "",
                f"{told['hop_ms']:.0f}" if "hop_ms" in told else "",
            ]
        )
    heads = (
        "",
        "events/s",
        "of undistributed",
        "µs of processor time an event",
        "µs of it a hop",
        "ms: p50 / p99",
        "ms a hop",
    )
    return "An app of three groups, two hops", heads, rows
