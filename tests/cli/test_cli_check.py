"""`nadi check`: all errors of all files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nadi.cli.check import check
from nadi.errors import NadiError

GOOD = "define stream S (a int);\n\nfrom S[a > 5]\nselect a\ninsert into T;\n"


@pytest.fixture
def written(tmp_path: Path):
    def write(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_apps_without_errors_give_one_line_and_status_0(written, capsys):
    assert check([written("a.siddhi", GOOD), written("b.siddhi", GOOD)], False) == 0
    assert capsys.readouterr().out == "2 apps checked, no errors\n"


def test_all_errors_of_all_files_are_printed_with_place_and_excerpt(written, capsys):
    broken = written(
        "a.siddhi", "define stream S (a int);\nfrom S selct a insert into T;\nfrom S[a > ] insert into U;\n"
    )
    senseless = written("b.siddhi", "define stream S (a int);\nfrom S select b insert into T;\n")
    assert check([broken, senseless, written("c.siddhi", GOOD)], False) == 1
    out = capsys.readouterr().out
    assert f"{broken}:2:8: [MISSPELT_KEYWORD] unexpected 'selct'" in out
    assert "(did you mean 'select'?)\n    from S selct a insert into T;\n           ^^^^^\n" in out
    assert f"{broken}:3:12: [SYNTAX] unexpected ']', expected an expression" in out
    assert f"{senseless}:2:15: [ATTRIBUTE_NOT_FOUND]" in out
    assert out.endswith("3 errors in 2 of 3 apps\n")


def test_tools_get_a_list_of_records(written, capsys):
    path = written("a.siddhi", "define stream S (a int);\nfrom S selct a insert into T;\n")
    assert check([path], True) == 1
    (record,) = json.loads(capsys.readouterr().out)
    message = record.pop("message")
    assert message.startswith("unexpected 'selct', expected ")
    assert record == {
        "file": str(path),
        "line": 2,
        "column": 8,
        "endLine": 2,
        "endColumn": 13,
        "condition": "MISSPELT_KEYWORD",
        "class": "SiddhiParserException",
        "next": "did you mean 'select'?",
        "severity": "error",
    }


def test_tools_get_an_empty_list_where_all_is_well(written, capsys):
    assert check([written("a.siddhi", GOOD)], True) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_file_that_is_no_text_is_an_error_of_that_file(written, capsys):
    path = written("a.siddhi", b"\xff\xfe")
    assert check([path, written("b.siddhi", GOOD)], False) == 1
    out = capsys.readouterr().out
    assert f"{path}: [APP_NOT_READABLE] the file cannot be read" in out
    assert out.endswith("1 error in 1 of 2 apps\n")


def test_an_app_gets_those_variables_only_that_it_is_given(written, capsys, monkeypatch):
    """Finding 6: its author may not be who may read the environment."""
    path = written("a.siddhi", "define stream ${NADI_TEST_NAME} (a int);\n")
    monkeypatch.setenv("NADI_TEST_NAME", "S")
    assert check([path], False) == 1
    said = capsys.readouterr().out
    assert "1:15: [VARIABLE_NOT_SET] ${NADI_TEST_NAME}" in said
    assert "'--env NADI_TEST_NAME' takes it from the environment" in said
    assert check([path], False, ["NADI_TEST_NAME"]) == 0
    assert check([path], False, ["NADI_TEST_NAME=T"]) == 0
    monkeypatch.delenv("NADI_TEST_NAME")
    with pytest.raises(NadiError, match="VARIABLE_NOT_IN_ENVIRONMENT"):
        check([path], False, ["NADI_TEST_NAME"])


def test_no_error_shows_the_value_of_a_connection(written, capsys):
    """Finding 7."""
    path = written("a.siddhi", "@sink(type='log', prefix='${P}') define stream S (a itn);\n")
    assert check([path], False, ["P=S3cret"]) == 1
    said = capsys.readouterr().out
    assert "${P}" in said
    assert "S3cret" not in said


WRONG = """@app:name('Sent')
@source(type='htpp', receiver.url='http://127.0.0.1:8006/in', @map(type='jsn'))
define stream In (a int);
@sink(type='kafka', topik='x', bootstrap.servers='localhost:9092', @map(type='json'))
define stream Out (a int);
@store(type='rdbm', jdbc.url='jdbc:mysql://db/x')
define table T (a int);
from In join T on In.a == T.a select In.a as a insert into Out;
"""


def test_types_and_options_of_connectors_are_checked_each_at_its_place(written, capsys):
    path = written("a.siddhi", WRONG)
    assert check([path], False) == 1
    assert (
        capsys.readouterr().out
        == f"""{path}:2:9: [EXTENSION_NOT_FOUND] 'htpp' is not a type of source (did you mean 'http'?)
    @source(type='htpp', receiver.url='http://127.0.0.1:8006/in', @map(type='jsn'))
            ^^^^^^^^^^^
{path}:2:68: [EXTENSION_NOT_FOUND] 'jsn' is not a type of mapper (did you mean 'json'?)
    @source(type='htpp', receiver.url='http://127.0.0.1:8006/in', @map(type='jsn'))
                                                                       ^^^^^^^^^^
{path}:4:21: [OPTION_UNKNOWN] @sink of Out (kafka) has no option 'topik' (did you mean 'topic'?)
    @sink(type='kafka', topik='x', bootstrap.servers='localhost:9092', @map(type='json'))
                        ^^^^^^^^^
{path}:6:8: [EXTENSION_NOT_FOUND] 'rdbm' is not a type of store (did you mean 'rdbms'?)
    @store(type='rdbm', jdbc.url='jdbc:mysql://db/x')
           ^^^^^^^^^^^
4 errors in 1 of 1 app
"""
    )


@pytest.mark.parametrize(
    ("option", "kind"), [("file.uri='/x/{{a}}.txt'", "text"), ("dir.uri='s3://x'", "csv"), ("file.uri='/x'", "parquet")]
)
def test_what_a_file_sink_cannot_do_is_told_at_the_option_that_asks_for_it(written, capsys, option, kind):
    start = f"@sink(type='file', {option}, @map(type='{kind}')) "
    path = written("a.siddhi", start + "define stream S (a int);\nfrom S select a insert into T;\n")
    assert check([path], True) == 1
    (record,) = json.loads(capsys.readouterr().out)
    assert record["condition"] == "NOT_SUPPORTED"
    assert start[record["column"] - 1 : record["endColumn"] - 1] == option


def test_refs_stand_for_what_a_deployment_says_and_errors_stand_where_the_app_has_them(written, capsys):
    config = written(
        "deployment.yaml",
        'siddhi.refs:\n  - ref: {name: orders, type: http, properties: {receiver.url: "http://127.0.0.1:8006/in"}}\n',
    )
    good = written("a.siddhi", "@source(ref='orders', @map(type='json')) define stream S (a int);\n")
    assert check([good], False, config=config) == 0
    assert check([good], False) == 1
    told = capsys.readouterr().out
    assert "[REF_UNKNOWN] 'orders' is no ref of siddhi.refs" in told
    assert told.endswith("1 error in 1 of 1 app\n")
    path = written("b.siddhi", "@source(ref='orders', @map(type='jsn')) define stream S (a int);\n")
    assert check([path], False, config=config) == 1
    assert (
        capsys.readouterr().out
        == f"""{path}:1:28: [EXTENSION_NOT_FOUND] 'jsn' is not a type of mapper (did you mean 'json'?)
    @source(ref='orders', @map(type='jsn')) define stream S (a int);
                               ^^^^^^^^^^
1 error in 1 of 1 app
"""
    )


def test_no_error_of_an_option_shows_a_password_that_a_variable_has(written, capsys):
    text = "@sink(type='http', publisher.url='http://ada:${P}@localhost:x/in', basic.auth.password='${P}') define stream S (a int);"
    path = written("a.siddhi", text)
    assert check([path], False, ["P=S3cret"]) == 1
    said = capsys.readouterr().out
    assert "[OPTION_INVALID]" in said
    assert "S3cret" not in said


def test_settings_of_the_node_count_as_they_do_for_run(written, capsys):
    text = (
        "define stream S (a int);\n@PartitionById define aggregation G from S select sum(a) as n aggregate every sec;\n"
    )
    path = written("a.siddhi", text)
    assert check([path], False) == 1
    assert "the property shardId" in capsys.readouterr().out
    assert check([path], False, conf=["nadi.properties.shardId=1"]) == 0
    with pytest.raises(NadiError, match="INVALID_SETTING"):
        check([path], False, conf=["nadi.no.such=1"])


def test_a_warning_is_printed_and_keeps_the_status_at_0(written, capsys):
    text = "define stream S (a int);\ndefine table T (a int);\nfrom S update T set U.a = a on T.a == a;\n"
    path, wrong = written("a.siddhi", text), written("b.siddhi", text + "from S select b insert into O;\n")
    assert check([path], False) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{path}:3:21: warning: [SET_OF_OTHER_TABLE]")
    assert out.endswith("\n1 app checked, no errors, 1 warning\n")
    assert check([path, wrong], False) == 1
    assert capsys.readouterr().out.endswith("\n1 error in 1 of 2 apps, 2 warnings\n")
    assert check([path], True) == 0
    assert [record["severity"] for record in json.loads(capsys.readouterr().out)] == ["warning"]


# ---- what connectors may reach (finding N2)

TO_FILE = """@App:name('Out')
define stream S (a int);
@sink(type='file', file.uri='{path}', @map(type='json')) define stream T (a int);
from S select a insert into T;
"""


def told(capsys: pytest.CaptureFixture[str], *given: Any, **more: Any) -> list[tuple[str, int]]:
    check(*given, **more)
    return [(one["condition"], one["line"]) for one in json.loads(capsys.readouterr().out)]


def test_check_refuses_what_a_node_with_these_settings_would_refuse(written, tmp_path, capsys):
    app = written("Out.siddhi", TO_FILE.format(path=tmp_path / "out.jsonl"))
    refused = [("PATH_NOT_ALLOWED", 3)]
    assert told(capsys, [app], True) == []
    assert told(capsys, [app], True, conf=["nadi.connector.folders=/srv/in"]) == refused
    assert told(capsys, [app], True, conf=[f"nadi.connector.folders=/srv/in,{tmp_path}"]) == []
    config = written("deployment.yaml", f"nadi: {{connector: {{folders: {tmp_path / 'in'}}}}}\n")
    assert told(capsys, [app], True, config=config) == refused


def test_check_refuses_what_the_worker_of_a_home_would_refuse(written, tmp_path, capsys):
    home = tmp_path / "home"
    refused = [("PATH_NOT_ALLOWED", 3)]
    for path in ("out.jsonl", "home/security/users.json", "home/state/x"):
        app = written("Out.siddhi", TO_FILE.format(path=tmp_path / path))
        assert told(capsys, [app], True, home=home) == refused
    app = written("Out.siddhi", TO_FILE.format(path=home / "files" / "out.jsonl"))
    assert told(capsys, [app], True, home=home) == []


def test_an_app_for_a_worker_or_a_manager_has_a_name_and_a_dist_that_can_be_cut(written, tmp_path, capsys):
    nameless = written("a.siddhi", GOOD)
    assert told(capsys, [nameless], True) == []
    assert told(capsys, [nameless], True, home=tmp_path / "home") == [("APP_NAME_MISSING", 0)]
    divided = GOOD.replace("from S", "@dist(execGroup='g') from S")
    assert told(capsys, [written("b.siddhi", divided)], True) == [("APP_NAME_MISSING", 0)]
    text = "@app:name('Cut')\ndefine stream S (a int);\n@dist(execGroup='g', parallel='x')\nfrom S select a insert into T;\n"
    assert told(capsys, [written("Cut.siddhi", text)], True) == [("DIST_PARALLEL_INVALID", 3)]
