"""What the side holds whose turn it is not, without brokers: rows go when they were delivered, or when there are too many."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sample import connector, delivery

from nadi.errors import error
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.contract import Delivery, Receipt
from nadi.io.sinks import turns
from nadi.io.sinks.turns import TurnSink
from nadi.io.turn import Known, Standing, Turn, next_turn


class Topic:
    """What a broker says, as a test has it."""

    def __init__(self) -> None:
        self.standing = Standing(Turn(), {})
        self.away = False

    def follow(self) -> Standing:
        return self.standing

    def read(self) -> Standing:
        if self.away:
            raise error("CONNECTION_UNAVAILABLE", connector="a broker", reason="it is away")
        return self.standing

    def close(self) -> None:
        return


class Target:
    """Takes what is published; refuses a cut of `fenced` as from somebody who has lost the turn."""

    def __init__(self) -> None:
        self.cuts: list[int] = []
        self.fenced: set[int] = set()
        self.dropped: list[int] = []

    def write(self, given: Delivery) -> Receipt:
        if given.cut in self.fenced:
            raise error("FENCED", connector="a broker", producer="alerts")
        self.cuts.append(given.cut)
        return Receipt(given.bucket, given.cut)

    def drop(self, bucket: int) -> None:
        self.dropped.append(bucket)

    def commit(self, cut: int, receipts: Sequence[Receipt]) -> None:
        return

    def close(self) -> None:
        return


def made(*topics: Topic) -> tuple[TurnSink, Target]:
    target: Any = Target()
    made_of = connector("kafkamultidc", {"centre": "east", "sequence.id": "alerts"})
    return TurnSink(made_of, target, lambda: list(topics), Known()), target


def test_rows_are_held_until_they_are_known_to_be_delivered_and_published_at_the_take_over() -> None:
    west, east = Topic(), Topic()
    sink, target = made(west, east)
    west.standing.turn = Turn(1, "west")
    for cut in range(1, 6):
        sink.write(delivery(cut, ["x", "y"], 2 * cut - 2))
    assert target.cuts == []
    east.standing.delivered["alerts/0"] = {0: 5}  # cuts 1 and 2, and the first row of cut 3
    sink.write(delivery(6, [], 10))
    west.standing.delivered["alerts/0"] = {0: 3}  # less was delivered there
    sink.write(delivery(6, [], 10))
    east.standing.turn = Turn(2, "east")
    sink.write(delivery(7, ["x"], 10))
    assert target.cuts == [2, 3, 4, 5, 7]  # a broker leaves out what it has
    sink.write(delivery(8, ["x"], 11))
    assert target.cuts == [2, 3, 4, 5, 7, 8]


class Alone(Topic):
    """A broker that one thread asks at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Lock()
        self.together = 0

    def follow(self) -> Standing:
        if not self.asked.acquire(blocking=False):
            self.together += 1
            return self.standing
        try:
            time.sleep(0.001)
            return self.standing
        finally:
            self.asked.release()


def test_buckets_that_hold_beside_each_other_ask_a_broker_one_after_the_other() -> None:
    west, east = Alone(), Alone()
    sink, _ = made(west, east)
    west.standing.turn = Turn(1, "west")

    def hold(bucket: int) -> None:
        for cut in range(1, 20):
            sink.write(replace(delivery(cut, ["x"], cut), bucket=bucket))

    threads = [threading.Thread(target=hold, args=(bucket,)) for bucket in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (west.together, east.together) == (0, 0)


def test_what_is_too_much_to_be_held_goes_with_a_warning_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(turns, "HELD_BYTES", 25)
    topic = Topic()
    sink, target = made(topic)
    for cut in range(1, 6):
        sink.write(delivery(cut, ["x" * 10], cut - 1))
    topic.standing.turn = Turn(1, "east")
    sink.write(delivery(6, ["x"], 5))
    assert target.cuts == [4, 5, 6]
    assert [r.message for r in caplog.records if "no longer" in r.message] == [
        f"kafkamultidc sink of S: 1 rows of cut {cut} are held no longer" for cut in (1, 2, 3)
    ]


def test_who_is_refused_looks_whose_turn_it_is_and_holds_or_tries_again() -> None:
    topic = Topic()
    sink, target = made(topic)
    topic.standing.turn = Turn(1, "east")
    sink.write(delivery(1, ["x"], 0))
    target.fenced = {2}
    with pytest.raises(ConnectionUnavailableException, match="for a moment"):
        sink.write(delivery(2, ["x"], 1))
    target.fenced = set()
    sink.write(delivery(2, ["x"], 1))
    target.fenced = {3}
    topic.read = lambda: setattr(topic.standing, "turn", Turn(2, "west")) or topic.standing  # type: ignore[func-returns-value,method-assign]
    sink.write(delivery(3, ["x"], 2))
    sink.write(delivery(4, ["x"], 3))
    assert (target.cuts, target.dropped) == ([1, 2], [0, 0])


def test_where_no_broker_says_whose_turn_it_is_the_cut_is_tried_again() -> None:
    west, east = Topic(), Topic()
    west.away = east.away = True
    sink, target = made(west, east)
    for _ in range(2):
        with pytest.raises(ConnectionUnavailableException):
            sink.write(delivery(1, ["x"], 0))
    east.away = False
    east.standing.turn = Turn(1, "east")
    sink.write(delivery(1, ["x"], 0))
    assert target.cuts == [1]


def test_a_turn_follows_the_greatest_that_a_broker_knows_and_keeps_the_incarnation() -> None:
    first = next_turn([Turn(), Turn()], "west")
    assert (first.token, first.centre, len(first.life)) == (1, "west", 16)
    assert next_turn([first, Turn()], "east") == Turn(2, "east", first.life)
