"""What a node needs to be one of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nadi.config.deployment import Deployment, deployment_of
from nadi.errors import NadiError
from nadi.server.distributed.membership import incarnation, network_of, node_key, shared_conf, shared_persistence

SHARED = {
    "state": {"url": "s3://bucket/nadi"},
    "cuts": {"url": "postgresql://db/nadi"},
    "journal": {"url": "nats://n:4222"},
}


def of(own: dict[str, Any] | None = None, **deployment: Any) -> Deployment:
    return deployment_of({"deployment.config": {"type": "distributed", **deployment}, "nadi": own or {}})


def refusal(found: Deployment) -> str:
    with pytest.raises(NadiError, match="INVALID_SETTING") as refused:
        network_of(found, found.sections.deployment_config.interface(9443))
    return str(refused.value)


@pytest.mark.parametrize(
    "deployment",
    [
        {"httpInterface": {"host": "10.0.0.5", "port": 9090}},
        {"resourceManagers": [{"host": "manager", "port": 9190, "scheme": "http"}]},
    ],
)
def test_passwords_do_not_travel_in_the_clear(deployment: dict[str, Any]):
    assert "nadi.cluster.secret" in refusal(of(**deployment))
    secret = of({"cluster": {"secret": "s" * 32}}, **deployment)
    network_of(secret, secret.sections.deployment_config.interface(9443))
    assert node_key(secret) is not None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_on_one_machine_they_may(host: str):
    found = of(httpInterface={"host": host, "port": 9090})
    network_of(found, found.sections.deployment_config.interface(9443))
    assert node_key(found) is None


def test_an_authority_has_to_be_there(tmp_path: Path):
    assert "nadi.cluster.authority" in refusal(of({"cluster": {"authority": str(tmp_path / "ca.pem")}}))


@pytest.mark.parametrize("name", SHARED)
def test_a_worker_shares_what_its_instances_need_elsewhere(name: str):
    assert shared_conf(of(SHARED))["nadi.state.url"] == "s3://bucket/nadi"
    with pytest.raises(NadiError, match=rf"nadi\.{name}\.url"):
        shared_conf(of({key: value for key, value in SHARED.items() if key != name}))


def test_later_starts_of_a_node_sort_behind_earlier_ones():
    names = [incarnation() for _ in range(100)]
    assert names == sorted(names)
    assert len(set(names)) == 100


def on_spark(**spark: Any) -> Deployment:
    return deployment_of(
        {"deployment.config": {"type": "distributed"}, "nadi": SHARED, "spark": {"master": "spark://m:7077", **spark}}
    )


def test_a_worker_does_not_take_a_whole_spark_cluster():
    with pytest.raises(NadiError, match=r"spark\.cores\.max"):
        shared_conf(on_spark())
    assert shared_conf(on_spark(cores={"max": 2}))["spark.cores.max"] == "2"
    assert shared_conf(on_spark(**{"dynamicAllocation.enabled": "true"}))["spark.dynamicAllocation.enabled"] == "true"


def test_an_instance_has_one_bucket_on_every_worker():
    assert shared_conf(of({**SHARED, "buckets": 8}))["nadi.buckets"] == "1"


def test_spark_calls_a_worker_by_its_id():
    assert shared_conf(on_spark(cores={"max": 2}))["spark.app.name"] == "nadi wso2-sp"
    assert shared_conf(on_spark(**{"cores.max": 2, "app.name": "ours"}))["spark.app.name"] == "ours"


def keeping(url: str, **block: Any) -> Deployment:
    own = {**SHARED, "state": {"url": url}} if url else {}
    return deployment_of(
        {
            "deployment.config": {"type": "distributed"},
            "nadi": own,
            "state.persistence": {"enabled": True, **block},
        }
    )


def test_revisions_of_instances_are_below_the_folder_of_the_state_and_no_node_makes_them_alone(tmp_path: Path):
    found = shared_persistence(keeping(f"{tmp_path}/state"))
    assert found.location == f"{tmp_path}/state/siddhi-app-persistence"
    assert not found.alone
    assert shared_persistence(keeping(f"file://{tmp_path}/state")) == found
    elsewhere = shared_persistence(keeping("s3://bucket/nadi", config={"location": "/mnt/revisions"}))
    assert elsewhere.location == "/mnt/revisions", "who names a folder of a machine says that all have it"


def test_revisions_of_instances_are_below_the_url_of_the_state_or_at_one_of_their_own():
    for url in ("s3://bucket/nadi?region=eu", "hdfs://name/nadi"):
        found = shared_persistence(keeping(url))
        place, mark, parameters = url.partition("?")
        assert found.location == f"{place}/siddhi-app-persistence{mark}{parameters}"
    own = "s3://other/revisions?region=eu"
    assert shared_persistence(keeping("s3://bucket/nadi", config={"location": own})).location == own


def test_revisions_in_a_folder_of_one_node_are_refused():
    with pytest.raises(NadiError, match=r"INVALID_SETTING.*persistenceStore.*DBPersistenceStore"):
        shared_persistence(keeping(""))


def test_where_no_revisions_are_wanted_nothing_is_refused():
    assert not shared_persistence(of(SHARED)).enabled


def test_the_bound_of_channels_is_also_that_of_who_fills_them():
    found = shared_conf(of({**SHARED, "cluster": {"channelBytes": 5_000}}))
    assert (found["nadi.channels.bytes"], found["nadi.http.behind"]) == ("5000", "5000")
    own = shared_conf(of({**SHARED, "cluster": {"channelBytes": 5_000}, "http": {"behind": 70}}))
    assert own["nadi.http.behind"] == "70"
    assert "nadi.channels.bytes" not in shared_conf(of(SHARED))
