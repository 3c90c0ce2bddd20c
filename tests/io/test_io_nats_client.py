from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from eventually import alive, eventually
from nats.aio.client import Client as Connection

from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io import natsclient
from nadi.io.guard import guarded
from nadi.io.jetstream import Outgoing, ensure_stream, publish_all, stream_config, token
from nadi.io.natsclient import NatsClient, api, event_loop, shared, submit
from nadi.io.natsserver import NatsServer
from nadi.io.retry import Policy


def test_the_client_of_a_url_is_shared_within_the_process(nats: NatsServer) -> None:
    assert shared(nats.url) is shared(nats.url)


def test_a_call_that_gets_no_answer_ends_in_time(nats: NatsServer) -> None:
    client = NatsClient(nats.url)
    with pytest.raises(ConnectionUnavailableException, match=r"no answer within 0\.1 s"):
        client.call(lambda _: asyncio.sleep(60), 0.1)
    client.close()


def test_a_server_that_accepts_and_says_nothing_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nadi.io.natsclient.CONNECT_WITHIN", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        client = NatsClient(f"nats://127.0.0.1:{mute.getsockname()[1]}")
        with pytest.raises(ConnectionUnavailableException):
            client.call(lambda nc: nc.flush())


def test_a_call_under_way_fails_at_once_when_the_connection_is_lost(own_nats: NatsServer) -> None:
    client = NatsClient(own_nats.url)
    client.call(lambda nc: nc.flush())
    waiting = threading.Event()

    async def wait(_: Connection) -> None:
        waiting.set()
        await asyncio.sleep(60)

    def kill() -> None:
        assert waiting.wait(60)
        os.kill(own_nats.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(ConnectionUnavailableException, match="the connection was lost"):
        client.call(wait, 60)
    killer.join()
    client.close()


def test_a_lost_connection_is_told_where_bytes_for_it_are_left_over(own_nats: NatsServer) -> None:
    """nats-py tries to send them as it closes; that fails, and then it would tell nobody: who publishes would wait for as long as a call may take."""
    client, told = NatsClient(own_nats.url), list[bool]()

    async def left_over(connection: Connection) -> None:
        os.kill(own_nats.pid, signal.SIGKILL)
        while not connection.is_closed:
            connection._pending.append(b"PUB left 0\r\n\r\n")
            connection._pending_data_size += 1
            await asyncio.sleep(0)
        await asyncio.sleep(60)

    client.call(lambda nc: nc.flush())
    client.observe(told.append)
    with pytest.raises(ConnectionUnavailableException, match="the connection was lost"):
        client.call(left_over)
    assert told[:1] == [True]
    client.ignore(told.append)
    client.close()


def test_a_call_that_takes_time_to_end_keeps_nobody_from_hearing_that_the_connection_is_lost(
    own_nats: NatsServer,
) -> None:
    client, told, late = NatsClient(own_nats.url), list[bool](), threading.Event()
    may_end = submit(made()).result(60)

    async def ends_late(_connection: object) -> None:
        try:
            await asyncio.sleep(600)
        finally:  # its time is over
            late.set()
            await may_end.wait()

    client.call(lambda nc: nc.flush())
    client.observe(told.append)
    calling = submit(client.perform(ends_late, 0.01))
    assert late.wait(60)
    os.kill(own_nats.pid, signal.SIGKILL)
    eventually(lambda: told)
    assert told[0], "that it is lost"
    event_loop().call_soon_threadsafe(may_end.set)
    with pytest.raises(ConnectionUnavailableException):
        calling.result(60)
    client.ignore(told.append)
    client.close()


async def made() -> asyncio.Event:
    """An event of the loop thread."""
    return asyncio.Event()


def test_between_attempts_a_call_is_refused_without_trying(own_nats: NatsServer) -> None:
    client = NatsClient("nats://127.0.0.1:1", policy=Policy(60_000, 60_000))
    for _ in range(2):
        with pytest.raises(ConnectionUnavailableException, match=r"127\.0\.0\.1"):
            client.call(lambda nc: nc.flush())
    assert client._gate.remaining() > 50_000


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_forked_process_makes_a_connection_of_its_own(nats: NatsServer) -> None:
    client = NatsClient(nats.url)
    client.call(lambda nc: nc.flush())
    child = os.fork()
    if child == 0:
        try:
            found = client.call(lambda nc: api(nc, "INFO"))
            os._exit(0 if "memory" in found else 3)
        except BaseException:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.call(lambda nc: nc.flush())
    client.close()


def test_many_messages_are_stored_in_their_order(nats: NatsServer) -> None:
    client = NatsClient(nats.url)
    client.call(lambda nc: ensure_stream(nc, stream_config("many", ["many"])))
    sequences = client.call(lambda nc: publish_all(nc, [Outgoing("many", b"x", {}) for _ in range(1500)]))
    assert sequences == list(range(1, 1501))
    assert client.call(lambda nc: publish_all(nc, [])) == []
    client.close()


def test_publishing_where_no_stream_listens_is_unavailable(nats: NatsServer) -> None:
    client = NatsClient(nats.url)
    with pytest.raises(NadiError) as failure:
        client.call(lambda nc: publish_all(nc, [Outgoing("nobody.listens", b"x", {})]))
    assert failure.value.condition == "CONNECTION_UNAVAILABLE"
    client.close()


def test_names_that_differ_have_different_tokens() -> None:
    names = ["a.b", "a_b", "a b", "", "ä", "a>b"]
    assert len({token(n) for n in names}) == len(names)
    assert token("Plain-Name_1") == "Plain-Name_1"


def test_a_guarded_command_is_stopped_and_its_exit_code_told(tmp_path: Path) -> None:
    child = guarded(["sh", "-c", "exec sleep 600"], tmp_path / "log")
    child.stop()
    child.stop()
    assert not child.running()
    assert guarded(["sh", "-c", "exit 7"], tmp_path / "log").wait(60) == 7


def test_a_command_that_is_stopped_again_closes_nothing_that_has_been_opened_since(tmp_path: Path) -> None:
    """The number of a descriptor that is closed is that of the next one that anybody opens."""
    child = guarded(["sleep", "600"], tmp_path / "log")
    child.stop()
    opened = [os.open(tmp_path / "log", os.O_RDONLY) for _ in range(20)]
    child.stop()
    for descriptor in opened:
        os.close(descriptor)  # fails where it has been closed


def test_a_guarded_command_that_ignores_the_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NADI_GUARD_GRACE", "0.2")
    pid = tmp_path / "pid"
    script = f"trap '' TERM; echo $$ > {pid}; while true; do sleep 0.05; done"
    child = guarded(["sh", "-c", script], tmp_path / "log")
    eventually(lambda: pid.exists() and pid.read_text().strip())
    child.stop()
    assert not alive(int(pid.read_text()))


def test_threads_that_ask_at_once_share_one_loop_and_one_connection(monkeypatch: pytest.MonkeyPatch):
    for name in ("_loop_of", "_shared"):
        monkeypatch.setattr(natsclient, name, cache(getattr(natsclient, name).__wrapped__))  # as in a new process
    count = 16
    gate = threading.Barrier(count)

    def asked(_number: int) -> tuple[int, int]:
        gate.wait(60)
        return id(natsclient.event_loop()), id(natsclient.shared("nats://127.0.0.1:1"))

    with ThreadPoolExecutor(count) as pool:
        found = set(pool.map(asked, range(count)))
    assert len(found) == 1
