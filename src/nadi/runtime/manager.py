"""Several apps in one process that share a clock and a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nadi.runtime.broker import Broker
from nadi.runtime.runtime import Runtime

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.lang.refs import Refs


class RuntimeManager:
    """Makes apps and lets time pass for all of them: timers fire in the order of their due times, whichever app they are of."""

    def __init__(self, now: int = 0, registry: Registry | None = None) -> None:
        self.now = now
        self.broker = Broker()
        self.runtimes: list[Runtime] = []
        self.properties: dict[str, str] = {}  # of the node, for apps that are made from now on, as are refs
        self.refs: Refs | None = None
        self._registry = registry

    def create(self, text: str) -> Runtime:
        """A new app, at the shared clock."""
        made = Runtime(
            text,
            registry=self._registry,
            broker=self.broker,
            now=self.now,
            properties=self.properties,
            refs=self.refs,
            clock=lambda: self.now,
        )
        self.runtimes.append(made)
        return made

    def advance(self, ms: int) -> None:
        """Let time pass."""
        until = self.now + ms
        while True:
            due = min((d for r in self.runtimes if (d := r.next_timer()) is not None), default=None)
            if due is None or due > until:
                break
            self._set(max(due, self.now))
        self._set(until)

    def _set(self, now: int) -> None:
        self.now = now
        for runtime in self.runtimes:
            runtime.advance_to(now)

    def shutdown(self) -> None:
        """Stop all apps."""
        for runtime in self.runtimes:
            runtime.shutdown()
