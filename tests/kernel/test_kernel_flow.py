"""The flow: timers, their order, both clocks, and texts that no other call gets (semantics/time.md)."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.kernel.rows import flow as flow_module
from nadi.kernel.rows.flow import Flow
from nadi.runtime import Runtime


def flow(playback: bool = False) -> Flow:
    return Flow(len, playback=playback, seed="app/0")


def _recorder(at: Flow, name: str, woken: list[tuple[str, int, int, str, int]]):  # type: ignore[no-untyped-def]
    def record(due: int) -> None:
        woken.append((name, due, at.now, at.key, at.group))

    return record


def test_a_live_clock_fires_timers_by_due_time_then_by_element_each_at_its_time() -> None:
    at, woken = flow(), []
    first = at.timers.timer("first", _recorder(at, "first", woken))
    second = at.timers.timer("second", _recorder(at, "second", woken))
    second.at(10)
    second.at(20)
    first.at(20)
    at.timers.run_until(15)
    assert (at.now, at.timers.next_due()) == (15, 20)
    at.timers.run_until(30)
    assert woken == [("second", 10, 10, "", 0), ("first", 20, 20, "", 0), ("second", 20, 20, "", 0)]


def test_a_jump_runs_each_element_to_its_end_at_the_new_time() -> None:
    at, woken = flow(playback=True), []
    first = at.timers.timer("first", _recorder(at, "first", woken))
    second = at.timers.timer("second", _recorder(at, "second", woken))
    for due in (10, 30):
        second.at(due)
    first.at(20)
    at.timers.jump_to(40)
    assert [(name, due, now) for name, due, now, _key, _group in woken] == [
        ("first", 20, 40),
        ("second", 10, 40),
        ("second", 30, 40),
    ]


def test_what_a_jump_makes_due_in_an_element_before_comes_after_the_elements_behind_it() -> None:
    at, woken = flow(playback=True), []
    first = at.timers.timer("first", _recorder(at, "first", woken))

    def wakes_the_first(due: int) -> None:
        first.at(due)

    second = at.timers.timer("second", wakes_the_first)
    third = at.timers.timer("third", _recorder(at, "third", woken))
    third.at(10)
    second.at(20)
    at.timers.jump_to(40)
    assert [(name, due) for name, due, _now, _key, _group in woken] == [("third", 10), ("first", 20)]


def test_notifications_of_one_element_are_a_queue_and_not_sorted() -> None:
    at, woken = flow(), []
    timer = at.timers.timer("t", _recorder(at, "t", woken))
    timer.at(50)
    timer.at(10)
    at.timers.run_until(49)
    assert woken == []
    at.timers.run_until(50)
    assert [(due, now) for _name, due, now, _key, _group in woken] == [(50, 50), (10, 50)]


def test_a_timer_wakes_under_the_key_that_set_it_and_leaves_the_flow_as_it_was() -> None:
    at, woken = flow(), []
    timer = at.timers.timer("t", _recorder(at, "t", woken))
    at.key = "abc"
    timer.at(5)
    at.key = "z"
    at.timers.run_until(9)
    assert woken == [("t", 5, 5, "abc", 3)]
    assert at.key == "z"


def test_a_key_that_was_dropped_is_not_woken() -> None:
    at, woken = flow(), []
    timer = at.timers.timer("t", _recorder(at, "t", woken))
    at.key = "a"
    timer.at(5)
    timer.drop("a")
    at.timers.run_until(9)
    assert woken == []


def test_timers_come_back_with_the_state() -> None:
    at = flow()
    at.timers.timer("t", lambda due: None).at(5)
    again, woken = flow(), []
    again.timers.timer("t", _recorder(again, "t", woken))
    again.store.load(at.store.dump())
    again.timers.rebuild()
    assert again.timers.next_due() == 5
    again.timers.run_until(5)
    assert [due for _name, due, *_rest in woken] == [5]


def test_unique_texts_differ_by_key_and_call_and_go_on_after_a_restart() -> None:
    at = flow()
    texts = [at.unique(), at.unique()]
    at.key = "a"
    texts.append(at.unique())
    state = list(at.store.dump())
    again = flow()
    again.store.load(state)
    again.key = "a"
    texts.append(again.unique())
    assert len(set(texts)) == 4
    at.store.load(state)
    assert at.unique() == texts[-1]


def test_a_jump_of_the_playback_clock_that_would_wake_somebody_without_end_is_an_error(monkeypatch) -> None:
    monkeypatch.setattr(flow_module, "MOST_IN_A_JUMP", 1_000)
    app = Runtime(
        "@app:playback define stream A (v int); define stream B (v int);"
        "from every not A for 1 sec -> e2=B select e2.v as v insert into O;"
    )
    app.start()
    with pytest.raises(NadiError, match="JUMP_TOO_FAR"):
        app.send("B", [(1_500_000_000_000, (1,))])
    app.shutdown()
