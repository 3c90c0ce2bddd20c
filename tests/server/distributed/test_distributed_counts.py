"""What a manager tells of an app's events and errors: the sums of what the workers have counted of its instances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter, Response
from restcluster import FakeNode, RestCluster, rest_cluster

from nadi.io.natsserver import NatsServer

SOURCE = "@source(type='http', receiver.url='http://127.0.0.1:8899/in', @map(type='json'))"
TEXT = f"""
@App:name('Orders')
{SOURCE} define stream In (a int);
@sink(type='log') define stream Large (a int);
@dist(execGroup='first') from In select a insert into Between;
@dist(execGroup='second') from Between[a > 5] select a insert into Large;
"""
SENT = {"In": 7, "Between": 6}
GIVEN = {"In": 7, "Between": 6, "Large": 2}


def counted(node: FakeNode) -> APIRouter:
    """What a worker says of each of its instances: it does not know which streams are the app's own."""
    routes = APIRouter()

    @routes.get("/siddhi-apps/{app}/details")
    async def details(app: str) -> Any:
        if app not in node.running:
            return Response(status_code=404)
        own = {"errors": 1, "refused": 2, "setAside": 3, "restarts": 4, "lastError": "it was too large"}
        return {"name": app, "status": "active", "eventsIn": SENT, "eventsOut": GIVEN, **own}

    return routes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCluster]:
    folder = tmp_path_factory.mktemp("counts")
    with NatsServer(folder / "nats") as nats, rest_cluster(folder, nats=nats.url) as made:
        made.join("w1", counted)
        made.deploy(TEXT)
        yield made


def told(cluster: RestCluster) -> dict[str, Any]:
    answer = cluster.ask("GET", "/siddhi-apps/Orders/details")
    assert answer.status_code == 200
    return dict(answer.json())


def test_events_count_where_they_come_into_the_app_and_leave_it_and_errors_on_every_worker(cluster: RestCluster):
    running = cluster.workers["w1"].node.running
    found = told(cluster)
    count = len([one for one in found["instances"] if one["counts"]])
    assert count == len(running) >= 2
    assert (found["eventsIn"], found["eventsOut"]) == ({"In": 7}, {"Large": 2})
    assert (found["errors"], found["refused"], found["setAside"]) == (count, 2 * count, 3 * count)
    assert found["instances"][0]["counts"] == {
        "eventsIn": SENT,
        "eventsOut": GIVEN,
        "errors": 1,
        "refused": 2,
        "setAside": 3,
        "restarts": 4,
        "lastError": "it was too large",
    }


def test_instances_without_an_answer_have_no_counts_and_the_others_are_summed(cluster: RestCluster):
    answers = cluster.workers["w1"].node.running
    before = dict(answers)
    gone = next(iter(before))
    del answers[gone]
    try:
        found = told(cluster)
    finally:
        answers.update(before)
    counts = {one["appName"]: one["counts"] for one in found["instances"]}
    assert counts[gone] is None
    assert found["setAside"] == 3 * sum(one is not None for one in counts.values()) == 3 * (len(counts) - 1)
