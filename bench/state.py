"""The suite `state`: what a batch costs over a small and a large state, what a revision of it costs the batches beside it, and how long a state takes to come
back after a kill.

A window of an hour, grouped by key, is filled until it holds as many events as the wanted size needs; then come batches of 10,000 events over it (as many leave
it), among them a whole renewal of the base; then the hosts are killed (kill -9), and at last the whole node, which is started again. `state_run` does all this;
here are the app, its input, what came out, and the figures.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from bench.analysis import read_notes
from bench.checks import Rows, WrongOutputError
from bench.events import FIRST_MS, Events, make_events
from bench.plan import Batch

BATCH = 10_000
HOUR_MS = 3_600_000
SIZES = (10, 100, 1_000)  # MB
EVENTS_PER_MB = {"flat": 27_000, "keyed": 28_000}  # as the columns kernel dumps them, before packing
KEYS = 1_000_000  # over every size, so that all get the same batches: nearly each event of a batch has a key of its own, and as many leave
EVENTS_PER_KEY = 3  # where each key has a window, which stays: there the number of keys makes the size
LEAST_BATCHES = 60
RENEWAL = 0.1  # of the events of the window: more batches than there are while a child writes a new base
ROLL = 0.1  # of the window: how far it may be moved on in large batches to come near a renewal
FILL_STEP = 100_000  # events in a batch that fills, at most
PACED = 100  # batches at a pace, at most: before and beside revisions
AFTER_KILL = 8  # batches
REST = 26  # batches for both kills
PIECE = 100_000

_IN = "define stream In (ts long, sym string, price double, vol int);"
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
        return max(BATCH, self.mb * EVENTS_PER_MB[self.app] // BATCH * BATCH)

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


class Told(msgspec.Struct, frozen=True):
    """What a bucket told of a cut that was committed: when that was (s), seconds of loading its state, memory of its host, whether a child makes a base, bytes
    that its state is read from, bytes of the delta that counts from this cut on (0: none), bytes that were written for the base that does (0: none); of
    that base the size, and after how many bytes of deltas the next one is due."""

    t: float
    bucket: int
    cut: int
    loading: float
    memory: int
    snapshot: str
    state_bytes: int
    delta: int
    base: int
    events: int
    base_size: int = 0
    base_wait: int = 0

    @property
    def renews(self) -> bool:
        """Whether a base is made beside the cut, or has come to count with it."""
        return bool(self.snapshot or self.base)


class Held(NamedTuple):
    """What the state log had on the disk at a moment (s): bytes, objects."""

    t: float
    bytes: int
    objects: int


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
    line = b'{"event":{"ts":%d,"sym":"S%d","price":%s,"vol":%d}}\n'
    with (setting.folder / "in.jsonl").open("wb") as out:
        for start in range(0, setting.total, PIECE):
            part = events_of(setting, start, min(setting.total, start + PIECE))
            columns = (part.ts.tolist(), part.key.tolist(), part.cents.tolist(), part.vol.tolist())
            prices = (repr(cents / 100).encode() for cents in columns[2])
            out.write(b"".join(map(line.__mod__, zip(columns[0], columns[1], prices, columns[3]))))


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


def read_told(folder: Path) -> list[Told]:
    """What buckets told, in the order of the commits."""
    kind, whole = msgspec.json.Decoder(_Kind).decode, msgspec.json.Decoder(Told).decode
    lines = (line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().split(b"\n")[:-1])
    return sorted((whole(line) for line in lines if kind(line).p == "bucket"), key=lambda t: t.t)


def read_batches(path: Path) -> list[Batch]:
    return [msgspec.json.decode(line, type=Batch) for line in path.read_bytes().split(b"\n")[:-1]]


def figures(
    setting: StateSetting, times: Mapping[str, float], span: tuple[int, int], held: Sequence[Held]
) -> dict[str, Any]:
    """From the notes of a run to its figures; the batches that count begin within `span`, [first event, end)."""
    notes, told = read_notes(setting.folder / "notes"), read_told(setting.folder / "notes")
    batches = read_batches(setting.folder / "batches.jsonl")
    steady = _within(batches, span)
    begin, end = steady[0].begin / 1000, steady[-1].begin / 1000 + _s(steady[-1])
    cuts = {b.id for b in steady}
    mine = [t for t in told if t.cut in cuts]
    renewing = {t.cut for t in mine if t.renews}
    by_cut = {cut: sum(t.delta + t.base for t in mine if t.cut == cut) for cut in cuts}
    ms = {b.id: b.ms["triggerExecution"] for b in steady}
    return {
        "events": setting.fill,
        "keys": setting.keys,
        "state_bytes": sum(max(t.state_bytes for t in mine if t.bucket == b) for b in {t.bucket for t in mine}),
        "batches": len(steady),
        "batch_ms": spread(list(ms.values())),
        "by_renewal": by_renewal({cut: float(length) for cut, length in ms.items()}, renewing),
        "host_ms": {p: spread([n.d * 1000 for n in notes if n.p == p and begin <= n.t < end]) for p in ("kernel", "delta", "base")},
        "written": {**spread(list(by_cut.values())), "mean": float(np.mean(list(by_cut.values())))},
        "written_per_event": sum(by_cut.values()) / max(1, sum(t.events for t in mine)),
        "pieces": {"deltas": sum(t.delta > 0 for t in mine), "bases": sum(t.base > 0 for t in mine)},
        "disk": disk_figures(told, [h for h in held if h.t >= begin]),
        "dumps_s": [round(n.d, 2) for n in notes if n.p == "dump"],
        "memory_of_hosts": max(t.memory for t in told),
        "memory_used": int(times["memory"]),
        "recovery_of_hosts": _recovery(batches, told, times["killed"]),
        "recovery_of_node": {**_recovery(batches, told, times["ready"]), "spark_s": times["ready"] - times["started"]},
        "all_batches": [[b.begin, b.ms["triggerExecution"], b.id in renewing] for b in steady],
    }  # fmt: skip


def by_renewal(ms: Mapping[int, float], renewing: Collection[int]) -> dict[str, Any]:
    """Times of cuts without a base that is made beside them, and with one; how much longer the 99th percentile is.

    >>> by_renewal({1: 100.0, 2: 150.0}, {2})["p99_ratio"]
    1.5
    """
    alone = spread([length for cut, length in ms.items() if cut not in renewing])
    beside = spread([length for cut, length in ms.items() if cut in renewing])
    ratio = beside["p99"] / alone["p99"] if alone["count"] and beside["count"] else None
    return {"alone": alone, "renewing": beside, "p99_ratio": ratio}


def disk_figures(told: Sequence[Told], held: Sequence[Held]) -> dict[str, float]:
    """What the state log had at most: bytes, objects, and bytes to those of the newest bases at that moment.

    >>> base = Told(1.0, 0, 1, 0.0, 0, "", 100, 0, 30, 1, base_size=100)
    >>> disk_figures([base], [Held(0.5, 90, 1), Held(2.0, 250, 3)])
    {'peak': 250, 'objects': 3, 'base': 100, 'ratio': 2.5}
    """
    bases: dict[int, int] = {}
    waiting = [t for t in reversed(told) if t.base]
    ratio = 0.0
    for moment in held:
        while waiting and waiting[-1].t <= moment.t:
            found = waiting.pop()
            bases[found.bucket] = found.base_size
        if bases:
            ratio = max(ratio, moment.bytes / sum(bases.values()))
    most = {"peak": max((h.bytes for h in held), default=0), "objects": max((h.objects for h in held), default=0)}
    return {**most, "base": sum(bases.values()), "ratio": ratio}


def _within(batches: Iterable[Batch], span: tuple[int, int]) -> list[Batch]:
    """The batches that begin with the events of a span."""
    found, before = [], 0
    for batch in batches:
        if span[0] <= before < span[1]:
            found.append(batch)
        before += batch.events
    return found


def _recovery(batches: Sequence[Batch], told: Sequence[Told], since: float) -> dict[str, float]:
    """Seconds from a moment to the end of the first batch that had to load its state after it, and what of it was that batch and loading (the slowest
    bucket)."""
    first = next((t.cut for t in told if t.t >= since and t.loading > 0), None)
    batch = next((b for b in batches if b.id == first), None)
    if batch is None:
        return {}
    mine = [t for t in told if t.cut == first]
    end = batch.begin / 1000 + _s(batch)
    return {
        "whole_s": end - since,
        "batch_s": min(_s(batch), end - since),
        "loading_s": max(t.loading for t in mine),
        "bytes": float(sum(t.state_bytes for t in mine)),
    }


def _s(batch: Batch) -> float:
    return batch.ms.get("triggerExecution", 0) / 1000


def spread(values: Sequence[float]) -> dict[str, float]:
    """
    >>> spread([1.0, 2.0, 9.0])["median"]
    2.0
    """
    if not values:
        return {"count": 0}
    ranks = {f"p{q}": float(np.percentile(values, q)) for q in (90, 99)}
    return {"median": float(np.median(values)), **ranks, "max": max(values), "count": len(values)}
