"""What a node knows of its apps while some enter and leave, and how other processes ask for that; the supervisor is made up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nadi.errors import NadiError, error
from nadi.pipeline import nodesocket
from nadi.pipeline.admission import Admitted
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppExit, AppProgress, AppText, NodeOptions, node_lock
from nadi.pipeline.nodesocket import Asked, NodeSocket, ask_node
from nadi.pipeline.roster import Roster
from nadi.pipeline.run import Node
from nadi.pipeline.spec import AppSpec


class Carrier:
    """Stands for a supervisor."""

    def __init__(self, over: bool = False) -> None:
        self.over = over
        self.apps: list[str] = []
        self.asked = threading.Event()

    def add(self, spec: AppSpec) -> bool:
        if not self.over:
            self.apps.append(spec.app)
        self.asked.set()
        return not self.over

    def remove(self, name: str) -> None:
        self.apps.remove(name)
        self.asked.set()


def admitted(name: str, closed: list[str] | None = None) -> Admitted:
    held = ExitStack()
    held.callback((closed if closed is not None else []).append, name)
    return Admitted(AppSpec(name, "", ""), held)


def entered(*names: str) -> Roster:
    """A roster of apps that have started, not yet given to anybody."""
    made = Roster(Path("state"))
    for name in names:
        made.enter(admitted(name))
        made.start(name)
    return made


def beside(work: Callable[[], Any]) -> Future[Any]:
    """What another thread does."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work)


def waiting(work: Callable[[], Any]) -> Future[Any]:
    """What another thread does while this one goes on."""
    made: Future[Any] = Future()

    def run() -> None:
        try:
            made.set_result(work())
        except Exception as reason:
            made.set_exception(reason)

    threading.Thread(target=run, daemon=True).start()
    return made


def condition(work: Callable[[], Any]) -> str:
    with pytest.raises(NadiError) as caught:
        work()
    return caught.value.condition


def stopped(name: str) -> AppExit:
    return AppExit(name, "stopped", AppProgress(name, "stopped"))


LOST = AppExit("A", "failed", AppProgress("A"), error("SPARK_GONE", app="A", log="l"))
FAILED = AppExit("A", "failed", AppProgress("A"), error("CUT_LOG_DAMAGED", path="p", line=1, reason="r"))


def test_who_adds_an_app_hears_that_it_runs_that_it_waits_or_what_it_ended_with():
    roster = entered("A", "B")
    roster.moved("A", None)
    assert roster.until_carried("A").state == "running"
    roster.note(AppProgress("B", "waiting", last_error="it is away"))
    assert roster.until_carried("B").last_error == "it is away"
    roster.moved("A", FAILED)
    assert condition(lambda: roster.until_carried("A")) == "CUT_LOG_DAMAGED"


def test_an_app_that_runs_is_not_taken_again_and_one_that_has_ended_is_let_go_of_first():
    roster, closed = Roster(Path("state")), []
    roster.enter(admitted("A", closed))
    roster.start("A")
    assert condition(lambda: roster.free("A")) == "APP_RUNS"
    roster.moved("A", FAILED)
    roster.free("A")
    assert closed == ["A"]
    roster.enter(admitted("A"))
    roster.start("A")
    roster.moved("A", stopped("A"))
    assert [ended.state for ended in roster.report().apps] == ["stopped"]


def test_apps_that_are_added_between_two_jvms_run_in_the_next_one_with_those_that_the_last_one_took_along():
    roster = entered("A", "B")
    assert [s.app for s in roster.given()] == ["A", "B"]
    first = Carrier()
    roster.carried_by(first)
    roster.moved("B", stopped("B"))
    roster.moved("A", LOST)
    roster.carried_by(None)
    roster.enter(admitted("C"))
    roster.start("C")
    assert [p.app for p in roster.crashed()] == ["A"]
    assert roster.goes_on(stays=False)
    assert [s.app for s in roster.given()] == ["A", "C"]
    roster.enter(admitted("D"))
    roster.start("D")  # while the supervisor is being made
    second = Carrier()
    roster.carried_by(second)
    assert second.apps == ["D"]


def test_an_app_that_a_supervisor_does_not_take_any_more_keeps_the_node_going():
    roster = entered()
    roster.carried_by(Carrier(over=True))
    roster.enter(admitted("A"))
    roster.start("A")
    roster.carried_by(None)
    assert roster.goes_on(stays=False)
    assert [s.app for s in roster.given()] == ["A"]


def test_a_node_whose_apps_have_ended_takes_no_other_one_unless_it_stays():
    roster = entered("A")
    roster.moved("A", stopped("A"))
    assert roster.goes_on(stays=True)
    roster.free("B")
    assert not roster.goes_on(stays=False)
    assert condition(lambda: roster.free("B")) == "NODE_STOPPING"
    assert condition(lambda: roster.enter(admitted("B"))) == "NODE_STOPPING"


def test_who_removes_an_app_waits_until_it_has_stopped_and_it_is_forgotten():
    roster, closed = Roster(Path("state")), []
    roster.enter(admitted("A", closed))
    roster.start("A")
    roster.given()
    carrier = Carrier()
    carrier.apps = ["A"]
    roster.carried_by(carrier)
    leaving = waiting(lambda: roster.leave("A"))
    assert carrier.asked.wait(60)
    assert (closed, leaving.done()) == (["A"], False)
    roster.moved("A", stopped("A"))
    assert leaving.result(60).state == "stopped"
    assert roster.report().apps == ()
    assert condition(lambda: roster.leave("A")) == "APP_NOT_ON_NODE"


def test_an_app_is_removed_while_no_jvm_is_there_and_while_its_supervisor_is_being_made():
    roster = entered("A", "B")
    assert roster.leave("A").state == "stopped"
    assert [s.app for s in roster.given()] == ["B"]
    leaving = waiting(lambda: roster.leave("B"))
    while roster.specs() and not roster._members["B"].leaving:
        threading.Event().wait(0.01)
    carrier = Carrier()
    carrier.apps = ["B"]
    roster.carried_by(carrier)
    assert carrier.asked.wait(60)
    roster.moved("B", stopped("B"))
    assert leaving.result(60).state == "stopped"


def test_an_app_is_removed_that_the_jvm_took_along_before_its_supervisor_heard_of_it():
    roster = entered("A", "B")
    roster.given()
    carrier = Carrier()
    carrier.apps = ["A", "B"]
    roster.carried_by(carrier)
    roster.moved("A", LOST)
    assert waiting(lambda: roster.leave("A")).result(60).state == "stopped"
    leaving = waiting(lambda: roster.leave("B"))
    assert carrier.asked.wait(60)
    roster.moved("B", replace(LOST, app="B"))
    assert leaving.result(60).state == "stopped"
    roster.carried_by(None)
    assert roster.given() == roster.crashed() == []


def test_an_app_is_removed_that_a_supervisor_did_not_take_any_more():
    roster = entered()
    roster.carried_by(Carrier(over=True))
    roster.enter(admitted("A"))
    roster.start("A")
    assert waiting(lambda: roster.leave("A")).result(60).state == "stopped"
    roster.carried_by(None)
    assert roster.given() == []


def test_the_end_of_the_node_wakes_all_who_wait():
    roster = entered("A")
    roster.given()
    carrier = Carrier()
    carrier.apps = ["A"]
    roster.carried_by(carrier)
    adding, removing = waiting(lambda: roster.until_carried("A")), waiting(lambda: roster.leave("A"))
    assert carrier.asked.wait(60)
    roster.end()
    for waits in (adding, removing):
        assert condition(lambda waits=waits: waits.result(60)) == "NODE_STOPPING"


# ---- over the socket


def refused(_asked: object) -> Any:
    raise AssertionError("nobody asks for that")


def test_what_goes_wrong_in_the_node_is_told_with_its_place_in_the_text(tmp_path: Path):
    text = "@app:name('A') define stream S (n int); from T select n insert into O;"

    def add(asked: AppText) -> AppProgress:
        plan_app(asked.text)
        raise AssertionError("the text is wrong")

    with node_lock(tmp_path), NodeSocket(tmp_path, add, refused), pytest.raises(NadiError) as caught:
        ask_node(tmp_path, Asked(add=text))
    assert caught.value.condition == "STREAM_NOT_DEFINED"
    assert str(caught.value).startswith("line 1:46: [STREAM_NOT_DEFINED]")


def test_without_a_node_the_command_says_so_also_where_a_killed_one_has_left_its_address(tmp_path: Path):
    assert condition(lambda: ask_node(tmp_path / "nowhere", Asked(remove="A"))) == "NODE_NOT_RUNNING"
    with node_lock(tmp_path), NodeSocket(tmp_path, refused, refused):
        left = (tmp_path / nodesocket.NAME).read_text()
    assert not (tmp_path / nodesocket.NAME).exists()
    (tmp_path / nodesocket.NAME).write_text(left)
    assert condition(lambda: ask_node(tmp_path, Asked(remove="A"))) == "NODE_NOT_RUNNING"


def test_a_node_that_starts_is_waited_for(tmp_path: Path):
    with node_lock(tmp_path):
        asking = waiting(lambda: ask_node(tmp_path, Asked(remove="A")))
        with NodeSocket(tmp_path, refused, stopped):
            told = asking.result(60)
    assert (told.app, told.state, told.last_error) == ("A", "stopped", "")


def test_a_node_that_ends_while_it_is_asked_is_told_by_name(tmp_path: Path):
    asked, over = threading.Event(), threading.Event()

    def slow(_name: str) -> AppExit:
        asked.set()
        over.wait(60)
        return stopped("A")

    with node_lock(tmp_path):
        with NodeSocket(tmp_path, refused, slow):
            asking = waiting(lambda: ask_node(tmp_path, Asked(remove="A")))
            assert asked.wait(60)
        assert condition(lambda: asking.result(60)) == "NODE_STOPPING"
    over.set()


def test_a_failure_without_a_name_is_told_as_one(tmp_path: Path):
    def broken(_name: str) -> AppExit:
        raise ValueError("it is broken")

    with node_lock(tmp_path), NodeSocket(tmp_path, refused, broken), pytest.raises(NadiError) as caught:
        ask_node(tmp_path, Asked(remove="A"))
    assert caught.value.condition == "NODE_FAILED"
    assert "it is broken" in str(caught.value)


def test_who_adds_an_app_to_a_node_that_could_not_start_hears_it(tmp_path: Path):
    node = Node([AppText("@app:name('A')")], NodeOptions(tmp_path / "state"))
    adding = waiting(lambda: node.add(AppText("")))
    assert condition(node.run)
    assert condition(lambda: adding.result(60)) in ("NODE_STOPPING", "SYNTAX")
