"""The suite `ha`: a pair under load. What synchronous event sync costs, and how long a take-over and a switch are.

| stage | what is measured |
|---|---|
| throughput | an http source in bodies of 100, as many as are answered: a worker alone, then the active node of a pair, on the same one core in both runs |
| kills | `kill -9` of the active node, spread over the time between two revisions, until the other one is active and the first event sent after it is out |
| switches | the same for `nadi ha switch` |

The passive node, the clients and the database have the other cores in the first stage. Nobody is bound to a core in the others. What was acknowledged must come
out once.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.checkouts import Checkout
from bench.children import Child
from bench.pairnodes import BenchNode, alone, on_cores, pair
from bench.posts import APP, TEXT, check_rows, numbers_in, taken_file, taken_numbers, takes
from bench.processtree import processes, used
from bench.takeovers import TakeOvers
from nadi.io.natsserver import free_port

THROUGHPUT, KILLS, SWITCHES = "throughput", "kills", "switches"
PAIR_STAGES = (THROUGHPUT, KILLS, SWITCHES)
EVENTS, CLIENTS = 100, 16
WARM = 8.0
ROWS_WITHIN = 300.0
GOALS = {"share": 0.7, "kill_s": 5.0, "switch_s": 2.0}

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class PairSetting:
    """`seconds` of each load, `kills` and `switches`: how many; `state_mb` of the app that is taken over."""

    folder: Path
    checkout: Checkout
    seconds: float
    kills: int
    switches: int
    state_mb: int
    conf: dict[str, str] = field(default_factory=dict)


def measure_pair(setting: PairSetting, stages: tuple[str, ...], say: Say) -> Iterator[tuple[str, dict[str, Any]]]:
    """Figures by stage. Errors: ChildFailedError, WrongOutputError."""
    if THROUGHPUT in stages:
        yield THROUGHPUT, measure_share(setting, say)
    if {KILLS, SWITCHES} & set(stages):
        yield from measure_takeovers(setting, stages, say)


# ---- throughput


def measure_share(setting: PairSetting, say: Say) -> dict[str, Any]:
    """What the active node of a pair takes in, to what a worker alone does. Errors: ChildFailedError, WrongOutputError."""
    first, *others = sorted(os.sched_getaffinity(0))
    core, rest = frozenset({first}), frozenset(others or [first])
    found: dict[str, Any] = {}
    with on_cores(rest):
        with alone(setting.checkout, setting.folder / "alone", setting.conf, core) as node:
            found["alone"] = _loaded(setting, node, rest, say)
        say(f"alone: {found['alone']['events_per_s']:,.0f} events/s")
        with pair(setting.checkout, setting.folder / "pair", setting.conf, (core, rest)) as both:
            active = both.ready()
            found["pair"] = _loaded(setting, active, rest, say, both.ready)
            found["in_sync"] = active.is_ready()
    say(f"pair: {found['pair']['events_per_s']:,.0f} events/s")
    found["share"] = round(found["pair"]["events_per_s"] / found["alone"]["events_per_s"], 3)
    return found


def _loaded(
    setting: PairSetting, node: BenchNode, cores: frozenset[int], say: Say, ready: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """A load on a node, behind one that does not count; every acknowledged event comes out once."""
    folder, port = node.folder, free_port()
    output, url = folder / "out.jsonl", f"http://127.0.0.1:{port}/in"
    node.deploy(TEXT.format(app=APP, port=port, output=output))
    node.node.until(lambda: takes(url) or None, ROWS_WITHIN, "message that is acknowledged")
    ready()
    say(f"{node.id}: {EVENTS} events in a body for {setting.seconds:.0f} s")
    warm = _load(folder, "warm", url, 100_000_000, min(WARM, setting.seconds))
    with contextlib.closing(warm):
        warm.until("done", WARM + 60, lambda _line: None)
    seen, began = processes(node.node.folder), time.monotonic()
    with on_cores(cores), contextlib.closing(_load(folder, "bodies", url, 200_000_000, setting.seconds)) as load:
        told = load.until("done", setting.seconds + 60, lambda _line: None)
    told["cores"] = used(seen, processes(node.node.folder), time.monotonic() - began)
    taken = np.concatenate([taken_numbers(taken_file(folder, kind)) for kind in ("warm", "bodies")])
    wanted = int((taken % 2 == 0).sum())
    node.node.until(lambda: len(numbers_in(output)) >= wanted or None, ROWS_WITHIN, f"{wanted:,} rows")
    check_rows(taken, numbers_in(output))
    return {**told, "rows": wanted, "load": list(os.getloadavg())}


class _Clients(Child):
    """Clients whose end closes them."""

    def close(self) -> None:
        self.end()


def _load(folder: Path, kind: str, url: str, first: int, seconds: float) -> _Clients:
    plan = folder / f"{kind}.json"
    told = {"kind": kind, "url": url, "first": first, "taken": str(taken_file(folder, kind)), "clients": CLIENTS}
    plan.write_bytes(msgspec.json.encode({**told, "events": EVENTS, "seconds": seconds}))
    return _Clients("bench.posts_load", plan, folder / f"{kind}.log", {})


# ---- take-overs


def measure_takeovers(setting: PairSetting, stages: tuple[str, ...], say: Say) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kills, then switches. Errors: ChildFailedError, WrongOutputError."""
    folder = setting.folder / "takeovers"
    with pair(setting.checkout, folder, setting.conf, revisions=True) as both:
        with contextlib.closing(TakeOvers(both, folder, free_port(), setting.state_mb, say)) as rounds:
            for stage, many, do in (
                (KILLS, setting.kills, rounds.kill),
                (SWITCHES, setting.switches, rounds.switch),
            ):
                if stage in stages and many:
                    yield stage, summed([do(n, many) for n in range(many)], setting.state_mb)
            rows = rounds.check()
        say(f"{rows:,} acknowledged events, each out once")


def summed(rounds: list[dict[str, Any]], state_mb: int) -> dict[str, Any]:
    """Medians and maxima.

    >>> told = summed([{"first_row_s": s, "active_s": 1.0, "phases_ms": {"held_ms": 3}} for s in (2.0, 4.0, 3.0)], 0)
    >>> told["first_row_s"], told["phases_ms"]
    ({'median': 3.0, 'max': 4.0}, {'held_ms': {'median': 3.0, 'max': 3.0}})
    """
    names = dict.fromkeys(name for one in rounds for name in one["phases_ms"])
    phases = {name: _two([one["phases_ms"][name] for one in rounds if name in one["phases_ms"]]) for name in names}
    return {
        "count": len(rounds),
        "state_mb": state_mb,
        "first_row_s": _two([one["first_row_s"] for one in rounds]),
        "active_s": _two([one["active_s"] for one in rounds]),
        "phases_ms": phases,
        "rounds": rounds,
        "load": list(os.getloadavg()),
    }


def _two(found: list[float]) -> dict[str, float]:
    return {"median": float(np.median(found)), "max": float(max(found))}
