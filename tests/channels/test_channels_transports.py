"""What channels need of a transport, on NATS JetStream and on Kafka."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest
from channels_memory import MakeChannel, all_of, delivery, give, log_on, sink_on

from nadi.channels.records import CUT, OPEN, Progress
from nadi.channels.transport import Bounds, Told, Transport
from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException


@pytest.fixture
def name() -> str:
    """A channel of the test's own."""
    return f"C.{uuid.uuid4().hex[:8]}"


def progress(producer: str, cut: int, epoch: int = 1, ends: tuple[int, ...] = (0,)) -> Progress:
    return Progress(producer, epoch, OPEN if cut < 0 else CUT, cut, 100 * cut, 100 * cut - 100, ends)


def all_news(view: Transport, after: int = 0) -> Iterator[Told]:
    while found := view.news(after):
        yield from found
        after = found[-1].place


def test_progress_is_heard_in_order_and_from_any_place_on(transport: MakeChannel, name: str) -> None:
    writer, reader = transport(name), transport(name)
    assert writer.claim("A-1") is None
    for cut in range(5):
        writer.announce("A-1", progress("A-1", cut))
    heard = list(all_news(reader))
    assert [t.progress.cut for t in heard] == [0, 1, 2, 3, 4]
    assert [t.progress.cut for t in all_news(reader, heard[2].place)] == [3, 4]
    assert reader.news(heard[-1].place) == []


def test_batches_are_read_by_their_places_part_by_part(transport: MakeChannel, name: str) -> None:
    writer, reader = transport(name, 2), transport(name, 2)
    writer.create(Bounds())
    records = [(i % 2, bytes([i]) * 100_000) for i in range(40)]
    places = writer.write("A-1", 0, records)
    more = writer.write("B-1", 0, [(0, b"other")])
    for part in (0, 1):
        mine = [(place, record) for place, (p, record) in zip(places, records, strict=True) if p == part]
        assert reader.fetch("A-1", part, [place for place, _ in mine]) == [record for _, record in mine]
        assert reader.fetch("A-1", part, [mine[3][0], mine[7][0]]) == [mine[3][1], mine[7][1]]
    assert reader.fetch("B-1", 0, more) == [b"other"]


def test_who_claims_a_producer_takes_it_from_who_had_it(transport: MakeChannel, name: str) -> None:
    old, new = transport(name), transport(name)
    old.claim("A-1")
    old.announce("A-1", progress("A-1", -1, 1))
    found = new.claim("A-1")
    assert found is not None
    assert (found.kind, found.epoch) == (OPEN, 1)
    new.announce("A-1", progress("A-1", -1, 2))
    with pytest.raises(NadiError, match="FENCED"):
        old.announce("A-1", progress("A-1", 0, 1))
    new.announce("A-1", progress("A-1", 0, 2))
    assert [t.progress.epoch for t in all_news(new)] == [1, 2, 2]
    with pytest.raises(NadiError, match="FENCED"):
        old.announce("A-1", progress("A-1", 1, 1))


def test_nobody_announces_without_having_claimed(transport: MakeChannel, name: str) -> None:
    with pytest.raises(NadiError, match="FENCED"):
        transport(name).announce("A-1", progress("A-1", 0))


def test_the_last_word_of_each_producer_is_found(transport: MakeChannel, name: str) -> None:
    for producer in ("A-1", "A.2 x", "A-3"):
        view = transport(name)
        view.claim(producer)
        for cut in range(3):
            view.announce(producer, progress(producer, cut))
    assert {(p.producer, p.cut) for p in transport(name).tails()} == {("A-1", 2), ("A.2 x", 2), ("A-3", 2)}


def test_a_reader_begins_where_a_chunk_is_told_of(transport: MakeChannel, name: str) -> None:
    writer, other = transport(name), transport(name)
    writer.claim("A-1")
    other.claim("B-1")
    for cut in range(20):
        writer.announce("A-1", progress("A-1", cut, ends=(10 * cut,)))
        other.announce("B-1", progress("B-1", cut, ends=(cut,)))
    reader = transport(name)
    for position in (0, 5, 100, 189, 190, 500):
        place = reader.before("A-1", {0: position})
        heard = [t.progress.ends[0] for t in all_news(reader, place) if t.progress.producer == "A-1"]
        assert heard[0] <= position or heard[0] == 0
        wanted = [e for e in range(0, 200, 10) if e > position]
        assert heard[-len(wanted) :] == wanted or not wanted


def test_a_channel_is_made_once_and_removed_for_good(transport: MakeChannel, name: str) -> None:
    view = transport(name, 2)
    view.create(Bounds())
    view.claim("A-1")
    view.announce("A-1", progress("A-1", 0))
    view.create(Bounds())
    assert len(view.news(0)) == 1
    view.remove()
    view.remove()
    anew = transport(name, 2)
    anew.create(Bounds())
    assert anew.claim("A-1") is None


def test_a_channel_grows_without_losing_anything(transport: MakeChannel, name: str) -> None:
    view = transport(name, 1)
    view.create(Bounds())
    places = view.write("A-1", 0, [(0, b"old")])
    wider = transport(name, 3)
    wider.resize(Bounds())
    assert wider.fetch("A-1", 0, places) == [b"old"]
    assert wider.fetch("A-1", 2, wider.write("A-1", 0, [(2, b"new")])) == [b"new"]


def test_who_listens_is_told(transport: MakeChannel, name: str) -> None:
    writer, reader = transport(name), transport(name)
    writer.claim("A-1")
    writer.announce("A-1", progress("A-1", 0))
    heard = threading.Event()
    reader.listen(reader.news(0)[-1].place, heard.set)
    for cut in range(1, 100):
        writer.announce("A-1", progress("A-1", cut))
        if heard.wait(0.1):
            break
    assert heard.is_set()


def test_rows_go_through_a_channel_and_a_reader_that_begins_anew_finds_them(transport: MakeChannel, name: str) -> None:
    sink = sink_on(transport(name, 2), parts=2, key="key")  # type: ignore[arg-type]
    sink.begin(1, (0, 0))
    first = 0
    for cut in range(1, 6):
        count = (3, 30_000)[cut % 2]
        rows = [(f"k{i % 50}", i, 1_000 * cut + i // 100, i) for i in range(count)]
        give(sink, delivery(cut, rows, first, clock=1_000 * cut + 900))
        first += count
    log = log_on(transport(name, 2), parts=2)  # type: ignore[arg-type]
    whole = all_of(log)
    assert len(whole) == 90_006
    part = [r for r in whole if r[1] == 0]
    middle = part[len(part) // 2][2]
    fresh = log_on(transport(name, 2), parts=2)  # type: ignore[arg-type]
    read = [p for m in fresh.read(0, middle, fresh.end(0)) for p in m.positions.tolist()]
    assert read == [r[2] for r in part if r[2] >= middle]


def test_what_readers_need_no_more_is_trimmed_and_the_rest_stays(transport: MakeChannel, name: str) -> None:
    view = transport(name)
    sink = sink_on(view)  # type: ignore[arg-type]
    sink.begin(1, (0, 0))
    for cut in range(1, 6):
        give(sink, delivery(cut, [("k", i, 1_000 * cut, i) for i in range(2_000)], 2_000 * cut, clock=1_000 * cut + 1))
    whole = all_of(log_on(transport(name)))  # type: ignore[arg-type]
    view.trim([("A-1", view.before("A-1", {0: 6_000}))])
    log = log_on(transport(name))  # type: ignore[arg-type]
    assert log.beginning(0) <= 6_000
    left = [
        row[2]
        for messages in log.read(0, 6_000, log.end(0))
        for row in zip(messages.positions, messages.times, messages.positions, strict=True)
    ]
    assert left == [row[2] for row in whole if row[2] >= 6_000]
    if log.beginning(0):
        with pytest.raises(NadiError, match="LOG_TRUNCATED"):
            list(log_on(transport(name)).read(0, 0, 10))  # type: ignore[arg-type]


def test_trimming_for_one_producer_leaves_another_one_all(transport: MakeChannel, name: str) -> None:
    view = transport(name)
    for producer in ("A-1", "B-1"):
        view.claim(producer)
        for cut in range(1, 6):
            view.announce(producer, progress(producer, cut, ends=(cut,)))
    view.trim([("B-1", view.before("B-1", {0: 4}))])
    heard = list(all_news(transport(name)))
    assert [t.progress.cut for t in heard if t.progress.producer == "A-1"] == [1, 2, 3, 4, 5]
    assert {t.progress.cut for t in heard if t.progress.producer == "B-1"} >= {4, 5}


def test_the_last_word_of_a_producer_stays_however_much_is_trimmed(transport: MakeChannel, name: str) -> None:
    view = transport(name)
    view.claim("A-1")
    for cut in range(1, 6):
        view.announce("A-1", progress("A-1", cut, ends=(cut,)))
    view.trim([("A-1", 10**9)])
    assert [t.progress.cut for t in all_news(transport(name))] == [5]


def test_a_channel_says_how_much_it_holds(transport: MakeChannel, name: str) -> None:
    view = transport(name)
    sink = sink_on(view)  # type: ignore[arg-type]
    sink.begin(1, (0, 0))
    before = view.size()
    for cut in range(1, 4):
        give(sink, delivery(cut, [(f"key{i}", i, cut, i) for i in range(5_000)], 5_000 * cut, clock=1_000 * cut))
    full = transport(name).size()
    assert full.messages > before.messages
    assert full.bytes - before.bytes > 3 * 5_000 * 8
    view.trim([("A-1", view.before("A-1", {0: 10_000}))])
    assert 0 < transport(name).size().bytes < full.bytes


def test_a_full_channel_holds_who_fills_it_until_it_is_trimmed(transport: MakeChannel, name: str) -> None:
    view = transport(name, most=600_000)
    view.create(Bounds(bytes=600_000))
    sink = sink_on(view)  # type: ignore[arg-type]
    sink.begin(1, (0, 0))
    rows, given = [(f"key{i}", i, 1_000, i) for i in range(3_000)], 0
    with pytest.raises(ConnectionUnavailableException, match="it is full"):  # noqa: PT012 (which cut it is depends on the server)
        for cut in range(1, 100):
            give(sink, delivery(cut, rows, given, clock=1_000 * cut))
            given += len(rows)
    done = given // len(rows)
    assert 2 < done < 20
    refused = delivery(done + 1, rows, given, clock=1_000 * (done + 1))
    with pytest.raises(ConnectionUnavailableException, match="it is full"):
        give(sink, refused)
    view.trim([("A-1", view.before("A-1", {0: given}))])
    give(sink, refused)
    log = log_on(transport(name))  # type: ignore[arg-type]
    assert sum(len(m) for m in log.read(0, given, log.end(0))) == len(rows)
