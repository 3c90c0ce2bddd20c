"""Sessions between two ends over real sockets."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from pairing import ACTIVE, PARTNER, MemoryCopy, Pair, Proxy, append, certificate, over, paired, run

from nadi.errors import NadiError
from nadi.eventsync.contract import PartnerRefuses, SessionOver, SurplusKind
from nadi.eventsync.session import ActiveSession
from nadi.eventsync.window import FOLLOWING, SLACK, Phase, Window
from nadi.replica.contract import AppFile, JournalTrim, ObjectPut, ObjectsGone, Statements


async def following(pair: Pair, address: str = "") -> ActiveSession:
    """A session whose partner is in sync."""
    session = await pair.link.open(address or pair.address, ACTIVE)
    await session.catch_up()
    await session.equal()
    return session


async def written(copy: MemoryCopy, count: int) -> None:
    while len(copy.order) < count:
        await asyncio.sleep(0.005)


async def drained(pair: Pair) -> None:
    while len(pair.end.log._backlog):
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_record_is_in_the_partners_log_when_send_returns_and_in_its_service_when_it_is_confirmed(
    tmp_path: Path, encrypted: bool
) -> None:
    async def scene() -> None:
        async with paired(tmp_path, tls=certificate(tmp_path) if encrypted else None) as pair:
            session = await following(pair)
            assert session.partner == PARTNER
            numbers = [await session.send(append(n, os.urandom(2_000))) for n in range(20)]
            assert pair.end.log.count == 20
            assert pair.there.journal.order == []
            for number in numbers[:19]:
                session.confirm(number)
            await written(pair.there.journal, 19)
            assert [record.first for record in pair.there.journal.order] == list(range(19))  # type: ignore[union-attr]
            session.abandon(numbers[19])
            await drained(pair)
            assert len(pair.there.journal.order) == 19
            await session.close()

    run(scene())


def test_the_answer_to_a_beat_says_why_the_partner_could_not_go_on_at_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            assert await session.beat() == ""
            pair.decided.unready = "Spark starts – ä"
            assert await session.beat() == "Spark starts – ä"
            await session.close()

    run(scene())


def test_records_in_flight_go_together_and_a_large_one_comes_whole(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path, tls=certificate(tmp_path)) as pair:
            session = await following(pair)
            large = os.urandom(8_000_000)
            numbers = await asyncio.gather(
                *(session.send(append(n, large if n == 5 else b"%d" % n)) for n in range(200))
            )
            assert numbers == list(range(1, 201))
            for number in numbers:
                session.confirm(number)
            await written(pair.there.journal, 200)
            assert pair.there.journal.held["s.a", 5] == large
            assert [r.first for r in pair.there.journal.order] == list(range(200))  # type: ignore[union-attr]
            while pair.sends.backlog:
                await asyncio.sleep(0.005)
            assert (pair.sends.sent_records, pair.takes.received_records, pair.sends.in_flight) == (200, 200, 0)
            assert pair.sends.sent_bytes > 8_000_000 < pair.takes.received_bytes
            assert pair.sends.last_sync is not None
            await session.close()

    run(scene())


def test_kinds_of_records_go_to_their_services_and_none_waits_for_another_kind(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            pair.there.journal.gate.clear()
            session.confirm(await session.send(append(1)))
            for record in (Statements(1, [("INSERT", b"\x01")]), AppFile("a", "text")):
                session.confirm(await session.send(record))
            while not (pair.there.logs.order and pair.there.apps.order):
                await asyncio.sleep(0.005)
            assert pair.there.journal.order == []
            pair.there.journal.gate.set()
            session.confirm(await session.send(JournalTrim("s", "s.a", 2)))
            await drained(pair)
            assert pair.there.journal.held == {}
            await session.close()

    run(scene())


# ---- catching up -------------------------------------------------------------------------------------------------


def test_a_catch_up_brings_what_is_missing_and_then_what_was_sent_meanwhile(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            for n in range(100):
                pair.here.journal.write(append(n, b"%d" % n))
            pair.here.logs.order = [Statements(n, []) for n in range(3)]
            pair.there.journal.held = {("s.a", 0): b"0"}
            pair.here.journal.pieces.clear()
            session = await pair.link.open(pair.address, ACTIVE)
            catching = asyncio.ensure_future(session.catch_up())
            for n in range(100, 120):
                number = await session.send(append(n, b"%d" % n))  # without an answer
                pair.here.journal.write(append(n, b"%d" % n))
                session.confirm(number)
            while pair.end.log.count < 20:
                await asyncio.sleep(0.005)
            assert pair.there.journal.order == []
            assert not pair.end.log.whole
            pair.here.journal.pieces.set()
            await catching
            assert pair.end.log.whole
            await session.equal()
            assert pair.decided.said == ["greets", "complete"]
            await drained(pair)
            assert pair.there.journal.held == pair.here.journal.held
            assert pair.there.logs.order == pair.here.logs.order
            await session.close()

    run(scene())


def test_a_copy_that_stands_still_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            pair.here.journal.write(append(0))
            pair.here.journal.write(append(1))
            pair.here.journal.pieces.clear()
            session = await pair.link.open(pair.address, ACTIVE)
            catching = asyncio.ensure_future(session.catch_up())
            assert session.copying
            while session.copying:
                await asyncio.sleep(0.01)
            pair.here.journal.pieces.set()
            await catching
            assert not session.copying
            await session.close()

    monkeypatch.setattr("nadi.eventsync.session.STANDSTILL", 0.3)
    run(scene())


def test_the_end_of_a_catch_up_brings_what_the_partner_says_of_itself_then(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await pair.link.open(pair.address, ACTIVE)
            assert session.partner.apps == {}
            pair.decided.apps = {f"App{n}": "d" * 32 for n in range(2_000)}
            assert (await session.catch_up()).apps == pair.decided.apps
            await session.close()

    run(scene())


def test_what_only_a_returning_node_had_comes_to_the_active_one(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            pair.there.journal.held = {("s.a", n): b"p" * 400_000 for n in range(5)}
            session = await following(pair)
            assert sorted(found.what for found in pair.surplus) == [f"event {n}" for n in range(5)]
            assert pair.there.journal.held == {}
            assert not (tmp_path / "pair" / "surplus.log").exists()
            await session.close()

    run(scene())


def test_surplus_that_the_active_node_could_not_keep_comes_again_in_the_next_session(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            pair.there.journal.held = {("s.a", 1): b"p"}
            kept, pair.link._keep = pair.link._keep, refusing
            session = await pair.link.open(pair.address, ACTIVE)
            with pytest.raises(SessionOver, match="the error store is full"):
                await session.catch_up()
            await session.close()
            pair.link._keep = kept
            await (await following(pair)).close()
            assert [found.what for found in pair.surplus] == ["event 1"]

    async def refusing(_found: object) -> None:
        raise OSError("the error store is full")

    run(scene())


def test_a_new_session_forgets_what_the_one_before_had_not_settled(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            first = await following(pair)
            await first.send(append(1))
            second = await following(pair)
            with pytest.raises(SessionOver):
                await first.beat()
            assert pair.decided.said == ["greets", "complete", "over", "greets", "complete"]
            await second.hand_over()
            await pair.end.take_over()
            assert pair.there.journal.order == []
            await first.close()
            await second.close()

    run(scene())


def test_a_node_that_could_not_stand_in_keeps_what_it_holds_and_says_what_it_is(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            await session.send(append(1))
            pair.decided.fitting = False  # the active one was started with another version
            other = await pair.link.open(pair.address, replace(ACTIVE, version="2", token=8))
            assert other.partner == PARTNER
            with pytest.raises(SessionOver):
                await over(other)
            await other.close()
            await session.close()
            assert pair.decided.said == ["greets", "complete", "over", "greets", "over"]
            assert pair.end.log.count == 1
            await pair.end.take_over()
            assert pair.there.journal.held == {("s.a", 1): b"x"}

    run(scene())


def test_what_was_held_of_a_node_that_lost_its_disk_comes_to_the_node_that_was_promoted_with_loss(
    tmp_path: Path,
) -> None:
    events = msgspec.msgpack.encode([(5, b"a", {"k": "v"}), (6, b"b", {})])

    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            pair.there.journal.gate.clear()  # it is held, and not in the service yet
            session.confirm(await session.send(append(7, events, "nadi.Orders.in.0", "NADI_Orders")))
            await session.send(append(9, events, "nadi.Orders.in.0", "NADI_Orders"))
            session.abandon(await session.send(append(11, events, "nadi.Orders.in.0", "NADI_Orders")))
            await session.send(Statements(4, [("insert into t values (?)", msgspec.msgpack.encode([[1]]))]))
            await session.send(AppFile("Orders", "define stream S (a int);"))
            await session.send(ObjectsGone(["a"]))
            await session.beat()
            await session.close()
            await pair.decided.ended.wait()
            lost = asyncio.ensure_future(pair.link.open(pair.address, replace(ACTIVE, store="s9", token=9)))
            await asyncio.sleep(0)
            pair.there.journal.gate.set()
            anew = await lost
            await anew.catch_up()
            whats = [found.what for found in pair.surplus]
            assert {f"event {n} of input 0" for n in (9, 10)} <= set(whats)
            assert not {f"event {n} of input 0" for n in (11, 12)} & set(whats)
            assert {"transaction 4 of the logs", "the text of an app"} <= set(whats)
            (event,) = [found for found in pair.surplus if found.position == 9]
            assert (event.app, event.stream, event.time, event.payload) == ("Orders", "0", 5, b"a")
            assert (event.kind, event.properties) == (SurplusKind.EVENT, {"k": "v"})
            assert pair.there.journal.held == {}
            await anew.close()

    run(scene())


def test_what_was_held_outlives_a_restart_with_whose_it_is(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            await session.send(AppFile("Orders", "define stream S (a int);"))
            await session.beat()
            await session.close()
            await pair.decided.ended.wait()
        async with paired(tmp_path) as pair:
            anew = await pair.link.open(pair.address, replace(ACTIVE, store="s9", token=9))
            await anew.catch_up()
            assert [found.what for found in pair.surplus] == ["the text of an app"]
            await anew.close()

    run(scene())


def test_a_service_that_refuses_for_long_ends_the_session_and_says_why(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            pair.end.log._patience = 0.1
            session = await following(pair)
            pair.there.journal.fails = OSError("the disk of the journal is broken")
            session.confirm(await session.send(append(1)))
            with pytest.raises(SessionOver, match="the disk of the journal is broken"):
                await over(session)
            await session.close()
            pair.there.journal.fails = None
            pair.here.journal.write(append(1))
            await (await following(pair)).close()
            assert pair.there.journal.held == pair.here.journal.held

    run(scene())


# ---- taking over -------------------------------------------------------------------------------------------------


def test_a_take_over_writes_what_is_confirmed_and_what_nobody_settled_and_not_what_was_abandoned(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            pair.there.journal.gate.clear()
            numbers = [await session.send(append(n)) for n in (1, 2, 3, 3, 4)]
            session.confirm(numbers[0])
            session.abandon(numbers[4])
            await session.beat()
            await session.close()
            await pair.decided.ended.wait()
            pair.there.journal.gate.set()
            await pair.end.take_over()
            assert [r.first for r in pair.there.journal.order] == [1, 2, 3]  # type: ignore[union-attr]
            assert pair.end.log.count == 0
            await pair.end.take_over()
            assert len(pair.there.journal.order) == 3

    run(scene())


def test_a_take_over_leaves_out_a_record_in_whose_place_another_one_was_confirmed_before_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            first = await session.send(append(1, b"one process"))
            await session.send(append(1, b"another process, which is refused"))
            session.confirm(first)
            await session.send(append(2))
            await session.beat()
            await session.close()
            await pair.decided.ended.wait()
            await pair.end.take_over()
            assert pair.there.journal.held == {("s.a", 1): b"one process", ("s.a", 2): b"x"}

    run(scene())


def test_a_copy_in_which_another_message_has_the_place_of_a_confirmed_one_is_not_taken_over(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            pair.end.log._patience = 0.1
            session = await following(pair)
            pair.there.journal.gate.clear()
            session.confirm(await session.send(append(1, b"mine")))
            await session.beat()
            await session.close()
            await pair.decided.ended.wait()
            pair.there.journal.held["s.a", 1] = b"another one"
            pair.there.journal.gate.set()
            with pytest.raises(NadiError) as refused:
                await pair.end.take_over()
            assert refused.value.condition == "COPY_DIFFERS"

    run(scene())


def test_a_take_over_in_the_middle_of_a_catch_up_writes_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            pair.here.journal.write(append(0))
            pair.here.journal.pieces.clear()
            session = await pair.link.open(pair.address, ACTIVE)
            catching = asyncio.ensure_future(session.catch_up())
            session.confirm(await session.send(append(1)))
            while not pair.end.log.count:
                await asyncio.sleep(0.005)
            await pair.end.take_over()
            assert pair.there.journal.held == {}
            with pytest.raises(SessionOver):
                await catching
            await session.close()

    run(scene())


def test_a_partner_that_is_told_to_take_over_has_all_before_it_answers(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            for number in [await session.send(append(n)) for n in range(50)]:
                session.confirm(number)
            await session.hand_over()
            assert pair.decided.said[-1] == "takes over"
            await pair.end.take_over()
            assert len(pair.there.journal.order) == 50
            with pytest.raises(SessionOver):
                await session.beat()
            await session.close()

    run(scene())


def test_a_passive_node_that_was_started_again_goes_on_with_what_it_held(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            pair.there.journal.gate.clear()
            for n in range(10):
                number = await session.send(append(n))
                if n < 5:
                    session.confirm(number)
            await session.beat()
            await session.close()
            await pair.decided.ended.wait()
            pair.there.journal.gate.set()
        before = [r.first for r in pair.there.journal.order]  # type: ignore[union-attr]
        async with paired(tmp_path) as pair:
            assert pair.end.log.whole
            while pair.end.log.count > 5:
                await asyncio.sleep(0.005)
            after = [r.first for r in pair.there.journal.order]  # type: ignore[union-attr]
            assert sorted({*before, *after}) == list(range(5))
            await pair.end.take_over()
            assert [r.first for r in pair.there.journal.order][-5:] == [5, 6, 7, 8, 9]  # type: ignore[union-attr]

    run(scene())


def test_a_log_whose_disk_fails_answers_nothing_and_the_next_session_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_descriptor: int) -> None:
        raise OSError(5, "the disk is broken")

    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            await session.send(append(1))
            with monkeypatch.context() as patch:
                patch.setattr(os, "fdatasync", failing)
                with pytest.raises(SessionOver, match="the disk is broken"):
                    await session.send(append(2))
            await session.close()
            pair.here.journal.write(append(1))
            again = await following(pair)
            again.confirm(await again.send(append(3)))
            await drained(pair)
            assert [key[1] for key in pair.there.journal.held] == [1, 3]
            await again.close()

    run(scene())


# ---- refusals ----------------------------------------------------------------------------------------------------


def test_a_partner_that_knows_a_higher_token_refuses_and_says_which(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            pair.decided.token = 9
            with pytest.raises(PartnerRefuses) as refusal:
                await pair.link.open(pair.address, ACTIVE)
            assert refusal.value.token == 9

    run(scene())


def test_a_partner_that_follows_no_more_gives_no_promise_and_the_session_is_over(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            await session.beat()
            pair.decided.follows = False
            with pytest.raises(PartnerRefuses):
                await session.beat()
            with pytest.raises(PartnerRefuses):
                await session.send(append(1))
            await session.close()

    run(scene())


# ---- objects -----------------------------------------------------------------------------------------------------


def test_an_object_is_in_the_partners_folder_when_send_returns(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path, tls=certificate(tmp_path)) as pair:
            here, there = pair.objects
            session = await following(pair)
            (here / "app").mkdir()
            sizes = {"app/large": 20_000_000, "app/small": 3_000, "app/empty": 0}
            for name, size in sizes.items():
                (here / name).write_bytes(os.urandom(size))
            numbers = await asyncio.gather(*(session.send(ObjectPut(n, size)) for n, size in sizes.items()))
            for name in sizes:
                assert (there / name).read_bytes() == (here / name).read_bytes()
            for number in numbers:
                session.confirm(number)
            assert sorted(path.name for path in (there / "app").iterdir()) == ["empty", "large", "small"]
            await session.send(ObjectPut("app/gone", 7))  # removed before it could be sent
            assert not (there / "app/gone").exists()
            await session.close()

    run(scene())


def test_records_and_beats_and_a_small_object_do_not_wait_for_a_large_one(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair, Proxy(pair.end.port) as proxy:
            here, there = pair.objects
            session = await following(pair, f"127.0.0.1:{proxy.port}")
            (here / "large").write_bytes(os.urandom(150_000_000))
            (here / "small").write_bytes(b"small")
            large = asyncio.ensure_future(session.send(ObjectPut("large", 150_000_000)))
            while not list(there.glob(".large*")):
                await asyncio.sleep(0.001)
            await session.send(ObjectPut("small", 5))
            await session.send(append(1))
            await session.beat()
            assert not large.done()
            await large
            assert (there / "large").stat().st_size == 150_000_000
            await session.close()

    run(scene())


def test_objects_sent_in_a_catch_up_are_there_when_both_are_equal(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            here, there = pair.objects
            session = await pair.link.open(pair.address, ACTIVE)
            for n in range(40):
                (here / f"o{n}").write_bytes(os.urandom(100_000))
                await session.send(ObjectPut(f"o{n}", 100_000))
            await session.catch_up()
            await session.equal()
            assert sorted(p.name for p in there.iterdir()) == sorted(f"o{n}" for n in range(40))
            await session.close()

    run(scene())


def test_a_half_object_is_gone_when_its_session_is_over(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair, Proxy(pair.end.port) as proxy:
            here, there = pair.objects
            session = await following(pair, f"127.0.0.1:{proxy.port}")
            (here / "o").write_bytes(bytes(100_000_000))
            sending = asyncio.ensure_future(session.send(ObjectPut("o", 100_000_000)))
            while not list(there.glob(".o*")):
                await asyncio.sleep(0.001)
            proxy.cut()
            with pytest.raises(SessionOver):
                await sending
            await pair.decided.ended.wait()
            assert list(there.iterdir()) == []
            await session.close()

    run(scene())


# ---- what is slow, cut, or silent --------------------------------------------------------------------------------


def test_a_slow_partner_makes_the_active_node_slower_and_nothing_grows_without_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nadi.eventsync.window.FOLLOWING", 1_000_000)

    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await following(pair)
            pair.there.journal.gate.clear()
            sent = 0

            async def send() -> None:
                nonlocal sent
                for n in range(40):
                    session.confirm(await session.send(append(n, bytes(100_000))))
                    sent += 1

            sending = asyncio.ensure_future(send())
            while sent < 10:
                await asyncio.sleep(0.005)
            await session.beat()
            await asyncio.sleep(0.2)
            assert sent == 10
            assert pair.sends.backlog > 1_000_000
            pair.there.journal.gate.set()
            await sending
            await written(pair.there.journal, 40)
            await session.close()

    run(scene())


def test_a_partner_that_cannot_be_heard_any_more_ends_the_session_on_both_sides(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path, silence=1_500) as pair, Proxy(pair.end.port) as proxy:
            session = await following(pair, f"127.0.0.1:{proxy.port}")
            await asyncio.sleep(2.0)  # nothing is said, and both are alive
            await session.beat()
            proxy.flows.clear()
            with pytest.raises(SessionOver):
                await session.send(append(1))
            await pair.decided.ended.wait()
            await session.close()

    run(scene())


def test_after_a_cut_the_next_session_brings_all_that_the_active_node_has(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair, Proxy(pair.end.port) as proxy:
            here = pair.here.journal
            for cut in range(4):
                session = await following(pair, f"127.0.0.1:{proxy.port}")

                async def send(n: int, session: ActiveSession) -> None:
                    number = await session.send(append(n, b"%d" % n))
                    here.write(append(n, b"%d" % n))
                    session.confirm(number)

                sends = [asyncio.ensure_future(send(cut * 100 + n, session)) for n in range(100)]
                await asyncio.sleep(0.002 * cut)
                proxy.cut()
                for found in await asyncio.gather(*sends, return_exceptions=True):
                    assert found is None or isinstance(found, SessionOver)
                await session.close()
            session = await following(pair)
            await drained(pair)
            assert pair.there.journal.held == here.held
            await session.close()

    run(scene())


def test_objects_gone_are_handed_on(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            pair.end.log._copies = {**pair.end.log._copies, ObjectsGone: pair.there.apps}
            session = await following(pair)
            session.confirm(await session.send(ObjectsGone(["a", "b"])))
            await drained(pair)
            assert pair.there.apps.order == [ObjectsGone(["a", "b"])]
            await session.close()

    run(scene())


# ---- the window ----------------------------------------------------------------------------------------------------


def test_what_waits_after_a_catch_up_grows_less_while_records_go_on() -> None:
    window = Window(sent=500_000_000)
    window.copied()
    largest, turns = window.backlog, 0
    while window.phase != Phase.FOLLOWS:
        window.moved(window.done + 1_000_000)  # the other end writes as fast as this one would like to send
        while window.has_room() and window.phase != Phase.FOLLOWS:
            window.sent += 1_000_000
        assert window.backlog <= largest + SLACK + 1_000_000
        turns += 1
    assert turns < 1_100
    assert window.backlog < FOLLOWING
