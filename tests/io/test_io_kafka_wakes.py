from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from bell import Bell, looked
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from eventually import eventually
from sample import connector

from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io import kafkawatch
from nadi.io.contract import Place
from nadi.io.registry import open_log
from nadi.io.sources.kafka import KafkaLog
from nadi.io.wakes import Wakes

pytestmark = pytest.mark.slow

SOON = 15.0  # seconds: far more than it takes on a busy machine, far less than the look without being told (`TRUSTED`)


def topic(servers: str, partitions: int = 1) -> str:
    name = f"t{uuid4().hex[:8]}"
    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    (made,) = client.create_topics([NewTopic(name, partitions)]).values()
    made.result()
    return name


def fill(servers: str, name: str, texts: Sequence[str], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for text in texts:
        producer.produce(name, text, partition=partition)
    assert producer.flush(30) == 0


def source(servers: str, *topics: str) -> KafkaLog:
    given = {"topic.list": ",".join(topics), "bootstrap.servers": servers}
    made = open_log(connector("kafka", given), Place("App", Path("/nowhere")))
    assert isinstance(made, KafkaLog)
    assert isinstance(made, Wakes)
    return made


def waited(bell: Bell, log: KafkaLog, key: object = "") -> None:
    """Wait for a log, until the partitions are sure to be heard."""
    bell.wake(log, key)
    until = time.monotonic() + 10
    while (at := log.next_look()) is not None:
        assert time.monotonic() < until
        with bell._came:
            bell._came.wait(max(0.0, at - time.monotonic()))
        log.end(0)
    bell.rung.clear()


def watching() -> int:
    return sum(t.name == "kafka-watch" for t in threading.enumerate())


def test_a_message_wakes_the_log_of_its_topic_only(kafka: str) -> None:
    bell, names = Bell(), [topic(kafka, 2) for _ in range(10)]
    logs = {name: source(kafka, name) for name in names}
    for name, log in logs.items():
        waited(bell, log, name)
    assert watching() == 1
    for n, name in enumerate((*names, *names)):
        fill(kafka, name, ["x"], n % 2)
        assert bell.wait(SOON) == {name}
        assert sum(logs[name].end(p) for p in range(2)) == 1 + n // len(names)
    for log in logs.values():
        log.close()
    assert watching() == 0


def test_an_idle_topic_is_asked_nothing_and_is_fresh_after_a_wake(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bell, name = Bell(), topic(kafka)
    log = source(kafka, name)
    waited(bell, log)
    asked: list[int] = []
    latest = KafkaLog._latest
    monkeypatch.setattr(KafkaLog, "_latest", lambda self, count: asked.append(count) or latest(self, count))
    assert [log.end(0) for _ in range(100)] == [0] * 100
    assert asked == []
    fill(kafka, name, ["a"])
    bell.wait(SOON)
    assert [log.end(0) for _ in range(100)] == [1] * 100
    assert asked == [1]
    log.close()


def test_many_messages_wake_once_until_somebody_looks_and_those_that_a_look_saw_are_skipped(kafka: str) -> None:
    bell, name = Bell(), topic(kafka)
    log = source(kafka, name)
    waited(bell, log)
    fill(kafka, name, ["x" * 100] * 20_000)
    assert bell.rung == {"": 1}
    looked(log, bell, 20_000)
    fill(kafka, name, ["one more"])
    looked(log, bell, 20_001, SOON)
    log.close()


def test_logs_of_one_topic_share_what_is_followed_and_each_is_told(kafka: str) -> None:
    bell, name = Bell(), topic(kafka)
    first, second = source(kafka, name), source(kafka, name)
    waited(bell, first, "first")
    fill(kafka, name, ["a"])
    assert bell.wait(SOON) == {"first"}
    waited(bell, second, "second")
    assert first.end(0) == second.end(0) == 1
    fill(kafka, name, ["b"])
    rung: set[object] = set()
    while rung != {"first", "second"}:
        rung |= bell.wait(SOON)
    assert first.end(0) == second.end(0) == 2
    first.close()
    fill(kafka, name, ["c"])
    assert bell.wait(SOON) == {"second"}
    assert watching() == 1
    second.close()
    assert watching() == 0


def test_what_came_between_a_look_and_the_listening_of_a_second_log_is_told(kafka: str) -> None:
    name = topic(kafka)
    told: list[str] = []
    settings = {"bootstrap.servers": kafka, "log_level": 0}
    watch, fresh = kafkawatch.listen(settings, {(name, 0): 0}, first := lambda: told.append("first"))
    assert fresh
    fill(kafka, name, ["a"])
    eventually(lambda: told == ["first"])
    same, fresh = kafkawatch.listen(settings, {(name, 0): 0}, second := lambda: told.append("second"))
    assert (same, fresh) == (watch, False)
    assert told == ["first", "second"]
    watch.leave(first)
    watch.leave(second)
    assert watching() == 0


def test_a_partition_that_is_lost_is_told_and_followed_again_by_the_next_look(kafka: str) -> None:
    bell, name = Bell(), topic(kafka)
    fill(kafka, name, ["a"])
    watch, _fresh = kafkawatch.listen(
        {"bootstrap.servers": kafka, "log_level": 0}, {(name, 0): 99}, ring := bell.ring_all
    )
    bell.wait(60)
    _same, fresh = kafkawatch.listen({"bootstrap.servers": kafka, "log_level": 0}, {(name, 0): 1}, ring)
    assert fresh
    fill(kafka, name, ["b"])
    bell.wait(SOON)
    watch.leave(ring)


def test_no_wake_is_missed_across_kills_of_the_broker(broker_module: Any, kafka: str, tmp_path: Path) -> None:
    running = broker_module.start(tmp_path / "broker")
    address = running.address
    bell, name = Bell(), topic(address)
    log = source(address, name)
    waited(bell, log)
    for kill in range(2):
        jvm = int(
            Path(f"/proc/{running.guard.process.pid}/task/{running.guard.process.pid}/children").read_text().split()[0]
        )
        os.kill(jvm, signal.SIGKILL)
        running.guard.wait()
        bell.wait(60)  # that the broker is gone is told
        with contextlib.suppress(ConnectionUnavailableException):
            log.end(0)
        bell.rung.clear()
        running = broker_module.start(tmp_path / "broker", int(address.rpartition(":")[2]))
        fill(address, name, [f"{kill}"])
        bell.wait(60)
        until = time.monotonic() + 30
        while True:  # as whoever waits does: after an error it looks again by itself
            with contextlib.suppress(ConnectionUnavailableException):
                looked(log, bell, 2 * kill + 1, 5.0)
                break
            assert time.monotonic() < until
        fill(address, name, ["after the restart"])
        looked(log, bell, 2 * kill + 2, 5.0)
    log.close()
    running.stop()
    assert watching() == 0
