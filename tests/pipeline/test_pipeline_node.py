"""A node as a process: killed in the middle, stopped, started twice, with several apps."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline_reference import APP, delivered, expected, write_input

from nadi.errors import NadiError
from nadi.io.certificate import OwnCertificate
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText, NodeOptions, make_spec, node_lock
from nadi.pipeline.progress import read_progress
from nadi.pipeline.run import Node
from nadi.pipeline.spec import AppSpec

NAMES = ("k", "low", "high", "total")


def start(folder: Path, apps: list[str], endless: bool = False, **conf: str) -> subprocess.Popen[bytes]:
    files = []
    for i, text in enumerate(apps):
        files.append(folder / f"{i}.siddhi")
        files[-1].write_text(text)
    script = Path(__file__).with_name("pipeline_node.py")
    named = json.dumps({f"nadi.{k.replace('_', '.')}": v for k, v in conf.items()})
    arguments = [str(folder / "state"), "yes" if endless else "no", named, *map(str, files)]
    with (folder / "node.out").open("ab") as out:
        return subprocess.Popen([sys.executable, str(script), *arguments], stdout=out, stderr=out)


def tree(pid: int) -> set[int]:
    """The process, what it started, and the hosts of its JVM (which are nobody's children)."""
    parents, sessions = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            parents[int(path.name)] = int(fields[1])
            sessions[int(path.name)] = (path / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
    found, grew = {pid}, True
    while grew:
        more = {p for p, parent in parents.items() if parent in found} - found
        more |= {p for p, c in sessions.items() if b"nadi.pipeline.executor.host" in c and int(c[-2]) in found} - found
        found, grew = found | more, bool(more)
    return found


def alive(pids: set[int]) -> set[int]:
    found = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found.add(pid)
    return found


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes], folder: Path, seconds: float = 150) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert process.poll() is None, (folder / "node.out").read_text()
        assert time.monotonic() < end
        time.sleep(0.02)


def cut_of(folder: Path, app: str = "Rises") -> int:
    found = read_progress(folder / "state" / app)
    return -1 if found is None else found.n


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_killed_process_tree_leaves_nothing_running_and_the_next_start_goes_on_exactly(tmp_path: Path):
    text = APP.format(folder=tmp_path, endless="false")
    write_input(tmp_path / "in", 4000)
    for stop_at in (3, 7):
        process = start(tmp_path, [text], batch_events="100")
        until(lambda wanted=stop_at: cut_of(tmp_path) >= wanted, process, tmp_path)
        everything = tree(process.pid)
        assert len(everything) >= 4  # the node, the JVM, two hosts
        for pid in everything:
            with contextlib.suppress(ProcessLookupError):  # some end as soon as others do
                os.kill(pid, signal.SIGKILL)
        process.wait()
    process = start(tmp_path, [text], batch_events="100")
    assert process.wait(300) == 0, (tmp_path / "node.out").read_text()
    assert delivered(tmp_path / "out", NAMES) == expected(text, tmp_path / "in")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_only_the_driver_killed_takes_jvm_and_hosts_with_it_and_a_stopped_node_leaves_no_process(tmp_path: Path):
    texts = [
        APP.format(folder=tmp_path, endless="true"),
        APP.format(folder=tmp_path, endless="true").replace("'Rises'", "'Second'").replace("/out'", "/out2'"),
    ]
    write_input(tmp_path / "in", 1000)
    process = start(tmp_path, texts, endless=True, batch_events="100")
    until(lambda: cut_of(tmp_path) >= 2, process, tmp_path)
    everything = tree(process.pid)
    process.kill()
    process.wait()
    end = time.monotonic() + 30
    while alive(everything) and time.monotonic() < end:
        time.sleep(0.05)
    assert alive(everything) == set()
    process = start(tmp_path, texts, endless=True, batch_events="100")
    until(lambda: all(_took(tmp_path, app) == 1000 for app in ("Rises", "Second")), process, tmp_path)
    everything = tree(process.pid)
    process.terminate()
    assert process.wait(120) == 0, (tmp_path / "node.out").read_text()
    assert alive(everything) == set()
    assert json.loads((tmp_path / "node.out").read_text().splitlines()[-1]) == {"Rises": "stopped", "Second": "stopped"}
    for text, folder in zip(texts, ("out", "out2"), strict=True):
        assert delivered(tmp_path / folder, NAMES) == expected(text, tmp_path / "in")


def _took(folder: Path, app: str) -> int:
    found = read_progress(folder / "state" / app)
    return 0 if found is None else found.totals.events_in.get("In", 0)


def test_a_state_folder_in_use_is_refused_with_the_process_that_has_it(tmp_path: Path):
    with node_lock(tmp_path), pytest.raises(NadiError) as caught, node_lock(tmp_path):
        pass
    assert caught.value.condition == "NODE_LOCKED"
    assert caught.value.parameters["pid"] == str(os.getpid())


def test_settings_that_do_not_exist_or_are_no_numbers_are_refused(tmp_path: Path):
    with pytest.raises(NadiError) as unknown:
        NodeOptions(tmp_path, conf={"nadi.batch.event": "5"}).settings()
    with pytest.raises(NadiError) as wrong:
        NodeOptions(tmp_path, conf={"nadi.batch.events": "many"}).settings()
    assert unknown.value.condition == wrong.value.condition == "INVALID_SETTING"


@pytest.mark.parametrize("pair", [("connections", "0"), ("waiting", "7000000"), ("head", "0"), ("body", "-5")])
def test_bounds_of_http_sources_that_would_let_nothing_in_are_refused(tmp_path: Path, pair: tuple[str, str]):
    name, value = pair
    with pytest.raises(NadiError, match=rf"nadi\.http\.{name}") as failure:
        NodeOptions(tmp_path, conf={f"nadi.http.{name}": value}).listening()
    assert failure.value.condition == "INVALID_SETTING"


def test_https_sources_show_a_certificate_in_the_state_folder_unless_the_node_has_one(tmp_path: Path):
    made = NodeOptions(tmp_path).listening().certificate
    assert made is not None
    assert made.folder == tmp_path / "security"
    own = OwnCertificate(tmp_path / "own")
    assert NodeOptions(tmp_path, certificate=own).listening().certificate is own


def test_a_change_of_inputs_under_a_state_is_refused_and_buckets_stay_as_they_were(tmp_path: Path):
    text = APP.format(folder=tmp_path, endless="true")
    options = NodeOptions(tmp_path, connectors="pipeline_testlog")

    def spec(changed: str, cores: int) -> AppSpec:
        return make_spec(AppText(changed), plan_app(changed), options, cores, "")

    assert spec(text, 3).buckets == 3
    assert spec(text, 8).buckets == 3
    with pytest.raises(NadiError) as caught:
        spec(
            text.replace("stream In ", "stream Inn ").replace("k of In", "k of Inn").replace("from In#", "from Inn#"), 3
        )
    assert caught.value.condition == "APP_CHANGED"


def test_two_apps_of_one_name_are_refused_before_anything_starts(tmp_path: Path):
    text = AppText(APP.format(folder=tmp_path, endless="true"))
    with pytest.raises(NadiError) as caught:
        Node([text, text], NodeOptions(tmp_path / "state", connectors="pipeline_testlog")).run()
    assert caught.value.condition == "APP_TWICE"
    assert not (tmp_path / "state").exists()
