"""What runs the groups of a cluster's apps, as a manager's deployment.yaml says and as the texts of partial apps show."""

from __future__ import annotations

from typing import Any

import pytest

from nadi.config.deployment import deployment_of
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.plan.distribution import Placement, distribute
from nadi.server.distributed.execution import Execution
from nadi.server.distributed.succession import goes_on

APP = """@app:name('A') @app:spark(pool = 'shared')
@source(type = 'http', receiver.url = 'http://127.0.0.1:1/in', @map(type = 'json'))
define stream S (k string, v long);
@dist(execGroup = 'good') from S[v > 0] select k, v insert into T;
@dist(execGroup = 'sums', parallel = '3')
partition with (k of T) begin from T select k, sum(v) as total insert into U; end;
"""
ALONE = APP.replace(", parallel = '3'", "")


def execution(master: str, own: dict[str, Any] | None = None) -> Execution:
    return Execution.of(deployment_of({"spark": {"master": master}, "nadi": own or {}}))


def test_the_master_of_a_cluster_runs_the_groups_of_apps():
    assert execution("local[*,4]") == execution("local[2]", {"buckets": 8}) == Execution()
    assert execution("spark://m:7077") == execution("yarn") == Execution(Placement.SPARK, 1)
    assert execution("spark://m:7077", {"buckets": 8}) == Execution(Placement.SPARK, 8)


@pytest.mark.parametrize("made", [Execution(), Execution(Placement.SPARK), Execution(Placement.SPARK, 2)])
def test_the_texts_of_partial_apps_show_how_an_app_was_cut(made: Execution):
    topology = distribute(
        APP, default_registry(), connectors, placement=made.placement, least_buckets=made.least_buckets
    )
    assert Execution.of_parts(i.text for i in topology.instances) == made


def cut(text: str, placement: Placement) -> Any:
    return distribute(text, default_registry(), connectors, placement=placement)


def test_what_ran_as_instances_does_not_go_on_as_buckets():
    assert not goes_on(cut(APP, Placement.INSTANCES), cut(APP, Placement.SPARK))
    assert not goes_on(cut(APP, Placement.SPARK), cut(APP, Placement.INSTANCES))


def test_groups_of_one_part_are_the_same_on_both():
    assert goes_on(cut(ALONE, Placement.INSTANCES), cut(ALONE, Placement.SPARK))
