"""Revisions that are asked for, one each round, while the pair is struck. What the logs let go of goes by rounds, and by no clock.

The cut log reaches back to the oldest of `haworld.KEPT` revisions, and the oracle takes what is new in it at the end of each round. Fewer than that are made
in between: the one of the round, the one before where it is late, and at each node one that nobody has answered, as its processes died. The first one is made
before the senders begin. So however slow the machine is, no cut goes that the oracle has not taken.
"""

from __future__ import annotations

import threading
from collections import Counter

import httpx
from haapps import NAME
from haoracle import cuts_of
from haworld import PairWorld
from pairnodes import PairNode

from nadi.pipeline.revision.revisions import KEPT_BACK


class Asking:
    """Asks for revisions over REST; what became of each question is counted. Used by one thread."""

    def __init__(self, world: PairWorld) -> None:
        self._world = world
        self._thread: threading.Thread | None = None
        self.outcomes: Counter[str] = Counter()

    def ask(self, number: int) -> None:
        """Ask a node, by turns. Returns at once; while an answer is awaited there is no other question."""
        if self._thread is None or not self._thread.is_alive():
            node = self._world.nodes[number % len(self._world.nodes)]
            self._thread = threading.Thread(target=self._made, args=(node,), name="revision", daemon=True)
            self._thread.start()

    def made(self) -> bool:
        """Ask the active node, and wait for the answer. Whether there is a new one."""
        return self._made(self._world.active())

    def wrong(self) -> list[str]:
        """Each revision can be read, and the cut log of each node reaches back to the oldest one. Errors: those of AWAY, httpx.HTTPError."""
        logs = {
            node.id: min(cuts_of(node), default=0) for node in self._world.nodes
        }  # first: the oldest one only gets newer
        answer = self._world.active().ask("GET", f"/siddhi-apps/{NAME}/revisions")
        revisions = answer.raise_for_status().json()
        found = [
            f"revision {one['revision']} cannot be read: {one['damaged']}" for one in revisions if "damaged" in one
        ]
        return found or too_short(logs, revisions[0]["cut"])

    def _made(self, node: PairNode) -> bool:
        try:
            status = node.ask("POST", f"/siddhi-apps/{NAME}/backup").status_code
        except httpx.HTTPError:
            self.outcomes["no answer"] += 1
            return False
        self.outcomes["made" if status == 201 else f"answer {status}"] += 1
        return status == 201


def too_short(logs: dict[str, int], oldest: int) -> list[str]:
    """Nodes whose cut log (its first cut) does not reach back to the cut of the oldest revision, and the one before.

    >>> too_short({"node-1": 6, "node-2": 5}, 7)
    []
    >>> too_short({"node-1": 6, "node-2": 7}, 7)
    ['node-2: its cut log begins with cut 7, and the oldest revision is of cut 7']
    """
    return [
        f"{node}: its cut log begins with cut {first}, and the oldest revision is of cut {oldest}"
        for node, first in logs.items()
        if first > max(0, oldest - KEPT_BACK)
    ]
