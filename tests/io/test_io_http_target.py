"""Security finding 11, the http sink: what an event may choose of a request, and that no event holds up those after it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from sample import connector, delivery

from nadi.errors import NadiError
from nadi.io.contract import Place, Sink
from nadi.io.registry import open_sink
from nadi.io.retry import Policy, unavailable
from nadi.io.sinks import http, httphosts


class Receiver:
    """A server that notes method and path of what it gets and answers 200, with the body that `answer` writes."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = lambda _handler: None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(self.path)
                self.send_response(200)
                self.end_headers()
                receiver.answer(self)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.block_on_close = False
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def sink(url: str, state: Path, options: dict[str, str] | None = None) -> Sink:
    return open_sink(connector("http", {"publisher.url": url, **(options or {})}), Place("App", state))


PASSWORD = {"basic.auth.username": "ada", "basic.auth.password": "x"}


@pytest.mark.parametrize("url", ["{{name}}", "http://{{name}}/in", "http://host{{name}}", "http://host:{{name}}/in"])
@pytest.mark.parametrize("options", [PASSWORD, {"headers": "'Authorization:Bearer x'"}, {"headers": "'X-Key:x'"}])
def test_finding_11_an_event_cannot_choose_who_gets_the_credentials(
    url: str, options: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(NadiError, match="events would choose") as e:
        sink(url, tmp_path, options)
    assert e.value.condition == "OPTION_INVALID"


def test_finding_11_nor_where_they_stand_in_the_url(tmp_path: Path) -> None:
    with pytest.raises(NadiError, match="events would choose"):
        sink("http://ada:secret@{{name}}/in", tmp_path)


def test_finding_11_a_fixed_host_takes_credentials_and_a_free_one_takes_none(tmp_path: Path) -> None:
    sink("http://host:1/{{name}}", tmp_path, PASSWORD).close()
    sink("http://host?by={{name}}", tmp_path, PASSWORD).close()
    sink("{{name}}", tmp_path, {"headers": "'Content-Type:text/plain'"}).close()


@pytest.mark.parametrize(
    ("template", "name", "path"),
    [
        ("/{{name}}", "a b/c", "/a%20b/c"),
        ("/{{name}}", "x?admin=1#y", "/x%3Fadmin%3D1%23y"),
        ("/{{name}}/end", "x\r\nHost: evil", "/x%0D%0AHost%3A%20evil/end"),
        ("/in?by={{name}}", "a&admin=1", "/in?by=a%26admin%3D1"),
        ("/in?by={{name}}&n={{size}}", "ä/ö", "/in?by=%C3%A4%2F%C3%B6&n=3"),
        ("/{{name}}", "@evil:80", "/%40evil%3A80"),
    ],
)
def test_finding_11_a_value_stays_the_part_of_the_url_that_it_was_meant_to_be(
    receiver: Receiver, template: str, name: str, path: str, tmp_path: Path
) -> None:
    target = sink(receiver.url + template, tmp_path)
    target.write(delivery(1, [name]))
    target.close()
    assert receiver.got == [path]


BAD = [
    "http://a..b/",
    "http://[::1/",
    "ftp://h/",
    "",
    "http:///x",
    "http://ex ample/",
    "http://x\0y/",
    "null",
    "http://xn--/",
]
BAD += ["http://h:1a/", "http://127.0.0.1:99999/", "http://" + "a" * 300 + "/", "http://h/" + "x" * 70_000, "a\r\nb"]


@pytest.mark.parametrize("bad", BAD)
def test_finding_11_a_row_with_a_bad_url_is_refused_and_the_next_one_is_sent(
    receiver: Receiver, bad: str, tmp_path: Path
) -> None:
    target = sink("{{name}}", tmp_path, {"on.error": "STORE"})
    (refused,) = target.write(delivery(1, [receiver.url + "/a", bad, receiver.url + "/b"])).refused
    target.close()
    assert (refused.index, "not a URL" in refused.reason) == (1, True)
    assert receiver.got == ["/a", "/b"]


def test_finding_11_without_on_error_a_bad_url_stops_the_app_by_name(tmp_path: Path) -> None:
    target = sink("{{name}}", tmp_path)
    with pytest.raises(NadiError) as e:
        target.write(delivery(1, ["http://a..b/"]))
    target.close()
    assert e.value.condition == "REFUSED"


def test_finding_11_no_path_leads_out_of_its_folder(receiver: Receiver, tmp_path: Path) -> None:
    target = sink(receiver.url + "/things/{{name}}", tmp_path, {**PASSWORD, "on.error": "LOG"})
    refused = target.write(delivery(1, ["../admin", "a/../../admin", "..", "ok"])).refused
    target.close()
    assert [r.index for r in refused] == [0, 1, 2]
    assert receiver.got == ["/things/ok"]


def test_finding_11_a_host_that_there_is_not_is_refused_where_the_row_names_it(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo

    def without(host: str, *rest: object, **more: object) -> object:
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", without)
    target = sink("{{name}}", tmp_path, {"on.error": "STREAM"})
    (refused,) = target.write(delivery(1, ["http://nowhere.invalid/", receiver.url + "/b"])).refused
    target.close()
    assert (refused.index, receiver.got) == (0, ["/b"])


def test_finding_11_a_bad_method_is_refused(receiver: Receiver, tmp_path: Path) -> None:
    target = sink(receiver.url, tmp_path, {"method": "{{name}}", "on.error": "STORE"})
    refused = target.write(delivery(1, ["POST / HTTP/1.1\r\nX: y", "", "PÖST", "post"])).refused
    target.close()
    assert [(r.index, r.reason[:12]) for r in refused] == [(i, "not a method") for i in range(3)]
    assert receiver.got == ["/"]


@pytest.mark.parametrize(
    "options", [{"method": "P T"}, {"headers": "'X: a\nb'"}, {"headers": "'X: ä'"}, {"headers": "'X y:z'"}]
)
def test_a_method_or_header_that_cannot_be_sent_is_refused_before_the_app_runs(
    options: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(NadiError) as e:
        sink("http://host/", tmp_path, options)
    assert e.value.condition == "OPTION_INVALID"


def test_an_answer_without_end_is_not_read_to_its_end(receiver: Receiver, tmp_path: Path) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        try:
            while True:
                handler.wfile.write(b"x" * http.LARGEST_ANSWER)
        except OSError:
            stopped.set()

    stopped = threading.Event()
    receiver.answer = endless
    target = sink(receiver.url, tmp_path)
    target.write(delivery(1, ["a"]))
    target.close()
    assert stopped.wait(60)
    assert receiver.got == ["/"]


def test_a_name_beyond_ascii_can_be_sent_as_the_producer(receiver: Receiver, tmp_path: Path) -> None:
    target = open_sink(connector("http", {"publisher.url": receiver.url}), Place("Größe", tmp_path))
    target.write(delivery(1, ["a"]))
    target.close()
    assert receiver.got == ["/"]


def test_messages_do_not_show_the_password_in_a_url(receiver: Receiver, tmp_path: Path) -> None:
    target = sink(receiver.url.replace("//", "//ada:geheim@") + "/{{name}}", tmp_path)
    with pytest.raises(NadiError) as e:
        target.write(delivery(1, [".."]))
    target.close()
    assert "geheim" not in str(e.value)


# ---- hosts that events choose


@pytest.fixture
def another() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


AWAY = "http://127.0.0.1:1/"  # nobody listens there


def bounded(target: Sink, within: float = 0.05) -> Sink:
    target._try_for = within  # type: ignore[attr-defined]  # seconds; a minute is too long for a test
    return target


def test_each_host_gets_its_payloads_in_their_order(receiver: Receiver, another: Receiver, tmp_path: Path) -> None:
    target = sink("{{name}}", tmp_path)
    urls = [f"{(receiver, another)[n % 2].url}/{n}" for n in range(20)]
    target.write(delivery(1, urls))
    target.close()
    assert receiver.got == [f"/{n}" for n in range(0, 20, 2)]
    assert another.got == [f"/{n}" for n in range(1, 20, 2)]


def test_a_host_that_does_not_answer_holds_its_cut_and_the_others_get_theirs_once(
    receiver: Receiver, tmp_path: Path
) -> None:
    target = bounded(sink("{{name}}", tmp_path))
    urls = [receiver.url + "/a", AWAY, receiver.url + "/b"]
    for _ in range(3):  # the batch is tried again
        with pytest.raises(NadiError, match="CONNECTION_UNAVAILABLE") as told:
            target.write(delivery(1, urls))
        assert "127.0.0.1:1" in str(told.value)
    assert receiver.got == ["/a", "/b"]
    target.write(delivery(2, [receiver.url + "/a"]))  # another cut, which has the same
    target.close()
    assert receiver.got == ["/a", "/b", "/a"]


def test_where_the_sink_may_go_on_a_host_that_does_not_answer_is_given_up_and_asked_now_and_then(
    receiver: Receiver, another: Receiver, tmp_path: Path
) -> None:
    now = [0.0]
    target = bounded(sink("{{name}}", tmp_path, {"on.error": "STORE"}))
    target._hosts = httphosts.Circuits(Policy(10_000, 40_000), lambda: now[0])  # type: ignore[attr-defined]
    tries: list[str] = []
    host, attempt = httphosts.host_of(another.url), target._attempt  # type: ignore[attr-defined]
    gone = True

    def attempted(request: httpx.Request, number: int) -> tuple[str, float]:
        if request.url.netloc.decode() != host:
            return attempt(request, number)
        tries.append(request.url.path)
        return ("no answer", 0.001) if gone else attempt(request, number)

    target._attempt = attempted  # type: ignore[attr-defined]
    urls = [f"{another.url}/1", f"{receiver.url}/a", f"{another.url}/2", f"{receiver.url}/b"]
    first = target.write(delivery(1, urls)).refused
    assert [r.index for r in first] == [0, 2]
    assert all("did not take it" in r.reason and "no answer" in r.reason for r in first)
    assert receiver.got == ["/a", "/b"]
    assert len(tries) > 1
    assert set(tries) == {"/1"}
    assert not [s for s in unavailable() if "http sink" in s.connector]

    tries.clear()
    assert [r.index for r in target.write(delivery(2, urls)).refused] == [0, 2]
    assert tries == []  # its circuit is open
    now[0] = 10.0
    assert [r.index for r in target.write(delivery(3, urls)).refused] == [0, 2]
    assert tries == ["/1"]  # one attempt, and the next one comes later
    now[0] = 29.0
    target.write(delivery(4, urls))
    assert tries == ["/1"]

    gone, now[0] = False, 30.0
    assert target.write(delivery(5, urls)).refused == ()
    assert another.got == ["/1", "/2"]
    target.close()


def test_what_was_refused_for_a_host_that_was_away_stays_refused_with_its_cut(
    receiver: Receiver, tmp_path: Path
) -> None:
    urls = [AWAY, receiver.url + "/a"]
    first = bounded(sink("{{name}}", tmp_path, {"on.error": "LOG"}))
    told = first.write(delivery(1, urls)).refused
    first.close()
    again = bounded(sink("{{name}}", tmp_path, {"on.error": "LOG"}))
    assert again.write(delivery(1, urls)).refused == told
    again.close()


def test_a_sink_whose_host_is_the_app_s_waits_for_it_whatever_on_error_says(tmp_path: Path) -> None:
    target = bounded(sink(AWAY + "{{name}}", tmp_path, {"on.error": "STORE"}))
    with pytest.raises(NadiError, match="CONNECTION_UNAVAILABLE"):
        target.write(delivery(1, ["a"]))
    target.close()
