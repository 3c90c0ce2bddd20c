"""`wso2.metrics`, `wso2.metrics.jdbc` and `nadi: otlp:`: keys and defaults of the reference."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nadi.config.deployment import as_yaml, deployment_of
from nadi.errors import NadiError

SHIPPED = """
wso2.metrics:
  enabled: false
  reporting:
    console:
      - {name: Console, enabled: false, pollingPeriod: 5}
wso2.metrics.jdbc:
  dataSource:
    - &JDBC01
      dataSourceName: java:comp/env/jdbc/WSO2MetricsDB
      scheduledCleanup: {enabled: true, daysToKeep: 3, scheduledCleanupPeriod: 86400}
  reporting:
    jdbc:
      - {name: JDBC, enabled: true, dataSource: *JDBC01, pollingPeriod: 60}
wso2.datasources:
  dataSources:
    - name: WSO2_METRICS_DB
      jndiConfig: {name: jdbc/WSO2MetricsDB}
      definition: {type: RDBMS, configuration: {jdbcUrl: 'jdbc:postgresql://db/WSO2_METRICS_DB', username: a, password: b}}
"""


def of(text: str) -> Any:
    return deployment_of(yaml.safe_load(text) or {}, {})


def test_without_sections_the_node_measures_and_nobody_is_told():
    found = of("")
    metrics = found.sections.metrics
    assert metrics.enabled
    assert (metrics.levels.root, metrics.reservoir.type, metrics.reservoir.parameters.size) == (
        "INFO",
        "EXPONENTIALLY_DECAYING",
        1_028,
    )
    reporting = metrics.reporting
    assert [(r.name, r.enabled) for r in (*reporting.console, *reporting.csv, *reporting.slf4j)] == [
        ("Console", False),
        ("CSV", False),
        ("SLF4J", False),
    ]
    assert {r.polling_period for r in (*reporting.console, *reporting.csv, *reporting.slf4j)} == {60}
    assert reporting.slf4j[0].logger_name == "metrics"
    assert found.metrics_places == ()
    assert found.sections.own.otlp.endpoint == ""


def test_the_shipped_sections_find_their_database_by_its_jndi_name():
    found = of(SHIPPED)
    assert found.notices == ()
    assert not found.sections.metrics.enabled
    assert found.sections.metrics.reporting.console[0].polling_period == 5
    ((reporter, source, place),) = found.metrics_places
    assert (reporter.polling_period, source.cleanup.days_to_keep, source.cleanup.period) == (60, 3, 86_400)
    assert (place.jdbc_url, place.username, place.password) == ("jdbc:postgresql://db/WSO2_METRICS_DB", "a", "b")


def test_a_reporter_whose_database_is_nowhere_does_not_matter_while_nothing_is_measured():
    text = "wso2.metrics: {enabled: false}\nwso2.metrics.jdbc: {reporting: {jdbc: [{name: J}]}}"
    assert of(text).metrics_places == ()
    with pytest.raises(NadiError, match="WSO2MetricsDB"):
        of(text.replace("false", "true"))


def test_a_reporter_stands_alone_or_in_a_list_and_levels_are_words_also_without_quotes():
    found = of("""
wso2.metrics:
  levels: {rootLevel: info, levels: {jvm.threads: DEBUG, jvm.memory: OFF}}
  reservoir: {type: SLIDING_TIME_WINDOW, parameters: {window: 5, windowUnit: MINUTES}}
  reporting:
    csv: {enabled: true, location: out, pollingPeriod: 1, includes: ['*.latency'], useRegexFilters: false}
""")
    metrics = found.sections.metrics
    assert metrics.levels.root == "INFO"
    assert metrics.levels.levels == {"jvm.threads": "DEBUG", "jvm.memory": "OFF"}
    assert metrics.reservoir.parameters.seconds == 300
    assert metrics.reporting.csv[0].includes == ("*.latency",)
    assert found.notices == ()


def test_what_has_no_effect_is_noted():
    (notice,) = of("wso2.metrics: {reservoir: {type: HDR_HISTOGRAM}}").notices
    assert "nadi has no HDR_HISTOGRAM" in notice
    (notice,) = of("wso2.metrics: {reporting: {console: [{enabeld: true}]}}").notices
    assert "did you mean 'enabled'" in notice


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("wso2.metrics: {jmx: {registerMBean: true}}", "wso2.metrics.jmx"),
        ("wso2.metrics: {jmx: {registerMBean: false, name: 'x:type=Y'}}", "wso2.metrics.jmx"),
        ("wso2.metrics: {reporting: {jmx: {enabled: true}}}", "wso2.metrics.reporting.jmx"),
        ("wso2.metrics: {reporting: {jmx: [{name: JMX, domain: x}]}}", "wso2.metrics.reporting.jmx"),
        ("wso2.metrics.prometheus: {reporting: {prometheus: [{enabled: true}]}}", "wso2.metrics.prometheus"),
        ("wso2.metrics.das: {reporting: {das: [{enabled: true}]}}", "wso2.metrics.das"),
        (
            "wso2.metrics: {reservoir: {parameters: {numberOfSignificantValueDigits: 3}}}",
            "wso2.metrics.reservoir.parameters.numberOfSignificantValueDigits",
        ),
        (
            "wso2.metrics: {reservoir: {parameters: {resetOnSnapshot: true}}}",
            "wso2.metrics.reservoir.parameters.resetOnSnapshot",
        ),
        ("wso2.metrics: {reservoir: {parameters: {window: 5}}}", "wso2.metrics.reservoir.parameters.window"),
        (
            "wso2.metrics.jdbc: {dataSource: [{dataSourceName: M, lookupDataSource: false}]}",
            "wso2.metrics.jdbc.dataSource[0].lookupDataSource",
        ),
    ],
)
def test_a_key_of_the_reference_that_nadi_does_not_use_is_noted(text: str, path: str):
    (notice,) = of(text).notices
    assert notice.startswith(f"'{path}' has no effect: ")
    assert "nothing reads it" not in notice


def test_parameters_of_a_reservoir_as_they_are_shipped_ask_for_nothing():
    shipped = "{size: 1028, window: 1, windowUnit: SECONDS, numberOfSignificantValueDigits: 2, resetOnSnapshot: false}"
    assert of(f"wso2.metrics: {{reservoir: {{parameters: {shipped}}}}}").notices == ()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("wso2.metrics: {levels: {rootLevel: LOUD}}", "wso2.metrics.levels.rootLevel"),
        ("wso2.metrics: {reporting: {csv: [{pollingPeriod: 0}]}}", "wso2.metrics.reporting.csv[0].pollingPeriod"),
        ("wso2.metrics.jdbc: {reporting: {jdbc: [{name: J}]}}", "wso2.datasources (there are: none)"),
        ("wso2.metrics.jdbc: {reporting: {jdbc: [{dataSource: X}]}}", "wso2.metrics.jdbc.dataSource (none)"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(text: str, part: str):
    with pytest.raises(NadiError, match="INVALID_SETTING") as refused:
        of(text)
    assert part in str(refused.value)


def test_secrets_of_a_collector_are_not_shown():
    found = of("nadi: {otlp: {endpoint: 'http://c:4318/v1/metrics', headers: {authorization: Bearer s3cret}}}")
    assert found.sections.own.otlp.headers["authorization"].get_secret_value() == "Bearer s3cret"
    assert "s3cret" not in str(as_yaml(found))
    assert "s3cret" not in repr(found)
    assert found.conf == {}
