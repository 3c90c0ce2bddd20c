"""An instance of a cluster begins with a revision: whoever runs it next finds the state in the state log and the record, whatever died on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nadi.config import Persistence
from nadi.errors import NadiError
from nadi.kernel.contract import Kernel
from nadi.kernel.segments import Part
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import meta_of, write_revision
from nadi.pipeline.cutting import epochtable
from nadi.pipeline.cutting.commitlog import Commit
from nadi.pipeline.cutting.cutlogs import open_commit_log, open_cut_log, take_over
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.cutting.epochs import RUNS
from nadi.pipeline.revision import firstbase
from nadi.pipeline.revision.firstbase import Wish, begin, begin_aside, is_done
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.recovery import load
from nadi.pipeline.statelog.stores import open_store

TEXT = """@app:name('A-g-1')
@source(type='file', dir.uri='{folder}', @map(type='json')) define stream In (n int);
define trigger Tick at every 1 sec;
@info(name='w') from In#window.length(5) select n insert into Out;
@info(name='t') from Tick#window.length(3) select triggered_time as at insert into Ticks;
"""
BEGAN, AT = 1_000, 7
HIGHS = [(0, 0, 4_321)]


@dataclass
class Home:
    """An instance that has logged cuts up to 9 and committed 9, and has a revision of cut 7."""

    folder: Path
    spec: AppSpec
    name: str
    kernel: Kernel

    @property
    def store(self) -> FileStore:
        return FileStore(self.folder / "revisions")

    def wish(self, owner: int, since: int, **changed: object) -> Wish:
        spec = replace(self.spec, owner=owner, **changed)  # type: ignore[arg-type]
        persistence = Persistence(enabled=True, alone=False, location=str(self.folder / "revisions"))
        return Wish(spec, persistence, str(self.folder), self.name, since)

    def state(self) -> list[Part]:
        """What the next run loads."""
        found = open_commit_log(self.spec).recovered()
        assert found is not None
        kernel = made(self.spec)
        assert load(open_store(self.spec.log_place), found.lines[0], 0, kernel.load) is None
        return list(kernel.dump())


def made(spec: AppSpec) -> Kernel:
    return spec.load_engine().make_kernel(spec.plan(), spec.outputs, 0, spec.properties)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    (tmp_path / "in").mkdir()
    text = TEXT.format(folder=tmp_path / "in")
    spec = AppSpec(
        "A-g-1", text, str(tmp_path / "home" / "A-g-1"), cuts=f"sqlite:///{tmp_path}/cuts.db", store=str(tmp_path / "shared"), owner=1
    )  # fmt: skip
    (tmp_path / "home" / "A-g-1").mkdir(parents=True)
    epoch = take_over(spec)
    log = open_cut_log(spec, epoch)
    for n in range(10):
        log.append(Cut(n, epoch, BEGAN + n, BEGAN, {(0, 0): 0}))
    open_commit_log(spec, epoch).append(Commit(9, epoch))
    kernel = made(spec)
    kernel.start(BEGAN)
    cut = log.at(AT)
    assert cut is not None
    meta = meta_of(spec.plan(), cut.to_offset(), "", {}, HIGHS)
    name = write_revision(FileStore(tmp_path / "revisions"), meta, [list(kernel.dump())], 5)
    yield Home(tmp_path, spec, name, kernel)
    for engine in epochtable.engines():
        engine.dispose()


def test_the_next_run_begins_after_the_cut_of_the_revision_with_its_state_and_timers(home: Home):
    assert begin(home.wish(owner=2, since=2))
    found = open_commit_log(home.spec).recovered()
    assert found is not None
    assert (found.n, found.epoch >> RUNS) == (AT, 2)
    assert found.highs == ((0, 0, 4_321),)
    assert found.due == home.kernel.next_timer()
    assert home.state() == list(home.kernel.dump())
    last = open_cut_log(home.spec).last()
    assert last is not None
    assert last.n == 9, "cuts after it are taken again"


def test_what_was_done_is_not_done_again_by_whoever_runs_it_next(home: Home):
    assert begin(home.wish(owner=2, since=2))
    epoch = take_over(replace(home.spec, owner=2))
    open_commit_log(home.spec, epoch).append(Commit(AT + 1, epoch))
    assert not begin(home.wish(owner=3, since=2))
    found = open_commit_log(home.spec).recovered()
    assert found is not None
    assert found.n == AT + 1
    assert begin(home.wish(owner=4, since=4)), "another restore"


def test_a_run_of_before_can_commit_no_more(home: Home):
    before = take_over(home.spec)
    record = open_commit_log(home.spec, before)
    begin(home.wish(owner=2, since=2))
    with pytest.raises(NadiError, match="CUT_FENCED"):
        record.append(Commit(10, before))


def test_who_was_overtaken_puts_nothing_in_place(home: Home):
    take_over(replace(home.spec, owner=5))
    with pytest.raises(NadiError, match="CUT_FENCED"):
        begin(home.wish(owner=2, since=2))
    found = open_commit_log(home.spec).recovered()
    assert found is not None
    assert found.n == 9


def test_where_it_dies_before_the_record_it_goes_on_as_it_was_and_the_next_one_does_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    def dies(*_given: object, **_more: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(firstbase, "Commit", dies)
        with pytest.raises(RuntimeError):
            begin(home.wish(owner=2, since=2))
    assert not is_done(home.spec, 2)
    found = open_commit_log(home.spec).recovered()
    assert found is not None
    assert found.n == 9
    assert begin(home.wish(owner=3, since=2))
    assert home.state() == list(home.kernel.dump())


def test_a_damaged_revision_and_a_foreign_text_are_refused_and_nothing_changes(home: Home):
    other = home.spec.text.replace("length(5)", "length(6)")
    with pytest.raises(NadiError, match="another text"):
        begin(home.wish(owner=2, since=2, text=other))
    with pytest.raises(NadiError, match="buckets"):
        begin(home.wish(owner=2, since=2, buckets=2))
    for blob in [path for path in (home.folder / "revisions").rglob("*") if path.is_file() and "__" not in path.name]:
        blob.write_bytes(b"damaged")
    with pytest.raises(NadiError, match="REVISION_DAMAGED"):
        begin(home.wish(owner=2, since=2))
    found = open_commit_log(home.spec).recovered()
    assert found is not None
    assert found.n == 9


@pytest.mark.parametrize("logged", [range(AT + 1, 12), range(AT)], ids=["begins after it", "ends before it"])
def test_a_revision_whose_cut_is_not_in_the_cut_log_is_refused_and_nothing_changes(home: Home, logged: range):
    spec = replace(home.spec, home="A-g-1~v3-5c0de5", owner=2)
    epoch = take_over(spec)
    log = open_cut_log(spec, epoch)
    for n in logged:  # an instance that began with what others had left has logged none of their cuts
        log.append(Cut(n, epoch, BEGAN + n, BEGAN, {(0, 0): 0}))
    open_commit_log(spec, epoch).append(Commit(logged[-1], epoch))
    with pytest.raises(NadiError, match=f"RESTORE_NOT_POSSIBLE.*its cut {AT} is not in the cut log"):
        begin(home.wish(owner=3, since=3, home=spec.home))
    found = open_commit_log(spec).recovered()
    assert found is not None
    assert (found.n, found.epoch) == (logged[-1], epoch)


def test_in_a_process_of_its_own_it_says_what_was_wrong(home: Home):
    assert begin_aside(home.wish(owner=2, since=2))
    assert not begin_aside(home.wish(owner=2, since=2))
    gone = replace_revision(home.wish(owner=3, since=3), "1__A-g-1")
    with pytest.raises(NadiError, match=r"RESTORE_NOT_POSSIBLE.*\[REVISION_NOT_FOUND\]"):
        begin_aside(gone)


def replace_revision(wish: Wish, name: str) -> Wish:
    return Wish(wish.spec, wish.persistence, wish.base, name, wish.since)
