"""Room for Python's frames."""

from __future__ import annotations

import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from nadi.framestack import with_room

CALLS = 2_000


def called(number: int) -> int:
    return number


def faults(depth: int) -> int:
    """How often the system has to give memory while a function is called in a loop that is so many calls deep."""
    if depth:
        return faults(depth - 1)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for number in range(CALLS):
        called(number)
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def most_faults() -> int:
    return max(faults(depth) for depth in range(300))


def in_a_thread(call: Callable[[], int]) -> int:
    """A thread has frames of its own: pytest gives its own ones room."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()


def test_a_call_takes_no_memory_from_the_system_however_deep_it_is():
    assert in_a_thread(lambda: with_room(most_faults)) < CALLS / 10


def test_without_room_each_call_of_a_loop_at_the_end_of_a_piece_does():
    """Where Python does better one day, room is needed no more."""
    assert in_a_thread(most_faults) >= CALLS


def test_what_is_called_gives_and_raises_what_it_would():
    assert with_room(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        with_room(lambda: 1 // 0)
