"""`throttler:timeBatch` and `throttler:emitOnStateChange`, chunk by chunk (semantics/windows.md#throttling)."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.runtime import Runtime

S = "define stream S (k string, v int, b bool); "
Got = list[tuple[int, list[Any], list[Any]]]


def _runtime(app: str) -> tuple[Runtime, Got]:
    """An app, and what its query `q` gives: the clock, current rows, expired rows with their timestamps."""
    runtime, found = Runtime(S + app), []
    runtime.on_query(
        "q",
        lambda _ts, current, expired: found.append(
            (runtime.now, [e.row for e in current or ()], [(e.ts, *e.row) for e in expired or ()])
        ),
    )
    runtime.start()
    return runtime, found


BATCH = "@info(name='q') from S#throttler:timeBatch(100{}) select v, expiryTimeStamp as x insert all events into Out;"


def _sent(runtime: Runtime, *events: tuple[int, int]) -> None:
    for at, v in events:
        runtime.advance_to(at)
        runtime.send("S", [(at, ("a", v, True))])


def test_events_pass_with_the_end_of_their_period_and_expire_there_together() -> None:
    runtime, found = _runtime(BATCH.format(""))
    _sent(runtime, (10, 1), (60, 2))
    runtime.advance_to(110)
    assert found == [(10, [(1, 110)], []), (60, [(2, 110)], []), (110, [], [(110, 1, 110), (110, 2, 110)])]


def test_periods_keep_their_phase_over_times_without_events() -> None:
    runtime, found = _runtime(BATCH.format(""))
    _sent(runtime, (10, 1), (310, 2), (350, 3), (477, 4))
    assert [current for _at, current, _expired in found if current] == [[(1, 110)], [(2, 410)], [(3, 410)], [(4, 510)]]
    assert [expired for _at, _current, expired in found if expired] == [[(110, 1, 110)], [(410, 2, 410), (410, 3, 410)]]


@pytest.mark.parametrize(("start", "end"), [(0, 100), (7, 107), (50, 150), (130, 230)])
def test_a_start_says_the_phase(start: int, end: int) -> None:
    runtime, found = _runtime(BATCH.format(f", {start}"))
    _sent(runtime, (60 if end > 100 else 10, 1))
    assert found[0][1] == [(1, end)]


def test_an_event_at_the_end_of_a_period_belongs_to_the_next_one() -> None:
    runtime, found = _runtime(BATCH.format(""))
    _sent(runtime, (0, 1), (100, 2))
    assert found == [(0, [(1, 100)], []), (100, [], [(100, 1, 100)]), (100, [(2, 200)], [])]


def test_a_jump_of_the_clock_in_playback_ends_one_period() -> None:
    runtime = Runtime("@app:playback " + S + BATCH.format(""))
    found: list[Any] = []
    runtime.on_stream("Out", lambda chunk: found.append([e.row for e in chunk]))
    runtime.start()
    for ts in (1000, 1050, 9_999_999_999_990):
        runtime.send("S", [(ts, ("a", 1, True))])
    assert found == [[(1, 1100)], [(1, 1100)], [(1, 1100), (1, 1100)], [(1, 10_000_000_000_000)]]


def test_counts_begin_anew_with_each_period_and_keys_have_periods_of_their_own() -> None:
    app = "from S#throttler:timeBatch(100) select k, count() >= 2 as many group by k insert all events into Out;"
    for text in (app, f"partition with (k of S) begin {app} end;"):
        runtime = Runtime(S + text)
        found: list[Any] = []
        runtime.on_stream("Out", lambda chunk, found=found: found.extend(e.row for e in chunk))
        runtime.start()
        for at in (0, 10, 100):
            runtime.advance_to(at)
            runtime.send("S", [(at, ("a", 1, True))])
        assert found == [("a", False), ("a", True), ("a", False), ("a", False)]


def test_only_changes_and_what_is_throttled_is_told() -> None:
    runtime, found = _runtime(
        "@info(name='q') from S#throttler:emitOnStateChange(k, b) select k, b, v insert into Out;"
    )
    given = [
        ("a", False),
        ("a", False),
        ("b", True),
        ("a", True),
        ("a", True),
        ("b", False),
        ("a", False),
        ("a", False),
    ]
    for n, (key, throttled) in enumerate([*given, ("a", None), (None, False)]):
        runtime.send("S", [(None, (key, n, throttled))])
    assert [row[2] for _at, current, _expired in found for row in current] == [0, 2, 3, 4, 5, 6, 9]


@pytest.mark.parametrize(
    "step",
    [
        "timeBatch(v)",
        "timeBatch(0)",
        "timeBatch()",
        "timeBatch(10, v)",
        "emitOnStateChange(v, b)",
        "emitOnStateChange(k)",
    ],
)
def test_a_throttler_that_cannot_be_is_refused(step: str) -> None:
    with pytest.raises(NadiError):
        Runtime(f"{S} from S#throttler:{step} select k insert into Out;")
