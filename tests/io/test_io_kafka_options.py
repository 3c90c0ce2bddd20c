from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from sample import connector, delivery

from nadi.errors import NadiError
from nadi.errors.exceptions import ConnectionUnavailableException
from nadi.io.contract import Place
from nadi.io.kafkaclient import settings, translated
from nadi.io.registry import open_log, open_sink

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
    with pytest.raises(NadiError, match="name:value"):
        settings(connector("kafka", {**options, "optional.configuration": "acks=1"}), {})


def test_a_broker_that_is_not_there_is_a_condition_of_source_and_sink(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("nadi.io.sources.kafka.WITHIN", 0.5)
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
