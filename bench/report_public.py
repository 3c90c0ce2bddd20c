"""Tables of the suites that measure `nadi run` of two checkouts."""

from __future__ import annotations

from typing import Any

from bench.checkouts import OTHER, THIS
from bench.report_cells import Table
from bench.report_cells import of as of_several

_KINDS = (("append_ms", "append"), ("seen_ms", "seen"))
_QUANTILES = ("p50", "p99")


def of(told: dict[str, Any], digits: int = 0) -> str:
    """A median with least and greatest, where there are several values.

    >>> of({"median": 2.0, "min": 2.0, "max": 2.0, "count": 1}), of({"median": 2.0, "min": 1.0, "max": 5.0, "count": 3})
    ('2', '2 [1–5]')
    """
    return f"{told['median']:,.{digits}f}" if told["count"] == 1 else of_several(told, digits)


def sides_of(result: dict[str, Any]) -> dict[str, str]:
    """How each side is called in a table, with its commit."""
    return {label: f"{label} ({commit})" for label, commit in result["settings"].get("commits", {}).items()}


def asked_of(result: dict[str, Any]) -> str:
    """What a run was asked for."""
    s = result["settings"]
    if result["suite"] == "node":
        return f"{s['apps']:,} apps; idle, and an event a second each, for {s['seconds']:.0f} s."
    runs = f"{s['repeat']} runs of each side."
    if result["suite"] == "latency":
        return f"{s['rate']:,} events/s for {s['seconds']:.0f} s after {s['warm']:.0f} s, {runs}"
    return f"{s['events']:,} events, {runs}"


def ratio_text(ratios: dict[str, float]) -> str:
    """
    >>> ratio_text({"p50": 0.5, "p99": 0.41})
    'this / other: p50 0.50, p99 0.41'
    """
    return f"{THIS} / {OTHER}: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())


def latency_sides_table(result: dict[str, Any]) -> Table:
    """Both sides, their ratio, and the floor without Spark at each interval."""
    header = ("app", *(f"{kind} {q} ms" for _, kind in _KINDS for q in _QUANTILES), "rows", "load late s", "load")
    rows = []
    for app, t in result["apps"].items():
        for label, name in sides_of(result).items():
            runs = t["runs"][label]
            rows.append([f"{app}, {name}", *(of(t["sides"][label][k][q]) for k, _ in _KINDS for q in _QUANTILES)])
            rows[-1] += [f"{sum(r['rows'] for r in runs):,}", f"{max(r['load_late_s'] for r in runs):.2f}", _load(runs)]
        if t["ratios"]:
            cells = [f"{t['ratios'][k][q]:.2f}" if q in t["ratios"][k] else "–" for k, _ in _KINDS for q in _QUANTILES]
            rows.append([f"{app}, {THIS} / {OTHER}", *cells, "–", "–", "–"])
        for floor in t["floor"]:
            cells = [f"{floor[k].get(q, float('nan')):,.0f}" for k, _ in _KINDS for q in _QUANTILES]
            more = [f"{floor['rows']:,}", f"{floor['load_late_s']:.2f}", _load([floor])]
            rows.append([f"{app}, floor without Spark, every {floor['interval_ms']:g} ms", *cells, *more])
    return "Latency of nadi run, Kafka to Kafka, exactly once: medians of the runs [least–greatest]", header, rows


def floor_table(result: dict[str, Any]) -> Table:
    """What a batch of the floor costs, by phase."""
    phases = ("batch", "read", "kernel", "delta", "write")
    header = ("app, interval", "events a batch", *(f"{p} ms" for p in phases), "cores: broker", "cores: chain")
    rows = [
        [
            f"{app}, {floor['interval_ms']:g} ms",
            of(floor["phases_ms"]["events"]),
            *(of(floor["phases_ms"][p], 1) for p in phases),
            f"{floor['cores'].get('broker', 0.0):.2f}",
            f"{floor['cores'].get('floor', 0.0):.2f}",
        ]
        for app, t in result["apps"].items()
        for floor in t["floor"]
    ]
    return "The floor: what a batch costs without Spark; write is the transaction", header, rows


def side_cores_table(result: dict[str, Any]) -> Table:
    """Which processes kept the cores busy while latency was measured; of the last run of each side."""
    runs = {f"{app}, {side}": made[-1] for app, t in result["apps"].items() for side, made in t["runs"].items() if made}
    kinds = dict.fromkeys(kind for run in runs.values() for kind, used in run["cores"].items() if used)
    rows = [[kind, *(f"{run['cores'].get(kind, 0.0):.2f}" for run in runs.values())] for kind in kinds]
    if rows:
        rows.append(["all", *(f"{sum(run['cores'].values()):.2f}" for run in runs.values())])
    return "Cores kept busy meanwhile, on average, by kind of process", ("processes", *runs), rows


def rate_sides_table(result: dict[str, Any]) -> Table:
    """Both sides and their ratio."""
    names = sides_of(result)
    header = ("app", *(f"{name}: events/s" for name in names.values()), "ratio", "events", "first row s", "load")
    rows = []
    for app, t in result["apps"].items():
        runs = [run for label in names for run in t["runs"][label]]
        firsts = " / ".join(f"{min(r['first_row_s'] for r in t['runs'][label]):.0f}" for label in names)
        taken = min(run["events"] for run in runs)
        told = [f"{t['ratio']:.2f}" if t["ratio"] else "–", f"{taken:,}", firsts, _load(runs)]
        rows.append([app, *(of(t["sides"][label]) for label in names), *told])
    return "Throughput of nadi run: medians of the runs [least–greatest]; more than 1: this one is faster", header, rows


def _load(runs: list[dict[str, Any]]) -> str:
    return f"{min(r['load'][0] for r in runs):.1f}–{max(r['load'][1] for r in runs):.1f}"
