"""A restore into a folder whose state log stands somewhere else, with the cuts in files or in a database. Killed at a step it is done, or not begun."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline_dying import through
from pipeline_home import Home, rows

from nadi.errors import NadiError
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log
from nadi.pipeline.statelog.lines import Line

APP = """@app:name('Sums')
@source(type='file', dir.uri='{folder}/in', file.settle='0', @map(type='json')) define stream S (n int);
@sink(type='file', file.uri='{folder}/out.jsonl', @map(type='json')) define stream Out (n int, s long, c long);
@info(name='sums') from S#window.length(1000) select n, sum(n) as s, count() as c insert into Out;
"""
CUTS = 4  # made before anything is restored, of one file each


class Sums:
    """The app, and what it must have written."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, database: bool) -> None:
        (folder / "in").mkdir(parents=True)
        self.home = Home(folder, patch, **({"cuts.url": f"sqlite:///{folder}/cuts.db"} if database else {}))
        self.text = APP.format(folder=folder)
        self.revisions: list[str] = []
        self._n = 0
        for _ in range(CUTS):
            self.go_on()

    def put(self) -> None:
        """A new file with two events."""
        content = "".join(json.dumps({"event": {"n": self._n + i}}) + "\n" for i in (1, 2))
        self._n += 2
        (self.home.folder / "in" / f"{self._n:03}.json").write_text(content)

    def go_on(self) -> None:
        """One more cut, and a revision of it."""
        self.put()
        self.home.run(self.text)
        self.revisions.append(self.home.revise(self.text))

    def check(self) -> None:
        """Every event was counted, each once and behind those before it."""
        wanted, total = [], 0
        for n in range(1, self._n + 1):
            total += n
            wanted.append({"n": n, "s": total, "c": n})
        assert rows(self.home.folder / "out.jsonl") == wanted


@pytest.fixture(params=["files", "database"])
def sums(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sums:
    return Sums(tmp_path / "app", monkeypatch, request.param == "database")


def test_a_state_log_with_newer_commits_goes_aside_and_their_cuts_are_taken_again(sums: Sums) -> None:
    home = sums.home
    spec = home.spec(sums.text)
    before = open_commit_log(spec).recovered()
    assert before is not None
    done = home.restore(sums.text, sums.revisions[1])
    assert (before.n - done.cut.n, done.again) == (2, 2)
    assert open_commit_log(spec).recovered() is None
    log = home.options.state / "Sums" / "log"
    assert not log.exists()
    assert any((home.options.state / "Sums" / "before" / "log").iterdir())
    again = home.run(sums.text)
    assert again == 2
    sums.go_on()
    sums.check()
    last = open_cut_log(spec).last()
    after = open_commit_log(spec).recovered()
    assert last is not None
    assert after is not None
    assert after.n == last.n > before.n
    assert all(f"-{after.epoch - 1:08x}-" in name or f"-{after.epoch:08x}-" in name for name in _objects(after.lines))


def _objects(lines: dict[int, Line]) -> list[str]:
    return [name for line in lines.values() for name in line.needs()]


def test_a_restore_behind_another_one_that_nothing_was_committed_after_replaces_it(sums: Sums) -> None:
    home = sums.home
    home.restore(sums.text, sums.revisions[2])
    kept = sorted(p.name for p in (home.options.state / "Sums" / "before" / "log").iterdir())
    home.restore(sums.text, sums.revisions[0])
    assert sorted(p.name for p in (home.options.state / "Sums" / "before" / "log").iterdir()) == kept
    assert home.run(sums.text) == 3
    sums.check()


def test_a_run_of_before_the_restore_can_commit_nothing_any_more(sums: Sums) -> None:
    home = sums.home
    sums.put()
    group = Group(home.spec(sums.text), lambda: None)
    assert group.look()
    home.restore(sums.text, sums.revisions[1])
    with pytest.raises(NadiError) as caught:
        group._commits.clear()
    assert caught.value.condition == "CUT_FENCED"
    group.close()
    home.run(sums.text)
    sums.check()


@pytest.mark.parametrize("how", ["before", "half", "after"])
@pytest.mark.parametrize("pending", [False, True])
def test_a_death_at_any_step_of_a_restore_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, pending: bool
) -> None:
    """`pending`: behind a restore that nothing was committed after, whose state is the only one there is."""
    made = Sums(tmp_path / "app", monkeypatch, False)
    if pending:
        made.home.restore(made.text, made.revisions[2])
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "app", kept)

    def restore() -> object:
        return made.home.restore(made.text, made.revisions[1])

    steps = through(restore, monkeypatch)
    assert {"rename", "clear", "write"} <= set(steps)
    for at in range(1, len(steps) + 1):
        shutil.rmtree(tmp_path / "app")
        shutil.copytree(kept, tmp_path / "app")
        through(restore, monkeypatch, at, how)
        taken = made.home.run(made.text)
        try:
            made.check()
            assert taken in ((1, 2) if pending else (0, 2))  # neither the state of nothing nor a mixture
            assert not list((made.home.options.state / "Sums").glob("restored.old*"))
        except AssertionError as reason:
            raise AssertionError(f"{how} step {at}, {steps[at - 1]} of {steps}") from reason


def test_a_restore_behind_one_that_died_is_done(sums: Sums, monkeypatch: pytest.MonkeyPatch) -> None:
    home = sums.home
    finishing: Callable[[], object] = lambda: home.restore(sums.text, sums.revisions[1])  # noqa: E731
    with monkeypatch.context() as patch:

        def dies(_spec: object) -> int:
            raise KeyboardInterrupt

        patch.setattr("nadi.pipeline.cutting.restored.take_over", dies)
        with pytest.raises(KeyboardInterrupt):
            finishing()
    home.restore(sums.text, sums.revisions[2])
    assert home.run(sums.text) == 1
    sums.check()
