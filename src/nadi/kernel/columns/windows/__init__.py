"""Windows that events leave in another order than they came: sorted ones, unique ones, sessions.

Start with `contract.Held`; `unique` is the simplest.
"""

from __future__ import annotations

from collections.abc import Callable

from nadi.kernel.columns.contract import Input
from nadi.kernel.columns.windows.contract import Held, Holding
from nadi.kernel.columns.windows.keyedsessions import KeyedSessions
from nadi.kernel.columns.windows.latesessions import LateSessions
from nadi.kernel.columns.windows.sessions import Sessions
from nadi.kernel.columns.windows.sorting import Sorted
from nadi.kernel.columns.windows.unique import Unique
from nadi.plan.nodes import Const, WindowCall


def _sessions(window: WindowCall, given: Input, holding: Holding) -> Held:
    latency = window.args[2] if len(window.args) > 2 else None
    if isinstance(latency, Const) and latency.value:
        return LateSessions(window, given, holding)
    return Sessions(window, given, holding) if given.key is None else KeyedSessions(window, given, holding)


HELD: dict[str, Callable[[WindowCall, Input, Holding], Held]] = {
    "session": _sessions,
    "sort": Sorted,
    "unique:ever": Unique,
    "unique:first": Unique,
    "unique:length": Unique,
    "unique:time": Unique,
}
"""By window: made of its call, what the query reads, and what it holds of an event; see `contract`."""

__all__ = ["HELD", "Holding"]
