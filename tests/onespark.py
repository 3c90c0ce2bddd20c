"""The Spark session of this process, which can have one at a time: tests that need another kind end the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OneSpark:
    """Made when the first test asks, and again where its JVM has ended or a test needs one that is built otherwise."""

    def __init__(self) -> None:
        self._kind = ""
        self._session: SparkSession | None = None

    def session(self, kind: str, build: Callable[[], SparkSession]) -> SparkSession:
        """The one that `build` makes, which `kind` names."""
        if self._session is None or kind != self._kind or not self._lives(self._session):
            self.end()
            self._session, self._kind = build(), kind
        return self._session

    def end(self) -> None:
        """End Spark, its JVM and the hosts, if there are any."""
        from nadi.pipeline.run import end_session
        from nadi.pipeline.session import end_driver

        if self._session is None:
            return
        if self._lives(self._session):
            end_session(self._session)
        else:
            end_driver(0.0)  # lets go of what is left of it
        self._session = None

    def _lives(self, session: SparkSession) -> bool:
        from pyspark import SparkContext

        from nadi.pipeline.session import driver_lost

        return SparkContext._active_spark_context is session.sparkContext and not driver_lost()


@pytest.fixture(scope="session")
def one_spark() -> Iterator[OneSpark]:
    one = OneSpark()
    yield one
    one.end()
