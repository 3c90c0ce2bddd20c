"""Host processes and their children that are killed, over their lanes: rows and states are those of a replay."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pipeline_bucket import at_rest, child, gone, host_pid, hosts_of_this_process, kill
from pipeline_faults import LOG_POLICY, order
from pipeline_reference import APP as RISES
from pipeline_reference import write_input
from pipeline_work import Process, Rig, Told, Within, cuts_of, sides, spec_of

from nadi.pipeline.executor import bases, forked
from nadi.pipeline.executor.livekernels import WITHOUT_CHILD
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder
from nadi.pipeline.hosting.lane import RECEIPT, LaneFailure, Row
from nadi.pipeline.statelog.lines import heavy

SUMS = """@app:name('Work')
@source(type='test', file='{folder}/in') define stream In (k string, n long);
@sink(type='test', file='{folder}/out', hold='{folder}/hold') define stream Out (k string, s long);
from In#window.length(100) select k, sum(n) as s group by k insert into Out;"""
CUTS, EVENTS = 80, 10


@pytest.fixture
def ask() -> Iterator[Hosts]:
    yield from hosts_of_this_process(2)


@pytest.fixture
def within(tmp_path: Path) -> Iterator[Within]:
    for made in sides(tmp_path, 1):
        yield made[0]


class Sums(Rig):
    """An app whose children a test can hold up and break."""

    def __init__(self, folder: Path) -> None:
        (folder / "orders").write_text("hold")
        spec = spec_of(folder, SUMS, engine="pipeline_faults", properties={"orders": str(folder / "orders")})
        lines = (f"{i * 10}\t{json.dumps([f'k{i % 7}', i])}\n" for i in range(CUTS * EVENTS))
        (folder / "in").write_text("".join(lines))
        super().__init__(spec, cuts_of(folder / "in", range(EVENTS, CUTS * EVENTS + 1, EVENTS)))
        self.folder = folder

    def order(self, what: str) -> None:
        order(self.folder / "orders", what)

    def until(self, host: Any, holds: Callable[[], bool]) -> None:
        while not holds():
            assert self.at < CUTS, "it never came to it"
            self.step(host, all_told=False)

    def child_of(self, ask: Hosts) -> int:
        """A child that is at work in host 0."""
        self.until(Process(ask, 0), lambda: child(ask, 0) is not None)
        found = child(ask, 0)
        assert found is not None
        return found

    def based(self) -> int:
        """The cut that the base of the committed line is of."""
        base = self.lines[0].base
        return 0 if base is None else base.cut

    def finish(self, ask: Hosts) -> None:
        """Go on until a child's base counts, and a fresh host has begun with it."""
        self.order("go")
        host, before = Process(ask, 0), self.based()
        self.until(host, lambda: at_rest(ask, 0) and before < self.based() < self.at)
        self.check()
        kill(ask, 0)
        self.step(host)
        self.step(host, all_told=False)
        self.check()


def test_a_child_writes_a_base_while_cuts_go_on_and_a_fresh_host_begins_with_it(ask: Hosts, tmp_path: Path):
    rig = Sums(tmp_path)
    found = rig.child_of(ask)
    assert forked.turn(hosts_folder(os.getpid())) is None  # one child of a machine's hosts at a time
    based, at = rig.based(), rig.at
    for _ in range(5):
        told = rig.step(Process(ask, 0), all_told=False)
        assert told["buckets"][0]["snapshot"] == "dumping"
    assert rig.based() == based
    rig.order("go")
    assert gone(found)
    rig.step(Process(ask, 0), all_told=False)
    assert rig.based() == at
    assert rig.lines[0].older is not None
    rig.finish(ask)


def test_a_killed_child_costs_nothing_but_another_base(ask: Hosts, tmp_path: Path):
    rig = Sums(tmp_path)
    first = rig.child_of(ask)
    os.kill(first, signal.SIGKILL)
    rig.until(Process(ask, 0), lambda: child(ask, 0) not in (None, first))
    second = child(ask, 0)
    rig.order("die")  # in the middle of its base
    assert second is not None
    assert gone(second)
    rig.finish(ask)


def test_a_killed_host_takes_its_child_along_and_another_base_is_begun(ask: Hosts, tmp_path: Path):
    rig = Sums(tmp_path)
    found = rig.child_of(ask)
    kill(ask, 0)
    assert gone(found)
    rig.finish(ask)
    owners = {int(told.name.split("-")[1]) for told in hosts_folder(os.getpid()).glob("base-*")}
    assert owners <= {host_pid(ask, 0)}, "the host that runs now may be writing another one already"


def test_a_base_of_a_run_that_is_over_counts_for_nobody(ask: Hosts, tmp_path: Path):
    rig = Sums(tmp_path)
    found = rig.child_of(ask)
    rig.order("go")
    assert gone(found)  # it is whole, and nobody has been told
    based = rig.based()
    rig.order("hold")
    rig.epoch += 1
    rig.step(Process(ask, 0))
    assert rig.based() == based
    rig.finish(ask)


def test_a_base_whose_kernel_was_discarded_does_not_count(ask: Hosts, tmp_path: Path):
    rig = Sums(tmp_path)
    found = rig.child_of(ask)
    based, log = rig.based(), tmp_path / "state" / "log"
    log.rename(tmp_path / "aside")
    log.touch()  # no object can be put there
    assert rig.run(Process(ask, 0), all_told=False)["state"] == "failed"
    assert gone(found)
    log.unlink()
    (tmp_path / "aside").rename(log)
    rig.step(Process(ask, 0))
    assert rig.based() == based
    rig.finish(ask)


def test_without_memory_for_a_child_a_base_is_written_within_a_cut_before_deltas_grow_without_end(
    within: Within, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bases, "enough_memory", lambda: False)
    rig = Sums(tmp_path)
    most, seen = 0, set()
    while rig.at < CUTS:
        (told,) = rig.step(within, all_told=rig.at == 0)["buckets"]
        assert told["snapshot"] == ""
        most = max(most, rig.lines[0].delta_bytes)
        seen.add(rig.based())
    assert len(seen) > 3
    assert WITHOUT_CHILD * LOG_POLICY.floor / 2 < most < (WITHOUT_CHILD + 1) * LOG_POLICY.floor
    rig.check()


def test_a_base_waits_for_the_child_of_another_kernel_and_is_not_written_within_a_cut(within: Within, tmp_path: Path):
    folder = hosts_folder(os.getpid())
    folder.mkdir(exist_ok=True)
    lock = forked.turn(folder)
    assert lock is not None
    rig, seen = Sums(tmp_path), set()
    while rig.at < CUTS:
        rig.step(within, all_told=rig.at == 0)
        seen.add(rig.based())
    os.close(lock)
    assert len(seen) == 1
    assert heavy(rig.lines[0], LOG_POLICY, WITHOUT_CHILD)
    rig.check()


def test_a_host_killed_between_its_delta_and_the_receipt_leaves_a_cut_that_is_made_again(ask: Hosts, tmp_path: Path):
    rig, host = Sums(tmp_path), Process(ask, 0)
    rig.order("go")
    for _ in range(3):
        rig.step(host)
    before = rig.store.list()
    (tmp_path / "hold").touch()
    lost: list[BaseException] = []

    def asks() -> None:
        try:
            rig.run(host)
        except (OSError, LaneFailure) as reason:
            lost.append(reason)

    asking = threading.Thread(target=asks)
    asking.start()
    while not (tmp_path / "hold-0").exists() or rig.store.list() == before:
        assert asking.is_alive()
    kill(ask, 0)
    asking.join(60)
    assert len(lost) == 1
    (tmp_path / "hold").unlink()
    rig.step(host)
    rig.finish(ask)


@pytest.mark.parametrize("seed", [1, 2])
def test_hosts_killed_at_any_moment_of_cuts_in_two_stages_lose_and_double_nothing(
    ask: Hosts, tmp_path: Path, seed: int
):
    dice = random.Random(seed)
    spec = spec_of(tmp_path, RISES, buckets=3, handover=64, engine="pipeline_small")
    write_input(tmp_path / "in", 2_000)
    rig = Rig(spec, cuts_of(tmp_path / "in", range(40, 401, 40)))
    hosts = {0: Process(ask, 0), 1: Process(ask, 1)}
    named, killed = 0, list[int]()
    while rig.at < 10:
        fault = threading.Timer(dice.uniform(0, 0.03), kill_one, (ask, dice.randrange(2), killed))
        if dice.random() < 0.6:
            fault.start()
        try:
            rows = rig.rows([hosts[0], hosts[1]])
            named += sum(_is_named(row) for row in rows)
            told = rig.processed(rows, hosts)
        except (OSError, LaneFailure):
            continue
        finally:
            fault.cancel()
        if _complete(told, rig):
            rig.commit(*told)
    rig.check()
    assert named > 0
    assert killed


def _is_named(row: Row) -> bool:
    """Whether the events of a row stay in the host that has read them."""
    head = {} if row.host == RECEIPT else msgspec.msgpack.decode(row.body)[3]
    return head.get("k") == "events" and "at" in head


def _complete(told: list[Told], rig: Rig) -> bool:
    """Whether all buckets have told of the cut; a host that fails because another one was killed has it made again."""
    states = {each["state"] for each in told}
    return states == {"done"} and sum(len(each["buckets"]) for each in told) == len(rig.lines)


def kill_one(ask: Hosts, index: int, killed: list[int]) -> None:
    """kill -9 of a host, where there is one just now."""
    pid = host_pid(ask, index)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)


def test_events_stay_in_the_host_that_read_them_where_hosts_are_near(ask: Hosts, tmp_path: Path):
    spec = spec_of(tmp_path, RISES, buckets=2, handover=64)
    write_input(tmp_path / "in", 2_000)
    rig = Rig(spec, cuts_of(tmp_path / "in", range(100, 501, 100)))
    hosts = {0: Process(ask, 0), 1: Process(ask, 1)}
    sizes = []
    for n in range(1, 6):
        rows = rig.rows([hosts[0], hosts[1]])
        assert all(row.host in (0, 1) for row in rows if row.host != RECEIPT)
        sizes += [len(row.body) for row in rows]
        if n == 3:
            kill(ask, 0)  # what it had read is read again
        rig.commit(*rig.processed(rows, hosts))
    rig.check()
    far = Rig(spec_of(tmp_path / "far", RISES, buckets=2), list(rig.cuts.values()))
    write_input(tmp_path / "far" / "in", 2_000)
    assert max(len(row.body) for row in far.rows([hosts[0], hosts[1]], n=2)) > max(sizes)
