"""The suite `state`: what a batch costs over a small and a large state, what a revision of it costs the batches beside it, and how long a state takes to come
back after a kill.

A window of an hour, grouped by key, is filled until it holds as many events as the wanted size needs; then come batches of 10,000 events over it (as many leave
it), among them a whole renewal of the base; then the hosts are killed (kill -9), and at last the whole node, which is started again. `state_run` does all this;
here are the app, its input, what came out, and the figures.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.analysis import Note, read_notes
from bench.checks import Rows, WrongOutputError
from bench.events import FIRST_MS, Events, make_events
from bench.node import Batch

BATCH = 10_000
HOUR_MS = 3_600_000
SIZES = (10, 100, 1_000)  # MB
EVENTS_PER_MB = 3_000  # of the flat app: about 330 bytes of state each
KEYS = 1_000_000  # over every size, so that all get the same batches: nearly each event has a key of its own, and as many leave
EVENTS_PER_KEY = 3  # where each key has a window, which stays: there the number of keys makes the size
NOTE = "x" * 230  # what makes an event as large as that
LEAST_BATCHES = 60
RENEWAL = 0.3  # of the events of the window: the batches that it takes to bring a new base into the store (four bytes of it for one of a delta), and some
ROLL = 0.3  # of the window: how far it may be moved on in large batches to come near a renewal
FILL_STEP = 100_000  # events in a batch that fills, at most
PACED = 100  # batches at a pace, at most: before and beside revisions
AFTER_KILL = 8  # batches
REST = 26  # batches for both kills
PIECE = 100_000

_IN = "define stream In (ts long, sym string, price double, vol int, note string);"
_OUT = "define stream Out (ts long, sym string, mean double, n long);"
_QUERY = "from In#window.time(1 hour) select ts, sym, avg(price) as mean, count() as n group by sym insert into Out;"
BODIES = {"flat": _QUERY, "keyed": f"partition with (sym of In) begin {_QUERY} end;"}
"""`flat`: one window for all keys, one bucket. `keyed`: a window for each key, buckets as many as cores."""


@dataclass(frozen=True, slots=True)
class StateSetting:
    """`mb` is the size of the state, `batches` how many are measured over it (0: by its size); `revision`: revisions are made, too. `conf`: settings
    of Spark and nadi."""

    folder: Path
    app: str
    mb: int
    batches: int
    master: str
    revision: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def fill(self) -> int:
        """Events that are in the window."""
        return max(BATCH, self.mb * EVENTS_PER_MB // BATCH * BATCH)

    @property
    def fill_step(self) -> int:
        """Events in a batch that fills."""
        return max(BATCH, min(FILL_STEP, self.fill // 10 // BATCH * BATCH))

    @property
    def roll(self) -> int:
        """How many events a large window may be moved on after it is full; none where the base is renewed within the measured batches anyway."""
        return 0 if self.fill <= LEAST_BATCHES * BATCH else int(ROLL * self.fill) // BATCH * BATCH

    @property
    def keys(self) -> int:
        return KEYS if self.app == "flat" else self.fill // EVENTS_PER_KEY

    @property
    def buckets(self) -> int:
        return 1 if self.app == "flat" else os.cpu_count() or 1

    @property
    def steady(self) -> int:
        """Batches over the full window."""
        return self.batches or max(LEAST_BATCHES, 20 + int(RENEWAL * self.fill / BATCH))

    @property
    def paced(self) -> int:
        """Batches before and beside revisions, at most."""
        return PACED if self.revision else 0

    @property
    def rest(self) -> int:
        """Events for the kills."""
        return REST * BATCH

    @property
    def total(self) -> int:
        """Events of the input: more than are taken, as a cut of all that is there would have the machine's clock."""
        return self.fill + self.roll + (self.steady + self.paced + REST + 2) * BATCH


class Stage(msgspec.Struct, frozen=True):
    """What a bucket noted of a batch: begin (s), length (s), bytes written, seconds of feeding and loading, memory of its host, bytes of state."""

    t: float
    d: float
    bucket: int
    cut: int
    feeding: float
    loading: float
    memory: int
    snapshot: str
    state_bytes: int
    state_written: int
    events: int


class _Kind(msgspec.Struct):
    p: str


def app_name(setting: StateSetting) -> str:
    return f"state-{setting.app}-{setting.mb}"


def app_text(setting: StateSetting) -> str:
    source = f"type='file', file.uri='{setting.folder}/in.jsonl', event.time='ts'"
    sink = f"type='file', file.uri='{setting.folder}/out.jsonl', append='false'"
    return (
        f"@app:name('{app_name(setting)}')\n@source({source}, @map(type='json'))\n{_IN}\n"
        f"@sink({sink}, @map(type='json'))\n{_OUT}\n{BODIES[setting.app]}\n"
    )


def events_of(setting: StateSetting, start: int, stop: int) -> Events:
    """Events [start, stop): `fill` of them to the hour."""
    made = make_events(start, stop, setting.keys)
    ts = FIRST_MS + np.arange(start, stop, dtype=np.int64) * HOUR_MS // setting.fill
    return Events(ts, made.key, made.cents, made.vol)


def write_input(setting: StateSetting) -> None:
    line = b'{"event":{"ts":%d,"sym":"S%d","price":%s,"vol":%d,"note":"' + NOTE.encode() + b'%d"}}\n'
    with (setting.folder / "in.jsonl").open("wb") as out:
        for start in range(0, setting.total, PIECE):
            part = events_of(setting, start, min(setting.total, start + PIECE))
            columns = (part.ts.tolist(), part.key.tolist(), part.cents.tolist(), part.vol.tolist())
            prices = (repr(cents / 100).encode() for cents in columns[2])
            numbers = range(start, start + len(part))
            out.write(b"".join(map(line.__mod__, zip(columns[0], columns[1], prices, columns[3], numbers))))


def host_pids(jvm: int) -> list[int]:
    """The hosts of a JVM."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"nadi.pipeline.executor.host" in words and str(jvm).encode() in words:
                found.append(int(process.name))
    return found


class _Row(msgspec.Struct):
    ts: int
    sym: str
    mean: float
    n: int


class _Message(msgspec.Struct):
    event: _Row


def read_output(path: Path) -> Rows:
    """The rows of the output, by columns. Raises WrongOutputError."""
    decode = msgspec.json.Decoder(_Message).decode
    parts: list[tuple[Any, ...]] = []
    with path.open("rb") as lines:
        while piece := lines.readlines(1 << 26):
            try:
                rows = [decode(line).event for line in piece]
            except msgspec.DecodeError as reason:
                raise WrongOutputError(f"a line of the output is no row: {reason}") from reason
            ts, keys, counts = ([r.ts for r in rows], [int(r.sym[1:]) for r in rows], [r.n for r in rows])
            parts.append((*(np.array(c, np.int64) for c in (ts, keys, counts)), np.array([r.mean for r in rows])))
    columns = [np.concatenate(column) for column in zip(*parts)]
    return dict(zip(("ts", "key", "n", "mean"), columns))


# ---- figures -------------------------------------------------------------------------------------------------------


def read_stages(folder: Path) -> list[Stage]:
    """What the stages noted, by begin."""
    kind, whole = msgspec.json.Decoder(_Kind).decode, msgspec.json.Decoder(Stage).decode
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            if kind(line).p == "stage":
                found.append(whole(line))
    return sorted(found, key=lambda s: s.t)


def read_batches(path: Path) -> list[Batch]:
    return [msgspec.json.decode(line, type=Batch) for line in path.read_bytes().split(b"\n")[:-1]]


def figures(setting: StateSetting, times: dict[str, float], span: tuple[int, int]) -> dict[str, Any]:
    """From the notes of a run to its figures; the batches that count begin within `span`, [first event, end)."""
    notes, stages = read_notes(setting.folder / "notes"), read_stages(setting.folder / "notes")
    batches = read_batches(setting.folder / "batches.jsonl")
    steady = _within(batches, span)
    begin, end = steady[0].begin / 1000, steady[-1].begin / 1000 + _s(steady[-1])
    mine = [s for s in stages if begin <= s.t < end]
    by_cut: dict[int, int] = {}
    for stage in mine:
        by_cut[stage.cut] = by_cut.get(stage.cut, 0) + stage.state_written
    ms = [b.ms["triggerExecution"] for b in steady]
    written = list(by_cut.values())
    return {
        "events": setting.fill,
        "keys": setting.keys,
        "state_bytes": sum(max(s.state_bytes for s in mine if s.bucket == b) for b in {s.bucket for s in mine}),
        "batches": len(steady),
        "batch_ms": {"median": float(np.median(ms)), **{f"p{q}": float(np.percentile(ms, q)) for q in (90, 99)}, "max": max(ms)},
        "host_ms": {p: _middle([n.d * 1000 for n in notes if n.p == p and begin <= n.t < end]) for p in ("kernel", "delta", "base")},
        "stage_ms": {"alone": _middle(_lengths(mine, "")), "dumping": _middle(_lengths(mine, "dumping")), "copying": _middle(_lengths(mine, "copying"))},
        "written": {"median": float(np.median(written)), "p99": float(np.percentile(written, 99)), "max": max(written), "mean": float(np.mean(written))},
        "written_per_event": sum(written) / max(1, sum(s.events for s in mine)),
        "dumps_s": [round(n.d, 2) for n in notes if n.p == "dump"],
        "dumps": sum(n.p == "dump" and begin <= n.t < end for n in notes),
        "memory_of_hosts": max(s.memory for s in stages),
        "memory_used": int(times["memory"]),
        "recovery_of_hosts": _recovery(batches, stages, notes, times["killed"]),
        "recovery_of_node": {**_recovery(batches, stages, notes, times["ready"]), "spark_s": times["ready"] - times["started"]},
        "all_batches": [[b.begin, b.ms["triggerExecution"]] for b in steady],
    }  # fmt: skip


def _within(batches: Iterable[Batch], span: tuple[int, int]) -> list[Batch]:
    """The batches that begin with the events of a span."""
    found, before = [], 0
    for batch in batches:
        if span[0] <= before < span[1]:
            found.append(batch)
        before += batch.events
    return found


def _recovery(batches: list[Batch], stages: list[Stage], notes: list[Note], since: float) -> dict[str, float]:
    """Seconds from a moment to the end of the first batch that had to load its state after it, and what that is made of (the slowest bucket)."""
    fed = [s for s in stages if s.t + s.d >= since and s.feeding > 0]
    if not fed:
        return {}
    first = [s for s in fed if s.cut == fed[0].cut]
    end = next(
        (b.begin / 1000 + _s(b) for b in batches if b.begin / 1000 + _s(b) >= max(s.t + s.d for s in first)), 0.0
    )
    last = max(first, key=lambda s: s.t + s.d)
    return {
        "whole_s": end - since,
        "until_stage_s": last.t - since,
        "feeding_s": last.feeding,
        "loading_s": last.loading,
        "rest_of_stage_s": last.d - last.feeding - last.loading,
        "bytes": float(sum(s.state_bytes for s in first)),
        "after_stage_s": end - last.t - last.d,
    }


def _s(batch: Batch) -> float:
    return batch.ms.get("triggerExecution", 0) / 1000


def _lengths(stages: Iterable[Stage], snapshot: str) -> list[float]:
    return [s.d * 1000 for s in stages if s.snapshot == snapshot]


def _middle(values: list[float]) -> dict[str, float]:
    if not values:
        return {"count": 0}
    return {"median": float(np.median(values)), "p99": float(np.percentile(values, 99)), "count": len(values)}
