from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from eventually import alive, eventually
from sample import connector, delivery

from nadi.errors import NOWHERE, NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io import kafkalibrary
from nadi.io.contract import Place
from nadi.io.kafkaclient import settings, translated
from nadi.io.registry import open_log, open_sink, sink_kind
from nadi.kernel.columns.jit import PLAIN

BROKER = Path(__file__).parents[2] / "examples" / "kafka" / "broker.py"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("start.position", "soon"),
        ("partition.no.list", "1,x"),
        ("topic.offsets.map", "t"),
        ("topic.list", ","),
    ],
)
def test_wrong_options_of_a_source_are_refused(name: str, value: str) -> None:
    options = {"bootstrap.servers": "localhost:1", "topic.list": "t", name: value}
    with pytest.raises(NadiError) as failure:
        open_log(connector("kafka", options), Place("App", Path("/nowhere")))
    assert failure.value.condition == "OPTION_INVALID"


def test_a_list_of_brokers_names_certificates_and_nothing_else() -> None:
    servers = "ssl://a:1,ssl://b:1?authority=/n/a.pem&certificate=/n/b.pem&key=/n/b.key"
    assert settings(connector("kafka", {"bootstrap.servers": servers}), {}).items() >= {
        ("bootstrap.servers", "ssl://a:1,ssl://b:1"),
        ("security.protocol", "ssl"),
        ("ssl.ca.location", "/n/a.pem"),
        ("ssl.certificate.location", "/n/b.pem"),
        ("ssl.key.location", "/n/b.key"),
    }
    wrong = connector("kafka", {"topic": "t", "bootstrap.servers": "ssl://a:1?authorty=/n/a.pem"})
    with pytest.raises(NadiError, match=r"authorty.*authority, certificate, key"):
        sink_kind("kafka").check(wrong, NOWHERE)


def test_a_key_may_name_attributes_of_the_stream_only() -> None:
    options = {"bootstrap.servers": "localhost:1", "topic": "t", "key": "{{nmae}}"}
    with pytest.raises(NadiError, match="did you mean 'name'"):
        open_sink(connector("kafka", options), Place("App", Path("/nowhere")))


def test_client_settings_of_the_app_count_but_not_against_what_must_be() -> None:
    options = {"bootstrap.servers": "a:1", "optional.configuration": "acks:1, batch.size:5"}
    assert settings(connector("kafka", options), {"acks": "all"}).items() >= {
        ("bootstrap.servers", "a:1"),
        ("acks", "all"),
        ("batch.size", "5"),
    }
    assert settings(connector("kafka", options), {}, {"batch.size": 7, "compression.codec": "lz4"}).items() >= {
        ("batch.size", "5"),
        ("compression.codec", "lz4"),
    }
    with pytest.raises(NadiError, match="name:value"):
        settings(connector("kafka", {**options, "optional.configuration": "acks=1"}), {})


def test_a_broker_that_is_not_there_is_a_condition_of_source_and_sink(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("nadi.io.sources.kafka.WITHIN", 0.5)
    monkeypatch.setattr("nadi.io.sinks.kafka.WITHIN", 0.5)
    monkeypatch.setattr("nadi.io.sinks.kafka.TRANSACTION_WITHIN", 0.5)
    log = open_log(connector("kafka", {"bootstrap.servers": "127.0.0.1:1", "topic.list": "t"}), Place("App", tmp_path))
    with pytest.raises(ConnectionUnavailableException):
        log.partitions()
    log.close()
    target = open_sink(connector("kafka", {"bootstrap.servers": "127.0.0.1:1", "topic": "t"}), Place("App", tmp_path))
    with pytest.raises(ConnectionUnavailableException):
        target.write(delivery(0, ["a"]))
    target.close()


def test_errors_that_pass_are_kept_apart_from_those_that_do_not() -> None:
    def condition(code: int) -> str:
        return translated(KafkaError(code), "some broker").condition

    assert condition(KafkaError._ALL_BROKERS_DOWN) == "CONNECTION_UNAVAILABLE"
    assert condition(KafkaError.NOT_LEADER_FOR_PARTITION) == "CONNECTION_UNAVAILABLE"
    assert condition(KafkaError.TOPIC_AUTHORIZATION_FAILED) == "REFUSED"
    assert condition(KafkaError.MSG_SIZE_TOO_LARGE) == "REFUSED"


def test_loops_find_the_clients_of_the_version_that_is_installed() -> None:
    library = kafkalibrary.library()
    if PLAIN:
        assert library is None
        return
    assert library is not None, "reading and writing takes ten times as long: look at kafkalibrary"
    consumer, producer = Consumer({"group.id": "g"}), Producer({})
    assert None not in (library.handle(consumer), library.handle(producer))
    queue, topic = library.queue(consumer), library.topic(producer, "t")
    assert queue is not None
    assert topic is not None
    library.close_queue(queue)
    library.close_topic(topic)
    consumer.close()


def test_without_the_library_messages_are_objects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (("_MAPS", tmp_path / "none"), ("_LAST", (1, 9))):
        with monkeypatch.context() as changed:
            changed.setattr(kafkalibrary, name, value)
            assert kafkalibrary.library.__wrapped__() is None


def test_few_messages_do_not_load_the_compiler() -> None:
    asked = "import sys; from nadi.io import kafkalibrary as k; print(k.wanted(k.WORTH - 1), 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "False"]


def test_the_broker_of_the_example_says_in_one_line_what_is_missing(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, str(BROKER), "--data", str(tmp_path / "data")]
    for program, said in (("", "no java"), ("java", "no mvn")):
        if program:
            (tmp_path / program).symlink_to("/bin/true")
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 1
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_broker_of_the_example_is_gone_when_its_process_was_killed(kafka: str, tmp_path: Path) -> None:
    command = [sys.executable, str(BROKER), "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[3].rstrip(";")
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        assert admin.list_topics(timeout=20).brokers
        (java,) = (
            int(p.name) for p in Path("/proc").glob("[0-9]*") if _command(p).endswith(f"{tmp_path}/server.properties")
        )
        process.send_signal(signal.SIGKILL)
        eventually(lambda: not alive(java))


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return ""
    return " ".join(words) if words[0].endswith("java") else ""


def test_options_of_siddhi_without_effect_are_taken() -> None:
    kind = sink_kind("kafka")
    assert {"sequence.id", "is.binary.message", "is.synchronous"} <= {option.name for option in kind.options}
