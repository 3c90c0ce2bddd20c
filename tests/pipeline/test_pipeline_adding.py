"""Apps that enter and leave a supervisor while others go on, and the query that each of them is in: no Spark, the queries are made up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pipeline_local import LocalNode
from test_pipeline_supervisor import Jvm

from nadi.metrics import AppProgress
from nadi.pipeline.coordinator import share
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.coordinator.run import QueryRun
from nadi.pipeline.node import AppExit, ExitReport, NodeOptions
from nadi.pipeline.query import QueryPlan
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.stoprequest import StopRequest
from nadi.pipeline.supervisor import Supervisor

TEXT = """@app:name('{name}')
@source(type='test', file='{folder}/in', endless='true') define stream In (n int);
@sink(type='test', file='{folder}/out-{name}') define stream Out (n int);
from In select n insert into Out;"""


class Query:
    """Stands for a query of Spark."""

    lastProgress = None  # noqa: N815

    def __init__(self) -> None:
        self._ended = threading.Event()

    @property
    def isActive(self) -> bool:  # noqa: N802
        return not self._ended.is_set()

    def awaitTermination(self) -> None:  # noqa: N802
        self._ended.wait()

    def stop(self) -> None:
        self._ended.set()


class Spark(Jvm):
    """Stands for Spark; knows which query each app entered, in order, and which queries there are."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch)
        self.queries: dict[str, Query] = {}
        self.entered: list[tuple[str, str]] = []
        enter = QueryRun.enter

        def noted(run: QueryRun, group: Group) -> None:
            self.entered.append((group.spec.app, run.query))
            enter(run, group)

        patch.setattr(QueryRun, "enter", noted)

    def start(self, _session: Any, plan: QueryPlan) -> Any:
        made = self.queries[plan.name] = Query()
        return made

    def active(self) -> set[str]:
        return {name for name, query in self.queries.items() if query.isActive}


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    return Spark(monkeypatch)


class Run:
    """A supervisor in a thread."""

    def __init__(self, folder: Path, spark: Spark, *names: str, pool: str = "", **options: Any) -> None:
        self._folder = folder
        self.stop = StopRequest()
        self.ended: dict[str, AppExit] = {}
        self.carried: list[str] = []
        self.seen: list[AppProgress] = []
        (folder / "state").mkdir()
        self.supervisor = Supervisor(
            spark,  # type: ignore[arg-type]
            [self.spec(name, pool) for name in names],
            NodeOptions(folder / "state", **options),
            self.stop,
            self.seen.append,
            spark.start,
            moved=self._moved,
        )
        self.reports: list[ExitReport] = []
        self.thread = threading.Thread(target=lambda: self.reports.append(self.supervisor.run()))

    def spec(self, name: str, pool: str = "") -> AppSpec:
        text, state = TEXT.format(name=name, folder=self._folder), self._folder / "state" / name
        state.mkdir(exist_ok=True)
        return AppSpec(name, text, str(state), outputs=("Out",), connectors="pipeline_testlog", pool=pool)

    def _moved(self, name: str, ended: AppExit | None) -> None:
        if ended is None:
            self.carried.append(name)
        else:
            self.ended[name] = ended

    def until(self, holds: Callable[[], object]) -> None:
        end = time.monotonic() + 100
        while not holds():
            assert self.thread.is_alive(), self.reports
            assert time.monotonic() < end, (self.carried, self.ended, self.seen[-1:])
            self.thread.join(0.01)


@contextmanager
def running(folder: Path, spark: Spark, *names: str, **options: Any) -> Iterator[Run]:
    """A supervisor for the time of a block, stopped at its end."""
    run = Run(folder, spark, *names, **options)
    run.thread.start()
    try:
        yield run
    finally:
        run.stop.set()
        run.thread.join(60)
    assert not run.thread.is_alive()


def states(run: Run) -> dict[str, str]:
    return {ended.app: ended.state for ended in run.reports[0].apps}


def test_an_app_enters_leaves_and_enters_again_while_the_others_stay_where_they_are(tmp_path: Path, spark: Spark):
    with running(tmp_path, spark, "A", "B") as run:
        run.until(lambda: sorted(run.carried) == ["A", "B"])
        assert run.supervisor.add(run.spec("C"))
        run.until(lambda: run.carried[2:] == ["C"])
        run.supervisor.remove("C")
        run.until(lambda: "C" in run.ended)
        assert run.ended["C"].state == "stopped"
        assert not (tmp_path / "state" / "C" / "live.json").exists()
        assert run.supervisor.add(run.spec("C"))
        run.until(lambda: run.carried[3:] == ["C"])
        run.supervisor.remove("B")
        run.until(lambda: "B" in run.ended)
    assert states(run) == {"A": "stopped", "C": "stopped"}
    assert sorted(spark.entered) == [("A", "*"), ("B", "*"), ("C", "*"), ("C", "*")]
    assert run.ended["C"].progress.restarts == 0


def test_an_app_whose_node_was_killed_directly_behind_a_commit_runs_though_its_numbers_were_not_noted(
    tmp_path: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch
):
    run = Run(tmp_path, spark, "A")
    (tmp_path / "in").write_text("1\t[1]\n")
    before = LocalNode(run.spec("A"), monkeypatch)
    assert before.run()
    before.close()
    (tmp_path / "state" / "A" / "progress.json").unlink()
    run.thread.start()
    try:
        run.until(lambda: run.seen and run.seen[-1].state == "running")
    finally:
        run.stop.set()
        run.thread.join(60)


def test_the_last_app_that_leaves_ends_the_supervisor_which_takes_no_other_one_then(tmp_path: Path, spark: Spark):
    with running(tmp_path, spark, "A") as run:
        run.until(lambda: run.carried)
        run.supervisor.remove("A")
        run.thread.join(60)
        assert run.reports == [ExitReport(())]
        assert not run.supervisor.add(run.spec("B"))


def test_a_supervisor_of_a_node_that_stays_waits_for_apps(tmp_path: Path, spark: Spark):
    with running(tmp_path, spark, stays=True) as run:
        assert run.supervisor.add(run.spec("A"))
        run.until(lambda: run.carried)
        run.supervisor.remove("A")
        run.until(lambda: "A" in run.ended)
        assert run.supervisor.add(run.spec("B"))
        run.until(lambda: "B" in run.carried)
    assert states(run) == {"B": "stopped"}


def test_an_app_that_is_to_leave_when_the_jvm_dies_has_stopped_and_the_others_go_on_elsewhere(
    tmp_path: Path, spark: Spark
):
    run = Run(tmp_path, spark, "A", "B")
    spark.dead = spark.seen = True
    run.supervisor.remove("B")
    run.thread.start()
    run.thread.join(60)
    (left,) = run.reports[0].apps
    assert left.error is not None
    assert (left.app, left.error.condition) == ("A", "SPARK_GONE")
    assert run.ended["B"].state == "stopped"


def test_the_first_of_several_apps_comes_into_the_shared_query_when_it_is_calm_and_its_own_one_ends(
    tmp_path: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch
):
    with running(tmp_path, spark, "A") as run:
        run.until(lambda: run.carried)
        assert spark.entered == [("A", "A")]
        monkeypatch.setattr(share, "CALM_FOR", 0.0)
        assert run.supervisor.add(run.spec("B"))
        run.until(lambda: ("A", "*") in spark.entered)
        run.until(lambda: spark.active() == {"*"})


def test_the_query_of_an_app_that_leaves_ends_with_it(tmp_path: Path, spark: Spark):
    with running(tmp_path, spark, "A", "B", pool="own") as run:
        run.until(lambda: spark.active() == {"A", "B"})
        run.until(lambda: len(run.carried) == 2)
        run.supervisor.remove("A")
        run.until(lambda: spark.active() == {"B"})


def test_an_app_that_is_pinned_to_a_query_of_its_own_stays_there_however_calm_it_is(
    tmp_path: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(share, "CALM_FOR", 0.0)
    with running(tmp_path, spark, "A") as run:
        run.until(lambda: run.carried)
        assert run.supervisor.add(run.spec("Pinned", "own"))
        run.until(lambda: ("A", "*") in spark.entered)  # the other one moves
        run.until(lambda: "Pinned" in run.carried)
        told = len(run.seen)
        run.until(lambda: any(p.app == "Pinned" for p in run.seen[told:]))  # it was looked at after that
    assert [query for app, query in spark.entered if app == "Pinned"] == ["Pinned"]


def test_an_app_that_is_pinned_to_the_shared_query_stays_there_however_busy_it_is_and_though_queries_are_not_shared(
    tmp_path: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(share.Share, "is_busy", lambda _share, _now: True)
    with running(tmp_path, spark, "A", "B") as run:
        run.until(lambda: {("A", "A"), ("B", "B")} <= set(spark.entered))  # busy ones move
        assert run.supervisor.add(run.spec("Pinned", "shared"))
        run.until(lambda: "Pinned" in run.carried)
        told = len(run.seen)
        run.until(lambda: any(p.app == "Pinned" for p in run.seen[told:]))
    assert [query for app, query in spark.entered if app == "Pinned"] == ["*"]


def test_the_annotation_goes_before_the_setting_that_gives_each_app_a_query(tmp_path: Path, spark: Spark):
    with running(tmp_path, spark, "A", conf={"nadi.pools": "false"}) as run:
        assert run.supervisor.add(run.spec("B"))
        assert run.supervisor.add(run.spec("Pinned", "shared"))
        run.until(lambda: len(run.carried) == 3)
    assert sorted(spark.entered) == [("A", "A"), ("B", "B"), ("Pinned", "*")]


def test_an_app_that_enters_a_query_while_that_is_released_goes_into_the_next_one(tmp_path: Path, spark: Spark):
    """The last app of a query leaves it between the moment when another one has found it and the moment when that enters."""
    enter, released = QueryRun.enter, []

    def ended_meanwhile(query: QueryRun, group: Group) -> None:
        if not released:
            released.append(query)
            query.end()
            run.supervisor._queries._running.pop(query.query)
        enter(query, group)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueryRun, "enter", ended_meanwhile)
        with running(tmp_path, spark, "A") as run:
            run.until(lambda: len(run.seen) and len(spark.queries) == 1 and spark.entered and len(spark.entered) > 1)
    assert states(run) == {"A": "stopped"}
