"""The sliding windows, chunk by chunk (semantics/windows.md#sliding-windows)."""

import pytest
from windowrig import Rig

from nadi.errors import NadiError


def test_a_full_length_window_lets_the_oldest_go_before_the_new_one() -> None:
    rig = Rig("length", 2)
    for ts, v in ((10, 1), (20, 2), (30, 3)):
        rig.send(ts, v)
    assert rig.take() == ["C1@10", "C2@20", "X1@30 C3@30"]
    assert rig.content() == [2, 3]


def test_a_chunk_stays_one_chunk_in_a_length_window() -> None:
    rig = Rig("length", 2)
    rig.send(10, 1, 2, 3)
    assert rig.take() == ["C1@10 C2@10 X1@10 C3@10"]


def test_a_length_window_of_nothing_lets_each_event_go_at_once() -> None:
    rig = Rig("length", 0)
    rig.send(10, 1)
    assert rig.take() == ["C1@10 X1@10 R"]


def test_a_time_window_in_playback_expires_at_the_new_time() -> None:
    """Observed: time(1 sec), events 1000, 1400, 2000, 5500."""
    rig = Rig("time", 1000)
    for ts, v in ((1000, 1), (1400, 2), (2000, 3), (5500, 4)):
        rig.send(ts, v)
    assert rig.take() == ["C1@1000", "C2@1400", "X1@2000", "C3@2000", "X2@5500 X3@5500", "C4@5500"]


def test_a_live_time_window_expires_at_the_due_time() -> None:
    rig = Rig("time", 1000, live=True)
    rig.send(1000, 1)
    rig.send(1400, 2)
    rig.clock(9000)
    assert rig.out == [(1000, "C1@1000"), (1400, "C2@1400"), (2000, "X1@2000"), (2400, "X2@2400")]
    assert rig.flow.timers.next_due() is None


def test_a_time_window_sets_one_timer_per_distinct_increasing_timestamp() -> None:
    rig = Rig("time", 1000)
    rig.send(1000, 1, 2)
    rig.send(900, 3)
    rig.send(1000, 4)
    rig.send(1001, 5)
    assert rig.flow.store.size()["q/window/timer"] == 2


def test_a_time_and_length_window_keeps_both_limits() -> None:
    rig = Rig("timeLength", 1000, 2)
    for ts, v in ((0, 1), (100, 2), (200, 3), (1150, 4)):
        rig.send(ts, v)
    assert rig.take() == ["C1@0", "C2@100", "X1@200 C3@200", "X2@1150", "C4@1150"]
    assert rig.content() == [3, 4]


def test_an_external_time_window_stamps_what_leaves_with_the_new_time() -> None:
    rig = Rig("externalTime", "at", 1000)
    for v, at in ((1, 1000), (2, 1500), (3, 2000), (4, 1200), (5, 2500)):
        rig.send(7, v, at=at)
    # the fourth is older than the clock: it moves nothing back, and the third in front of it holds it
    assert rig.take() == ["C1@7", "C2@7", "X1@2000 C3@7", "C4@7", "X2@2500 C5@7"]
    assert rig.content() == [3, 4, 5]


def test_an_external_time_that_is_null_or_no_long_is_an_error() -> None:
    rig = Rig("externalTime", "at", 1000)
    with pytest.raises(NadiError, match="NULL_VALUE"):
        rig.send(7, 1, at=None)  # type: ignore[arg-type]
    with pytest.raises(NadiError, match="CLASS_CAST"):
        rig.send(7, 1, at="soon")  # type: ignore[arg-type]


def test_a_delay_window_releases_events_as_current_and_stamps_them() -> None:
    rig = Rig("delay", 1000)
    rig.send(1000, 1)
    rig.send(1600, 2)
    assert rig.content() == [1, 2]
    rig.clock(2000)
    rig.send(5000, 3)
    assert rig.take() == ["C1@2000", "C2@5000"]


def test_windows_keep_partition_keys_apart() -> None:
    rig = Rig("length", 1)
    for key, v in (("a", 1), ("b", 2), ("a", 3)):
        rig.flow.key = key
        rig.send(10, v)
    assert rig.take() == ["C1@10", "C2@10", "X1@10 C3@10"]
    assert rig.content() == [3]
