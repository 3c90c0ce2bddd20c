"""State folders of the version before state logs (a checkpoint of Spark had the state) go on with this one: nothing lost, nothing doubled, wherever either
of them was killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_dying import through
from pipeline_local import LocalNode
from pipeline_upgrade import CURRENT, Copies, Old
from test_pipeline_node import tree

from nadi.errors import NadiError, error
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.cutting import committable
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log
from nadi.pipeline.cutting.restored import last_batch
from nadi.pipeline.node import AppProgress
from nadi.pipeline.progress import read_progress, write_progress
from nadi.pipeline.revision import upgrade
from nadi.pipeline.stoprequest import StopRequest
from nadi.pipeline.supervisor import supervise

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

Edit = Callable[[Old], None]


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Copies:
    return Copies(tmp_path_factory.mktemp("copies"))


@pytest.fixture
def unpacked(spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: Copies) -> Callable[[str], Old]:
    """Makes a folder of a fixture; what Spark copies of it is copied once for all tests."""

    def made(name: str) -> Old:
        old = Old(name, tmp_path / name)
        monkeypatch.setattr(upgrade, "copy_state", copies.of(old))
        old.session = lambda: spark
        return old

    return made


# ---- where the old version was killed


@pytest.mark.parametrize("name", sorted(CURRENT))
def test_a_folder_goes_on_where_spark_was_killed(unpacked, monkeypatch: pytest.MonkeyPatch, name: str):
    old = unpacked(name)
    before = read_progress(old.state)
    assert before is not None
    logged = open_cut_log(old.spec()).last()
    assert logged is not None
    assert logged.n == before.n + 1  # it was killed within this batch
    begun = old.spec()
    assert upgrade.is_old(begun)
    assert old.run(monkeypatch) > 1
    old.check()
    assert open_cut_log(begun).at(logged.n) == logged  # and it was taken again: the targets have its rows
    assert not upgrade.is_old(old.spec())
    assert old.spec().begin == ""
    assert sorted(p.name for p in (old.state / "before").iterdir()) == ["checkpoint", "pipeline.json"]
    assert not old.checkpoint.exists()
    assert not list((old.state / "revisions").iterdir())
    assert old.run(monkeypatch) == 0
    old.more(300)
    assert old.run(monkeypatch) > 1
    old.check()


def test_a_node_upgrades_when_it_opens_an_app_and_its_query_goes_on(spark, tmp_path: Path):
    old = Old("sharded", tmp_path)
    seen: list[AppProgress] = []
    report = supervise(spark, [old.spec()], old.options, StopRequest(), seen.append)
    assert [a.state for a in report.apps] == ["finished"], report
    assert report.apps[0].progress.events_in == {"In": 900}
    old.check()


def offsets_lost(old: Old) -> None:
    """Spark did not get to planning the batch of the last cut."""
    batch = last_batch(old.checkpoint)
    assert batch is not None
    (old.checkpoint / "offsets" / str(batch + 1)).unlink()


def commit_lost(old: Old) -> None:
    """Sinks and progress are one batch ahead of Spark."""
    (old.checkpoint / "commits" / str(last_batch(old.checkpoint))).unlink()


def progress_lost(old: Old) -> None:
    (old.state / "progress.json").unlink()


def progress_behind(old: Old) -> None:
    told = read_progress(old.state)
    assert told is not None
    write_progress(old.state, replace(told, n=told.n - 1, highs=()))


def version_2(old: Old) -> None:
    """Each bucket had a task, and nobody noted it."""
    path = old.state / "pipeline.json"
    shape = json.loads(path.read_text())
    assert shape.pop("tasks") == shape["buckets"]
    path.write_text(json.dumps({**shape, "version": 2}))


def version_1(old: Old) -> None:
    """Inputs were known by their places."""
    path = old.state / "pipeline.json"
    shape = json.loads(path.read_text())
    path.write_text(
        json.dumps({"version": 1, "sharding": shape["sharding"], "sources": [["In", "test"]], "buckets": 2})
    )


def nothing_committed(old: Old) -> None:
    shutil.rmtree(old.checkpoint / "commits")
    progress_lost(old)
    for name in ("out", "late"):
        shutil.rmtree(old.folder / name, ignore_errors=True)


def notes_left(old: Old) -> None:
    (old.state / "stop-3").touch()
    (old.state / "revisions" / "copy-upgrade").mkdir()
    (old.state / "restored.new").mkdir()
    (old.state / "restored.new" / "7.state").write_text("of an upgrade that was interrupted")


@pytest.mark.parametrize(
    "edit",
    [
        offsets_lost,
        commit_lost,
        progress_lost,
        progress_behind,
        version_2,
        version_1,
        nothing_committed,
        notes_left,
    ],
)
@pytest.mark.parametrize("name", ["sharded"])
def test_a_folder_goes_on_wherever_else_the_old_version_was_killed(
    unpacked, monkeypatch: pytest.MonkeyPatch, edit: Edit, name: str
):
    old = unpacked(name)
    edit(old)
    old.run(monkeypatch)
    old.check()
    assert not list(old.state.glob("stop-*"))


@pytest.mark.parametrize("edit", [None, commit_lost])
def test_what_was_counted_is_counted_once(unpacked, monkeypatch: pytest.MonkeyPatch, edit: Edit | None):
    old = unpacked("sharded")
    if edit is not None:
        edit(old)
    old.run(monkeypatch)
    shown = read_progress(old.state)
    assert shown is not None
    assert shown.totals.events_in == {"In": 900}
    assert shown.totals.events_out["Out"] == len(list(old.rows("Out")))


@pytest.mark.parametrize("known", [True, False])
def test_maxima_of_log_times_come_along_where_the_old_version_noted_them(
    unpacked, monkeypatch: pytest.MonkeyPatch, known: bool
):
    old = unpacked("rows")
    if not known:
        progress_lost(old)
    spec = old.begun()
    group = Group(spec, lambda: None)
    maker = group._maker
    reads: list[object] = []
    monkeypatch.setattr(maker, "_highs_read_again", lambda cut: reads.append(cut) or {})
    maker._highs_after(group.at, None)
    group.close()
    assert len(reads) == (not known)


# ---- what cannot go on


@pytest.mark.parametrize("left", ["none", "some"])
def test_a_cut_log_without_the_cut_of_the_checkpoint_is_refused_and_nothing_has_changed(unpacked, left: str):
    old = unpacked("sharded")
    log = next((old.state / "cuts").glob("cuts-*.jsonl"))
    lines = log.read_text().splitlines(keepends=True)
    if left == "none":
        shutil.rmtree(old.state / "cuts")
    else:
        log.write_text("".join(lines[:3]))
    shape = (old.state / "pipeline.json").read_text()
    for _ in range(2):
        with pytest.raises(NadiError) as caught:
            old.begun()
        assert caught.value.condition == "CUT_LOG_MISMATCH"
        assert caught.value.parameters["last"] == (-1 if left == "none" else 2)
    assert last_batch(old.checkpoint) is not None
    assert (old.state / "pipeline.json").read_text() == shape
    assert not (old.state / "restored").exists()
    assert not (old.state / "before").exists()


def test_a_database_that_goes_away_before_the_last_step_holds_the_upgrade_up(unpacked, monkeypatch: pytest.MonkeyPatch):
    old = unpacked("database")
    spec = old.spec()
    with monkeypatch.context() as away:

        def clear(_log: object) -> None:
            raise error("CONNECTION_UNAVAILABLE", connector="the record of commits", reason="it is away")

        away.setattr(committable.TableCommitLog, "clear", clear)
        for _ in range(2):  # the same process tries again: the checkpoint is aside by now
            assert upgrade.is_old(spec)
            with pytest.raises(NadiError, match="CONNECTION_UNAVAILABLE"):
                upgrade.upgraded(old.session, spec)
        assert not old.checkpoint.exists()
    assert upgrade.is_old(spec)
    begun = upgrade.upgraded(old.session, spec)
    node = LocalNode(begun, monkeypatch)
    assert node.group.at.n > 0
    node.run()
    node.close()
    old.check()


def test_a_restored_state_waits_while_the_database_is_away_and_is_not_taken_twice(
    unpacked, monkeypatch: pytest.MonkeyPatch
):
    old = unpacked("database")
    old.run(monkeypatch)
    old.restore()
    assert old.run(monkeypatch) > 0
    with monkeypatch.context() as away:

        def recovered(_log: object) -> None:
            raise error("CONNECTION_UNAVAILABLE", connector="the record of commits", reason="it is away")

        away.setattr(committable.TableCommitLog, "recovered", recovered)
        spec = old.spec()  # a node starts all the same
        assert spec.begin
    node = LocalNode(spec, monkeypatch)
    assert node.group.at == open_cut_log(spec).last()
    node.close()
    assert old.spec().begin == ""
    old.check()


# ---- killed within the upgrade


@pytest.mark.parametrize("how", ["before", "half", "after"])
def test_a_death_at_some_steps_of_the_upgrade_changes_nothing(
    unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    swept(unpacked, "rows", monkeypatch, how, 7)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["before", "half", "after"])
@pytest.mark.parametrize("name", ["rows", "sharded"])
def test_a_death_at_any_step_of_the_upgrade_changes_nothing(
    unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
):
    swept(unpacked, name, monkeypatch, how, 1)


def swept(unpacked: Callable[[str], Old], name: str, patch: pytest.MonkeyPatch, how: str, stride: int) -> None:
    old = unpacked(name)
    steps = through(lambda: old.run(patch), patch)
    old.check()
    assert {"copy_state", "take_over", "rename", "clear", "append"} <= set(steps)
    for at in range(1, len(steps) + 1, stride):
        shutil.rmtree(old.folder)
        old = unpacked(name)
        through(lambda: old.run(patch), patch, at, how)  # noqa: B023 (called in this turn)
        old.run(patch)
        try:
            old.check()
        except AssertionError as reason:
            raise AssertionError(f"{how} step {at}, {steps[at - 1]} of {steps}") from reason


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_node_that_is_killed_while_it_upgrades_goes_on_at_its_next_start(tmp_path: Path):
    old = Old("rows", tmp_path)
    state = old.state
    for reached in (
        (state / "revisions" / "copy-upgrade").exists,
        lambda: any(state.glob("restored*/0.state")),
        (state / "before").exists,
        lambda: any((state / "cuts").glob("commits-*.jsonl")),
    ):
        process = old.start()
        while not reached():
            assert process.poll() is None, (tmp_path / "node.out").read_text()
            time.sleep(0.001)
        for pid in tree(process.pid):
            with suppress(ProcessLookupError):  # some end as soon as others do
                os.kill(pid, signal.SIGKILL)
        process.wait()
    assert old.start().wait(200) == 0, (tmp_path / "node.out").read_text()
    old.check()
    old.more(300)
    assert old.start().wait(200) == 0, (tmp_path / "node.out").read_text()
    old.check()


# ---- restores


@pytest.mark.parametrize("name", ["sharded", "rows", "database"])
def test_a_revision_of_the_old_version_is_restored_before_or_behind_the_upgrade(
    unpacked, monkeypatch: pytest.MonkeyPatch, name: str
):
    old = unpacked(name)
    done = old.restore()
    assert done.again > 0
    assert not upgrade.is_old(old.spec())
    old.run(monkeypatch)
    old.check()
    again = old.restore()
    assert (again.cut, again.again) == (done.cut, old.last().n - done.cut.n)
    assert open_commit_log(old.spec()).recovered() is None
    old.run(monkeypatch)
    old.check()


def test_the_old_checkpoint_is_kept_until_the_next_restore(unpacked, monkeypatch: pytest.MonkeyPatch):
    old = unpacked("rows")
    shape = (old.state / "pipeline.json").read_text()
    old.run(monkeypatch)
    old.run(monkeypatch)
    aside = old.state / "before"
    assert last_batch(aside / "checkpoint") is not None
    assert (aside / "pipeline.json").read_text() == shape
    old.restore()
    assert not (aside / "checkpoint").exists()
    assert sorted(p.name for p in aside.iterdir() if not p.name.startswith("commits-")) == ["log", "pipeline.json"]
    assert len(list(aside.glob("commits-*.jsonl"))) == 1
    old.run(monkeypatch)
    old.check()


def test_a_revision_that_the_old_version_has_put_back_and_not_started_is_begun_with(
    unpacked, monkeypatch: pytest.MonkeyPatch
):
    old = unpacked("restored")
    spec = old.spec()
    assert Path(spec.begin).name == "restored"
    assert not upgrade.is_old(spec)
    old.run(monkeypatch)
    old.check()
    old.restore()
    assert not (old.state / "checkpoint-before").exists()
    old.run(monkeypatch)
    old.check()


def test_a_revision_that_the_old_version_has_gone_on_from_is_not_begun_with_again(
    unpacked, monkeypatch: pytest.MonkeyPatch
):
    old = unpacked("again")
    assert (old.state / "restored").exists()
    told = read_progress(old.state)
    assert told is not None
    spec = old.begun()
    group = Group(spec, lambda: None)
    group.close()
    assert group.at.n == told.n
    old.run(monkeypatch)
    old.check()
