"""Whether the inputs of an app keep messages for as long as its revisions go back: nothing can go on from a revision whose messages are gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from nadi.config import Persistence
from nadi.errors import NadiError, error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.contract import Connector
from nadi.io.faultlog import FAULTS
from nadi.io.retention import Kept, Retention, duration
from nadi.kernel.control import CONTROL
from nadi.pipeline.spec import AppSpec

AGAIN = 30.0  # seconds between two questions to an input that is away


def reach(persistence: Persistence) -> int:
    """How far back the revisions go that are made by themselves, ms; 0: none is.

    >>> reach(Persistence(enabled=True, interval=10, keep=3))
    1800000
    """
    return persistence.keep * persistence.interval * 60_000 if persistence.enabled else 0


def too_short(app: str, kept: Retention, needed: int) -> str:
    """The warning for a log that is kept for less than `needed` ms, "" for one that is not."""
    if kept.age >= needed:
        return ""
    age = f"about {duration(kept.age)}" if kept.estimated else duration(kept.age)
    wanted = duration(needed)
    return str(error("RETENTION_TOO_SHORT", app=app, log=kept.log, kept=age, setting=kept.setting, needed=wanted))


class RetentionCheck:
    """Asks the inputs of an app once, beside its start; those that are away are asked again until they tell, or `stop` is set."""

    def __init__(self, spec: AppSpec, persistence: Persistence, stop: threading.Event) -> None:
        self._spec = spec
        self._needed = reach(persistence)
        self._stop = stop
        self._found: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is known so far."""
        return self._found

    def begin(self) -> None:
        """Ask in a thread of its own; not at all where no revisions are made by themselves."""
        if self._needed:
            threading.Thread(target=self.ask, name=f"retention {self._spec.app}", daemon=True).start()

    def ask(self) -> None:
        """Ask until all have told."""
        app = self._spec.plan()
        left = [c for c in self._spec.sources(app) if c.stream not in (CONTROL, FAULTS)]
        while left:
            left = list(self._silent(left))
            if not left or self._stop.wait(AGAIN):
                return

    def _silent(self, sources: list[Connector]) -> Iterator[Connector]:
        """Those that have not told."""
        for source in sources:
            try:
                kept = self._asked(source)
            except ConnectionUnavailableException:
                yield source
            except NadiError:
                continue  # one that may not be asked; whatever else is wrong with it, the app meets it, too
            else:
                warning = too_short(self._spec.app, kept, self._needed) if kept is not None else ""
                if warning:
                    self._found = (*self._found, warning)

    def _asked(self, source: Connector) -> Retention | None:
        log = self._spec.open_log(source)
        try:
            return log.retention() if isinstance(log, Kept) else None
        finally:
            log.close()
