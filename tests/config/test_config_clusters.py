"""`cluster.config` and `deployment.config` of a distributed deployment."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.config.clusters import DeploymentConfig
from nadi.config.deployment import as_yaml, deployment_of
from nadi.errors import NadiError


def of(**deployment: Any) -> DeploymentConfig:
    return deployment_of({"deployment.config": {"type": "distributed", **deployment}}).sections.deployment_config


def test_the_defaults_are_those_of_the_shipped_files():
    found = deployment_of({"deployment.config": {"type": "distributed"}})
    deployment, strategy = found.sections.deployment_config, found.sections.cluster.strategy
    assert (deployment.interval, deployment.retries, deployment.least) == (2000, 2, 1)
    assert (strategy.interval, strategy.retries, strategy.polling) == (1000, 2, 1000)
    assert (deployment.leader_retry, deployment.receiver, deployment.algorithm) == (10_000, False, "round-robin")
    assert [one.port for one in found.manager_http] == [9190, 9543]
    assert found.notices == ()


@pytest.mark.parametrize(
    ("keys", "transport", "servers"),
    [
        ({"natsServerUrl": "nats://h:4222", "clusterId": "c"}, "nats", "nats://h:4222"),
        ({"bootstrapURLs": "k:9092"}, "kafka", "k:9092"),
        ({"natsServerUrl": "nats://h:4222", "bootstrapURLs": "k:9092"}, "nats", "nats://h:4222"),
        (
            {
                "natsServerUrl": "nats://h:4222",
                "bootstrapURLs": "k:9092",
                "appCreatorClass": "org.wso2.carbon.stream.processor.core.distribution.KafkaSiddhiAppCreator",
            },
            "kafka",
            "k:9092",
        ),
    ],
)
def test_channels_are_where_the_file_says(keys: dict[str, str], transport: str, servers: str):
    assert (of(**keys).transport, of(**keys).channel_servers) == (transport, servers)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("org.wso2.RoundRobinAllocationAlgorithm", "round-robin"),
        ("org.wso2.CPUBasedAllocationAlgorithm", "least-cpu"),
        ("weight", "weight"),
    ],
)
def test_an_algorithm_has_the_name_of_its_class_or_its_own(given: str, name: str):
    assert of(allocationAlgorithm=given).algorithm == name


def test_a_node_is_reached_over_https_unless_it_says_otherwise():
    assert of().interface(9443).address == "https://localhost:9443"
    assert of(httpsInterface={"host": "w", "port": 9444}).interface(9443).address == "https://w:9444"
    assert of(httpInterface={"host": "w", "port": 9090}).interface(9443).address == "http://w:9090"


def test_an_interface_without_a_port_has_that_of_its_kind_of_node():
    assert of(httpsInterface={"host": "w"}).interface(9443, 9090).address == "https://w:9443"
    assert of(httpInterface={"host": "w"}).interface(9443, 9090).address == "http://w:9090"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ({"deployment.config": {"allocationAlgorithm": "Random"}}, "deployment.config.allocationAlgorithm"),
        ({"deployment.config": {"appCreatorClass": "JmsSiddhiAppCreator"}}, "deployment.config.appCreatorClass"),
        ({"deployment.config": {"heartbeatInterval": 0}}, "deployment.config.heartbeatInterval"),
        ({"cluster.config": {"coordinationStrategyClass": "ZooKeeper"}}, "cluster.config.coordinationStrategyClass"),
        ({"nadi": {"cluster": {"secret": "short"}}}, "nadi.cluster.secret"),
        ({"nadi": {"cluster": {"acceptedSecrets": ["s" * 32, "short"]}}}, "nadi.cluster.acceptedSecrets"),
    ],
)
def test_what_cannot_be_is_refused_with_its_path(content: dict[str, Any], name: str):
    with pytest.raises(NadiError) as refused:
        deployment_of(content)
    assert name in str(refused.value)
    assert "short" not in str(refused.value)


def test_an_unknown_key_is_a_notice():
    content = {
        "deployment.config": {"type": "distributed", "natsServerURL": "x"},
        "nadi": {"cluster": {"secrets": "x"}},
    }
    assert [notice.partition(" ")[0] for notice in deployment_of(content).notices] == [
        "'deployment.config.natsServerURL'",
        "'nadi.cluster.secrets'",
    ]


def test_passwords_and_the_secret_are_not_shown():
    content = {
        "nadi": {"cluster": {"secret": "s" * 32, "acceptedSecrets": ["o" * 32]}},
        "deployment.config": {"type": "distributed", "resourceManagers": [{"host": "m", "password": "hidden-one"}]},
    }
    shown = str(as_yaml(deployment_of(content)))
    assert "s" * 32 not in shown
    assert "o" * 32 not in shown
    assert "hidden-one" not in shown


@pytest.mark.parametrize("address", ["8290", "tcp://h:1", "http://h", "http://:1", "http://h:1/path", "http://h:x"])
def test_an_entrance_is_an_address_with_a_port(address: str):
    with pytest.raises(NadiError, match="entrance"):
        deployment_of({"nadi": {"cluster": {"entrance": address}}})


def test_an_entrance_may_be_left_out():
    assert deployment_of({}).sections.own.cluster.entrance_at is None
    given = deployment_of({"nadi": {"cluster": {"entrance": "https://[::]:8290"}}})
    assert given.sections.own.cluster.entrance_at == ("https", "::", 8290)


@pytest.mark.parametrize(
    ("key", "url", "told"),
    [
        ("natsServerUrl", "nats://127.0.0.1:4222,nats://localhost:4222", False),
        ("natsServerUrl", "tls://far:4222,tls://off:4222?authority=/a.pem", False),
        ("natsServerUrl", "tls://far:4222,nats://off:4222", True),
        ("natsServerUrl", "off:4222", True),
        ("bootstrapURLs", "localhost:9092", False),
        ("bootstrapURLs", "SSL://far:9093,ssl://off:9093?authority=/a.pem", False),
        ("bootstrapURLs", "ssl://far:9093,off:9092", True),
    ],
)
def test_channels_that_lie_elsewhere_without_tls_are_a_notice(key: str, url: str, told: bool):
    found = deployment_of({"deployment.config": {"type": "distributed", key: url}}).notices
    assert any(key in notice and "to off in the clear" in notice for notice in found) == told


@pytest.mark.parametrize(
    ("type_", "secret", "told"), [("distributed", "s" * 32, False), ("distributed", "", True), ("ha", "s" * 32, True)]
)
def test_secrets_that_nobody_looks_at_are_a_notice(type_: str, secret: str, told: bool):
    own = {"cluster": {"secret": secret, "acceptedSecrets": ["o" * 32]}}
    found = deployment_of({"deployment.config": {"type": type_}, "nadi": own}).notices
    assert any("acceptedSecrets" in notice for notice in found) == told
