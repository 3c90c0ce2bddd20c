"""Finding 3: nobody speaks to Spark's driver or executors who does not know a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from nadi.errors import NadiError
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.run import Node
from nadi.pipeline.sparksecret import FILE, SECRET, authenticated, is_secret

ON = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]", "yarn", "k8s://https://host:443"])
def test_where_spark_makes_a_secret_itself_it_is_only_told_to(master: str):
    assert authenticated(master, {}) == ON


def test_a_cluster_within_one_java_gets_another_secret_each_time():
    made = [authenticated("local-cluster[2,1,1024]", {})[SECRET] for _ in range(2)]
    assert made[0] != made[1]
    assert min(map(len, made)) == 64


@pytest.mark.parametrize("conf", [{}, {"spark.authenticate": "true"}])
def test_a_cluster_without_a_secret_is_refused_by_name(conf: dict[str, str]):
    with pytest.raises(NadiError) as raised:
        authenticated("spark://host:7077", conf)
    assert raised.value.condition == "CLUSTER_WITHOUT_SECRET"
    assert "spark.authenticate=false" in str(raised.value)


def test_who_means_it_leaves_a_cluster_open():
    assert authenticated("spark://host:7077", {"spark.authenticate": "false"}) == {}


def test_the_secret_of_a_cluster_comes_from_a_file_that_only_its_user_reads(tmp_path: Path):
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    assert authenticated("spark://host:7077", {FILE: str(file)}) == {**ON, SECRET: "0123456789abcdef"}
    assert authenticated("spark://host:7077", {SECRET: "x"}) == ON


@pytest.mark.parametrize(("mode", "text"), [(0o640, "0123456789abcdef"), (0o600, "short"), (0o600, None)])
def test_a_file_that_keeps_no_secret_is_refused(tmp_path: Path, mode: int, text: str | None):
    if text is not None:
        (tmp_path / "secret").write_text(text)
        (tmp_path / "secret").chmod(mode)
    with pytest.raises(NadiError) as raised:
        authenticated("spark://host:7077", {FILE: str(tmp_path / "secret")})
    assert raised.value.condition == "INVALID_SETTING"
    assert "0123456789abcdef" not in str(raised.value)


def test_a_node_for_a_cluster_without_a_secret_starts_nothing(tmp_path: Path):
    with pytest.raises(NadiError, match="CLUSTER_WITHOUT_SECRET"):
        Node([AppText("define stream S (a int);")], NodeOptions(tmp_path / "state", "spark://host:7077"))
    assert not (tmp_path / "state").exists()


def test_settings_with_secrets_do_not_go_to_a_command_line():
    assert all(map(is_secret, (SECRET, "spark.ssl.keyStorePassword", "spark.hadoop.fs.s3a.access.key")))
    assert not any(map(is_secret, (FILE, "spark.authenticate", "spark.driver.extraJavaOptions", "spark.jars")))
