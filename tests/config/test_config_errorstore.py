"""`error.store` of a deployment.yaml."""

from __future__ import annotations

import pytest

from nadi.config import DataSource, ErrorStoring
from nadi.config.deployment import environment_lookups, read_deployment
from nadi.errors import NadiError

BLOCK = """
error.store:
  enabled: {enabled}
  bufferSize: 8192
  dropWhenBufferFull: true
  errorStore: {store}
  config:
    datasource: {source}
    table: APP_ERRORS
wso2.datasources:
  dataSources:
    - name: ERRORS_DB
      definition: {{type: RDBMS, configuration: {{jdbcUrl: 'jdbc:mysql://db/errors', username: nadi, password: '${{env:P}}'}}}}
"""
CLASS = "org.wso2.carbon.streaming.integrator.core.siddhi.error.handler.DBErrorStore"


def read(tmp_path, enabled="true", store=CLASS, source="ERRORS_DB", text=BLOCK):
    path = tmp_path / "deployment.yaml"
    path.write_text(text.format(enabled=enabled, store=store, source=source), encoding="utf-8")
    return read_deployment(path, {**environment_lookups(), "env": {"P": "p@ss"}.get}).error_store


def test_an_enabled_block_names_a_database_and_a_table(tmp_path):
    source = DataSource("ERRORS_DB", "jdbc:mysql://db/errors", "nadi", "p@ss")
    assert read(tmp_path) == ErrorStoring(datasource=source, table="APP_ERRORS")


def test_without_a_block_or_where_it_is_not_enabled_the_state_folder_has_them(tmp_path):
    assert read(tmp_path, enabled="false") == ErrorStoring()
    assert read(tmp_path, text="") == ErrorStoring()


def test_a_store_or_a_data_source_that_does_not_exist_is_refused(tmp_path):
    for given, name in (({"store": "FileStore"}, "errorStore"), ({"source": "NONE"}, "datasource")):
        with pytest.raises(NadiError) as wrong:
            read(tmp_path, **given)
        assert wrong.value.condition == "INVALID_SETTING"
        assert f"error.store.{'config.' if name == 'datasource' else ''}{name}" in str(wrong.value)
