"""Who sends without end, and remembers what was acknowledged.

Every attempt has ids of its own: what was acknowledged must be there once, all else once at most.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import KafkaError, Message, Producer

KEYS = 12
PAUSE = 0.12  # seconds between two messages of one sender
SPOILED = 0.02  # the share of messages to Kafka that no event can be made of


def event(dice: random.Random, id_: str) -> dict[str, Any]:
    return {"k": f"key{dice.randrange(KEYS)}", "id": id_, "g": dice.randrange(3), "n": dice.randrange(100)}


class Sending:
    """A thread that sends until it is told to stop. `sent` has every id that left, `acknowledged` those that have arrived for good; `spoiled` are texts
    among them that no event can be made of.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.dice = random.Random(f"{name} {seed}")
        self.name = name
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()
        self.spoiled: set[str] = set()
        self.wrong: list[str] = []
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more; what is under way comes to its end."""
        self.stopping.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run(self) -> None:
        number = 0
        while not self.stopping.wait(PAUSE):
            number += 1
            self.send(number)
        self.end()

    def send(self, number: int) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Wait for what is still under way."""


class KafkaSending(Sending):
    """A few messages at a time to two topics, with idempotence; the client itself sends them again until they are acknowledged. One in fifty is spoiled."""

    def __init__(self, address: str, seed: int) -> None:
        super().__init__("kafka", seed)
        self._producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )

    def send(self, number: int) -> None:
        for i in range(self.dice.randint(1, 5)):
            made = event(self.dice, f"k{number}.{i}")
            topic = "left" if self.dice.random() < 0.8 else "right"
            text = json.dumps({"event": made})
            if self.dice.random() < SPOILED:
                text = made["id"] = f"spoiled {made['id']}"
                self.spoiled.add(text)
            self.sent.add(made["id"])
            self._producer.produce(topic, text, made["k"], on_delivery=self._told(made["id"]))
        self._producer.poll(0)

    def _told(self, id_: str) -> Any:
        def told(failure: KafkaError | None, _message: Message) -> None:
            if failure is None:
                self.acknowledged.add(id_)
            else:
                self.wrong.append(f"{id_}: {failure}")

        return told

    def end(self) -> None:
        left = self._producer.flush(100)
        if left:
            self.wrong.append(f"{left} messages were not acknowledged in time")


class HttpSending(Sending):
    """One request after another, each with an array of events; what is not answered with 202 is sent again under other ids."""

    def __init__(self, url: str, name: str, seed: int, streams: tuple[str, str] = ("left", "right")) -> None:
        super().__init__(name, seed)
        self._where = urlsplit(url)
        self._streams = streams

    def send(self, number: int) -> None:
        size = self.dice.randint(1, 4)
        stream = self._streams[self.dice.random() >= 0.8]
        events = [event(self.dice, "") for _ in range(size)]
        attempt = 0
        while True:
            for i, made in enumerate(events):
                made["id"] = f"{self.name}{number}.{i}.{attempt}"
            ids = {made["id"] for made in events}
            self.sent |= ids
            status = self._post(stream, json.dumps([{"event": made} for made in events]).encode())
            if status == 202:
                self.acknowledged |= ids
                return
            if status not in (0, 503):
                self.wrong.append(f"{sorted(ids)[0]}: {status}")
                return
            attempt += 1
            if self.stopping.wait(0.1):
                return

    def _post(self, stream: str, body: bytes) -> int:
        """The status, 0 where there was no answer."""
        connection = http.client.HTTPConnection(self._where.hostname or "", self._where.port, timeout=30)
        try:
            connection.request("POST", f"{self._where.path}/{stream}", body)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()
        return answer.status
