"""`nadi test`: scenarios beside apps."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from nadi.cli.main import cli
from nadi.cli.test import run_all
from nadi.errors import NadiError

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"

APP = """define stream Payments (card string, amount double);
@primaryKey('card') define table Blocked (card string);
@info(name = 'sums')
from Payments#window.time(${SPAN})
select card, sum(amount) as total
group by card
having total > 1000.0
insert into Alerts;
from Alerts select card insert into Blocked;
"""
GOOD = """variables: {SPAN: 1 min}
scenarios:
  - name: two payments within a minute
    steps:
      - send: {Payments: [c1, 900.0]}
      - {at: 20 sec, send: {Payments: {card: c1, amount: 950}}}
      - expect: {Alerts: [{at: 20 sec, row: [c1, 1850.0]}]}
      - query: from Blocked
        gives: {rows: [[c1]], unordered: true}
      - query: delete Blocked on Blocked.card == 'c1'
      - {query: from Blocked, gives: []}
  - name: two payments a minute apart
    variables: {SPAN: 30 sec}
    steps:
      - send: {Payments: [c1, 900.0]}
      - advance: 30 sec
      - send: {Payments: [c1, 900.0]}
    expect: {Alerts: []}
"""
BAD = """variables: {SPAN: 1 min}
scenarios:
  - name: wrong
    steps:
      - send: {Payments: [[c1, 2000], [c2, 3000]]}
      - send: {Payments: [c3, 4000]}
    expect:
      Alerts: [[c1, 2000], [c2, 3001]]
"""


@pytest.fixture
def folder(tmp_path: Path):
    def write(**files: str) -> Path:
        (tmp_path / "fraud.siddhi").write_text(APP, encoding="utf-8")
        for name, text in files.items():
            (tmp_path / f"fraud{'' if name == 'plain' else '.' + name}.test.yaml").write_text(text, encoding="utf-8")
        return tmp_path

    return write


def _printed(capsys, *arguments) -> tuple[int, str]:
    status = run_all(*arguments)
    return status, capsys.readouterr().out


def test_scenarios_that_pass_give_a_line_each_and_status_0(folder, capsys):
    place = folder(plain=GOOD)
    status, out = _printed(capsys, [place], "", False)
    file = place / "fraud.test.yaml"
    assert out == (
        f"passed  {file}: two payments within a minute\npassed  {file}: two payments a minute apart\n2 scenarios passed\n"
    )
    assert status == 0


def test_what_differs_is_printed_side_by_side_with_line_and_query(folder, capsys):
    place = folder(more=BAD)
    status, out = _printed(capsys, [place], "", False)
    assert status == 1
    assert (
        out
        == f"""FAILED  {place}/fraud.more.test.yaml: wrong
  {place}/fraud.more.test.yaml:8:
    stream Alerts: 1 differs, 1 row too many (1 as expected)
        expected      came
      = ["c1", 2000]  ["c1", 2000.0]
      ≠ ["c2", 3001]  ["c2", 3000.0]
      +               ["c3", 4000.0]
      Alerts comes from
        query 'sums', line 3 of {place}/fraud.siddhi
          @info(name = 'sums')
          from Payments#window.time(1 min)
          select card, sum(amount) as total
          group by card
          having total > 1000.0
          insert into Alerts
1 scenario, 1 failed
"""
    )


def test_a_terminal_gets_a_table(folder):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    assert run_all([folder(more=BAD)], "", False, console) == 1
    drawn = screen.getvalue()
    assert '≠ │ ["c2", 3001] │ ["c2", 3000.0]' in drawn
    assert "query 'sums', line 3" in drawn


def test_tools_get_an_object(folder, capsys):
    status, out = _printed(capsys, [folder(plain=GOOD, more=BAD)], "", True)
    made = json.loads(out)
    assert (status, made["passed"], made["failed"]) == (1, 2, 1)
    (wrong,) = [s for s in made["scenarios"] if not s["passed"]]
    assert (wrong["line"], wrong["name"], wrong["error"]) == (3, "wrong", None)
    (difference,) = wrong["differences"]
    assert difference["line"] == 8
    assert [q["query"] for q in difference["queries"]] == ["'sums'"]
    assert {row["mark"] for row in difference["rows"]} <= {"=", "≠", "-", "+"}


def test_some_scenarios_can_be_selected_by_a_part_of_their_name(folder, capsys):
    place = folder(plain=GOOD, more=BAD)
    status, out = _printed(capsys, [place], "MINUTE apart", False)
    assert (status, out.count("passed  ")) == (0, 1)
    assert _printed(capsys, [place], "more.test", False)[0] == 1
    with pytest.raises(NadiError, match=r"NO_TESTS.*'nothing such'"):
        run_all([place], "nothing such", False)


def test_a_folder_without_tests_is_an_error(tmp_path):
    with pytest.raises(NadiError, match="NO_TESTS"):
        run_all([tmp_path], "", False)
    answer = CliRunner().invoke(cli, ["test", str(tmp_path)])
    assert answer.exit_code == 1


def test_an_app_gets_no_variable_of_the_environment_that_is_not_named(folder, monkeypatch):
    monkeypatch.setenv("SPAN", "1 min")
    place = str(folder(good=GOOD.removeprefix("variables: {SPAN: 1 min}\n")))
    refused = CliRunner().invoke(cli, ["test", place])
    assert (refused.exit_code, "[VARIABLE_NOT_SET]" in refused.output) == (1, True)
    assert CliRunner().invoke(cli, ["test", place, "--env", "SPAN"]).output.endswith("2 scenarios passed\n")
    assert CliRunner().invoke(cli, ["test", place, "--env", "SPAN=1 min"]).exit_code == 0


def test_a_file_goes_before_what_the_command_says(folder):
    assert CliRunner().invoke(cli, ["test", str(folder(good=GOOD)), "--env", "SPAN=1 millisec"]).exit_code == 0


def test_a_file_that_cannot_be_read_fails_and_the_others_run(folder, capsys):
    place = folder(plain=GOOD, broken="scenarios:\n  - nmae: x\n", lost="app: lost.siddhi\nscenarios: []\n")
    status, out = _printed(capsys, [place], "", False)
    assert status == 1
    assert f"{place}/fraud.broken.test.yaml:2:5: [TEST_MALFORMED] unknown key 'nmae' (did you mean 'name'?)" in out
    assert f"{place}/fraud.lost.test.yaml:1:6: [APP_NOT_READABLE]" in out
    assert out.endswith("4 scenarios, 2 failed\n")


@pytest.mark.parametrize(
    ("steps", "place", "said"),
    [
        (
            "- send: {Payment: [c1, 1]}",
            "5:16",
            "[STREAM_NOT_DEFINED] 'Payment' is not defined (did you mean 'Payments'?)",
        ),
        ("- send: {Payments: {crd: c1}}", "5:16", "[ATTRIBUTE_NOT_FOUND] 'crd'"),
        (
            "- send: {Payments: [c1]}",
            "5:16",
            "[TEST_ROW] a row of 'Payments' has 2 values (card, amount), this one has 1",
        ),
        ("- {at: 5 lightyears}", "5:10", "[TEST_TIME]"),
        ("- {query: from Nowhere, gives: []}", "5:17", "'Nowhere' is not a table, window or aggregation"),
    ],
)
def test_mistakes_of_a_step_are_told_with_their_line(folder, capsys, steps, place, said):
    text = f"variables: {{SPAN: 1 min}}\nscenarios:\n  - name: a\n    steps:\n      {steps}\n"
    made = folder(plain=text)
    status, out = _printed(capsys, [made], "", False)
    assert status == 1
    assert said in out
    assert f"fraud.test.yaml:{place}: " in out


def test_an_app_that_cannot_be_made_can_be_expected(folder, capsys):
    text = """scenarios:
  - {name: as expected, variables: {SPAN: "'a'"}, fails: WINDOW_ARGUMENTS}
  - {name: another, variables: {SPAN: "'a'"}, fails: {condition: SYNTAX}}
  - {name: none, variables: {SPAN: 1 min}, fails: {message: window}}
  - {name: not expected, variables: {SPAN: "'a'"}}
"""
    from nadi.testing import AppUnderTest

    with pytest.raises(NadiError) as caught:
        AppUnderTest(APP, variables={"SPAN": "'a'"})
    status, out = _printed(capsys, [folder(plain=text.replace("WINDOW_ARGUMENTS", caught.value.condition))], "", False)
    assert status == 1
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("passed", "FAILED"))] == [
        "passed",
        "FAILED",
        "FAILED",
        "FAILED",
    ]
    assert "the app cannot be made for another reason than SYNTAX" in out
    assert "the app can be made; expected was" in out


def test_errors_and_rows_that_nobody_expected_fail_a_scenario(folder, capsys):
    text = """variables: {SPAN: 1 sec}
scenarios:
  - name: the card is blocked already
    steps:
      - send: {Payments: [c1, 2000]}
      - {at: 1 min, send: {Payments: [c1, 2000]}}
      - expect: {Alerts: [[c1, 2000], [c1, 2000]]}
    errors: [{stream: Blocked, message: c1}]
  - name: the same without a word about it
    steps:
      - send: {Payments: [c1, 2000]}
      - expect: {Alerts: [[c1, 2000]]}
      - {at: 1 min, send: {Payments: [c1, 2000]}}
"""
    status, out = _printed(capsys, [folder(plain=text)], "", False)
    assert status == 1
    assert "passed" in out.splitlines()[0]
    assert "at the end, stream Alerts: 1 row too many" in out
    assert "at the end, errors: 1 came, 0 expected" in out


def test_fault_streams_are_streams(tmp_path, capsys):
    (tmp_path / "f.siddhi").write_text(
        "@OnError(action='STREAM') define stream S (s string, v object);"
        " from S select json:getInt(s, '$.a') as n insert into Out;",
        encoding="utf-8",
    )
    (tmp_path / "f.test.yaml").write_text(
        'scenarios:\n  - name: a\n    steps: [{send: {S: [\'{"a": 1}\', 1]}}]\n    expect: {Out: [[1]], "!S": []}\n',
        encoding="utf-8",
    )
    assert run_all([tmp_path], "", False) == 0


def test_the_tests_of_the_demo_pass():
    answer = CliRunner().invoke(cli, ["test", str(FLIGHTS)])
    assert answer.exit_code == 0, answer.output
    assert answer.output.endswith("3 scenarios passed\n")
