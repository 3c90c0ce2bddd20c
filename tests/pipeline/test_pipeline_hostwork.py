"""What hosts do for batches of the thin pipeline, without Spark: whatever fails, is repeated or comes late, rows and states are those of a replay."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pipeline_reference import APP as RISES
from pipeline_reference import write_input
from pipeline_testlog import FolderSink
from pipeline_work import PACK, Rig, Told, Within, ask_run, cuts_of, groups_of, sides, spec_of, sweep

from nadi.errors import error
from nadi.io import durablefiles
from nadi.kernel.rows.engine import RowsKernel
from nadi.kernel.segments import stream_of
from nadi.pipeline.executor import livekernels
from nadi.pipeline.hosting.lane import RECEIPT
from nadi.pipeline.statelog.lines import Line

SUMS = """@app:name('Work')
@source(type='test', file='{folder}/in') define stream In (k string, n long);
@sink(type='test', file='{folder}/out') define stream Out (k string, s long);
from In#window.length(50) select k, sum(n) as s group by k insert into Out;"""
TIMED = """@app:name('Work')
@source(type='test', file='{folder}/in') define stream In (k string, n long);
@sink(type='test', file='{folder}/out') define stream Out (k string, s long);
partition with (k of In) begin
    from In#window.timeBatch(300 milliseconds) select k, sum(n) as s insert into Out;
end;"""
FILTER = """@app:name('Work')
@source(type='test', file='{folder}/in') define stream In (k string, n long);
@sink(type='test', file='{folder}/out') define stream Out (k string, n long);
define table Seen (k string, n long);
from In[n > 500] select k, n insert into Out;
from In[n > 900] select k, n insert into Seen;"""
APPS = {"rises": RISES, "sums": SUMS, "timed": TIMED, "filter": FILTER}
CUTS = 12


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[Within]]:
    yield from sides(tmp_path, 2)


def made(folder: Path, app: str = "rises", cuts: int = CUTS, size: int = 25, **more: Any) -> Rig:
    spec = spec_of(folder, APPS[app], **more)
    write_input(folder / "in", cuts * size * 3)
    return Rig(spec, cuts_of(folder / "in", [size * n for n in range(1, cuts + 1)]))


def finish(rig: Rig, host: Within, fresh: Within) -> None:
    """One more cut, then one by a host that has nothing but the state log: all is as it should be."""
    rig.step(host)
    rig.check()
    rig.step(fresh)
    rig.check()


# ---- cuts


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("buckets", [1, 3])
def test_cuts_in_one_stage_give_what_a_replay_gives(tmp_path: Path, two: list[Within], app: str, buckets: int):
    rig = made(tmp_path, app, buckets=buckets)
    for n in range(CUTS - 1):
        rig.step(two[0], all_told=n == 0, spec=n == 0)
    rig.check()
    rig.step(two[1])
    rig.check()
    assert any(told["out"].get("Out") for cut in rig.told for told in cut.values())


@pytest.mark.parametrize("app", ["rises", "timed"])
def test_cuts_in_two_stages_give_what_a_replay_gives(tmp_path: Path, two: list[Within], app: str):
    rig = made(tmp_path, app, buckets=5)
    for n in range(CUTS - 1):
        rig.commit(*rig.both(two, dict(enumerate(two)), all_told=n == 0, spec=n == 0))
    rig.check()
    rig.commit(*rig.both(two, {0: two[1], 1: two[0]}))
    rig.check()


def test_the_deltas_of_a_hosts_buckets_are_one_object(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path, buckets=4)
    rig.step(two[0])
    before = set(rig.store.list())
    rig.step(two[0])
    (_,) = set(rig.store.list()) - before
    assert len({told["piece"][1] for told in rig.told[-1].values()}) == 4


def test_a_receipt_tells_what_progress_is_made_of(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path, "timed", buckets=2)
    rig.step(two[0])
    told = rig.step(two[0])["buckets"]
    assert sum(t["in"].get("In", 0) for t in told) > 25
    assert sum(t["bytes"] for t in told) > 100
    assert told[0]["highs"] == [[0, 0, rig.cuts[2].clock]]
    assert {t["due"] for t in told if t["due"] is not None} > set()
    assert all(t["due"] is None or t["due"] > rig.cuts[2].clock for t in told)
    assert all(t["state_bytes"] > t["state_written"] > 0 and t["memory"] > 1_000_000 for t in told)
    assert [t["receipts"][0][:3] for t in told if t["receipts"]] == [[0, t["bucket"], 2] for t in told if t["receipts"]]


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("epoch", [1, 2])
def test_what_an_attempt_gave_before_a_message_was_set_aside_is_not_used(
    tmp_path: Path, two: list[Within], stages: int, epoch: int
):
    rig = made(tmp_path, "sums", buckets=2)

    def attempt(**more: Any) -> list[Told]:
        return [rig.run(two[0], **more)] if stages == 1 else rig.both(two, {0: two[0], 1: two[0]}, **more)

    rig.commit(*attempt())
    attempt()  # both kernels have taken the cut, and wrote what it gave
    rig.cuts[2] = rig.cuts[2].without((0, 0), 30).without((0, 0), 31)
    rig.epoch = epoch
    rig.commit(*attempt())
    assert sum(told["errors"] for told in rig.told[-1].values()) == 2
    rig.check()
    assert {t["state"] for t in attempt()} == {"done"}
    rig.commit(*attempt(all_told=False, spec=False))
    rig.check()


def test_what_a_host_does_not_know_it_asks_for(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path)
    assert rig.run(two[0], spec=False)["need"] == ["spec"]
    rig.step(two[0])
    told = rig.run(two[1], all_told=False)
    assert (told["state"], told["need"], told["buckets"]) == ("need", ["line"], [])
    assert rig.run(two[0], all_told=False, spec=False)["state"] == "done"


def test_a_find_sees_the_kernels_whose_state_is_in_the_state_log(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path, "filter")
    head = {"op": "find", "app": rig.spec.id, "bucket": 0, "text": "from Seen select k, n"}
    two[0].apps.define(rig.spec)
    assert two[0].apps.answer(head, []).head == {"need": "kernel"}
    rig.step(two[0])
    found = msgspec.msgpack.decode(two[0].apps.answer(head, []).parts[0])
    assert found
    assert all(n > 900 for _, n in found)
    selected = two[0].apps.answer({**head, "text": "from Seen select k, n order by n desc limit 1"}, [PACK(found)])
    assert [n for _, n in msgspec.msgpack.decode(selected.parts[0])] == [max(n for _, n in found)]


def test_kernels_that_nobody_asks_for_are_let_go_and_loaded_again(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path, buckets=2)
    rig.step(two[0])
    app = two[0].apps.define(rig.spec)
    assert app.kernels.let_go_idle(app.last_use + livekernels.IDLE + 1) == 2
    assert rig.run(two[0], all_told=False)["need"] == ["line"]
    assert all(told["loading"] > 0 for told in rig.step(two[0])["buckets"])
    rig.check()


def test_a_restored_state_is_what_an_app_begins_with(tmp_path: Path, two: list[Within]):
    before = made(tmp_path / "before", "sums")
    before.step(two[0])
    begin = tmp_path / "begin"
    begin.mkdir()
    (begin / "0.state").write_bytes(b"".join(stream_of(before.state(0))))
    states = []
    for name, hosts in (("one", two[:1] * 2), ("other", two)):
        rig = made(tmp_path / name, "sums", begin=str(begin))
        rig.step(hosts[0])
        (begin / "0.state").rename(tmp_path / "kept")  # it is forgotten once a cut is committed
        rig.step(hosts[1])
        (tmp_path / "kept").rename(begin / "0.state")
        states.append((rig.state(0), rig.delivered()))
    assert states[0] == states[1]
    assert states[0][1][1, 0] != before.delivered()[1, 0]


# ---- repetitions


def test_a_repeated_request_gets_the_same_answer_without_another_run(
    tmp_path: Path, two: list[Within], monkeypatch: pytest.MonkeyPatch
):
    rig = made(tmp_path, buckets=2)
    rig.step(two[0])
    once = rig.run(two[0])
    monkeypatch.setattr(RowsKernel, "process", None)
    objects = rig.store.list()
    again = rig.run(two[0], all_told=False)
    assert again == once
    assert rig.store.list() == objects
    monkeypatch.undo()
    rig.commit(again)
    finish(rig, *two)


def test_a_repetition_by_a_new_run_is_written_again_since_what_the_old_one_wrote_is_swept(
    tmp_path: Path, two: list[Within], monkeypatch: pytest.MonkeyPatch
):
    rig = made(tmp_path, buckets=2)
    for cut in (1, 2):  # the first one writes whole states, the second one deltas
        lost = rig.run(two[0])
        rig.epoch += 1
        sweep(rig)
        with monkeypatch.context() as patch:
            patch.setattr(RowsKernel, "process", None)
            told = rig.run(two[0])
        assert {t["bucket"] for t in told["buckets"]} == {0, 1}
        assert all(a["tip"] != b["tip"] for a, b in zip(told["buckets"], lost["buckets"], strict=True))
        rig.commit(told)
        assert rig.at == cut
    finish(rig, two[1], two[0])


def test_the_same_cut_from_another_state_is_no_repetition(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path)
    rig.step(two[0])
    assert rig.run(two[0])["state"] == "done"
    rig.at, rig.lines, rig.epoch = (
        0,
        {0: Line()},
        2,
    )  # what was committed is lost, and another host makes the first cut again
    rig.step(two[1])
    assert rig.run(two[0], all_told=False)["need"] == ["line"]
    finish(rig, *two)


def test_a_run_that_is_over_is_fenced_and_so_is_a_cut_that_is(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path)
    rig.step(two[0])
    old = rig.group(2)
    rig.step(two[0])
    late = rig.group(2)
    rig.epoch = 2
    rig.step(two[0])
    for group in (old, late, {**old, "epoch": 2}):
        (told,) = groups_of(two[0].read(ask_run([group]))[0].body)
        assert told["state"] == "fenced"
    other = replace(rig.spec, text=rig.spec.text + " ")  # that of another text, as well
    told = {**old, "app": other.id, "spec": other.to_json()}
    assert groups_of(two[0].read(ask_run([told]))[0].body)[0]["state"] == "fenced"
    (row,) = two[0].read(PACK({"k": "read", "host": 0, "tasks": 1, "task": 0, **old}))
    assert (row.host, groups_of(row.body)[0]["state"]) == (RECEIPT, "fenced")
    finish(rig, *two)


def test_a_zombie_whose_run_is_over_cannot_spoil_the_kernel(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path)
    rig.step(two[0])
    old = rig.group(2)
    rig.step(two[0])
    rig.step(two[0])
    assert (
        groups_of(two[1].read(ask_run([old]))[0].body)[0]["state"] == "done"
    )  # a host that knows nothing of the later cuts
    finish(rig, *two)


@pytest.mark.parametrize("seed", range(6))
def test_attempts_of_two_hosts_in_any_mixture_give_what_a_replay_gives(
    tmp_path: Path, two: list[Within], seed: int, monkeypatch: pytest.MonkeyPatch
):
    dice = random.Random(seed)
    cuts = 40
    rig = made(tmp_path, dice.choice(["rises", "sums", "timed"]), cuts=cuts, size=8, buckets=dice.choice([1, 2, 3]))
    spec = replace(rig.spec, engine="pipeline_small")  # whose states are renewed all the time
    rig.spec = spec
    old: list[Told] = []
    while rig.at < cuts:
        tries = [attempt(rig, two, dice, monkeypatch) for _ in range(dice.choice([1, 1, 2, 3]))]
        done = [told for told in tries if told is not None]
        if dice.random() < 0.2 and old:
            two[dice.randrange(2)].read(ask_run([dice.choice(old)]))
        old.append(rig.group(rig.at + 1))
        if dice.random() < 0.1:
            rig.epoch += 1  # the receipts were lost with the run
            sweep(rig)
        elif done:
            picked = [dice.choice([t for told in done for t in told if t["bucket"] == b]) for b in rig.lines]
            rig.commit({"state": "done", "buckets": picked})
    rig.check()
    assert sum(told["base"] is not None for cut in rig.told for told in cut.values()) > 3


def attempt(rig: Rig, two: list[Within], dice: random.Random, monkeypatch: pytest.MonkeyPatch) -> list[Told] | None:
    """What the buckets tell of one attempt at the next cut; None where it came to nothing."""
    hosts = two if dice.random() < 0.7 else two[::-1]
    with monkeypatch.context() as patch:
        if dice.random() < 0.15:
            patch.setattr(livekernels, "write_deltas", failing(OSError(errno.EIO, "broken")))
        if dice.random() < 0.15:
            patch.setattr(FolderSink, "write", failing(error("CONNECTION_UNAVAILABLE", connector="x", reason="away")))
        if dice.random() < 0.5:
            told = [rig.run(hosts[0], all_told=dice.random() < 0.5)]
        else:
            told = rig.both(hosts[: dice.choice([1, 2])], dict(enumerate(hosts)), all_told=dice.random() < 0.5)
    found = [bucket for each in told if each["state"] == "done" for bucket in each["buckets"]]
    return found if {b["bucket"] for b in found} == set(rig.lines) else None


def failing(reason: Exception) -> Callable[..., Any]:
    """A function that fails."""

    def fail(*_: object) -> None:
        raise reason

    return fail


# ---- failures


def _in_process(patch: pytest.MonkeyPatch) -> None:
    process = RowsKernel.process

    def late(kernel: RowsKernel, *given: Any) -> Any:
        process(kernel, *given)
        raise MemoryError

    patch.setattr(RowsKernel, "process", late)


def _in_sync(count: int) -> Callable[[pytest.MonkeyPatch], None]:
    """The sync number `count` fails: that of the object, that of the folder."""

    def broken(patch: pytest.MonkeyPatch) -> None:
        left = [count]

        def sync(descriptor: int) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise OSError(errno.EIO, "broken")
            os.fsync(descriptor)

        patch.setattr(durablefiles, "sync", sync)

    return broken


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "in the kernel": _in_process,
    "in its delta": lambda patch: patch.setattr(RowsKernel, "delta", failing(ValueError("x"))),
    "before the object": lambda patch: patch.setattr(livekernels, "write_deltas", failing(ValueError("x"))),
    "while it is written": lambda patch: patch.setattr(durablefiles, "write", failing(OSError(errno.EIO, "x"))),
    "no space": lambda patch: patch.setattr(durablefiles, "write", failing(OSError(errno.ENOSPC, "full"))),
    "in its sync": _in_sync(1),
    "in its renaming": lambda patch: patch.setattr(durablefiles, "rename", failing(OSError(errno.EIO, "x"))),
    "in the sync of the folder": _in_sync(2),
}


@pytest.mark.parametrize("buckets", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_kernel_does_not_outlive_a_failure_before_its_cut_is_durable(
    tmp_path: Path, two: list[Within], fault: str, buckets: int, monkeypatch: pytest.MonkeyPatch
):
    rig = made(tmp_path, buckets=buckets)
    rig.step(two[0])
    rig.step(two[0])
    with monkeypatch.context() as patch:
        FAULTS[fault](patch)
        told = rig.run(two[0], all_told=False)
    assert told["state"] == "failed"
    assert rig.run(two[0], all_told=False)["need"] == ["line"]
    finish(rig, *two)


def test_a_full_disk_is_told_by_its_name(tmp_path: Path, two: list[Within], monkeypatch: pytest.MonkeyPatch):
    rig = made(tmp_path)
    rig.step(two[0])
    with monkeypatch.context() as patch:
        FAULTS["no space"](patch)
        told = rig.run(two[0])
    assert told["error"]["condition"] == "DISK_FULL"
    assert str(rig.spec.place.state / "log") in told["error"]["parameters"]["path"]


def test_a_sink_that_fails_costs_no_kernel_and_a_repetition_only_writes_again(
    tmp_path: Path, two: list[Within], monkeypatch: pytest.MonkeyPatch
):
    rig = made(tmp_path, buckets=2)
    rig.step(two[0])
    with monkeypatch.context() as patch:
        patch.setattr(FolderSink, "write", failing(error("CONNECTION_UNAVAILABLE", connector="x", reason="away")))
        told = rig.run(two[0])
    assert told["error"]["condition"] == "CONNECTION_UNAVAILABLE"
    monkeypatch.setattr(RowsKernel, "process", None)
    told = rig.run(two[0], all_told=False)
    monkeypatch.undo()
    rig.commit(told)
    finish(rig, *two)


def test_a_group_that_fails_does_not_affect_the_others(tmp_path: Path, two: list[Within]):
    rigs = [made(tmp_path / name) for name in ("one", "away", "three")]
    broken = replace(rigs[0].spec, app="Broken", state=str(tmp_path), text="from Inn select n insert into Out;")
    groups = [*(rig.group(1) for rig in rigs), {**rigs[0].group(1), "app": broken.id, "spec": broken.to_json()}]
    (tmp_path / "away" / "in.away").touch()
    one, away, three, unplanned = groups_of(two[0].read(ask_run(groups))[0].body)
    assert [told["state"] for told in (one, away, three, unplanned)] == ["done", "failed", "done", "failed"]
    assert away["error"]["condition"] == "CONNECTION_UNAVAILABLE"
    assert "condition" in unplanned["error"]
    for rig, told in ((rigs[0], one), (rigs[2], three)):
        rig.commit(told)
        rig.check()
    (tmp_path / "away" / "in.away").unlink()
    rigs[1].step(two[0])
    rigs[1].check()


def test_a_bucket_is_never_processed_with_events_missing(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path, buckets=2)
    rig.step(two[0])
    rows = rig.rows(two)
    whole = [row for row in rows if row.host != RECEIPT]
    missing = [row for row in whole if _task(row.body) != 1]
    assert len(missing) < len(whole)
    assert groups_of(two[0].write([bytes(row.body) for row in missing])) == []
    (tmp_path / "in.away").touch()
    (failed,) = rig.rows([two[0]])
    assert (failed.host, groups_of(failed.body)[0]["error"]["condition"]) == (RECEIPT, "CONNECTION_UNAVAILABLE")
    (tmp_path / "in.away").unlink()
    rig.commit(*groups_of(two[0].write([bytes(row.body) for row in whole])))
    finish(rig, *two)


def _task(body: bytes | memoryview) -> int | None:
    """Which task a clock row is of."""
    return msgspec.msgpack.decode(body)[3].get("task")


def test_a_line_that_leads_elsewhere_is_refused(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path)
    rig.step(two[0])
    group = rig.group(2)
    group["at"] = {0: ["another tip", group["at"][0][1]]}
    (told,) = groups_of(two[0].read(ask_run([group]))[0].body)
    assert "leads to" in told["error"]["message"]


def test_a_damaged_state_log_is_told_by_its_name(tmp_path: Path, two: list[Within]):
    rig = made(tmp_path)
    rig.step(two[0])
    rig.step(two[0])
    path = rig.spec.place.state / "log" / rig.lines[0].deltas[-1].object
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert rig.run(two[1])["error"]["condition"] == "STATE_LOG_DAMAGED"
