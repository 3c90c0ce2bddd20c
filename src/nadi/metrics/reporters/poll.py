"""Reporters that tell of all metrics every so many seconds, each in a thread of its own: one that hangs holds up nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import structlog

from nadi.metrics.filters import Filter
from nadi.metrics.registry import Snapshot

ENDS_WITHIN = 5.0  # seconds that a reporter which is at work is waited for

log = structlog.get_logger("nadi.metrics")


class Reporter(Protocol):
    """Takes snapshots. Whatever it raises is noted once, until it goes on."""

    def report(self, snapshot: Snapshot) -> None: ...
    def close(self) -> None: ...


class Polling:
    """One reporter at work, from its making to `close`. `collect` makes a snapshot, `period` is in seconds."""

    def __init__(
        self, name: str, reporter: Reporter, wanted: Filter, period: float, collect: Callable[[], Snapshot]
    ) -> None:
        self._name, self._reporter, self._wanted = name, reporter, wanted
        self._period, self._collect = period, collect
        self._over = threading.Event()
        self._failed = ""
        self._thread = threading.Thread(target=self._run, name=f"metrics {name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Tell once more, and end."""
        self._over.set()
        self._thread.join(ENDS_WITHIN)

    def _run(self) -> None:
        while not self._over.wait(self._period):
            self._report()
        self._report()
        with suppress(Exception):  # nobody is left to hear of it
            self._reporter.close()

    def _report(self) -> None:
        try:
            self._reporter.report(self._collect().matching(self._wanted))
        except Exception as reason:  # whatever it is, the apps go on
            if self._failed != str(reason):
                log.warning("metrics are not reported", reporter=self._name, reason=str(reason))
            self._failed = str(reason)
            return
        if self._failed:
            log.info("metrics are reported again", reporter=self._name)
            self._failed = ""
