"""Messages that clients of an http source send again, with what they are known by: each is in the journal once, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from eventually import eventually
from log_contract import contents, payloads
from sample import connector
from servers import asking

from nadi.errors import NadiError
from nadi.io import journalseen
from nadi.io.contract import Place
from nadi.io.journallog import JournalLog
from nadi.io.journalmessages import seen_name, stream_name, subject
from nadi.io.natsclient import NatsClient, api
from nadi.io.natsserver import NatsServer
from nadi.io.registry import make_source_mapper, open_log
from nadi.io.sources.http import HttpIngress

KEY = "Idempotency-Key"


@pytest.fixture
def place(nats: NatsServer, tmp_path: Path) -> Place:
    return Place(tmp_path.name.replace("_", ""), tmp_path, nats.url)


def source(place: Place, **options: str) -> HttpIngress:
    given = {"receiver.url": "http://127.0.0.1:0/orders", **{k.replace("_", "."): v for k, v in options.items()}}
    made = HttpIngress(connector("http", given), place)
    made.start()
    return made


@pytest.fixture
def ingress(place: Place) -> Iterator[HttpIngress]:
    made = source(place)
    yield made
    made.stop()


def body(n: int) -> bytes:
    return json.dumps({"event": {"name": "a", "size": n}}).encode()


def post(ingress: HttpIngress, n: int, **headers: str) -> int:
    return asking.post(ingress.url, content=body(n), headers=headers, timeout=30).status_code


def kept(place: Place) -> list[object]:
    return payloads(open_log(connector("http", {}), place))


def restarted(ingress: HttpIngress, place: Place) -> HttpIngress:
    ingress.stop()
    return source(place)


def test_a_message_that_is_sent_again_with_its_key_is_answered_alike_and_kept_once(
    ingress: HttpIngress, place: Place
) -> None:
    assert [post(ingress, 1, **{KEY: "a"}) for _ in range(3)] == [202] * 3
    assert post(ingress, 1, **{KEY: '"a"'}) == 202  # as a structured header has it
    assert post(ingress, 1) == 202  # nothing says that it is the same
    assert kept(place) == [body(1), body(1)]


def test_what_a_message_is_known_by_is_not_read_with_it(ingress: HttpIngress, place: Place) -> None:
    assert post(ingress, 1, **{KEY: "a"}) == 202
    log = open_log(connector("http", {}), place)
    (piece,) = log.read(0, log.beginning(0), log.end(0))
    assert list(piece.properties) == []


def test_a_key_that_another_message_had_is_refused(ingress: HttpIngress, place: Place) -> None:
    assert post(ingress, 1, **{KEY: "a"}) == 202
    assert post(ingress, 2, **{KEY: "a"}) == 422
    assert kept(place) == [body(1)]


def test_many_attempts_at_once_are_one_message(ingress: HttpIngress, place: Place) -> None:
    wanted = [n for n in range(40) for _ in range(5)]
    with ThreadPoolExecutor(20) as pool:
        assert {*pool.map(lambda n: post(ingress, n, **{KEY: str(n)}), wanted)} == {202}
    assert sorted(kept(place)) == sorted(map(body, range(40)))  # type: ignore[type-var]


def test_a_producer_and_its_numbers_do_the_same_in_any_order_and_per_incarnation(
    ingress: HttpIngress, place: Place
) -> None:
    def number(n: int, life: str) -> dict[str, str]:
        return {"Producer-Id": "shop", "Producer-Incarnation": life, "Producer-Sequence": str(n)}

    sent = [(n, life) for life in ("1", "2") for n in (1, 3, 2, 3, 1)]
    assert [post(ingress, n, **number(n, life)) for n, life in sent] == [202] * 10
    assert kept(place) == [body(n) for n in (1, 3, 2, 1, 3, 2)]


@pytest.mark.parametrize(
    "headers",
    [
        [(KEY, "")],
        [(KEY, "x" * 256)],
        [(KEY, "a"), (KEY, "b")],
        [(KEY, "a"), ("Producer-Id", "shop"), ("Producer-Sequence", "1")],
        [("Producer-Id", "shop")],
        [("Producer-Sequence", "1")],
        [("Producer-Id", "shop"), ("Producer-Sequence", "-1")],
        [("Producer-Id", "shop"), ("Producer-Sequence", "99999999999999999")],
    ],
    ids=["empty", "long", "twice", "both", "no number", "no producer", "negative", "large"],
)
def test_headers_that_say_it_wrongly_are_refused_with_the_reason(
    ingress: HttpIngress, place: Place, headers: list[tuple[str, str]]
) -> None:
    answer = asking.post(ingress.url, content=body(1), headers=headers)
    assert answer.status_code == 400
    assert any(name in answer.json()["error"] for name in (KEY, "Producer"))
    assert kept(place) == []


def test_a_source_that_starts_again_knows_what_it_has_taken(ingress: HttpIngress, place: Place) -> None:
    assert [post(ingress, n, **{KEY: str(n)}) for n in range(3)] == [202] * 3
    assert post(ingress, 9) == 202
    again = restarted(ingress, place)
    assert [post(again, n, **{KEY: str(n)}) for n in range(4)] == [202] * 4
    assert kept(place) == [body(n) for n in (0, 1, 2, 9, 3)]
    again.stop()


def test_segments_that_another_removes_while_they_are_read_are_read_again(
    place: Place, nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journalseen, "CHANGES", 4)
    ingress = source(place)
    assert [post(ingress, n, **{KEY: str(n)}) for n in range(12)] == [202] * 12
    client, part, beginning = NatsClient(nats.url), seen_name(0), JournalLog.beginning
    segments = JournalLog(client, place.identity, part, retention=0)
    eventually(lambda: segments.end(0) >= 3)

    def overtaken(log: JournalLog, partition: int) -> int:
        first = beginning(log, partition)
        if first == 0 and log is not segments:
            segments.acknowledge(0, 2)  # what is before the last one of these
        return first

    monkeypatch.setattr(JournalLog, "beginning", overtaken)
    again = restarted(ingress, place)
    assert post(again, 12, **{KEY: "12"}) == 202
    assert segments.beginning(0) == 1
    again.stop()


def test_segments_hold_what_was_taken_and_go_when_their_keys_are_forgotten(
    place: Place, nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journalseen, "CHANGES", 4)
    ingress = source(place, idempotency_keys="8")
    assert [post(ingress, n, **{KEY: str(n)}) for n in range(40)] == [202] * 40
    client = NatsClient(nats.url)
    name = subject(place.identity, seen_name(0))

    def segments() -> int:
        request = {"subjects_filter": name}
        info = client.call(lambda nc: api(nc, f"STREAM.INFO.{stream_name(place.identity)}", request))
        return int(info["state"]["subjects"][name])

    eventually(lambda: segments() <= 5)
    again = restarted(ingress, place)
    assert [post(again, n, **{KEY: str(n)}) for n in range(33, 40)] == [202] * 7
    assert kept(place) == [body(n) for n in range(40)]
    assert post(again, 2, **{KEY: "2"}) == 202  # forgotten: more keys than are remembered came after it
    assert kept(place)[-1] == body(2)
    again.stop()


def test_the_journal_keeps_events_whose_marks_are_noted_nowhere_else(
    place: Place, nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingress = source(place)
    assert [post(ingress, n, **{KEY: str(n)}) for n in range(6)] == [202] * 6
    log = JournalLog(NatsClient(nats.url), place.identity, 0, retention=0)
    log.acknowledge(0, 6)
    assert kept(place) == [body(n) for n in range(6)]
    monkeypatch.setattr(journalseen, "CHANGES", 1)
    assert post(ingress, 6, **{KEY: "6"}) == 202
    eventually(lambda: log.acknowledge(0, 7) or kept(place) == [body(6)])
    again = restarted(ingress, place)
    assert [post(again, n, **{KEY: str(n)}) for n in range(7)] == [202] * 7
    assert kept(place) == [body(6)]
    again.stop()


def test_two_that_append_at_the_same_time_do_not_take_a_message_twice(place: Place) -> None:
    """A process that was stopped for a while may go on beside the one that has replaced it."""
    one, two = source(place), source(place, receiver_url="http://127.0.0.1:0/other")
    for n in range(30):
        assert {post(each, n, **{KEY: str(n)}) for each in ((one, two) if n % 2 else (two, one))} == {202}
        assert post(one, 100 + n) == 202
    with ThreadPoolExecutor(8) as pool:
        sent = [(each, n) for n in range(30, 60) for each in (one, two, one)]
        assert {*pool.map(lambda s: post(s[0], s[1], **{KEY: str(s[1])}), sent)} == {202}
    found = [p for p in kept(place) if p in set(map(body, range(60)))]
    assert sorted(found) == sorted(map(body, range(60)))  # type: ignore[type-var]
    one.stop()
    two.stop()


def test_a_client_that_heard_503_sends_again_and_its_message_counts_once(own_nats: NatsServer, tmp_path: Path) -> None:
    own = Place("App", tmp_path, own_nats.url)
    ingress = source(own)
    assert post(ingress, 1, **{KEY: "1"}) == 202
    ingress._endpoint._journal._within = 0.3
    own_nats.stop()
    assert post(ingress, 2, **{KEY: "2"}) == 503
    with own_nats:
        ingress._endpoint._journal._within = 10
        assert [post(ingress, n, **{KEY: str(n)}) for n in (1, 2, 1)] == [202] * 3
        assert kept(own) == [body(1), body(2)]
    ingress.stop()


DYING = """
import os, signal, sys
from pathlib import Path
from sample import connector
from nadi.io.contract import Place
from nadi.io.sources.http import HttpIngress

ingress = HttpIngress(connector("http", {"receiver.url": "http://127.0.0.1:0/orders"}), Place(sys.argv[2], Path("."), sys.argv[1]))
moment, deadly = sys.argv[3], os.kill
if moment == "after":  # it is in the journal, and nobody has been told
    ingress._endpoint._over = lambda answered: os.kill(os.getpid(), signal.SIGKILL)
else:  # it has come, and is not in the journal
    ingress._endpoint._journal.submit_once = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
ingress.start()
print(ingress.url, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("moment", ["after", "before"])
def test_a_message_whose_answer_was_lost_with_the_process_counts_once(
    ingress: HttpIngress, place: Place, nats: NatsServer, moment: str
) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", DYING, nats.url, place.app, moment]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, cwd=place.state
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    with pytest.raises(httpx.TransportError):
        asking.post(url, content=body(1), headers={KEY: "one"}, timeout=30)
    assert process.wait(60) == -signal.SIGKILL
    process.communicate()
    assert kept(place) == ([body(1)] if moment == "after" else [])
    assert [post(ingress, 1, **{KEY: "one"}) for _ in range(2)] == [202, 202]
    assert kept(place) == [body(1)]


def test_what_is_missing_of_a_producer_is_told_where_messages_go_that_are_none(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nadi.io.sources.http.MISSED", 300)
    ingress = source(place)
    for n in (1, 2, 5):
        assert post(ingress, n, **{"Producer-Id": "shop", "Producer-Sequence": str(n)}) == 202
    log = open_log(connector("http", {}), place)
    eventually(lambda: len(kept(place)) == 4)
    (piece,) = log.read(0, log.beginning(0), log.end(0))
    decoded = make_source_mapper(connector("http", {})).decode(piece)
    assert decoded.batch.column("size").to_pylist() == [1, 2, 5]
    assert decoded.message.tolist() == [0, 1, 2]
    (failure,) = decoded.failures
    assert failure.reason == "numbers 3 to 4 are missing of what 'shop' has published (incarnation '')"
    assert json.loads(failure.payload) == {"missing": {"publisher": "shop", "incarnation": "", "first": 3, "last": 4}}
    assert failure.position == 3
    assert post(ingress, 4, **{"Producer-Id": "shop", "Producer-Sequence": "4"}) == 202  # late is not lost
    assert kept(place)[-1] == body(4)
    ingress.stop()


def test_a_source_may_be_told_not_to_look_at_keys(place: Place) -> None:
    ingress = source(place, idempotency_hours="0")
    assert [post(ingress, 1, **{KEY: "a"}) for _ in range(2)] == [202] * 2
    assert kept(place) == [body(1)] * 2
    ingress.stop()
    for name in ("idempotency.hours", "idempotency.keys"):
        wrong = connector("http", {"receiver.url": "http://127.0.0.1:0/", name: "-1"})
        with pytest.raises(NadiError, match=name):
            HttpIngress(wrong, replace(place))


def test_messages_without_keys_leave_no_segment(ingress: HttpIngress, place: Place, nats: NatsServer) -> None:
    assert [post(ingress, n) for n in range(3)] == [202] * 3
    assert [position for position, _, _ in contents(open_log(connector("http", {}), place))] == [0, 1, 2]
    info = NatsClient(nats.url).call(lambda nc: api(nc, f"STREAM.INFO.{stream_name(place.identity)}"))
    assert info["state"]["num_subjects"] == 1
