"""What the check of an app takes, opening takes, for each option of each type and many odd values; and what is wrong with an option is told at once.

Nothing is asked: clients connect with their first use, and nobody listens where they would.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from io_build import annotation, schema

from nadi.errors import NOWHERE, NadiError
from nadi.io import registry
from nadi.io.certificate import OwnCertificate
from nadi.io.contract import Connector, Place
from nadi.io.listeners import Listening
from nadi.io.registry import MAPPERS, SINKS, SOURCES, examined, mapper_kind, sink_kind, source_kind
from nadi.plan.nodes import App, Stream
from nadi.plan.options import Option, check_options, wrong_options

Options = Mapping[str, str]

_CENTRES = {"bootstrap.servers": "localhost:1,localhost:2"}
_NATS_CENTRES = {"bootstrap.servers": "nats://localhost:1,nats://localhost:2", "destination": "d"}
_KAFKA = {"bootstrap.servers": "localhost:1"}
_CHANNEL = {"name": "A_S", "bootstrap.servers": "localhost:1"}
_MQTT = {"url": "tcp://localhost:1", "topic": "t"}
# What each type needs. Where an option stands for another one, there is a case without that one.
RIGHT: Mapping[tuple[str, str], tuple[Options, ...]] = MappingProxyType(
    {
        ("source", "file"): ({"file.uri": "in.csv"}, {"dir.uri": "in"}),
        ("source", "nats"): ({"destination": "d"}, {"subject": "d"}),
        ("source", "kafka"): ({**_KAFKA, "topic.list": "t"},),
        ("source", "kafkamultidc"): ({**_CENTRES, "topic": "t"},),
        ("source", "natsmultidc"): (_NATS_CENTRES,),
        ("source", "http"): ({"receiver.url": "http://127.0.0.1:0/in"}, {"receiver.url": "https://127.0.0.1:0/in"}),
        ("source", "mqtt"): (_MQTT, {**_MQTT, "protocol.version": "3.1.1"}),
        ("source", "inmemory"): ({"topic": "t"},),
        ("source", "channel"): tuple({**_CHANNEL, "producers": "A", "transport": t} for t in ("nats", "kafka")),
        ("sink", "file"): ({"file.uri": "out.txt"}, {"dir.uri": "out"}),
        ("sink", "log"): ({},),
        ("sink", "nats"): ({"destination": "d"}, {"subject": "d"}),
        ("sink", "kafka"): ({**_KAFKA, "topic": "t"},),
        ("sink", "kafkamultidc"): (
            {**_CENTRES, "topic": "t"},
            {**_CENTRES, "topic": "t", "publish": "active", "centre": "c", "sequence.id": "s"},
        ),
        ("sink", "natsmultidc"): (
            _NATS_CENTRES,
            {**_NATS_CENTRES, "publish": "active", "centre": "c", "sequence.id": "s"},
        ),
        ("sink", "http"): ({"publisher.url": "http://localhost:1/in"}, {"publisher.url": "{{b}}"}),
        ("sink", "mqtt"): (_MQTT,),
        ("sink", "inmemory"): ({"topic": "t"},),
        ("sink", "rdbms"): ({"url": "sqlite:///x.db"}, {"jdbc.url": "jdbc:mysql://localhost:1/db"}),
        ("sink", "channel"): tuple({**_CHANNEL, "transport": t} for t in ("nats", "kafka")),
    }
)
_FORMS = ("", " ", "x" * 100_000, "a\0b", "ünï☃", "１２", "a b", "a\nb", "'", "\\", "(", "%00", ",", "a,b", "a:b")
_NUMBERS = ("-1", "-0", "0", "1", "007", "128", "9" * 30, "NaN", "1e3", "1.5", "1/2", "3/2", "time:1", f"time:{9**40}")
_WORDS = (
    "true",
    "TRUE ",
    "no",
    "active",
    "LOG",
    "update",
    "{{a}}",
    "{{nope}}",
    "{{",
    "*",
    ">",
    "#",
    "a.>",
    "..",
    "$JS",
)
_PLACES = (
    *("//", "http://", "http://h:99999/", "https://h/in", "[::1", "[::1]:80", "nats://", "nats://u:p@h:x"),
    *("tls://h:4222?identity=/x", "nats://h?replica=rel", "nats://h?replicas=9", "file://x/\0", "file:///tmp/x"),
    *("s3://b/x", "jdbc:mysql://h:x/db", "jdbc:sqlite:", "jdbc:h2:mem:x", "../..", "/x/*.csv", "C:\\x"),
)
_SETTINGS = ("linger.ms:abc", "acks:1,linger.ms:5", "security.protocol:sasl_ssl", "nads.x:1", "ssl.ca.location:/x")
ODD = (*_FORMS, *_NUMBERS, *_WORDS, *_PLACES, *_SETTINGS)


def _app(kind: str, type_: str, options: Options, mapped: str) -> App:
    given = annotation(kind, {"type": type_, **options}, [annotation("map", {"type": mapped})])
    made = Stream("S", "S", schema("a int, b string, t long"), annotations=(given,))
    return App("app", {"S": made}, {}, {}, {}, {}, {}, ())


def _open(kind: str, connector: Connector, place: Place) -> None:
    """Errors: whatever opening says."""
    if kind == "sink":
        registry.open_sink(connector, place).close()
        return
    ingress = registry.make_ingress(connector, place)
    if ingress is not None and source_kind(connector.type).address is not None:
        ingress.stop()  # else the next one has the same port
    registry.open_log(connector, place).close()


def _refused(kind: str, connector: Connector, place: Place) -> str:
    """Why it cannot be opened, "" where it can, or its server is away."""
    try:
        _open(kind, connector, place)
    except NadiError as reason:
        return "" if reason.condition in ("CONNECTION_UNAVAILABLE", "FILE_NOT_ALLOWED") else str(reason)
    except Exception as defect:
        return repr(defect)
    return ""


def _cases(kind: str, type_: str) -> Iterator[tuple[str, Options]]:
    of = source_kind(type_) if kind == "source" else sink_kind(type_)
    common = registry.SOURCE_OPTIONS if kind == "source" else registry.SINK_OPTIONS
    for right in RIGHT[kind, type_]:
        for option in (*of.options, *common):
            for value in ODD:
                yield f"{option.name}={value[:40]!r}", {**right, option.name: value}


def test_all_types_are_tried() -> None:
    assert sorted(RIGHT) == sorted([("source", name) for name in SOURCES] + [("sink", name) for name in SINKS])


@pytest.mark.parametrize(("kind", "type_"), RIGHT)
def test_what_is_needed_is_taken(kind: str, type_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for right in RIGHT[kind, type_]:
        assert examined(_app(kind, type_, right, _mapped(type_)), kind)[1] == ()


@pytest.mark.parametrize(("kind", "type_"), RIGHT)
def test_what_the_check_takes_opening_takes(
    kind: str, type_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    channels = {"nats": "nats://localhost:1", "kafka": "localhost:1"}
    listening = Listening(certificate=OwnCertificate(tmp_path / "security"))
    place = Place("app", tmp_path / "state", journal="nats://127.0.0.1:1", channels=channels, listening=listening)
    found = {}
    for case, options in _cases(kind, type_):
        right, _wrong = examined(_app(kind, type_, options, _mapped(type_)), kind)
        if right and (reason := _refused(kind, right[0], place)):
            found[case] = reason
    assert found == {}


def _mapped(type_: str) -> str:
    return "passThrough" if type_ == "rdbms" else "json"


@pytest.mark.parametrize("direction", ["source", "sink"])
@pytest.mark.parametrize("mapper", MAPPERS)
def test_a_mapper_takes_odd_values_or_says_why_not(direction: str, mapper: str) -> None:
    kind = mapper_kind(mapper)
    make = kind.source if direction == "source" else kind.sink
    options = kind.source_options if direction == "source" else kind.sink_options
    assert make is not None
    for option in options:
        for value in (text[:2_000] for text in ODD):
            name = option.name.replace("*", "A")
            given = annotation("map", {"type": mapper, name: value}, [annotation("attributes", {"a": "A", "b": "b"})])
            connector = Connector("S", schema("a int, b string"), "inmemory", {}, given, 0)
            with contextlib.suppress(NadiError):
                check_options("@map of S", {name.lower(): value}, options, given.span)
                make(connector)


def _all_options() -> list[tuple[str, Option]]:
    kinds = [(name, source_kind(name).options) for name in SOURCES] + [(n, sink_kind(n).options) for n in SINKS]
    mappers = [(n, (*mapper_kind(n).source_options, *mapper_kind(n).sink_options)) for n in MAPPERS]
    common = [("all", (*registry.SOURCE_OPTIONS, *registry.SINK_OPTIONS))]
    return [(name, option) for name, options in (*kinds, *mappers, *common) for option in options]


def test_each_option_says_what_it_is_for() -> None:
    assert [(name, option.name) for name, option in _all_options() if not option.doc.strip()] == []
    assert [
        (name, o.name) for name, o in _all_options() if o.doc.endswith(".") or "\n" in o.doc or " | " in o.doc
    ] == []


@pytest.mark.parametrize(
    ("kind", "type_", "options", "wrong"),
    [
        ("source", "file", {"file.uri": "x", "dir.uri": "y"}, ["dir.uri"]),
        ("source", "file", {"file.uri": "a\0b"}, ["file.uri"]),
        ("sink", "file", {"dir.uri": "a\0b"}, ["dir.uri"]),
        (
            "source",
            "nats",
            {"destination": "a b", "bootstrap.servers": "http://x"},
            ["bootstrap.servers", "destination"],
        ),
        ("source", "nats", {"destination": "a", "url": "nats://h:4222?replicas=7"}, ["url"]),
        ("sink", "nats", {"destination": "a.*", "url": "nats://h:99999"}, ["destination", "url"]),
        (
            "source",
            "kafka",
            {"bootstrap.servers": "a b", "topic.list": "t,ä", "start.position": "soon", "share": "3/2"},
            ["bootstrap.servers", "share", "start.position", "topic.list"],
        ),
        (
            "sink",
            "kafka",
            {"bootstrap.servers": "http://a", "topic": "a/b", "partition.no": "x", "key": "{{nope}}"},
            ["bootstrap.servers", "key", "partition.no", "topic"],
        ),
        ("sink", "kafka", {**_KAFKA, "topic": "t", "optional.configuration": "acks:many"}, ["optional.configuration"]),
        ("source", "kafkamultidc", {**_KAFKA, "topic": "a,b"}, ["bootstrap.servers", "topic"]),
        ("sink", "http", {"publisher.url": "ftp://x", "method": "G T"}, ["method", "publisher.url"]),
        ("source", "http", {"receiver.url": "x", "socket.idle.timeout": "0"}, ["receiver.url", "socket.idle.timeout"]),
        ("source", "mqtt", {"url": "http://x", "topic": "a/#/b"}, ["topic", "url"]),
        (
            "sink",
            "mqtt",
            {"url": "tcp://h:x", "topic": "a/+", "client.id": "x" * 70_000},
            ["client.id", "topic", "url"],
        ),
        ("sink", "rdbms", {"url": "sqlite:///x.db", "username": "me", "keys": "nope"}, ["keys", "username"]),
        ("sink", "channel", {"transport": "kafka", "name": "n", "url": "http://x", "partitions": "1"}, ["url"]),
    ],
)
def test_all_that_is_wrong_with_the_options_of_a_type_is_told_at_once(
    kind: str, type_: str, options: Options, wrong: list[str]
) -> None:
    _right, problems = examined(_app(kind, type_, options, _mapped(type_)), kind)
    assert sorted(str(one.parameters["name"]) for one in problems) == wrong
    assert {one.condition for one in problems} == {"OPTION_INVALID"}


def test_no_error_shows_a_password_of_the_client() -> None:
    settings = (
        "security.protocol:sasl_ssl,sasl.mechanism:PLAIN,ssl.key.password:hush\u0001,sasl.oauthbearer.method:S3cret"
    )
    _right, (problem,) = examined(
        _app("sink", "kafka", {**_KAFKA, "topic": "t", "optional.configuration": settings}, "json"), "sink"
    )
    assert "sasl.oauthbearer.method" in str(problem)
    assert "S3cret" not in str(problem)


def test_a_default_is_taken_and_stands_in_the_words_of_its_option() -> None:
    for name, option in _all_options():
        if option.default:
            assert list(wrong_options("x", {option.name: option.default}, [option], NOWHERE)) == []
            shown = option.default.replace("{", "<").replace("}", ">")
            assert shown in option.doc or "as of" in option.doc or shown == "<stream>", (name, option.name)


def test_another_name_of_an_option_is_one_of_the_same_type() -> None:
    for kinds in ([source_kind(name) for name in SOURCES], [sink_kind(name) for name in SINKS]):
        for kind in kinds:
            names = {option.name for option in kind.options}
            assert {option.other for option in kind.options} <= names | {""}


def test_what_may_be_a_secret_is_shown_to_nobody() -> None:
    open_to_all = [o.name for _name, o in _all_options() if not o.secret]
    assert [n for n in open_to_all if any(w in n for w in ("password", "username", "headers", "configuration"))] == []
