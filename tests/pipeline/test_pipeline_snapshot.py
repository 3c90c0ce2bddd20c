"""A base that is made beside the batches: whatever is killed at whichever stage, what is loaded from the store is the state after its cut."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pipeline_bucket import Bucket, Within, at_rest, child, gone, hosts_of_this_process, kill
from pipeline_faults import POLICY, order

from nadi.kernel.contract import Kernel, Segment
from nadi.pipeline import engine
from nadi.pipeline.executor import forked, snapshot
from nadi.pipeline.executor.kernels import WITHOUT_SNAPSHOT
from nadi.pipeline.hosting.hostclient import Hosts, hosts_folder
from nadi.pipeline.inputs.fatrows import gather, unpack
from nadi.pipeline.kernelstage import StoredState
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.state.frames import from_frames
from nadi.pipeline.state.layout import Directory

CUTS, EVENTS = 80, 10
WINDOW = 100


@pytest.fixture
def ask() -> Iterator[Hosts]:
    yield from hosts_of_this_process(1)  # one for each test: a child must not be that of another test


@pytest.fixture
def spec(tmp_path: Path) -> AppSpec:
    text = f"""@app:name('Sums') define stream In (k string, n long); define stream Out (k string, s long);
        from In#window.length({WINDOW}) select k, sum(n) as s group by k insert into Out;"""
    orders = tmp_path / "orders"
    orders.write_text("hold")
    return AppSpec(
        "Sums", text, "", hosts=1, outputs=("Out",), engine="pipeline_faults", properties={"orders": str(orders)}
    )


class Run:
    """Batches one after the other; after each, what the store holds is loaded and compared with a kernel that nothing has happened to."""

    def __init__(self, ask: Hosts | Within, spec: AppSpec) -> None:
        self.ask, self.spec = ask, spec
        self.bucket = Bucket(ask, spec, [(f"k{i % 7}", i) for i in range(CUTS * EVENTS)])
        self.cut = 0
        self.reference: Kernel | None = None

    def order(self, what: str) -> None:
        order(Path(self.spec.properties["orders"]), what)

    def span(self) -> tuple[int, int]:
        return (self.cut - 1) * EVENTS, self.cut * EVENTS

    def step(self) -> None:
        self.cut += 1
        self.bucket.process(*self.span())
        self.follow()

    def follow(self) -> None:
        """Check the state after this batch."""
        heads, bodies = self.bucket.fat_rows(*self.span())
        gathered = gather([(unpack(h), b) for h, b in zip(heads, bodies, strict=True)], {0: "In"})
        if self.reference is None:
            self.reference = self.fresh()
            self.reference.start(gathered.started)
        self.reference.process(gathered.arrivals, gathered.clock)
        self.reference.delta()
        assert self.loaded() == list(self.reference.dump())
        known = {-1, *self.directory.live()}
        runs = [*self.directory.dead, *([self.directory.growing.keys] if self.directory.growing else [])]
        known |= {key for run in runs for key in range(*run)}
        assert {key for (key,) in self.bucket.state.values} == known

    def fresh(self) -> Kernel:
        return engine.make_kernel(engine.plan_app(self.spec.text), self.spec.outputs)

    def loaded(self) -> list[Segment]:
        kernel = self.fresh()
        kernel.load(from_frames(StoredState(self.bucket.state, 0).frames()))
        return list(kernel.dump())

    def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            assert self.cut < CUTS, "it never came to it"
            self.step()

    @property
    def directory(self) -> Directory:
        return StoredState(self.bucket.state, 0).directory

    @property
    def processes(self) -> Hosts:
        assert isinstance(self.ask, Hosts)
        return self.ask

    @property
    def child(self) -> int | None:
        return child(self.processes, 0)

    def at_rest(self) -> bool:
        return at_rest(self.processes, 0)

    @property
    def folders(self) -> list[Path]:
        return list(hosts_folder(os.getpid()).glob("snapshot-*"))

    def finish(self) -> None:
        """Go on until a base that was made beside the batches has taken over and all that it replaced is removed."""
        self.order("go")
        before = self.directory.generation
        self.until(lambda: self.at_rest() and self.directory.growing is not None)
        self.until(lambda: self.at_rest() and self.directory.growing is None and self.directory.generation > before)
        while self.cut < CUTS:
            self.step()
        assert [row[:2] for row in self.bucket.found] == expected(CUTS * EVENTS)


def expected(count: int) -> list[tuple[str, int]]:
    held = [(f"k{i % 7}", i) for i in range(count)]
    return [
        (k, sum(n for other, n in held[max(0, i + 1 - WINDOW) : i + 1] if other == k)) for i, (k, _) in enumerate(held)
    ]


def begun(run: Run) -> int:
    """A child is at work."""
    run.until(lambda: run.child is not None)
    found = run.child
    assert found is not None
    return found


def whole(run: Run) -> None:
    """A dump is whole and nothing of it is in the store."""
    child = begun(run)
    run.order("go")
    assert gone(child)
    assert run.directory.growing is None


def half(run: Run) -> None:
    """A part of the dump is in the store."""
    whole(run)
    run.until(lambda: run.directory.growing is not None and run.directory.growing.written > 3)


def test_a_base_is_made_beside_the_batches_and_what_it_replaced_is_removed(ask: Hosts, spec: AppSpec):
    run = Run(ask, spec)
    begun(run)
    for _ in range(5):  # batches go on beside a child that does not come on
        run.step()
    assert run.directory.growing is None
    run.finish()


def test_a_host_killed_while_its_child_dumps_takes_the_child_along(ask: Hosts, spec: AppSpec):
    run = Run(ask, spec)
    child = begun(run)
    (left,) = run.folders
    kill(ask, 0)
    assert gone(child)
    run.finish()
    assert left not in run.folders


def test_a_killed_child_costs_nothing_but_another_dump(ask: Hosts, spec: AppSpec):
    run = Run(ask, spec)
    first = begun(run)
    os.kill(first, signal.SIGKILL)
    run.until(lambda: run.child not in (None, first))
    run.order("die")  # in the middle of its dump
    second = run.child
    assert second is not None
    assert gone(second)
    run.finish()


def test_a_host_killed_when_the_dump_is_whole_makes_another_one(ask: Hosts, spec: AppSpec):
    run = Run(ask, spec)
    whole(run)
    kill(ask, 0)
    run.finish()


def test_a_host_killed_between_two_slices_leaves_frames_that_are_removed(ask: Hosts, spec: AppSpec):
    run = Run(ask, spec)
    half(run)
    growing = run.directory.growing
    assert growing is not None
    kill(ask, 0)
    run.order("hold")
    run.step()
    assert run.directory.growing is None
    assert growing.keys[1] > growing.keys[0]
    run.finish()
    assert not {key for (key,) in run.bucket.state.values} & set(range(*growing.keys))


def test_a_host_killed_after_the_switch_was_answered_but_not_kept_goes_on_from_before_it(ask: Hosts, spec: AppSpec):
    run = Run(ask, spec)
    half(run)
    while True:
        before = run.bucket.now()
        run.cut += 1
        run.bucket.process(*run.span())
        if run.directory.growing is None:
            break
        run.follow()
    run.bucket.lose(before)
    assert run.directory.growing is not None
    kill(ask, 0)
    run.cut -= 1
    run.finish()


def test_a_host_killed_while_dead_frames_are_removed_goes_on_removing(ask: Hosts, spec: AppSpec):
    run = Run(ask, spec)
    half(run)
    run.until(lambda: run.directory.growing is None)
    assert run.directory.dead
    kill(ask, 0)
    run.order("hold")
    run.until(lambda: not run.directory.dead)
    run.finish()


def test_a_repeated_task_costs_the_dump_and_nothing_else(ask: Hosts, spec: AppSpec):
    run = Run(ask, spec)
    half(run)
    before = run.bucket.now()
    run.cut += 1
    run.bucket.process(*run.span())
    run.bucket.lose(before)
    run.order("hold")
    run.bucket.process(*run.span())
    run.follow()
    assert run.directory.growing is None
    run.finish()


def test_a_zombie_takes_the_dump_with_it_but_never_becomes_part_of_the_state(ask: Hosts, spec: AppSpec):
    run = Run(ask, spec)
    half(run)
    old = run.bucket.now()
    run.step()
    lost = run.span()
    run.step()
    now = run.bucket.now()
    run.bucket.lose(old)
    run.order("hold")
    run.bucket.process(*lost)  # an attempt that was given up asks with the state before the last two batches
    zombie = run.directory.token
    run.bucket.lose(now)
    assert zombie != run.directory.token
    run.step()
    assert run.directory.growing is None
    run.finish()


def test_without_memory_for_a_child_a_base_is_written_within_a_batch_before_deltas_grow_without_end(
    spec: AppSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(snapshot, "enough_memory", lambda: False)
    run = Run(Within(tmp_path), spec)
    generations, most = set(), 0
    while run.cut < CUTS:
        run.step()
        assert run.directory.growing is None
        generations.add(run.directory.generation)
        most = max(most, run.directory.deltas.bytes)
    assert len(generations) > 3
    assert most > WITHOUT_SNAPSHOT * POLICY.floor / 2
    assert most < (WITHOUT_SNAPSHOT + 1) * POLICY.floor


def test_two_hosts_of_a_machine_do_not_dump_at_the_same_time(ask: Hosts, spec: AppSpec):
    run = Run(ask, spec)
    begun(run)
    assert forked.turn(hosts_folder(os.getpid())) is None
    kill(ask, 0)
    run.order("hold")
    run.until(lambda: run.child is not None)
    run.finish()
