"""Who sends to the pair without end, in bodies of a hundred events, and remembers what was acknowledged.

A body is known by a name; its events have that and their place in it. A client with idempotency keys sends a body again under the same name and key until it
is acknowledged; one without gives it another name each time.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

KEYS = 20
SIZE = 100  # events of a body
SPREAD = 1_000  # values are 0 up to this
ANSWERED = 4.0  # seconds that a client of http waits for an answer
AGAIN = 0.1  # seconds before a body is tried again


class Load:
    """A thread that sends until it is told to stop. `sent` has the name of each body that left, `acknowledged` those that were acknowledged."""

    def __init__(self, name: str, seed: int, pause: float) -> None:
        self.dice = random.Random(f"{name} {seed}")
        self.name = name
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()
        self.wrong: list[str] = []
        self.stopping = threading.Event()
        self._pause = pause
        self._resting = threading.Event()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def rest(self, seconds: float = 180) -> None:
        """Send nothing new until `go_on`. Returns when all that is under way has been acknowledged."""
        self._idle.clear()
        self._resting.set()
        assert self._idle.wait(seconds), f"{self.name} does not come to rest"

    def go_on(self) -> None:
        self._resting.clear()

    def stop(self) -> None:
        self.stopping.set()
        if self._thread.ident is not None:
            self._thread.join(120)
            assert not self._thread.is_alive(), f"{self.name} does not end"

    def body(self, name: str, dice: random.Random) -> bytes:
        """The events of a body: the same ones for the same name and dice."""
        return self._named(
            name, [{"k": f"k{dice.randrange(KEYS)}", "i": i, "v": dice.randrange(SPREAD)} for i in range(SIZE)]
        )

    def _named(self, name: str, events: Sequence[dict[str, object]]) -> bytes:
        self.sent.add(name)
        return json.dumps([{"event": {**one, "body": name}} for one in events], separators=(",", ":")).encode()

    def _run(self) -> None:
        number, due = 0, time.monotonic()
        while not self.stopping.is_set():
            if self._resting.is_set():
                self.settle()
                self._idle.set()
                self.stopping.wait(AGAIN)
                due = time.monotonic()
                continue
            number += 1
            self.send(number)
            due = max(due + self._pause, time.monotonic() - 1)  # what an outage has cost is not made up for
            self.stopping.wait(max(0.0, due - time.monotonic()))
        self.settle()

    def send(self, number: int) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Wait for what is still under way."""


class HttpLoad(Load):
    """One request after the other, to whichever node takes it."""

    def __init__(self, name: str, seed: int, pause: float, addresses: Sequence[str], port: int, keyed: bool) -> None:
        super().__init__(name, seed, pause)
        self._addresses, self._port, self._keyed = addresses, port, keyed
        self._at = 0
        self._connection: http.client.HTTPConnection | None = None
        self.again = 0
        """Attempts that were made after one that may have arrived."""

    def send(self, number: int) -> None:
        attempt = 0
        seed = self.dice.random()
        while not self.stopping.is_set():
            name = f"{self.name}.{number}" if self._keyed else f"{self.name}.{number}.{attempt}"
            status = self._post(name, self.body(name, random.Random(seed)))
            if status == 202:
                self.acknowledged.add(name)
                return
            if status not in (0, 503):
                self.wrong.append(f"{name}: {status}")
                return
            attempt += 1
            self.again += 1
            self.stopping.wait(AGAIN)

    def send_first(self) -> bool:
        """Send a body before all others, of which nothing comes but the timer of a window. Whether it was taken; else the same one may be sent again."""
        name = f"{self.name}.0"
        taken = self._post(name, self._named(name, [{"k": "k0", "i": SIZE // 2, "v": SPREAD // 2}] * SIZE)) == 202
        if taken:
            self.acknowledged.add(name)
        return taken

    def _post(self, name: str, body: bytes) -> int:
        """The status; 0 where there was no answer, or nobody listens."""
        try:
            if self._connection is None:
                address = self._addresses[self._at % len(self._addresses)]
                self._connection = http.client.HTTPConnection(address, self._port, timeout=ANSWERED)
            headers = {"Idempotency-Key": name} if self._keyed else {}
            self._connection.request("POST", "/in", body, headers)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._elsewhere()
            return 0
        if answer.status != 202:
            self._elsewhere()
        return answer.status

    def _elsewhere(self) -> None:
        """The next attempt goes to the other node."""
        self._at += 1
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def settle(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class KafkaLoad(Load):
    """A producer with idempotence: the client itself sends again what was not acknowledged."""

    def __init__(self, seed: int, pause: float, broker: str) -> None:
        super().__init__("kafka", seed, pause)
        settings = {"bootstrap.servers": broker, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        self._producer = Producer(settings)

    def send(self, number: int) -> None:
        name = f"kafka.{number}"

        def told(failure: KafkaError | None, _message: Message) -> None:
            if failure is None:
                self.acknowledged.add(name)
            else:
                self.wrong.append(f"{name}: {failure}")

        self._producer.produce("in", self.body(name, self.dice), on_delivery=told)
        self._producer.poll(0)

    def settle(self) -> None:
        if left := self._producer.flush(60):
            self.wrong.append(f"{left} messages were not acknowledged in time")


class MqttLoad(Load):
    """Quality 1; a body counts as acknowledged when the broker has it."""

    def __init__(self, seed: int, pause: float, port: int) -> None:
        super().__init__("mqtt", seed, pause)
        self._client = Client(CallbackAPIVersion.VERSION2, "load", protocol=MQTTv5)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def send(self, number: int) -> None:
        name = f"mqtt.{number}"
        told = self._client.publish("in", self.body(name, self.dice), qos=1)
        told.wait_for_publish(60)
        if told.is_published():
            self.acknowledged.add(name)
        else:
            self.wrong.append(f"{name}: not acknowledged by the broker")

    def stop(self) -> None:
        super().stop()
        self._client.disconnect()
        self._client.loop_stop()
