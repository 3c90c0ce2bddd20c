"""How long a cluster is without a leader, and an app without a part of it, when a node dies.

    python bench/failover.py [--repeat 5] [--json FILE]

The cluster is that of the kill test (`tests/chaos/cluster`): two managers (`cluster.config` 1000/2/1000), three workers (`deployment.config` 2000/2), NATS,
PostgreSQL where it is installed, and its app of three groups under load. Each time all processes of a node are killed at once, with its disk.

| figure | from the kill until |
|---|---|
| leader | the other manager says that it leads |
| worker, without the source | an event that was sent after the kill has come through all groups into the database |
| worker, with the source | the same; the event was taken by the source at its new place |

The second and third have the lease in them (8.2 s from the last heartbeat, up to 2 s less from the kill), the start elsewhere, and the restore of state.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "endtoend"))
sys.path.insert(0, str(ROOT / "tests" / "chaos"))
sys.path.insert(0, str(ROOT / "tests" / "chaos" / "cluster"))

from clusterapps import SOURCE  # noqa: E402
from clusterload import Sender  # noqa: E402
from clusternodes import ClusterNode  # noqa: E402
from clusteroracle import AWAY, Oracle  # noqa: E402
from clusterworld import ClusterWorld, cluster_world  # noqa: E402

GOALS = {"leader": 4.0, "worker without the source": 12.0, "worker with the source": 12.0}
WITHIN = 120.0
LOOK = 0.02


def waited(holds: Callable[[], bool], what: str) -> float:
    """Seconds until something holds. Errors: TimeoutError."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > WITHIN:
            raise TimeoutError(f"{what}: not within {WITHIN:.0f} s")
        time.sleep(LOOK)
    return time.monotonic() - began


def leads(manager: ClusterNode) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return manager.ask("GET", "/managers/isActive").status_code == 200
    return False


def new_leader(world: ClusterWorld) -> float:
    """Kill the leader."""
    waited(lambda: world.leader() is not None, "a leader")
    leader = world.leader()
    assert leader is not None
    (other,) = (one for one in world.managers if one is not leader)
    world.kill(leader, homes=True)
    took = waited(lambda: leads(other), "another leader")
    world.start(leader)
    world.answers(leader)
    return took


def again(world: ClusterWorld, oracle: Oracle, sender: Sender, with_source: bool) -> tuple[float, list[str]]:
    """Kill a worker that runs something; -> how long until all of the app works again, and what it ran."""
    placed = world.placed()
    source = placed[SOURCE]
    worker = next(w for w in world.workers if w.name in placed.values() and (w.name == source) is with_source)
    ran = sorted(instance for instance, name in placed.items() if name == worker.name)
    world.kill(worker, homes=True)
    began, before = time.monotonic(), sender.passing
    waited(lambda: sender.passing != before, "an event that is taken")
    if not with_source:  # the one under way may have been sent before
        before = sender.passing
        waited(lambda: sender.passing != before, "an event that is taken")
    id_ = sender.passing
    waited(lambda: _arrived(oracle, id_), "its row")
    took = time.monotonic() - began
    world.start(worker)
    world.answers(worker)
    return took, ran


def _arrived(oracle: Oracle, id_: str) -> bool:
    with contextlib.suppress(*AWAY):
        return oracle.arrived(id_)
    return False


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--repeat", type=int, default=5)
    options.add_argument("--json", type=Path)
    asked = options.parse_args()
    found: dict[str, list[float]] = {name: [] for name in GOALS}
    with tempfile.TemporaryDirectory(prefix="nadi-failover-") as folder, cluster_world(Path(folder)) as world:
        sender = Sender("s", 1, world.addresses, world.port, 0.05)
        oracle = Oracle(world, [sender])
        sender.start()
        try:
            settle(world, oracle, sender)
            for _ in range(asked.repeat):
                note(found, "leader", new_leader(world))
                settle(world, oracle, sender)
                for name, with_source in (("worker without the source", False), ("worker with the source", True)):
                    took, ran = again(world, oracle, sender, with_source)
                    note(found, name, took, ", ".join(ran))
                    settle(world, oracle, sender)
            sender.rest()
            waited(oracle.complete, "all rows")
            assert not (wrong := oracle.wrong()), wrong
        finally:
            sender.stop()
            oracle.close()
    told: dict[str, Any] = {
        name: {
            "median": round(sorted(took)[len(took) // 2], 2),
            "max": round(max(took), 2),
            "goal": GOALS[name],
            "all": [round(one, 2) for one in took],
        }
        for name, took in found.items()
    }
    for name, one in told.items():
        print(f"{name}: median {one['median']:.1f} s, max {one['max']:.1f} s (goal {one['goal']:.0f} s)")
    if asked.json:
        asked.json.write_text(json.dumps({**told, "load": os.getloadavg()}, indent=1))


def note(found: dict[str, list[float]], name: str, took: float, ran: str = "") -> None:
    found[name].append(took)
    print(f"{name}: {took:.2f} s {ran}, load {os.getloadavg()[0]:.1f}", flush=True)


def settle(world: ClusterWorld, oracle: Oracle, sender: Sender) -> None:
    """All runs, on workers that are there, and moves no more."""
    world.until(world.is_active, WITHIN, "the app is active")
    before = sender.passing
    waited(lambda: sender.passing != before, "an event that is taken")
    id_ = sender.passing
    waited(lambda: _arrived(oracle, id_), "its row")
    steady = world.placed()
    since = time.monotonic()
    while time.monotonic() - since < 13:  # what runs moves onto a worker that has been there for ten seconds
        if (now := world.placed()) != steady or not world.is_active():
            steady, since = now, time.monotonic()
        time.sleep(0.5)


if __name__ == "__main__":
    main()
