"""The supervisor where the JVM or a query ends at a moment that nobody looked at: no Spark, the queries are made up."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from nadi.errors import NadiError, error
from nadi.io.retry import Policy
from nadi.metrics import AppProgress
from nadi.pipeline import queries, supervised, supervisor
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.coordinator.run import QueryRun
from nadi.pipeline.cutting.cutmaker import CutMaker
from nadi.pipeline.node import ExitReport, NodeOptions
from nadi.pipeline.queries import Queries, Running
from nadi.pipeline.query import QueryPlan
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.stoprequest import StopRequest

TEXT = """@app:name('A')
@source(type='test', file='{folder}/in', endless='true') define stream In (n int);
@sink(type='test', file='{folder}/out') define stream Out (n int);
from In select n insert into Out;"""


class Jvm:
    """Stands for Spark. Once it is dead every question fails; that it has ended is seen by who waits for it only, as with a process that was just killed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.dead = self.seen = False
        self.version = "4.0"
        self.runs: list[str] = []
        for module in (supervisor, supervised):
            patch.setattr(module, "driver_lost", self.lost)
        patch.setattr(supervisor, "driver_jvm", lambda _session: os.getpid())
        patch.setattr(queries, "own_session", lambda session, _pool: session)
        patch.setattr(queries, "LOOK", 0.0)

    def lost(self, within: float = 0.0) -> bool:
        self.seen = self.dead and (self.seen or within > 0)
        return self.seen

    def start(self, _session: Any, plan: QueryPlan) -> Any:
        self.runs.append(plan.run)
        return self

    @property
    def isActive(self) -> bool:  # noqa: N802
        if self.dead:
            raise Py4JError("An error occurred while calling o1.isActive")
        return True

    def awaitTermination(self) -> None:  # noqa: N802
        """Its end is not heard of: it is seen at a look."""

    @property
    def lastProgress(self) -> None:  # noqa: N802
        return None

    def stop(self) -> None:
        """There is nothing to stop."""


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch) -> Jvm:
    return Jvm(monkeypatch)


def run(folder: Path, jvm: Any, stop: StopRequest, tell: Any) -> ExitReport:
    (folder / "state").mkdir()
    spec = AppSpec(
        "A", TEXT.format(folder=folder), str(folder / "state" / "A"), outputs=("Out",), connectors="pipeline_testlog"
    )
    spec.place.state.mkdir()
    return supervisor.supervise(jvm, [spec], NodeOptions(folder / "state"), stop, tell, jvm.start, CutMaker)


def test_a_jvm_that_dies_while_it_is_asked_ends_its_apps_by_name(tmp_path: Path, jvm: Jvm):
    def tell(progress: AppProgress) -> None:
        jvm.dead |= progress.state == "starting"

    (ended,) = run(tmp_path, jvm, StopRequest(), tell).apps
    assert ended.error is not None
    assert ended.error.condition == "SPARK_GONE"


def test_a_failure_that_is_not_the_jvms_end_is_not_swallowed(tmp_path: Path, jvm: Jvm):
    def tell(progress: AppProgress) -> None:
        if progress.state == "starting":
            raise ValueError("the screen is broken")

    with pytest.raises(ValueError, match="the screen is broken"):
        run(tmp_path, jvm, StopRequest(), tell)


def test_an_app_whose_query_ended_while_it_was_opened_goes_into_the_next_one(
    tmp_path: Path, jvm: Jvm, monkeypatch: pytest.MonkeyPatch
):
    stop, entered = StopRequest(), SimpleNamespace(names=[])
    of, enter = Queries.of, QueryRun.enter

    def ended_at_once(self: Queries, spec: AppSpec, alone: bool) -> Running:
        found = of(self, spec, alone)
        if len(jvm.runs) == 1:
            self._forget("A", found)  # as the supervisor does, which saw the query's end between two steps
        return found

    def noted(self: QueryRun, group: Any) -> None:
        entered.names.append(self.name)
        enter(self, group)
        stop.set()

    monkeypatch.setattr(Queries, "of", ended_at_once)
    monkeypatch.setattr(QueryRun, "enter", noted)
    (ended,) = run(tmp_path, jvm, stop, lambda _progress: None).apps
    assert ended.state == "stopped"
    assert len(jvm.runs) == 2
    assert entered.names == jvm.runs[1:]


def fenced(monkeypatch: pytest.MonkeyPatch, times: int, stop: StopRequest) -> list[str]:
    """Have the sink of the first runs of an app fenced, and stop the node at the next one; -> the runs."""
    entered: list[str] = []
    enter = QueryRun.enter

    def noted(self: QueryRun, group: Group) -> None:
        entered.append(self.name)
        enter(self, group)
        if len(entered) <= times:
            group.fail(error("FENCED", connector="kafka of Out", producer="nadi-A-Out-0-0"))
        else:
            stop.set()

    monkeypatch.setattr(QueryRun, "enter", noted)
    monkeypatch.setattr(supervised, "RESTARTS", Policy(1, 1))
    return entered


def test_a_run_whose_sink_is_fenced_by_a_host_of_the_run_before_is_tried_again(
    tmp_path: Path, jvm: Jvm, monkeypatch: pytest.MonkeyPatch
):
    stop = StopRequest()
    entered = fenced(monkeypatch, supervised.UNNAMED_TRIES, stop)
    (ended,) = run(tmp_path, jvm, stop, lambda _progress: None).apps
    assert (ended.state, len(entered)) == ("stopped", supervised.UNNAMED_TRIES + 1)


def test_a_run_that_is_fenced_again_and_again_ends_as_somebody_else_runs_the_app(
    tmp_path: Path, jvm: Jvm, monkeypatch: pytest.MonkeyPatch
):
    entered = fenced(monkeypatch, 100, StopRequest())
    (ended,) = run(tmp_path, jvm, StopRequest(), lambda _progress: None).apps
    assert ended.error is not None
    assert (ended.error.condition, len(entered)) == ("FENCED", supervised.UNNAMED_TRIES + 1)


@pytest.mark.parametrize(
    ("failure", "runs"),
    [
        (error("FENCED", connector="kafka of Out", producer="nadi-A-Out-0-0"), 2),
        (error("CONNECTION_UNAVAILABLE", connector="kafka of Out", reason="refused"), 1),
        (error("CUT_FENCED", app="A", current=2, epoch=1), 1),
    ],
    ids=["a host of the run before", "a target that is away", "another node"],
)
def test_a_stop_has_one_more_run_take_the_cut_that_a_failed_one_has_left(
    tmp_path: Path, jvm: Jvm, monkeypatch: pytest.MonkeyPatch, failure: NadiError, runs: int
):
    stop, entered = StopRequest(), []
    enter = QueryRun.enter

    def noted(self: QueryRun, group: Group) -> None:
        entered.append(self.name)
        enter(self, group)
        stop.set()
        group.fail(failure)

    monkeypatch.setattr(QueryRun, "enter", noted)
    monkeypatch.setattr(Group, "owes", property(lambda _group: True))
    (ended,) = run(tmp_path, jvm, stop, lambda _progress: None).apps
    assert (ended.state, len(entered)) == ("stopped", runs)


def test_a_run_that_is_fenced_late_ends_at_once(tmp_path: Path, jvm: Jvm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervised, "FENCED_EARLY", 0.0)
    entered = fenced(monkeypatch, 100, StopRequest())
    (ended,) = run(tmp_path, jvm, StopRequest(), lambda _progress: None).apps
    assert ended.error is not None
    assert (ended.error.condition, len(entered)) == ("FENCED", 1)
