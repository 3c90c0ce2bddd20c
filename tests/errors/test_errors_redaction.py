"""Finding 7: no message, excerpt or listing shows a credential."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.config.deployment import as_yaml, deployment_of
from nadi.errors import error
from nadi.errors.redaction import covered, is_secret, redacted
from nadi.functions import default_registry
from nadi.io import registry as connectors
from nadi.plan import diagnose, explained, plan_app


@pytest.mark.parametrize(
    "url",
    [
        "nats://user:S3cret@host:4222",
        "http://user:S3cret@host/path",
        "https://S3cret@host",
        "nats://a:b@one,nats://c:S3cret@two",
        "http://user:S3@S3cret@host",
        "jdbc:mysql://host/db?user=u&password=S3cret",
        "http://host/hook?access_key=S3cret#x",
        "jdbc:sqlserver://host;user=u;password=S3cret;x=y",
        "wss://user:S3cret@host?token=S3cret",
    ],
)
def test_a_message_with_a_url_has_no_credentials(url: str) -> None:
    made = error("CONNECTION_UNAVAILABLE", connector=f"NATS server {url}", reason=f"{url} is away")
    assert "S3cret" not in str(made)
    assert "host" in str(made) or "two" in str(made)


@pytest.mark.parametrize(
    "name",
    [
        "basic.auth.password",
        "client.secret",
        "bearer.token",
        "aws.secret.access.key",
        "sasl.password",
        "headers",
        "api-key",
    ],
)
def test_the_value_of_a_secret_option_is_not_in_its_error(name: str) -> None:
    made = error("OPTION_INVALID", where="sink of S", name=name, value="S3cret", wanted="a text")
    assert "S3cret" not in str(made)
    assert "***" in str(made)


@pytest.mark.parametrize("name", ["publisher.url", "topic.list", "partition.key", "key.deserializer", "port", "method"])
def test_the_value_of_another_option_is_shown(name: str) -> None:
    assert not is_secret(name)
    assert "shown" in str(error("OPTION_INVALID", where="sink of S", name=name, value="shown", wanted="a text"))


def test_the_line_that_an_error_shows_has_no_secret_and_its_marks_stand_where_they_stood() -> None:
    text = (
        "@sink(type='http', basic.auth.password='S3cret', publisher.url='http://u:S3cret@h') define stream S (a itn);"
    )
    (found,) = diagnose(text, "", default_registry())
    line, marks = found.excerpt.split("\n")
    assert "S3cret" not in found.render()
    assert line[marks.index("^") :].startswith("itn")


def test_a_long_line_of_which_a_part_is_shown_has_no_secret_at_its_edge() -> None:
    text = f"@sink(type='log', password='{'S3cret' * 100}') define stream S (a itn);"
    (found,) = diagnose(text, "", default_registry())
    assert "S3cret" not in found.render()


def test_explain_shows_no_option_of_a_connection() -> None:
    text = (
        "@sink(type='http', publisher.url='http://u:S3cret@h', basic.auth.password='S3cret', @map(type='json')) define stream S (a int);"
        "@source(type='nats', destination='d', bootstrap.servers='nats://u:S3cret@h', @map(type='json')) define stream T (a int);"
        "from T select a insert into S;"
    )
    assert "S3cret" not in explained(plan_app(text, default_registry()), connectors)


def test_the_settings_that_are_listed_have_no_value_of_a_variable_and_no_credentials() -> None:
    content = {"nadi": {"variables": {"CITY": "S3cret"}, "journal": {"url": "nats://u:S3cret@h"}}}
    assert "S3cret" not in str(as_yaml(deployment_of(content, {})))


@given(st.text(max_size=80))
def test_a_line_that_is_covered_is_as_long_as_it_was(line: str) -> None:
    assert len(covered(line)) == len(line)


def test_long_messages_of_strangers_take_no_time() -> None:
    """In an attack each of these took time with the square of its length; here they are just read."""
    for piece in ("://", "a://", "?password", "password=", "@", "x", "password = '", "'", "&token=&"):
        redacted(piece * 200_000)
        covered(piece * 20_000)
