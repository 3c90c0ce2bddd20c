"""The loops of apps that come while others run are compiled in one process, one app after the other."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest

from nadi.functions.registry import default_registry
from nadi.kernel.columns.cached import is_compiled
from nadi.pipeline import compilequeue
from nadi.pipeline.compilequeue import CompileQueue
from nadi.pipeline.loopcompiler import Compiled, CompilerProcess, inner_text
from nadi.plan import plan_app

TEXT = "@app:name('{name}') define stream S (k string, v int); from S[v > {least}] select k insert into Out;"


def app(name: str, least: int) -> Compiled:
    return Compiled(plan_app(TEXT.format(name=name, least=least), default_registry()), ("Out",))


class Processes:
    """The processes that a queue starts, and what they compiled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[CompilerProcess] = []
        self.compiled: list[str] = []
        monkeypatch.setattr(compilequeue, "CompilerProcess", self._made)

    def _made(self, behind: bool) -> CompilerProcess:
        assert behind
        made = CompilerProcess(behind)
        compile_one = made.compile
        self.started.append(made)

        def noted(job):
            self.compiled.append(job.app)
            return compile_one(job)

        made.compile = noted  # type: ignore[method-assign]
        return made


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Processes:
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))
    return Processes(monkeypatch)


def test_apps_are_compiled_in_one_process_and_those_that_differ_in_their_names_once(processes: Processes) -> None:
    told: queue.Queue[tuple[str, str]] = queue.Queue()
    compiling = CompileQueue(lambda name, what: told.put((name, what)))
    asked = [compiling.ask(app(name, least)) for name, least in (("One", 1), ("Two", 1), ("Three", 3))]
    for one in asked:
        one.wait()
    assert processes.compiled == ["One", "Three"]
    assert len(processes.started) == 1
    assert all(is_compiled(inner_text(TEXT.format(name="X", least=least)), ("Out",)) for least in (1, 3))
    compiling.ask(app("Four", 3)).wait()  # at once
    assert processes.compiled == ["One", "Three"]
    compiling.close()


def test_the_process_ends_when_nothing_came_for_a_while_and_another_one_begins(processes: Processes) -> None:
    compiling = CompileQueue(lambda _name, _what: None, idle=0.0)
    compiling.ask(app("One", 1)).wait()
    thread = compiling._thread
    if thread is not None:
        thread.join(60)
    assert compiling._process is None
    compiling.ask(app("Two", 2)).wait()
    assert len(processes.started) == 2
    compiling.close()


def test_what_nobody_wants_any_more_is_not_compiled_and_holds_up_nobody(processes: Processes) -> None:
    compiling = CompileQueue(lambda _name, _what: None)
    first, left, last = (compiling.ask(app(name, least)) for name, least in (("One", 1), ("Two", 2), ("Three", 3)))
    left.close()
    left.wait()
    for one in (first, last):
        one.wait()
    assert processes.compiled == ["One", "Three"]
    compiling.close()


def test_who_waits_goes_on_when_the_process_dies_or_the_queue_ends(processes: Processes) -> None:
    compiling = CompileQueue(lambda _name, _what: None)
    compiling.ask(app("One", 1)).wait()
    (process,) = processes.started
    process.kill()
    compiling.ask(app("Two", 2)).wait()
    compiling.ask(app("Three", 3)).wait()
    assert processes.compiled == ["One", "Two", "Three"]
    waiting = [compiling.ask(app(f"App{n}", 10 + n)) for n in range(5)]
    compiling.close()
    for one in waiting:
        one.wait()
    assert all(one.has_ended for one in processes.started)
    compiling.ask(app("Late", 99)).wait()  # nobody compiles it, and nobody waits
