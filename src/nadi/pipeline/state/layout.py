"""Which frames of a bucket lie in the state store and which of them count: pure planning, nothing is read or written here.

The keys of a bucket's MapState are frames, and one, `DIRECTORY_KEY`, is the directory. Deltas have the keys 0, 1, 2 … for the whole life of the bucket; the
base of *generation* g has the keys g·2^40, g·2^40 + 1 …, so no key is ever used twice. The state after the directory's cut is the base followed by the live
deltas.

A new base of a large state is made in the background (`nadi.pipeline.executor.snapshot`), from the state after one cut, and comes into the store in slices,
beside what counts: the directory calls it `growing`. With the last slice it becomes the base, in the same commit, and what it replaces is `dead`. Dead frames
are removed in bounded steps. A dump that is lost with its host leaves frames that the directory knows: they are dead, and another dump is begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from nadi.errors import error

DIRECTORY_KEY = -1
FORMAT = 3
_READABLE = (2, FORMAT)  # 2 had no packed records, else it is the same
_GENERATION = 40  # bits below the generation in a key


@dataclass(frozen=True, slots=True)
class Policy:
    """When and how fast bases are renewed. Bytes, but for `removed`.

    A base is renewed when deltas weigh more than it: reading them would cost more. A delta frame weighs `frame` more than its bytes, and below `floor`
    nothing is done. A state that weighed no more than `inline` is dumped within the batch, which costs no more than that and what the batch brought. Of
    another dump a batch writes `share` times the bytes of its delta, but at least one frame. A batch removes `removed` frames and two for each that it
    writes. A frame has `frame_bytes` at most: the state store of Spark is slow with many small values, and pages of it are counted in values.
    """

    frame_bytes: int = 2 * 1024 * 1024
    floor: int = 1024 * 1024
    frame: int = 16 * 1024
    inline: int = 2 * 1024 * 1024
    share: int = 4
    removed: int = 4


POLICY = Policy()

Keys = tuple[int, int]
"""A run of keys: first, end."""


@dataclass(frozen=True, slots=True)
class Run:
    """Frames under consecutive keys, [first, end), and their bytes together."""

    first: int = 0
    end: int = 0
    bytes: int = 0

    def __len__(self) -> int:
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Dump:
    """A whole dump that a host has, of the state that the deltas before frame `since` end in; they are `since_bytes`. `id` is random."""

    id: str
    frames: int
    bytes: int
    since: int
    since_bytes: int


@dataclass(frozen=True, slots=True)
class Growing:
    """A base on its way into the store: the first `written` frames of a dump are there, under the keys of `generation`."""

    generation: int
    dump: Dump
    written: int = 0

    @property
    def keys(self) -> Keys:
        """Those that are in the store."""
        return _key(self.generation), _key(self.generation) + self.written


@dataclass(frozen=True, slots=True)
class Directory:
    """What a bucket has in the store after cut `cut`, under `token` (random, new with every cut)."""

    token: str = ""
    cut: int = 0
    base: Run = Run()
    deltas: Run = Run()
    growing: Growing | None = None
    dead: tuple[Keys, ...] = ()
    generation: int = 0  # the last one that was given
    version: int = FORMAT

    def pack(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @staticmethod
    def unpack(value: bytes) -> Directory:
        """Errors: STATE_FORMAT for one that another version of nadi wrote."""
        version = msgspec.msgpack.decode(value)["version"]
        if version not in _READABLE:
            raise error("STATE_FORMAT", found=version, known=FORMAT)
        return replace(msgspec.msgpack.decode(value, type=Directory), version=FORMAT)

    @property
    def bytes(self) -> int:
        """Of what counts."""
        return self.base.bytes + self.deltas.bytes

    @property
    def frames(self) -> int:
        """How many frames count."""
        return len(self.base) + len(self.deltas)

    def live(self) -> Iterator[int]:
        """The keys of what counts, in the order in which it is read."""
        yield from range(self.base.first, self.base.end)
        yield from range(self.deltas.first, self.deltas.end)

    def heavy(self, policy: Policy = POLICY, times: int = 1) -> bool:
        """Whether deltas weigh more than `times` the base."""
        return self.deltas.bytes + len(self.deltas) * policy.frame > times * max(policy.floor, self.base.bytes)

    def small(self, policy: Policy = POLICY) -> bool:
        """Whether dumping it within a batch costs next to nothing."""
        return self.bytes <= policy.inline


@dataclass(frozen=True, slots=True)
class Plan:
    """What a batch does to the store: keys for the frames of its delta or base (`written`), frames [first, end) of the dump (`copied`) and keys for them
    (`copies`), keys to remove."""

    after: Directory
    written: Keys
    copied: Keys = (0, 0)
    copies: Keys = (0, 0)
    removed: tuple[Keys, ...] = ()


def plan_base(before: Directory, token: str, cut: int, frames: int, size: int, policy: Policy = POLICY) -> Plan:
    """A base written whole by a batch takes the place of all there is."""
    generation = before.generation + 1
    first = _key(generation)
    after = Directory(token, cut, Run(first, first + frames, size), _nothing(before.deltas.end), generation=generation)
    dead = (*_abandoned(before).dead, *_keys(before.base, before.deltas))
    return _removing(Plan(replace(after, dead=dead), (first, first + frames)), policy)


def plan_delta(
    before: Directory, token: str, cut: int, frames: int, size: int, dump: Dump | None, policy: Policy = POLICY
) -> Plan:
    """A batch's delta of so many frames and bytes, and a slice of the dump that the host has (None: none, or not yet whole)."""
    old = before.deltas
    deltas = Run(old.first, old.end + frames, old.bytes + size)
    plan = Plan(replace(_growing(before, dump), token=token, cut=cut, deltas=deltas), (old.end, deltas.end))
    if dump is not None:
        plan = _copying(plan, policy.share * size // policy.frame_bytes)
    return _removing(plan, policy)


def _growing(before: Directory, dump: Dump | None) -> Directory:
    """With the dump that is at hand as the growing base; another one that was growing is given up."""
    if before.growing is not None and before.growing.dump == dump:
        return before
    left = _abandoned(before)
    if dump is None:
        return left
    generation = before.generation + 1
    return replace(left, growing=Growing(generation, dump), generation=generation)


def _abandoned(before: Directory) -> Directory:
    """A base that was growing is dead."""
    if before.growing is None:
        return before
    keys = (before.growing.keys,) if before.growing.written else ()
    return replace(before, growing=None, dead=(*before.dead, *keys))


def _copying(plan: Plan, frames: int) -> Plan:
    """With the next slice of the growing base, so many frames, but at least one; it becomes the base with its last one."""
    after = plan.after
    growing = after.growing
    assert growing is not None
    dump, first = growing.dump, growing.written
    end = min(dump.frames, first + max(1, frames))
    start = _key(growing.generation)
    if end < dump.frames:
        after = replace(after, growing=replace(growing, written=end))
    else:
        covered = Run(after.deltas.first, dump.since, dump.since_bytes)
        after = replace(
            after,
            base=Run(start, start + dump.frames, dump.bytes),
            deltas=Run(dump.since, after.deltas.end, after.deltas.bytes - dump.since_bytes),
            growing=None,
            dead=(*after.dead, *_keys(after.base, covered)),
        )
    return replace(plan, after=after, copied=(first, end), copies=(start + first, start + end))


def _removing(plan: Plan, policy: Policy) -> Plan:
    """With some of the dead frames removed: more than come, so that they get fewer."""
    left = policy.removed + 2 * (_count(plan.written) + _count(plan.copied))
    removed: list[Keys] = []
    dead = list(plan.after.dead)
    while dead and left:
        first, end = dead.pop(0)
        stop = min(end, first + left)
        removed.append((first, stop))
        left -= stop - first
        if stop < end:
            dead.insert(0, (stop, end))
    return replace(plan, after=replace(plan.after, dead=tuple(dead)), removed=tuple(removed))


def _key(generation: int) -> int:
    return generation << _GENERATION


def _keys(*runs: Run) -> list[Keys]:
    return [(run.first, run.end) for run in runs if len(run)]


def _count(keys: Keys) -> int:
    return keys[1] - keys[0]


def _nothing(at: int) -> Run:
    return Run(at, at, 0)
