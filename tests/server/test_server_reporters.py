"""The reporters of a deployment.yaml tell what a node measures; one that cannot does not matter to the others."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import structlog
import yaml

from nadi.config.deployment import deployment_of
from nadi.metrics import AppProgress
from nadi.metrics.levels import Level
from nadi.metrics.measured import Key, Measured
from nadi.metrics.reservoirs import SlidingReservoir
from nadi.pipeline.node import AppText, NodeOptions
from nadi.server.reporters import _sample, statistics_for

CONF = """
wso2.carbon: {{id: node-7}}
wso2.metrics:
  reporting:
    csv: [{{enabled: true, location: out, includes: ['*.Sources.*']}}]
    slf4j: [{{enabled: true, excludes: ['jvm.*', 'nadi.*']}}]
wso2.metrics.jdbc:
  dataSource: [{{dataSourceName: M, scheduledCleanup: {{enabled: false}}}}]
  reporting: {{jdbc: [{{name: J}}, {{name: K, source: other, dataSource: {{dataSourceName: Away}}}}]}}
wso2.datasources:
  dataSources:
    - {{name: M, definition: {{configuration: {{jdbcUrl: 'jdbc:sqlite:{folder}/m.db'}}}}}}
    - {{name: Away, definition: {{configuration: {{jdbcUrl: 'jdbc:sqlite:/no/such/folder/m.db'}}}}}}
"""
APP = "@App:name('A') define stream In (a int); @info(name='q') from In select a insert into Out;"


def test_all_reporters_tell_when_the_node_ends_and_one_that_cannot_says_so(tmp_path: Path):
    deployment = deployment_of(yaml.safe_load(CONF.format(folder=tmp_path)), {})
    with structlog.testing.capture_logs() as logged:
        statistics = statistics_for(deployment, NodeOptions(), tmp_path)
        statistics.enter(AppText(APP))
        statistics.switch("A", Level.BASIC)
        statistics.start(lambda _name: True)
        measured = Measured({Key("Sources", "In", "http"): 5})
        statistics.note(AppProgress("A", "running", measured=measured))
        statistics.close()
    (file,) = (tmp_path / "out").iterdir()
    assert file.name == "org.wso2.siddhi.SiddhiApps.A.Siddhi.Sources.In.http.throughput.csv"
    with sqlite3.connect(tmp_path / "m.db") as found:
        rows = found.execute("select SOURCE, NAME, COUNT from METRIC_METER").fetchall()
        gauges = dict(found.execute("select NAME, VALUE from METRIC_GAUGE"))
    found.close()
    assert rows == [("node-7", "org.wso2.siddhi.SiddhiApps.A.Siddhi.Sources.In.http.throughput", 5)]
    assert float(gauges["jvm.os.physical.memory.total.size"]) > 0
    told = {one["metric"]: one for one in logged if one["event"] == "metric"}
    assert told["org.wso2.siddhi.SiddhiApps.A.Siddhi.Sources.In.http.throughput"]["count"] == 5
    assert not any(name.startswith("jvm.") for name in told)
    (failed,) = [one for one in logged if one["event"] == "metrics are not reported"]
    assert failed["reporter"] == "K"


def test_the_reservoir_is_that_of_the_settings():
    text = "wso2.metrics: {reservoir: {type: SLIDING_WINDOW, parameters: {size: 3}}}"
    made = _sample(deployment_of(yaml.safe_load(text), {}).sections.metrics.reservoir, 0.0)
    assert isinstance(made, SlidingReservoir)
    made.update([(1.0, 10)], 0.0)
    assert made.distribution(0.0).count == 3
