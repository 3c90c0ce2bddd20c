"""The suite `state`: what a batch costs over a small and a large state, and how long a state takes to come back after a kill.

A window of an hour, grouped by key, is filled until it holds as many events as the wanted size needs; then come batches of 10,000 events over it (as many leave
it), among them a whole renewal of the base; then the hosts are killed (kill -9), and at last the whole node, which is started again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench import timed
from bench.analysis import Note, read_notes
from bench.checks import Rows, WrongOutputError, compare, window_rows
from bench.children import Child, ChildFailedError
from bench.events import FIRST_MS, Events, make_events
from bench.node import Batch
from bench.state_node import StatePlan

BATCH = 10_000
HOUR_MS = 3_600_000
SIZES = (10, 100, 1_000)  # MB
EVENTS_PER_MB = 3_000  # of the flat app: about 330 bytes of state each
KEYS = 1_000_000  # over every size, so that all get the same batches: nearly each event has a key of its own, and as many leave
EVENTS_PER_KEY = 3  # where each key has a window, which stays: there the number of keys makes the size
NOTE = "x" * 230  # what makes an event as large as that
LEAST_BATCHES = 60
CYCLES = (
    1.2  # how often the batches over a full window write as much as it is, so that a renewal of its base is among them
)
AFTER_KILL = 8  # batches
SPARE = 25  # batches of input beyond those, which a kill that takes effect late may need
COUNTED = 0.6  # of the full window: batches over less are not counted
PIECE = 100_000

_IN = "define stream In (ts long, sym string, price double, vol int, note string);"
_OUT = "define stream Out (ts long, sym string, mean double, n long);"
_QUERY = "from In#window.time(1 hour) select ts, sym, avg(price) as mean, count() as n group by sym insert into Out;"
BODIES = {"flat": _QUERY, "keyed": f"partition with (sym of In) begin {_QUERY} end;"}
"""`flat`: one window for all keys, one bucket. `keyed`: a window for each key, buckets as many as cores."""

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class StateSetting:
    """`mb` is the size of the state, `batches` how many are measured over it (0: by its size)."""

    folder: Path
    app: str
    mb: int
    batches: int
    master: str

    @property
    def fill(self) -> int:
        """Events that are in the window."""
        return max(BATCH, self.mb * EVENTS_PER_MB // BATCH * BATCH)

    @property
    def keys(self) -> int:
        return KEYS if self.app == "flat" else self.fill // EVENTS_PER_KEY

    @property
    def steady(self) -> int:
        """Batches over the full window."""
        return self.batches or max(LEAST_BATCHES, int(CYCLES * self.fill / BATCH))

    @property
    def total(self) -> int:
        return self.fill + (self.steady + SPARE) * BATCH


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


def app_text(setting: StateSetting) -> str:
    source = f"type='file', file.uri='{setting.folder}/in.jsonl', event.time='ts'"
    sink = f"type='file', file.uri='{setting.folder}/out.jsonl', append='false'"
    return (
        f"@app:name('state-{setting.app}-{setting.mb}')\n@source({source}, @map(type='json'))\n{_IN}\n"
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


# ---- running -------------------------------------------------------------------------------------------------------


def measure_sizes(setting: StateSetting, say: Say) -> dict[str, Any]:
    """The figures of one size. Errors: ChildFailedError, WrongOutputError."""
    folder, name = setting.folder, f"{setting.app}, {setting.mb} MB"
    folder.mkdir(parents=True)
    say(f"{name}: writing {setting.total:,} events")
    write_input(setting)
    plan = folder / "plan.json"
    described = StatePlan(
        str(folder / "state"), app_text(setting), BATCH, str(folder / "batches.jsonl"), setting.master
    )
    plan.write_bytes(msgspec.json.encode(described))
    with _least_memory() as memory:
        killed = _run_and_kill(setting, plan, name, say)
        started = time.time()
        say(f"{name}: starting the node again")
        node = _node(folder, plan)
        try:
            ready = node.until("ready", 120, _nothing)
            ended = node.until("ended", 600, _shower(name, say))
        finally:
            node.end()
    if ended["state"] != "finished" or ended["errors"] or ended["restarts"]:
        raise WrongOutputError(f"{name}: the app {ended['state']}. {ended['error']}")
    say(f"{name}: checking what came out")
    check = compare(window_rows(events_of(setting, 0, setting.total), HOUR_MS), read_output(folder / "out.jsonl"))
    times = {"killed": killed, "started": started, "ready": ready["t"], "memory": memory[0] - memory[1]}
    (folder / "in.jsonl").unlink()
    return {**figures(setting, times), "check": check}


def _node(folder: Path, plan: Path) -> Child:
    return Child("bench.state_node", plan, folder / "node.log", {timed.NOTES: str(folder / "notes"), timed.PROFILE: ""})


def _nothing(_told: dict[str, Any]) -> None:
    """Nothing to show yet."""


def _shower(name: str, say: Say) -> Callable[[dict[str, Any]], None]:
    def show(told: dict[str, Any]) -> None:
        if told["at"] == "running":
            say(
                f"{name}: batch {told['batches']}, {told['in']:,} in, state {told['state'] / 1e6:,.1f} MB {told['error']}"
            )

    return show


def _run_and_kill(setting: StateSetting, plan: Path, name: str, say: Say) -> float:
    """Fill the state, measure over it, kill the hosts, then all; -> when the hosts were killed (s since the epoch)."""
    show = _shower(name, say)
    node = _node(setting.folder, plan)
    try:
        jvm = node.until("ready", 120, _nothing)["jvm"]
        _until_taken(node, setting.fill + setting.steady * BATCH, show)
        for pid in host_pids(jvm):
            os.kill(pid, signal.SIGKILL)
        killed = time.time()
        taken = node.until("running", 60, show)["in"]
        _until_taken(node, taken + AFTER_KILL * BATCH, show)
        for pid in [*host_pids(jvm), jvm, node.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return killed
    finally:
        node.end()


def _until_taken(node: Child, events: int, show: Callable[[dict[str, Any]], None]) -> None:
    before, limit = -1, time.monotonic() + 300
    while (told := node.until("running", 120, show))["in"] < events:
        show(told)
        if told["in"] != before:
            before, limit = told["in"], time.monotonic() + 300
        if time.monotonic() > limit:
            raise ChildFailedError(f"no batch came to its end in 300 s. {told['error']}")


def host_pids(jvm: int) -> list[int]:
    """The hosts of a JVM."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"nadi.pipeline.host" in words and str(jvm).encode() in words:
                found.append(int(process.name))
    return found


@contextlib.contextmanager
def _least_memory() -> Iterator[list[int]]:
    """The memory that the machine had left, in bytes: [at the beginning, the least], looked at twice a second."""
    found = [_available()] * 2
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            found[1] = min(found[1], _available())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def _available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


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


def figures(setting: StateSetting, times: dict[str, float]) -> dict[str, Any]:
    """From the notes of a run to its figures."""
    notes, stages = read_notes(setting.folder / "notes"), read_stages(setting.folder / "notes")
    batches = read_batches(setting.folder / "batches.jsonl")
    steady = [b for b in _over_the_state(batches, setting) if b.begin / 1000 + _s(b) < times["killed"]]
    mine = [s for s in stages if steady and steady[0].begin / 1000 <= s.t < times["killed"]]
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
        "host_ms": {p: _middle([n.d * 1000 for n in notes if n.p == p and mine[0].t <= n.t < times["killed"]]) for p in ("kernel", "delta", "base")},
        "stage_ms": {"alone": _middle(_lengths(mine, "")), "dumping": _middle(_lengths(mine, "dumping")), "copying": _middle(_lengths(mine, "copying"))},
        "written": {"median": float(np.median(written)), "p99": float(np.percentile(written, 99)), "max": max(written), "mean": float(np.mean(written))},
        "written_per_event": sum(written) / max(1, sum(s.events for s in mine)),
        "dumps_s": [round(n.d, 2) for n in notes if n.p == "dump"],
        "memory_of_hosts": max(s.memory for s in stages),
        "memory_used": int(times["memory"]),
        "recovery_of_hosts": _recovery(batches, stages, notes, times["killed"]),
        "recovery_of_node": {**_recovery(batches, stages, notes, times["ready"]), "spark_s": times["ready"] - times["started"]},
        "all_batches": [[b.begin, b.ms["triggerExecution"]] for b in steady],
    }  # fmt: skip


def _over_the_state(batches: Iterable[Batch], setting: StateSetting) -> list[Batch]:
    """The batches over a window that is full, or nearly."""
    found, before = [], 0
    for batch in batches:
        if before >= COUNTED * setting.fill:
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
