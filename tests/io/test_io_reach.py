"""Finding N2: connectors reach the folders, keys and databases that the node's operator allows, and never what the node keeps itself."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from sample import connector as sample
from sample import delivery

from nadi.errors import NadiError
from nadi.io.contract import Connector, Place
from nadi.io.reach import Reach, Reached
from nadi.io.registry import check_reach, open_log, open_sink


def connector(kind: str, options: dict[str, str]) -> Connector:
    return sample(kind, options, "passThrough" if kind == "rdbms" else "json")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("files", "security", "state"):
        (tmp_path / "home" / name).mkdir(parents=True)
    (tmp_path / "home" / "security" / "users.json").write_text("{}")
    return tmp_path / "home"


def reach_of(home: Path, folders: str = "", **more: str) -> Reach:
    return Reach.of(folders, home=home, closed=(home / "state", home / "security"), **more)


def refusal(reach: Reach, kind: str, made: Connector) -> str:
    try:
        check_reach(made, kind, reach)
    except NadiError as problem:
        return problem.condition
    return ""


def test_a_workers_apps_reach_the_folder_of_files_in_its_home_and_nothing_else(home: Path):
    reach = reach_of(home)
    assert reach.refused(str(home / "files" / "a.csv")) == ""
    for path in (home, home / "security" / "users.json", home / "state" / "x", home.parent / "x", Path("/etc/passwd")):
        assert reach.refused(str(path))


def test_folders_that_hold_the_home_do_not_open_it(home: Path):
    for folders in ("/", str(home.parent), f"{home.parent},{home}/files"):
        reach = reach_of(home, folders)
        assert reach.refused(str(home.parent / "out.jsonl")) == ""
        assert reach.refused(str(home / "security" / "permissions.db"))
        assert reach.refused(str(home / "state" / "App" / "cuts.log"))
        assert reach.refused("/proc/self/environ")
        assert reach.refused("/sys/class/net")
    assert reach_of(home, "/").refused(str(home / "files" / "x"))
    assert reach_of(home, f"/,{home}/files").refused(str(home / "files" / "x")) == ""


def test_a_folder_that_is_named_does_not_open_state_and_keys_below_it(home: Path):
    reach = reach_of(home, f"{home}/state,{home}/security")
    assert reach.refused(str(home / "state" / "x"))
    assert reach.refused(str(home / "security" / "users.json"))


def test_relative_folders_begin_in_the_home(home: Path):
    assert reach_of(home, "in, out").folders == (str(home / "in"), str(home / "out"))


def test_links_and_dots_lead_nowhere_else(home: Path):
    (home / "files" / "link").symlink_to(home / "security")
    reach = reach_of(home)
    for path in ("files/link/users.json", "files/../security/users.json", "files/../files/link/x"):
        assert reach.refused(str(home / path))
    (home / "files" / "self").symlink_to("/proc/self/environ")
    assert reach.refused(str(home / "files" / "self"))


def test_who_runs_apps_of_their_own_reaches_all_but_the_state_and_what_the_process_is(home: Path):
    reach = Reach.of(closed=(home / "state",))
    assert reach.refused("/etc/hosts") == reach.refused(str(home / "x")) == ""
    assert reach.refused("/proc/self/environ")
    assert reach.refused(str(home / "state" / "node.lock"))


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        ("sink", "file", {"file.uri": "{home}/security/users.json"}),
        ("sink", "file", {"file.uri": "file://{home}/security/users.json"}),
        ("sink", "file", {"dir.uri": "{home}/deployment/siddhi-files"}),
        ("source", "file", {"file.uri": "/proc/self/environ"}),
        ("source", "file", {"file.uri": "/proc/*/environ"}),
        ("source", "file", {"dir.uri": "{home}/state"}),
        ("sink", "rdbms", {"url": "sqlite:///{home}/security/permissions.db"}),
        ("sink", "rdbms", {"jdbc.url": "jdbc:sqlite:{home}/security/permissions.db"}),
        ("sink", "rdbms", {"url": "sqlite:///{home}/files/a.db?replica={home}/state/sync.sock"}),
        ("sink", "nats", {"destination": "s", "url": "tls://127.0.0.1:4222?identity={home}/state/nats/a.pem"}),
        ("source", "nats", {"destination": "s", "url": "tls://h:4222?certificate=/etc/a.pem&key=/etc/a.key"}),
        (
            "source",
            "natsmultidc",
            {"destination": "s", "bootstrap.servers": "nats://a:1,tls://b:1?authority={home}/security/key.pem"},
        ),
    ],
)
def test_what_a_worker_does_not_open_is_refused_before_anything_is_opened(
    home: Path, kind: str, name: str, options: dict[str, str]
):
    made = connector(name, {option: value.format(home=home) for option, value in options.items()})
    assert refusal(reach_of(home), kind, made) == "PATH_NOT_ALLOWED"


def test_certificates_of_kafka_are_looked_at_before_the_first_event(home: Path):
    options = {"topic": "t", "bootstrap.servers": "b:1", "optional.configuration": "ssl.ca.location:/etc/ca.pem"}
    assert refusal(reach_of(home), "sink", connector("kafka", options)) == "FILE_NOT_ALLOWED"
    assert refusal(reach_of(home, files="/etc"), "sink", connector("kafka", options)) == ""


def test_certificates_in_a_list_of_kafkas_brokers_are_files_that_the_operator_allows(home: Path):
    servers = "ssl://b:1?authority={}/a.pem"
    options = {"topic": "t", "bootstrap.servers": servers.format("/none")}
    assert refusal(reach_of(home), "sink", connector("kafka", options)) == "PATH_NOT_ALLOWED"
    assert refusal(reach_of(home, files="/none"), "sink", connector("kafka", options)) == ""
    centres = {**options, "bootstrap.servers": f"a:1,{servers.format('/none')}"}
    assert refusal(reach_of(home), "sink", connector("kafkamultidc", centres)) == "PATH_NOT_ALLOWED"


def test_databases_are_on_the_servers_that_the_operator_names(home: Path):
    def said(url: str, databases: str) -> str:
        return refusal(reach_of(home, databases=databases), "sink", connector("rdbms", {"url": url}))

    assert said("jdbc:postgresql://db/x", "") == said("jdbc:postgresql://DB/x", "db, other") == ""
    assert said("jdbc:postgresql://db/x", "db:5432") == said("mysql://db:1/x", "db:1") == ""
    assert said("jdbc:postgresql://db:1/x", "db:5432") == "DATABASE_NOT_ALLOWED"
    assert said("jdbc:postgresql:///x", "db") == said("postgresql://db,evil/x", "db") == "DATABASE_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("kind", "name", "options", "server"),
    [
        ("sink", "http", {"publisher.url": "https://ada:secret@HOST/in"}, "host:443"),
        ("sink", "http", {"publisher.url": "http://host:81/in/{{name}}"}, "host:81"),
        ("source", "mqtt", {"url": "tcp://host", "topic": "t"}, "host:1883"),
        ("sink", "mqtt", {"url": "ssl://[::1]", "topic": "t"}, "[::1]:8883"),
        ("source", "nats", {"destination": "s"}, "localhost:4222"),
        ("source", "nats", {"destination": "s", "url": "host"}, "host:4222"),
        (
            "sink",
            "nats",
            {"destination": "s", "bootstrap.servers": "tls://me:secret@host:1?authority=/c.pem"},
            "host:1",
        ),
        (
            "source",
            "natsmultidc",
            {"destination": "s", "bootstrap.servers": "nats://host:1?replicas=3,host:2"},
            "host:2",
        ),
        ("source", "kafka", {"topic.list": "t", "group.id": "g", "bootstrap.servers": "host"}, "host:9092"),
        ("sink", "kafka", {"topic": "t", "bootstrap.servers": "other:1, SSL://Host:2"}, "host:2"),
        ("sink", "kafkamultidc", {"topic": "t", "bootstrap.servers": "other:1|host:2,other:3"}, "host:2"),
        ("sink", "kafka", {"topic": "t", "bootstrap.servers": "ssl://other:1,ssl://host:2?authority=/c.pem"}, "host:2"),
        (
            "sink",
            "kafka",
            {
                "topic": "t",
                "bootstrap.servers": "other",
                "optional.configuration": "sasl.oauthbearer.token.endpoint.url:https://Host/token",
            },
            "host:443",
        ),
    ],
)
def test_servers_of_messages_and_http_are_those_that_the_operator_names(
    kind: str, name: str, options: dict[str, str], server: str
):
    made, others = connector(name, options), "other,host:65000,host:1" if server != "host:1" else "other"
    assert refusal(Reach(), kind, made) == ""
    assert refusal(Reach.of(hosts=others), kind, made) == "HOST_NOT_ALLOWED"
    assert refusal(Reach.of(hosts=f"{others}, {server.upper()}, a:1"), kind, made) in ("", "PATH_NOT_ALLOWED")
    with pytest.raises(NadiError) as told:
        check_reach(made, kind, Reach.of(hosts=others))
    assert server in str(told.value)
    assert "secret" not in str(told.value)


def test_an_address_that_cannot_be_read_is_none_that_an_operator_has_named():
    made = connector("kafka", {"topic": "t", "bootstrap.servers": "host:1/../x y"})
    assert refusal(Reach.of(hosts="host:1"), "sink", made) == "HOST_NOT_ALLOWED"


def test_an_event_that_names_another_server_is_refused_and_nobody_is_asked(tmp_path: Path):
    options = {"publisher.url": "{{name}}", "on.error": "LOG"}
    place = Place("App", tmp_path, reach=Reach.of(hosts="allowed"))
    sink = open_sink(connector("http", options), place)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.settimeout(0.05)
        receipt = sink.write(delivery(0, [f"http://127.0.0.1:{server.getsockname()[1]}/in"]))
        with pytest.raises(TimeoutError):
            server.accept()
    sink.close()
    assert "may not reach 127.0.0.1" in str(receipt)


def test_a_refusal_stands_at_the_option(home: Path):
    with pytest.raises(NadiError, match="nadi\\.connector\\.folders"):
        reach_of(home).check("@sink of S (file)", Reached("file.uri", "/etc/passwd"))


def test_a_file_that_becomes_a_link_is_not_read(home: Path):
    folder, secret = home / "files", home / "security" / "users.json"
    (folder / "a.json").write_text('{"event":{"name":"a","size":1}}\n')
    place = Place("App", home / "state", reach=reach_of(home))
    log = open_log(connector("file", {"dir.uri": str(folder), "until.end": "true"}), place)
    assert log.end(0) == 1
    (folder / "a.json").unlink()
    (folder / "a.json").symlink_to(secret)
    with pytest.raises(NadiError) as refused:
        list(log.read(0, 0, 1))
    assert refused.value.condition == "PATH_NOT_ALLOWED"
    log.close()
    (folder / "b.json").symlink_to(secret)
    other = open_log(
        connector("file", {"dir.uri": str(folder), "until.end": "true"}), replace(place, state=home / "state" / "b")
    )
    with pytest.raises(NadiError) as refused:
        other.end(0)
    assert refused.value.condition == "PATH_NOT_ALLOWED"


def test_a_target_that_becomes_a_link_is_not_written(home: Path):
    place = Place("App", home / "state", reach=reach_of(home))
    sink = open_sink(connector("file", {"file.uri": str(home / "files" / "out")}), place)
    (home / "files" / "out").symlink_to(home / "security" / "users.json")
    with pytest.raises(NadiError) as refused:
        sink.commit(0, [])
    assert refused.value.condition == "PATH_NOT_ALLOWED"
    assert (home / "security" / "users.json").read_text() == "{}"


def test_a_database_file_that_becomes_a_link_is_not_opened(home: Path):
    place = Place("App", home / "state", reach=reach_of(home))
    sink = open_sink(connector("rdbms", {"url": f"sqlite:///{home}/files/a.db"}), place)
    sqlite3.connect(home / "security" / "permissions.db").close()
    (home / "files" / "a.db").symlink_to(home / "security" / "permissions.db")
    with pytest.raises(NadiError) as refused:
        sink.write(delivery(0, ["a"]))
    assert refused.value.condition == "PATH_NOT_ALLOWED"
    assert not (home / "security" / "permissions.db-wal").exists()
    sink.close()
