"""Revisions at a URL, from a deployment.yaml on: a process of its own writes them into an S3-compatible server, the command reads them."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from nadi.config import Persistence
from nadi.errors import NadiError
from nadi.io.remotefiles import inside
from nadi.persistence.revisions import newest_good
from nadi.persistence.stores import store_of
from nadi.pipeline.revision.revisionwriter import Plan, write_aside
from nadi.pipeline.spec import AppSpec

TEXT = "@app:name('A') define stream In (n int); from In select n insert into Out;"
CUT = {"n": 3, "epoch": 1, "clock": 5, "started": 0, "ends": {"0": {"0": 9}}}
KEY = "k" * 32


@pytest.fixture
def kept(s3: str) -> Persistence:
    return Persistence(enabled=True, keep=2, location=inside(s3, uuid.uuid4().hex[:8]), secret_key=KEY)


def made(kept: Persistence, folder: Path) -> str:
    spec = AppSpec("A", TEXT, str(folder / "state" / "A"))
    return write_aside(Plan(spec, str(folder / "log"), {}, CUT, kept, str(folder), "4.3.0"), folder).name


def test_a_process_of_its_own_writes_into_an_object_store_and_keeps_as_many_as_are_wanted(
    kept: Persistence, tmp_path: Path
) -> None:
    names = [made(kept, tmp_path) for _ in range(3)]
    store = store_of(kept, tmp_path)
    assert store.names("A") == names[1:]
    found, problems = newest_good(store, "A")
    assert found is not None
    assert (found.revision.name, found.revision.meta.cut, problems) == (names[2], CUT, [])
    with pytest.raises(NadiError, match="REVISION_NOT_SIGNED"):
        store_of(replace(kept, secret_key="x" * 32), tmp_path).manifest("A", names[2])


def test_the_command_lists_and_deletes_what_is_in_an_object_store(kept: Persistence, tmp_path: Path) -> None:
    names = [made(kept, tmp_path) for _ in range(2)]
    block = {"enabled": True, "config": {"location": kept.location, "secretKey": KEY}}
    deployment = tmp_path / "deployment.yaml"
    deployment.write_text(json.dumps({"state.persistence": block}))

    def nadi(*asked: str) -> str:
        command = [sys.executable, "-m", "nadi", "revision", *asked, "--config", str(deployment)]
        command += ["--state-dir", str(tmp_path / "state")]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert [row["revision"] for row in json.loads(nadi("list", "A", "--json"))] == names[::-1]
    nadi("delete", "A", names[0])
    assert store_of(kept, tmp_path).names("A") == names[1:]
