"""`nadi app`: what the commands print and refuse; the node is made up."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nadi.cli.main import cli
from nadi.errors import NadiError, error
from nadi.pipeline.node import AppExit, AppProgress, AppText, node_lock
from nadi.pipeline.nodesocket import NodeSocket

APP = "@app:name('{name}') define stream S (n int); from S select n insert into O;\n"


class Node:
    """What a node is asked, and what it answers: apps run but those of which something else is said."""

    def __init__(self) -> None:
        self.added: list[AppText] = []
        self.removed: list[str] = []
        self.answers: dict[str, AppProgress | NadiError] = {}
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()

    def add(self, text: AppText) -> AppProgress:
        self.added.append(text)
        self.asked.set()
        assert self.may_answer.wait(60)
        name = text.text.split("'")[1]
        answer = self.answers.get(name, AppProgress(name, "running"))
        if isinstance(answer, NadiError):
            raise answer
        return answer

    def remove(self, name: str) -> AppExit:
        self.removed.append(name)
        return AppExit(name, "stopped", AppProgress(name, "stopped"))


@contextmanager
def node(state: Path) -> Iterator[Node]:
    """A node that answers on a state folder, for the time of a block."""
    made = Node()
    with node_lock(state), NodeSocket(state, made.add, made.remove):
        yield made


def files(folder: Path, *names: str) -> list[Path]:
    made = [folder / f"{name}.siddhi" for name in names]
    for path in made:
        path.write_text(APP.format(name=path.stem))
    return made


def nadi(*words: object) -> Any:
    return CliRunner().invoke(cli, [str(w) for w in words])


def test_each_app_is_told_of_as_it_is_taken_and_one_that_is_refused_keeps_no_other_one_out(tmp_path: Path):
    paths = files(tmp_path, "One", "Two", "Three")
    with node(tmp_path / "state") as made:
        made.answers["Two"] = error("APP_RUNS", app="Two", folder="state")
        made.answers["Three"] = AppProgress("Three", "waiting", last_error="[SPARK_FAILED] it broke\nmore of it")
        done = nadi("app", "add", *paths, "--state-dir", tmp_path / "state")
    assert done.exit_code == 1
    assert done.stdout == "One: running\nThree: waiting for its next attempt: [SPARK_FAILED] it broke\n"
    assert "[APP_RUNS]" in done.stderr
    assert [text.file for text in made.added] == [str(p) for p in paths]


def test_refs_stand_for_what_the_deployment_has_and_their_options_are_not_in_the_text(tmp_path: Path):
    (path,) = files(tmp_path, "One")
    path.write_text(path.read_text().replace("define", "@sink(ref='out', @map(type='json')) define"))
    config = tmp_path / "deployment.yaml"
    options = "{publisher.url: 'http://127.0.0.1:1/', basic.auth.username: u, basic.auth.password: s3cret}"
    config.write_text(f"siddhi.refs: [{{ref: {{name: out, type: http, properties: {options}}}}}]")
    with node(tmp_path / "state") as made:
        unknown = nadi("app", "add", path, "--state-dir", tmp_path / "state")
        done = nadi("app", "add", path, "--state-dir", tmp_path / "state", "--config", config)
    assert isinstance(unknown.exception, NadiError)
    assert unknown.exception.condition == "REF_UNKNOWN"
    assert done.exit_code == 0, done.exception
    (text,) = made.added
    assert "s3cret" not in text.text
    assert "s3cret" in text.filled


def test_an_app_is_removed_by_its_name(tmp_path: Path):
    with node(tmp_path / "state") as made:
        done = nadi("app", "remove", "One", "--state-dir", tmp_path / "state")
    assert (done.exit_code, done.stdout, made.removed) == (0, "One: stopped\n", ["One"])


def test_a_text_that_is_wrong_is_refused_before_the_node_is_asked_for_any_app(tmp_path: Path):
    right, wrong = files(tmp_path, "Right", "Wrong")
    wrong.write_text(APP.format(name="Wrong").replace("from S", "from T"))
    with node(tmp_path / "state") as made:
        done = nadi("app", "add", right, wrong, "--state-dir", tmp_path / "state")
    assert isinstance(done.exception, NadiError)
    assert done.exception.condition == "STREAM_NOT_DEFINED"
    assert made.added == []


def test_variables_are_replaced_where_the_command_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (path,) = files(tmp_path, "One")
    path.write_text(
        "@app:description('${CITY}') @sink(type='log', prefix='${WHERE}') define stream O (n int);"
        "define stream S (n int); from S select n insert into O;"
    )
    monkeypatch.setenv("CITY", "Bonn")
    with node(tmp_path / "state") as made:
        nadi("app", "add", path, "--state-dir", tmp_path / "state", "--env", "CITY", "--env", "WHERE=there")
    assert "'Bonn'" in made.added[0].text
    assert "'${WHERE}'" in made.added[0].text
    assert made.added[0].variables == {"WHERE": "there"}


def test_without_a_node_the_commands_say_so(tmp_path: Path):
    (path,) = files(tmp_path, "One")
    for words in (("add", path), ("remove", "One")):
        done = nadi("app", *words, "--state-dir", tmp_path / "state")
        assert isinstance(done.exception, NadiError)
        assert done.exception.condition == "NODE_NOT_RUNNING"


def test_ctrl_c_ends_the_command_with_a_sentence_and_the_node_goes_on(tmp_path: Path):
    (path,) = files(tmp_path, "One")
    with node(tmp_path / "state") as made:
        made.may_answer.clear()
        command = [sys.executable, "-m", "nadi", "app", "add", str(path), "--state-dir", str(tmp_path / "state")]
        asking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert made.asked.wait(60)
        asking.send_signal(signal.SIGINT)
        said, complaint = asking.communicate(timeout=60)
        made.may_answer.set()
    assert (asking.returncode, said) == (130, "")
    assert complaint == f"the node goes on with {path}; nobody waits for it any more\n"
