"""What the leader lets go of in channels and cut logs: what no reader has to read any more, and no revision that may be restored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nadi.channels import administration
from nadi.channels.administration import Size
from nadi.channels.options import Channel
from nadi.channels.records import CUT, IDLE, Progress
from nadi.cluster.appstates import packed
from nadi.cluster.ledger import Ledger
from nadi.cluster.messages import PartState
from nadi.cluster.rows import App, Part, Revision
from nadi.cluster.writes import digest_of
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.io.appnotes import AppNotes
from nadi.io.contract import Place
from nadi.pipeline.cutting import epochtable
from nadi.pipeline.cutting.commitlog import Commit
from nadi.pipeline.cutting.committable import TableCommitLog
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.cuttable import TableCutLog
from nadi.pipeline.cutting.standings import committed
from nadi.pipeline.node import AppText
from nadi.pipeline.shape import Shape
from nadi.plan.distribution import distribute
from nadi.server.distributed import retention
from nadi.server.distributed.channelends import EndsOf, needs_after
from nadi.server.distributed.channelstates import Told, shown
from nadi.server.distributed.retention import MANY, SELDOM, SOON, Retention, Trimmed, is_due

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
CHANNEL, PRODUCER = "A_Good_k", "A-in-1"


class Machine:
    """The clocks."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> int:
        return int(self.seconds * 1000)

    async def sleep(self, ms: int) -> None:
        self.seconds += ms / 1000


@dataclass
class Cluster:
    """A leader with one app, whose instances stand in a database; what it trims is noted."""

    url: str
    machine: Machine = field(default_factory=Machine)
    rows: Ledger = field(default_factory=Ledger)
    lease: bool = True
    busy: bool = False
    trimmed: list[tuple[str, dict[tuple[str, int], int]]] = field(default_factory=list)

    def ledger(self) -> tuple[int, Ledger] | None:
        return 1, self.rows

    def leads(self, token: int) -> bool:
        return self.lease and token == 1

    def ends(self) -> EndsOf:
        return EndsOf(AppText, lambda instance: Place(instance, Path("none"), channels={"nats": "x"}))

    def retention(self, bounded: bool = False) -> Retention:
        return Retention(
            self, self.machine, self.ends(), self.url, bounded, lambda _app: self.busy, self.machine.monotonic
        )

    def stand(self, instance: str, n: int, ends: dict[int, int], ordinal: int = 0) -> None:
        """An instance has committed cut `n`, at these ends of the partitions of its channel."""
        log = TableCutLog(self.url, instance, 0)
        epoch = log.take_over()
        last = log.last()
        for number in range(0 if last is None else last.n + 1, n + 1):
            at = {(ordinal, partition): end for partition, end in ends.items()} if number == n else {}
            log.append(Cut(number, epoch, 10 * number, 0, at))
        TableCommitLog(self.url, instance, epoch).append(Commit(n, epoch))

    def noted(self, instance: str, inputs: dict[str, int]) -> None:
        """An instance that ran with another text before has noted which numbers its inputs have."""
        notes = AppNotes(self.url, instance, 99)
        notes.begin()
        notes.replace("shape", Shape("single", 1, inputs).to_json())

    def revision(self, name: str, cut: int, chunk: int, digests: dict[str, str] | None = None) -> None:
        """A revision of the app: of each reader after a cut, at the same chunk."""
        states = []
        for part in self.rows.parts.values():
            reads = part.instance.startswith("A-sum")
            needs = ((CHANNEL, PRODUCER, int(part.instance[-1]) - 1, chunk),) if reads else ()
            digest = (digests or {}).get(part.instance, part.digest)
            states.append(PartState(part.instance, f"{name}-{part.instance}", digest, cut, needs))
        self.rows.revisions[name] = Revision(name, "A", 1, 0, packed(states))

    def tick(self, found: Retention) -> list[tuple[str, dict[tuple[str, int], int]]]:
        """What is trimmed in a tick."""
        self.trimmed.clear()
        asyncio.run(found.tick())
        return list(self.trimmed)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    found = Cluster(f"sqlite:///{tmp_path}/cuts.db")
    topology = distribute(APP, default_registry(), connectors, transport="nats", servers="x")
    found.rows.apps["A"] = App("A", 1, digest_of(APP), APP)
    for group in topology.groups:
        for one in group.instances:
            found.rows.parts[one.name] = Part(one.name, "A", group.name, digest_of(one.text), one.text, False, 1.0)

    def trim(channel: Channel, needed: dict[tuple[str, int], int]) -> None:
        found.trimmed.append((channel.name, dict(needed)))

    monkeypatch.setattr(administration, "trim", trim)
    yield found
    for engine in epochtable.engines():
        engine.dispose()


def readers_stand(cluster: Cluster, first: int, second: int, n: int = 9) -> None:
    cluster.stand("A-in-1", n, {0: 100})
    cluster.stand("A-sum-1", n, {0: first})
    cluster.stand("A-sum-2", n, {0: second})


def test_a_channel_is_trimmed_to_what_its_readers_have_committed(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    assert cluster.tick(cluster.retention()) == [(CHANNEL, {(PRODUCER, 0): 40, (PRODUCER, 1): 70})]


def test_a_reader_without_a_commit_needs_all(cluster: Cluster):
    cluster.stand("A-sum-1", 9, {0: 40})
    assert cluster.tick(cluster.retention()) == [(CHANNEL, {(PRODUCER, 0): 40, (PRODUCER, 1): 0})]


def test_what_is_logged_and_not_committed_does_not_count(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    log = TableCutLog(cluster.url, "A-sum-1", 0)
    epoch = log.take_over()
    log.append(Cut(10, epoch, 200, 0, {(0, 0): 90}))
    assert committed(cluster.url, ["A-sum-1", "nobody"])["A-sum-1"].n == 9
    assert cluster.tick(cluster.retention())[0][1][PRODUCER, 0] == 40


def test_the_oldest_revision_that_may_be_restored_keeps_its_chunks(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    cluster.revision("1__A", 3, 12)
    cluster.revision("2__A", 5, 20)
    assert cluster.tick(cluster.retention()) == [(CHANNEL, {(PRODUCER, 0): 12, (PRODUCER, 1): 12})]


def test_a_revision_of_texts_that_are_gone_keeps_nothing(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    cluster.revision("1__A", 3, 12, {"A-sum-1": "of before"})
    assert cluster.tick(cluster.retention())[0][1] == {(PRODUCER, 0): 40, (PRODUCER, 1): 70}


def test_nothing_goes_while_a_revision_is_being_made(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    cluster.busy = True
    assert cluster.tick(cluster.retention()) == []


def test_a_leader_whose_lease_is_over_trims_nothing(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    cluster.lease = False
    assert cluster.tick(cluster.retention()) == []


def test_inputs_of_a_changed_app_are_known_by_the_shape_that_it_has_noted(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    cluster.rows.apps["A"] = App("A", 2, digest_of(APP), APP)
    found = cluster.retention()
    assert cluster.tick(found) == []
    for instance in cluster.rows.parts:
        cluster.noted(instance, {f"channel source of Good (name={CHANNEL}, key=k)": 4})
    assert cluster.tick(found)[0][1] == {(PRODUCER, 0): 0, (PRODUCER, 1): 0}, "nothing was taken under this number"
    cluster.stand("A-sum-1", 10, {0: 44}, ordinal=4)
    cluster.stand("A-sum-2", 10, {0: 77}, ordinal=4)
    cluster.machine.seconds += SOON
    assert cluster.tick(found) == [(CHANNEL, {(PRODUCER, 0): 44, (PRODUCER, 1): 77})]


def test_cuts_that_belong_to_another_text_trim_nothing(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    cluster.stand("A-sum-1", 10, {0: 50, 1: 50})
    assert cluster.tick(cluster.retention()) == []


def test_the_cut_logs_of_instances_reach_back_to_the_oldest_revision(cluster: Cluster):
    readers_stand(cluster, 40, 70, n=30)
    cluster.revision("1__A", 12, 0)
    cluster.tick(cluster.retention())
    log = TableCutLog(cluster.url, "A-sum-1", 0)
    assert log.at(10) is None
    assert [log.at(n) is not None for n in (11, 12, 30)] == [True, True, True]


def test_without_revisions_the_cut_log_reaches_back_to_the_last_commit(cluster: Cluster):
    readers_stand(cluster, 40, 70, n=30)
    cluster.tick(cluster.retention())
    log = TableCutLog(cluster.url, "A-sum-2", 0)
    assert [log.at(n) is not None for n in (28, 29, 30)] == [False, True, True]


def test_a_channel_that_was_trimmed_is_left_alone_for_a_while(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    found = cluster.retention()
    assert cluster.tick(found)
    readers_stand(cluster, 41, 71, n=10)
    assert cluster.tick(found) == []
    cluster.machine.seconds += SOON
    assert cluster.tick(found) == [(CHANNEL, {(PRODUCER, 0): 41, (PRODUCER, 1): 71})]


def test_a_channel_with_a_bound_is_trimmed_at_each_tick_that_finds_something(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    found = cluster.retention(bounded=True)
    assert cluster.tick(found)
    readers_stand(cluster, 41, 71, n=10)
    assert cluster.tick(found)
    assert cluster.tick(found) == []


@pytest.mark.parametrize(
    ("needs", "after", "tight", "due"),
    [
        (0, 0.0, False, False),
        (1, 0.0, True, True),
        (1, SOON - 1, False, False),
        (1, SOON, False, True),
        (MANY, 0.0, False, True),
        (0, SELDOM - 1, True, False),
        (0, SELDOM, False, True),
    ],
)
def test_when_a_channel_is_due(needs: int, after: float, tight: bool, due: bool):
    before = Trimmed(100.0, {("P", 0): 5})
    assert is_due(before, {("P", 0): 5 + needs}, 100.0 + after, tight) == due


def test_the_trims_of_a_tick_take_a_bounded_time_and_who_waited_longest_comes_first(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    for n in range(4):
        name = f"B{n}"
        cluster.rows.apps[name] = App(name, 1, "d", "t")
        for part in [p for p in cluster.rows.parts.values() if p.app == "A"]:
            text = part.text.replace("'A-", f"'{name}-").replace("A_Good", f"{name}_Good")
            instance = part.instance.replace("A-", f"{name}-", 1)
            cluster.rows.parts[instance] = Part(instance, name, "g", digest_of(text), text, False, 1.0)
            cluster.stand(instance, 1, {0: 10})
    readers_stand(cluster, 40, 70)

    def slow(channel: Channel, _needed: object) -> None:
        cluster.trimmed.append((channel.name, {}))
        cluster.machine.seconds += retention.SPENT * 0.6

    monkeypatch.setattr(administration, "trim", slow)
    found = cluster.retention()
    rounds = [[name for name, _ in cluster.tick(found)] for _ in range(3)]
    assert all(len(one) == 2 for one in rounds[:2])
    assert sorted(name for one in rounds for name in one) == sorted([CHANNEL, *(f"B{n}_Good_k" for n in range(4))])


# ---- what people see


def test_a_reader_that_has_all_is_not_behind_however_far_the_clocks_of_producers_have_gone_on(cluster: Cluster):
    readers_stand(cluster, 50, 70)
    ends = [cluster.ends().of(part) for part in cluster.rows.parts.values()]
    stand = committed(cluster.url, list(cluster.rows.parts))
    idle = Told(Size(1_000, 12), {PRODUCER: Progress(PRODUCER, 1, IDLE, 9, 90_000, 400, (50, 75))})
    found = shown(Channel("nats", CHANNEL, 2, "x"), -1, idle, ends, stand, {})
    assert [(r["lagChunks"], r["lagMs"]) for r in found["readers"]] == [(0, 0), (5, 89_910)]


def test_a_channel_shows_who_is_behind_and_for_whom_it_keeps_chunks(cluster: Cluster):
    readers_stand(cluster, 40, 70)
    ends = [cluster.ends().of(part) for part in cluster.rows.parts.values()]
    stand = committed(cluster.url, list(cluster.rows.parts))
    tails = {PRODUCER: Progress(PRODUCER, 1, CUT, 9, 500, 400, (50, 75))}
    told = Told(Size(1_000, 12), tails)
    channel = Channel("nats", CHANNEL, 2, "x")
    found = shown(channel, 5_000, told, ends, stand, {})
    assert (found["bytes"], found["messages"], found["bound"]) == (1_000, 12, 5_000)
    assert [(r["instance"], r["lagChunks"], r["lagMs"]) for r in found["readers"]] == [
        ("A-sum-1", 10, 410),
        ("A-sum-2", 5, 410),
    ]
    assert found["producers"] == [{"instance": PRODUCER, "clock": 500, "closed": False, "chunks": [50, 75]}]
    assert found["keptFor"] == {"kind": "reader", "name": "A-sum-1", "chunks": 10}
    kept = [PartState("A-sum-1", "r", "d", 1, ((CHANNEL, PRODUCER, 0, 5), (CHANNEL, PRODUCER, 1, 70)))]
    assert shown(channel, -1, told, ends, stand, {"1__A": kept})["keptFor"] == {
        "kind": "revision",
        "name": "1__A",
        "chunks": 50,
    }
    away = shown(channel, -1, Told(away="it is away"), ends, stand, {})
    assert (away["bytes"], away["away"], away["keptFor"]) == (None, "it is away", None)
    assert [(r["lagChunks"], r["lagMs"]) for r in away["readers"]] == [(None, None)] * 2, "nobody knows"


def test_what_an_instance_needs_follows_from_its_cut(cluster: Cluster):
    ends = cluster.ends().of(cluster.rows.parts["A-sum-2"])
    assert needs_after(ends, None) == {(CHANNEL, PRODUCER, 1): 0}
    assert needs_after(ends, Cut(1, 1, 0, 0, {(0, 0): 7, (5, 3): 9})) == {(CHANNEL, PRODUCER, 1): 7}
    assert needs_after(ends, Cut(1, 1, 0, 0, {(0, 1): 7})) is None
