"""`nadi explain` on a file."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from nadi.cli.explain import explain, explain_json
from nadi.cli.main import cli
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


DIST = """@app:name('Cut') @source(type='http', receiver.url='${URL}') define stream S (k string, v int);
@dist(execGroup='g', parallel='2') from S[v > 1] select * insert into O;
"""


def test_dist_shows_how_a_cluster_runs_the_app_and_writes_the_picture_and_the_partial_apps(tmp_path):
    path, picture, folder = tmp_path / "cut.siddhi", tmp_path / "cut.svg", tmp_path / "apps"
    path.write_text(DIST, encoding="utf-8")
    asked = ["explain", str(path), "--dist", "--env", "URL=http://h", "--svg", str(picture), "--apps", str(folder)]
    told = CliRunner().invoke(cli, [*asked, "--transport", "kafka"])
    assert told.exit_code == 0, told.output
    assert told.output.startswith("app Cut: 2 groups, 3 instances, 1 channel on kafka\n")
    assert picture.read_text(encoding="utf-8").startswith("<svg ")
    assert sorted(f.name for f in folder.iterdir()) == [
        "Cut-g-1.siddhi",
        "Cut-g-2.siddhi",
        "Cut-passthrough-S-1-1.siddhi",
    ]
    assert "${URL}" in (folder / "Cut-passthrough-S-1-1.siddhi").read_text(encoding="utf-8")


def test_dist_for_tools_is_a_json_object(tmp_path):
    path = tmp_path / "cut.siddhi"
    path.write_text(DIST.replace("${URL}", "http://h"), encoding="utf-8")
    told = json.loads(CliRunner().invoke(cli, ["explain", str(path), "--dist", "--json"]).output)
    assert [(g["name"], g["receiver"], len(g["instances"])) for g in told["groups"]] == [
        ("Cut-passthrough-S-1", True, 1),
        ("Cut-g", False, 2),
    ]
    assert told["groups"][1]["instances"][1]["keyGroups"] == [64, 127]
    assert told["channels"][0]["places"] == ["Cut_S"]


def test_dist_shows_what_a_spark_cluster_runs(tmp_path):
    path, folder = tmp_path / "cut.siddhi", tmp_path / "apps"
    path.write_text(DIST.replace("${URL}", "http://h"), encoding="utf-8")
    told = CliRunner().invoke(cli, ["explain", str(path), "--dist", "--spark", "--apps", str(folder)])
    assert told.output.startswith("app Cut: 2 groups, 2 instances, 1 channel on nats, run by a Spark cluster\n")
    assert "group Cut-g: 1 instance of 2 buckets\n" in told.output
    assert "@app:spark(pool='own', buckets='2')" in (folder / "Cut-g-1.siddhi").read_text(encoding="utf-8")
    assert CliRunner().invoke(cli, ["explain", str(path), "--spark"]).exit_code == 2


@pytest.mark.parametrize("option", ["--svg", "--apps"])
def test_a_picture_and_partial_apps_go_with_dist_only(tmp_path, option):
    path = tmp_path / "cut.siddhi"
    path.write_text(DIST.replace("${URL}", "http://h"), encoding="utf-8")
    told = CliRunner().invoke(cli, ["explain", str(path), option, str(tmp_path / "x")])
    assert told.exit_code == 2
    assert not (tmp_path / "x").exists()


def test_what_cannot_be_cut_is_told_with_its_place(tmp_path):
    path = tmp_path / "cut.siddhi"
    path.write_text(DIST.replace("${URL}", "http://h").replace("'2'", "'x'"), encoding="utf-8")
    told = CliRunner().invoke(cli, ["explain", str(path), "--dist"])
    assert isinstance(told.exception, NadiError)
    assert "cut.siddhi:2:22: [DIST_PARALLEL_INVALID]" in str(told.exception)


MOVING = """@app:name('Moving')
@source(type='file', dir.uri='/data/in') define stream S (k string, v int);
@sink(type='log')
@sink(type='http', publisher.url='http://h')
@sink(type='file', file.uri='/data/out')
@sink(type='nats', destination='o')
define stream O (k string, v int);
@dist(execGroup='g') from S[v > 1] select * insert into O;
"""


def test_dist_names_what_other_workers_do_not_find_and_what_does_not_refuse_a_run_that_was_replaced(tmp_path):
    path = tmp_path / "moving.siddhi"
    path.write_text(MOVING, encoding="utf-8")
    told = CliRunner().invoke(cli, ["explain", str(path), "--dist"]).output
    _before, _, notes = told.partition("\nnotes\n")
    assert [
        line.split(":")[0].split(" needs ")[0].split(" does ")[0].split(" writes ")[0] for line in notes.splitlines()
    ] == [
        "  the file source of S",
        "  the log sink of O",
        "  the http sink of O",
        "  the file sink of O",
    ]
    assert "TARGET_CHANGED" in notes


STORED = """@app:name('Kept')
@source(type='http', receiver.url='http://h') define stream S (k string, v double);
define stream Ask (k string);
@sink(type='log') define stream O (k string, total double);
@store(type='rdbms', jdbc.url='jdbc:sqlite:x.db') define aggregation A from S select k, sum(v) as total group by k aggregate every sec ... day;
@dist(execGroup='g', parallel='2') from Ask join A on Ask.k == A.k within 0L, 9L per 'days' select Ask.k, A.total insert into O;
"""


def test_dist_shows_how_an_app_is_cut_that_nodes_cannot_run_yet_and_says_so(tmp_path):
    path = tmp_path / "kept.siddhi"
    path.write_text(STORED, encoding="utf-8")
    told = CliRunner().invoke(cli, ["explain", str(path), "--dist"])
    assert told.exit_code == 0, told.exception
    assert "group Kept_aggregation-A: 1 instance" in told.output
    assert "'A' is an aggregation with a @store, which nodes do not run yet" in told.output
    assert "the log sink of O" in told.output
