"""A deployment.yaml as a worker reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from nadi.config.deployment import MASKED, as_yaml, deployment_of, read_deployment
from nadi.config.placeholders import fill
from nadi.errors import NadiError

LOOKUPS = {"env": {"PORT": "8080"}.get, "sys": {"carbon.home": "/home/nadi"}.get, "sec": {"db": "s3cret"}.get}


def refused(content: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(NadiError) as raised:
        deployment_of(content, LOOKUPS)
    assert raised.value.condition == "INVALID_SETTING"
    return dict(raised.value.parameters)


def test_a_number_can_be_a_name_and_an_empty_part_of_a_section_is_none():
    content = yaml.safe_load(
        "wso2.carbon:\n  id: 5\n  ports:\ncluster.config:\n  groupId: 7\nauth.configs:\n  restAPIAuthConfigs:\nwso2.datasources:\n  dataSources:\n"
    )
    found = deployment_of(content).sections
    assert (found.carbon.id, found.cluster.group) == ("5", "7")
    assert found.datasources == deployment_of({}).sections.datasources


def test_an_empty_file_gives_a_working_node(tmp_path: Path):
    path = tmp_path / "deployment.yaml"
    path.write_text("")
    found = read_deployment(path)
    assert [(one.scheme, one.host, one.port) for one in (*found.http, *found.query)] == [
        ("http", "127.0.0.1", 9090),
        ("https", "127.0.0.1", 9443),
        ("http", "127.0.0.1", 7070),
        ("https", "127.0.0.1", 7443),
    ]
    assert found.sections.deployment.update_interval == 5
    assert found.sections.auth.rest.auth_enable
    assert found.notices == ()


def test_the_offset_moves_all_ports():
    found = deployment_of({"wso2.carbon": {"ports": {"offset": 3}}}, LOOKUPS)
    assert [one.port for one in (*found.http, *found.query)] == [9093, 9446, 7073, 7446]


def test_listeners_replace_those_of_the_defaults():
    listener = {"id": "a", "host": "0.0.0.0", "port": "${env:PORT}", "scheme": "https"}
    found = deployment_of({"wso2.transport.http": {"listenerConfigurations": [listener]}}, LOOKUPS)
    assert [(one.id, one.host, one.port, one.scheme) for one in found.http] == [("a", "0.0.0.0", 8080, "https")]


@pytest.mark.parametrize(
    ("content", "name", "wanted"),
    [
        ({"wso2.carbon": {"ports": {"offset": "many"}}}, "wso2.carbon.ports.offset", "a whole number"),
        ({"wso2.carbon": {"ports": {"offset": -1}}}, "wso2.carbon.ports.offset", "a number of 0 or more"),
        ({"wso2.carbon": ["x"]}, "wso2.carbon", "keys with values"),
        (
            {"wso2.transport.http": {"listenerConfigurations": [{"port": 1, "scheme": "ftp"}]}},
            "wso2.transport.http.listenerConfigurations[0].scheme",
            "one of 'http' or 'https'",
        ),
        (
            {"wso2.transport.http": {"listenerConfigurations": [{"scheme": "http"}]}},
            "wso2.transport.http.listenerConfigurations[0].port",
            "a value: it has no default",
        ),
        (
            {"auth.configs": {"restAPIAuthConfigs": {"authEnable": "perhaps"}}},
            "auth.configs.restAPIAuthConfigs.authEnable",
            "true or false",
        ),
        ({"nadi": {"batch": {"events": "x"}}}, "nadi.batch.events", "a whole number, 0 or more"),
        ({"wso2.carbon": {"id": "${env:NO}"}}, "wso2.carbon.id", "a placeholder with a value"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path_and_what_is_allowed(content: dict[str, Any], name: str, wanted: str):
    told = refused(content)
    assert told["name"] == name
    assert wanted in told["wanted"]


def test_a_wrong_password_is_not_shown():
    users = [{"user": {"username": "a", "password": ["hush"]}}]
    told = refused({"auth.configs": {"userManager": {"userStore": {"users": users}}}})
    assert "hush" not in str(told)


@pytest.mark.parametrize(
    ("content", "notice"),
    [
        ({"wso2.carbn": {"id": "a"}}, "'wso2.carbn' has no effect: nothing reads it; did you mean 'wso2.carbon'?"),
        (
            {"wso2.artifact.deployment": {"updateIntervall": 3}},
            "'wso2.artifact.deployment.updateIntervall' has no effect: nothing reads it; did you mean 'updateInterval'?",
        ),
        (
            {"databridge.config": {"workerThreads": 1}},
            "'databridge.config' has no effect: nadi has no Thrift and binary receivers",
        ),
    ],
)
def test_a_key_that_nothing_reads_is_a_notice_with_the_nearest_name(content: dict[str, Any], notice: str):
    assert deployment_of(content, LOOKUPS).notices == (notice,)


def test_settings_of_nadi_and_spark_are_nested_or_flat():
    content = {
        "nadi": {"batch": {"events": 5}, "variables": {"A": "x"}},
        "spark": {"master": "local[2]", "driver": {"memory": "1g"}},
    }
    found = deployment_of(content, LOOKUPS)
    assert found.conf == {"nadi.batch.events": "5", "spark.driver.memory": "1g"}
    assert (found.sections.spark.master, dict(found.sections.own.variables)) == ("local[2]", {"A": "x"})


def test_placeholders_have_values_or_defaults():
    content = {
        "a": "${sys:carbon.home}/x",
        "b": ["${carbon.home}", "${env:NO,${x}"],
        "c": "${sec:db}",
        "d": "${env:PORT}${env:PORT}",
    }
    assert fill(content, LOOKUPS) == {"a": "/home/nadi/x", "b": ["/home/nadi", "${x"], "c": "s3cret", "d": "80808080"}


def test_few_lines_of_yaml_do_not_become_a_million_values(tmp_path: Path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    path = tmp_path / "deployment.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(NadiError, match="more than 100,000 values"):
        read_deployment(path)


@pytest.mark.parametrize("text", ["a: [", "- a\n- b", "just text", "\0"])
def test_what_is_no_deployment_yaml_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "deployment.yaml"
    path.write_text(text)
    with pytest.raises(NadiError) as raised:
        read_deployment(path)
    assert raised.value.condition == "INVALID_SETTING"


def test_what_is_shown_has_no_passwords():
    content = {
        "auth.configs": {
            "userManager": {"userStore": {"users": [{"user": {"username": "u", "password": "aHVzaA=="}}]}}
        },
        "wso2.transport.http": {"listenerConfigurations": [{"port": 1, "keyStorePassword": "hush"}]},
        "state.persistence": {"enabled": True, "persistenceStore": "DBPersistenceStore", "config": {"datasource": "D"}},
        "wso2.datasources": {
            "dataSources": [
                {"name": "D", "definition": {"configuration": {"jdbcUrl": "jdbc:sqlite:/x", "password": "hush"}}}
            ]
        },
    }
    shown = yaml.safe_dump(as_yaml(deployment_of(content, LOOKUPS)))
    assert "hush" not in shown
    assert "aHVzaA==" not in shown
    assert MASKED in shown
    assert "intervalInMin" in shown


def test_apps_may_name_the_data_sources_that_the_node_does_not_use_itself() -> None:
    urls = {
        "ORDERS_DB": "jdbc:postgresql://db/orders",
        "WSO2_PERMISSIONS_DB": "jdbc:postgresql://db/permissions",
        "OF_PERMISSIONS_TOO": "jdbc:postgresql://nadi:secret@DB/permissions?x=1",
        "REVISIONS_DB": "jdbc:sqlite:/n/revisions.db",
        "Metrics": "jdbc:sqlite:/n/metrics.db",
        "CUTS_DB": "jdbc:postgresql://db/cuts",
    }
    found = deployment_of(
        {
            "wso2.datasources": {
                "dataSources": [
                    {
                        "name": name,
                        "jndiConfig": {"name": f"jdbc/{name}"},
                        "definition": {"configuration": {"jdbcUrl": url, "username": "u", "password": "p"}},
                    }
                    for name, url in urls.items()
                ]
            },
            "state.persistence": {
                "enabled": True,
                "persistenceStore": "org.wso2.carbon.stream.processor.core.persistence.DBPersistenceStore",
                "config": {"datasource": "REVISIONS_DB"},
            },
            "wso2.metrics.jdbc": {"dataSource": [{"dataSourceName": "java:comp/env/jdbc/Metrics"}]},
            "nadi": {"cuts": {"url": "postgresql://u:p@db/cuts"}},
        }
    )
    assert [(s.name, s.jdbc_url, s.password) for s in found.sources_of_apps] == [
        ("ORDERS_DB", urls["ORDERS_DB"], "p"),
        ("jdbc/ORDERS_DB", urls["ORDERS_DB"], "p"),
    ]
