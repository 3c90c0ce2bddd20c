"""`@app:playback(idle.time, increment)` (semantics/time.md#idle-time): when nothing arrives for a while, event time goes on by itself."""

from __future__ import annotations

from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.state import Value
from nadi.plan.nodes import Playback


class Idle:
    """After `idle` ms of the arrival clock without an event, event time jumps by `increment` ms, again and again. It begins with the first event."""

    def __init__(self, playback: Playback, flow: Flow) -> None:
        self._flow = flow
        self._idle = playback.idle or 0
        self._increment = playback.increment or 0
        self._state = flow.store.element("app/idle", {"heard": Value})
        self._timer = flow.arrivals.timer("app/idle", self._tick)

    def heard(self) -> None:
        """An event came."""
        cell: Value = self._state.at("")["heard"]
        begun = cell.get() is not None
        cell.set(self._flow.arrival_now)
        if not begun:
            self._timer.at(self._flow.arrival_now + self._idle)

    def kept(self) -> tuple[int | None, tuple[int, ...]]:
        """When an event was heard last, and what is waited for."""
        return self._state.at("")["heard"].get(), self._timer.waiting("")

    def put(self, kept: tuple[int | None, tuple[int, ...]]) -> None:
        """Go on from there, whatever was loaded meanwhile."""
        heard, due = kept
        self._state.at("")["heard"].set(heard)
        self._timer.drop("")
        for each in due:
            self._timer.at(each)

    def _tick(self, due: int) -> None:
        silent_until = self._state.at("")["heard"].get() + self._idle
        if silent_until > due:
            self._timer.at(silent_until)
            return
        self._timer.at(due + self._idle)
        self._flow.timers.jump_to(self._flow.now + self._increment)
