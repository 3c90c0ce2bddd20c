"""Real servers for channels, one of each for all tests; and where the modules are that tests share with those of other folders."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from channels_memory import MakeChannel

from nadi.channels.options import Channel
from nadi.channels.transport import Transport, open_transport
from nadi.io.natsserver import NatsServer

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "pipeline"), str(TESTS / "plan" / "distribution")]


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Kafka broker."""
    folder = str(Path(__file__).parents[2] / "examples" / "kafka")
    sys.path.insert(0, folder)
    try:
        import broker
    finally:
        sys.path.remove(folder)
    try:
        running: Any = broker.start(tmp_path_factory.mktemp("kafka"))
    except broker.NotPossible as reason:
        pytest.skip(str(reason))
    yield running.address
    running.stop()


@pytest.fixture(params=["nats", pytest.param("kafka", marks=pytest.mark.slow)])
def transport(request: pytest.FixtureRequest) -> Iterator[MakeChannel]:
    """Views of channels on a real server."""
    server = request.getfixturevalue(request.param)
    address = server if request.param == "kafka" else server.url
    opened: list[Transport] = []

    def make(name: str, parts: int = 1, most: int = 0) -> Transport:
        options = {"bootstrap.servers": address}
        opened.append(open_transport(Channel(request.param, name, parts, address, options, most)))
        return opened[-1]

    yield make
    for each in opened:
        each.close()
