"""`nadi profile`, and the end of `nadi run --profile`: where the time of an app goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from nadi.cli.query import known_apps
from nadi.errors import error
from nadi.pipeline.live import read_live
from nadi.pipeline.profile import Profile, read_profile

MEANING = {
    "offset log": "Spark notes the cut",
    "planning": "Spark plans the batch",
    "scheduling": "Spark's jobs and tasks, the shuffle",
    "read": "inputs are read, decoded and spread over buckets",
    "kernel": "the queries",
    "state": "what they changed, as bytes",
    "write": "mappers and sinks",
    "commit": "sinks commit the cut",
    "commit log": "Spark notes that the batch is done",
}
"""What each phase is, in the order in which they are shown."""


def show(app: str, state: Path, as_json: bool) -> int:
    """Print the profile of an app, given by name or by the path of its state folder; -> exit status, 0.

    Errors: NO_STATE, NOT_PROFILED.
    """
    if (Path(app) / "cuts").is_dir():
        state, app = Path(app).resolve().parent, Path(app).resolve().name
    folder = state / app
    if not folder.is_dir():
        raise error("NO_STATE", app=app, folder=state, hint=known_apps(app, state))
    found = read_profile(folder)
    if found is None:
        raise error("NOT_PROFILED", app=app, folder=state)
    runs = read_live(folder) is not None
    if as_json:
        print(json.dumps({**msgspec.to_builtins(found), "running": runs}, ensure_ascii=False, indent=2))
        return 0
    print_profile(found, runs)
    return 0


def print_profile(found: Profile, runs: bool) -> None:
    """Print a profile as headlines and tables."""
    console = Console()
    for line in headlines(found, runs):
        console.print(line, markup=False, highlight=False)
    console.print(phase_table(found))
    console.print(part_table(found))


def headlines(found: Profile, runs: bool) -> Iterator[str]:
    """What is said above the tables."""
    since, at = (datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") for ms in (found.since, found.at))
    state = f"running, {at} UTC" if runs else f"ended; last noted {at} UTC"
    yield f"{found.app}: {found.total:,} batches since {since} UTC ({state})"
    batch = found.batch
    yield f"batch: mean {batch.mean:,.0f} ms, p50 {batch.p50:,.0f} ms, p99 {batch.p99:,.0f} ms (the last {found.batches:,})"
    if found.slowest:
        part = found.parts[0]
        yield f"slowest: {part.name}, {part.share:.0%} of the kernel's time"


def phase_table(found: Profile) -> Table:
    """Milliseconds of each phase in a batch."""
    table = Table(title="where a batch's time goes, ms", title_justify="left")
    for name in ("phase", "what"):
        table.add_column(name)
    for name in ("mean", "p50", "p99", "share"):
        table.add_column(name, justify="right")
    for name, meaning in MEANING.items():
        p = found.phases[name]
        table.add_row(name, meaning, f"{p.mean:,.1f}", f"{p.p50:,.1f}", f"{p.p99:,.1f}", f"{p.share:.0%}")
    return table


def part_table(found: Profile) -> Table:
    """The kernel's time by query."""
    table = Table(title="where the kernel's time goes, since the node started", title_justify="left")
    table.add_column("part")
    for name in ("ms", "share", "events", "µs an event"):
        table.add_column(name, justify="right")
    for p in found.parts:
        table.add_row(p.name, f"{p.ms:,.0f}", f"{p.share:.0%}", f"{p.events:,}", f"{p.us_per_event:,.2f}")
    if found.parts:
        rest = max(0.0, 1 - sum(p.share for p in found.parts))
        table.add_row("the rest: rows in and out, routing", "", f"{rest:.0%}", "", "")
    return table
