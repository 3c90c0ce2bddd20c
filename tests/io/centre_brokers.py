"""Two data centres for tests: a broker in each, of one kind or the other, that can be killed, started again, and stopped for a while."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from eventually import eventually
from log_contract import payloads
from sample import connector, delivery

from nadi.io.contract import Connector, Log, Place, Sink
from nadi.io.jetstream import Outgoing, ensure_stream, publish_all, stream_config
from nadi.io.natsclient import NatsClient
from nadi.io.natsserver import NatsServer
from nadi.io.registry import open_log
from nadi.io.retry import unavailable

WEST, EAST = 0, 1
Message = tuple[bytes, Mapping[str, str]]


def numbered(publisher: str, life: str, *numbers: int) -> list[Message]:
    """Messages as nadi's sinks publish them; the body says what they are."""
    return [
        (
            f'{{"event":{{"name":"{publisher}{life}","size":{n}}}}}'.encode(),
            {"Nadi-Producer": f"{publisher}@{life}", "Nadi-Group": "0", "Nadi-Number": str(n), "Nadi-Count": "1"},
        )
        for n in numbers
    ]


class Centres(ABC):
    """Two brokers, each with the topic (subject) `name`."""

    kind: str

    def __init__(self) -> None:
        self.name = f"t{uuid4().hex[:8]}"

    @property
    def servers(self) -> str:
        return ",".join(self.address(centre) for centre in (WEST, EAST))

    @property
    @abstractmethod
    def options(self) -> dict[str, str]:
        """Those of a source and of a sink that name the place."""

    @abstractmethod
    def address(self, centre: int) -> str: ...

    @abstractmethod
    def publish(self, centre: int, messages: Sequence[Message]) -> None: ...

    @abstractmethod
    def log(self, centre: int, names: Sequence[str] = ()) -> Log:
        """What one centre has, as its usual source reads it."""

    @abstractmethod
    def kill(self, centre: int) -> None: ...

    @abstractmethod
    def start(self, centre: int) -> None: ...

    @abstractmethod
    def pids(self, centre: int) -> Sequence[int]: ...

    @abstractmethod
    def stop(self) -> None: ...

    def hold(self, centre: int) -> None:
        """From now on nothing comes from it, and it does not say so."""
        for pid in self.pids(centre):
            os.kill(pid, signal.SIGSTOP)

    def release(self, centre: int) -> None:
        for pid in self.pids(centre):
            os.kill(pid, signal.SIGCONT)

    def both(self, messages: Sequence[Message]) -> None:
        for centre in (WEST, EAST):
            self.publish(centre, messages)


def _reading(names: Sequence[str]) -> Any:
    attributes = {"name": f"trp:{names[0]}", "size": f"trp:{names[1]}"} if names else None
    return lambda kind, options: connector(kind, options, attributes=attributes)


class NatsCentres(Centres):
    kind = "natsMultiDC"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._servers = [NatsServer(folder / name) for name in ("west", "east")]
        for server in self._servers:
            server.start()
        self._held: dict[int, int] = {}
        self._make()

    def renamed(self) -> NatsCentres:
        """The same servers, with another subject."""
        self.name = f"t{uuid4().hex[:8]}"
        self._make()
        return self

    def _make(self) -> None:
        for centre in (WEST, EAST):
            client = self._client(centre)
            client.call(lambda nc: ensure_stream(nc, stream_config(self.name, [self.name])))
            client.close()

    def _client(self, centre: int) -> NatsClient:
        return NatsClient(self.address(centre))

    @property
    def options(self) -> dict[str, str]:
        return {"destination": self.name, "bootstrap.servers": self.servers}

    def address(self, centre: int) -> str:
        return self._servers[centre].url

    def publish(self, centre: int, messages: Sequence[Message]) -> None:
        client = self._client(centre)
        client.call(lambda nc: publish_all(nc, [Outgoing(self.name, body, dict(about)) for body, about in messages]))
        client.close()

    def log(self, centre: int, names: Sequence[str] = ()) -> Log:
        options = {"destination": self.name, "bootstrap.servers": self.address(centre)}
        return open_log(_reading(names)("nats", options), Place("App", Path("/nowhere")))

    def kill(self, centre: int) -> None:
        self._servers[centre].stop()

    def start(self, centre: int) -> None:
        self._servers[centre].start()

    def pids(self, centre: int) -> Sequence[int]:
        return [self._servers[centre].pid]

    def stop(self) -> None:
        for centre in (WEST, EAST):
            if self._servers[centre].pid:
                self.release(centre)
            self._servers[centre].stop()


class KafkaCentres(Centres):
    kind = "kafkaMultiDC"

    def __init__(self, folder: Path, module: Any) -> None:
        super().__init__()
        self._module = module
        self._folders = [folder / name for name in ("west", "east")]
        self._brokers = [module.start(each) for each in self._folders]
        for centre in (WEST, EAST):
            admin = AdminClient({"bootstrap.servers": self.address(centre), "log_level": 0})
            (made,) = admin.create_topics([NewTopic(self.name, 1)]).values()
            made.result()

    def renamed(self) -> KafkaCentres:
        """The same brokers, with another topic."""
        self.name = f"t{uuid4().hex[:8]}"
        for centre in (WEST, EAST):
            admin = AdminClient({"bootstrap.servers": self.address(centre), "log_level": 0})
            (made,) = admin.create_topics([NewTopic(self.name, 1)]).values()
            made.result()
        return self

    @property
    def options(self) -> dict[str, str]:
        return {"topic": self.name, "bootstrap.servers": self.servers}

    def address(self, centre: int) -> str:
        return str(self._brokers[centre].address)

    def publish(self, centre: int, messages: Sequence[Message]) -> None:
        producer = Producer({"bootstrap.servers": self.address(centre), "log_level": 0, "enable.idempotence": True})
        for body, about in messages:
            producer.produce(self.name, body, partition=0, headers=dict(about))
        assert producer.flush(60) == 0

    def log(self, centre: int, names: Sequence[str] = ()) -> Log:
        options = {"topic.list": self.name, "bootstrap.servers": self.address(centre)}
        return open_log(_reading(names)("kafka", options), Place("App", Path("/nowhere")))

    def kill(self, centre: int) -> None:
        for pid in self.pids(centre):
            os.kill(pid, signal.SIGKILL)
        self._brokers[centre].stop()

    def start(self, centre: int) -> None:
        port = int(self.address(centre).rpartition(":")[2])
        self._brokers[centre] = self._module.start(self._folders[centre], port)

    def pids(self, centre: int) -> Sequence[int]:
        guard = self._brokers[centre].guard.process.pid
        return [int(pid) for pid in Path(f"/proc/{guard}/task/{guard}/children").read_text().split()]

    def stop(self) -> None:
        for centre in (WEST, EAST):
            if self._brokers[centre].guard.running():
                self.release(centre)
            self._brokers[centre].stop()


class Asleep:
    """In place of what listens to a broker: hears nothing, unless it is made to look."""

    def __init__(self, follower: Any) -> None:
        self.awake = follower
        self._known = follower.follow()

    def follow(self) -> Any:
        return self._known

    def read(self) -> Any:
        self._known = self.awake.read()
        return self._known

    def close(self) -> None:
        self.awake.close()


def source(centres: Centres, **options: str) -> Connector:
    more = {name.replace("_", "."): value for name, value in options.items()}
    return connector(centres.kind.lower(), {**centres.options, **more})


def settled(log: Log, count: int) -> None:
    """Wait until a log has so many messages."""
    eventually(lambda: log.end(0) - log.beginning(0) >= count, 60)


def stored(centres: Centres, centre: int) -> list[str]:
    """The messages that a centre has."""
    log = centres.log(centre)
    try:
        return [p.decode() for p in payloads(log) if isinstance(p, bytes)]
    finally:
        log.close()


def written(sink: Sink, cut: int, names: Sequence[str], first: int) -> None:
    """Have a sink write a cut, and commit it."""
    sink.commit(cut, [sink.write(delivery(cut, names, first))])


def away() -> list[str]:
    """What is away of centres, as people are told."""
    return [one.connector for one in unavailable() if one.connector.startswith(("kafkamultidc", "natsmultidc"))]
