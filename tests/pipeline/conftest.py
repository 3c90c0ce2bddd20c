"""The Spark session of all tests of the pipeline that need one."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.onespark import OneSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (HERE, os.environ.get("PYTHONPATH", "")) if p)


@pytest.fixture(scope="session")
def spark_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture
def spark(one_spark: OneSpark, spark_logs: Path) -> SparkSession:
    """As a node has it."""
    return one_spark.session("node", partial(_built, spark_logs))


def _built(logs: Path) -> SparkSession:
    from nadi.pipeline.session import SessionOptions, build_session

    made = build_session(SessionOptions("local[2,4]", logs))
    made.conf.set("spark.sql.shuffle.partitions", "2")
    return made
