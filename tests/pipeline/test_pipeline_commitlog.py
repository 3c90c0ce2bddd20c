"""The commit record: durable, in order, of one run, and what is deleted is what no recovery line needs. In a folder and in a database."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pipeline_statelog import Crash, Disk, Run, TinyKernel, loaded, put_base, put_delta, shown, states_after
from servers.emptydatabase import EmptyDatabase
from sqlalchemy import create_engine, select

from nadi.errors import NadiError
from nadi.pipeline.cutting import commitlog, committable, cutlog, epochtable
from nadi.pipeline.cutting.commitlog import Commit, CommitLog, Commits, Recovered, sweep
from nadi.pipeline.cutting.committable import TableCommitLog
from nadi.pipeline.cutting.cutlogs import open_commit_log, take_over
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.statelog.folder import FolderStore
from nadi.pipeline.statelog.lines import Base, Line, Piece, objects_of
from nadi.pipeline.statelog.names import base_name, delta_name, named

Opening = Callable[[int], Commits]


class Place:
    """A commit record in a folder or a database: `take_over()` begins an epoch, `open(epoch)` opens the record."""

    def __init__(self, spec: AppSpec) -> None:
        self.spec = spec

    def take_over(self) -> int:
        return take_over(self.spec)

    def open(self, epoch: int = 0) -> Commits:
        return open_commit_log(self.spec, epoch)

    def begin(self) -> Commits:
        return self.open(self.take_over())


@pytest.fixture(params=["folder", "database"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A database of each kind only where a test is about it: here it is SQLite."""
    yield Place(
        AppSpec("A", "", str(tmp_path), cuts=f"sqlite:///{tmp_path}/cuts.db" if request.param == "database" else "")
    )
    for engine in epochtable.engines():
        engine.dispose()


@pytest.fixture
def server(database: EmptyDatabase, tmp_path: Path) -> Iterator[Place]:
    url = database.address.parsed.render_as_string(hide_password=False)
    yield Place(AppSpec("A", "", str(tmp_path), cuts=url))
    for engine in epochtable.engines():
        engine.dispose()


def delta(n: int, epoch: int = 1, bucket: int = 0) -> tuple[int, Piece]:
    return bucket, Piece(delta_name(epoch, n, 0), 0, 100, "00" * 8)


def base(n: int, epoch: int = 1, bucket: int = 0) -> tuple[int, Base]:
    return bucket, Base(Piece(base_name(epoch, n, bucket), 0, 1000, "00" * 8), n)


def commit(n: int, epoch: int = 1, *bases: tuple[int, Base]) -> Commit:
    receipts = ((0, 0, n, {"length": n, "größe": ["ä\0"]}), (1, 0, n, None))
    return Commit(n, epoch, n + 5 if n % 2 else None, ((0, 0, n),), (delta(n, epoch),), bases, receipts)


def refused(log: Commits, given: Commit) -> NadiError:
    with pytest.raises(NadiError) as caught:
        log.append(given)
    return caught.value


# ---- what both keep


def test_before_the_first_commit_nothing_is_known(place: Place):
    log = place.begin()
    assert (log.recovered(), log.lines(), log.objects(), log.released()) == (None, {}, frozenset(), frozenset())


def test_what_was_committed_is_known_to_the_next_run_and_to_readers(place: Place):
    log, reader = place.begin(), place.open()
    commits = [commit(n) for n in (0, 1, 3)]
    for one in commits:
        log.append(one)
    pieces = tuple(piece for one in commits for _, piece in one.deltas)
    last = commits[-1]
    wanted = Recovered(3, 1, last.due, last.highs, {0: Line(None, pieces, delta_bytes=300)}, last.receipts)
    assert log.recovered() == place.open().recovered() == reader.recovered() == place.begin().recovered() == wanted
    assert log.objects() == reader.objects() == {piece.object for piece in pieces}


def test_a_bucket_that_did_not_change_keeps_its_line(place: Place):
    log = place.begin()
    log.append(Commit(1, 1, deltas=(delta(1), delta(1, bucket=3))))
    log.append(Commit(2, 1, deltas=(delta(2),)))
    log.append(Commit(3, 1))
    assert {bucket: len(line.deltas) for bucket, line in place.open().lines().items()} == {0: 2, 3: 1}


@pytest.mark.parametrize("n", [0, 4, 5])
def test_commits_ascend(place: Place, n: int):
    log = place.begin()
    log.append(commit(5))
    found = refused(log, commit(n))
    assert (found.condition, found.parameters["last"]) == ("COMMIT_LOG_MISMATCH", 5)
    log.append(commit(7))


def test_what_is_not_of_the_cut_is_refused(place: Place):
    log = place.begin()
    for wrong in (
        Commit(2, 1, deltas=(delta(1),)),
        Commit(2, 1, deltas=(delta(2), delta(2))),
        Commit(2, 1, bases=(base(3),)),
        Commit(2, 1, bases=((0, Base(base(1)[1].piece, 2)),)),
        Commit(2, 1, bases=(base(1), base(2))),
    ):
        assert refused(log, wrong).condition == "COMMIT_LOG_MISMATCH"
    assert place.open().recovered() is None


def test_a_run_that_was_taken_over_can_neither_append_nor_clear(place: Place):
    old = place.begin()
    old.append(commit(1))
    new = place.begin()
    assert refused(old, commit(2)).condition == "CUT_FENCED"
    with pytest.raises(NadiError, match="CUT_FENCED"):
        old.clear()
    assert (place.open().recovered(), new.recovered()) == (old.recovered(), old.recovered())
    new.append(commit(2, 2))


def test_what_an_older_epoch_wrote_is_not_bound_after_a_take_over(place: Place):
    place.begin().append(commit(1))
    new = place.begin()
    assert refused(new, commit(2, 1)).condition == "CUT_FENCED"
    assert refused(new, Commit(2, 2, deltas=(delta(2, 1),))).condition == "CUT_FENCED"
    assert refused(new, Commit(2, 2, bases=(base(1, 1),))).condition == "CUT_FENCED"


def test_a_cleared_record_begins_anew_with_any_cut(place: Place):
    place.begin().append(commit(9))
    log = place.begin()
    log.clear()
    assert (place.open().recovered(), log.objects(), log.released()) == (None, frozenset(), frozenset())
    log.append(commit(3, 2))
    found = place.begin().recovered()
    assert found is not None
    assert (found.n, len(found.lines[0].deltas)) == (3, 1)


def test_a_record_is_cleared_and_begun_in_one_step(place: Place):
    place.begin().append(commit(9))
    log = place.begin()
    first = Commit(4, 2, bases=(base(4, 2), base(4, 2, 1)))
    log.clear(first)
    log.append(Commit(5, 2, deltas=(delta(5, 2),)))
    found = place.open().recovered()
    assert found is not None
    assert found.n == 5
    assert {bucket: (line.base, line.older) for bucket, line in found.lines.items()} == {
        b: (f, None) for b, f in first.bases
    }


def test_what_bases_replace_is_released_with_the_base_after_them(place: Place):
    log = place.begin()
    given = [commit(1), commit(2, 1, base(2)), commit(3), commit(4, 1, base(4))]
    went: list[set[int]] = []
    for one in given:
        log.append(one)
        went.append({named(name).cut for name in log.released()})
    assert went == [set(), set(), set(), {1, 2}]
    assert log.objects() == place.open().objects()
    assert not log.objects() & {piece.object for one in given[:2] for _, piece in one.deltas}


def test_a_base_that_came_too_late_is_released_at_once(place: Place):
    log = place.begin()
    late = base(1)
    log.append(commit(1))
    log.append(commit(2, 1, base(2)))
    log.append(commit(3, 1, late))
    assert log.released() == {late[1].piece.object}


def test_an_object_of_several_buckets_is_released_when_the_last_lets_go(place: Place):
    log = place.begin()
    shared = delta_name(1, 1, 0)
    log.append(Commit(1, 1, deltas=((0, Piece(shared, 0, 5, "")), (1, Piece(shared, 5, 5, "")))))
    for n in (2, 3):
        log.append(Commit(n, 1, deltas=(delta(n),), bases=(base(n),)))
    assert shared in log.objects()
    for n in (4, 5):
        log.append(Commit(n, 1, deltas=(delta(n, bucket=1),), bases=(base(n, bucket=1),)))
    assert shared not in log.objects()
    assert shared in log.released()


@settings(max_examples=25)
@given(st.data())
def test_what_is_released_is_exactly_what_no_line_needs(data: st.DataObject):
    """And a run that opens the record anywhere goes on alike, however often files begin anew. Of large bases that share little the older line goes early."""
    standing, found, bound = commitlog.Standing(), None, set()
    length = data.draw(st.sampled_from((10, 200_000)))
    sizes = {"size": 4_000_000, "written": data.draw(st.sampled_from((4_000_000, 400_000))), "wait": 500_000}
    for n in range(1, data.draw(st.integers(1, 25)) + 1):
        shared = delta_name(1, n, 0)
        buckets = data.draw(st.sets(st.integers(0, 2)))
        deltas = tuple((b, Piece(shared, length * b, length, "")) for b in sorted(buckets))
        renewed = data.draw(st.dictionaries(st.integers(0, 2), st.integers(max(1, n - 4), n), max_size=2))
        bases = tuple((b, replace(base(cut, 1, b)[1], **sizes)) for b, cut in renewed.items())
        given_ = Commit(n, 1, deltas=deltas, bases=bases)
        found = commitlog.after_commit(found, given_)
        standing.follow(given_, found)
        bound |= {shared} if deltas else set()
        bound |= {name for _, b in bases for name in b.objects}
        bound -= standing.released()
        assert bound == standing.objects() == objects_of(found.lines.values()) == commitlog.Standing(found).objects()


def test_the_record_begins_anew_when_its_commits_outgrow_it_and_loses_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    for module in (commitlog, committable):
        monkeypatch.setattr(module, "GROWN", 600)
    log = place.begin()
    for n in range(60):
        log.append(commit(n, 1, *([base(n)] if n % 7 == 6 else [])))
        assert place.open().recovered() == log.recovered()
        assert place.open().objects() == log.objects()
        if n == 30:
            log = place.open(1)
    if place.spec.cuts:
        with create_engine(place.spec.cuts).connect() as connection:
            firsts = connection.execute(select(committable.COMMITS.c.first).distinct()).scalars().all()
        assert len(firsts) == 2
    else:
        files = sorted((Path(place.spec.state) / "cuts").glob("commits-*"))
        assert len(files) == 2
        assert int(files[-1].stem[-3:]) > 5


# ---- several nodes


def test_every_database_keeps_the_record(server: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(committable, "GROWN", 500)
    monkeypatch.setattr(committable, "PART", 300)
    log = server.begin()
    for n in range(12):
        log.append(commit(n, 1, *([base(n)] if n % 4 == 3 else [])))
    found = server.begin()
    assert found.recovered() == log.recovered()
    assert refused(log, commit(12)).condition == "CUT_FENCED"
    found.append(commit(12, 2))
    first = Commit(4, 2, bases=(base(4, 2),))
    found.clear(first)
    now = server.open().recovered()
    assert now is not None
    assert (now.n, now.lines) == (4, {0: Line(first.bases[0][1])})


def test_a_large_record_fits_every_database(server: Place):
    log = server.begin()
    receipts = ((0, 0, 1, "x" * 2_500_000),)
    log.append(Commit(1, 1, receipts=receipts))
    found = server.open().recovered()
    assert found is not None
    assert found.receipts == receipts


def test_of_runs_that_take_over_at_the_same_moment_one_may_commit(server: Place):
    server.begin().append(commit(1))
    epochs: list[int] = []
    threads = [threading.Thread(target=lambda: epochs.append(server.take_over())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    *others, newest = sorted(epochs)
    for epoch in others:
        assert refused(server.open(epoch), commit(2, epoch)).condition == "CUT_FENCED"
    server.open(newest).append(commit(2, newest))


def test_a_database_that_is_away_is_named_and_the_commit_can_be_tried_again(server: Place, database: EmptyDatabase):
    log = server.begin()
    log.append(commit(1))
    with database.away():
        assert refused(log, commit(2)).condition == "CONNECTION_UNAVAILABLE"
    log.append(commit(2))
    assert server.open().recovered() == log.recovered()


def test_a_commit_of_which_nobody_knew_whether_it_was_done_is_settled_by_the_next(place: Place):
    """The answer to an append was lost: the run tries again, with another attempt."""
    log = place.begin()
    log.append(commit(1))
    other = place.open(1)
    other.append(commit(2))
    again = commit(2)
    log.append(again)
    found = place.begin().recovered()
    assert found is not None
    assert found.lines[0].last == again.deltas[0][1]


@pytest.mark.parametrize("text", ["rubbish", "{}"])
def test_a_row_that_is_damaged_is_named(server: Place, database: EmptyDatabase, text: str):
    log = server.begin()
    for n in range(3):
        log.append(commit(n))
    with database.engine.begin() as connection:
        rows = committable.COMMITS
        connection.execute(rows.update().where(rows.c.n == 1).values(record=text))
    with pytest.raises(NadiError) as caught:
        server.open()
    assert (caught.value.condition, caught.value.parameters["line"]) == ("COMMIT_LOG_DAMAGED", 2)


def test_apps_do_not_see_each_other(server: Place):
    server.begin().append(commit(1))
    TableCommitLog(server.spec.cuts, "B", 0)
    assert TableCommitLog(server.spec.cuts, "B", 0).recovered() is None


# ---- a folder and its crashes


def opened(folder: Path) -> CommitLog:
    return CommitLog(folder, cutlog.take_over(folder))


def filled(folder: Path, count: int) -> CommitLog:
    log = opened(folder)
    for n in range(count):
        log.append(commit(n))
    return log


def newest(folder: Path) -> Path:
    return max(folder.glob("commits-*.jsonl"))


def goes_on_after_cut_1(folder: Path) -> None:
    """The commit of cut 1 is the last one that is there, and that of cut 2 can be made once more."""
    log = CommitLog(folder, 1)
    found = log.recovered()
    assert found is not None
    assert found.n == 1
    log.append(commit(2))
    assert CommitLog(folder, 0).recovered() == log.recovered()


@pytest.mark.parametrize("torn", [1, 5, 90])
def test_a_crash_inside_an_append_leaves_the_commits_before_it_and_room_for_the_next(tmp_path: Path, torn: int):
    filled(tmp_path, 3)
    path = newest(tmp_path)
    path.write_bytes(path.read_bytes()[:-torn])
    goes_on_after_cut_1(tmp_path)


def test_blocks_that_never_came_to_the_disk_are_a_torn_end(tmp_path: Path):
    filled(tmp_path, 3)
    path = newest(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1] + bytes(len(lines[2]) - 20) + lines[2][-20:])
    goes_on_after_cut_1(tmp_path)


def test_whatever_else_is_not_as_it_was_is_named_with_its_line(tmp_path: Path):
    filled(tmp_path, 3)
    path = newest(tmp_path)
    content = path.read_bytes()
    for at in range(len(content) - 1):
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        path.write_bytes(changed)
        with pytest.raises(NadiError) as caught:
            CommitLog(tmp_path, 1)
        assert caught.value.condition == "COMMIT_LOG_DAMAGED"
        assert caught.value.parameters["line"] in (content[:at].count(b"\n") + 1, content[:at].count(b"\n") + 2)


@pytest.mark.parametrize("order", [(0, 2), (0, 2, 1), (1, 2), (0, 1, 1)])
def test_a_line_that_is_lost_doubled_or_moved_is_found(tmp_path: Path, order: tuple[int, ...]):
    filled(tmp_path, 3)
    path = newest(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in order))
    with pytest.raises(NadiError, match="COMMIT_LOG_DAMAGED"):
        CommitLog(tmp_path, 1)


def test_an_empty_file_is_damage(tmp_path: Path):
    filled(tmp_path, 1)
    newest(tmp_path).write_bytes(b"")
    with pytest.raises(NadiError, match="COMMIT_LOG_DAMAGED"):
        CommitLog(tmp_path, 1)


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("step", ["write", "sync", "rename", "sync folder"])
def test_an_append_that_fails_binds_nothing_and_the_next_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, begins: bool
):
    """Whether it was to begin a file or not; the process goes on or begins anew."""
    log = filled(tmp_path, 3)
    before = log.recovered()
    if begins:
        monkeypatch.setattr(commitlog, "GROWN", 0)
        for n in (3, 4, 5):
            log.append(commit(n))
        before = log.recovered()
    with monkeypatch.context() as patch:
        disk, left = Disk(patch, tmp_path), [1] if step == "sync folder" else []

        def fail(_at: int, now: str) -> None:
            if now == step.split()[0] and not (left and left.pop()):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        disk.fail = fail
        if begins or step in ("write", "sync"):
            long = Commit(9, 1, deltas=(delta(9),), receipts=((0, 0, 9, "long" * 200),))
            assert refused(log, long).condition == "DISK_FULL"
            assert log.recovered() == before
    again = commit(10)
    log.append(again)
    assert CommitLog(tmp_path, 0).recovered() == log.recovered()
    for n in (11, 12, 13):
        log.append(commit(n))
        assert CommitLog(tmp_path, 0).recovered() == log.recovered()


def test_a_clear_that_fails_half_way_is_settled_by_the_next_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = filled(tmp_path, 2)
    with monkeypatch.context() as patch:
        disk, left = Disk(patch, tmp_path), [1]

        def fail(_at: int, step: str) -> None:
            if step == "sync" and not (left and left.pop()):  # the file's is done, the folder's is not
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        disk.fail = fail
        with pytest.raises(NadiError, match="STATE_LOG_FAILED"):
            log.clear()
    log.append(commit(2))
    found = CommitLog(tmp_path, 0).recovered()
    assert found is not None
    assert (found, len(found.lines[0].deltas)) == (log.recovered(), 3)


def run_of(folder: Path, epoch: int = 0) -> Run:
    epoch = epoch or cutlog.take_over(folder / "cuts")
    return Run(FolderStore(folder / "log"), CommitLog(folder / "cuts", epoch), epoch)


CUTS = 9


def recovered_run(folder: Path) -> tuple[Run, int]:
    run = run_of(folder)
    found = run.commits.recovered()
    return run, 0 if found is None else found.n


def checked_after(folder: Path, last: int) -> None:
    """The last commit that returned is there, maybe the one after it; its state can be read; a sweep takes nothing of it; the next run goes on."""
    run, n = recovered_run(folder)
    assert n in (last, last + 1)
    assert shown(run.store, run.commits, 2) == states_after(n)
    sweep(run.store, run.commits.objects(), run.epoch)
    assert set(run.store.list()) == run.commits.objects()
    for cut in range(n + 1, CUTS + 1):
        run.cut(cut)
    assert shown(run.store, CommitLog(folder / "cuts", 0), 2) == states_after(CUTS)


def steps_of_a_run(folder: Path) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        prepared(folder)
        disk = Disk(patch, folder / "cuts", folder / "log")
        patch.setattr(commitlog, "GROWN", 0)
        whole(run_of(folder, 1))
    return disk.steps


def whole(run: Run) -> None:
    for n in range(1, CUTS + 1):
        run.cut(n)


def prepared(folder: Path) -> None:
    (folder / "log").mkdir(parents=True)
    cutlog.take_over(folder / "cuts")


def dropped(synced: bytes, _written: bytes) -> bytes:
    return synced


def half(synced: bytes, written: bytes) -> bytes:
    return written[: (len(synced) + len(written)) // 2]


def kept(_synced: bytes, written: bytes) -> bytes:
    return written


def zeros(synced: bytes, written: bytes) -> bytes:
    """The length came to the disk, its blocks did not."""
    return synced.ljust(len(written), b"\0")


@pytest.mark.parametrize("tail", [dropped, half, kept, zeros])
@pytest.mark.parametrize("grown", [0, 1_000_000])
def test_a_power_cut_at_some_steps_leaves_the_last_commit_that_returned(
    tmp_path: Path, grown: int, tail: Callable[[bytes, bytes], bytes]
):
    power_cuts(tmp_path, grown, tail, 7)


@pytest.mark.slow
@pytest.mark.parametrize("tail", [dropped, half, kept, zeros])
@pytest.mark.parametrize("grown", [0, 1_000_000])
def test_a_power_cut_at_any_step_leaves_the_last_commit_that_returned(
    tmp_path: Path, grown: int, tail: Callable[[bytes, bytes], bytes]
):
    power_cuts(tmp_path, grown, tail, 1)


def power_cuts(folder: Path, grown: int, tail: Callable[[bytes, bytes], bytes], stride: int) -> None:
    steps = len(steps_of_a_run(folder / "whole"))
    assert steps > 60
    for at in range(0, steps, stride):
        part = folder / str(at)
        prepared(part)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commitlog, "GROWN", grown)
            disk = Disk(patch, part / "cuts", part / "log")
            disk.fail = crash_at(at)
            run = run_of(part, 1)
            try:
                whole(run)
            except Crash:
                pass
            else:
                assert grown
            disk.cut(tail)
            disk.fail = lambda _at, _step: None
            checked_after(part, max(run.done, default=0))


def crash_at(wanted: int) -> Callable[[int, str], None]:
    def fail(at: int, _step: str) -> None:
        if at >= wanted:  # nothing that cleans up does anything either
            raise Crash

    return fail


def test_a_run_that_goes_on_after_a_kill_and_then_loses_power_keeps_its_commits(tmp_path: Path):
    """Kill -9 syncs nothing: who takes over syncs what it found before it builds on it."""
    steps = len(steps_of_a_run(tmp_path / "whole"))
    for at in range(0, steps, 3):
        folder = tmp_path / str(at)
        prepared(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commitlog, "GROWN", 0)
            disk = Disk(patch, folder / "cuts", folder / "log")
            disk.fail = crash_at(at)
            first = run_of(folder, 1)
            with pytest.raises(Crash):
                whole(first)
            disk.fail = lambda _at, _step: None
            second = run_of(folder, 1)
            found = second.commits.recovered()
            n = 0 if found is None else found.n
            assert n >= max(first.done, default=0)
        disk.cut()
        run, after = recovered_run(folder)
        assert after >= n
        assert shown(run.store, run.commits, 2) == states_after(after)


def test_a_full_disk_at_any_write_is_named_binds_nothing_and_the_next_attempt_works(tmp_path: Path):
    steps = steps_of_a_run(tmp_path / "whole")
    for at in [number for number, step in enumerate(steps) if step in ("write", "sync")]:
        folder = tmp_path / str(at)
        prepared(folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commitlog, "GROWN", 0)
            disk = Disk(patch, folder / "cuts", folder / "log")
            disk.fail = full_at(at)
            run = run_of(folder, 1)
            with pytest.raises(NadiError, match="DISK_FULL"):
                whole(run)
            done = max(run.done, default=0)
            found = run.commits.recovered()
            assert (0 if found is None else found.n) == done
            run = Run(run.store, run.commits, 1)  # live kernels are given up
            for n in range(done + 1, CUTS + 1):
                run.cut(n)
        assert shown(run.store, CommitLog(folder / "cuts", 0), 2) == states_after(CUTS)


def full_at(wanted: int) -> Callable[[int, str], None]:
    def fail(at: int, _step: str) -> None:
        if at == wanted:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return fail


# ---- sweeping


def test_a_sweep_deletes_what_older_epochs_left_and_nothing_that_counts_or_is_new(tmp_path: Path):
    first = run_of(tmp_path)
    for n in range(1, 6):
        first.cut(n)
    lost = put_delta(first.store, Line(), 0, 6, b"never bound", 1).object
    put_base(first.store, 1, 5, TinyKernel(), 1)
    first.store.put("notes", [b"of somebody else"])
    second = run_of(tmp_path)
    new = put_delta(second.store, Line(), 0, 6, b"under way", 2).object
    keep = second.commits.objects()
    gone = sweep(second.store, keep, 2)
    assert lost in gone
    assert set(second.store.list()) == keep | {new, "notes"}
    assert shown(second.store, second.commits, 2) == states_after(5)


def test_a_sweep_of_what_is_done_takes_attempts_that_were_not_bound(tmp_path: Path):
    run = run_of(tmp_path)
    run.cut(1)
    lost = put_delta(run.store, Line(), 0, 1, b"another attempt").object
    new = put_delta(run.store, Line(), 0, 2, b"under way").object
    early = put_base(run.store, 0, 1, TinyKernel()).piece.object
    assert sweep(run.store, run.commits.objects(), 1, done=1) == [lost]
    assert {new, early} < set(run.store.list())


def test_a_kernel_of_an_older_epoch_that_writes_on_is_never_read(tmp_path: Path):
    """Its objects are there, of the same cuts; the new run binds its own, and the next sweep takes the others."""
    old = run_of(tmp_path)
    for n in range(1, 4):
        old.cut(n)
    new = run_of(tmp_path)
    with pytest.raises(NadiError, match="CUT_FENCED"):
        old.cut(4)
    new.cut(4)
    with pytest.raises(NadiError, match="CUT_FENCED"):
        old.cut(5)
    assert shown(new.store, CommitLog(tmp_path / "cuts", 0), 2) == states_after(4)
    third = run_of(tmp_path)
    sweep(third.store, third.commits.objects(), third.epoch)
    assert set(third.store.list()) == third.commits.objects()
    assert loaded(third.store, third.commits.lines()[0], 0) == states_after(4)[0]
