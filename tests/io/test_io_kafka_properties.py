"""Security finding 4: `optional.configuration` passed anything to librdkafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from sample import connector

from nadi.errors import NadiError
from nadi.io.contract import Place
from nadi.io.kafkaclient import settings
from nadi.io.kafkaproperties import FILES, KNOWN
from nadi.io.reach import Reach
from nadi.io.registry import connectors, open_log, open_sink
from nadi.pipeline.engine import plan_app

OPTIONS = {"bootstrap.servers": "127.0.0.1:1", "topic": "t", "topic.list": "t"}


def refused(configuration: str) -> NadiError:
    with pytest.raises(NadiError) as e:
        settings(connector("kafka", {**OPTIONS, "optional.configuration": configuration}), {})
    return e.value


def test_finding_4_librdkafka_would_load_what_the_property_names(tmp_path: Path) -> None:
    with pytest.raises(KafkaException, match="dlopen"):
        Producer({"plugin.library.paths": str(tmp_path / "plugin.so"), "log_level": 0})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("plugin.library.paths", "native code"),
        ("ssl.engine.location", "native code"),
        ("ssl.providers", "native code"),
        ("sasl.kerberos.kinit.cmd", "shell"),
        ("sasl.kerberos.keytab", "shell"),
        ("bootstrap.servers", "option of its own"),
        ("ssl.ca.locatoin", "did you mean 'ssl.ca.location'"),
        ("transactional.id", "nadi chooses it"),
    ],
)
def test_finding_4_properties_that_are_not_known_to_be_safe_are_refused(name: str, hint: str) -> None:
    found = refused(f"acks:all,{name}:/tmp/x")
    assert found.condition == "CLIENT_PROPERTY_REFUSED"
    assert f"'{name}'" in str(found)
    assert hint in str(found)


def test_finding_4_check_refuses_them_and_says_where() -> None:
    text = """@app:name('A')
@sink(type='kafka', bootstrap.servers='h:1', topic='t', optional.configuration='plugin.library.paths:/tmp/x.so')
define stream S (a int);
"""
    with pytest.raises(NadiError) as e:
        connectors(plan_app(text), "sink")
    assert e.value.condition == "CLIENT_PROPERTY_REFUSED"
    assert e.value.diagnostic.span is not None
    assert e.value.diagnostic.span.line == 2


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_the_client_knows_every_property_that_an_app_may_set(name: str) -> None:
    """A wrong value is fine here, a name that there is not is none."""
    with pytest.raises(KafkaException, match="No such configuration property"):
        Producer({name + "x": "-", "log_level": 0})
    said = ""
    try:
        Producer({name: "-", "log_level": 0})
    except KafkaException as reason:
        said = str(reason)
    assert "No such configuration property" not in said


def test_a_password_is_not_shown_where_the_option_has_no_form() -> None:
    assert "secret" not in str(refused("sasl.password:se,cret"))
    assert "cret" not in str(refused("sasl.password:se,cret"))


@pytest.mark.parametrize("name", sorted(FILES))
def test_finding_4_files_are_read_in_the_folder_of_the_operator_only(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    (tmp_path / "shadow").write_text("x")
    (folder / "ca.pem").write_text("x")
    (folder / "link.pem").symlink_to(tmp_path / "shadow")

    def opened(file: Path, files: str) -> None:
        options = {**OPTIONS, "optional.configuration": f"{name}:{file}"}
        place = Place("App", tmp_path, reach=Reach(files=files))
        open_sink(connector("kafka", options), place).close()
        open_log(connector("kafka", options), place).close()

    opened(folder / "ca.pem", str(folder))
    for file in (tmp_path / "shadow", folder / ".." / "shadow", folder / "link.pem", Path("/etc/shadow")):
        with pytest.raises(NadiError) as e:
            opened(file, str(folder))
        assert e.value.condition == "FILE_NOT_ALLOWED"
    with pytest.raises(NadiError, match=r"nadi\.connector\.files"):
        opened(folder / "ca.pem", "")
