"""How it is with each source and sink of an app: what the process that makes cuts and the hosts have noted, put together for the supervisor."""

from __future__ import annotations

import time

from nadi.io.circuits import notes
from nadi.metrics import Circuit
from nadi.pipeline.cutting.cutmaker import SourceStatus
from nadi.pipeline.spec import AppSpec


class Circuits:
    """Those of an app."""

    def __init__(self, spec: AppSpec) -> None:
        app = spec.plan()
        self._state = spec.place.state
        self._sources = spec.load_connectors().connectors(app, "source")
        self._sinks = spec.load_connectors().connectors(app, "sink")

    def look(self, status: SourceStatus | None) -> tuple[Circuit, ...]:
        """As it is now. An input that is away is asked all the time: its circuit is half-open."""
        return (*self._of_sources(status), *self._of_sinks())

    def _of_sources(self, status: SourceStatus | None) -> list[Circuit]:
        found = []
        for source in self._sources:
            name = f"source {source.type} of {source.stream}"
            since = None if status is None else status.since.get(source.ordinal)
            if status is None or since is None:
                found.append(Circuit(name))
            else:
                found.append(Circuit(name, "half-open", since, 0, status.away.get(source.stream, "")))
        return found

    def _of_sinks(self) -> list[Circuit]:
        now = time.time_ns() // 1_000_000
        noted = notes(self._state)
        found = []
        for sink in self._sinks:
            name, note = f"sink {sink.type} of {sink.stream}", noted.get(sink.ordinal)
            state = Circuit(name)
            if note is not None:
                state = Circuit(name, note.state(now), note.since, note.attempts, note.reason)
            found.append(state)
        return found
