from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from eventually import eventually
from log_contract import check_log, contents, payloads
from nats.aio.client import Client as Connection
from sample import connector, delivery

from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.contract import Connector, Log, Place, Sink
from nadi.io.jetstream import Outgoing, Stream, ensure_stream, publish_all, stream_config
from nadi.io.natsclient import NatsClient, api
from nadi.io.natsserver import MAX_PAYLOAD, NatsServer
from nadi.io.registry import open_log, open_sink
from nadi.io.retry import unavailable


@pytest.fixture
def subject() -> str:
    return f"t.{uuid4().hex[:8]}"


def source(server: NatsServer, subject: str, **options: str) -> Log:
    given = {
        "destination": subject,
        "bootstrap.servers": server.url,
        **{k.replace("_", "."): v for k, v in options.items()},
    }
    return open_log(connector("nats", given), Place("App", Path("/nowhere")))


def sink(server: NatsServer, subject: str, state: Path, **options: str) -> Sink:
    more = {k.replace("_", "."): v for k, v in options.items()}
    given = {"destination": subject, "bootstrap.servers": server.url, **more}
    return open_sink(connector("nats", given), Place("App", state))


def publish(server: NatsServer, subject: str, *texts: str) -> None:
    client = NatsClient(server.url)
    client.call(lambda nc: publish_all(nc, [Outgoing(subject, t.encode(), {}) for t in texts]), 60)
    client.close()


def test_messages_are_read_with_their_sequences_as_positions(nats: NatsServer, subject: str) -> None:
    log = source(nats, subject)
    assert log.beginning(0) == log.end(0) == 1
    publish(nats, subject, "a", "b", "c")
    eventually(lambda: log.end(0) == 4)
    assert [(p, body) for p, _, body in contents(log)] == [(1, b"a"), (2, b"b"), (3, b"c")]
    assert payloads(source(nats, subject, start_position="2")) == [b"b", b"c"]
    assert payloads(source(nats, subject, start_position="end")) == []


def test_a_start_time_begins_with_the_first_message_from_then_on(nats: NatsServer, subject: str) -> None:
    log = source(nats, subject)
    assert log.end(0) == 1
    publish(nats, subject, "a")
    eventually(lambda: log.end(0) == 2)
    ((_, time, _),) = contents(log)
    assert payloads(source(nats, subject, start_position=f"time:{time}")) == [b"a"]
    assert payloads(source(nats, subject, start_position=f"time:{time + 1000}")) == []


@pytest.mark.parametrize("after", [1, 2])
def test_a_message_that_comes_while_somebody_asks_for_a_start_time_is_not_passed_over(
    nats: NatsServer, subject: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, asks, asked = source(nats, subject, start_position="time:1000"), NatsClient.call, []
    assert log.end(0) == 1

    def overtaken(client: NatsClient, *given: Any) -> Any:
        found = asks(client, *given)
        asked.append(given)
        if len(asked) == after:
            publish(nats, subject, "a")
        return found

    monkeypatch.setattr(NatsClient, "call", overtaken)
    assert log.beginning(0) == 1
    assert len(asked) > after


def test_a_subject_keeps_the_rules_of_a_log_among_others_of_its_stream(nats: NatsServer) -> None:
    name = uuid4().hex[:8]
    client = NatsClient(nats.url)
    client.call(lambda nc: ensure_stream(nc, stream_config(name, [f"{name}.*"])))
    draw = random.Random(3)
    messages = [Outgoing(f"{name}.{draw.choice('ab')}", str(n).encode(), {}) for n in range(300)]
    client.call(lambda nc: publish_all(nc, messages))
    log = source(nats, f"{name}.a")
    assert payloads(log) == [m.data for m in messages if m.subject.endswith("a")]
    check_log(log)
    client.close()


def test_more_messages_than_one_pull_are_read_whole(nats: NatsServer, subject: str) -> None:
    log = source(nats, subject)
    assert log.end(0) == 1
    publish(nats, subject, *(str(n) for n in range(12_000)))
    client = NatsClient(nats.url)
    client.call(lambda nc: publish_all(nc, [Outgoing(subject, bytes(5_000_000), {})] * 5), 60)
    client.close()
    eventually(lambda: log.end(0) == 12_006)
    found = payloads(log)
    assert found[:12_000] == [str(n).encode() for n in range(12_000)]
    assert [len(p) for p in found[12_000:] if isinstance(p, bytes)] == [5_000_000] * 5


def test_a_start_that_was_deleted_is_an_error(nats: NatsServer, subject: str) -> None:
    log = source(nats, subject)
    assert isinstance(log.end(0), int)
    publish(nats, subject, "a", "b", "c")
    client = NatsClient(nats.url)
    name = client.call(lambda nc: api(nc, "STREAM.NAMES", {"subject": subject}))["streams"][0]
    client.call(lambda nc: api(nc, f"STREAM.PURGE.{name}", {"seq": 3}))
    client.close()
    with pytest.raises(NadiError) as failure:
        list(log.read(0, 1, 4))
    assert failure.value.condition == "LOG_TRUNCATED"
    assert payloads(source(nats, subject)) == [b"c"]


def test_headers_and_the_subject_are_properties_where_the_mapping_reads_them(nats: NatsServer, subject: str) -> None:
    options = {"subject": subject, "url": nats.url}
    mapped = connector("nats", options, attributes={"name": "trp:Color", "size": "trp:sequence"})
    log = open_log(mapped, Place("App", Path("/nowhere")))
    assert log.end(0) == 1
    client = NatsClient(nats.url)
    client.call(lambda nc: publish_all(nc, [Outgoing(subject, b"x", {"Color": "red", "Other": "no"})]))
    client.close()
    (piece,) = log.read(0, 1, 2)
    assert list(piece.properties) == [{"Color": "red", "sequence": "1"}]


def test_a_wrong_start_or_no_destination_is_refused(nats: NatsServer) -> None:
    with pytest.raises(NadiError, match=r"start\.position"):
        source(nats, "x", start_position="yesterday")
    with pytest.raises(NadiError, match="destination"):
        open_log(connector("nats", {}), Place("App", Path("/nowhere")))


# ---- sink ----------------------------------------------------------------------------------------------------------


def stored(server: NatsServer, subject: str) -> list[str]:
    return [p.decode() for p in payloads(source(server, subject)) if isinstance(p, bytes)]


def test_rows_are_published_with_producer_and_numbers(nats: NatsServer, subject: str, tmp_path: Path) -> None:
    target = sink(nats, subject, tmp_path)
    target.commit(1, [target.write(delivery(1, ["a", "b"], first=7, bucket=2, group=9))])
    client = NatsClient(nats.url)
    name = client.call(lambda nc: api(nc, "STREAM.NAMES", {"subject": subject}))["streams"][0]
    first, second = next(iter(Stream(client, name).read(1, 3)))
    client.close()
    assert (first.data, second.data) == (b"a", b"b")
    wanted = {"Nadi-Producer": "App/S/0/2", "Nadi-Group": "9", "Nadi-Number": "7", "Nadi-Count": "1"}
    assert wanted.items() <= first.headers.items()
    assert second.headers["Nadi-Number"] == "8"


def test_writing_a_cut_again_changes_nothing_whoever_does_it(nats: NatsServer, subject: str, tmp_path: Path) -> None:
    target = sink(nats, subject, tmp_path)
    target.commit(1, [target.write(delivery(1, ["a", "b"]))])
    receipt = target.write(delivery(2, ["c", "d"], first=2))
    target.write(delivery(2, ["c", "d"], first=2))
    again = sink(nats, subject, tmp_path).write(delivery(2, ["c", "d"], first=2))
    assert again.content == receipt.content
    assert stored(nats, subject) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("action", "condition"), [("", "REFUSED"), ("WAIT", "CONNECTION_UNAVAILABLE")])
def test_a_message_that_the_server_does_not_take_stops_the_app_or_is_waited_with(
    nats: NatsServer, subject: str, tmp_path: Path, action: str, condition: str
) -> None:
    options = {"on_error": action} if action else {}
    target = sink(nats, subject, tmp_path, **options)
    with pytest.raises(NadiError, match="is larger than") as failure:
        target.write(delivery(1, ["a", "x" * (MAX_PAYLOAD + 1)]))
    assert failure.value.condition == condition
    assert stored(nats, subject) == []
    target.write(delivery(1, ["a", "b"]))
    assert not any("sink of S" in s.connector for s in unavailable())


def test_a_message_that_is_too_large_with_its_headers_is_named_in_the_receipt_and_the_others_are_stored(
    nats: NatsServer, subject: str, tmp_path: Path
) -> None:
    large = "x" * (MAX_PAYLOAD - 10)
    target = sink(nats, subject, tmp_path, on_error="STREAM")
    (refused,) = target.write(delivery(1, ["a", large, "c"])).refused
    assert (refused.index, "is larger than" in refused.reason) == (1, True)
    assert stored(nats, subject) == ["a", "c"]
    again = sink(nats, subject, tmp_path, on_error="STREAM").write(delivery(1, ["a", large, "c"]))
    assert again.refused == (refused,)
    assert stored(nats, subject) == ["a", "c"]


def without_duplicate_window(server: NatsServer, subject: str) -> None:
    """A stream that forgets message ids at once, as every stream does after a while."""
    client = NatsClient(server.url)
    config = {**stream_config(uuid4().hex, [subject]), "duplicate_window": 100_000_000}
    client.call(lambda nc: ensure_stream(nc, config))
    client.close()


def forgotten(server: NatsServer, subject: str) -> bool:
    """Whether the window is over for a message that is published now: an id can be used again."""
    probe = Outgoing(subject, b"probe", {"Nats-Msg-Id": uuid4().hex})
    client = NatsClient(server.url)

    def accepted() -> int:
        return client.call(lambda nc: publish_all(nc, [probe]))[0]

    first = accepted()
    eventually(lambda: accepted() != first)
    client.close()
    return True


def test_half_a_cut_is_completed_though_the_stream_forgot_the_ids(
    nats: NatsServer, subject: str, tmp_path: Path
) -> None:
    without_duplicate_window(nats, subject)
    target = sink(nats, subject, tmp_path)
    target.commit(1, [target.write(delivery(1, ["a"]))])
    target.write(delivery(2, ["b", "c"], first=1))  # as if the node died before it wrote the rest
    assert forgotten(nats, subject)
    sink(nats, subject, tmp_path).write(delivery(2, ["b", "c", "d", "e"], first=1))
    assert [t for t in stored(nats, subject) if t != "probe"] == ["a", "b", "c", "d", "e"]


def test_a_committed_cut_is_not_written_again_though_the_stream_forgot_the_ids(
    nats: NatsServer, subject: str, tmp_path: Path
) -> None:
    without_duplicate_window(nats, subject)
    target = sink(nats, subject, tmp_path)
    for cut, rows in enumerate((["a"], ["b", "c"], ["d", "e"])):
        target.commit(cut, [target.write(delivery(cut, rows, first=cut * 2))])
    assert forgotten(nats, subject)
    again = sink(nats, subject, tmp_path)  # the node died after the sink's commit and before Spark's
    again.commit(2, [again.write(delivery(2, ["d", "e"], first=4))])
    again.commit(3, [again.write(delivery(3, ["f"], first=6))])
    assert [t for t in stored(nats, subject) if t != "probe"] == ["a", "b", "c", "d", "e", "f"]


def test_a_new_state_folder_counts_from_zero_again_and_loses_nothing(
    nats: NatsServer, subject: str, tmp_path: Path
) -> None:
    for run in ("one", "two"):
        target = sink(nats, subject, tmp_path / run)
        target.commit(0, [target.write(delivery(0, [run]))])
    assert stored(nats, subject) == ["one", "two"]


def test_the_subject_may_depend_on_the_row(nats: NatsServer, tmp_path: Path) -> None:
    base = uuid4().hex[:8]
    made_stream(nats, f"{base}.>")
    target = sink(nats, base + ".{{name}}", tmp_path)
    target.write(delivery(1, ["x", "y", "x"]))
    sink(nats, base + ".{{name}}", tmp_path).write(delivery(1, ["x", "y", "x"]))
    assert stored(nats, f"{base}.x") == ["x", "x"]
    assert stored(nats, f"{base}.y") == ["y"]


def made_stream(server: NatsServer, *subjects: str) -> None:
    client = NatsClient(server.url)
    client.call(lambda nc: ensure_stream(nc, stream_config(uuid4().hex, [*subjects])))
    client.close()


def streams(server: NatsServer) -> set[str]:
    client = NatsClient(server.url)
    found = client.call(lambda nc: api(nc, "STREAM.NAMES", {}))
    client.close()
    return set(found["streams"] or ())


def test_finding_11_no_stream_is_made_for_a_subject_that_a_row_chooses(nats: NatsServer, tmp_path: Path) -> None:
    base = uuid4().hex[:8]
    made_stream(nats, f"{base}.known")
    before = streams(nats)
    target = sink(nats, base + ".{{name}}", tmp_path, on_error="STORE")
    refused = target.write(delivery(1, ["known", "new", "known", *(f"n{i}" for i in range(50))])).refused
    assert [r.index for r in refused] == [1, *range(3, 53)]
    assert refused[0].reason == f"no stream of the server holds the subject '{base}.new'"
    assert streams(nats) == before
    assert stored(nats, f"{base}.known") == ["known", "known"]
    made_stream(nats, f"{base}.new")
    assert target.write(delivery(2, ["new"], first=53)).refused == ()
    assert stored(nats, f"{base}.new") == ["new"]


BAD_SUBJECTS = ["", "a b", "a\r\nPUB x 0\r\n", "a..b", ".a", "a.", "a.*", ">", "a\0b", "x" * 3_000]


@pytest.mark.parametrize("bad", BAD_SUBJECTS)
def test_finding_11_a_row_with_a_bad_subject_is_refused_and_the_next_one_is_published(
    nats: NatsServer, bad: str, tmp_path: Path
) -> None:
    base = uuid4().hex[:8]
    made_stream(nats, f"{base}.>")
    target = sink(nats, base + ".{{name}}", tmp_path, on_error="LOG")
    (refused,) = target.write(delivery(1, ["a", bad, "b"])).refused
    assert (refused.index, "is no subject" in refused.reason) == (1, True)
    assert stored(nats, f"{base}.>") == ["a", "b"]
    with pytest.raises(NadiError) as e:
        sink(nats, base + ".{{name}}", tmp_path / "other").write(delivery(1, [bad]))
    assert e.value.condition == "REFUSED"


@pytest.mark.parametrize("subject", ["$JS.API.STREAM.PURGE.S", "_INBOX.x", "$SYS.REQ.SERVER.PING"])
def test_finding_11_an_event_does_not_speak_to_the_server_itself(
    nats: NatsServer, subject: str, tmp_path: Path
) -> None:
    target = sink(nats, "{{name}}", tmp_path, on_error="LOG")
    (refused,) = target.write(delivery(1, [subject])).refused
    assert "the server has it for itself" in refused.reason


def test_a_destination_that_is_no_subject_is_refused_before_the_app_runs(nats: NatsServer, tmp_path: Path) -> None:
    with pytest.raises(NadiError, match="is no subject") as e:
        sink(nats, "a..b", tmp_path)
    assert e.value.condition == "OPTION_INVALID"


def test_buckets_do_not_take_each_others_rows_for_their_own(nats: NatsServer, subject: str, tmp_path: Path) -> None:
    first, second = sink(nats, subject, tmp_path), sink(nats, subject, tmp_path)
    first.write(delivery(1, ["a"], bucket=0, group=0))
    second.write(delivery(1, ["b"], bucket=1, group=5))
    assert stored(nats, subject) == ["a", "b"]


PUBLISHER = """
import pathlib, sys
sys.path.insert(0, sys.argv[4])
from nats.aio.client import Client as Connection
from sample import connector, delivery
from nadi.io.contract import Place
from nadi.io.registry import open_sink
url, subject, state, per_cut = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), 40
target = open_sink(connector("nats", {"destination": subject, "url": url}), Place("App", state))
done = state / "done"
cut = int(done.read_text()) if done.exists() else 0
print("started", flush=True)
while cut < int(sys.argv[5]):
    first = cut * per_cut
    receipt = target.write(delivery(cut, [str(n) for n in range(first, first + per_cut)], first=first))
    target.commit(cut, [receipt])
    cut += 1
    (state / "next").write_text(str(cut))
    (state / "next").replace(done)
print("finished", flush=True)
"""


def publisher(server: NatsServer, subject: str, state: Path, cuts: int) -> subprocess.Popen[str]:
    arguments = [server.url, subject, str(state), str(Path(__file__).parent), str(cuts)]
    return subprocess.Popen([sys.executable, "-c", PUBLISHER, *arguments], stdout=subprocess.PIPE, text=True)


def test_every_row_is_there_once_though_the_publisher_was_killed_again_and_again(
    nats: NatsServer, subject: str, tmp_path: Path
) -> None:
    without_duplicate_window(nats, subject)
    client, draw, cuts = NatsClient(nats.url), random.Random(11), 120
    kills = 0
    name = client.call(lambda nc: api(nc, "STREAM.NAMES", {"subject": subject}))["streams"][0]
    while True:
        with publisher(nats, subject, tmp_path, cuts) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            if kills == 4:
                assert process.stdout.readline() == "finished\n"
                break
            mark = Stream(client, name).bounds().last + draw.randint(1, 700)
            eventually(lambda mark=mark: Stream(client, name).bounds().last >= mark or process.poll() is not None)
            process.send_signal(signal.SIGKILL)
            kills += 1
    client.close()
    assert stored(nats, subject) == [str(n) for n in range(cuts * 40)]


def test_every_row_is_there_once_though_the_server_was_killed_again_and_again(
    own_nats: NatsServer, tmp_path: Path
) -> None:
    target, failures, cuts = sink(own_nats, "out", tmp_path), 0, 60
    written = threading.Semaphore(
        0
    )  # counts each cut: an event that is set again before anybody looks would be one lost

    def kill() -> None:
        draw = random.Random(5)
        for n in range(3):
            for _ in range(draw.randint(3, 9)):
                assert written.acquire(timeout=60)
            os.kill(own_nats.pid, signal.SIGKILL)
            eventually(lambda n=n: own_nats.starts == n + 2 and own_nats.pid)

    killer = threading.Thread(target=kill)
    killer.start()
    cut = 0
    while cut < cuts or killer.is_alive():
        rows = delivery(cut, [str(n) for n in range(cut * 30, cut * 30 + 30)], first=cut * 30)
        while True:
            try:
                target.commit(cut, [target.write(rows)])
                break
            except ConnectionUnavailableException:
                failures += 1
                assert failures < 100_000
        cut += 1
        written.release()
    killer.join()
    assert failures > 0
    assert Counter(stored(own_nats, "out")) == Counter(str(n) for n in range(cut * 30))


# ---- inMemory ------------------------------------------------------------------------------------------------------


def test_a_topic_carries_rows_from_one_app_to_others(nats: NatsServer, tmp_path: Path) -> None:
    topic = f"Topic {uuid4().hex}"
    reader: Connector = connector("inmemory", {"topic": topic})
    logs = [open_log(reader, Place(name, tmp_path / name, nats.url)) for name in ("B", "C")]
    starts = [log.beginning(0) for log in logs]
    target = open_sink(connector("inmemory", {"topic": topic}), Place("A", tmp_path / "A", nats.url))
    target.commit(1, [target.write(delivery(1, ["x", "y"]))])
    target.write(delivery(1, ["x", "y"]))
    for log, start in zip(logs, starts):
        eventually(lambda log=log, start=start: log.end(0) >= start + 2)
        assert [p for _, _, p in contents(log, 0, start)] == [b"x", b"y"]
    late = open_log(reader, Place("D", tmp_path / "D", nats.url))
    check_log(late)
    assert contents(late) == []


class Clearing:
    """A connection that takes a file out of the way as soon as the server refused for it."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self.connection = connection
        self.path = path
        self.refused = 0

    async def request(self, subject: str, *given: object, **more: object) -> object:
        answer = await self.connection.request(subject, *given, **more)
        if ".CREATE." in subject and b"error creating store" in answer.data:
            self.refused += 1
            self.path.unlink(missing_ok=True)  # this server takes it away itself
        return answer


def test_a_stream_whose_files_cannot_be_made_yet_is_made_when_they_can(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "nats") as server:
        client = NatsClient(server.url)
        client.call(lambda nc: ensure_stream(nc, stream_config("Other", ["other"])))
        path = next((tmp_path / "nats").rglob("Other")).with_name("Late")
        path.write_text("in the way")

        async def made(connection: Connection) -> int:
            clearing = Clearing(connection, path)
            await ensure_stream(clearing, stream_config("Late", ["late"]))  # type: ignore[arg-type]
            return clearing.refused

        assert client.call(made) == 1
        assert client.call(lambda nc: api(nc, "STREAM.INFO.Late"))["config"]["subjects"] == ["late"]
        client.close()


def test_shares_have_each_message_once_and_the_same_ones_at_every_reading(nats: NatsServer, subject: str) -> None:
    logs = [source(nats, subject, share=f"{i}/3") for i in (1, 2, 3)]
    assert [contents(log) for log in logs] == [[], [], []]
    texts = [f"m{i}" for i in range(90)]
    publish(nats, subject, *texts)
    parts = [payloads(log) for log in logs]
    assert sorted(t for part in parts for t in part) == sorted(text.encode() for text in texts)
    assert all(20 <= len(part) <= 40 for part in parts)
    assert parts == [payloads(source(nats, subject, share=f"{i}/3")) for i in (1, 2, 3)]
    for log in logs:
        check_log(log)


@pytest.mark.parametrize("share", ["", "0/2", "3/2", "1/129", "1", "a/b"])
def test_a_share_that_is_none_is_refused(nats: NatsServer, subject: str, share: str) -> None:
    with pytest.raises(NadiError, match="share") as e:
        source(nats, subject, share=share)
    assert e.value.condition == "OPTION_INVALID"
