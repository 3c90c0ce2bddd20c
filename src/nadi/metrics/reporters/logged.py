"""A reporter to the log of the node: a line for each metric."""

from __future__ import annotations

import structlog

from nadi.metrics.registry import Snapshot
from nadi.metrics.reporters.fields import fields_of


class LogReporter:
    """Logs as `name`."""

    def __init__(self, name: str) -> None:
        self._log = structlog.get_logger(name).bind(logger=name)

    def report(self, snapshot: Snapshot) -> None:
        """Log all of it."""
        for name, value in snapshot.values:
            self._log.info("metric", metric=name.full, **fields_of(value))

    def close(self) -> None:
        """There is nothing to close."""
