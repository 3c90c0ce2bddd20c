"""Writing outputs before Spark asks for it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from nadi.pipeline.executor.early import EarlyWrites
from nadi.pipeline.hosting.protocol import Frame


def outputs(token: str, bucket: int = 0) -> dict[str, Any]:
    return {"query": "q", "bucket": bucket, "cut": 7, "token": token}


class Target:
    """Where is written; each write waits until `go` is set, and fails as long as `away` is."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.begun, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.away = False
        self.early = EarlyWrites(self._write)

    def _write(self, head: Mapping[str, Any]) -> Frame:
        self.begun.set()
        assert self.go.wait(10)
        if self.away:
            raise ConnectionError("away")
        self.written.append(head["token"])
        return Frame({"receipts": [head["token"]]}, [])


def test_what_is_written_already_is_told_to_who_asks_and_not_written_again() -> None:
    target = Target()
    target.early.plan(outputs("a"))
    target.early.work(outputs("a"))
    assert target.written == ["a"]
    assert target.early.result(outputs("a")).head == {"receipts": ["a"]}
    assert target.written == ["a"]


def test_who_asks_while_it_is_written_waits_for_the_end() -> None:
    target = Target()
    target.go.clear()
    target.early.plan(outputs("a"))
    worker = threading.Thread(target=target.early.work, args=(outputs("a"),))
    worker.start()
    assert target.begun.wait(10)
    told: list[Frame] = []
    asking = threading.Thread(target=lambda: told.append(target.early.result(outputs("a"))))
    asking.start()
    target.early.work(outputs("a"))  # a repeated task: somebody is at it
    target.go.set()
    asking.join(10)
    worker.join(10)
    assert (len(told), target.written) == (1, ["a"])


def test_a_write_that_was_begun_holds_nobody_up_until_its_result_is_asked_for() -> None:
    target = Target()
    target.go.clear()
    for bucket in (0, 1):
        target.early.plan(outputs("a", bucket))
        target.early.begin(outputs("a", bucket))
    assert target.begun.wait(10)
    assert target.written == []
    target.go.set()
    for bucket in (0, 1):
        assert target.early.result(outputs("a", bucket)).head == {"receipts": ["a"]}
    assert target.written == ["a", "a"]


def test_who_asks_before_it_was_begun_writes_it_and_nobody_else_does() -> None:
    target = Target()
    target.early.plan(outputs("a"))
    assert target.early.result(outputs("a")).head == {"receipts": ["a"]}
    target.early.work(outputs("a"))
    assert target.written == ["a"]


def test_a_failure_is_told_to_who_asks_and_the_next_attempt_writes() -> None:
    target = Target()
    target.away = True
    target.early.plan(outputs("a"))
    target.early.work(outputs("a"))
    with pytest.raises(ConnectionError):
        target.early.result(outputs("a"))
    target.away = False
    target.early.plan(outputs("a"))  # the task is repeated, and its kernel gives the same answer
    target.early.work(outputs("a"))
    assert target.early.result(outputs("a")).head == {"receipts": ["a"]}
    assert target.written == ["a"]


def test_buckets_and_tokens_are_kept_apart() -> None:
    target = Target()
    for token, bucket in (("a", 0), ("b", 1)):
        target.early.plan(outputs(token, bucket))
        target.early.work(outputs(token, bucket))
    assert target.early.result(outputs("c")).head == {"receipts": ["c"]}  # of another run of the kernel
    assert target.early.result(outputs("b", 1)).head == {"receipts": ["b"]}
    assert target.early.result(outputs("a")).head == {"receipts": ["a"]}
    assert target.written == ["a", "b", "c"]
