"""Secrets of a home, and `${sec:…}` in a deployment.yaml."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import yaml

from nadi.config.deployment import as_yaml, environment_lookups, read_deployment
from nadi.config.secrets import Secrets, secret_lookup
from nadi.errors import NadiError

KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "security"
    made.mkdir(mode=0o700)
    return made


def condition(call, *given):
    with pytest.raises(NadiError) as raised:
        call(*given)
    return raised.value.condition, str(raised.value)


def test_a_secret_is_kept_encrypted_replaced_listed_and_deleted(folder: Path):
    kept = Secrets(folder, {})
    kept.set("db.password", "s3cret-β")
    kept.set("other", "x")
    kept.set("db.password", "another")
    assert (kept.aliases(), kept.value("db.password")) == (["db.password", "other"], "another")
    assert "another" not in (folder / "secrets.json").read_text()
    assert {p.name: p.stat().st_mode & 0o777 for p in folder.iterdir()} == {"secrets.json": 0o600, "secrets.key": 0o600}
    kept.delete("other")
    assert Secrets(folder, {}).aliases() == ["db.password"]


def test_an_unknown_secret_is_an_error_with_the_nearest_known_one(folder: Path):
    kept = Secrets(folder, {})
    kept.set("db_password", "x")
    for call in (kept.value, kept.delete, secret_lookup(folder)):
        name, said = condition(call, "db_pasword")
        assert name == "SECRET_UNKNOWN"
        assert "did you mean 'db_password'?" in said


def test_the_key_may_be_in_a_variable_or_in_a_file_that_the_operator_names(folder: Path, tmp_path: Path):
    kept = Secrets(folder, {"NADI_SECRETS_KEY": KEY})
    kept.set("a", "one")
    assert not (folder / "secrets.key").exists()
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    file.chmod(0o600)
    assert Secrets(folder, {"NADI_SECRETS_KEY_FILE": str(file)}).value("a") == "one"
    file.chmod(0o644)
    assert "chmod 600" in condition(Secrets(folder, {"NADI_SECRETS_KEY_FILE": str(file)}).value, "a")[1]


def test_a_wrong_key_opens_nothing_and_adds_nothing(folder: Path):
    Secrets(folder, {"NADI_SECRETS_KEY": KEY}).set("a", "one")
    other = Secrets(folder, {"NADI_SECRETS_KEY": base64.b64encode(bytes(32)).decode()})
    before = (folder / "secrets.json").read_text()
    for call in ((other.value, "a"), (other.set, "b", "two"), (other.set, "a", "two")):
        assert condition(*call)[0] == "SECRETS_KEY_WRONG"
    assert condition(Secrets(folder, {"NADI_SECRETS_KEY": "short"}).value, "a")[0] == "SECRETS_KEY_WRONG"
    assert condition(Secrets(folder, {}).value, "a")[0] == "SECRETS_KEY_WRONG"  # no key is made beside secrets
    assert (folder / "secrets.json").read_text() == before


def test_a_value_under_another_name_or_a_damaged_file_is_refused(folder: Path):
    kept = Secrets(folder, {})
    kept.set("a", "one")
    path = folder / "secrets.json"
    content = json.loads(path.read_text())
    content["secrets"]["b"] = content["secrets"]["a"]
    path.write_text(json.dumps(content))
    assert condition(kept.value, "b")[0] == "SECRETS_KEY_WRONG"
    for text in (
        "{",
        "[" * 100_000,
        '{"version": ' + "[" * 100_000,
        "[]",
        '{"version": 2, "secrets": {}}',
        '{"version": 1, "secrets": {"a": 1}}',
    ):
        path.write_text(text)
        assert condition(kept.aliases)[0] == "SECRETS_DAMAGED"


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("a/b", "x"), ("a}", "x"), ("a", ""), ("a", "x" * 100_001)])
def test_a_name_or_a_value_that_cannot_be_is_refused(folder: Path, name: str, value: str):
    assert condition(Secrets(folder, {}).set, name, value)[0] == "SECRET_INVALID"
    assert list(folder.iterdir()) == []


def test_a_deployment_yaml_has_secrets_of_the_home_and_never_shows_them(folder: Path, tmp_path: Path):
    Secrets(folder, {}).set("db", "hush-hush")
    path = tmp_path / "deployment.yaml"
    path.write_text("""
wso2.datasources:
  dataSources:
    - name: D
      definition: {configuration: {jdbcUrl: "jdbc:postgresql://db/x?user=a&password=${sec:db}", password: "${sec:db}"}}
nadi: {variables: {PLAIN_NAME: "user:${sec:db}"}}
spark: {hadoop: {fs.s3a.secret.key: plain-secret}}
""")
    found = read_deployment(path, environment_lookups(tmp_path))
    assert found.sections.datasources.source("D", "test").password == "hush-hush"
    shown = yaml.safe_dump(as_yaml(found))
    assert "hush" not in shown
    assert "plain-secret" not in shown
    assert "PLAIN_NAME: '***'" in shown
    path.write_text('wso2.carbon: {id: "${sec:dd}"}')
    assert condition(read_deployment, path, environment_lookups(tmp_path))[0] == "SECRET_UNKNOWN"
    assert condition(read_deployment, path, environment_lookups())[0] == "INVALID_SETTING"
