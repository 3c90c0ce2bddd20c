"""One busy app beside many that idle, and alone: how many events a second it takes from files, each in a node of its own.

Its window is one of events: when the files come is no part of what must come out.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.checks import WrongOutputError, compare, length_rows, parse
from bench.events import Events, make_events, messages
from bench.growth import FileGrowth, batch_events, line_ends, points, steady_rate
from bench.live import Say
from bench.many import NodeSetting
from bench.many_start import Running, running
from bench.publicnode import TooSlowError

LENGTH = 50  # events of the window
FIRST = 1_000  # events that show that the app runs
QUIET = 5.0  # seconds without a row after which all are there
PIECE = 100_000


def of_busy(setting: NodeSetting, others: int, cache: Path | None, say: Say) -> dict[str, Any]:
    """Events a second of the busy app in a node with so many `others`. Errors: TooSlowError, ChildFailedError, WrongOutputError."""
    label = f"busy beside {others}" if others else "busy alone"
    folder = setting.folder / label.replace(" ", "-")
    source, target, text = folder / "in", folder / "busy.jsonl", folder / "busy.siddhi"
    source.mkdir(parents=True)
    text.write_text(busy_text(source, target))
    events = make_events(0, setting.events)
    write_piece(source, "a", events.first(FIRST))
    conf = {"nadi.batch.events": str(batch_events(setting.events)), **setting.conf}
    bounded = replace(setting, conf=conf)
    with running(bounded, f"{label} node", others, cache, say, [text]) as made, FileGrowth(target) as growth:
        made.node.until(lambda: growth.samples or None, setting.patience, "first row of the busy app")
        begin = time.monotonic()
        write_piece(source, "b", Events(*(c[FIRST:] for c in (events.ts, events.key, events.cents, events.vol))))
        _until_quiet(made, growth, setting.events, begin)
    data = target.read_bytes()
    found, _ = parse(data.splitlines())
    check = compare(length_rows(events, LENGTH), found)
    late = [(t, size) for t, size in growth.samples if t > begin]
    times, sizes = zip(*late, strict=True)
    seen = points(times, np.searchsorted(line_ends(data), sizes, side="right"), found["ts"], events.ts)
    rate = steady_rate(seen, setting.events)
    if not rate:
        raise WrongOutputError(
            f"{made.label}: {len(seen)} looks at the output are too few for a rate: give more --events"
        )
    return {"events_per_s": rate, "events": setting.events, "check": check, "looks": len(seen)}


def busy_text(source: Path, target: Path) -> str:
    """The busy app: it reads files that appear in a folder."""
    return (
        "@app:name('busy')\n"
        f"@source(type='file', dir.uri='{source}', file.settle='200', @map(type='json'))\n"
        "define stream In (ts long, sym string, price double, vol int);\n"
        f"@sink(type='file', file.uri='{target}', append='false', @map(type='json'))\n"
        "define stream Out (ts long, sym string, mean double, n long);\n"
        f"partition with (sym of In) begin from In#window.length({LENGTH}) "
        "select ts, sym, avg(price) as mean, count() as n insert into Out; end;\n"
    )


def write_piece(folder: Path, name: str, events: Events) -> None:
    """Events as a file that is there at once."""
    hidden = folder / f".{name}.jsonl.part"
    with hidden.open("wb") as out:
        lines = list(messages(events))
        for start in range(0, len(lines), PIECE):
            out.write(b"\n".join(lines[start : start + PIECE]) + b"\n")
    hidden.rename(folder / f"{name}.jsonl")


def _until_quiet(made: Running, growth: FileGrowth, count: int, begin: float) -> None:
    """Until rows have come and then none for a while. Errors: TooSlowError, ChildFailedError."""
    limit = begin + made.patience
    while True:
        made.node.check()
        now = time.monotonic()
        last = growth.samples[-1][0]
        if last > begin and now - last > QUIET:
            return
        if now > limit:
            raise TooSlowError(f"{made.label}: the busy app did not take {count:,} events within {made.patience:.0f} s")
        made.say(f"{made.label}: busy for {now - begin:.0f} s, {growth.samples[-1][1] / 1e6:,.0f} MB out")
        time.sleep(0.2)
