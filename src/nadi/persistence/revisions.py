"""Revisions: written to a store, read from it, listed. The format is on the page docs/internals/revisions.md."""

from __future__ import annotations

import gzip
import platform
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from nadi.config.release import release
from nadi.errors import NadiError, error
from nadi.kernel.contract import Segment
from nadi.kernel.rows.payloads import READABLE, VERSION
from nadi.kernel.segments import Part, is_flat
from nadi.kernel.semantics import SEMANTICS, check_semantics
from nadi.persistence import pieces
from nadi.persistence.columnstate import Wanted, columns_of
from nadi.persistence.contract import Store, Writing, revision_name, time_of_name
from nadi.persistence.pieces import Piece
from nadi.plan import fingerprints, stateful
from nadi.plan.nodes import App
from nadi.received import read_json

FORMAT = 1
MANIFEST = 256 << 20  # bytes of a manifest at most, which are enough for 10 TB of state


class Meta(msgspec.Struct, frozen=True):
    """What a revision is of: the app (name, text after substitution), the cut as a plain mapping, fingerprints by element id, the clock after the cut
    (ms), the numbers of versions ("nadi", "spark", "python", "state" and "semantics": the format of payloads, and of answers), the numbers that inputs
    have in the cut, by name (empty: their places in the text), and the running maxima of log times after it (ordinal, partition, ms), where they are known.
    """

    app: str
    text: str
    cut: dict[str, Any]
    clock: int
    fingerprints: dict[str, str]
    versions: dict[str, str]
    inputs: dict[str, int] = {}
    highs: list[tuple[int, int, int]] = []


class Revision(msgspec.Struct, frozen=True):
    """The manifest of a revision. `made` is the machine's time (ms); `state` has the pieces of each bucket, segments before deltas."""

    format: int
    name: str
    made: int
    meta: Meta
    state: list[list[Piece]]

    @property
    def addresses(self) -> frozenset[str]:
        """The blobs that it needs."""
        return frozenset(piece.sha256 for bucket in self.state for piece in bucket)

    @property
    def keys(self) -> dict[str, int]:
        """How many flow keys each element has, by the ids of segments; nothing is known of deltas."""
        found: dict[str, int] = {}
        for piece in self._pieces():
            found[piece.element] = found.get(piece.element, 0) + piece.keys
        return found

    def held(self, app: App) -> dict[str, int] | None:
        """How many flow keys each stateful element of the app that it is of has; None where deltas may have brought more."""
        if self.has_deltas:
            return None
        keys = self.keys
        return {
            e.id: sum(n for of, n in keys.items() if of == e.id or (e.kind == "aggregation" and _is_in(of, e.id)))
            for e in stateful(app)
        }

    @property
    def has_deltas(self) -> bool:
        """Whether there is state that is not in segments."""
        return any(piece.deltas for bucket in self.state for piece in bucket)

    @property
    def stored(self) -> int:
        """The bytes of its pieces as they are stored; some may belong to other revisions, too."""
        return sum(piece.stored for bucket in self.state for piece in bucket)

    def _pieces(self) -> Iterator[Piece]:
        return (piece for bucket in self.state for piece in bucket if not piece.deltas)


def meta_of(
    app: App,
    cut: Mapping[str, Any],
    spark: str = "",
    inputs: Mapping[str, int] | None = None,
    highs: Iterable[tuple[int, int, int]] = (),
) -> Meta:
    """What a revision says of an app that stands after a cut; the cut has at least `clock` (ms). `spark` is the version of Spark, "" without it; `inputs` are
    the numbers that inputs have in the cut, `highs` the running maxima of log times after it (ordinal, partition, ms).
    """
    versions = {
        "nadi": release(),
        "python": platform.python_version(),
        "state": str(VERSION),
        "semantics": str(SEMANTICS),
    }
    if spark:
        versions["spark"] = spark
    return Meta(
        app.name, app.text, dict(cut), int(cut["clock"]), fingerprints(app), versions, dict(inputs or {}), list(highs)
    )


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_revision(
    store: Store, meta: Meta, segments_by_bucket: Iterable[Iterable[Part]], now: int, keep: int | None = None
) -> str:
    """Write a revision and return its name. Pieces that the store has are not written again.

    Args:
        store: where to.
        meta: see `meta_of`.
        segments_by_bucket: for each bucket, in order, its segments and then deltas; taken one after another, each once.
        now: the machine's time, ms. The name has it, or the next number after the newest name where the clock was set back.
        keep: how many revisions stay, this one among them; None: all.

    Raises:
        PersistenceStoreException: PERSISTENCE_STORE_FAILED; the revisions that were there are as they were.
        ConnectionUnavailableException: DISK_FULL, likewise.
    """
    with store.writing(meta.app) as turn:
        before = turn.names()
        last = time_of_name(before[-1], meta.app) if before else None
        name = revision_name(meta.app, now if last is None else max(now, last + 1))
        _sweep(turn, meta.app, before)  # what a writer that was killed left behind may be what fills the disk
        known = _sizes(turn, before, meta.app)
        buckets = [[_stored(turn, content, known) for content in pieces.cut(parts)] for parts in segments_by_bucket]
        made = Revision(FORMAT, name, now, meta, buckets)
        turn.save(name, gzip.compress(msgspec.json.encode(made), 6, mtime=0))
        if keep is not None:
            _retain(turn, meta.app, max(1, keep))
    return name


def _sizes(turn: Writing, names: list[str], app: str) -> dict[str, int]:
    """Stored sizes by address, as the newest revision tells them."""
    if not names:
        return {}
    try:
        newest = _decoded(app, names[-1], turn.manifest(names[-1]))
    except NadiError:
        return {}
    return {piece.sha256: piece.stored for bucket in newest.state for piece in bucket}


def _stored(turn: Writing, content: pieces.Cut, known: dict[str, int]) -> Piece:
    """The piece of a content, which the store then has; the content is let go, so that it is not held beside the next one."""
    address, size = content.digest()
    stored = turn.size(address)
    if stored is None or stored != known.get(address):
        with turn.blob(address) as sink:
            stored = pieces.store(content, sink)
        known[address] = stored
    made = content.described(address, size, stored)
    content.parts.clear()
    return made


def _retain(turn: Writing, app: str, keep: int) -> None:
    names = turn.names()
    turn.delete(names[:-keep])
    _sweep(turn, app, names[-keep:])


def _sweep(turn: Writing, app: str, names: list[str]) -> None:
    """Forget what no revision needs; where one cannot be read, nobody knows what it needs."""
    needed: set[str] = set()
    for name in names:
        try:
            needed |= _decoded(app, name, turn.manifest(name)).addresses
        except NadiError:
            return
    turn.sweep(frozenset(needed))


def delete_revision(store: Store, app: str, name: str) -> None:
    """Delete a revision and what only it needs.

    Raises:
        CannotRestoreSiddhiAppStateException: REVISION_NOT_FOUND.
    """
    with store.writing(app) as turn:
        names = turn.names()
        if name not in names:
            raise _not_found(app, name, names)
        turn.delete([name])
        _sweep(turn, app, [n for n in names if n != name])


def delete_revisions(store: Store, app: str) -> int:
    """Delete all revisions of an app; -> how many there were. Errors: PERSISTENCE_STORE_FAILED."""
    if not store.names(app):
        return 0
    with store.writing(app) as turn:
        names = turn.names()
        turn.delete(names)
        turn.sweep(frozenset())
    return len(names)


# ---- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredRevision:
    """A revision whose state is read from its store when it is asked for. Implements `nadi.persistence.restoredstate.State`."""

    store: Store
    revision: Revision

    @property
    def buckets(self) -> int:
        """How many there are."""
        return len(self.revision.state)

    def parts(self, bucket: int) -> Iterator[Part]:
        """The state of a bucket: segments, then deltas. Errors: REVISION_DAMAGED."""
        yield from self.segments(bucket, lambda _element: True)
        yield from self.deltas(bucket)

    def segments(self, bucket: int, wanted: Wanted) -> Iterator[Segment]:
        """The segments of the elements that are wanted. Errors: REVISION_DAMAGED."""
        for part in self._parts(bucket, lambda piece: not piece.deltas and wanted(piece.element)):
            if isinstance(part, Segment):
                yield part

    def deltas(self, bucket: int) -> Iterator[bytes]:
        """The deltas after them. Errors: REVISION_DAMAGED."""
        for part in self._parts(bucket, lambda piece: piece.deltas):
            if isinstance(part, bytes):
                yield part

    def _parts(self, bucket: int, wanted: Callable[[Piece], bool]) -> Iterator[Part]:
        app = self.revision.meta.app
        for piece in self.revision.state[bucket]:
            if wanted(piece):
                try:
                    yield from pieces.load(piece, self.store.blob(app, piece.sha256))
                except ValueError as problem:
                    if pieces.is_damaged(piece, self.store.blob(app, piece.sha256)):
                        self.store.set_aside(app, piece.sha256)  # so that no later revision relies on it
                    what = f"the segment {piece.sha256[:12]}… of {piece.element or 'the deltas'}"
                    raise error(
                        "REVISION_DAMAGED", name=self.revision.name, reason=f"{what} is damaged: {problem}"
                    ) from problem

    def on_columns(self, app: App) -> frozenset[str]:
        """The queries of the app that it is of whose state the columns kernel wrote. Errors: REVISION_DAMAGED."""
        written: dict[bool, set[str]] = {False: set(), True: set()}
        for bucket in range(self.buckets):
            for piece in self.revision.state[bucket]:
                if not piece.deltas:
                    written[self._is_flat(bucket, piece) if piece.flat is None else piece.flat].add(piece.element)
        return columns_of(app, written[True], written[False])

    def _is_flat(self, bucket: int, piece: Piece) -> bool:
        first = next(self._parts(bucket, lambda other: other is piece), None)
        return isinstance(first, Segment) and is_flat(first.payload)

    def verify(self) -> None:
        """Read all of it once. Errors: REVISION_DAMAGED, PERSISTENCE_STORE_FAILED."""
        for bucket in range(self.buckets):
            for _part in self.parts(bucket):
                pass


def read_revision(store: Store, app: str, name: str | None = None) -> StoredRevision:
    """A revision by name, or the newest one. Only its manifest is read; `newest_good` reads all of it.

    Raises:
        CannotRestoreSiddhiAppStateException: REVISION_NOT_FOUND, REVISION_DAMAGED.
    """
    names = store.names(app)
    if not names or (name is not None and name not in names):
        raise _not_found(app, name, names)
    chosen = name or names[-1]
    return StoredRevision(store, _decoded(app, chosen, store.manifest(app, chosen) or b""))


def newest_good(store: Store, app: str) -> tuple[StoredRevision | None, list[NadiError]]:
    """The newest revision that can be read from beginning to end, and what was wrong with newer ones; None where the app has no revision at all.

    Raises:
        CannotRestoreSiddhiAppStateException: NO_GOOD_REVISION, where there are some and all are damaged.
    """
    problems: list[NadiError] = []
    for name in reversed(store.names(app)):
        try:
            found = read_revision(store, app, name)
            found.verify()
            return found, problems
        except NadiError as problem:
            problems.append(problem)
    if problems:
        reasons = "; ".join(p.diagnostic.message for p in problems)
        raise error("NO_GOOD_REVISION", app=app, reasons=reasons, store=store.name) from problems[0]
    return None, []


def _decoded(app: str, name: str, manifest: bytes) -> Revision:
    try:
        plain = _unzipped(manifest)
        told = read_json(plain, _Format).format
        if told != FORMAT:
            raise ValueError(f"its format is {told}, this nadi reads {FORMAT}")
        found = read_json(plain, Revision)
        for bucket in found.state:
            for piece in bucket:
                pieces.check(piece)
    except (OSError, EOFError, ValueError, zlib.error, msgspec.MsgspecError) as problem:
        raise error("REVISION_DAMAGED", name=name, reason=f"its manifest cannot be read: {problem}") from problem
    if found.name != name or found.meta.app != app:
        raise error("REVISION_DAMAGED", name=name, reason=f"its manifest is that of {found.name}")
    if found.meta.versions.get("state") not in [str(known) for known in READABLE]:
        known = " and ".join(map(str, READABLE))
        reason = f"its state has the format {found.meta.versions.get('state')}, this nadi reads {known}"
        raise error("REVISION_DAMAGED", name=name, reason=reason)
    semantics = found.meta.versions.get("semantics", "0")
    if not semantics.isdecimal():
        raise error("REVISION_DAMAGED", name=name, reason=f"'{semantics}' is no number of semantics")
    check_semantics(f"revision {name}", found.meta.versions.get("nadi", ""), int(semantics))
    return found


def _unzipped(manifest: bytes) -> bytes:
    """What a manifest says. Raises ValueError or zlib.error where it is damaged or has more than MANIFEST bytes: a few kB may unfold to any size."""
    unfolding = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    plain = unfolding.decompress(manifest, MANIFEST)
    if unfolding.unconsumed_tail:
        raise ValueError(f"it has more than {MANIFEST:,} bytes")
    if not unfolding.eof or unfolding.unused_data:
        raise ValueError("it is cut short, or something stands behind it")
    return plain


def _is_in(part: str, element: str) -> bool:
    return part.startswith(f"{element}/") and not part.endswith("/timer")


class _Format(msgspec.Struct):
    format: int


def _not_found(app: str, name: str | None, names: list[str]) -> NadiError:
    hint = f"it has {', '.join(names)}" if names else "none has been written yet"
    return error("REVISION_NOT_FOUND", app=app, name="" if name is None else f" {name}", hint=hint)
