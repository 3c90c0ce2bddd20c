"""Finding N10: strangers do not fill a log with warnings, and what is left out of it is told."""

from __future__ import annotations

import logging

from nadi.metrics.linerate import AUDIT, LIBRARY, OF_ALL, OF_KIND, WITHIN, LineRate


def record(event: str, address: str = "10.0.0.1", level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord(AUDIT, level, "", 0, {"event": event, "address": address}, None, None)  # type: ignore[arg-type]


def kept(rate: LineRate, made: logging.LogRecord, times: int) -> int:
    return sum(rate.admit(made)[0] for _ in range(times))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_of_a_kind_some_lines_are_kept_in_a_minute_and_the_others_are_counted():
    clock = Clock()
    rate = LineRate(clock)
    assert kept(rate, record("login"), OF_KIND) == OF_KIND
    assert rate.admit(record("login")) == (
        False,
        [f"more lines are left out for a minute: 'login' of {AUDIT} from 10.0.0.1"],
    )
    assert rate.admit(record("login")) == (False, [])
    assert rate.admit(record("login", "10.0.0.2")) == (True, [])
    clock.now += WITHIN
    assert rate.admit(record("change")) == (True, [f"2 lines were left out: 'login' of {AUDIT} from 10.0.0.1"])
    assert rate.admit(record("login")) == (True, [])


def test_many_addresses_together_have_a_bound():
    rate = LineRate(Clock())
    assert sum(rate.admit(record("token", f"10.0.{n // 250}.{n % 250}"))[0] for n in range(5_000)) == OF_ALL


def test_what_is_said_of_lines_that_are_left_out_is_bounded_too():
    clock = Clock()
    rate = LineRate(clock)
    said = sum(len(rate.admit(record("token", f"10.0.{n // 250}.{n % 250}"))[1]) for n in range(5_000))
    clock.now += WITHIN
    assert said <= OF_ALL
    assert len(rate.admit(record("change"))[1]) <= OF_KIND


def test_what_strangers_cannot_cause_is_always_kept():
    rate = LineRate(Clock())
    assert kept(rate, record("change"), 1_000) == kept(rate, record("not permitted"), 1_000) == 1_000
    assert kept(rate, record("login", level=logging.INFO), 1_000) == 1_000
    assert kept(rate, logging.LogRecord("nadi.server", logging.WARNING, "", 0, "login", None, None), 1_000) == 1_000


def test_requests_that_are_no_http_are_counted_too():
    bad = logging.LogRecord(LIBRARY, logging.WARNING, "", 0, "Invalid HTTP request received.", None, None)
    assert kept(LineRate(Clock()), bad, 1_000) == OF_KIND
