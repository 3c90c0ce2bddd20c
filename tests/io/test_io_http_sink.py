from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sample import connector, delivery

from nadi.errors import NadiError
from nadi.io.contract import Place, Sink
from nadi.io.registry import open_sink
from nadi.io.retry import unavailable


class Receiver:
    """A server that notes what it gets and answers as told; 200 when it was told nothing more."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, dict[str, str], str]] = []
        self.answers: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append((self.command, self.path, dict(self.headers), body.decode()))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            do_POST = do_PUT = answer  # noqa: N815 (the standard library's names)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def bodies(self) -> list[str]:
        return [body for _, _, _, body in self.got]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def sink(url: str, state: Path = Path("/nowhere"), **options: str) -> Sink:
    given = {"publisher.url": url, **{k.replace("_", "."): v for k, v in options.items()}}
    return open_sink(connector("http", given), Place("App", state))


def test_payloads_are_sent_in_order_with_producer_and_numbers(receiver: Receiver) -> None:
    target = sink(receiver.url + "/in")
    target.commit(1, [target.write(delivery(1, ["a", "b", "c"], first=7, bucket=2, group=9))])
    target.close()
    assert receiver.bodies() == ["a", "b", "c"]
    method, path, headers, _ = receiver.got[1]
    assert (method, path, headers["Content-Type"]) == ("POST", "/in", "application/json")
    assert {k: v for k, v in headers.items() if k.startswith("Nadi-")} == {
        "Nadi-Producer": "App/S/0/2",
        "Nadi-Group": "9",
        "Nadi-Number": "8",
        "Nadi-Count": "1",
    }


def test_method_url_headers_and_credentials_are_as_the_options_say(receiver: Receiver) -> None:
    options = {"basic.auth.username": "ada", "basic.auth.password": "x"}
    target = sink(receiver.url + "/{{name}}", method="PUT", headers="'X-A: 1','Content-Type:text/x'", **options)
    target.write(delivery(1, ["a"]))
    target.close()
    ((method, path, headers, _),) = receiver.got
    assert (method, path) == ("PUT", "/a")
    assert (headers["X-A"], headers["Content-Type"], headers["Authorization"]) == ("1", "text/x", "Basic YWRhOng=")


def test_a_request_that_failed_is_repeated_with_the_same_number_before_the_next_one(receiver: Receiver) -> None:
    receiver.answers = [503, 429, 200]
    target = sink(receiver.url)
    target.write(delivery(1, ["a", "b"]))
    target.close()
    assert receiver.bodies() == ["a", "a", "a", "b"]
    assert [h["Nadi-Number"] for _, _, h, _ in receiver.got] == ["0", "0", "0", "1"]
    assert not any("http sink" in s.connector for s in unavailable())


def test_a_receiver_that_is_away_is_a_condition_and_visible(receiver: Receiver) -> None:
    target = sink("http://127.0.0.1:1/")
    target._try_for = 0.3  # type: ignore[attr-defined]  # seconds; a minute is too long for a test
    with pytest.raises(NadiError) as failure:
        target.write(delivery(1, ["a"]))
    assert failure.value.condition == "CONNECTION_UNAVAILABLE"
    (state,) = (s for s in unavailable() if "http sink" in s.connector)
    assert state.attempts >= 2
    target.close()
    again = sink(receiver.url)
    again.write(delivery(1, ["a"]))
    again.close()
    assert not any("http sink" in s.connector for s in unavailable())


def test_a_refused_payload_stops_the_app_where_nothing_else_is_said(receiver: Receiver) -> None:
    receiver.answers = [422]
    target = sink(receiver.url)
    with pytest.raises(NadiError, match="422") as failure:
        target.write(delivery(1, ["a", "b"]))
    assert failure.value.condition == "REFUSED"
    target.close()
    assert receiver.bodies() == ["a"]


@pytest.mark.parametrize("action", ["LOG", "store", "Stream"])
def test_a_refused_payload_is_named_in_the_receipt_and_the_others_are_sent(
    receiver: Receiver, tmp_path: Path, action: str
) -> None:
    receiver.answers = [200, 422, 200, 404]
    target = sink(receiver.url, tmp_path, on_error=action)
    receipt = target.write(delivery(1, ["a", "b", "c", "d"]))
    target.close()
    assert [(r.index, r.reason.split()[0]) for r in receipt.refused] == [(1, "422"), (3, "404")]
    assert receiver.bodies() == ["a", "b", "c", "d"]


def test_what_was_refused_once_is_not_sent_again_with_its_cut_whoever_does_it(
    receiver: Receiver, tmp_path: Path
) -> None:
    receiver.answers = [200, 422, 200]
    first = sink(receiver.url, tmp_path, on_error="STREAM")
    told = first.write(delivery(1, ["a", "b", "c"], first=5))
    first.close()
    again = sink(receiver.url, tmp_path, on_error="STREAM")  # the receiver would take it by now
    assert again.write(delivery(1, ["a", "b", "c"], first=5)).refused == told.refused
    assert again.write(delivery(2, ["b"], first=8)).refused == ()
    again.close()
    assert receiver.bodies() == ["a", "b", "c", "a", "c", "b"]


def test_a_sink_that_waits_sends_a_refused_payload_again_until_it_is_taken(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answers = [422, 422, 200]
    target = sink(receiver.url, tmp_path, on_error="WAIT")
    assert target.write(delivery(1, ["a", "b"])).refused == ()
    assert receiver.bodies() == ["a", "a", "a", "b"]
    receiver.answers = [422] * 100
    target._try_for = 0.3  # type: ignore[attr-defined]  # seconds
    with pytest.raises(NadiError, match="422") as failure:
        target.write(delivery(2, ["c"]))
    assert failure.value.condition == "CONNECTION_UNAVAILABLE"  # the supervisor tries again for ever
    target.close()
    receiver.answers = []
    last = sink(receiver.url, tmp_path, on_error="WAIT")
    last.write(delivery(2, ["c"]))
    last.close()
    assert not any("http sink" in s.connector for s in unavailable())


@pytest.mark.parametrize(("name", "value"), [("publisher_url", "host"), ("headers", "a:b"), ("method", "{{x}}")])
def test_wrong_options_are_refused(name: str, value: str) -> None:
    with pytest.raises(NadiError) as failure:
        sink(**{"url": "http://h/", name: value}) if name != "publisher_url" else sink(value)
    assert failure.value.condition == "OPTION_INVALID"
