"""How the state of a bucket is read again, as values: which base and deltas, in which objects. Nothing is read or written here.

The state after a cut is a base, the state after an earlier cut, followed by a chain of deltas. Only a commit record (`nadi.pipeline.cutting.commitlog`) binds
pieces into a line. A base that counts takes the place of the deltas that it covers; these and the base before it stay as the *older* line until the next
base counts. Where the newest base is damaged, the older line leads to the same state. Of a base that shares little with the one before it the older line
goes when the next base is about to be written: three such bases would be three times the state.

What a live kernel stands at, its *tip*, is the name of the last piece that changed the state. It does not change because a base takes the place of deltas.

A base shares chunks with the one before it (`nadi.pipeline.statelog.chunks`), so it needs objects of other bases, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from nadi.pipeline.statelog.names import named


@dataclass(frozen=True, slots=True)
class Policy:
    """When a base is due, in bytes: where the deltas weigh more than the last base has said (`Base.wait`), and more than `floor`. A delta weighs `piece` more
    than its bytes, as it is one more object to find. A state of at most `inline` is dumped within the batch: that costs next to nothing. `beside` are the
    bytes of other buckets that the deltas may keep from going, if the base has less (`pins`)."""

    floor: int = 1024 * 1024
    piece: int = 16 * 1024
    inline: int = 2 * 1024 * 1024
    beside: int = 16 * 1024 * 1024


POLICY = Policy()


class Piece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a delta or base of one bucket lies. `check` is the BLAKE2b of its bytes: 8 bytes, hexadecimal."""

    object: str
    offset: int
    length: int
    check: str

    @property
    def id(self) -> str:
        """Its name among all pieces of a store.

        >>> Piece("d-00000001-000000000007-0-c0ffee00", 120, 80, "00ff00ff00ff00ff").id
        'd-00000001-000000000007-0-c0ffee00@120'
        """
        return f"{self.object}@{self.offset}"

    @property
    def cut(self) -> int:
        """The cut that it is of."""
        return named(self.object).cut


class Base(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The state after `cut`: `piece` is the index of its chunks.

    `size` bytes are read to load it, `written` of them were written for it; the others it shares with bases before it. `others` are the objects that it needs
    besides that of its index. The next base is due after `wait` bytes of deltas.
    """

    piece: Piece
    cut: int
    size: int = 0
    written: int = 0
    wait: int = 0
    others: tuple[str, ...] = ()

    @property
    def shares_little(self) -> bool:
        """Whether most of it had to be written: then the disk would have three of it while the next one is written, if the older line stayed."""
        return self.written * 5 > self.size * 2

    @property
    def objects(self) -> tuple[str, ...]:
        """All that it needs."""
        return (self.piece.object, *self.others)


class Line(msgspec.Struct, frozen=True, array_like=True):
    """A base (None: no state) and the deltas after it, by cut.

    `since` is the last delta that the base covers (None: it was the first piece): the first delta names it as the one before.
    `older` is the line before this base counted, up to `since`. `delta_bytes` is the length of the deltas together; `line_of` counts it.
    """

    base: Base | None = None
    deltas: tuple[Piece, ...] = ()
    since: Piece | None = None
    older: Line | None = None
    delta_bytes: int = 0

    @property
    def last(self) -> Piece | None:
        """The piece that the next delta follows; None where there is no state."""
        if self.deltas:
            return self.deltas[-1]
        if self.since is not None:
            return self.since
        return None if self.base is None else self.base.piece

    @property
    def tip(self) -> str:
        """What a kernel of this state stands at; "" where there is no state."""
        last = self.last
        return "" if last is None else last.id

    @property
    def check(self) -> str:
        """What the next delta says of the piece before it."""
        last = self.last
        return "" if last is None else last.check

    @property
    def base_bytes(self) -> int:
        return 0 if self.base is None else self.base.size

    @property
    def bytes(self) -> int:
        """What is read to load it."""
        return self.base_bytes + self.delta_bytes

    @property
    def fallback(self) -> Line | None:
        """Another line to the same state, by the base before; None where there is none."""
        if self.older is None:
            return None
        return line_of(self.older.base, (*self.older.deltas, *self.deltas), self.older.since)

    def needs(self) -> Iterator[str]:
        """The objects that loading it reads, once for each piece in them; not those of the older line."""
        if self.base is not None:
            yield from self.base.objects
        for piece in self.deltas:
            yield piece.object


def line_of(base: Base | None, deltas: Iterable[Piece] = (), since: Piece | None = None) -> Line:
    """A line without an older one."""
    kept = tuple(deltas)
    return Line(base, kept, since, delta_bytes=sum(piece.length for piece in kept))


def after_delta(line: Line, piece: Piece) -> Line:
    """The line with the delta of the next cut. The older line goes where a base that had to be written anew is about due (`makes_room`)."""
    longer = Line(line.base, (*line.deltas, piece), line.since, line.older, line.delta_bytes + piece.length)
    if longer.older is not None and makes_room(longer):
        return msgspec.structs.replace(longer, older=None)
    return longer


def makes_room(line: Line, policy: Policy = POLICY) -> bool:
    """Whether the older line is to go as the next base will soon be written: of large states, and bases that share little. With an eighth of a base in
    deltas (`chunks.SHARE`) the disk has 2.1 times the state at most.

    >>> large = Base(Piece("b-00000001-000000000001-0-c0ffee00", 0, 100, ""), 1, 80_000_000, 80_000_000, 10_000_000)
    >>> delta = Piece("d-00000001-000000000002-0-c0ffee00", 0, 4_000_000, "")
    >>> [makes_room(line_of(large, [delta] * count)) for count in (1, 2)]
    [False, True]
    """
    base = line.base
    if base is None or base.size <= policy.inline or not base.shares_little:
        return False
    return heavy(line, policy, 0.75)


def after_base(line: Line, base: Base) -> Line:
    """The line with a base that counts from now on: the deltas up to its cut are covered, and stay as the older line.

    So it never stands in the place of a delta, but where it is the first piece of a bucket. One that is no newer than the one at hand changes nothing.
    """
    if line.last is None:
        return Line(base)
    if line.base is not None and base.cut <= line.base.cut:
        return line
    count = covered(line, base.cut)
    gone, left = line.deltas[:count], line.deltas[count:]
    if gone:
        older = line_of(line.base, gone, line.since)
        return Line(base, left, gone[-1], older, line.delta_bytes - older.delta_bytes)
    if line.base is None:
        return line  # it is of nothing: the first delta follows nothing
    # the same state once more: the older line still leads to it, and may be the only one that does
    since = line.base.piece if line.since is None else line.since
    return Line(base, left, since, line.older or line_of(line.base, (), line.since), line.delta_bytes)


def covered(line: Line, cut: int) -> int:
    """How many deltas of a line are of cuts up to this one."""
    low, high = 0, len(line.deltas)
    while low < high:
        middle = (low + high) // 2
        if line.deltas[middle].cut <= cut:
            low = middle + 1
        else:
            high = middle
    return low


def heavy(line: Line, policy: Policy = POLICY, times: float = 1) -> bool:
    """Whether a base is due: the deltas weigh more than `times` what the last base has said.

    >>> small = Piece("d-00000001-000000000001-0-c0ffee00", 0, 100, "")
    >>> heavy(line_of(None, [small] * 63)), heavy(line_of(None, [small] * 64))
    (False, True)
    """
    return line.delta_bytes + len(line.deltas) * policy.piece > times * max(
        policy.floor, 0 if line.base is None else line.base.wait
    )


def pins(line: Line, beside: int, policy: Policy = POLICY) -> bool:
    """Whether a base is due for the sake of other buckets: the objects that the deltas lie in have `beside` bytes of theirs, which go no sooner. So what a
    quiet bucket keeps of its neighbours' is no more than its own base, or `Policy.beside`.

    >>> small = Base(Piece("b-00000001-000000000001-0-c0ffee00", 0, 100, ""), 1, size=100)
    >>> [pins(line_of(small), beside) for beside in (1_000_000, 100_000_000)]
    [False, True]
    """
    return beside > max(policy.beside, line.base_bytes)


def objects_of(lines: Iterable[Line]) -> frozenset[str]:
    """The objects that these lines and their older ones lie in."""
    return frozenset(name for line in lines for name in kept(line))


def kept(line: Line) -> Iterator[str]:
    """The objects that a line and its older one need, once for each piece in them."""
    yield from line.needs()
    if line.older is not None:
        yield from line.older.needs()


def let_go(before: Line, after: Line) -> Iterator[str]:
    """What a line needed and, after a base has come to count, does not need any more. With thousands of deltas it is far less than both lines."""
    if after.older is before.older:
        if after.base is not before.base and before.base is not None and after.older is not None:
            yield from before.base.objects  # it was of the same state
    elif before.older is not None:
        yield from before.older.needs()
