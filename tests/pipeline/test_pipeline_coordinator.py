"""The coordinator with groups that share a query: the test plays Spark over the lane, the hosts' code is called as it is."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pipeline_bucket import Within
from pipeline_local import LocalNode
from pipeline_testlog import committed

from nadi.io.wakes import Wakes
from nadi.pipeline.coordinator import run as runs
from nadi.pipeline.coordinator.coordinator import Coordinator
from nadi.pipeline.coordinator.group import Group, Stage
from nadi.pipeline.coordinator.tasks import no_work
from nadi.pipeline.cutting.cutlogs import open_commit_log
from nadi.pipeline.executor import lanes
from nadi.pipeline.executor.cutwork import CutWork
from nadi.pipeline.hosting import lane
from nadi.pipeline.hosting.lane import LaneClient, LaneFailure, Op
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.names import base_name

TEXT = """@app:name('{name}')
@source(type='test', file='{folder}/in-{name}', endless='true') define stream In (k string, n long);
@sink(type='test', file='{folder}/out-{name}', hold='{folder}/hold-{name}') define stream Out (k string, total long);
from In select k, sum(n) as total insert into Out;"""
WITHIN = 60.0


class Spark:
    """What Java does for one query, batch by batch, in a thread of its own."""

    def __init__(self, folder: Path, names: str) -> None:
        self.folder = folder
        self.hosts = Within(folder / "scratch")
        self.hosts.apps._wake = lanes.wake
        self._work = CutWork(self.hosts.apps)
        self.coordinator = Coordinator(folder)
        self.run = self.coordinator.begin_run("pool", False)
        self.groups = {name: self.open(name) for name in names}
        self.batches: list[list[str]] = []
        self.changed = threading.Condition()
        self._thread = threading.Thread(target=self._batches)
        self._thread.start()

    def open(self, name: str) -> Group:
        state = self.folder / name
        state.mkdir(exist_ok=True)
        text = TEXT.format(folder=self.folder, name=name)
        spec = AppSpec(name, text, str(state), outputs=("Out",), connectors="pipeline_testlog", order_idle=0)
        return Group(spec, self._told)

    def enter(self, *names: str) -> None:
        for name in names:
            self.coordinator.enter(self.groups[name], self.run)

    def put(self, name: str, n: int) -> None:
        with (self.folder / f"in-{name}").open("a") as out:
            out.write(f"{1_000 + n}\t{json.dumps(['a', n])}\n")

    def out(self, name: str) -> list[object]:
        return [row["total"] for row in committed(self.folder / f"out-{name}")]

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + WITHIN
        with self.changed:
            while not holds():
                assert time.monotonic() < end, {name: g.stage for name, g in self.groups.items()}
                self.changed.wait(0.02)  # files change without a word

    def close(self) -> None:
        self.coordinator.end_run(self.run)
        self._thread.join()
        self.coordinator.close()
        for group in self.groups.values():
            group.close()

    def _told(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _batches(self) -> None:
        with suppress(LaneFailure), LaneClient(self.coordinator.socket) as java:
            at = 0
            while True:
                end = lane.decode_number(java.ask(Op.LATEST, lane.encode_latest(self.run.name, at)))
                if end == at:
                    return
                tasks = lane.decode_partitions(java.ask(Op.PLAN, lane.encode_plan(self.run.name, at, end)))
                with ThreadPoolExecutor(4) as slots:
                    receipts = [*slots.map(lambda task: bytes(next(self._work.read(task.request)).body), tasks)]
                java.ask(Op.COMMIT, lane.encode_commit(self.run.name, end - 1, receipts))
                at = end


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    made = Spark(tmp_path, "ABC")
    yield made
    for name in "ABC":
        (tmp_path / f"hold-{name}").unlink(missing_ok=True)
    made.close()


def test_groups_of_one_query_take_their_own_cuts_and_those_without_input_take_none(spark: Spark):
    spark.enter("A", "B", "C")
    for n in (1, 2, 3):
        spark.put("A", n)
        spark.until(lambda n=n: len(spark.out("A")) == n)
    spark.put("B", 10)
    spark.until(lambda: spark.out("B") == [10])
    assert spark.out("A") == [1, 3, 6]
    spark.until(lambda: spark.groups["C"].stage is Stage.IDLE)  # it may still look for input
    assert spark.groups["C"].at.n == 0


def test_batches_without_groups_run_before_there_is_a_group_and_beside_one_and_take_nothing_from_it(spark: Spark):
    assert [spark.run.warm(no_work(2)) for _ in range(3)] == [True] * 3
    assert spark.run.batch == 3
    spark.enter("A")
    for n in (1, 2, 3):
        spark.put("A", n)
        assert spark.run.warm(no_work(1))
        spark.until(lambda n=n: len(spark.out("A")) == n)
    assert spark.out("A") == [1, 3, 6]
    assert spark.groups["A"].failure is None


def test_who_waits_for_a_batch_without_groups_hears_that_the_query_is_over(spark: Spark):
    spark.coordinator.end_run(spark.run)
    assert not spark.run.warm(no_work(1))


def test_a_group_whose_sink_waits_holds_up_no_other_one_and_commits_when_it_is_done(spark: Spark):
    hold = spark.folder / "hold-A"
    hold.touch()
    spark.enter("A", "B")
    spark.put("A", 1)
    spark.until(lambda: Path(f"{hold}-0").exists() or spark.groups["A"].stage is Stage.FAILED)
    for n in (1, 2, 3, 4, 5):
        spark.put("B", n)
        spark.until(lambda n=n: len(spark.out("B")) == n)
    assert spark.out("A") == []
    assert spark.groups["A"].at.n == 0
    hold.unlink()
    spark.until(lambda: spark.out("A") == [1] and spark.groups["A"].at.n == 1)
    assert spark.groups["A"].failure is None


def test_a_group_that_fails_leaves_the_others_and_comes_back_in_another_run_of_its_own(spark: Spark):
    spark.enter("A", "B")
    spark.put("A", 1)
    spark.until(lambda: spark.groups["A"].at.n == 1)
    blocked = spark.folder / "out-A" / "000002-0.staged"
    blocked.mkdir()  # the sink cannot write there
    spark.put("A", 2)
    spark.until(lambda: spark.groups["A"].stage is Stage.FAILED)
    failed = spark.groups["A"]
    assert failed.failure is not None
    spark.put("B", 5)
    spark.until(lambda: spark.out("B") == [5])
    spark.coordinator.leave(failed)
    failed.close()
    blocked.rmdir()
    spark.groups["A"] = spark.open("A")
    assert spark.groups["A"].spec.epoch == failed.spec.epoch + 1
    spark.enter("A")
    spark.until(lambda: spark.groups["A"].at.n == 2)
    assert spark.out("A") == [1, 3]


def test_a_group_that_is_held_still_takes_the_cut_that_its_run_before_has_left(spark: Spark):
    spark.enter("A")
    spark.put("A", 1)
    spark.until(lambda: spark.groups["A"].at.n == 1)
    blocked = spark.folder / "out-A" / "000002-0.staged"
    blocked.mkdir()  # the sink cannot write there
    spark.put("A", 2)
    spark.until(lambda: spark.groups["A"].stage is Stage.FAILED)
    assert spark.groups["A"].owes
    spark.coordinator.leave(spark.groups["A"])
    spark.groups["A"].close()
    blocked.rmdir()
    held = spark.groups["A"] = spark.open("A")
    held.hold()
    assert not held.rests
    spark.enter("A")
    spark.until(lambda: held.rests)
    assert (held.at.n, spark.out("A")) == (2, [1, 3])
    spark.put("A", 3)
    assert not held.look()
    assert held.halted


def test_an_older_run_of_a_group_can_commit_nothing_any_more(spark: Spark):
    spark.enter("A")
    spark.put("A", 1)
    spark.until(lambda: spark.groups["A"].at.n == 1)
    zombie = spark.groups["A"]
    spark.groups["A"] = spark.open("A")  # the old one lives on and knows nothing
    spark.put("A", 2)
    spark.until(lambda: zombie.stage is Stage.FAILED)
    assert zombie.failure is not None
    assert zombie.failure.condition == "CUT_FENCED"
    spark.coordinator.leave(zombie)
    spark.enter("A")
    spark.until(lambda: spark.groups["A"].at.n == 2)
    assert spark.out("A") == [1, 3]
    zombie.close()


def test_a_host_that_knows_nothing_is_told_all_and_the_state_is_what_the_log_says(spark: Spark):
    spark.enter("A")
    spark.put("A", 1)
    spark.until(lambda: spark.groups["A"].at.n == 1)
    spark.hosts.apps.forget(spark.groups["A"].spec.id)  # as if it were another host
    spark.put("A", 2)
    spark.until(lambda: spark.groups["A"].at.n == 2)
    assert spark.out("A") == [1, 3]


def test_a_group_enters_and_leaves_while_the_others_go_on(spark: Spark):
    spark.enter("A")
    spark.put("A", 1)
    spark.until(lambda: spark.out("A") == [1])
    spark.enter("B")
    spark.put("B", 7)
    spark.until(lambda: spark.out("B") == [7])
    spark.coordinator.leave(spark.groups["B"])
    spark.put("B", 8)
    spark.put("A", 2)
    spark.until(lambda: spark.out("A") == [1, 3])
    assert spark.out("B") == [7]


def test_a_run_that_is_over_answers_who_waits_and_refuses_who_comes_later(spark: Spark):
    name = spark.run.name
    spark.coordinator.end_run(spark.run)
    spark._thread.join(WITHIN)
    assert not spark._thread.is_alive()
    with LaneClient(spark.coordinator.socket) as java, pytest.raises(LaneFailure, match="SPARK_FAILED"):
        java.ask(Op.LATEST, lane.encode_latest(name, 0))


def test_a_batch_that_was_not_made_is_refused(spark: Spark):
    with LaneClient(spark.coordinator.socket) as java, pytest.raises(LaneFailure, match="batch 9 was asked for"):
        java.ask(Op.PLAN, lane.encode_plan(spark.run.name, 8, 9))


def test_a_commit_that_takes_long_does_not_hold_up_the_batch(spark: Spark, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runs, "SETTLES_WITHIN", 0.05)
    go_on = threading.Event()
    group = spark.groups["A"]
    commit = group._ledger.commit

    def slow(*given: object) -> object:
        go_on.wait(WITHIN)
        return commit(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(group._ledger, "commit", slow)
    spark.enter("A", "B")
    spark.put("A", 1)
    spark.until(lambda: group.stage is Stage.SETTLING)
    for n in (1, 2, 3):
        spark.put("B", n)
        spark.until(lambda n=n: len(spark.out("B")) == n)
    assert group.at.n == 0
    go_on.set()
    spark.until(lambda: group.at.n == 1)
    assert spark.out("A") == [1]


def test_the_logs_of_these_tests_cannot_ring_so_they_are_looked_at():
    from pipeline_testlog import LineLog

    assert not isinstance(LineLog({"file": "x"}), Wakes)


def test_what_a_revision_reads_is_of_the_cut_it_names_also_while_that_cut_is_being_committed(tmp_path: Path):
    text = TEXT.format(folder=tmp_path, name="A")
    (tmp_path / "state").mkdir()
    (tmp_path / "in-A").write_text("".join(f"{1_000 + n}\t{json.dumps(['a', n])}\n" for n in range(6)))
    state = str(tmp_path / "state")
    node = LocalNode(
        AppSpec("A", text, state, outputs=("Out",), connectors="pipeline_testlog", order_idle=0, max_events=2)
    )
    group, seen = node.group, []
    commit = group._ledger.commit

    def looked_at(*given: Any) -> Any:
        done = commit(*given)  # the record is written, the group does not stand there yet
        with group.pinned() as (cut, found):
            seen.append((cut.n, found.lines[0].last.cut if found.lines[0].last is not None else None))
        return done

    group._ledger.commit = looked_at  # type: ignore[method-assign]
    node.run()
    node.close()
    assert seen == [(1, 1), (2, 2), (3, 3)]


def test_what_a_host_of_an_earlier_run_writes_late_is_gone_when_the_group_closes(tmp_path: Path):
    text = TEXT.format(folder=tmp_path, name="A")
    (tmp_path / "state").mkdir()
    (tmp_path / "in-A").write_text(f"1000\t{json.dumps(['a', 1])}\n")
    spec = AppSpec("A", text, str(tmp_path / "state"), outputs=("Out",), connectors="pipeline_testlog", order_idle=0)
    earlier = LocalNode(spec)
    earlier.run()
    earlier.close()
    later = LocalNode(spec)
    late, own = base_name(later.group.spec.epoch - 1, 9, 0), base_name(later.group.spec.epoch, 9, 0)
    for name in (late, own):
        later.group._store.put(name, [b"a base"])
    needed = open_commit_log(spec).objects()
    later.close()
    assert set(later.group._store.list()) == {*needed, own}
    assert needed
