"""What a worker logs of its apps: the lines of their log sinks, changes of their states, warnings, inputs and sinks that cannot be reached."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import structlog

from nadi.metrics import AppProgress

log = structlog.get_logger("nadi.app")


@dataclass(frozen=True, slots=True)
class _Known:
    """What was logged of an app last."""

    state: str = ""
    error: str = ""
    warnings: frozenset[str] = frozenset()
    away: frozenset[str] = frozenset()


class AppLog:
    """See the module's text. `note` may be called from any thread."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def note(self, progress: AppProgress) -> None:
        """Log what is new in a snapshot. A line of a log sink has the batch that wrote it, all else the last one that was done then."""
        of_app = log.bind(app=progress.app, group=progress.app)
        about = of_app.bind(batch=progress.batches)
        for line in progress.said:
            (about if line.cut is None else of_app.bind(batch=line.cut)).info(line.text)
        away = dict(progress.away) | {c.connector: c.reason for c in progress.circuits if c.state != "closed"}
        now = _Known(progress.state, progress.last_error, frozenset(progress.warnings), frozenset(away))
        with self._lock:
            before = self._known.get(progress.app, _Known())
            self._known[progress.app] = now
        for warning in progress.warnings:
            if warning not in before.warnings:
                about.warning(warning)
        for name in sorted(now.away - before.away):
            about.warning("cannot be reached", what=name, reason=away[name])
        for name in sorted(before.away - now.away):
            about.info("can be reached again", what=name)
        if now.state != before.state:
            failed = now.state in ("waiting", "failed")
            more = {"reason": progress.last_error} if failed else {}
            (about.warning if failed else about.info)(f"app {now.state}", **more)
