"""Groups take turns in a process, and one that is stuck costs the others one wait."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from nadi.pipeline.hosting.turns import Turns


def test_no_more_are_at_it_than_may_be():
    turns, lock, most = Turns(3, patience=60.0), threading.Lock(), [0, 0]

    def work() -> None:
        with lock:
            most[0] += 1
            most[1] = max(most)
        time.sleep(0)  # others may run here
        with lock:
            most[0] -= 1

    with ThreadPoolExecutor(20) as pool:
        wait([pool.submit(turns.take, work) for _ in range(200)])
    assert most[0] == 0
    assert 1 <= most[1] <= 3


def test_who_waits_begins_when_somebody_ends():
    turns, begun, end = Turns(1, patience=60.0), threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        end.wait()

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(turns.take, first)
        begun.wait()
        two = pool.submit(turns.take, lambda: one.done() or end.is_set())
        assert not two.done()
        end.set()
        assert two.result()


def test_those_that_are_stuck_hold_the_others_up_once():
    turns, end = Turns(2, patience=0.05), threading.Event()
    stuck = threading.Semaphore(0)

    def hang() -> None:
        stuck.release()
        end.wait()

    with ThreadPoolExecutor(10) as pool:
        hanging = [pool.submit(turns.take, hang) for _ in range(2)]
        for _ in hanging:
            stuck.acquire()
        done = [pool.submit(turns.take, time.monotonic) for _ in range(50)]
        assert not wait(done, 30).not_done
        assert not any(one.done() for one in hanging)
        end.set()
    assert turns.take(int, "7") == 7  # who comes back late is not counted twice


def test_an_error_ends_a_turn():
    turns = Turns(1, patience=60.0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            turns.take(lambda: 1 // 0)
    assert turns.take(lambda: 1) == 1
