"""Who is not the partner gets nothing, and breaks nothing."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

import msgspec
import pytest
from pairing import ACTIVE, SECRET, Pair, Proxy, append, certificate, over, paired, run

from nadi.errors import NadiError
from nadi.eventsync.contract import SessionOver
from nadi.eventsync.counters import Counters
from nadi.eventsync.keys import MAGIC, MAIN, Keys, greet
from nadi.eventsync.link import TcpLink
from nadi.eventsync.wire import HEAD, LARGEST, Kind
from nadi.io.certificate import OwnCertificate

NOTHING = 32  # bytes: a random question is all that a stranger is told


async def answered(pair: Pair, *said: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """What comes back for some bytes until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.end.port, ssl=context)
    try:
        for part in said:
            writer.write(part)
            await asyncio.sleep(0.02)
        writer.write_eof() if writer.can_write_eof() else None
        async with asyncio.timeout(10):
            return await reader.read()
    except OSError:
        return b""
    finally:
        writer.transport.abort()


def test_a_stranger_gets_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            for said in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(5_000), MAGIC + b"X" + bytes(32), MAGIC[:4]):
                assert len(await answered(pair, said)) in (0, NOTHING)
            begun = MAGIC + MAIN + os.urandom(32)
            assert len(await answered(pair, begun, os.urandom(32))) in (0, NOTHING)
            hello = msgspec.msgpack.encode(ACTIVE)
            frame = HEAD.pack(len(hello), Kind.HELLO) + hello
            assert len(await answered(pair, begun, bytes(32), frame)) in (0, NOTHING)
            assert pair.decided.said == []
            session = await pair.link.open(pair.address, ACTIVE)
            await session.close()

    run(scene())


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_node_with_another_secret_gets_nothing_and_learns_that_the_other_has_one(
    tmp_path: Path, encrypted: bool
) -> None:
    async def scene() -> None:
        tls = certificate(tmp_path) if encrypted else None
        async with paired(tmp_path, tls=tls, secret="another secret of another cluster") as pair:
            with pytest.raises(SessionOver):
                await pair.link.open(pair.address, ACTIVE)
            assert pair.decided.said == []

    run(scene())


def test_a_node_does_not_take_a_listener_for_its_partner_that_does_not_know_the_secret(tmp_path: Path) -> None:
    async def scene() -> None:
        async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(len(MAGIC) + 33)
            writer.write(bytes(32))
            await reader.readexactly(32)
            writer.write(bytes(32))
            heard.append(await reader.read())
            writer.close()

        heard: list[bytes] = []
        server = await asyncio.start_server(pretend, "127.0.0.1", 0)
        async with paired(tmp_path) as pair:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(SessionOver, match="does not have the secret"):
                await pair.link.open(f"127.0.0.1:{port}", ACTIVE)
            while not heard:
                await asyncio.sleep(0.005)
            assert heard == [b""]
        server.close()

    run(scene())


def test_a_recorded_session_is_of_no_use_a_second_time(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair, Proxy(pair.end.port) as proxy:
            session = await pair.link.open(f"127.0.0.1:{proxy.port}", ACTIVE)
            await session.catch_up()
            await session.equal()
            await session.send(append(1))
            await session.close()
            await pair.decided.ended.wait()
            said = list(pair.decided.said)
            assert len(proxy.first) == 2
            for recorded in proxy.first:
                assert len(recorded) > 100
                assert len(await answered(pair, recorded)) in (0, NOTHING)
                assert len(await answered(pair, recorded[:41], recorded[41:73], recorded[73:])) in (0, NOTHING)
            assert pair.decided.said == said

    run(scene())


def test_a_node_that_is_not_the_partner_any_more_gets_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path, knows="three") as pair:
            with pytest.raises(SessionOver):
                await pair.link.open(pair.address, ACTIVE)
            assert pair.decided.said == []

    run(scene())


def test_nobody_can_stand_between_two_nodes_with_a_certificate_of_his_own(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path, tls=certificate(tmp_path)) as pair:
            trusting = pair.link._keys.connects()

            async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                there, out = await asyncio.open_connection("127.0.0.1", pair.end.port, ssl=trusting)

                async def hand_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                    while data := await source.read(65536):
                        seen.append(data)
                        sink.write(data)
                    sink.close()

                await asyncio.gather(hand_on(reader, out), hand_on(there, writer))

            seen: list[bytes] = []
            own = OwnCertificate(tmp_path / "other").tls().context()
            server = await asyncio.start_server(between, "127.0.0.1", 0, ssl=own)
            with pytest.raises(SessionOver):
                await pair.link.open(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", ACTIVE)
            assert [len(data) for data in seen] == [41, 32, 32]
            assert pair.decided.said == []
            server.close()

    run(scene())


def test_what_goes_over_tls_cannot_be_read_on_the_way(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path, tls=certificate(tmp_path)) as pair, Proxy(pair.end.port) as proxy:
            session = await pair.link.open(f"127.0.0.1:{proxy.port}", ACTIVE)
            await session.send(append(1, b"something that is nobody's business"))
            await session.catch_up()
            await session.close()
            assert not [first for first in proxy.first if MAGIC in first or b"nobody's" in first]

    run(scene())


def test_without_a_certificate_nothing_leaves_the_machine(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            with pytest.raises(SessionOver, match="loopback"):
                await pair.link.open("db.example:9893", ACTIVE)
            with pytest.raises(NadiError, match="loopback") as problem:
                await pair.end.open("0.0.0.0", 0)
            assert problem.value.condition == "INVALID_SETTING"

    run(scene())


@pytest.mark.parametrize(
    "address", ["10..0.5:9893", f"{'a' * 70}.example:9893", "127.0.0.1:99999", "no such host:1", ""]
)
def test_an_address_that_cannot_be_one_is_a_partner_that_does_not_answer(tmp_path: Path, address: str) -> None:
    """The address is what the other node says of itself: a mistake in its settings must not end the active one."""

    async def scene() -> None:
        async with paired(tmp_path, tls=certificate(tmp_path)) as pair:
            with pytest.raises(SessionOver, match=r"cannot be reached|is no address"):
                await pair.link.open(address, ACTIVE)

    run(scene())


def test_certificates_of_an_authority_that_are_gone_are_a_partner_that_does_not_answer(tmp_path: Path) -> None:
    async def scene() -> None:
        tls = certificate(tmp_path)
        async with paired(tmp_path, tls=tls) as pair:
            link = TcpLink(Keys(SECRET, tls, tmp_path / "gone.pem"), tmp_path, [], _nothing, 5_000, Counters())
            with pytest.raises(SessionOver, match="authority"):
                await link.open(pair.address, ACTIVE)

    run(scene())


async def _nothing(_found: object) -> None:
    raise AssertionError("there is no surplus")


def test_a_secret_that_is_too_short_is_refused_and_not_shown() -> None:
    with pytest.raises(NadiError, match=r"nadi\.cluster\.secret") as problem:
        Keys("hunter2", None)
    assert "hunter2" not in str(problem.value)
    assert SECRET not in repr(Keys(SECRET, None))


FRAMES = {
    "too long": HEAD.pack(LARGEST + 1, Kind.RECORD),
    "too long for its kind": HEAD.pack(1_000_000, Kind.BEAT),
    "of no kind": HEAD.pack(3, 99) + b"abc",
    "a record that is none": HEAD.pack(12, Kind.RECORD) + (1).to_bytes(8, "big") + b"\xc1\xc1\xc1\xc1",
    "a record without a number": HEAD.pack(2, Kind.RECORD) + b"ab",
    "half a number": HEAD.pack(5, Kind.CONFIRM) + b"abcde",
    "another hello": HEAD.pack(1, Kind.HELLO) + b"a",
    "garbage": os.urandom(10_000),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_partner_that_sends_what_is_no_frame_loses_its_session_and_nothing_else(tmp_path: Path, name: str) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await pair.link.open(pair.address, ACTIVE)
            await session.catch_up()
            await session.equal()
            await session.send(append(1))
            session._wire._writer.write(FRAMES[name])
            with pytest.raises(SessionOver):
                await over(session)
            await pair.decided.ended.wait()
            await session.close()
            assert pair.end.log.count == 1
            assert pair.end.log.whole
            again = await pair.link.open(pair.address, ACTIVE)
            await again.catch_up()
            await again.close()

    run(scene())


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", ".hidden", "a//b", ""])
def test_an_object_stays_in_the_folder(tmp_path: Path, path: str) -> None:
    from nadi.replica.contract import ObjectPut

    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await pair.link.open(pair.address, ACTIVE)
            body = (1).to_bytes(8, "big") + msgspec.msgpack.encode(ObjectPut(path, 3))
            session._bulk_wire.say(Kind.OBJECT, body)
            with pytest.raises(SessionOver):
                await session.catch_up()
            await session.close()
            assert not [found for found in tmp_path.rglob("*") if found.name in ("x", "b", ".hidden")]

    run(scene())


def test_a_second_connection_needs_the_key_of_the_session(tmp_path: Path) -> None:
    async def scene() -> None:
        async with paired(tmp_path) as pair:
            session = await pair.link.open(pair.address, ACTIVE)
            reader, writer = await asyncio.open_connection("127.0.0.1", pair.end.port)
            await greet(Keys(SECRET, None), b"B", reader, writer)
            writer.write(HEAD.pack(32, Kind.BULK) + bytes(32))
            assert await reader.read() == b""
            writer.close()
            await session.catch_up()
            await session.close()

    run(scene())


def test_many_who_only_connect_keep_nobody_out_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nadi.eventsync.passive.STRANGERS", 5)
    monkeypatch.setattr("nadi.eventsync.keys.PATIENCE", 0.3)

    async def scene() -> None:
        async with paired(tmp_path) as pair:
            idle = [await asyncio.open_connection("127.0.0.1", pair.end.port) for _ in range(20)]
            while True:
                try:
                    session = await pair.link.open(pair.address, ACTIVE)
                except SessionOver:
                    await asyncio.sleep(0.05)
                else:
                    break
            await session.close()
            for _, writer in idle:
                writer.transport.abort()

    run(scene())
