"""`python bench/report.py FILE`: the tables of a result as markdown, for `docs/internals/performance.md`."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.report_cells import Table, of, ratio
from bench.report_cluster import distributed_table, fleet_tables
from bench.report_many import idle_table, memory_table, node_table, reasons_table
from bench.report_pair import pair_tables
from bench.report_posts import posts_cores, posts_goals, posts_more
from bench.report_public import asked_of, floor_table, latency_sides_table, rate_sides_table, side_cores_table
from bench.report_state import (
    direct_table,
    recovery_table,
    renewal_table,
    resources_table,
    revision_table,
    sizes_table,
    took_table,
)

SPARK = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
HOSTS = ("read", "decode", "spread", "kernel", "state", "encode", "write", "commit")


def _parts(result: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {app: told[kind] for app, told in result["apps"].items() if kind in told}


def throughput_table(result: dict[str, Any]) -> Table:
    parts = _parts(result, "throughput")
    base = parts.get("identity", {}).get("events_per_s")
    header = (
        "app",
        "events/s",
        "to identity",
        "batch ms",
        "events a batch",
        "MB in a batch",
        "state MB a batch",
        "rows",
    )
    rows = [
        [
            app + ("" if t["whole_input"] else f" ({t['events']:,} events)"),
            f"{t['events_per_s']:,.0f}",
            ratio(t["events_per_s"], base),
            of(t["batch_ms"]),
            f"{t['batch_events']['median']:,.0f}",
            f"{t['bytes_in']['median'] / 1e6:.2f}",
            f"{t['state_bytes_written']['median'] / 1e6:.2f}",
            f"{t['check']['rows']:,}",
        ]
        for app, t in parts.items()
    ]
    return "Throughput, steady batches: median [least–greatest]", header, rows


def kafka_table(result: dict[str, Any]) -> Table:
    """From Kafka to Kafka: rates, their share of the first app's, and the phases of the last run."""
    header = (
        "app, partitions × buckets",
        "events/s: median [least–greatest]",
        "share",
        "batch ms",
        *HOSTS,
        "rest",
        "load",
    )
    rows = [
        [
            label,
            of(t["events_per_s"]),
            f"{t['share']:.3f}",
            of(t["batch_ms"]),
            *(f"{t['hosts_ms'][phase]['median']:,.0f}" for phase in HOSTS),
            f"{t['rest_ms']['median']:,.0f}",
            f"{t['load'][0]:.1f}–{t['load'][1]:.1f}",
        ]
        for label, t in result["apps"].items()
    ]
    return "Kafka to Kafka, exactly once: events/s, and where a batch's time goes in the hosts, ms", header, rows


def latency_table(result: dict[str, Any]) -> Table:
    parts = _parts(result, "latency")
    base = parts.get("identity", {}).get("ms", {})
    header = ("app", "p50 ms", "to identity", "p99 ms", "to identity", "max ms", "events/s", "batch ms", "rows")
    rows = [
        [
            app,
            f"{t['ms'].get('p50', float('nan')):,.0f}",
            ratio(t["ms"].get("p50"), base.get("p50")),
            f"{t['ms'].get('p99', float('nan')):,.0f}",
            ratio(t["ms"].get("p99"), base.get("p99")),
            f"{t['ms'].get('max', float('nan')):,.0f}",
            f"{t['offered_per_s']:,.0f}",
            of(t["batch_ms"]),
            f"{t['rows']:,}",
        ]
        for app, t in parts.items()
    ]
    return "Latency, sending to receiving, broker included", header, rows


def phase_table(result: dict[str, Any], kind: str) -> Table:
    """The phases of a batch: Spark's, those in the hosts (within addBatch), and the time in which no host works."""
    parts = _parts(result, kind)
    rows = [["whole batch", *(of(t["batch_ms"]) for t in parts.values())]] if parts else []
    rows += [[f"Spark: {name}", *(of(t["spark_ms"][name]) for t in parts.values())] for name in SPARK if parts]
    rows += [[f"host: {name}", *(of(t["hosts_ms"][name], 1) for t in parts.values())] for name in HOSTS if parts]
    if parts:
        rows.append(["no host at work", *(of(t["rest_ms"]) for t in parts.values())])
    return f"Where a batch's time goes ({kind}), ms: median [least–greatest]", ("phase", *parts), rows


def rows_table(result: dict[str, Any]) -> Table:
    """The rows kernel alone. Processor time tells more than the clock where other things ran."""
    header = ("app, feed", "events/s", "goal", "a processor s", "with deltas", "calls an event", "load", "rows")
    rows = [
        [
            label,
            f"{t['events_per_s']:,.0f}",
            f"{t['goal']:,}",
            f"{t['events_per_cpu_s']:,.0f}",
            f"{t['events_per_cpu_s_with_delta']:,.0f}",
            f"{t['calls_per_event']:.1f}",
            f"{t['runs'][0]['load'][0]:.1f}–{t['runs'][-1]['load'][1]:.1f}",
            f"{t['check']['rows']:,}",
        ]
        for label, t in result["apps"].items()
        if "events_per_s" in t
    ]
    return "The rows kernel in one process, the fastest of some runs", header, rows


def kernel_table(result: dict[str, Any]) -> Table:
    """The columns kernel alone."""
    header = ("app, batch", "M events/s", "goal", "a processor s", "with deltas", "µs a batch", "load", "rows")
    rows = []
    for label, t in result["apps"].items():
        size = int(label.partition(", ")[2].replace(",", ""))
        rows.append(
            [
                f"{label}: rows out" if t.get("of") == "rows" else label,
                f"{t['events_per_s'] / 1e6:.1f} [{t['least'] / 1e6:.1f}–{t['greatest'] / 1e6:.1f}]",
                f"{t['goal'] / 1e6:.1f}",
                f"{t['events_per_cpu_s'] / 1e6:.1f}",
                f"{t['events_per_cpu_s_with_delta'] / 1e6:.1f}",
                f"{statistics.median(r['wall_s'] for r in t['runs']) * size / t['events'] * 1e6:,.0f}",
                f"{t['runs'][0]['load']:.1f}–{t['runs'][-1]['load']:.1f}",
                f"{t['rows']:,}",
            ]
        )
    return "The columns kernel in one process: median [least–greatest]", header, rows


def sweep_table(result: dict[str, Any]) -> Table:
    """What an event costs along each sweep, and how much more than where it costs least."""
    header = ("sweep", "ns an event", "to the least", "rows", "load")
    told = result["apps"].values()
    least = {t["sweep"]: min(o["ns"] for o in told if o["sweep"] == t["sweep"]) for t in told}
    rows = [
        [
            f"{t['sweep']} {t['value']}",
            f"{t['ns']:.0f} [{t['least']:.0f}–{t['greatest']:.0f}]",
            f"{t['ns'] / least[t['sweep']]:.2f}",
            f"{t['rows']:,}",
            f"{t['load'][0]:.1f}–{t['load'][1]:.1f}",
        ]
        for t in told
    ]
    return "Patterns on the columns kernel, processor time with deltas: median [least–greatest]", header, rows


def state_table(result: dict[str, Any]) -> Table:
    told = result["apps"].get("state")
    header = ("keys", "bytes a key in memory", "goal", "bytes a key in a dump")
    rows = [
        [
            f"{told['keys']:,}",
            f"{told['bytes_per_key_in_memory']:,.0f}",
            f"{told['goal']:,}",
            f"{told['bytes_per_key_in_dump']:,.0f}",
        ]
    ]
    return "State of a pattern with two steps, one match waiting per key", header, rows


def delivery_table(result: dict[str, Any]) -> Table:
    """Exactly once and without guarantees, a line each per number of keys; times are those of the last run."""
    header = (
        "keys, delivery",
        "events/s: median [least–greatest]",
        "ratio",
        "batch ms",
        "state MB a batch",
        *HOSTS,
        "rest",
    )
    rows = []
    for label, t in result["apps"].items():
        for mode, runs in t["runs"].items():
            last = runs[-1]
            rows.append(
                [
                    f"{label}, {mode}",
                    of(t["events_per_s"][mode]),
                    f"{t['ratio']:.2f}" if mode == "exactly once" else "1.00",
                    of(last["batch_ms"]),
                    f"{last['state_bytes_written']['median'] / 1e6:.2f}",
                    *(f"{last['hosts_ms'][phase]['median']:,.0f}" for phase in HOSTS),
                    f"{last['rest_ms']['median']:,.0f}",
                ]
            )
    return "A keyed pattern from Kafka to Kafka; phases are medians in ms", header, rows


def live_table(result: dict[str, Any]) -> Table:
    """From topic to topic: append to append, and to seen by a reader of committed rows."""
    quantiles = ("p50", "p90", "p99", "max")
    header = (
        "app",
        *(f"{q} ms" for q in quantiles),
        *(f"seen {q}" for q in quantiles),
        "events/s",
        "batch ms",
        "rows",
        "load",
    )
    rows = [
        [
            app,
            *(f"{t['append_ms'].get(q, float('nan')):,.0f}" for q in quantiles),
            *(f"{t['seen_ms'].get(q, float('nan')):,.0f}" for q in quantiles),
            f"{t['offered_per_s']:,.0f}",
            of(t["batch_ms"]),
            f"{t['rows']:,}",
            f"{t['load'][0]:.1f}–{t['load'][1]:.1f}",
        ]
        for app, t in result["apps"].items()
    ]
    return "Latency, Kafka to Kafka: from append to append, and until a reader of committed rows sees it", header, rows


def peers_table(result: dict[str, Any]) -> Table:
    """nadi beside its peers: events/s of each, and the ratio of the medians (more than 1: nadi is faster). In small batches half of the goal is asked for."""
    nadi = "nadi, events/s: median [least–greatest]"
    header = ("shape", nadi, "peer", "peer, events/s", "ratio", "goal", "by 1,000", "ratio", "goal", "kernel", "load")
    rows = []
    for t in result["apps"].values():
        rates = t["events_per_s"]
        peer = "siddhi" if "siddhi" in rates else "spark"
        small, goals = ["–", "–"], ["–", "–"]
        if "small" in rates:
            small = [of(rates["small"]), f"{t['small_ratio']:.1f}"]
            goals = [f"{t['goal']:g}", f"{t['goal'] / 2:g}"]
        both = [of(rates["nadi"]), peer, of(rates[peer]), f"{t['ratio']:.2f}", goals[0], *small, goals[1]]
        load = f"{t['load'][0]:.1f}–{t['load'][1]:.1f}"
        rows.append([t["label"], *both, t.get("kernel", "–"), load])
    return "nadi beside its peers, the same events and the same rows", header, rows


def timeline_table(result: dict[str, Any]) -> Table:
    """When it comes to what within a batch; the steps between two moments add up to the batch."""
    apps = result["apps"]
    labels = dict.fromkeys(label for t in apps.values() for label in t["timeline_ms"])
    rows = [
        [label, *(of(t["timeline_ms"][label]) if label in t["timeline_ms"] else "–" for t in apps.values())]
        for label in labels
    ]
    return "When within a batch, ms since its begin: median [least–greatest]", ("moment", *apps), rows


def cores_table(result: dict[str, Any]) -> Table:
    """Which processes kept the cores busy while latency was measured."""
    apps = result["apps"]
    kinds = dict.fromkeys(kind for t in apps.values() for kind, used in t["cores"].items() if used)
    rows = [[kind, *(f"{t['cores'].get(kind, 0.0):.2f}" for t in apps.values())] for kind in kinds]
    rows.append(["all", *(f"{sum(t['cores'].values()):.2f}" for t in apps.values())])
    return "Cores kept busy meanwhile, on average, by kind of process", ("processes", *apps), rows


def tables(result: dict[str, Any]) -> list[Table]:
    """All tables of a result that have rows."""
    if result.get("suite") == "peers":
        return [peers_table(result)]
    if result.get("suite") == "http":
        return [t for t in (f(result) for f in (posts_goals, posts_more, posts_cores)) if t[2]]
    if result.get("suite") == "fleet":
        return fleet_tables(result)
    if result.get("suite") == "distributed":
        return [distributed_table(result)]
    if result.get("suite") == "ha":
        return pair_tables(result)
    if result.get("suite") == "node":
        return [t for t in (f(result) for f in (node_table, idle_table, memory_table, reasons_table)) if t[2]]
    if result["settings"].get("against"):
        live = (latency_sides_table, floor_table, side_cores_table)
        of_sides = live if result.get("suite") == "latency" else (rate_sides_table,)
        return [t for t in (f(result) for f in of_sides) if t[2]]
    if result.get("suite") == "latency":
        parts = {"apps": {app: {"latency": told} for app, told in result["apps"].items()}}
        return [
            t
            for t in (live_table(result), timeline_table(result), phase_table(parts, "latency"), cores_table(result))
            if t[2]
        ]
    if result.get("suite") == "delivery":
        return [delivery_table(result)]
    if result.get("suite") == "kafka":
        return [kafka_table(result)]
    if result.get("suite") == "state":
        if "cpu_ms" in next(iter(result["apps"].values()), {}):
            return [direct_table(result)]
        of_state = (sizes_table, renewal_table, resources_table, revision_table, recovery_table, took_table)
        return [t for t in (table(result) for table in of_state) if t[2]]
    if result.get("suite") == "kernel":
        return [t for t in (kernel_table(result),) if t[2]]
    if result.get("suite") == "sweep":
        return [t for t in (sweep_table(result),) if t[2]]
    if result.get("suite") == "rows":
        return [t for t in (rows_table(result), *([state_table(result)] if "state" in result["apps"] else [])) if t[2]]
    of_pipeline = [
        throughput_table(result),
        latency_table(result),
        *(phase_table(result, k) for k in ("throughput", "latency")),
    ]
    return [t for t in of_pipeline if t[2]]


def facts(result: dict[str, Any]) -> str:
    """One paragraph: when, where, of what."""
    m, s = result["machine"], result["settings"]
    load = f"load {m['load'][0]:.1f} before" + (f", {m['load_after'][0]:.1f} after" if "load_after" in m else "")
    state = "" if result["complete"] else " **Incomplete run.**"
    where = f"{result['started']}, commit {m['commit']}: {m['cpu']}, {m['cores']} cores, {m['memory_gb']} GB, {load}; "
    if result.get("suite") == "node" or s.get("against"):
        against = f"against {s['commits']['other']}. " if s.get("against") else ""
        return (
            f"{where}{against}Java {m['java']}, Python {m['python']}, pyspark {m['pyspark']}. {asked_of(result)}{state}"
        )
    if result.get("suite") in ("kernel", "rows", "sweep"):
        return f"{where}Python {m['python']}. {s['events']:,} events, {s['repeat']} runs each.{state}"
    if result.get("suite") == "ha":
        what = f"loads of {s['seconds']:.0f} s."
        return f"{where}Java {m['java']}, Python {m['python']}, pyspark {m['pyspark']}. {what}{state}"
    if result.get("suite") == "fleet":
        return f"{where}Python {m['python']}.{state}"
    if result.get("suite") == "distributed":
        what = f"{s['events']:,} events; latency at {s['rate']:,} events/s for {s['seconds']:.0f} s after {s['warm']:.0f} s."
        return f"{where}Java {m['java']}, Python {m['python']}, pyspark {m['pyspark']}. {what}{state}"
    if result.get("suite") in ("delivery", "kafka"):
        what = f"{s['events']:,} events, {s['repeat']} runs each."
        return f"{where}Java {m['java']}, Python {m['python']}, pyspark {m['pyspark']}. {what}{state}"
    if result.get("suite") == "peers":
        what = f"nadi over {s['events']:,} events, {s['repeat']} runs each."
        return f"{where}Java {m['java']}, Python {m['python']}, pyspark {m['pyspark']}. {what}{state}"
    if result.get("suite") == "latency":
        what = f"{s['rate']:,} events/s for {s['seconds']:.0f} s after {s['warm']:.0f} s."
        return f"{where}Java {m['java']}, Python {m['python']}, pyspark {m['pyspark']}. {what}{state}"
    if result.get("suite") == "state":
        return f"{where}Java {m['java']}, Python {m['python']}, pyspark {m['pyspark']}.{state}"
    profiled = " **Profiled: slower than in truth.**" if s["profile"] else ""
    return (
        f"{where}Java {m['java']}, Python {m['python']}, "
        f"pyspark {m['pyspark']}. {s['events']:,} events in batches of {s['batch_events']:,}; latency at {s['rate']:,} events/s for {s['seconds']:.0f} s "
        f"after {s['warm']:.0f} s.{state}{profiled}"
    )


def markdown(result: dict[str, Any]) -> str:
    """The whole report."""
    blocks = [facts(result)]
    for caption, header, rows in tables(result):
        lines = [header, ["---"] + ["--:"] * (len(header) - 1), *rows]
        blocks.append(f"**{caption}**\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines))
    return "\n\n".join(blocks) + "\n"


def main() -> int:
    options = argparse.ArgumentParser(description="Tables of a benchmark's result as markdown.")
    options.add_argument("file", type=Path)
    sys.stdout.write(markdown(json.loads(options.parse_args().file.read_bytes())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
