from __future__ import annotations

import pytest

from nadi.errors import NadiError, error
from nadi.io.retry import Gate, Policy, failed, persist, succeeded, unavailable


def away(reason: str) -> NadiError:
    return error("CONNECTION_UNAVAILABLE", connector="it", reason=reason)


def test_delays_double_up_to_the_longest() -> None:
    assert [Policy(50, 300).delay(n) for n in (1, 2, 3, 4, 100)] == [50, 100, 200, 300, 300]


def test_an_action_is_repeated_until_it_succeeds_and_its_state_is_visible_meanwhile() -> None:
    seen: list[tuple[int, str]] = []
    waits: list[float] = []

    def action() -> str:
        seen.extend((s.attempts, s.last_error) for s in unavailable() if s.connector == "it")
        if len(waits) < 3:
            raise away(f"no {len(waits)}")
        return "done"

    assert persist("it", action, 10_000, Policy(10, 20), waits.append) == "done"
    assert waits == [0.01, 0.02, 0.02]
    assert seen == [
        (1, "it is not available: no 0"),
        (2, "it is not available: no 1"),
        (3, "it is not available: no 2"),
    ]
    assert not [s for s in unavailable() if s.connector == "it"]


def test_an_action_is_given_up_when_its_time_is_over() -> None:
    def action() -> None:
        raise away("no")

    with pytest.raises(NadiError, match="no"):
        persist("it", action, 0)
    succeeded("it")


def test_other_errors_are_not_repeated() -> None:
    waits: list[float] = []

    def action() -> None:
        raise error("REFUSED", connector="it", reason="no")

    with pytest.raises(NadiError, match="refused"):
        persist("it", action, 10_000, wait=waits.append)
    assert waits == []


def test_the_first_failure_says_since_when() -> None:
    first = failed("other", "a")
    second = failed("other", "b")
    assert (second.since, second.attempts, second.last_error) == (first.since, 2, "b")
    succeeded("other")


def test_a_gate_stays_shut_for_the_back_off() -> None:
    gate = Gate("door", Policy(60_000, 60_000))
    assert gate.remaining() == 0
    gate.failed("locked")
    assert 59_000 < gate.remaining() <= 60_000
    assert gate.last_error == "locked"
    gate.succeeded()
    assert gate.remaining() == 0
