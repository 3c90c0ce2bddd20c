"""The windows at work (semantics/windows.md): each takes chunks of C events and emits chunks of C, X and R.

Start with `contract.WindowProcessor`; `sliding.TimeWindow` is the window `time`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nadi.errors import error
from nadi.kernel.rows.compile import Searchable
from nadi.kernel.rows.events import Chunk
from nadi.kernel.rows.flow import Flow
from nadi.kernel.rows.windows.batches import BatchWindow, LengthBatchWindow
from nadi.kernel.rows.windows.contract import Setup, WindowProcessor
from nadi.kernel.rows.windows.cron import CronWindow
from nadi.kernel.rows.windows.expression import ExpressionBatchWindow, ExpressionWindow
from nadi.kernel.rows.windows.externalbatch import ExternalTimeBatchWindow
from nadi.kernel.rows.windows.frequency import FrequentWindow, LossyFrequentWindow
from nadi.kernel.rows.windows.session import SessionWindow
from nadi.kernel.rows.windows.sliding import DelayWindow, ExternalTimeWindow, LengthWindow, TimeWindow
from nadi.kernel.rows.windows.sort import SortWindow
from nadi.kernel.rows.windows.timebatch import TimeBatchWindow
from nadi.kernel.rows.windows.unique import (
    UniqueEverWindow,
    UniqueFirstWindow,
    UniqueLengthWindow,
    UniqueTimeWindow,
    first_length_batch,
    first_time_batch,
    unique_external_time_batch,
    unique_length_batch,
    unique_time_batch,
    unique_time_length_batch,
)
from nadi.plan.nodes import Expr, Schema, WindowCall

__all__ = ["WINDOWS", "Setup", "WindowProcessor", "make_window"]

WINDOWS: dict[str, Callable[[Setup], WindowProcessor]] = {
    "batch": BatchWindow,
    "cron": CronWindow,
    "delay": DelayWindow,
    "expression": ExpressionWindow,
    "expressionBatch": ExpressionBatchWindow,
    "externalTime": ExternalTimeWindow,
    "externalTimeBatch": ExternalTimeBatchWindow,
    "frequent": FrequentWindow,
    "length": LengthWindow,
    "lengthBatch": LengthBatchWindow,
    "lossyFrequent": LossyFrequentWindow,
    "session": SessionWindow,
    "sort": SortWindow,
    "time": TimeWindow,
    "timeBatch": TimeBatchWindow,
    "timeLength": TimeWindow,
    "unique:ever": UniqueEverWindow,
    "unique:externalTimeBatch": unique_external_time_batch,
    "unique:first": UniqueFirstWindow,
    "unique:firstLengthBatch": first_length_batch,
    "unique:firstTimeBatch": first_time_batch,
    "unique:length": UniqueLengthWindow,
    "unique:lengthBatch": unique_length_batch,
    "unique:time": UniqueTimeWindow,
    "unique:timeBatch": unique_time_batch,
    "unique:timeLengthBatch": unique_time_length_batch,
}
"""Windows by registered name."""


def make_window(
    call: WindowCall,
    flow: Flow,
    emit: Callable[[Chunk], None],
    schema: Schema,
    keeps_expired: bool,
    searched: bool,
    tables: Mapping[str, Searchable],
    shown: tuple[Expr, ...] | None = None,
) -> WindowProcessor:
    """The window of a call; `schema` is that of the rows that enter it. See `Setup` for `keeps_expired`, `searched` and `shown`.

    Raises:
        NOT_SUPPORTED: nothing here does what the window's signature promises.
    """
    made = WINDOWS.get(call.name)
    if made is None:
        what = f"the window '{call.name}'"
        raise error("NOT_SUPPORTED", what=what, alternative=f"windows that run are {', '.join(WINDOWS)}")
    return made(Setup(call, flow, emit, schema, keeps_expired, searched, tables, shown))
