"""The leader makes revisions of apps of those that workers make of instances: whole or not at all, and no part stays that belongs to none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from nadi.cluster.appstates import parts_of
from nadi.cluster.contract import Change, NoAnswer, Seen
from nadi.cluster.ledger import Ledger
from nadi.cluster.messages import Deploy, Done, Message, PartText, Unknown, Write
from nadi.cluster.reconciliation import Situation
from nadi.cluster.rows import Actual, Failure, Key, Lease, Placement, Row, WorkerRow, key_of
from nadi.cluster.settings import Placing, Timing
from nadi.cluster.writes import written
from nadi.config import Persistence
from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.io.contract import Place
from nadi.io.identity import first_numbers
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import meta_of, write_revision
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText
from nadi.pipeline.spec import AppSpec
from nadi.plan.distribution import distribute
from nadi.server.apps import AppNotThere
from nadi.server.distributed.apprevisions import AppRevisions
from nadi.server.distributed.channelends import EndsOf
from nadi.server.distributed.wire import Answer

APP = """
@app:name('A')
@source(type = 'http', receiver.url = 'http://127.0.0.1:1/in', @map(type = 'json'))
define stream Given (k string, v long);
define stream Good (k string, v long);
@sink(type = 'log') define stream Sums (k string, total long);
@info(name = 'good') @dist(execGroup = 'in') from Given[v > 0] select k, v insert into Good;
@dist(execGroup = 'sum', parallel = '2')
partition with (k of Good) begin
  @info(name = 'sums') from Good select k, sum(v) as total insert into Sums;
end;
"""
TOKEN = 3
T = TypeVar("T")


class Machine:
    """A clock that goes on when somebody waits."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now(self) -> int:
        return self.ms

    async def sleep(self, ms: int) -> None:
        self.ms += ms
        await asyncio.sleep(0)


@dataclass
class Cluster:
    """A leader's rows, a store of revisions, and workers that make them."""

    folder: Path
    keep: int = 2
    rows: Ledger = field(default_factory=Ledger)
    machine: Machine = field(default_factory=Machine)
    token: int = TOKEN
    away: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    during: Callable[[str], None] = lambda _instance: None
    elsewhere: bool = False

    # ---- nadi.server.distributed.retention.Leading

    def ledger(self) -> tuple[int, Ledger] | None:
        return TOKEN, self.rows

    def leads(self, token: int) -> bool:
        return token == self.token

    # ---- the database

    async def write(self, write: Write) -> Message:
        if self.token != TOKEN:
            return Unknown("another manager leads now")
        return written(self.rows, Situation(0, self.machine.ms, 0, TOKEN, {}, {}, {}, Timing(), Placing()), write)

    async def read(self, *kinds: type[Row]) -> Seen:
        lease = Lease("sp", "m", "m-1", "http://m", self.token, 0, 0)
        return Seen(0, {key_of(row): row for row in (lease, *self.rows.revisions.values())})

    async def transact(self, keys: list[Key], decide: Callable[[Seen], Change]) -> Change:
        raise AssertionError("writes go by the leader")

    # ---- the workers

    async def request(self, address: str, method: str, path: str, body: bytes = b"", within: int = 0) -> Answer:
        instance = path.split("/")[3]
        self.asked.append(instance)
        self.during(instance)
        if instance in self.away:
            raise NoAnswer(f"{address}: gone")
        if self.elsewhere:
            return Answer(201, json.dumps({"revision": f"1__{instance}"}).encode())
        return Answer(201, json.dumps({"revision": self.made(instance)}).encode())

    def made(self, instance: str) -> str:
        """What a worker leaves in the store."""
        text = self.rows.parts[instance].text
        app = plan_app(text)
        numbers = first_numbers(AppSpec(instance, text, "none").user_sources(app))
        cut = {"n": 4, "epoch": 1, "clock": 9, "started": 0, "ends": {"0": {"0": 17}}}
        return write_revision(self.store, meta_of(app, cut, "", numbers), [[]], self.machine.ms)

    # ---- what a test does

    @property
    def store(self) -> FileStore:
        return FileStore(self.folder)

    def revisions(self) -> AppRevisions:
        persistence = Persistence(enabled=True, alone=False, keep=self.keep, interval=1, location=str(self.folder))
        ends = EndsOf(AppText, lambda instance: Place(instance, Path("none"), channels={"nats": "x"}))
        return AppRevisions(
            self,
            self.write,
            self,
            "sp",
            self.machine,
            self,  # type: ignore[arg-type]  # what asks workers
            ends,
            persistence,
            lambda: self.machine.ms / 1000,
        )

    def parts(self) -> dict[str, list[str]]:
        return {instance: self.store.names(instance) for instance in sorted(self.rows.parts)}


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    found = Cluster(tmp_path / "revisions")
    topology = distribute(APP, default_registry(), connectors, transport="nats", servers="x")
    texts = tuple(PartText(one.name, group.name, one.text) for group in topology.groups for one in group.instances)
    run(found.write(Deploy("A", APP, texts)))
    found.rows.workers["w"] = WorkerRow("w", "http://w:1", "w-1", False, False, False, 0)
    for part in found.rows.parts.values():
        epoch = found.rows.raised(part.instance)
        found.rows.placements[part.instance] = Placement(part.instance, "w", epoch, part.digest, True)
        found.rows.actual[part.instance] = Actual(part.instance, "w", epoch, "running", "")
    return found


def made(cluster: Cluster, found: AppRevisions) -> str:
    cluster.machine.ms += 1_000
    return run(found.backup("A"))


def test_a_revision_of_an_app_is_one_of_each_instance_and_tells_what_it_needs_of_channels(cluster: Cluster):
    name = made(cluster, cluster.revisions())
    states = {state.instance: state for state in parts_of(cluster.rows.revisions[name])}
    assert sorted(cluster.asked) == sorted(states) == ["A-in-1", "A-sum-1", "A-sum-2"]
    assert states["A-sum-2"].needs == (("A_Good_k", "A-in-1", 1, 17),)
    assert {state.cut for state in states.values()} == {4}
    (kept,) = cluster.revisions().of("A")
    assert (kept.name, kept.fits, kept.version) == (name, True, 1)


def test_so_many_revisions_are_kept_and_nothing_of_older_ones(cluster: Cluster):
    found = cluster.revisions()
    names = [made(cluster, found) for _ in range(4)]
    assert [kept.name for kept in found.of("A")] == names[2:]
    assert {instance: len(parts) for instance, parts in cluster.parts().items()} == dict.fromkeys(cluster.rows.parts, 2)


def test_a_worker_that_dies_leaves_no_revision_and_its_parts_go(cluster: Cluster):
    found = cluster.revisions()
    good = made(cluster, found)
    cluster.away.add("A-sum-2")
    with pytest.raises(NadiError, match=r"REVISION_FAILED.*A-sum-2 on w"):
        made(cluster, found)
    assert [kept.name for kept in found.of("A")] == [good]
    assert all(len(parts) == 1 for parts in cluster.parts().values())
    cluster.away.clear()
    assert made(cluster, found) == found.of("A")[-1].name


def test_an_app_that_does_not_run_everywhere_has_no_revision_made(cluster: Cluster):
    del cluster.rows.actual["A-sum-1"]
    with pytest.raises(NadiError, match="A-sum-1 does not run"):
        made(cluster, cluster.revisions())
    assert cluster.asked == []


def test_a_revision_that_the_manager_does_not_find_is_none(cluster: Cluster):
    cluster.elsewhere = True
    with pytest.raises(NadiError, match=r"REVISION_FAILED.*does not have the revision of A-in-1"):
        made(cluster, cluster.revisions())
    assert not cluster.rows.revisions


def test_a_leader_that_lost_its_lease_records_nothing_and_deletes_nothing(cluster: Cluster):
    found = cluster.revisions()
    made(cluster, found)

    def lose(_instance: str) -> None:
        cluster.token = TOKEN + 1

    cluster.during = lose
    with pytest.raises(NadiError, match="CLUSTER_UNDECIDED"):
        made(cluster, found)
    assert all(len(parts) == 2 for parts in cluster.parts().values()), "the next leader sweeps"
    assert len(cluster.rows.revisions) == 1


def test_an_app_that_was_changed_meanwhile_has_no_revision(cluster: Cluster):
    changed = cluster.rows.parts["A-in-1"]

    def change(_instance: str) -> None:
        texts = tuple(PartText(p.instance, p.group, p.text) for p in cluster.rows.parts.values())
        written(cluster.rows, Situation(0, 0, 0, TOKEN, {}, {}, {}, Timing(), Placing()), Deploy("A", "other", texts))

    cluster.during = change
    with pytest.raises(NadiError, match="changed meanwhile"):
        made(cluster, cluster.revisions())
    assert cluster.rows.parts["A-in-1"] == changed
    assert not any(cluster.parts().values())


def test_nothing_of_an_app_is_trimmed_while_a_revision_is_made(cluster: Cluster):
    found, seen = cluster.revisions(), []
    cluster.during = lambda _instance: seen.append(found.is_busy("A"))
    assert not found.is_busy("A")
    made(cluster, found)
    assert seen == [True, True, True]
    assert not found.is_busy("A")


def test_without_a_store_or_an_app_it_says_so(cluster: Cluster):
    found = cluster.revisions()
    found._persistence = Persistence()
    with pytest.raises(NadiError, match="NO_PERSISTENCE_STORE"):
        run(found.backup("A"))
    with pytest.raises(AppNotThere):
        run(cluster.revisions().backup("B"))


# ---- restoring


def begins(cluster: Cluster) -> dict[str, str]:
    return {name: row.revision for name, row in cluster.rows.beginnings.items()}


def restored(cluster: Cluster, found: AppRevisions, name: str = "") -> str:
    """The name of what is restored; workers start instances as they are told."""

    async def life() -> str:
        work = asyncio.ensure_future(found.restore("A", name))
        while not work.done():
            for row in cluster.rows.placements.values():
                cluster.rows.actual[row.instance] = Actual(row.instance, "w", row.epoch, "running", "")
            await asyncio.sleep(0.01)
        return await work

    return run(life())


def test_the_newest_revision_is_restored_if_none_is_named(cluster: Cluster):
    found = cluster.revisions()
    names = [made(cluster, found) for _ in range(2)]
    assert restored(cluster, found) == names[1]
    states = parts_of(cluster.rows.revisions[names[1]])
    assert begins(cluster) == {state.instance: state.revision for state in states}
    assert restored(cluster, found, names[0]) == names[0]


def damage(cluster: Cluster, instance: str, name: str) -> None:
    for path in cluster.folder.rglob(f"*{name}*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:9])
            return
    raise AssertionError(f"there is no {name} of {instance}")


def test_where_the_newest_is_damaged_the_one_before_is_used_and_a_damaged_one_is_not(cluster: Cluster):
    found = cluster.revisions()
    names = [made(cluster, found) for _ in range(2)]
    state = parts_of(cluster.rows.revisions[names[1]])[1]
    damage(cluster, state.instance, state.revision)
    with pytest.raises(NadiError, match="REVISION_DAMAGED"):
        restored(cluster, found, names[1])
    assert begins(cluster) == {}
    assert restored(cluster, found) == names[0]
    state = parts_of(cluster.rows.revisions[names[0]])[0]
    damage(cluster, state.instance, state.revision)
    with pytest.raises(NadiError, match="NO_GOOD_REVISION"):
        restored(cluster, found)


def test_what_is_not_there_or_of_other_texts_is_not_restored(cluster: Cluster):
    found = cluster.revisions()
    with pytest.raises(NadiError, match="REVISION_NOT_FOUND"):
        restored(cluster, found)
    name = made(cluster, found)
    with pytest.raises(NadiError, match="REVISION_NOT_FOUND"):
        restored(cluster, found, "1__A")
    texts = tuple(PartText(p.instance, p.group, p.text + " ") for p in cluster.rows.parts.values())
    run(cluster.write(Deploy("A", "other", texts)))
    assert not found.of("A")[0].fits
    with pytest.raises(NadiError, match="RESTORE_NOT_POSSIBLE"):
        restored(cluster, found, name)
    with pytest.raises(NadiError, match="REVISION_NOT_FOUND"):
        restored(cluster, found)


def test_an_instance_that_cannot_begin_with_its_revision_is_told(cluster: Cluster):
    found = cluster.revisions()
    made(cluster, found)
    cluster.rows.failures["A-sum-1"] = Failure("A-sum-1", 1, 99, "the log is truncated")
    with pytest.raises(NadiError, match=r"A-sum-1 does not start: the log is truncated"):
        run(found.restore("A"))


def test_all_revisions_of_an_app_go(cluster: Cluster):
    found = cluster.revisions()
    for _ in range(2):
        made(cluster, found)
    run(found.clear_all())
    assert found.of("A") == []
    assert not any(cluster.parts().values())


# ---- by themselves


def test_revisions_are_made_when_they_are_due_and_tried_again_after_a_while(cluster: Cluster):
    found = cluster.revisions()
    assert found._due() == ["A"]
    run(found._try("A"))
    assert found._due() == []
    cluster.machine.ms += 61_000
    assert found._due() == ["A"]
    cluster.away.add("A-in-1")
    run(found._try("A"))
    assert found._due() == [], "not at once"
    cluster.machine.ms += 61_000
    assert found._due() == ["A"]
    del cluster.rows.actual["A-in-1"]
    assert found._due() == [], "it does not run"


def test_what_is_not_known_to_be_written_is_told_so(cluster: Cluster):
    found = cluster.revisions()
    made(cluster, found)

    async def unsure(_write: Write) -> Message:
        return Unknown("the database did not answer")

    found._write = unsure
    with pytest.raises(NadiError, match="the database did not answer"):
        made(cluster, found)
    assert isinstance(run(cluster.write(Deploy("A", APP, ()))), Done)


def test_after_a_change_for_which_the_app_drained_its_revisions_of_before_are_not_restored_though_the_texts_are_the_same(
    cluster: Cluster,
):
    found = cluster.revisions()
    name = made(cluster, found)
    assert found._due() == []
    assert {state.home for state in parts_of(cluster.rows.revisions[name])} == {""}
    for part in list(cluster.rows.parts.values()):
        cluster.rows.parts[part.instance] = replace(part, home=f"{part.instance}~v3-aaaaaa")
    assert not found.of("A")[0].fits
    with pytest.raises(NadiError, match=r"RESTORE_NOT_POSSIBLE.*a change for which the app has drained"):
        restored(cluster, found, name)
    assert begins(cluster) == {}
    assert found._due() == ["A"], "until the next one it could not be restored at all"
    assert restored(cluster, found, made(cluster, found)) == found.of("A")[-1].name
    assert found._due() == []
