"""What is changed in the JVM beside its settings: each change is in effect with the Spark that is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nadi.pipeline import catalyst, session
from nadi.pipeline.localfiles import CLASS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def files(spark: SparkSession) -> tuple[Any, Any]:
    """The file system of all that is written through `file://`, and a way to name a path of it."""
    jvm: Any = spark._jvm
    system = jvm.org.apache.hadoop.fs.FileSystem.get(
        jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
    )
    return system, jvm.org.apache.hadoop.fs.Path


def test_a_file_has_the_permissions_that_hadoop_gives_it_and_no_checksum_beside_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    system, path = files(spark)
    assert system.getRaw().getClass().getName() == CLASS
    system.create(path(str(tmp_path / "made" / "one"))).close()
    assert [p.name for p in (tmp_path / "made").iterdir()] == ["one"]
    assert (tmp_path / "made" / "one").stat().st_mode & 0o7777 == 0o644  # less what Hadoop's own umask takes
    assert (tmp_path / "made").stat().st_mode & 0o7777 == 0o755


def test_permissions_can_be_changed_with_and_without_the_sticky_bit(spark: SparkSession, tmp_path: Path) -> None:
    system, path = files(spark)
    permission: Any = spark._jvm.org.apache.hadoop.fs.permission.FsPermission
    for wanted in ("600", "1777"):
        system.setPermission(path(str(tmp_path)), permission(wanted))
        assert tmp_path.stat().st_mode & 0o7777 == int(wanted, 8)
        system.setPermission(path(str(tmp_path)), permission("755"))


def test_catalyst_keeps_no_counts_of_its_rules(spark: SparkSession) -> None:
    assert spark.range(3).groupBy("id").count().count() == 3
    meter: Any = spark._jvm.org.apache.spark.sql.catalyst.rules.QueryExecutionMetering.INSTANCE()
    assert (meter.totalNumRuns(), meter.totalTime(), meter.totalNumEffectiveRuns()) == (0, 0, 0)


def test_threads_without_a_session_have_the_settings_of_the_node(spark: SparkSession) -> None:
    fallback: Any = spark._jvm.org.apache.spark.sql.internal.SQLConf.getFallbackConf()
    assert fallback.getConfString("spark.sql.codegen.factoryMode") == "NO_CODEGEN"


def test_the_configuration_that_each_batch_copies_has_nothing_of_yarn_and_mapreduce_that_nobody_has_set(
    spark: SparkSession,
) -> None:
    configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()
    assert configuration.getPropsWithPrefix("yarn.").isEmpty()
    assert configuration.get("mapreduce.job.reduces") is None
    assert configuration.get("mapreduce.fileoutputcommitter.algorithm.version") == "1"  # Spark sets this
    assert configuration.get("fs.defaultFS") == "file:///"


def test_a_spark_that_is_another_one_inside_is_left_as_it_is_and_that_is_told(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(catalyst, "COUNTS", ("someOtherMap",))
    session.quicken(spark, (catalyst.lighten,))
    (told,) = (record.getMessage() for record in caplog.records if record.name == "nadi")
    assert "lighten" in told
    assert "NoSuchFieldException: someOtherMap" in told
    assert "\n" not in told
