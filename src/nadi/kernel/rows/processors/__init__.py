"""The stream processors at work: like windows they keep events and set timers, like stream functions there may be several in a query.

Start with `contract.Processor`; `deduplicate` is the simplest.
"""

from __future__ import annotations

from collections.abc import Callable

from nadi.kernel.rows.processors.contract import Processor, Setup
from nadi.kernel.rows.processors.deduplicate import Deduplicate
from nadi.kernel.rows.processors.slack import adaptive_slack, fixed_slack
from nadi.kernel.rows.processors.throttle import StateChange, TimeBatch

__all__ = ["PROCESSORS", "Processor", "Setup"]

PROCESSORS: dict[str, Callable[[Setup], Processor]] = {
    "reorder:akslack": adaptive_slack,
    "reorder:kslack": fixed_slack,
    "throttler:emitOnStateChange": StateChange,
    "throttler:timeBatch": TimeBatch,
    "unique:deduplicate": Deduplicate,
}
"""Stream processors by registered name."""
