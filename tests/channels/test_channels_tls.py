"""A channel on brokers that speak TLS and want to know who asks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.keystores import Authority

from nadi.channels.kafkachannel import KafkaChannel
from nadi.channels.options import Channel
from nadi.channels.transport import Bounds
from nadi.errors import NadiError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a broker."""
    folder = str(Path(__file__).parents[2] / "examples" / "kafka")
    sys.path.insert(0, folder)
    try:
        import broker
    finally:
        sys.path.remove(folder)
    certificates = broker.Certificates(authority.file, *authority.sign("broker"))
    try:
        running: Any = broker.start(tmp_path_factory.mktemp("kafka"), tls=certificates)
    except broker.NotPossible as reason:
        pytest.skip(str(reason))
    yield running.address
    running.stop()


def channel(servers: str) -> KafkaChannel:
    return KafkaChannel(Channel("kafka", "Orders", 1, servers, {}))


def test_a_node_with_a_certificate_of_the_authority_fills_and_reads_a_channel(
    authority: Authority, broker: str
) -> None:
    certificate, key = authority.sign("node")
    made = channel(f"ssl://{broker}?authority={authority.file}&certificate={certificate}&key={key}")
    made.create(Bounds())
    places = made.write("A-1", 0, [(0, b"one"), (0, b"two")])
    assert made.fetch("A-1", 0, places) == [b"one", b"two"]
    assert str(key) not in made.name
    made.close()


@pytest.mark.parametrize("who", ["a stranger", "nobody", "in the clear"])
def test_others_do_not(authority: Authority, broker: str, who: str, tmp_path: Path) -> None:
    servers = f"ssl://{broker}?authority={authority.file}"
    if who == "a stranger":
        certificate, key = Authority(tmp_path, "strangers").sign("node")
        servers += f"&certificate={certificate}&key={key}"
    made = channel(servers if who != "in the clear" else broker)
    with pytest.raises(NadiError, match=r"CONNECTION_UNAVAILABLE|REFUSED"):
        made.create(Bounds())
    made.close()


def test_a_broker_that_another_authority_has_signed_is_none(authority: Authority, broker: str, tmp_path: Path) -> None:
    certificate, key = authority.sign("node")
    other = Authority(tmp_path, "others").file
    made = channel(f"ssl://{broker}?authority={other}&certificate={certificate}&key={key}")
    with pytest.raises(NadiError, match=r"CONNECTION_UNAVAILABLE|REFUSED"):
        made.create(Bounds())
    made.close()
