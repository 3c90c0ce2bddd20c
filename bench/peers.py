"""The suite `peers`: Siddhi in a process and plain Spark over Kafka beside nadi, in one run, over the same events, with equal check values.

The peers' programs are not part of the project. They are in a folder that `--peers` or NADI_PEERS names: `siddhi/pom.xml`,
`siddhi/src/peers/{Gen,SiddhiBench}.java`, `spark/pom.xml` and `spark/spark_kafka.py`. Their jars come through Maven, into `~/.cache/nadi/peers`.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.analysis import Spread, spread
from bench.checks import WrongOutputError
from bench.children import ChildFailedError
from bench.peers_apps import Shape, Values, arrivals, peer_events, values_of
from nadi.config.settings import KERNEL
from nadi.kernel.columns.choosing import ChosenKernel
from nadi.kernel.contract import ArrivalBatch
from nadi.pipeline import engine

PEERS = "NADI_PEERS"
BATCHES = (100_000, 1_000)
FEW = 200_000  # events that nadi is timed over
REPEAT = 5
MAVEN_WITHIN = 600.0  # seconds
RUN_WITHIN = 900.0
HEAP = ("-Xms4g", "-Xmx6g")

Say = Callable[[str], object]
_TOLD = re.compile(r"(\w+)=(\S+)")


class NoPeersError(Exception):
    """There are no peers to compare with; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The folder of the peers' programs, and the one for what is made of them."""

    folder: Path
    home: Path

    def class_path(self, which: str) -> str:
        return (self.home / f"{which}.cp").read_text().strip()


def find_peers(given: Path | None) -> Path:
    """The folder that was given, or NADI_PEERS names. Errors: NoPeersError."""
    named = given or (Path(os.environ[PEERS]) if os.environ.get(PEERS) else None)
    if named is None:
        raise NoPeersError(f"no peers to compare with: give their folder with --peers, or in {PEERS}")
    if not (named / "siddhi" / "pom.xml").is_file():
        raise NoPeersError(f"no peers to compare with: there is no siddhi/pom.xml in {named}")
    for tool in ("mvn", "javac", "java"):
        if shutil.which(tool) is None:
            raise NoPeersError(f"the peers need {tool}, which is not installed")
    return named.resolve()


def prepare(folder: Path, say: Say) -> Peers:
    """Get the jars and compile the programs, where that was not done. Errors: ChildFailedError."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    peers = Peers(folder, cache / "nadi" / "peers")
    classes = peers.home / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    for which in ("siddhi", "spark"):
        if not (peers.home / f"{which}.cp").exists():
            say(f"fetching the jars of {which} (once)")
            made = peers.home / f"{which}.cp.{os.getpid()}"
            pom = str(folder / which / "pom.xml")
            _done(
                ["mvn", "-q", "-B", "-f", pom, "dependency:build-classpath", f"-Dmdep.outputFile={made}"], MAVEN_WITHIN
            )
            made.replace(peers.home / f"{which}.cp")
    sources = [str(folder / "siddhi" / "src" / "peers" / name) for name in ("Gen.java", "SiddhiBench.java")]
    shutil.copy(folder / "siddhi" / "src" / "log4j2.xml", classes)
    _done(["javac", "-nowarn", "-proc:none", "-d", str(classes), "-cp", peers.class_path("siddhi"), *sources], 120)
    return peers


def _done(command: list[str], within: float) -> str:
    """What a command prints. Errors: ChildFailedError."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=within, check=False)
    except subprocess.TimeoutExpired:
        raise ChildFailedError(f"{command[0]} did not end within {within:.0f} s") from None
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise ChildFailedError(f"{command[0]} failed: {next((x for x in lines if 'ERROR' in x), lines[-1:] or '')}")
    return done.stdout


# ---- Siddhi --------------------------------------------------------------------------------------------------------


def run_siddhi(peers: Peers, shape: Shape, events: int, runs: int, warm: int) -> tuple[list[float], Values]:
    """(events/s of each run, check values): events are sent one by one, as `send(timestamp, values)`. Errors: ChildFailedError."""
    path = os.pathsep.join((str(peers.home / "classes"), peers.class_path("siddhi")))
    numbers = [str(n) for n in (0, events, runs, warm)]
    told = _done(["java", *HEAP, "-cp", path, "peers.SiddhiBench", shape.peer, *numbers], RUN_WITHIN)
    found = runs_told(told)
    if len(found) != runs:
        raise ChildFailedError(f"Siddhi told of {len(found)} runs of {shape.peer}, {runs} were asked for")
    return [rate for rate, _ in found], found[-1][1]


def runs_told(text: str) -> list[tuple[float, Values]]:
    """What Siddhi's program says of each run.

    >>> runs_told("run app=pass batch=0 N=10 sec=2.000 rate=5 out=10 sum=-3 hash=4 dsum=1.5")
    [(5.0, Values(out=10, sum=-3, hash=4, dsum=1.5))]
    """
    found = []
    for line in text.splitlines():
        if line.startswith("run "):
            told = dict(_TOLD.findall(line))
            values = Values(int(told["out"]), int(told["sum"]), int(told["hash"]), float(told["dsum"]))
            found.append((float(told["rate"]), values))
    return found


# ---- nadi ----------------------------------------------------------------------------------------------------------


def run_nadi(shape: Shape, fed: list[tuple[list[ArrivalBatch], int]], count: int) -> tuple[float, Values, str]:
    """(events/s, check values, what the queries run on). Errors: WrongOutputError, where an event failed."""
    kernel = engine.make_kernel(engine.plan_app(shape.text), ("Out",), properties={KERNEL: "auto"})
    kernel.start(0)
    made: list[pa.RecordBatch] = []
    failed: list[Any] = []
    gc.collect()
    begin = time.perf_counter()
    for batch, until in fed:
        outputs = kernel.process(batch, until)
        if "Out" in outputs.batches:
            made.append(outputs.batches["Out"])
        failed.extend(outputs.failures)
    seconds = time.perf_counter() - begin
    if failed:
        raise WrongOutputError(f"{shape.peer}: {len(failed)} events failed, the first of them: {failed[0]}")
    on_columns = isinstance(kernel, ChosenKernel) and kernel.on_columns
    return count / seconds, values_of(made, shape.averages), "columns" if on_columns else "rows"


# ---- both ----------------------------------------------------------------------------------------------------------


def measure_peers(peers: Peers, shape: Shape, few: int, repeat: int, say: Say) -> dict[str, Any]:
    """The figures of one shape, nadi's in large and in small batches. Errors: ChildFailedError, WrongOutputError where the rows of both are not the same."""
    count = shape.few or few
    before = os.getloadavg()[0]
    say(f"{shape.label}: Siddhi, {shape.many:,} events {repeat} times")
    theirs = spread(run_siddhi(peers, shape, shape.many, repeat, shape.many)[0])
    wanted = run_siddhi(peers, shape, count, 1, 0)[1]
    large, small = (_batches(shape, count, size, repeat, wanted, say) for size in BATCHES)
    return {
        "label": shape.label,
        "kernel": large.kernel,
        "events": count,
        "siddhi_events": shape.many,
        "events_per_s": {"nadi": large.rate, "small": small.rate, "siddhi": theirs},
        "ratio": large.rate.median / theirs.median,
        "small_ratio": small.rate.median / theirs.median,
        "goal": shape.goal,
        "check": wanted,
        "load": (before, os.getloadavg()[0]),
    }


@dataclass(frozen=True, slots=True)
class _Measured:
    """Events/s in batches of one size, and the kernel that ran them."""

    rate: Spread
    kernel: str


def _batches(shape: Shape, count: int, size: int, repeat: int, wanted: Values, say: Say) -> _Measured:
    """nadi in batches of one size; the first run warms up. Errors: WrongOutputError."""
    fed = list(arrivals(shape, peer_events(count, shape.keys), size))
    rates: list[float] = []
    kernel = ""
    for number in range(repeat + 1):
        say(f"{shape.label}: nadi, {count:,} events by {size:,}, run {number} of {repeat}")
        rate, values, kernel = run_nadi(shape, fed, count)
        if not values.same(wanted, shape.averages):
            raise WrongOutputError(f"{shape.peer}, batches of {size:,}: nadi gave {values}, Siddhi {wanted}")
        rates += [rate] if number else []
    return _Measured(spread(rates), kernel)
