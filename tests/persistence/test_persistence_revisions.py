"""From kernels into a store and back, with everything between them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nadi.errors import NadiError
from nadi.kernel import semantics
from nadi.kernel.contract import Segment
from nadi.kernel.rows import segments
from nadi.kernel.segments import Part
from nadi.persistence import pieces
from nadi.persistence.files import FileStore
from nadi.persistence.restoredstate import Restored
from nadi.persistence.revisions import Meta, meta_of, newest_good, read_revision, write_revision
from nadi.plan import plan_app, plan_restore
from tests.persistence.restorerig import REGISTRY, Node
from tests.persistence.test_persistence_restoredstate import KEYED, MANY

APP = KEYED.replace("define trigger X at every 900 milliseconds; ", "")


def assert_goes_on(made: Node, restored: Restored, node: Node, rows: list[Any]) -> None:
    """With what is restored a node gives for the rest of the events what one gives that never stopped; `rows` are those that `node` gave before."""
    for bucket, kernel in enumerate(made.kernels):
        kernel.load(restored.parts(bucket))
    made.position = node.position
    made.feed(MANY[150:], 20_000)
    alone = Node(APP, 1).feed(MANY[:150], MANY[149][1]).feed(MANY[150:], 20_000)
    assert sorted(rows + made.taken(), key=repr) == sorted(alone.taken(), key=repr)


@pytest.mark.parametrize("buckets", [1, 4])
@pytest.mark.parametrize("deltas", [False, True])
def test_an_app_goes_on_from_a_revision_in_another_number_of_buckets(
    tmp_path: Path, buckets: int, deltas: bool
) -> None:
    node = Node(APP, 5 - buckets)
    if deltas:
        node.feed(MANY[:50], MANY[49][1])
        node.base()
        for message in MANY[50:150]:
            node.feed([message], message[1])
    else:
        node.feed(MANY[:150], MANY[149][1])
    rows = node.taken()
    store = FileStore(tmp_path)
    write_revision(store, meta_of(node.app, {"n": 1, "clock": node.clock}), node.state().parts, 1)

    found, problems = newest_good(FileStore(tmp_path), "Keyed")
    assert found is not None
    assert problems == []
    meta = found.revision.meta
    made = Node(meta.text, buckets, begin=None)
    old = plan_app(meta.text, REGISTRY)
    plan = plan_restore(old, made.app, REGISTRY, meta.fingerprints, found.revision.held(old)).check()
    assert plan.unchanged
    restored = Restored(found, plan, old, made.app, buckets, meta.clock, made.kernel)
    assert_goes_on(made, restored, node, rows)


def test_only_the_pieces_of_the_elements_that_are_wanted_are_read(tmp_path: Path) -> None:
    node = Node(APP).feed(MANY, 6_000)
    store = FileStore(tmp_path)
    write_revision(store, meta_of(node.app, {"n": 1, "clock": 6_000}), node.state().parts, 1)
    found = read_revision(store, "Keyed")
    for path in tmp_path.glob("*/segments/*"):
        wanted = {p.sha256 for p in found.revision.state[0] if p.element == "a/window"}
        if path.stem not in wanted:
            path.unlink()
    segments = list(found.segments(0, lambda element: element == "a/window"))
    assert {s.element for s in segments} == {"a/window"}


def test_a_large_state_is_never_in_memory_twice(tmp_path: Path) -> None:
    size = 8_000_000

    def parts() -> Iterator[Part]:
        for group in range(0, 128, 16):  # each a piece of its own
            yield Segment("q/window", group, bytes([group]) * size)

    store = FileStore(tmp_path)
    meta = Meta("Large", "", {"clock": 1}, 1, {}, {"state": "1"})
    tracemalloc.start()
    try:
        write_revision(store, meta, [parts()], 1)
        written = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        total = sum(len(s.payload) for s in read_revision(store, "Large").segments(0, lambda _e: True))
        read = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 8 * size
    # the segment at hand and the one before it, which the loop still has
    assert written < 2.5 * size
    assert read < 2.5 * size


@pytest.mark.parametrize("buckets", [1, 4])
def test_elements_in_many_segments_go_on_in_another_number_of_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: int
) -> None:
    node = Node(APP, 5 - buckets).feed(MANY[:150], MANY[149][1])
    rows = node.taken()
    whole = write_revision(FileStore(tmp_path), meta_of(node.app, {"n": 1, "clock": 1}), node.state().parts, 1)
    for name, value in {"SEGMENT_BYTES": 60, "MOST_BYTES": 90, "_FIRST": 2, "_LARGE": 3, "_SLICE": 2}.items():
        monkeypatch.setattr(segments, name, value)
    monkeypatch.setattr(pieces, "SEGMENT_BYTES", 100)
    state = node.state()
    store = FileStore(tmp_path)
    write_revision(store, meta_of(node.app, {"n": 1, "clock": node.clock}), state.parts, 2)
    found, _problems = newest_good(store, "Keyed")
    assert found is not None
    before = read_revision(store, "Keyed", whole)
    assert sum(map(len, found.revision.state)) > 1.2 * sum(map(len, before.revision.state))
    assert found.revision.keys == before.revision.keys
    assert [list(found.parts(b)) for b in range(found.buckets)] == [list(parts) for parts in state.parts]

    made = Node(APP, buckets, begin=None)
    plan = plan_restore(node.app, made.app, REGISTRY, found.revision.meta.fingerprints).check()
    restored = Restored(found, plan, node.app, made.app, buckets, node.clock, made.kernel)
    assert_goes_on(made, restored, node, rows)


def test_a_large_element_is_in_several_pieces_and_one_of_them_in_memory(tmp_path: Path) -> None:
    size = 1_000_000
    store = FileStore(tmp_path)
    meta = Meta("Large", "", {"clock": 1}, 1, {}, {"state": "2"})
    state = [Segment("q/window", 3, bytes([i]) * size) for i in range(40)]
    write_revision(store, meta, [state], 1)
    found = read_revision(store, "Large")
    assert len(found.revision.state[0]) > 3
    assert max(piece.bytes for piece in found.revision.state[0]) < 10 * size
    assert list(found.segments(0, lambda _e: True)) == state


def test_a_revision_of_kernels_with_later_semantics_is_not_read(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    for n, number in enumerate((semantics.SEMANTICS, semantics.SEMANTICS + 1), 1):
        meta = Meta("Later", "", {"clock": 1}, 1, {}, {"nadi": "9.9.0", "state": "2", "semantics": str(number)})
        write_revision(store, meta, [[Segment("q/window", 3, b"x")]], n)
    with pytest.raises(NadiError) as found:
        read_revision(store, "Later")
    assert found.value.diagnostic.condition == "MADE_BY_NEWER"
    assert "nadi 9.9.0" in str(found.value)
    good, problems = newest_good(store, "Later")
    assert good is not None
    assert (good.revision.made, len(problems)) == (1, 1)
