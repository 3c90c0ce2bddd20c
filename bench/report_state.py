"""Tables of the suite `state`."""

from __future__ import annotations

from typing import Any

from bench.report_cells import Table, ratio


def sizes_table(result: dict[str, Any]) -> Table:
    """Batches over states of several sizes; the ratio is to the smallest one of the same app."""
    header = (
        "state",
        "MB",
        "batch ms",
        "ratio",
        "p90",
        "p99",
        "ratio",
        "max",
        "MB written a batch",
        "p99",
        "bytes an event",
        "batches",
    )
    first: dict[str, dict[str, float]] = {}
    rows = []
    for label, t in result["apps"].items():
        ms = t["batch_ms"]
        base = first.setdefault(label.partition(",")[0], ms)
        rows.append(
            [
                label,
                f"{t['state_bytes'] / 1e6:,.0f}",
                f"{ms['median']:,.0f}",
                ratio(ms["median"], base["median"]),
                *(f"{ms[q]:,.0f}" for q in ("p90", "p99")),
                ratio(ms["p99"], base["p99"]),
                f"{ms['max']:,.0f}",
                f"{t['written']['mean'] / 1e6:.2f}",
                f"{t['written']['p99'] / 1e6:.2f}",
                f"{t['written_per_event']:,.0f}",
                f"{t['batches']:,}",
            ]
        )
    return "Batches of 10,000 events over a window of an hour, grouped by key", header, rows


def renewal_table(result: dict[str, Any]) -> Table:
    """Batches while a base is renewed, and the others."""
    header = ("state", "alone: median / p99 / max (number)", "while a base is renewed", "p99 ratio", "dumps, s")
    rows = [
        [
            label,
            *(_of_batches(t["by_renewal"][what]) for what in ("alone", "renewing")),
            _times(t["by_renewal"]["p99_ratio"]),
            ", ".join(f"{s:,.1f}" for s in t["dumps_s"][-3:]) or "–",
        ]
        for label, t in result["apps"].items()
    ]
    return "Batches while a base is renewed, ms; the last dumps of children", header, rows


def resources_table(result: dict[str, Any]) -> Table:
    """What states take of disk and memory, and where the hosts' time goes."""
    header = (
        "state",
        "base MB",
        "disk MB at most",
        "to the base",
        "objects at most",
        "deltas, bases written",
        "a host MB",
        "memory in all MB",
        "kernel ms",
        "delta ms",
        "base ms",
    )
    rows = [
        [
            label,
            f"{t['disk']['base'] / 1e6:,.1f}",
            f"{t['disk']['peak'] / 1e6:,.1f}",
            _times(t["disk"]["ratio"]),
            f"{t['disk']['objects']:,}",
            f"{t['pieces']['deltas']:,}, {t['pieces']['bases']:,}",
            f"{t['memory_of_hosts'] / 1e6:,.0f}",
            f"{t['memory_used'] / 1e6:,.0f}",
            *(_of_middle(t["host_ms"][p]) for p in ("kernel", "delta", "base")),
        ]
        for label, t in result["apps"].items()
    ]
    return "Disk and memory; in the hosts: median / p99 (number)", header, rows


def _times(ratio: float | None) -> str:
    return f"{ratio:.2f}" if ratio else "–"


def direct_table(result: dict[str, Any]) -> Table:
    """Batches in their hosts, without Spark; ratios of processor time are to the first state of the same app."""
    header = (
        "state",
        "MB",
        "ms, median / p99",
        "processor ms, median / p99",
        "ratio",
        "p99 ratio",
        "while a base is renewed",
        "MB written, mean / p99",
        "bytes an event",
        "back after a kill, s: all = loaded, rest",
        "host MB",
    )
    rows = []
    first: dict[str, Any] = {}
    for label, t in result["apps"].items():
        cpu, back = t["cpu_ms"], t["back"]
        base = first.setdefault(label.partition(" ")[0], cpu)
        rows.append(
            [
                label,
                f"{t['state_bytes'] / 1e6:,.0f}",
                f"{t['batch_ms']['median']:,.0f} / {t['batch_ms']['p99']:,.0f}",
                f"{cpu['median']:,.0f} / {cpu['p99']:,.0f}",
                ratio(cpu["median"], base["median"]),
                ratio(cpu["p99"], base["p99"]),
                _of_middle(t["by_renewal"]["cpu_ms"]["renewing"]),
                f"{t['written']['mean'] / 1e6:.2f} / {t['written']['p99'] / 1e6:.2f}",
                f"{t['written_per_event']:,.0f}",
                f"{back['ms'] / 1000:.1f} = {back['loading']:.1f}, {back['starting_and_rest_s']:.1f}",
                f"{t['memory'] / 1e6:,.0f}",
            ]
        )
    return "Batches of 10,000 events, all sizes in turn, without Spark", header, rows


def _of_middle(told: dict[str, Any]) -> str:
    return f"{told['median']:,.0f} / {told['p99']:,.0f} ({told['count']})" if told["count"] else "–"


def recovery_table(result: dict[str, Any]) -> Table:
    header = ("state, killed", "MB", "whole s", "Spark s", "batch s", "loaded s")
    rows = []
    for label, t in result["apps"].items():
        for what in ("hosts", "node"):
            told = t[f"recovery_of_{what}"]
            if "whole_s" in told:
                spark = told.get("spark_s", 0.0)
                whole = [f"{told['whole_s'] + spark:.1f}", f"{spark:.1f}" if spark else "–"]
                rest = [f"{told[name]:.1f}" for name in ("batch_s", "loading_s")]
                rows.append([f"{label}, {what}", f"{told['bytes'] / 1e6:,.0f}", *whole, *rest])
    return "From kill -9 (of the node: from its start) to the end of the first batch", header, rows


def revision_table(result: dict[str, Any]) -> Table:
    """Batches at a pace, from when their events were there to their end, before and beside revisions."""
    header = (
        "state",
        "first revision s",
        "the next ones s",
        "MB, stored MB",
        "a batch each s",
        "before: median / p99 / max (number)",
        "during",
        "p99 ratio",
        "own ms, p99 ratio",
    )
    rows = []
    for label, t in result["apps"].items():
        if told := t.get("revision"):
            rows.append(
                [
                    label,
                    f"{told['seconds'][0]:.1f}",
                    ", ".join(f"{s:.1f}" for s in told["seconds"][1:]) or "–",
                    f"{told['bytes'] / 1e6:,.0f}, {told['stored'] / 1e6:,.0f}",
                    f"{told['period_s']:.2f}",
                    *(_of_batches(told["ms"][what]) for what in ("before", "during")),
                    *(_times(told[name]) for name in ("p99_ratio", "own_p99_ratio")),
                ]
            )
    return "Revisions beside batches that come at a pace; ms from when the events are there", header, rows


def _of_batches(told: dict[str, Any]) -> str:
    if not told["count"]:
        return "–"
    return f"{told['median']:,.0f} / {told['p99']:,.0f} / {told['max']:,.0f} ({told['count']})"


def took_table(result: dict[str, Any]) -> Table:
    """What a run of the suite is busy with."""
    parts = {label: t["took_s"] for label, t in result["apps"].items() if "took_s" in t}
    phases = dict.fromkeys(phase for took in parts.values() for phase in took)
    rows = [
        [label, *(f"{took.get(phase, 0):,.0f}" for phase in phases), f"{sum(took.values()):,.0f}"]
        for label, took in parts.items()
    ]
    return "How long the measurement took, s", ("state", *phases, "all"), rows
