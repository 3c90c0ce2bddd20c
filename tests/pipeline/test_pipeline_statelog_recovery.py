"""What is loaded from a state log is the state that was committed, or an error that names what is damaged."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_statelog import TinyKernel, loaded, put_base, put_delta

from nadi.errors import NadiError
from nadi.kernel.contract import Segment
from nadi.pipeline.state.frames import delta_stream
from nadi.pipeline.statelog import chunks, objects, recovery
from nadi.pipeline.statelog.chunks import Place, write_base
from nadi.pipeline.statelog.folder import FolderStore
from nadi.pipeline.statelog.lines import Base, Line, Piece, after_base, after_delta, heavy, line_of, objects_of
from nadi.pipeline.statelog.names import base_name, delta_name, named
from nadi.pipeline.statelog.objects import Delta, write_deltas
from nadi.pipeline.statelog.recovery import load, parts, read_index
from nadi.pipeline.statelog.store import ObjectStore


class MemoryStore:
    """Objects in a dictionary; notes how many reads were under way, and how many bytes nobody had taken."""

    name = "memory"
    ahead = 3

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.reads: list[tuple[str, int, int]] = []
        self.largest_put = 0
        self._lock = threading.Lock()

    def put(self, name: str, pieces: Any) -> None:
        made = bytearray()
        for piece in pieces:
            self.largest_put = max(self.largest_put, len(piece))
            made += piece
        if name in self.objects:
            raise FileExistsError(name)
        self.objects[name] = bytes(made)

    def get(self, name: str, offset: int, length: int) -> bytes:
        with self._lock:
            self.reads.append((name, offset, length))
        if name not in self.objects:
            raise FileNotFoundError(name)
        return self.objects[name][offset : offset + length]

    def list(self, prefix: str = "") -> list[str]:
        return sorted(name for name in self.objects if name.startswith(prefix))

    def delete(self, names: Any) -> None:
        for name in names:
            self.objects.pop(name, None)

    def sweep(self) -> None:
        """Nothing is left."""


def test_nothing_is_the_state_of_an_empty_line():
    assert list(parts(MemoryStore(), Line(), 0)) == []
    assert (Line().tip, Line().check, Line().bytes) == ("", "", 0)


def test_the_deltas_of_several_buckets_are_one_object_and_an_empty_one_has_no_piece():
    store = MemoryStore()
    name = delta_name(1, 7, 0)
    found = write_deltas(
        store, name, {2: Delta(7, 1, "", b"two"), 0: Delta(7, 1, "", b"zero"), 1: Delta(7, 1, "", b"")}
    )
    assert store.list() == [name]
    assert {bucket: list(parts(store, line_of(None, [piece]), bucket)) for bucket, piece in found.items()} == {
        0: [b"zero"],
        2: [b"two"],
    }
    assert write_deltas(store, delta_name(1, 8, 0), {0: Delta(8, 1, "", b"")}) == {}
    assert store.list() == [name]


def test_a_piece_says_where_it_lies_and_a_line_where_a_kernel_stands():
    store = MemoryStore()
    first = put_delta(store, Line(), 0, 1, b"one")
    line = after_delta(Line(), first)
    second = put_delta(store, line, 0, 2, b"two")
    line = after_delta(line, second)
    assert (line.tip, line.check, line.bytes) == (second.id, second.check, first.length + second.length)
    assert (second.cut, named(second.object).epoch) == (2, 1)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.text("abc", max_size=3), st.binary(max_size=60)), max_size=8),
    st.lists(st.binary(min_size=1, max_size=90), max_size=5),
    st.sampled_from((1, 50, 10_000)),
    st.sampled_from((1, 100, 10_000)),
)
def test_segments_and_deltas_come_back_in_order_whatever_the_chunks_and_objects(
    segments: list[tuple[str, bytes]], deltas: list[bytes], chunk: int, object_: int
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK", chunk)
        patch.setattr(chunks, "OBJECT", object_)
        store, given_ = MemoryStore(), [Segment(e, 3, p) for e, p in segments]
        line = Line(write_base(store, Place(1, 1, 5), given_))
        for cut, content in enumerate(deltas, 2):
            line = after_delta(line, put_delta(store, line, 5, cut, content))
        assert list(parts(store, line, 5)) == [*given_, *deltas]
        assert set(store.list()) == set(line.needs())


def test_a_base_is_written_and_read_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunks, "CHUNK", 1000)
    segments = [Segment("e", n, bytes([n]) * 900 + bytes(range(256)) * 10) for n in range(30)]
    store = MemoryStore()
    base = write_base(store, Place(1, 1, 0), iter(segments))
    index = read_index(store, base, 0)
    assert len(index.chunks) == 30
    store.reads.clear()
    assert list(parts(store, Line(base), 0)) == segments
    assert [length for _, _, length in store.reads][1:] == [chunk.length for chunk in index.chunks]
    assert base.size == sum(length for _, _, length in store.reads) == base.written


def segments_of(version: Mapping[int, int]) -> list[Segment]:
    return [Segment("e", n, b"%d-%d" % (n, said) + bytes(1000)) for n, said in sorted(version.items())]


def test_a_base_names_what_the_one_before_has_and_writes_the_rest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunks, "CHUNK", 1000)
    store = MemoryStore()
    held = dict.fromkeys(range(40), 0)
    first = write_base(store, Place(1, 1, 0), segments_of(held))
    held = {**held, 3: 1, 40: 0}
    del held[0]
    second = write_base(store, Place(1, 2, 0), segments_of(held), read_index(store, first, 0))
    assert list(parts(store, Line(second), 0)) == segments_of(held)
    assert list(parts(store, Line(first), 0)) == segments_of(dict.fromkeys(range(40), 0))
    assert second.others == (first.piece.object,)
    assert [chunk.object for chunk in read_index(store, second, 0).chunks].count(0) == 38
    assert second.written < second.size
    assert (first.wait, second.wait) == (first.size // 8, second.size // 8)
    assert objects_of([Line(second)]) == {first.piece.object, second.piece.object}


def test_the_same_state_is_an_index_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunks, "CHUNK", 1000)
    store = MemoryStore()
    same = segments_of(dict.fromkeys(range(9), 0))
    first = write_base(store, Place(1, 1, 0), same)
    second = write_base(store, Place(1, 5, 0), same, read_index(store, first, 0))
    assert second.written == second.piece.length
    assert list(parts(store, Line(second), 0)) == same


@settings(max_examples=30)
@given(st.data())
def test_bases_that_share_chunks_hold_at_most_twice_their_bytes(data: st.DataObject):
    """Whatever comes, changes and goes: each base reads back, and names no object of which the base before used less than half."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK", 1000)
        patch.setattr(chunks, "OBJECT", data.draw(st.sampled_from((1, 400, 5_000))))
        store, held, before = MemoryStore(), dict[int, int](), None
        for cut in range(1, data.draw(st.integers(1, 9)) + 1):
            for n in data.draw(st.sets(st.integers(0, 30))):
                held[n] = cut
            for n in data.draw(st.sets(st.integers(0, 30))):
                held.pop(n, None)
            base = write_base(store, Place(1, cut, 0), segments_of(held), before)
            store.delete([name for name in store.list() if name not in base.objects])
            assert list(parts(store, Line(base), 0)) == segments_of(held)
            for name in set(base.others) & (set() if before is None else dict(before.objects).keys()):
                assert before is not None
                number = [each for each, _ in before.objects].index(name)
                used = sum(chunk.length for chunk in before.chunks if chunk.object == number)
                assert 2 * used >= before.objects[number][1]
            before = read_index(store, base, 0)
            assert base.size == before.size + base.piece.length


def test_a_reader_is_only_so_far_ahead_of_its_kernel(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recovery, "AHEAD", 1000)
    store, line = MemoryStore(), Line()
    for cut in range(20):
        line = after_delta(line, put_delta(store, line, 0, cut, b"\0\1\2\3" * 80 + bytes([cut])))
    found = parts(store, line, 0)
    for taken in range(1, 6):
        next(found)
        assert len(store.reads) <= taken + 2  # 1000 bytes are two deltas
    found.close()
    assert len(store.reads) < 20


# ---- bases and older lines


class History:
    """A bucket whose kernel takes a key with every cut, and its line."""

    def __init__(self, store: ObjectStore, bucket: int = 0) -> None:
        self.store, self.bucket, self.cut = store, bucket, 0
        self.kernel, self.line = TinyKernel(), Line()

    def go_on(self, cuts: int = 1) -> History:
        for _ in range(cuts):
            self.cut += 1
            self.kernel.put(f"k{self.cut % 7}", self.cut)
            piece = put_delta(self.store, self.line, self.bucket, self.cut, self.kernel.delta())
            self.line = after_delta(self.line, piece)
        return self

    def renew(self) -> History:
        self.line = after_base(self.line, put_base(self.store, self.bucket, self.cut, self.kernel))
        return self


def test_a_base_takes_the_place_of_the_deltas_that_it_covers_and_these_stay_as_the_older_line():
    had = History(MemoryStore()).go_on(3)
    base = put_base(had.store, 0, 3, had.kernel)
    tip = had.go_on(2).line.tip
    line = after_base(had.line, base)
    assert [piece.cut for piece in line.deltas] == [4, 5]
    assert line.older is not None
    assert [piece.cut for piece in line.older.deltas] == [1, 2, 3]
    assert line.tip == tip
    assert line.fallback is not None
    assert loaded(had.store, line, 0) == loaded(had.store, line.fallback, 0) == had.kernel.state
    assert line.bytes == base.size + sum(piece.length for piece in line.deltas)


def test_the_tip_stays_where_a_base_covers_all_deltas_and_the_chain_goes_on_from_it():
    had = History(MemoryStore()).go_on(3)
    tip, check = had.line.tip, had.line.check
    had.renew()
    assert (had.line.deltas, had.line.tip, had.line.check) == ((), tip, check)
    had.go_on(1)
    assert loaded(had.store, had.line, 0) == had.kernel.state


def test_with_the_next_base_the_older_line_goes():
    had = History(MemoryStore()).go_on(3).renew().go_on(2).renew()
    first, *_ = (name for name in had.store.list("b-"))
    kept = objects_of([had.line])
    assert {named(name).cut for name in kept if not named(name).base} == {4, 5}
    assert first in kept  # the older line begins with it


def test_the_first_piece_of_a_bucket_may_be_a_base_which_the_first_delta_follows():
    had = History(MemoryStore())
    had.kernel.put("k", 1)
    had.cut = 1
    base = put_base(had.store, 0, 1, had.kernel)
    had.line = after_base(had.line, base)
    assert (had.line.tip, had.line.fallback) == (base.piece.id, None)
    had.go_on(2)
    assert loaded(had.store, had.line, 0) == had.kernel.state
    had.renew().go_on(1)
    assert had.line.fallback is not None
    assert loaded(had.store, had.line, 0) == loaded(had.store, had.line.fallback, 0) == had.kernel.state


def test_a_base_that_is_no_newer_than_the_one_at_hand_changes_nothing():
    had = History(MemoryStore()).go_on(3)
    late = put_base(had.store, 0, 3, had.kernel)
    had.renew().go_on(2)
    assert after_base(had.line, late) == had.line


def test_a_base_without_deltas_since_the_last_one_keeps_the_older_line_that_leads_there():
    had = History(MemoryStore()).go_on(3).renew()
    older = had.line.older
    had.cut += 5
    had.renew().go_on(1)
    assert had.line.older == older
    assert had.line.fallback is not None
    assert loaded(had.store, had.line, 0) == loaded(had.store, had.line.fallback, 0) == had.kernel.state


def test_a_base_is_due_where_deltas_weigh_more_than_it():
    delta, large = (Piece(delta_name(1, 1, 0), 0, length, "") for length in (100, 2_000_000))
    base = Base(Piece(base_name(1, 0, 0), 0, 100, ""), 0, size=9_000_000, wait=4_000_000)
    assert not heavy(line_of(base, [large]))
    assert heavy(line_of(base, [large, large]))
    assert not heavy(line_of(base, [delta] * 242))
    assert heavy(line_of(base, [delta] * 243))
    assert not heavy(line_of(base, [delta] * 243), times=2)


def large_line(written: int, size: int = 80_000_000) -> Line:
    """A large base after an older one, each with its deltas."""
    bases = [Base(Piece(base_name(1, n, 0), 0, 100, ""), n, size, written, size // 8) for n in (1, 3)]
    line = after_delta(Line(bases[0]), Piece(delta_name(1, 2, 0), 0, 1_000_000, ""))
    line = after_delta(line, Piece(delta_name(1, 3, 0), 0, 1_000_000, ""))
    return after_base(line, bases[1])


@pytest.mark.parametrize(
    ("line", "goes"),
    [(large_line(80_000_000), True), (large_line(20_000_000), False), (large_line(2_000_000, 2_000_000), False)],
    ids=["nothing shared", "most shared", "small"],
)
def test_the_older_line_goes_before_a_third_base_that_shares_little_is_written(line: Line, goes: bool):
    seen = []
    for cut in range(4, 20):
        line = after_delta(line, Piece(delta_name(1, cut, 0), 0, 1_000_000, ""))
        seen.append((line.older is None, heavy(line)))
    assert (True, False) in seen if goes else all(not gone for gone, _ in seen)
    assert (False, False) in seen or not goes
    assert seen[-1][1]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_line_goes_through_messagepack_and_json(size: int):
    line = History(MemoryStore()).go_on(2).renew().go_on(size).line
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(line), type=Line) == line
    assert msgspec.json.decode(msgspec.json.encode({1: line}), type=dict[int, Line]) == {1: line}


@settings(max_examples=60)
@given(st.data())
def test_whichever_attempts_are_bound_the_state_is_that_of_the_model(data: st.DataObject):
    """Attempts at a cut have other bytes, the same state; bases come from any of them, some cuts late; a kernel goes on from what was bound."""
    store, line, model = MemoryStore(), Line(), TinyKernel()
    bases: list[Base] = []
    for cut in range(1, data.draw(st.integers(1, 12)) + 1):
        changes = data.draw(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3), max_size=3))
        attempts: list[tuple[TinyKernel, Piece | None]] = []
        for number in range(data.draw(st.integers(1, 3))):
            kernel = TinyKernel()
            kernel.load(parts(store, line, 0))
            for key, value in changes.items():
                kernel.put(key, value)
            delta = kernel.delta(data.draw(st.sampled_from(("", f"attempt {number}"))))
            attempts.append((kernel, put_delta(store, line, 0, cut, delta) if delta else None))
        for key, value in changes.items():
            model.put(key, value)
        _, bound = data.draw(st.sampled_from(attempts))
        if bound is not None:
            line = after_delta(line, bound)
        if data.draw(st.booleans()):
            bases.append(put_base(store, 0, cut, data.draw(st.sampled_from(attempts))[0]))
        if bases and data.draw(st.booleans()):
            line = after_base(line, bases.pop(data.draw(st.integers(0, len(bases) - 1))))
        needed = objects_of([line]) | {name for base in bases for name in base.objects}
        store.delete([name for name in store.list() if name not in needed])
        assert loaded(store, line, 0) == model.state
        if line.fallback is not None:
            assert loaded(store, line.fallback, 0) == model.state


# ---- damage


def damage(store: ObjectStore, line: Line, bucket: int = 0) -> NadiError:
    with pytest.raises(NadiError) as caught:
        list(parts(store, line, bucket))
    assert caught.value.condition == "STATE_LOG_DAMAGED"
    assert "restore a revision" in caught.value.diagnostic.next_step
    return caught.value


def test_any_bit_that_is_not_as_it_was_is_found_before_a_kernel_sees_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunks, "CHUNK", 1)
    store = MemoryStore()
    had = History(store).go_on(9).renew().go_on(2)
    whole = list(parts(store, had.line, 0))
    for name in had.line.needs():
        content = store.objects[name]
        for at in range(len(content)):
            store.objects[name] = content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
            seen: list[Any] = []
            with pytest.raises(NadiError) as caught:
                seen.extend(_told(parts(store, had.line, 0), seen))
            assert caught.value.condition in ("STATE_LOG_DAMAGED", "STATE_FORMAT")
            assert seen == whole[: len(seen)]
        store.objects[name] = content


def _told(found: Iterator[Any], seen: list[Any]) -> Iterator[Any]:
    for part in found:
        seen.append(part)
    return iter(())


@pytest.mark.parametrize("of", ["base", "delta"])
def test_an_object_that_is_cut_short_or_missing_is_named(of: str):
    store = MemoryStore()
    had = History(store).go_on(2).renew().go_on(1)
    assert had.line.base is not None
    piece = had.line.base.piece if of == "base" else had.line.deltas[0]
    content = store.objects[piece.object]
    for length in range(len(content)):
        store.objects[piece.object] = content[:length]
        found = damage(store, had.line)
        assert (found.parameters["object"], found.parameters["bucket"]) == (piece.id, 0)
        assert "cut short" in str(found)
    del store.objects[piece.object]
    assert "is missing" in str(damage(store, had.line))


def test_the_piece_of_another_bucket_cut_or_attempt_is_not_taken():
    store = MemoryStore()
    one, two = History(store).go_on(3), History(store, 1).go_on(3)
    assert "of bucket 1" in str(damage(store, two.line))
    first, second, third = one.line.deltas
    assert "follow" in str(damage(store, line_of(None, [first, third])))
    assert "follow" in str(damage(store, line_of(None, [second, first])))
    store.objects[second.object], store.objects[third.object] = (
        store.objects[third.object],
        store.objects[second.object],
    )
    assert "committed" in str(damage(store, one.line))
    store.objects[second.object], store.objects[third.object] = (
        store.objects[third.object],
        store.objects[second.object],
    )
    other = put_delta(store, line_of(None, [first]), 0, 2, b"another attempt")
    assert "follow" in str(damage(store, line_of(None, [first, other, third])))
    swapped = msgspec.structs.replace(second, object=other.object, length=other.length)
    assert "committed" in str(damage(store, line_of(None, [first, swapped, third])))


def test_a_base_is_not_taken_for_a_delta_nor_one_of_another_bucket_or_cut_for_the_right_one():
    store = MemoryStore()
    had = History(store).go_on(2).renew()
    base = had.line.base
    assert base is not None
    assert "is no delta" in str(damage(store, line_of(None, [base.piece])))
    delta = History(store).go_on(1).line.deltas[0]
    assert "is no base" in str(damage(store, Line(Base(delta, 1))))
    assert "of bucket 0" in str(damage(store, Line(base), 3))
    twin = TinyKernel()
    for key in had.kernel.state:
        twin.put(key, 0)
    store.objects[base.piece.object], kept = (
        store.objects[put_base(store, 0, 2, twin).piece.object],
        store.objects[base.piece.object],
    )
    assert len(kept) == len(store.objects[base.piece.object])
    assert "are not those that were committed" in str(damage(store, Line(base)))
    name, offset = base.piece.object, base.piece.offset
    store.objects[name] = (
        store.objects[name][:offset] + kept[offset:]
    )  # the right index before the chunks of another attempt
    assert "are not those that were written" in str(damage(store, Line(base)))


def test_a_delta_that_the_base_has_already_is_not_taken():
    store = MemoryStore()
    had = History(store).go_on(2)
    base = put_base(store, 0, 2, had.kernel)
    assert "the piece before it of cut 2" in str(damage(store, with_base(had.line, base)))


def with_base(line: Line, base: Base) -> Line:
    return msgspec.structs.replace(line, base=base, deltas=line.deltas[1:], since=line.deltas[0])


def test_a_piece_of_a_later_version_is_said_to_be_one():
    store = MemoryStore()
    (piece,) = History(store).go_on(1).line.deltas
    content = bytearray(store.objects[piece.object])
    content[5] = 2
    store.objects[piece.object] = bytes(content)
    known = msgspec.structs.replace(piece, check=objects.new_check(bytes(content)).hexdigest())
    with pytest.raises(NadiError, match="STATE_FORMAT"):
        list(parts(store, line_of(None, [known]), 0))


def test_a_delta_of_something_else_is_named():
    store = MemoryStore()
    name = delta_name(1, 1, 0)
    rubbish = objects.HEAD.pack(objects.MAGIC, b"d", 0, 1, 1, bytes(8)) + b"".join([*delta_stream(b"x")] * 2)
    store.put(name, [rubbish])
    piece = Piece(name, 0, len(rubbish), objects.new_check(rubbish).hexdigest())
    damage(store, line_of(None, [piece]))


def test_where_the_newest_base_is_damaged_the_older_line_leads_to_the_state():
    store = MemoryStore()
    had = History(store).go_on(3).renew().go_on(2).renew().go_on(2)
    assert had.line.base is not None
    name = had.line.base.piece.object
    store.objects[name] = store.objects[name][:-1]
    kernel = TinyKernel()
    met = load(store, had.line, 0, kernel.load)
    assert met is not None
    assert met.parameters["object"] == had.line.base.piece.id
    assert kernel.state == had.kernel.state


def test_where_both_lines_are_damaged_the_newer_one_is_named():
    store = MemoryStore()
    had = History(store).go_on(3).renew().go_on(2).renew().go_on(2)
    for name in store.list("b-"):
        store.objects[name] = store.objects[name][:-1]
    assert had.line.base is not None
    with pytest.raises(NadiError) as caught:
        load(store, had.line, 0, TinyKernel().load)
    assert caught.value.parameters["object"] == had.line.base.piece.id


def test_a_store_that_fails_is_no_damage(tmp_path: Path):
    had = History(FolderStore(tmp_path)).go_on(3).renew()
    (tmp_path / had.store.list("b-")[0]).unlink()
    (tmp_path / had.store.list("d-")[0]).unlink()
    (tmp_path / next(had.line.needs())).mkdir()
    with pytest.raises(NadiError, match="STATE_LOG_FAILED"):
        load(had.store, had.line, 0, TinyKernel().load)
