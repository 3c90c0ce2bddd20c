"""Before an app changes, workers try the new version: which of them tries what, and what becomes of what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from fastapi import APIRouter
from restcluster import FakeNode, RestCluster, rest_cluster
from server_build import waits
from servers import asking
from structlog.testing import capture_logs
from test_distributed_revisionroutes import serving

from nadi.cluster.changes import part_of
from nadi.cluster.contract import NoAnswer, Seen
from nadi.cluster.messages import Deploy, PartText
from nadi.cluster.rows import Part, Placement, Row, WorkerRow, key_of
from nadi.errors import NadiError
from nadi.pipeline.node import NodeOptions
from nadi.pipeline.revision.inheritance import Ancestor, Heritage
from nadi.pipeline.revision.trial import Told, Wish
from nadi.server.distributed.instancetrials import InstanceTrials
from nadi.server.distributed.trials import Trial, Trials, placed, trials_of
from nadi.server.distributed.wire import Answer
from nadi.server.preparation import AppPreparation
from nadi.server.rest import instancestates


def part(instance: str, text: str, home: str = "", heritage: str = "", receiver: bool = False) -> PartText:
    return PartText(instance, instance.rpartition("-")[0], text, receiver, home=home, heritage=heritage)


def known(*parts: PartText) -> dict[str, Part]:
    return {each.instance: part_of("A", each) for each in parts}


def worker(name: str, gone: bool = False, draining: bool = False, receiver: bool = False) -> WorkerRow:
    return WorkerRow(name, f"http://{name}", "i", receiver, draining, gone, 0)


def seen(*rows: Row) -> Seen:
    return Seen(0, {key_of(row): row for row in rows})


# ---- what is tried


def test_of_each_group_whose_text_has_changed_one_instance_is_tried_with_what_it_has():
    before = known(part("A-f-1", "f"), part("A-g-1", "g1"), part("A-g-2", "g2"))
    deploy = Deploy("A", "text", (part("A-f-1", "f"), part("A-g-1", "new1"), part("A-g-2", "new2")))
    heritage = Heritage((Ancestor("A-g-1", "g1"),)).to_json()
    assert trials_of(deploy, before) == (Trial("A-g-1", "new1", "", heritage),)


def test_an_instance_that_goes_on_in_its_home_is_tried_with_the_state_there():
    before = known(part("A-g-1", "g1", "A-g-1~v2-0a1b2c", "what it once began with"))
    deploy = Deploy("A", "text", (part("A-g-1", "new1", "A-g-1~v2-0a1b2c", "what it once began with"),))
    heritage = Heritage((Ancestor("A-g-1~v2-0a1b2c", "g1"),)).to_json()
    assert trials_of(deploy, before) == (Trial("A-g-1", "new1", "A-g-1~v2-0a1b2c", heritage),)


def test_in_an_app_that_drains_instances_are_tried_with_what_they_will_inherit():
    before = known(part("A-g-1", "g1"))
    heir = Heritage((Ancestor("A-g-1", "g1"),), 0, (0, 64)).to_json()
    parts = (part("A-g-1", "g1", "A-g-1~v2-0a1b2c", heir), part("A-g-2", "g2", "A-g-2~v2-0a1b2c", "…"))
    new = part("A-n-1", "n1", "A-n-1~v2-0a1b2c")
    deploy = Deploy("A", "text", (*parts, new), base=1)
    assert trials_of(deploy, before) == (
        Trial("A-g-1", "g1", "A-g-1~v2-0a1b2c", heir),
        Trial("A-n-1", "n1", "A-n-1~v2-0a1b2c", ""),
    )


# ---- where


TRIALS = (Trial("A-g-1", "", "", ""), Trial("A-h-1", "", "", ""), Trial("A-k-1", "", "", ""))


def test_an_instance_is_tried_where_it_runs_and_others_in_turn_on_workers_that_are_there():
    rows = (worker("w1"), worker("w2"), worker("w3", gone=True), worker("w4", draining=True))
    at = Placement("A-g-1", "w2", 1, "d", True)
    found = placed(TRIALS, seen(*rows, at))
    assert {instance: row.id for instance, row in found.items()} == {"A-g-1": "w2", "A-h-1": "w1", "A-k-1": "w2"}


def test_where_there_is_no_worker_nothing_is_tried():
    assert placed(TRIALS, seen(worker("w1", gone=True), Placement("A-g-1", "w1", 1, "d", True))) == {}


def test_workers_that_drain_try_what_nobody_else_could():
    found = placed(TRIALS, seen(worker("w1", draining=True)))
    assert {row.id for row in found.values()} == {"w1"}


# ---- what is asked


class Workers:
    """Implements `Network`: workers by their addresses."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    async def request(self, address: str, method: str, path: str, body: bytes = b"", within: int = 30_000) -> Answer:
        assert method == "POST"
        self.asked.append((address, path, msgspec.json.decode(body)))
        answer = self._answers[address.removeprefix("http://")]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Answer) else Answer(200, msgspec.json.encode(answer))


DEPLOY = Deploy("A", "text", (part("A-g-1", "new"), part("A-h-1", "new")))
BEFORE = known(part("A-g-1", "g"), part("A-h-1", "h"))
PLACED = seen(
    worker("w1"), worker("w2"), Placement("A-g-1", "w1", 1, "d", True), Placement("A-h-1", "w2", 1, "d", True)
)


def check(workers: Workers, at: Seen = PLACED) -> None:
    asyncio.run(Trials(workers).check("A", DEPLOY, BEFORE, at))


def test_a_version_that_nothing_speaks_against_passes():
    workers = Workers(w1=Told(), w2=Told())
    check(workers)
    heritage = Heritage((Ancestor("A-g-1", "g"),)).to_json()
    body = {"text": "new", "home": "", "heritage": heritage}
    assert ("http://w1", "/cluster/instances/A-g-1/trial", body) in workers.asked
    assert len(workers.asked) == 2


def test_what_a_worker_says_against_a_version_refuses_it():
    with pytest.raises(NadiError, match="A-h-1 on w2: the table lacks a column") as refused:
        check(Workers(w1=Told(), w2=Told(refused="the table lacks a column")))
    assert refused.value.condition == "CHANGE_REFUSED"


@pytest.mark.parametrize(
    "answer",
    [
        Told(untried="it took longer than 25 s"),
        NoAnswer("no route"),
        Answer(404, b'{"message": "a worker of a version before"}'),
        Answer(200, b"none of ours"),
    ],
    ids=["untried", "no answer", "older", "malformed"],
)
def test_what_was_not_found_out_stops_nobody_and_is_told(answer: Any):
    with capture_logs() as logs:
        check(Workers(w1=answer, w2=Told()))
    assert [entry["instance"] for entry in logs if entry["log_level"] == "warning"] == ["A-g-1"]


def test_what_is_said_against_a_version_counts_also_where_others_found_nothing_out():
    with pytest.raises(NadiError, match="CHANGE_REFUSED"):
        check(Workers(w1=NoAnswer("no route"), w2=Told(refused="no")))


# ---- at the worker


def trials(tell: Callable[[Wish], Told]) -> InstanceTrials:
    options = NodeOptions()
    return InstanceTrials(options, AppPreparation(options, {"where": "there"}), lambda wish, _within: tell(wish))


TEXT = "@app:name('A-g-1') define stream S (n int); @info(name='${where}') from S select n insert into T;"


def test_a_worker_tries_a_text_with_its_own_settings():
    wishes: list[Wish] = []

    def note(wish: Wish) -> Told:
        wishes.append(wish)
        return Told()

    heritage = Heritage((Ancestor("A-g-1", TEXT),)).to_json()
    assert trials(note).tried(TEXT, "A-g-1~v2-0a1b2c", heritage) == Told()
    (wish,) = wishes
    assert "name='there'" in wish.spec.text
    assert wish.spec.identity == "A-g-1~v2-0a1b2c"
    assert ["name='there'" in ancestor.text for ancestor in wish.ancestors] == [True]


def test_a_text_that_a_worker_cannot_fill_in_is_refused():
    told = trials(lambda _wish: Told()).tried(TEXT.replace("where", "nowhere"), "", "")
    assert "VARIABLE_NOT_SET" in told.refused


def test_a_manager_asks_over_http():
    found: list[tuple[str, str, str]] = []

    def tried(text: str, home: str, heritage: str) -> Told:
        found.append((text, home, heritage))
        return Told(refused="no")

    def no_backup(_instance: str) -> str:
        raise AssertionError("nobody asks for one")

    with serving(instancestates.routes(no_backup, tried)) as ask:
        root = ask("GET", "/").request.url
        asked = {"text": "t", "home": "h", "heritage": ""}
        answer = asking.post(root.join("/cluster/instances/A-g-1/trial"), json=asked, timeout=30)
    assert (answer.status_code, answer.json()) == (200, {"refused": "no", "untried": ""})
    assert found == [("t", "h", "")]


# ---- with a manager


SOURCE = "@source(type='http', receiver.url='http://127.0.0.1:8898/in', @map(type='json'))"
APP = f"@App:name('Orders') {SOURCE} define stream In (a int); from In[a > 0] select a insert into Out;"
TWO_GROUPS = f"""@App:name('Orders') {SOURCE} define stream In (a int);
@dist(execGroup='one') from In select a insert into Mid; @dist(execGroup='bad') from Mid select a insert into Out;"""


def critical(_node: FakeNode) -> APIRouter:
    """A worker that cannot run what is bad."""

    def tried(text: str, _home: str, _heritage: str) -> Told:
        return Told(refused="[REFUSED] it is bad") if "bad" in text else Told()

    def no_backup(_instance: str) -> str:
        raise AssertionError("nobody asks for one")

    return instancestates.routes(no_backup, tried)


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCluster]:
    """A manager with one worker, and no server for channels: to make one would fail."""
    with rest_cluster(tmp_path_factory.mktemp("trials")) as made:
        made.join("w1", critical)
        yield made


@pytest.fixture
def cluster(manager: RestCluster) -> RestCluster:
    """It has one app."""
    manager.undeploy()
    manager.deploy(APP)
    return manager


def epochs(cluster: RestCluster) -> dict[str, int]:
    return {name: order.epoch for name, order in cluster.workers["w1"].node.running.items()}


@pytest.mark.parametrize("dry", ["", "?dryRun=true"], ids=["deployed", "dry run"])
@pytest.mark.parametrize(
    "text", [APP.replace("a > 0", "a > 0 and 'bad' != ''"), TWO_GROUPS], ids=["in place", "after it has drained"]
)
def test_a_change_that_a_worker_could_not_run_is_refused_and_has_no_effect(cluster: RestCluster, text: str, dry: str):
    before = epochs(cluster), cluster.ask("GET", "/siddhi-apps/Orders/details").json()
    answer = cluster.ask("PUT", f"/siddhi-apps{dry}", content=text)
    assert answer.status_code == 400
    assert "[CHANGE_REFUSED] 'Orders' was not changed" in answer.json()["message"]
    assert "on w1: [REFUSED] it is bad" in answer.json()["message"]
    after = epochs(cluster), cluster.ask("GET", "/siddhi-apps/Orders/details").json()
    before[1]["instances"][0].pop("lastPingTimestamp")
    after[1]["instances"][0].pop("lastPingTimestamp")
    assert after == before


def test_a_change_that_workers_could_run_is_made(cluster: RestCluster):
    (name,) = before = epochs(cluster)
    answer = cluster.ask("PUT", "/siddhi-apps", content=APP.replace("a > 0", "a > 1"))
    assert answer.status_code == 200
    waits(lambda: epochs(cluster).get(name, 0) > before[name])


def test_an_app_that_is_new_is_not_tried_as_there_is_nothing_to_lose(cluster: RestCluster):
    text = APP.replace("Orders", "badOrders").replace("8898", "8897")
    assert cluster.ask("PUT", "/siddhi-apps", content=text).status_code == 201
