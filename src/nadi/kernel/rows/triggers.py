"""Triggers (semantics/time.md#triggers): streams that time feeds. They follow the arrival clock, also in playback."""

from __future__ import annotations

from nadi.kernel.rows.events import CURRENT, Event
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.junctions import Junction
from nadi.plan.cron import next_fire
from nadi.plan.nodes import Trigger


class TriggerRuntime:
    """Sends `(now,)` to the stream of its name: at the start, every so often at a fixed rate, or as a cron expression says."""

    def __init__(self, trigger: Trigger, flow: Flow, junction: Junction) -> None:
        self.trigger = trigger
        self._flow = flow
        self._junction = junction
        if not trigger.start:
            self._timer = flow.arrivals.timer(trigger.id, self._fire)

    def begin(self) -> None:
        """At the start of the app."""
        now = self._flow.arrival_now
        if self.trigger.start:
            self._send(now)
        else:
            self._wait(now)

    def end(self) -> None:
        """At a stop of the app: nothing waits any more."""
        if not self.trigger.start:
            self._timer.drop("")

    def _wait(self, since: int) -> None:
        due = since + self.trigger.every if self.trigger.every else next_fire(self.trigger.cron or "", since)
        if due is not None:
            self._timer.at(due)

    def _fire(self, due: int) -> None:
        self._wait(due)
        self._send(self._flow.arrival_now)

    def _send(self, now: int) -> None:
        self._junction.send([Event(CURRENT, now, (now,))])
