"""`deployment.config` of a pair: the keys of the reference, those of its older mode, and what is said of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nadi.config.clusters import DeploymentConfig
from nadi.config.deployment import Deployment, deployment_of
from nadi.errors import NadiError

SEEDS = Path(__file__).parents[3] / "shared/seeds"
CLUSTER = {
    "enabled": True,
    "groupId": "g",
    "coordinationStrategyClass": "org.wso2.carbon.cluster.coordinator.rdbms.RDBMSCoordinationStrategy",
    "strategyConfig": {
        "datasource": "D",
        "heartbeatInterval": 1000,
        "heartbeatMaxRetry": 2,
    },
}


def read(**keys: Any) -> Deployment:
    return deployment_of({"deployment.config": {"type": "ha", **keys}, "cluster.config": CLUSTER})


def of(**keys: Any) -> DeploymentConfig:
    return read(**keys).sections.deployment_config


def test_where_a_node_listens_and_how_its_partner_reaches_it_are_two_things():
    assert of().sync_server.port == 9893
    assert of().sync_server.reached_at == ("", 9893)  # every address is none that a partner could take
    server = {"host": "0.0.0.0", "port": 9893, "advertisedHost": "203.0.113.5", "advertisedPort": 19893}
    assert of(eventSyncServer=server).sync_server.reached_at == ("203.0.113.5", 19893)
    assert of(eventSyncServer={"host": "10.0.0.5", "port": 1}).sync_server.reached_at == ("10.0.0.5", 1)


def test_a_pair_whose_keys_all_have_a_meaning_says_nothing():
    assert read(eventSyncServer={"host": "0.0.0.0", "port": 9893, "advertisedHost": "a"}).notices == ()


@pytest.mark.parametrize(
    ("keys", "path", "instead"),
    [
        ({"passiveNodeDetailsWaitTimeOutMillis": 300_000}, "passiveNodeDetailsWaitTimeOutMillis", "whenever it comes"),
        (
            {"passiveNodeDetailsRetrySleepTimeMillis": 500},
            "passiveNodeDetailsRetrySleepTimeMillis",
            "whenever it comes",
        ),
        ({"eventByteBufferQueueCapacity": 20_000}, "eventByteBufferQueueCapacity", "on its disk"),
        ({"byteBufferExtractorThreadPoolSize": 5}, "byteBufferExtractorThreadPoolSize", "on its disk"),
        ({"eventSyncServer": {"bossThreads": 10}}, "eventSyncServer.bossThreads", "one thread"),
        ({"eventSyncServer": {"workerThreads": 10}}, "eventSyncServer.workerThreads", "one thread"),
        ({"eventSyncClientPool": {"maxActive": 10}}, "eventSyncClientPool.maxActive", "one connection"),
        ({"eventSyncClientPool": {"maxWait": 1}}, "eventSyncClientPool.maxWait", "one connection"),
        ({"liveSync": {"enabled": True}}, "liveSync", "/health?role=active"),
        ({"outputSyncInterval": 60_000}, "outputSyncInterval", "copied with each batch"),
        ({"stateSyncGracePeriod": 120_000}, "stateSyncGracePeriod", "catches up by itself"),
        ({"sinkQueueCapacity": 20_000}, "sinkQueueCapacity", "no output waits"),
        ({"sourceQueueCapacity": 20_000}, "sourceQueueCapacity", "on its disk"),
        ({"retryAppSyncPeriod": 60_000}, "retryAppSyncPeriod", "catches up by itself"),
    ],
)
def test_a_key_that_has_no_meaning_here_says_what_is_in_its_place(keys: dict[str, Any], path: str, instead: str):
    (notice,) = read(**keys).notices
    assert notice.startswith(f"'deployment.config.{path}' has no effect: ")
    assert instead in notice


@pytest.mark.parametrize(
    ("keys", "near"),
    [
        ({"eventSyncServers": {}}, "eventSyncServer"),
        ({"eventSyncServer": {"advertisedHosts": "a"}}, "advertisedHost"),
        ({"eventSyncClientPool": {"maxIdel": 1}}, "maxIdle"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_known_one(keys: dict[str, Any], near: str):
    (notice,) = read(**keys).notices
    assert f"did you mean '{near}'?" in notice


@pytest.mark.parametrize("port", [-1, 65_536, "x"])
def test_a_port_that_cannot_be_is_refused_with_its_path(port: object):
    with pytest.raises(NadiError, match=r"deployment\.config\.eventSyncServer\.port"):
        of(eventSyncServer={"port": port})


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the texts that the project began with are not here")
def test_the_whole_configuration_of_the_text_that_the_project_began_with_is_taken():
    (seed,) = SEEDS.glob("003_*.txt")
    text = seed.read_text()
    content = {
        **yaml.safe_load(_nested(text, "state.persistence:", 5)),
        **yaml.safe_load(_nested(text, "cluster.config:", 8)),
    }
    content |= yaml.safe_load(_nested(text, "deployment.config:", 17))
    sources = [
        {"name": name, "definition": {"configuration": {"jdbcUrl": f"jdbc:postgresql://h/{name}"}}}
        for name in ("PERSISTENCE_DB", "WSO2_CLUSTER_DB")
    ]
    found = deployment_of({**content, "wso2.datasources": {"dataSources": sources}})
    config = found.sections.deployment_config
    assert config.is_pair
    assert config.sync_server.reached_at == ("<Public ip address of the server>", 9893)
    assert found.sections.cluster.strategy.datasource == "WSO2_CLUSTER_DB"
    assert found.persistence.enabled
    assert len(found.notices) == 10
    assert all("has no effect: " in notice and "nothing reads it" not in notice for notice in found.notices)


NESTED = {"config", "strategyConfig", "eventSyncServer", "eventSyncClientPool"}


def _nested(text: str, first: str, least: int) -> str:
    """The block that begins with a line, with the indentation that the text has lost: a key with lines below it is one of `NESTED`."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.strip() == first)
    found, depth = [lines[begin]], 1
    for line in lines[begin + 1 :]:
        key = re.match(r"(\w+):( |$)", line)
        if key is None:
            break
        depth = 1 if key[1] in NESTED else depth
        found.append("  " * depth + line)
        depth = 2 if key[1] in NESTED else depth
    assert len(found) >= least, found
    return "\n".join(found)
