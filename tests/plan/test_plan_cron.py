"""Quartz fields."""

from datetime import UTC, datetime

import pytest

from nadi.errors import NadiError
from nadi.plan.cron import next_fire

_FRIDAY = 1_500_000_000_000  # 2017-07-14 02:40:00


def _date(ms: int | None) -> str:
    assert ms is not None
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/5 * * * * ?", "2017-07-14 02:40:05"),
        ("0/5 * * * * ?", "2017-07-14 02:40:05"),
        ("0 0 12 ? * MON-FRI", "2017-07-14 12:00:00"),
        ("0 15 10 L * ?", "2017-07-31 10:15:00"),
        ("0 0 0 ? * 2#1", "2017-08-07 00:00:00"),
        ("0 0 0 ? * 1", "2017-07-16 00:00:00"),
        ("10-40/10 * * * * ?", "2017-07-14 02:40:10"),
        ("0 0 0 1 1 ? 2030", "2030-01-01 00:00:00"),
    ],
)
def test_a_quartz_expression_fires_when_quartz_says(text: str, expected: str) -> None:
    assert _date(next_fire(text, _FRIDAY)) == expected


def test_an_expression_of_the_past_never_fires() -> None:
    assert next_fire("0 0 0 1 1 ? 2001", _FRIDAY) is None


@pytest.mark.parametrize("text", ["* * * * *", "x * * * * ?", ""])
def test_what_is_no_cron_expression_is_named(text: str) -> None:
    with pytest.raises(NadiError) as caught:
        next_fire(text, 0)
    assert caught.value.condition == "INVALID_CRON"
