"""Cron expressions with Quartz fields: second minute hour day-of-month month day-of-week [year], in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from croniter import CroniterBadCronError, CroniterBadDateError, croniter

from nadi.errors import error


def next_fire(text: str, after: int) -> int | None:
    """The first time of the expression after `after` (both ms since the epoch); None where there is none (a year that has passed).

    Raises:
        SiddhiAppCreationException: INVALID_CRON.

    >>> next_fire("*/5 * * * * ?", 1_000)
    5000
    """
    fields = _fields(text)
    start = datetime.fromtimestamp(after // 1000, UTC)
    try:
        found = croniter(fields, start, second_at_beginning=True).get_next(datetime)
    except CroniterBadDateError:
        return None
    return int(found.timestamp()) * 1000


@lru_cache(maxsize=256)
def _fields(text: str) -> str:
    parts = text.split()
    if len(parts) not in (6, 7):
        raise error("INVALID_CRON", text=text, reason=f"it has {len(parts)} fields")
    parts = ["*" if p == "?" else p for p in parts]
    parts[5] = re.sub(r"(?<![#\w])(\d)(?!\d)", lambda m: str((int(m[1]) + 6) % 7), parts[5])  # Quartz: 1 is Sunday
    # a list that starts anywhere: Quartz writes "0/5" for what cron calls "0-59/5"
    limits = ["59", "59", "23", "31", "12", "6", "2099"]
    parts = [re.sub(r"(?<![-\d])(\d+)/", rf"\1-{limit}/", p) for p, limit in zip(parts, limits)]
    fields = " ".join(parts)
    try:
        croniter(fields, datetime(2000, 1, 1, tzinfo=UTC), second_at_beginning=True)
    except (CroniterBadCronError, ValueError) as problem:
        raise error("INVALID_CRON", text=text, reason=str(problem)) from problem
    return fields
