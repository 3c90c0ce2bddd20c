"""What a cluster of nadi stands on whose groups a Spark cluster runs and whose machines share no folder: PostgreSQL, an S3-compatible server, Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from clusternodes import Cluster, Ground, cluster
from servers import databases, sparkcluster
from servers.sparkcluster import EXECUTOR, HOST, SECRET

SPARK = (
    '{{master: "{master}", cores.max: 2, executor.cores: 1, driver.host: 127.0.0.1, driver.memory: 512m, '
    'executor.memory: 512m, authenticate.secret.file: "{secret}"}}'
)
"""Each worker has two executors, one on each machine of Spark."""
SETTINGS = "  kernel: rows\n  hosts: 1\n  batch: {interval: 200}\n"
"""Queries that are not compiled, as each machine would have to do it for itself."""
_DRIVER = re.compile(r"--driver-url \S+:(\d+)")


@dataclass
class OnSpark:
    """A cluster of nadi, the cluster of Spark under it, and the database of its sinks."""

    nodes: Cluster
    spark: sparkcluster.Cluster
    database: databases.Database

    @property
    def sink(self) -> str:
        """The options of a sink, but its table."""
        return (
            f"type = 'rdbms', url = '{self.database.jdbc}', username = 'nadi', password = \"{self.database.password}\""
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the database has; nothing before the table is there."""
        with psycopg.connect(
            host="127.0.0.1", port=self.database.port, user="nadi", password=self.database.password, dbname="test"
        ) as connection:
            try:
                return connection.execute(query).fetchall()
            except psycopg.errors.UndefinedTable:
                return []

    def executors(self) -> dict[str, list[int]]:
        """The executors of each driver, by its port."""
        found: dict[str, list[int]] = {}
        for pid in self.spark.processes(EXECUTOR):
            if of := _DRIVER.search(sparkcluster.words(pid)):
                found.setdefault(of[1], []).append(pid)
        return found

    def hosts(self) -> list[int]:
        """The hosts on all machines of Spark."""
        return self.spark.processes(HOST)


@contextmanager
def on_spark(folder: Path) -> Iterator[OnSpark]:
    """One manager, two workers, a master of Spark with two workers, each of which could have all executors."""
    with ExitStack() as stack:
        try:
            database = stack.enter_context(databases.postgres())
        except databases.NotPossible as reason:
            pytest.skip(str(reason))
        (folder / "spark").mkdir()
        spark = stack.enter_context(sparkcluster.cluster(folder / "spark", cores=4))
        store = stack.enter_context(sparkcluster.object_store(folder, 0.0))
        url = f"postgresql://nadi:{quote(database.password, safe='')}@127.0.0.1:{database.port}/test"
        ground = Ground(store, url, url, SPARK.format(master=spark.master, secret=spark.secret), SETTINGS, SECRET)
        nodes = stack.enter_context(cluster(folder, ground=ground))
        made = OnSpark(nodes, spark, database)
        nodes.until(lambda: len(made.hosts()) == 4)  # they start with their executors
        yield made
