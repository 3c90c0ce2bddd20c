"""Whether the changed text of an instance could run is found out beside the instance that runs, and changes nothing of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nadi.errors import NadiError, error
from nadi.functions.registry import default_registry
from nadi.functions.stores import StoreKind
from nadi.kernel.rows.memorystore import MemoryStore
from nadi.pipeline.cutting import epochtable
from nadi.pipeline.cutting.commitlog import Commit
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log, take_over
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.revision import trial
from nadi.pipeline.revision.trial import Told, Untried, tried_aside, try_out, wish_of
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.chunks import Place, write_base
from nadi.pipeline.statelog.stores import open_store

TEXT = """@app:name('A-g-1')
@source(type='http', receiver.url='http://127.0.0.1:1/in', @map(type='json'))
define stream In (k string, n long);
{sink} define stream Out (k string, total long);
{more}
@info(name='w') partition with (k of In) begin
  @info(name='sums') from In#window.length({length}) select k, sum(n) as total insert into Out;
end;
"""


def text(length: int = 5, sink: str = "@sink(type='log')", more: str = "") -> str:
    return TEXT.format(length=length, sink=sink, more=more)


def rdbms(folder: Path, table: str) -> str:
    return f"@sink(type='rdbms', url='jdbc:sqlite:{folder}/out.db', table.name='{table}', operation='upsert', keys='k')"


@dataclass
class Running:
    """An instance that has committed cut 3, as it is on the services that all workers reach."""

    folder: Path
    options: NodeOptions

    def spec(self, text: str) -> AppSpec:
        return wish_of(AppText(text), self.options).spec

    def wish(self, after: str, before: str = "") -> trial.Wish:
        return wish_of(AppText(after), self.options, [AppText(before or text(), home="A-g-1")])

    def everything(self) -> dict[str, bytes]:
        """All that it keeps."""
        return {str(path): path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file()}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    conf = {
        "nadi.buckets": "1",
        "nadi.cuts.url": f"sqlite:///{tmp_path}/cuts.db",
        "nadi.state.url": str(tmp_path / "shared"),
        "nadi.journal.url": "nats://127.0.0.1:1",
    }
    found = Running(tmp_path, NodeOptions(tmp_path / "home", conf=conf))
    spec = found.spec(text())
    epoch = take_over(spec)
    log = open_cut_log(spec, epoch)
    for n in range(4):
        log.append(Cut(n, epoch, 1_000 + n, 1_000, {}))
    kernel = spec.load_engine().make_kernel(spec.plan(), spec.outputs, 0, spec.properties)
    kernel.start(1_000)
    base = write_base(open_store(spec.log_place), Place(epoch, 3, 0), kernel.dump())
    open_commit_log(spec, epoch).append(Commit(3, epoch, bases=((0, base),)))
    yield found
    for engine in epochtable.engines():
        engine.dispose()


def test_a_text_that_could_run_is_found_to_and_nothing_has_changed(running: Running):
    for engine in epochtable.engines():
        engine.dispose()
    before = running.everything()
    try_out(running.wish(text(length=7)))
    for engine in epochtable.engines():
        engine.dispose()
    assert {name for name in running.everything() if "cuts.db-" not in name} == {
        n for n in before if "cuts.db-" not in n
    }
    assert not (running.folder / "home").exists()
    spec = running.spec(text())
    found, last = open_commit_log(spec).recovered(), open_cut_log(spec).last()
    assert found is not None
    assert last is not None
    assert (found.n, last.n) == (3, 3)
    open_cut_log(spec, found.epoch).append(Cut(4, found.epoch, 1_010, 1_000, {}))  # it goes on under its epoch


def test_a_text_that_cannot_be_planned_here_is_refused(running: Running):
    with pytest.raises(NadiError, match="EXTENSION_NOT_FOUND"):
        try_out(running.wish(text(sink="@sink(type='pigeon')")))


def test_a_table_that_would_refuse_the_rows_of_a_new_sink_is_found(running: Running):
    with sqlite3.connect(running.folder / "out.db") as database:
        database.execute("create table totals (k text, total integer)")
    with pytest.raises(NadiError, match="REFUSED"):
        try_out(running.wish(text(sink=rdbms(running.folder, "totals"))))


def test_a_sink_that_was_there_before_is_not_asked_again(running: Running):
    """It may be what keeps the app from running, and what the change is not about."""
    with sqlite3.connect(running.folder / "out.db") as database:
        database.execute("create table totals (k text, total integer)")
    sink = rdbms(running.folder, "totals")
    try_out(running.wish(text(length=7, sink=sink), before=text(sink=sink)))


def test_a_store_that_refuses_is_found_and_one_that_was_there_before_not_asked_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
):
    class Refusing(MemoryStore):
        def connect(self) -> None:
            raise PermissionError("the store knows nobody of that name")

    registry = default_registry()
    registry.add(StoreKind("refusing", Refusing))
    monkeypatch.setattr("nadi.pipeline.engine.default_registry", lambda: registry)
    monkeypatch.setattr("nadi.pipeline.revision.trial.default_registry", lambda: registry)
    with_store = text(more="@store(type='refusing') define table T (k string); from Out select k insert into T;")
    with pytest.raises(NadiError, match="the store knows nobody of that name"):
        try_out(running.wish(with_store))
    try_out(running.wish(with_store.replace("length(5)", "length(7)"), before=with_store))


@pytest.mark.parametrize(
    "problem",
    [error("RESTORE_NOT_POSSIBLE", app="A-g-1", revision="r", reason="of another kind"), KeyError("of another kind")],
    ids=["named", "without a name"],
)
def test_a_state_that_cannot_be_put_into_the_new_text_is_found(
    problem: Exception, running: Running, monkeypatch: pytest.MonkeyPatch
):
    class Fails:
        def load(self, parts: Iterator[object]) -> None:
            assert list(parts)
            raise problem

    monkeypatch.setattr(trial, "make_kernel", lambda _spec, _app, _bucket: Fails())
    with pytest.raises(NadiError, match="of another kind") as refused:
        try_out(running.wish(text(length=7)))
    assert refused.value.condition == "RESTORE_NOT_POSSIBLE"


def test_an_instance_that_has_committed_nothing_yet_has_no_state_to_try(running: Running):
    try_out(wish_of(AppText(text(length=7)), running.options, [AppText(text(), home="A-g-1~v9-0a1b2c")]))


def test_a_text_before_that_cannot_be_planned_here_is_no_reason_against_the_new_one(running: Running):
    with pytest.raises(Untried, match="WINDOW_NOT_FOUND"):
        running.wish(text(), before=text(more="from Out#window.nothing() select k insert into More;"))
    with pytest.raises(Untried, match="EXTENSION_NOT_FOUND"):
        try_out(running.wish(text(), before=text(sink="@sink(type='pigeon')")))


def test_a_state_that_goes_while_it_is_read_is_read_again_where_it_is_then(
    running: Running, monkeypatch: pytest.MonkeyPatch
):
    reads: list[int] = []
    read = trial.load_state

    def goes(wish: trial.Wish, *given: object) -> None:
        reads.append(1)
        if len(reads) < 3:
            raise error("STATE_LOG_DAMAGED", object="b-1", store="", bucket=0, reason="it is not there")
        read(wish, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(trial, "load_state", goes)
    try_out(running.wish(text(length=7)))
    assert len(reads) == 3
    reads.clear()
    monkeypatch.setattr(trial, "TRIES", 2)
    with pytest.raises(Untried, match="it is not there"):
        try_out(running.wish(text(length=7)))


def test_a_state_that_stays_unreadable_is_no_reason_against_the_text(running: Running):
    """Who runs has it in memory, and may have let go of what was read: whether it is damaged shows when it starts again."""
    (objects,) = [path for path in (running.folder / "shared").rglob("b-*") if path.is_file()]
    objects.unlink()
    with pytest.raises(Untried, match="could not be read"):
        try_out(running.wish(text(length=7)))


def test_a_process_of_its_own_tells_what_came_of_it(running: Running):
    assert tried_aside(running.wish(text(length=7)), 120.0) == Told()
    told = tried_aside(running.wish(text(sink="@sink(type='pigeon')")), 120.0)
    assert "EXTENSION_NOT_FOUND" in told.refused
    assert not told.untried


def test_what_time_can_cure_is_no_reason_to_refuse(running: Running, monkeypatch: pytest.MonkeyPatch):
    def away(_connector: object) -> None:
        raise error("CONNECTION_UNAVAILABLE", connector="db", reason="it starts")

    monkeypatch.setattr(trial, "ask_sink", away)
    assert trial.told(running.wish(text(sink="@sink(type='log', prefix='new')"))) == Told()


def test_a_trial_that_takes_too_long_is_given_up(running: Running):
    told = tried_aside(running.wish(text(length=7)), 0.001)
    assert not told.refused
    assert "took longer" in told.untried


def test_a_trial_whose_process_dies_has_found_nothing_out(running: Running):
    wish = replace_engine(running.wish(text(length=7)), "nosuchengine")
    told = tried_aside(wish, 120.0)
    assert not told.refused
    assert "nosuchengine" in told.untried


def replace_engine(wish: trial.Wish, engine: str) -> trial.Wish:
    return trial.Wish(replace(wish.spec, engine=engine), wish.ancestors, wish.number, wish.firsts)
