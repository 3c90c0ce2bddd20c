"""`nadi replay` over the state folder of an app that does not run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pipeline_history import COUNT, live, made
from typer.testing import CliRunner, Result

from nadi.cli.main import cli
from nadi.errors import NadiError
from nadi.io.journal import open_journal
from nadi.io.natsclient import api, shared
from nadi.io.natsserver import NatsServer
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import meta_of, write_revision
from nadi.pipeline.cutting.cutlog import CutLog, take_over
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.history.replay import Inputs, Replayer, logged
from nadi.pipeline.spec import AppSpec


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The file of an app that has run; its state folder is beside it."""
    spec = made(tmp_path)
    live(spec)
    path = tmp_path / "sums.siddhi"
    path.write_text(spec.text)
    return path


def replay(app: Path, *options: str) -> Result:
    words = ["replay", str(app), "--state-dir", str(app.parent / "state"), "--output", str(app.parent / "rows.jsonl")]
    return CliRunner().invoke(cli, [*words, "--conf", "nadi.buckets=2", *options])


def test_it_writes_the_rows_and_says_that_the_file_is_equal(app: Path):
    answer = replay(app)
    assert answer.exit_code == 0, answer.output
    rows = (app.parent / "rows.jsonl").read_text().splitlines()
    assert len(rows) == COUNT
    assert list(json.loads(rows[0])) == ["cut", "bucket", "stream", "group", "number", "timestamp", "event"]
    first, second = answer.output.splitlines()
    assert first == f"Sums: cuts 1 to 6 replayed, 60 events in, 60 rows out, in {app.parent / 'rows.jsonl'}"
    assert second == f"file sink of Out ({app.parent / 'out.jsonl'}): equal to what was emitted in cuts 1 to 6"


@pytest.mark.parametrize(
    ("options", "cuts"),
    [
        (("--from", "3", "--to", "4"), {3, 4}),
        (("--from", "1970-01-01T00:16:44"), {5, 6}),
        (("--to", "1970-01-01T01:16:42+01:00"), {1, 2}),
    ],
)
def test_a_stretch_is_given_by_cuts_or_times(app: Path, options: tuple[str, ...], cuts: set[int]):
    assert replay(app, *options).exit_code == 0
    assert {json.loads(line)["cut"] for line in (app.parent / "rows.jsonl").read_text().splitlines()} == cuts


def test_a_file_that_holds_something_else_ends_it_with_1(app: Path):
    out = app.parent / "out.jsonl"
    out.write_text(out.read_text().replace('"n":33,', '"n":39,'))
    answer = replay(app)
    assert answer.exit_code == 1
    assert "differs in cut 4: it has " in answer.output


def test_a_changed_text_shows_what_it_would_have_emitted(app: Path):
    app.write_text(app.read_text().replace("length(3)", "length(1)"))
    answer = replay(app)
    assert answer.exit_code == 1
    assert "where the replay gives" in answer.output


def test_refs_stand_for_what_the_deployment_has(app: Path):
    out = app.parent / "out.jsonl"
    written = f"type='file', file.uri='{out}'"
    assert written in app.read_text()
    app.write_text(app.read_text().replace(written, "ref='out'"))
    config = app.parent / "deployment.yaml"
    config.write_text(f"siddhi.refs: [{{ref: {{name: out, type: file, properties: {{file.uri: {out}}}}}}}]")
    answer = replay(app, "--config", str(config))
    assert answer.exit_code == 0, answer.exception
    assert "equal to what was emitted" in answer.output
    failure = replay(app).exception
    assert isinstance(failure, NadiError)
    assert failure.condition == "REF_UNKNOWN"


def test_a_stretch_without_cuts_is_said(app: Path):
    assert "no cut lies there" in replay(app, "--from", "50").output


def test_a_word_is_no_place(app: Path):
    answer = replay(app, "--from", "yesterday")
    assert answer.exit_code == 2
    assert "--from" in answer.output


def test_an_app_that_never_ran_is_named(app: Path):
    app.write_text(app.read_text().replace("'Sums'", "'Sumz'"))
    failure = replay(app).exception
    assert isinstance(failure, NadiError)
    assert failure.condition == "NO_STATE"
    assert "did you mean 'Sums'?" in str(failure)


def test_a_name_of_an_app_that_does_not_run_is_no_place_to_take_the_text_from(app: Path, monkeypatch):
    monkeypatch.chdir(app.parent)
    words = ["replay", "Sums", "--state-dir", "state", "--output", "rows.jsonl"]
    failure = CliRunner().invoke(cli, words).exception
    assert isinstance(failure, NadiError)
    assert failure.condition == "APP_NOT_RUNNING"


def revised(app: Path, *cuts: int) -> list[str]:
    """Revisions after these cuts, where the commands look for them."""
    spec = AppSpec("Sums", app.read_text(), str(app.parent / "state" / "Sums"), buckets=2, outputs=("Out",))
    replayer, names = Replayer(spec), []
    store = FileStore(app.parent / "state" / "siddhi-app-persistence")
    with Inputs(spec) as inputs:
        for before, cut in logged(CutLog(spec.place.state / "cuts", 0)):
            replayer.take(cut, inputs.read(before, cut))
            if cut.n in cuts:
                states = [kernel.dump() for kernel in replayer.kernels]
                names.append(write_revision(store, meta_of(replayer.app, cut.to_offset()), states, cut.clock))
    return names


def test_it_goes_on_from_a_revision_by_its_name_or_before_a_time(app: Path):
    name, _other = revised(app, 2, 4)
    whole = replayed(app)
    assert [row["cut"] for row in whole][:1] == [1]
    answer = replay(app, "--from", name)
    assert answer.exit_code == 0, answer.output
    assert rows(app) == [row for row in whole if row["cut"] > 2]
    assert answer.output.splitlines()[1] == "its state was that of a revision, after cut 2"
    assert answer.output.splitlines()[2].endswith("equal to what was emitted in cuts 3 to 6")
    answer = replay(app, "--from", "1970-01-01T00:16:44")
    assert "its state was that of a revision, after cut 4" in answer.output
    assert rows(app) == [row for row in whole if row["cut"] >= 5]
    assert "that of a revision" not in replay(app, "--from", "2").output


def replayed(app: Path) -> list[dict[str, Any]]:
    assert replay(app).exit_code == 0
    return rows(app)


def rows(app: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (app.parent / "rows.jsonl").read_text().splitlines()]


def test_a_revision_of_another_text_or_none_is_refused(app: Path):
    (name,) = revised(app, 2)
    app.write_text(app.read_text().replace("length(3)", "length(1)"))
    for given, condition in ((name, "REVISION_NOT_REPLAYABLE"), ("17__Sums", "REVISION_NOT_FOUND")):
        failure = replay(app, "--from", given).exception
        assert isinstance(failure, NadiError)
        assert failure.condition == condition
    answer = replay(app, "--from", "5")
    assert answer.exit_code == 1  # from the first cut, with the new text
    assert "REVISION_NOT_REPLAYABLE" in answer.output
    assert "another text of the app made it" in answer.output


JOURNALED = """@app:name('Posted')
@source(type='http', receiver.url='http://127.0.0.1:1/in', @map(type='json'))
define stream In (n long);
@sink(type='log') define stream Out (n long);
from In[n > 1L] select n insert into Out;
"""


def test_the_journal_of_an_app_that_does_not_run_is_opened_for_the_replay(tmp_path: Path):
    cuts = tmp_path / "state" / "Posted" / "cuts"
    with NatsServer(tmp_path / "state" / "nats") as server:
        bodies = [(1_000 + n, json.dumps({"event": {"n": n}}).encode(), {}) for n in range(4)]
        assert open_journal(server.url, "Posted").append(0, bodies) == 0
    log = CutLog(cuts, take_over(cuts))
    log.append(Cut(0, 1, 0, 0, {(0, 0): 0}))
    log.append(Cut(1, 1, 2_000, 1_000, {(0, 0): 4}))
    app = tmp_path / "posted.siddhi"
    app.write_text(JOURNALED)
    answer = replay(app)
    assert answer.exit_code == 0, answer.output
    assert [json.loads(line)["event"]["n"] for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == [2, 3]
    assert "log sink of Out: cannot be read back" in answer.output


def test_a_journal_that_no_longer_holds_what_came_after_the_revision_is_named(tmp_path: Path):
    state = tmp_path / "state"
    app = tmp_path / "posted.siddhi"
    app.write_text(JOURNALED)
    with NatsServer(state / "nats") as server:
        journal = open_journal(server.url, "Posted")
        for n in range(4):
            journal.append(0, [(1_000 + n, json.dumps({"event": {"n": n}}).encode(), {})])
        log = CutLog(state / "Posted" / "cuts", take_over(state / "Posted" / "cuts"))
        for n in range(3):
            log.append(Cut(n, 1, 1_100 * n, 1_000, {(0, 0): 2 * n}))
        spec = AppSpec("Posted", JOURNALED, str(state / "Posted"), journal=server.url, outputs=("Out",))
        replayer = Replayer(spec)
        with Inputs(spec) as inputs:
            before, cut = next(logged(log))
            replayer.take(cut, inputs.read(before, cut))
        meta = meta_of(replayer.app, cut.to_offset())
        states = [kernel.dump() for kernel in replayer.kernels]
        name = write_revision(FileStore(state / "siddhi-app-persistence"), meta, states, 5_000)
    answer = replay(app, "--from", name)
    assert answer.exit_code == 0, answer.output
    assert [row["event"]["n"] for row in rows(app)] == [2, 3]
    with NatsServer(state / "nats") as server:
        shared(server.url).call(lambda nc: api(nc, "STREAM.PURGE.NADI_Posted", {"seq": 4}))
    failure = replay(app, "--from", name).exception
    assert isinstance(failure, NadiError)
    assert failure.condition == "LOG_TRUNCATED"
    assert failure.parameters["position"] == 2
