"""Which frames of a state lie where: plans are carried out on a dict, and what counts must be the state after every cut."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.pipeline.state.layout import POLICY as DEFAULT
from nadi.pipeline.state.layout import Directory, Dump, Keys, Plan, Policy, Run, plan_base, plan_delta

FRAME_BYTES = DEFAULT.frame_bytes
POLICY = Policy(floor=3 * FRAME_BYTES, frame=16 * 1024, inline=2 * FRAME_BYTES, share=2, removed=1)
Content = tuple[str, int, int]
"""A frame: "base" and the cut it was made after, or "delta" and its cut; number of the frame within it."""


@dataclass
class Bucket:
    """A bucket's life: the store as a dict, and the dump that its host has."""

    store: dict[int, Content] = field(default_factory=dict)
    directory: Directory = field(default_factory=Directory)
    dump: Dump | None = None
    dumped: int = 0  # the cut of the dump
    ready: bool = False
    used: set[int] = field(default_factory=set)
    history: dict[int, list[Content]] = field(default_factory=dict)  # the delta frames of each cut

    def begin_dump(self, frames: int) -> None:
        deltas = self.directory.deltas
        self.dumped, self.ready = self.directory.cut, False
        self.dump = Dump(str(self.dumped), frames, frames * FRAME_BYTES, deltas.end, deltas.bytes)

    def batch(self, frames: int, keep: bool = True) -> Plan:
        cut = self.directory.cut + 1
        size = frames * FRAME_BYTES
        if not self.directory.token:
            plan = plan_base(self.directory, str(cut), cut, frames, size, POLICY)
            told: list[Content] = [("base", cut, i) for i in range(frames)]
        else:
            offer = self.dump if self.ready else None
            plan = plan_delta(self.directory, str(cut), cut, frames, size, offer, POLICY)
            told = [("delta", cut, i) for i in range(frames)]
        told += [("base", self.dumped, i) for i in range(*plan.copied)]
        if keep:
            self.carry_out(plan, told)
        return plan

    def base(self, frames: int) -> None:
        cut = self.directory.cut + 1
        plan = plan_base(self.directory, str(cut), cut, frames, frames * FRAME_BYTES, POLICY)
        self.carry_out(plan, [("base", cut, i) for i in range(frames)])
        self.dump = None

    def carry_out(self, plan: Plan, told: list[Content]) -> None:
        for key, content in zip([*keys(plan.written), *keys(plan.copies)], told, strict=True):
            assert key not in self.used
            self.used.add(key)
            self.store[key] = content
        for run in plan.removed:
            for key in keys(run):
                del self.store[key]
        self.directory = plan.after
        if self.dump is not None and plan.copied[1] == self.dump.frames:
            self.dump = None

    def check(self) -> None:
        """What counts is a base and every delta after it, and the store holds nothing that the directory does not know."""
        found = [self.store[key] for key in self.directory.live()]
        bases = [f for f in found if f[0] == "base"]
        assert found[: len(bases)] == bases
        after = bases[0][1] if bases else 0
        assert bases == [("base", after, i) for i in range(len(bases))]
        assert self.deltas_of(after) == found[len(bases) :]
        known = set(self.directory.live())
        if self.directory.growing is not None:
            known |= set(keys(self.directory.growing.keys))
        known |= {key for run in self.directory.dead for key in keys(run)}
        assert set(self.store) == known

    def deltas_of(self, after: int) -> list[Content]:
        return [content for cut, contents in sorted(self.history.items()) if cut > after for content in contents]


def keys(run: Keys) -> range:
    return range(*run)


step = st.one_of(
    st.tuples(st.just("batch"), st.integers(0, 5)),
    st.tuples(st.just("not kept"), st.integers(0, 5)),
    st.tuples(st.just("begin"), st.integers(1, 9)),
    st.tuples(st.just("ready"), st.just(0)),
    st.tuples(st.just("host dies"), st.just(0)),
    st.tuples(st.just("base"), st.integers(1, 3)),
)


@given(st.integers(1, 4), st.lists(step, max_size=40))
def test_what_counts_is_the_state_after_every_cut_whatever_dies_when(first: int, steps: list[tuple[str, int]]):
    bucket = Bucket()
    bucket.batch(first)
    for what, number in steps:
        cut = bucket.directory.cut + 1
        if what == "batch":
            bucket.history[cut] = [("delta", cut, i) for i in range(number)]
            bucket.batch(number)
        elif what == "not kept":
            bucket.batch(number, keep=False)
        elif what == "begin" and bucket.dump is None:
            bucket.begin_dump(number)
        elif what == "ready":
            bucket.ready = True
        elif what == "host dies":
            bucket.dump = None
        elif what == "base":
            bucket.base(number)
        bucket.check()
    bucket.dump = None
    while bucket.directory.growing is not None or bucket.directory.dead:
        bucket.batch(0)
        bucket.check()
    assert set(bucket.store) == set(bucket.directory.live())


@given(st.integers(0, 6), st.integers(1, 100), st.integers(0, 40), st.integers(0, 50))
def test_a_batch_writes_and_removes_in_proportion_to_its_delta(delta: int, frames: int, written: int, dead: int):
    bucket = Bucket()
    bucket.batch(1)
    bucket.begin_dump(frames)
    bucket.ready = True
    while bucket.directory.growing is None or bucket.directory.growing.written < min(written, frames - 1):
        if bucket.batch(0).copied[1] >= frames - 1:
            break
    runs = tuple((1_000 + 2 * i, 1_001 + 2 * i) for i in range(dead))
    bucket.directory = replace(bucket.directory, dead=runs)
    plan = plan_delta(bucket.directory, "t", 9, delta, delta * FRAME_BYTES, bucket.dump, POLICY)
    copied = plan.copied[1] - plan.copied[0]
    assert copied <= max(1, POLICY.share * delta)
    assert sum(end - first for first, end in plan.removed) <= POLICY.removed + 2 * (delta + copied)


def test_amortised_a_state_is_written_about_twice():
    bucket = Bucket()
    bucket.batch(1)
    deltas, wrote, removed, most = 0, 0, 0, 0
    for _ in range(2000):
        if bucket.dump is None and bucket.directory.heavy(POLICY):
            bucket.begin_dump(400)
        elif bucket.dump is not None:
            bucket.ready = True
        bucket.history[bucket.directory.cut + 1] = [("delta", bucket.directory.cut + 1, 0)]
        plan = bucket.batch(1)
        deltas += 1
        copied = plan.copied[1] - plan.copied[0]
        wrote += 1 + copied
        removed += sum(end - first for first, end in plan.removed)
        most = max(most, 1 + copied)
        assert bucket.directory.frames <= 400 + 1500
    bucket.check()
    assert removed > 2000
    assert wrote < 2.2 * deltas
    assert most == 1 + POLICY.share


def test_a_directory_of_another_version_is_refused_by_name():
    old = msgspec.msgpack.encode({"token": "x", "cut": 1, "frames": 3, "version": 1})
    with pytest.raises(NadiError) as caught:
        Directory.unpack(old)
    assert caught.value.condition == "STATE_FORMAT"


def test_a_directory_of_the_version_before_is_read_and_written_as_one_of_this_version():
    old = msgspec.msgpack.decode(Directory("token", 7).pack()) | {"version": 2}
    assert Directory.unpack(msgspec.msgpack.encode(old)) == Directory("token", 7)


def test_a_directory_comes_back_as_it_was_packed():
    bucket = Bucket()
    bucket.batch(2)
    bucket.begin_dump(5)
    bucket.ready = True
    bucket.batch(1)
    assert bucket.directory.growing is not None
    assert Directory.unpack(bucket.directory.pack()) == bucket.directory


def test_deltas_weigh_their_frames_too_so_that_tiny_ones_do_not_gather():
    assert Directory(deltas=Run(0, 65, 65)).heavy()
    assert not Directory(deltas=Run(0, 60, 60)).heavy()
    assert not Directory(base=Run(0, 1, 1 << 30), deltas=Run(0, 5000, 1 << 29)).heavy()
