"""Revisions of an app that runs: what goes wrong while one is made has a name, and the app and the revisions before are as they were."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from pipeline_home import Home
from pipeline_home import rows as rows_of
from pipeline_local import LocalNode
from pipeline_played import PlayedNode
from pipeline_reference import APP as RISES
from pipeline_reference import delivered, expected, write_input

from nadi.config import Persistence
from nadi.errors import NadiError, error
from nadi.io.wallclock import WallClock, machine_ms
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import newest_good, read_revision
from nadi.pipeline.cutting import cutmaker
from nadi.pipeline.cutting.cutlog import CutLog
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.engine import plan_app
from nadi.pipeline.revision.revisions import Keeping, Revisions, ask_for
from nadi.pipeline.revision.revisionwriter import Done, Plan, write, write_aside
from nadi.pipeline.spec import AppSpec

TEXT = "@app:name('A') @source(type='test', file='x') define stream In (n int); from In select n insert into Out;"
CUT = {"n": 3, "epoch": 1, "clock": 5, "started": 0, "ends": {"0": {"0": 9}}}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """A revision of an app without state, into a folder."""
    spec = AppSpec("A", TEXT, str(tmp_path / "state" / "A"), connectors="pipeline_testlog", inputs={"x": 7})
    return Plan(spec, str(tmp_path / "log"), {}, CUT, Persistence(keep=2), str(tmp_path), "4.3.0")


def test_a_revision_tells_the_numbers_of_the_inputs_in_its_cut(plan: Plan, tmp_path: Path) -> None:
    done = write(plan)
    found, _problems = newest_good(FileStore(tmp_path / "siddhi-app-persistence"), "A")
    assert found is not None
    assert (done, found.revision.meta.inputs) == (Done(found.revision.name, 3), {"x": 7})


def test_a_store_that_fails_is_told_by_name(plan: Plan, tmp_path: Path) -> None:
    good = write(plan).name
    store = tmp_path / "siddhi-app-persistence"
    store.rename(tmp_path / "kept")
    store.write_text("no folder")
    assert write(plan).condition == "PERSISTENCE_STORE_FAILED"
    with pytest.raises(NadiError, match=r"REVISION_FAILED.*\[PERSISTENCE_STORE_FAILED\]"):
        write_aside(plan, tmp_path)
    store.unlink()
    (tmp_path / "kept").rename(store)
    assert FileStore(store).names("A") == [good]


def test_a_writer_that_is_killed_is_told_and_the_next_one_writes(plan: Plan, tmp_path: Path) -> None:
    store = FileStore(tmp_path / "siddhi-app-persistence")
    good = write(plan).name
    problems: list[NadiError] = []

    def write_beside() -> None:
        try:
            write_aside(plan, tmp_path)
        except NadiError as problem:
            problems.append(problem)

    with store.writing("A"):  # the writer waits for its turn, and is killed there
        thread = threading.Thread(target=write_beside)
        thread.start()
        os.kill(_child(thread), signal.SIGKILL)
        thread.join(60)
    assert [p.condition for p in problems] == ["REVISION_FAILED"]
    assert "its writer ended with status -9" in str(problems[0])
    assert store.names("A") == [good]
    assert write_aside(plan, tmp_path).name in store.names("A")


def _child(waited_for: threading.Thread) -> int:
    """The process that a thread of this one has started."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread or a process has just ended
                for pid in (task / "children").read_text().split():
                    if b"revisionwriter" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        return int(pid)
        assert waited_for.is_alive()
        time.sleep(0.01)
    raise AssertionError("no writer was started")


def test_whoever_asked_hears_what_went_wrong_and_the_next_revision_is_tried_at_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    group = SimpleNamespace(spec=AppSpec("A", TEXT, str(tmp_path / "A")), has_committed=True)
    keeping = Keeping(Persistence(enabled=True, interval=2), tmp_path)
    revisions = Revisions(group, keeping, "4.3.0", clock=lambda: now[0])  # type: ignore[arg-type]
    tries: list[Callable[[], Done]] = [lambda: _fail("DISK_FULL", path="/disk"), lambda: Done("2__A", 1)]
    made = iter(tries)

    def make() -> Done:
        return next(made)()

    monkeypatch.setattr(revisions, "make", make)

    def look() -> None:
        revisions.look()
        if revisions._thread is not None:
            revisions._thread.join(60)

    (tmp_path / "A" / "revisions" / "1.request").touch()
    look()
    told = msgspec.json.decode((tmp_path / "A" / "revisions" / "1.answer").read_bytes(), type=Done)
    assert (told.condition, told.name) == ("DISK_FULL", "")
    now[0] = 119.0
    look()
    assert revisions._last == 0.0
    now[0] = 120.0
    look()
    assert revisions._last == 120.0
    assert list(made) == []


def _fail(condition: str, **given: str) -> Done:
    raise error(condition, **given)


# ---- before the first commit -----------------------------------------------------------------------------------------

PLAYED = """@app:name('{name}')
@source(type='test', file='{folder}/in-{name}', endless='true') define stream In (n long);
@sink(type='test', file='{folder}/out-{name}') define stream Out (total long);
from In select sum(n) as total insert into Out;"""


def test_a_revision_of_an_app_that_has_taken_nothing_is_of_a_cut_without_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PlayedNode(tmp_path, monkeypatch, {"A": PLAYED}) as node:
        node.until(lambda: node.live("A") is not None)
        name = ask_for(tmp_path / "state" / "A", 120)
        store = FileStore(tmp_path / "state" / "siddhi-app-persistence")
        cut = Cut.from_offset(read_revision(store, "A", name).revision.meta.cut)
        assert (cut.n, set(cut.ends.values())) == (1, {0})
        node.put("A", 1, 2)
        node.until(lambda: node.out("A") == [1, 3])


@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "due"])
def test_a_revision_waits_for_the_first_commit_which_is_made_for_it_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    now, wanted, made = [0.0], list[float](), list[float]()
    spec = AppSpec("A", TEXT, str(tmp_path / "A"))
    group = SimpleNamespace(spec=spec, has_committed=False, want_first=lambda: wanted.append(now[0]))
    keeping = Keeping(Persistence(enabled=not asked, interval=1), tmp_path)
    revisions = Revisions(group, keeping, "4.3.0", clock=lambda: now[0])  # type: ignore[arg-type]

    def make() -> Done:
        made.append(now[0])
        return Done("1__A", 1) if group.has_committed else _fail("NOTHING_COMMITTED", app="A")

    monkeypatch.setattr(revisions, "make", make)

    def look_at(second: float) -> list[float]:
        now[0] = second
        revisions.look()
        if revisions._thread is not None:
            revisions._thread.join(60)
        return made

    folder = tmp_path / "A" / "revisions"
    if asked:
        (folder / "1.request").touch()
    assert look_at(60.0) == look_at(119.0) == []
    assert look_at(120.0) == [120.0], "an input may be away for longer"
    if asked:
        assert msgspec.json.decode((folder / "1.answer").read_bytes(), type=Done).condition == "NOTHING_COMMITTED"
        (folder / "2.request").touch()
        revisions._hear()
    assert look_at(180.0) == [120.0]
    group.has_committed = True
    assert look_at(181.0) == [120.0, 181.0]
    assert wanted == [60.0, 180.0]
    if asked:
        assert msgspec.json.decode((folder / "2.answer").read_bytes(), type=Done).name == "1__A"


# ---- the clock of the machine ----------------------------------------------------------------------------------------

HOUR = 3_600_000


class Clock:
    """The machine's clock as those see it who make cuts; it can be set back."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.back = 0
        patch.setattr(cutmaker, "WALL", WallClock(lambda: machine_ms() - self.back))


def test_an_app_whose_clock_is_set_back_an_hour_goes_on_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    text = RISES.format(folder=tmp_path, endless="true")
    whole = tmp_path / "whole"
    write_input(whole, 300)
    lines = whole.read_text().splitlines(keepends=True)
    first, second = lines[: len(lines) // 2], [_earlier(line) for line in lines[len(lines) // 2 :]]
    (tmp_path / "state").mkdir()
    spec = AppSpec(
        "Rises", text, str(tmp_path / "state"), outputs=("Out",), connectors="pipeline_testlog", order_idle=0
    )
    for part in (first, second):
        with (tmp_path / "in").open("a") as out:
            out.writelines(part)
        node = LocalNode(spec, monkeypatch)
        node.run()
        node.close()
        clock.back = HOUR
    log = CutLog(tmp_path / "state" / "cuts", 0)
    last = log.last()
    assert last is not None
    clocks = [cut.clock for n in range(1, last.n + 1) if (cut := log.at(n)) is not None]
    assert len(clocks) >= 2
    assert clocks == sorted(clocks), "the clock of the app went back"
    found = delivered(tmp_path / "out", ("k", "low", "high", "total"))  # fails where a number comes twice
    untimed = {key: row[:-1] for key, row in found.items()}
    assert untimed == {key: row[:-1] for key, row in expected(text, whole).items()}


def _earlier(line: str) -> str:
    time_, rest = line.split("\t", 1)
    return f"{int(time_) - HOUR}\t{rest}"


def test_a_revision_and_a_restore_under_a_clock_that_was_set_back_go_on_from_the_newest_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, clock = Home(tmp_path, monkeypatch), Clock(monkeypatch)
    (tmp_path / "A").mkdir()
    text = (
        f"@app:name('T') @source(type='file', dir.uri='{tmp_path}/A', file.settle='0', @map(type='json')) define stream A (n int);\n"
        f"@sink(type='file', file.uri='{tmp_path}/out.jsonl', @map(type='json')) define stream Out (n int, c long);\n"
        "from A#window.time(1 hour) select n, count() as c insert into Out;"
    )
    for n in range(4):
        (tmp_path / "A" / f"{n}.json").write_text(json.dumps({"event": {"n": n}}) + "\n")
        home.run(text)
        home.revise(text)
        clock.back += HOUR
        home._now -= HOUR
    names = home.store.names("T")
    assert names == sorted(names)
    assert plan_app(text).name == "T"
    last = CutLog(home.options.state / "T" / "cuts", 0).last()
    assert last is not None
    done = home.restore(text)
    assert (done.cut.n, done.again) == (last.n, 0)
    (tmp_path / "A" / "9.json").write_text(json.dumps({"event": {"n": 9}}) + "\n")
    home.run(text)
    assert [(row["n"], row["c"]) for row in rows_of(tmp_path / "out.jsonl")] == [(0, 1), (1, 2), (2, 3), (3, 4), (9, 5)]
