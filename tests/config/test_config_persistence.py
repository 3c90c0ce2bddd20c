"""`state.persistence` of a deployment.yaml."""

from __future__ import annotations

import pytest

from nadi.config import DataSource, Persistence
from nadi.config.deployment import environment_lookups, read_deployment
from nadi.config.places import DATABASE, FILES
from nadi.errors import NadiError
from nadi.persistence.stores import store_of, url_of

SHIPPED = """
wso2.carbon: {id: wso2-sp}
state.persistence:
  enabled: true
  intervalInMin: 5
  revisionsToKeep: 2
  persistenceStore: org.wso2.carbon.stream.processor.core.persistence.DBPersistenceStore
  config:
    datasource: PERSISTENCE_DB # A datasource with this name should be defined in wso2.datasources namespace
    table: PERSISTENCE_TABLE
wso2.datasources:
  dataSources:
    - name: OTHER
      definition: {type: RDBMS, configuration: {jdbcUrl: 'jdbc:h2:mem'}}
    - name: PERSISTENCE_DB
      definition:
        type: RDBMS
        configuration:
          jdbcUrl: 'jdbc:postgresql://${env:DB_HOST}:5432/PERSISTENCE_DB'
          username: 'wso2'
          password: '${env:DB_PASSWORD}'
          driverClassName: org.postgresql.Driver
"""


def read(tmp_path, text, **environment):
    path = tmp_path / "deployment.yaml"
    path.write_text(text, encoding="utf-8")
    return read_deployment(path, {**environment_lookups(), "env": environment.get}).persistence


def test_the_block_that_is_asked_for_in_the_guides(tmp_path):
    found = read(tmp_path, SHIPPED, DB_HOST="db", DB_PASSWORD="p@ss")
    source = DataSource("PERSISTENCE_DB", "jdbc:postgresql://db:5432/PERSISTENCE_DB", "wso2", "p@ss")
    assert found == Persistence(enabled=True, interval=5, keep=2, store=DATABASE, datasource=source)
    assert "p@ss" not in repr(found)
    assert url_of(source).render_as_string(hide_password=False) == (
        "postgresql+psycopg://wso2:p%40ss@db:5432/PERSISTENCE_DB"
    )


def test_without_a_block_there_are_files_and_nothing_is_enabled(tmp_path):
    assert read(tmp_path, "wso2.carbon: {id: x}") == Persistence()
    assert read(tmp_path, "") == Persistence()
    assert store_of(Persistence(), tmp_path).name == str(tmp_path / "siddhi-app-persistence")


def test_the_incremental_stores_are_these_stores(tmp_path):
    text = "state.persistence: {persistenceStore: org.wso2.x.IncrementalFileSystemPersistenceStore, config: {location: /srv/r}}"
    found = read(tmp_path, text)
    assert (found.store, store_of(found, tmp_path).name) == (FILES, "/srv/r")


def test_a_location_may_be_the_url_of_an_object_store_or_of_a_folder(tmp_path):
    s3 = "s3://key:sesame@bucket/r?endpoint_override=h:1&scheme=http"
    found = read(tmp_path, f"state.persistence: {{config: {{location: '{s3}'}}}}")
    assert (found.store, store_of(found, tmp_path).name) == (FILES, "s3://bucket/r")
    assert "sesame" not in repr(found)
    assert store_of(Persistence(location="file:///srv/r%20s"), tmp_path).name == "/srv/r s"


def test_a_url_that_nobody_knows_is_refused_without_its_password(tmp_path):
    with pytest.raises(NadiError, match=r"state\.persistence\.config\.location.*gopher://host/log") as caught:
        store_of(Persistence(location="gopher://user:sesame@host/log?key=sesame"), tmp_path)
    assert (caught.value.condition, "sesame" in str(caught.value)) == ("INVALID_SETTING", False)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("DBPersistenceStore", "DbPersistenceStore"), "persistenceStore' is 'DbPersistenceStore'"),
        (("enabled: true", "enabled: maybe"), "enabled' is 'maybe'"),
        (("intervalInMin: 5", "intervalInMin: -1"), "intervalInMin' is '-1'"),
        (("revisionsToKeep: 2", "revisionsToKeep: 0"), "revisionsToKeep' is '0'"),
        (("datasource: PERSISTENCE_DB", "datasource: PERSIST"), "there are: OTHER, PERSISTENCE_DB"),
        (("${env:DB_HOST}", "${env:NOBODY}"), "NOBODY"),
        (("${env:DB_HOST}", "${sec:alias}"), "alias"),
        (("config:", "config: ["), "a file in YAML"),
    ],
)
def test_what_cannot_be_is_said(tmp_path, change, told):
    with pytest.raises(NadiError) as caught:
        read(tmp_path, SHIPPED.replace(*change), DB_HOST="db", DB_PASSWORD="x")
    assert (caught.value.condition, told in str(caught.value)) == ("INVALID_SETTING", True)


@pytest.mark.parametrize("url", ["jdbc:oracle:thin:@db:1521:x", "jdbc:db2://db/x", "jdbc:postgresql://db:port/x"])
def test_a_database_that_is_not_supported_is_refused(url):
    with pytest.raises(NadiError) as caught:
        url_of(DataSource("DB", url))
    assert caught.value.condition == "INVALID_SETTING"


def test_the_name_of_a_table_is_a_name(tmp_path):
    settings = Persistence(store=DATABASE, datasource=DataSource("DB", "jdbc:sqlite:x"), table="a; drop table b")
    with pytest.raises(NadiError, match="INVALID_SETTING"):
        store_of(settings, tmp_path)
    with pytest.raises(NadiError, match="NO_PERSISTENCE_STORE"):
        store_of(Persistence(store=DATABASE), tmp_path)
