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


def sink(url: str, **options: str) -> Sink:
    given = {"publisher.url": url, **{k.replace("_", "."): v for k, v in options.items()}}
    return open_sink(connector("http", given), Place("App", Path("/nowhere")))


def test_payloads_are_sent_in_order_with_producer_and_numbers(receiver: Receiver) -> None:
    target = sink(receiver.url + "/in")
    assert target.guarantee == "at least once"
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


def test_a_refused_payload_stops_the_app_unless_it_is_to_be_dropped(receiver: Receiver) -> None:
    receiver.answers = [422, 422, 200]
    target = sink(receiver.url)
    with pytest.raises(NadiError, match="422") as failure:
        target.write(delivery(1, ["a", "b"]))
    assert failure.value.condition == "REFUSED"
    target.close()
    dropping = sink(receiver.url, on_error="LOG")
    assert dropping.write(delivery(1, ["a", "b"])).content == {"dropped": 1}
    dropping.close()
    assert receiver.bodies() == ["a", "a", "b"]


@pytest.mark.parametrize(("name", "value"), [("publisher_url", "host"), ("headers", "a:b"), ("method", "{{x}}")])
def test_wrong_options_are_refused(name: str, value: str) -> None:
    with pytest.raises(NadiError) as failure:
        sink(**{"url": "http://h/", name: value}) if name != "publisher_url" else sink(value)
    assert failure.value.condition == "OPTION_INVALID"
