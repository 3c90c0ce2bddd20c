"""`nadi explain` on a file."""

from __future__ import annotations

import json

import pytest

from nadi.cli.explain import explain, explain_json
from nadi.errors import NadiError

APP = "@app:name('Sums') define stream S (k string, v int);\nfrom S#window.length(2) select k, sum(v) as s insert into O;\n"


def test_it_tells_the_plan_of_the_app_in_a_file(tmp_path):
    path = tmp_path / "sums.siddhi"
    path.write_text(APP, encoding="utf-8")
    assert explain(path).startswith("app Sums (rules of Siddhi 5.x)\n\ngroup (default): one bucket, split by nothing\n")
    assert json.loads(explain_json(path))["groups"][0]["sharding"] == "single"


def test_variables_are_those_that_the_command_is_given(tmp_path, monkeypatch):
    path = tmp_path / "sums.siddhi"
    path.write_text(APP.replace("length(2)", "length(${NADI_TEST_SIZE})"), encoding="utf-8")
    with pytest.raises(NadiError, match="VARIABLE_NOT_SET"):
        explain(path)
    monkeypatch.setenv("NADI_TEST_SIZE", "2")
    with pytest.raises(NadiError, match="VARIABLE_NOT_SET"):
        explain(path)
    assert "length" in explain(path, ["NADI_TEST_SIZE"])


def test_what_is_wrong_is_told_with_file_line_and_column(tmp_path):
    path = tmp_path / "wrong.siddhi"
    path.write_text(APP.replace("sum(v)", "sum(w)"), encoding="utf-8")
    with pytest.raises(NadiError, match=r"wrong\.siddhi:2:39: \[ATTRIBUTE_NOT_FOUND\] 'w' is not an attribute of 'S'"):
        explain(path)
