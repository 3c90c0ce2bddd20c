"""The node as the active one of a pair has it: apps run with the token of its lease as their owner's epoch, and all of them end when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Protocol

import structlog

from nadi.errors import NadiError, error
from nadi.metrics import AppProgress
from nadi.pipeline.node import AppText

GENTLE = 10.0  # seconds that apps have to end by themselves where nobody else may go on yet
AT_A_TIME = 64  # apps that are ended: none waits for another one
GONE = ("APP_NOT_ON_NODE", "NODE_STOPPING")

log = structlog.get_logger("nadi.server")


class Node(Protocol):
    """What runs apps: `nadi.pipeline.run.Node`."""

    def add(self, text: AppText, wanted: Callable[[], bool]) -> AppProgress: ...
    def remove(self, name: str, revision: bool = True) -> object: ...
    def break_off(self) -> None: ...


class OwnedHost:
    """Implements `nadi.server.deployer.Host` for one term of a node as the active one."""

    def __init__(
        self, node: Node, token: int, entered: Callable[[AppText], object], name_of: Callable[[AppText], str]
    ) -> None:
        """`entered` hears of each text before it runs; `name_of` gives the name of its app."""
        self._node = node
        self._token = token
        self._entered = entered
        self._name_of = name_of
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._over = False

    def add(self, text: AppText) -> AppProgress:
        """As the node does. Errors: NOT_ACTIVE, where the term has ended."""
        name = self._name_of(text)
        with self._lock:
            if self._over:
                raise error("NOT_ACTIVE", reason="its term has ended")
            self._names.add(name)
        owned = replace(text, owner=self._token)
        self._entered(owned)
        return self._node.add(owned, lambda: not self._over)

    def remove(self, name: str, revision: bool = True) -> object:
        found = self._node.remove(name, revision)
        with self._lock:
            self._names.discard(name)
        return found

    def end(self, gentle: bool) -> None:
        """Take no app any more, and end those that are there: `gentle`, between two batches; otherwise what is being done is broken off. Nothing of them runs
        when this returns."""
        with self._lock:
            self._over = True
            names = sorted(self._names)
        if not names:
            return
        with ThreadPoolExecutor(min(AT_A_TIME, len(names)), "end") as ending:
            if not gentle:
                self._node.break_off()
            removals = [ending.submit(self._remove, name) for name in names]
            if wait(removals, GENTLE if gentle else 0.0).not_done:
                log.warning("apps did not end in time: all processes of apps are ended")
                self._node.break_off()
        for removal in removals:
            removal.result()
        with self._lock:
            self._names.difference_update(names)

    def _remove(self, name: str) -> None:
        try:
            self._node.remove(name, revision=False)
        except NadiError as reason:
            if reason.condition not in GONE:
                raise
