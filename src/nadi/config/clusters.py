"""`cluster.config` and `deployment.config`: a node that is one of several: a manager or a worker of a distributed deployment, or one of a pair.

Times are in ms. A worker whose file wants something else than that runs by itself, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from nadi.config.loopback import is_here, with_port
from nadi.config.pairs import HA, PairKeys
from nadi.config.section import Section, unused
from nadi.errors import nearest

DISTRIBUTED = "distributed"
_ALGORITHMS = {
    "RoundRobinAllocationAlgorithm": "round-robin",
    "CPUBasedAllocationAlgorithm": "least-cpu",
    "round-robin": "round-robin",
    "least-cpu": "least-cpu",
    "weight": "weight",
}
_CREATORS = {"KafkaSiddhiAppCreator": "kafka", "NatsSiddhiAppCreator": "nats"}
_OF_PAIRS = frozenset({"sync_server"})
_OF_CLUSTERS = frozenset(
    {
        "interval",
        "retries",
        "least",
        "datasource",
        "algorithm",
        "creator",
        "bootstrap_urls",
        "nats_url",
        "receiver",
        "leader_retry",
        "managers",
    }
)
_STRATEGY = "RDBMSCoordinationStrategy"


class Interface(Section):
    """Where a node's REST API is reached by others, and as whom they come to it."""

    host: str = "localhost"
    port: int = Field(default=9543, ge=1, le=65_535)
    scheme: Literal["http", "https"] = "https"
    username: str = "admin"
    password: SecretStr = SecretStr("admin")

    @property
    def address(self) -> str:
        """As a URL.

        >>> Interface(host="10.0.0.5", port=9443).address
        'https://10.0.0.5:9443'
        >>> Interface(host="::1", port=9443).address
        'https://[::1]:9443'
        """
        return f"{self.scheme}://{with_port(self.host, self.port)}"


class Strategy(Section):
    """`cluster.config.strategyConfig`: how managers agree on a leader."""

    datasource: str = "SP_MGT_DB"
    interval: int = Field(default=1_000, ge=100, le=600_000, alias="heartbeatInterval")
    retries: int = Field(default=2, ge=1, le=100, alias="heartbeatMaxRetry")
    polling: int = Field(default=1_000, ge=100, le=600_000, alias="eventPollingInterval")


class ClusterConfig(Section):
    """`cluster.config`: the managers of one cluster have the same `groupId` and the same database."""

    enabled: bool = False
    group: str = Field(default="sp", min_length=1, max_length=120, alias="groupId")
    strategy_class: str = Field(default=_STRATEGY, alias="coordinationStrategyClass")
    strategy: Strategy = Field(default=Strategy(), alias="strategyConfig")

    @field_validator("strategy_class")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value.rpartition(".")[2] != _STRATEGY:
            raise ValueError(f"'{_STRATEGY}': managers agree by a database only")
        return value


class DeploymentConfig(PairKeys):
    """`deployment.config`: of a manager, of a worker and of a node of a pair; each reads its own keys."""

    type: str = ""
    https_interface: Interface | None = Field(default=None, alias="httpsInterface")
    http_interface: Interface | None = Field(default=None, alias="httpInterface")
    interval: int = Field(default=2_000, ge=200, le=600_000, alias="heartbeatInterval")
    retries: int = Field(default=2, ge=1, le=100, alias="heartbeatMaxRetry")
    least: int = Field(default=1, ge=1, le=10_000, alias="minResourceCount")
    datasource: str = "SP_MGT_DB"
    algorithm: str = Field(default="round-robin", alias="allocationAlgorithm")
    creator: str = Field(default="", alias="appCreatorClass")
    bootstrap_urls: str = Field(default="", alias="bootstrapURLs")
    nats_url: str = Field(default="", alias="natsServerUrl")
    nats_cluster: Any = unused("clusterId", "channels are on JetStream, which has no such name")
    zookeeper: Any = unused("zooKeeperConfig", "channels are made by Kafka itself")
    zookeeper_urls: Any = unused("zooKeeperURLs", "channels are made by Kafka itself")
    queries: Any = unused("queries", "nadi has its own statements for each database")
    receiver: bool = Field(default=False, alias="isReceiverNode")
    leader_retry: int = Field(default=10_000, ge=100, le=600_000, alias="leaderRetryInterval")
    managers: tuple[Interface, ...] = Field(default=(), alias="resourceManagers")

    @field_validator("algorithm")
    @classmethod
    def _known_algorithm(cls, value: str) -> str:
        bare = value.rpartition(".")[2]
        if bare not in _ALGORITHMS:
            near = nearest(bare, list(_ALGORITHMS)) or "round-robin"
            raise ValueError(f"'{near}', or another of {', '.join(_ALGORITHMS)}")
        return _ALGORITHMS[bare]

    @field_validator("creator")
    @classmethod
    def _known_creator(cls, value: str) -> str:
        bare = value.rpartition(".")[2]
        if bare and bare not in _CREATORS:
            raise ValueError(f"one of {', '.join(_CREATORS)}: channels are on Kafka or NATS")
        return bare

    @property
    def is_distributed(self) -> bool:
        return self.type.lower() == DISTRIBUTED

    @property
    def is_pair(self) -> bool:
        return self.type.lower() == HA

    @property
    def transport(self) -> str:
        """What the channels are on: as `appCreatorClass` says, else where an address is, NATS first."""
        if self.creator:
            return _CREATORS[self.creator]
        return "kafka" if self.bootstrap_urls and not self.nats_url else "nats"

    @property
    def channel_servers(self) -> str:
        """The address of the channels' servers; "" where the file has none."""
        return self.bootstrap_urls if self.transport == "kafka" else self.nats_url

    def interface(self, port: int, http: int = 9190) -> Interface:
        """Where others reach this node; `port` (https) and `http` are those of its kind, for interfaces without one."""
        if self.https_interface is not None:
            return _with(self.https_interface, port, {})
        if self.http_interface is not None:
            return _with(self.http_interface, http, {"scheme": "http"})
        return Interface(port=port)


def _with(given: Interface, port: int, update: dict[str, Any]) -> Interface:
    """An interface; a port that the file does not say is this one."""
    return given.model_copy(update=update if "port" in given.model_fields_set else {**update, "port": port})


class ClusterSecurity(Section):
    """`nadi.cluster`: what the nodes of a cluster know each other by, how large channels get, and where a node takes messages for http sources."""

    secret: SecretStr = SecretStr("")
    accepted: tuple[SecretStr, ...] = Field(default=(), alias="acceptedSecrets")
    authority: str = ""
    channel_bytes: int = Field(default=-1, ge=-1, alias="channelBytes")
    channel_replicas: int = Field(default=1, ge=1, le=5, alias="channelReplicas")
    entrance: str = ""

    @field_validator("secret")
    @classmethod
    def _is_long(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value.get_secret_value()) < 32:
            raise ValueError("a text of at least 32 random characters")
        return value

    @field_validator("accepted")
    @classmethod
    def _are_long(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(one.get_secret_value()) < 32 for one in value):
            raise ValueError("a list of texts of at least 32 random characters each")
        return value

    @field_validator("entrance")
    @classmethod
    def _is_address(cls, value: str) -> str:
        if value:
            listener_of(value)
        return value

    @property
    def entrance_at(self) -> tuple[str, str, int] | None:
        """Scheme, host and port of the entrance; None where there is none."""
        return listener_of(self.entrance) if self.entrance else None


def listener_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port. Errors: ValueError, with what is wanted.

    >>> listener_of("http://0.0.0.0:8290")
    ('http', '0.0.0.0', 8290)
    """
    parts = urlsplit(url)
    port = parts.port
    if parts.scheme not in ("http", "https") or not parts.hostname or port is None or parts.path.strip("/"):
        raise ValueError("http://host:port or https://host:port")
    return parts.scheme, parts.hostname, port


def notices(cluster: ClusterConfig, deployment: DeploymentConfig, own: ClusterSecurity) -> Iterator[str]:
    """What has no effect in a deployment of this type; and strong words: two nodes that do not know of each other would both run the same apps."""
    if own.accepted and not deployment.is_distributed:
        yield f"'nadi.cluster.acceptedSecrets' has no effect: it is for the type '{DISTRIBUTED}'"
    elif own.accepted and not own.secret.get_secret_value():
        yield "'nadi.cluster.acceptedSecrets' has no effect without 'nadi.cluster.secret': nodes do not sign what they ask"
    if deployment.is_pair:
        yield from _of_others(deployment, _OF_CLUSTERS, DISTRIBUTED)
        if "polling" in cluster.strategy.model_fields_set:
            polling = "'cluster.config.strategyConfig.eventPollingInterval' has no effect"
            yield f"{polling}: a node of a pair sees with each heartbeat who is there"
    elif deployment.is_distributed:
        yield from _of_others(deployment, _OF_PAIRS, HA)
        if deployment.transport == "nats" and deployment.nats_url and deployment.bootstrap_urls:
            yield "'deployment.config.bootstrapURLs' has no effect: channels are on NATS, by 'natsServerUrl'"
        if far := _in_the_clear(deployment.channel_servers):
            key, there = (
                ("natsServerUrl", f"servers with TLS, as in tls://{far}:4222?authority=…")
                if deployment.transport == "nats"
                else ("bootstrapURLs", f"brokers with TLS, as in ssl://{far}:9093?authority=…")
            )
            yield f"'deployment.config.{key}': what apps say goes to {far} in the clear; name {there}"
        if deployment.transport == "kafka" and deployment.nats_url:
            yield "'deployment.config.natsServerUrl' has no effect: channels are on Kafka, by 'appCreatorClass'"
    else:
        yield from _alone(cluster, deployment)


def _in_the_clear(urls: str) -> str:
    """The first server on another machine to which nothing is encrypted, "" for none.

    >>> _in_the_clear("nats://127.0.0.1:4222,nats://here:4222"), _in_the_clear("tls://here:4222,tls://there:4222?authority=/a.pem")
    ('here', '')
    >>> _in_the_clear("127.0.0.1:9092,there:9092"), _in_the_clear("SSL://there:9093?authority=/a.pem")
    ('there', '')
    """
    for url in urls.partition("?")[0].split(","):
        parts = urlsplit(url.strip() if "://" in url else f"nats://{url.strip()}")
        if parts.scheme.lower() not in ("tls", "wss", "ssl") and parts.hostname and not is_here(parts.hostname):
            return parts.hostname
    return ""


def _of_others(deployment: DeploymentConfig, names: frozenset[str], kind: str) -> Iterator[str]:
    """The keys of the file that are for another type of deployment."""
    for name in sorted(names & deployment.model_fields_set):
        alias = type(deployment).model_fields[name].alias or name
        yield f"'deployment.config.{alias}' has no effect: it is for the type '{kind}'"


def _alone(cluster: ClusterConfig, deployment: DeploymentConfig) -> Iterator[str]:
    alone = "THIS NODE RUNS ALONE and takes no part in"
    do_not = "do not start another node with the same apps: each would read all inputs and write all outputs"
    if deployment.type:
        yield f"'deployment.config' has no effect: {alone} a deployment of type '{deployment.type}'; {do_not}"
    elif deployment.model_fields_set or deployment.model_extra:
        yield f"'deployment.config' has no effect: it has no 'type' ('{DISTRIBUTED}' or '{HA}')"
    if cluster.enabled:
        yield f"'cluster.config' has no effect: {alone} a cluster; {do_not}"
