"""Each key of a worker that the reference ships has here the value that it has there, or a notice says what is done instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from nadi.config.deployment import deployment_of, environment_lookups
from nadi.config.places import Bounds
from nadi.errors import NadiError

SHIPPED = yaml.safe_load((Path(__file__).parent / "shipped.yaml").read_text())
HOME = Path("/srv/nadi")
LOOKUPS = environment_lookups(HOME)

VALUES: list[tuple[str, Any]] = [
    ("carbon.id", "wso2-sp"),
    ("carbon.name", "WSO2 Stream Processor"),
    ("carbon.type", "wso2-sp"),
    ("carbon.ports.offset", 0),
    ("transport.listeners.0.port", 9090),
    ("transport.listeners.0.host", "0.0.0.0"),
    ("transport.listeners.0.scheme", "http"),
    ("transport.listeners.1.id", "msf4j-https"),
    ("transport.listeners.1.port", 9443),
    ("transport.listeners.1.scheme", "https"),
    ("transport.listeners.1.key_store_file", "/srv/nadi/resources/security/wso2carbon.jks"),
    ("query.listeners.0.port", 7070),
    ("query.listeners.1.port", 7443),
    ("deployment.update_interval", 5),
    ("deployment.repository_location", ""),
    ("persistence.enabled", False),
    ("persistence.interval", 1),
    ("persistence.keep", 2),
    ("persistence.config.location", "siddhi-app-persistence"),
    ("persistence.config.datasource", "WSO2_CARBON_DB"),
    ("persistence.config.table", "PERSISTENCE_TABLE"),
    ("errors.enabled", False),
    ("metrics.enabled", False),
    ("metrics.levels.root", "INFO"),
    ("metrics.reservoir.type", "EXPONENTIALLY_DECAYING"),
    ("metrics_jdbc.sources.0.cleanup.days_to_keep", 3),
    ("metrics_jdbc.reporting.jdbc.0.polling_period", 60),
    ("datasources.entries.1.name", "WSO2_METRICS_DB"),
    ("datasources.entries.1.jndi.name", "jdbc/WSO2MetricsDB"),
    ("datasources.entries.1.jndi.use_jndi_reference", True),
    ("datasources.entries.1.definition.type", "RDBMS"),
    ("datasources.entries.1.definition.configuration.max_pool_size", 30),
    ("datasources.entries.1.definition.configuration.driver", "org.h2.Driver"),
    ("datasources.entries.1.source.jdbc_url", "jdbc:sqlite:/srv/nadi/wso2/worker/database/WSO2_METRICS_DB.sqlite"),
    ("datasources.entries.1.source.username", "wso2carbon"),
    ("extensions.0.extension.name", "findCountryFromIP"),
    ("refs", ()),
    ("properties", {}),
    ("cluster.enabled", False),
    ("deployment_config.type", ""),
    ("auth.type", "local"),
    ("auth.sso_enabled", False),
    ("auth.rest.auth_enable", True),
    ("auth.rest.exclude", ()),
    ("auth.user_manager.admin_role", "admin"),
    ("auth.user_manager.user_store.users.0.user.username", "admin"),
    ("auth.user_manager.user_store.users.0.user.role_ids", ("1",)),
    ("auth.user_manager.user_store.roles.0.role.display_name", "admin"),
]
NOTICES = {
    "wso2.transport.http": "'wso2.transport.http.senderConfigurations' has no effect: each http sink says how it sends",
    "databridge.config": "'databridge.config' has no effect: nadi has no Thrift and binary receivers",
    "data.agent.config": "'data.agent.config' has no effect: nadi has no Thrift and binary publishers",
    "wso2.securevault": "'wso2.securevault' has no effect: secrets are kept by 'nadi secret set'",
    "wso2.metrics": "'wso2.metrics.jmx' has no effect: nadi has no JMX",
    "wso2.datasources": "data sources WSO2_CLUSTER_DB, WSO2_METRICS_DB, WSO2_PERMISSIONS_DB",
    "siddhi.extensions": "'siddhi.extensions' of geo:findCountryFromIP has no effect",
}


def at(found: Any, path: str) -> Any:
    for part in path.split("."):
        found = found[int(part)] if part.isdecimal() else getattr(found, part)
    return found


@pytest.mark.parametrize(("path", "value"), VALUES, ids=[path for path, _ in VALUES])
def test_a_shipped_key_has_the_shipped_value(path: str, value: Any):
    assert at(deployment_of(SHIPPED, LOOKUPS).sections, path) == value


@pytest.mark.parametrize("section", SHIPPED)
def test_a_shipped_section_has_the_notice_that_it_should_have_and_no_other(section: str):
    measuring = {"wso2.metrics": SHIPPED["wso2.metrics"]}  # which is off, so its database need not be there
    notices = deployment_of({**measuring, section: SHIPPED[section]}, LOOKUPS).notices
    if section not in measuring:
        notices = tuple(n for n in notices if "jmx" not in n)
    expected = NOTICES.get(section)
    if section in ("wso2.transport.http", "siddhi.stores.query.api"):
        assert sum("transportProperties" in notice for notice in notices) == 1
        notices = tuple(n for n in notices if "transportProperties" not in n)
    if expected is None:
        assert notices == ()
    else:
        assert len(notices) == 1
        assert notices[0].startswith(expected)


def test_the_data_sources_of_h2_are_files_of_sqlite_in_the_home():
    sources = deployment_of(SHIPPED, LOOKUPS).sections.datasources
    assert len(sources.files()) == 11
    assert {path.parent for path in sources.files()} == {HOME / "wso2/worker/database"}
    assert sources.source("java:comp/env/jdbc/WSO2MetricsDB", "test") == sources.source("WSO2_METRICS_DB", "test")


@pytest.mark.parametrize(
    ("url", "becomes"),
    [
        ("jdbc:h2:./database/X;AUTO_SERVER=TRUE", "jdbc:sqlite:database/X.sqlite"),
        ("jdbc:h2:file:/data/X", "jdbc:sqlite:/data/X.sqlite"),
        ("jdbc:h2:mem:X", "jdbc:h2:mem:X"),
        ("jdbc:h2:tcp://host/X", "jdbc:h2:tcp://host/X"),
        ("jdbc:postgresql://h:5432/X", "jdbc:postgresql://h:5432/X"),
        ("postgresql://h/X", "postgresql://h/X"),
    ],
)
def test_only_files_of_h2_are_replaced(url: str, becomes: str):
    entry = {"name": "D", "definition": {"configuration": {"jdbcUrl": url}}}
    found = deployment_of({"wso2.datasources": {"dataSources": [entry]}}, LOOKUPS)
    assert found.sections.datasources.source("D", "test").jdbc_url == becomes
    assert bool(found.notices) == (url != becomes)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ({"deployment.config": {"type": "other"}}, "takes no part in a deployment of type 'other'"),
        ({"cluster.config": {"enabled": True, "groupId": "sp"}}, "THIS NODE RUNS ALONE and takes no part in a cluster"),
        ({"siddhi.properties": {"shardId": "a"}}, "'siddhi.properties.shardId' has no effect"),
        ({"wso2.datasources": {"dataSource": []}}, "did you mean 'dataSources'?"),
        (
            {"state.persistence": {"intervalInMinutes": 1}},
            "'state.persistence.intervalInMinutes' has no effect: nothing",
        ),
        ({"deployment.config": {"bootstrapURLs": "k:9092"}}, "'deployment.config' has no effect: it has no 'type'"),
        (
            {"deployment.config": {"type": "distributed", "eventSyncServer": {"port": 1}}},
            "'deployment.config.eventSyncServer' has no effect: it is for the type 'ha'",
        ),
        (
            {
                "deployment.config": {
                    "type": "distributed",
                    "natsServerUrl": "nats://localhost",
                    "bootstrapURLs": "k:9092",
                }
            },
            "'deployment.config.bootstrapURLs' has no effect: channels are on NATS, by 'natsServerUrl'",
        ),
        (
            {"deployment.config": {"type": "ha", "minResourceCount": 2}},
            "'deployment.config.minResourceCount' has no effect: it is for the type 'distributed'",
        ),
        (
            {
                "deployment.config": {"type": "ha"},
                "cluster.config": {"enabled": True, "strategyConfig": {"eventPollingInterval": 5000}},
            },
            "'cluster.config.strategyConfig.eventPollingInterval' has no effect: ",
        ),
        (
            {"auth.configs": {"properties": {"kmDcrUrl": "https://h/register"}}},
            "'auth.configs.properties.kmDcrUrl' has no effect: it is for the type 'external'",
        ),
        (
            {"wso2.datasources": {"dataSources": [{"name": "D", "definition": {"type": "CASSANDRA"}}]}},
            "'wso2.datasources.dataSources[0].definition.type' has no effect: every data source is a relational database",
        ),
        ({"state.persistence": {"config": {"tables": "x"}}}, "did you mean 'table'?"),
        ({"state.persistence": {"config": {"queries": {"x": "y"}}}}, "nadi has its own statements"),
        ({"error.store": {"enabld": True}}, "did you mean 'enabled'?"),
    ],
)
def test_what_is_asked_for_and_not_done_is_said(content: dict[str, Any], part: str):
    (notice,) = deployment_of(content, LOOKUPS).notices
    assert part in notice


@pytest.mark.parametrize(
    ("key", "value", "notice"),
    [
        ("jdbcUrll", "x", "did you mean 'jdbcUrl'?"),
        ("minimumIdle", 5, "'wso2.datasources.dataSources[0].definition.configuration.minimumIdle' has no effect"),
        ("connectionTestQuery", "SELECT 2", "the driver asks the database in its own way"),
        ("isAutoCommit", True, "what belongs together is committed together"),
        ("validationTimeout", 5, "a connection is checked within 10 s"),
        ("minimumIdle", 0, ""),
        ("idleTimeout", 5, ""),
        ("maxLifetime", 5, ""),
        ("connectionTimeout", 250, ""),
        ("maxPoolSize", 50, ""),
    ],
)
def test_a_key_of_a_pool_is_taken_or_has_a_notice(key: str, value: object, notice: str):
    entry = {"name": "D", "definition": {"configuration": {"jdbcUrl": "jdbc:sqlite:x", key: value}}}
    found = deployment_of({"wso2.datasources": {"dataSources": [entry]}}, LOOKUPS).notices
    assert (len(found), notice in "".join(found)) == (1 if notice else 0, True)


def test_the_bounds_of_a_pool_reach_what_uses_the_data_source():
    keys = {"maxPoolSize": 2, "connectionTimeout": 500, "idleTimeout": 60000, "maxLifetime": "90000"}
    entry = {"name": "D", "definition": {"configuration": {"jdbcUrl": "jdbc:sqlite:x", **keys}}}
    found = deployment_of({"wso2.datasources": {"dataSources": [entry]}}, LOOKUPS).sections.datasources
    assert found.source("D", "test").bounds == Bounds(2, 0.5, 90.0, 60.0)


def test_a_wait_that_no_server_can_keep_is_refused():
    entry = {"name": "D", "definition": {"configuration": {"jdbcUrl": "jdbc:sqlite:x", "connectionTimeout": 0}}}
    with pytest.raises(NadiError, match=r"connectionTimeout.*a number of 250 or more"):
        deployment_of({"wso2.datasources": {"dataSources": [entry]}}, LOOKUPS)


def test_refs_and_properties_reach_the_apps():
    ref = {"name": "orders", "type": "http", "properties": {"receiver.url": "http://0.0.0.0:1/x", "a": 1, "b": True}}
    found = deployment_of({"siddhi.refs": [{"ref": ref}], "siddhi.properties": {"region": "eu", "limit": 5}}, LOOKUPS)
    assert found.refs == {"orders": ("http", {"receiver.url": "http://0.0.0.0:1/x", "a": "1", "b": "true"})}
    assert found.conf == {"nadi.properties.region": "eu", "nadi.properties.limit": "5"}
    assert found.notices == ()
