"""Real servers for the tests of sources and sinks; one of each per module, stopped with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from centre_brokers import Centres, KafkaCentres, NatsCentres

from nadi.io.natsserver import NatsServer


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[NatsServer]:
    """A server that a test may kill."""
    with NatsServer(tmp_path / "nats") as server:
        yield server


@pytest.fixture(scope="session")
def broker_module() -> Any:
    """examples/kafka/broker.py, which the examples start by hand."""
    folder = str(Path(__file__).parents[2] / "examples" / "kafka")
    sys.path.insert(0, folder)
    try:
        import broker
    finally:
        sys.path.remove(folder)
    return broker


@pytest.fixture(scope="module")
def kafka(broker_module: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Kafka broker."""
    try:
        running = broker_module.start(tmp_path_factory.mktemp("kafka"))
    except broker_module.NotPossible as reason:
        pytest.skip(str(reason))
    yield running.address
    running.stop()


@pytest.fixture(scope="module")
def centre_brokers(broker_module: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCentres]:
    """Kafka in two data centres."""
    try:
        made = KafkaCentres(tmp_path_factory.mktemp("centres"), broker_module)
    except broker_module.NotPossible as reason:
        pytest.skip(str(reason))
    yield made
    made.stop()


@pytest.fixture(params=["nats", pytest.param("kafka", marks=pytest.mark.slow)])
def centres(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Centres]:
    """Two data centres, of each kind."""
    if request.param == "kafka":
        yield request.getfixturevalue("centre_brokers").renamed()
        return
    made = NatsCentres(tmp_path)
    yield made
    made.stop()
