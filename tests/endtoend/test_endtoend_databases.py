"""A worker whose databases are set up as the guides for WSO2 Stream Processor say: role, databases, SQL scripts, data sources by name.

On PostgreSQL with the scripts as they stand (data/metrics.sql, data/status.sql), and on MariaDB, which stands for MySQL.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from nodes import COMMAND, lines, nadi
from servers import asking
from servers.ports import free_ports
from workernode import WorkerNode, working

from tests.servers.databases import Database, NotPossible, mariadb, postgres

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

DATABASES = ("DASHBOARD_DB", "PERSISTENCE_DB", "WSO2_CLUSTER_DB", "WSO2_METRICS_DB", "WSO2_STATUS_DASHBOARD_DB")
PASSWORD = "their own, with a 'quote'"

JNDI = {"WSO2_METRICS_DB": "WSO2MetricsDB"}  # the name by which the metrics ask for it

SOURCE = """
    - name: {name}
      description: The datasource used for {name}
      jndiConfig:
        name: jdbc/{jndi}
        useJndiReference: true
      definition:
        type: RDBMS
        configuration:
          jdbcUrl: jdbc:{kind}://127.0.0.1:{port}/{name}
          username: wso2
          password: ${{sec:wso2.password}}
          driverClassName: {driver}
          maxPoolSize: 10
          idleTimeout: 60000
          connectionTestQuery: SELECT 1
          validationTimeout: 30000
          isAutoCommit: false"""
CONFIGURATION = """
wso2.carbon:
  id: node-1
wso2.metrics:
  enabled: true
wso2.metrics.jdbc:
  dataSource:
    - dataSourceName: java:comp/env/jdbc/WSO2MetricsDB
  reporting:
    jdbc: [{{name: JDBC, enabled: true, pollingPeriod: 1}}]
state.persistence:
  enabled: true
  intervalInMin: 1
  revisionsToKeep: 2
  persistenceStore: org.wso2.carbon.stream.processor.core.persistence.DBPersistenceStore
  config:
    datasource: PERSISTENCE_DB # A datasource with this name should be defined in wso2.datasources namespace
    table: PERSISTENCE_TABLE
cluster.config:
  enabled: true
  groupId: group-1
  coordinationStrategyClass: org.wso2.carbon.cluster.coordinator.rdbms.RDBMSCoordinationStrategy
  strategyConfig:
    datasource: WSO2_CLUSTER_DB
    heartbeatInterval: 1000
    heartbeatMaxRetry: 2
    eventPollingInterval: 1000
wso2.datasources:
  dataSources:{sources}
"""
APP = """@App:name('Sums')
@App:statistics('true')
@source(type='http', receiver.url='http://127.0.0.1:{port}/in', @map(type='json'))
define stream In (k string, n long);
@sink(type='file', file.uri='{out}', @map(type='json'))
define stream Out (k string, total long);
@info(name='sums') from In select k, sum(n) as total group by k insert into Out;
"""


@dataclass
class SetUp:
    """A server with the role and the databases of the guides."""

    server: Database

    @property
    def kind(self) -> str:
        return "postgresql" if self.server.kind == "postgresql" else "mysql"

    def ask(self, statement: str, database: str, user: str = "", file: Path | None = None) -> str:
        """What the database's own client prints."""
        server, who = self.server, user or self.server.user
        secret = PASSWORD if user else server.password
        if self.kind == "postgresql":
            command = ["psql", "-h", "127.0.0.1", "-p", str(server.port), "-U", who, "-At", "-d", database]
            command += ["-f", str(file)] if file else ["-c", statement]
        else:
            command = ["mariadb", "--no-defaults", "-N", "-B", "-e", statement]
            if user:
                command += ["-h", "127.0.0.1", "-P", str(server.port), f"-u{user}", database]
            else:  # the user of the tests may not grant, and root comes through the socket only
                command, secret = [*command, "-S", str(server.folder / "socket"), "-uroot"], ""
        environment = {**os.environ, "PGPASSWORD": secret, "MYSQL_PWD": secret}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def prepare(self) -> None:
        """As the guides have it."""
        quoted = PASSWORD.replace("'", "''")
        if self.kind == "postgresql":
            self.ask(f"create role wso2 with login password '{quoted}'", "postgres")
            for name in DATABASES:
                self.ask(f'CREATE DATABASE "{name}" with owner wso2', "postgres")
            for script in ("status.sql", "metrics.sql"):  # each makes its database first, which is there already
                self.ask("", "postgres", "wso2", Path(__file__).parent / "data" / script)
        else:
            self.ask(f"CREATE USER wso2@'%' IDENTIFIED BY '{quoted}'", "")
            for name in DATABASES:
                self.ask(f"CREATE DATABASE {name}; GRANT ALL ON {name}.* TO wso2@'%'", "")

    def configuration(self) -> str:
        driver = "org.postgresql.Driver" if self.kind == "postgresql" else "com.mysql.jdbc.Driver"
        sources = "".join(
            SOURCE.format(name=name, jndi=JNDI.get(name, name), kind=self.kind, port=self.server.port, driver=driver)
            for name in ("WSO2_CLUSTER_DB", "WSO2_METRICS_DB", "PERSISTENCE_DB")
        )
        return CONFIGURATION.format(sources=sources)

    def revisions(self) -> list[str]:
        column = "siddhiappname" if self.kind == "postgresql" else "siddhiAppName"
        rows = self.ask(
            f"SELECT {column}, revision FROM PERSISTENCE_TABLE ORDER BY id",
            "PERSISTENCE_DB",
            "wso2",
        )
        names = [line.replace("\t", "|").split("|") for line in rows.splitlines()]
        assert all(app == "Sums" for app, _ in names)
        return [revision for _, revision in names]

    def measured(self, table: str) -> int:
        """How many rows a table of metrics has of the worker."""
        query = f"SELECT count(*) FROM {table} WHERE SOURCE = 'node-1'"
        return int(self.ask(query, "WSO2_METRICS_DB", "wso2"))


@pytest.fixture(scope="module", params=["postgresql", "mysql"])
def databases(request: pytest.FixtureRequest) -> Iterator[SetUp]:
    try:
        with (postgres if request.param == "postgresql" else mariadb)() as server:
            made = SetUp(server)
            made.prepare()
            yield made
    except NotPossible as reason:
        pytest.skip(str(reason))


@pytest.fixture
def worker(databases: SetUp, tmp_path: Path) -> Iterator[WorkerNode]:
    home = tmp_path / "home"
    kept = subprocess.run(
        [*COMMAND, "secret", "set", "wso2.password", "--home", str(home)],
        input=PASSWORD,
        text=True,
        check=False,
        capture_output=True,
    )
    assert kept.returncode == 0, kept.stderr
    with working(tmp_path, databases.configuration()) as made:
        yield made


def totals(out: Path) -> list[int]:
    return [json.loads(line)["event"]["total"] for line in lines(out)]


def test_a_worker_keeps_its_revisions_in_the_databases_of_the_guides(databases: SetUp, worker: WorkerNode):
    said = worker.node.said()
    assert "'cluster.config' has no effect: THIS NODE RUNS ALONE" in said  # the guides' pair has tests of its own
    (port,) = free_ports(1)
    out = worker.home / "files" / "out.jsonl"
    worker.deploy("Sums", APP.format(port=port, out=out))

    def feed(n: int) -> None:
        event = {"event": {"k": "a", "n": n}}
        assert asking.post(f"http://127.0.0.1:{port}/in", json=event).status_code == 202

    feed(1)
    feed(2)
    worker.node.until(lambda: totals(out) == [1, 3])
    revision = worker.ask("POST", "/Sums/backup").json()["revision"]
    assert revision in databases.revisions()

    worker.node.until(lambda: databases.measured("METRIC_GAUGE") > 0 and databases.measured("METRIC_METER") > 0)

    feed(4)
    worker.node.until(lambda: totals(out) == [1, 3, 7])
    worker.node.signal(signal.SIGTERM)
    assert worker.node.wait() == 0
    assert len(databases.revisions()) == 2  # the stop has made one, and as many are kept
    worker.start()
    restored = worker.ask("POST", "/Sums/restore", params={"revision": revision})
    assert restored.json()["message"] == f"State restored to revision {revision} for Siddhi App :Sums"
    worker.node.until(lambda: worker.active("Sums"))
    feed(8)
    worker.node.until(lambda: totals(out) == [1, 3, 7, 15])
    assert PASSWORD not in worker.node.said()

    listed = nadi(
        *("revision", "list", "Sums", "--json", "--config", worker.folder / "deployment.yaml"),
        *("--state-dir", worker.home / "state"),
    )
    assert revision in listed.stdout, listed.stderr
    assert worker.ask("DELETE", "/Sums/revisions", params={"enabledRedeployment": "false"}).status_code == 200
    assert databases.revisions() == []
