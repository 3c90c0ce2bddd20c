"""Quartz fields."""

from datetime import UTC, datetime

import pytest

from nadi.errors import NadiError
from nadi.plan.cron import next_fire

_FRIDAY = 1_500_000_000_000  # 2017-07-14 02:40:00


def _date(ms: int | None) -> str:
    if ms is None:
        return "none"
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
        ("/20 * * * * ?", "2017-07-14 02:40:20"),
        ("0 0 0 LW 9 ?", "2017-09-29 00:00:00"),
        ("0 0 0 L-3 * ?", "2017-07-28 00:00:00"),
        ("0 0 0 L-2W * ?", "2017-07-28 00:00:00"),
        ("0 0 0 L-30 2-3 ?", "2018-03-01 00:00:00"),
        ("0 0 0 15W * ?", "2017-08-15 00:00:00"),
        ("0 0 0 1W 10 ?", "2017-10-02 00:00:00"),
        ("0 0 0 31W 9-10 ?", "2017-10-31 00:00:00"),
        ("0 0 0 ? * 6L", "2017-07-28 00:00:00"),
        ("0 0 0 ? * FRI#3", "2017-07-21 00:00:00"),
        ("0 0 0 ? * 7#5", "2017-07-29 00:00:00"),
        ("0 0 0 ? * L", "2017-07-15 00:00:00"),
        ("0 0 0 ? * */2", "2017-07-15 00:00:00"),
        ("0 0 0 ? * 2/2", "2017-07-17 00:00:00"),
        ("0 0 0 ? * 2-2", "2017-07-17 00:00:00"),
        ("0 0 0 ? * FRIDAY-MONDAY", "2017-07-15 00:00:00"),
        ("0 0 22-2/2 * * ?", "2017-07-14 22:00:00"),
        ("50-10/15 * * * * ?", "2017-07-14 02:40:05"),
        ("0 0 0 29 2 ?", "2020-02-29 00:00:00"),
        ("0 0 0 29 2 ? 2021-2030/2", "none"),
    ],
)
def test_a_quartz_expression_fires_when_quartz_says(text: str, expected: str) -> None:
    assert _date(next_fire(text, _FRIDAY)) == expected


def test_an_expression_of_the_past_never_fires() -> None:
    assert next_fire("0 0 0 1 1 ? 2001", _FRIDAY) is None


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *",
        "x * * * * ?",
        "",
        "60 * * * * ?",
        "0/60 * * * * ?",
        "0 0 0 * * *",
        "0 0 0 ? * ?",
        "? 0 0 1 * ?",
        "0 0 0 L-31 * ?",
        "0 0 0 15,L * ?",
        "0 0 0 1,15W * ?",
        "0 0 0 ? * 0",
        "0 0 0 ? * 8",
        "0 0 0 ? * 6#6",
        "0 0 0 ? * 2,6#3",
        "0 0 0 ? * MON/2",
        "0 0 0 ? * FRI-2",
        "0 0 0 ? * 3C",
        "0 0 0 1 1 ? 2030-2020",
        "1,, * * * * ?",
    ],
)
def test_what_is_no_cron_expression_is_named(text: str) -> None:
    with pytest.raises(NadiError) as caught:
        next_fire(text, 0)
    assert caught.value.condition == "INVALID_CRON"
