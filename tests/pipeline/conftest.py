"""One Spark session for all tests of the pipeline that need one, made when the first asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (HERE, os.environ.get("PYTHONPATH", "")) if p)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from nadi.pipeline.run import end_session
    from nadi.pipeline.session import SessionOptions, build_session

    session = build_session(SessionOptions("local[2,4]", tmp_path_factory.mktemp("logs")))
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    end_session(session)
