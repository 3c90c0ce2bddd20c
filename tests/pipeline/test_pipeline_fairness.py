"""Two apps on one node with two slots by its master: what one of them waits for, or computes, does not hold the other one up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pipeline_bucket import gone
from pipeline_reference import APP, delivered, expected, write_input
from test_pipeline_node import NAMES, cut_of, start, until

from nadi.pipeline.coordinator.conduct import CRASHES
from nadi.pipeline.hosting.hostclient import hosts_folder
from nadi.pipeline.live import read_live
from nadi.pipeline.session import write_pools

CUTS = 8
WITHIN = 90.0  # seconds, for all of them

LIGHT = """@app:name('Light')
@source(type='test', file='{folder}/light', endless='true') define stream In (k string, n long);
@sink(type='test', file='{folder}/out-light') define stream Out (k string, n long);
from In select k, n insert into Out;"""


@contextmanager
def node(folder: Path, apps: list[str], **conf: str) -> Iterator[subprocess.Popen[bytes]]:
    """A node of endless apps, ended afterwards, and its log looked at."""
    process = start(folder, apps, endless=True, buckets="2", hosts="2", **conf)
    try:
        yield process
        process.terminate()
        assert process.wait(120) == 0, (folder / "node.out").read_text()
    finally:
        process.kill()
        process.wait()
    said = (folder / "state" / "logs" / "spark.log").read_text()
    assert "FairSchedulableBuilder" not in said  # it warns of pools that nobody has named


def goes_on(folder: Path, process: subprocess.Popen[bytes], app: str, log: Path) -> None:
    """Give an app events again and again: each time it takes a cut."""
    for _ in range(CUTS):
        before = cut_of(folder, app)
        time = len(log.read_text().splitlines()) if log.exists() else 0
        with log.open("a") as lines:
            lines.write(f"{2_000_000_000 + time}\t{json.dumps(['a', time])}\n")
        until(lambda before=before: cut_of(folder, app) > before, process, folder, WITHIN)


SHARING = pytest.mark.parametrize(
    ("pools", "buckets"), [("false", (0, 1)), ("true", (0,))], ids=["own queries", "one query"]
)
"""In a shared query the buckets of an app are in one host, where they take their turns."""


@SHARING
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_an_app_goes_on_while_the_sink_of_another_waits_in_all_its_buckets(
    tmp_path: Path, pools: str, buckets: tuple[int, ...]
):
    hold = tmp_path / "hold"
    waiting = APP.replace("file='{folder}/out'", "file='{folder}/out', hold='{folder}/hold'")
    waiting = waiting.format(folder=tmp_path, endless="true")
    (tmp_path / "light").touch()
    write_input(tmp_path / "in", 500)
    hold.touch()
    with node(tmp_path, [waiting, LIGHT.format(folder=tmp_path)], pools=pools) as process:
        until(lambda: all(Path(f"{hold}-{bucket}").exists() for bucket in buckets), process, tmp_path)
        stands = cut_of(tmp_path)
        goes_on(tmp_path, process, "Light", tmp_path / "light")
        assert cut_of(tmp_path) == stands
        hold.unlink()
        until(lambda: cut_of(tmp_path) > stands, process, tmp_path)
    assert delivered(tmp_path / "out", NAMES) == expected(waiting, tmp_path / "in")


@SHARING
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_light_app_goes_on_while_the_kernels_of_a_heavy_one_compute_in_every_host(
    tmp_path: Path, pools: str, buckets: tuple[int, ...]
):
    busy = tmp_path / "busy"
    heavy = APP.replace("'Rises'", "'Heavy'").format(folder=tmp_path, endless="true")
    (tmp_path / "light").touch()
    write_input(tmp_path / "in", 500)
    busy.touch()
    conf = {"engine": "pipeline_busy", "properties_busy": str(busy), "pools": pools}
    with node(tmp_path, [heavy, LIGHT.format(folder=tmp_path)], **conf) as process:
        until(lambda: all(Path(f"{busy}-{bucket}").exists() for bucket in buckets), process, tmp_path)
        goes_on(tmp_path, process, "Light", tmp_path / "light")
        assert cut_of(tmp_path, "Heavy") < 1
        busy.unlink()
        until(lambda: cut_of(tmp_path, "Heavy") >= 1, process, tmp_path)
    assert delivered(tmp_path / "out", NAMES) == expected(heavy, tmp_path / "in")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_an_app_with_which_its_host_dies_again_goes_on_in_one_of_its_own(tmp_path: Path):
    busy = tmp_path / "busy"
    heavy = APP.replace("'Rises'", "'Heavy'").format(folder=tmp_path, endless="true")
    (tmp_path / "light").touch()
    write_input(tmp_path / "in", 500)
    busy.touch()
    conf = {"engine": "pipeline_busy", "properties_busy": str(busy)}
    with node(tmp_path, [heavy, LIGHT.format(folder=tmp_path)], **conf) as process:
        for _ in range(CRASHES):
            at_work = Path(f"{busy}-0")
            until(at_work.exists, process, tmp_path)
            kill_host_of(tmp_path, "Heavy")
            at_work.unlink()
        until(lambda: host_of(tmp_path, "Heavy") >= 2, process, tmp_path)
        until(Path(f"{busy}-0").exists, process, tmp_path)
        goes_on(tmp_path, process, "Light", tmp_path / "light")
        assert host_of(tmp_path, "Light") < 2
        assert cut_of(tmp_path, "Heavy") < 1
        busy.unlink()
        until(lambda: cut_of(tmp_path, "Heavy") >= 1, process, tmp_path)
    assert delivered(tmp_path / "out", NAMES) == expected(heavy, tmp_path / "in")


def host_of(folder: Path, app: str) -> int:
    """The host that serves bucket 0 of an app; -1 where it does not run just now."""
    live = read_live(folder / "state" / app)
    return -1 if live is None else live.spec.host_of(0)


def kill_host_of(folder: Path, app: str) -> None:
    live = read_live(folder / "state" / app)
    assert live is not None
    pid = int((hosts_folder(live.jvm) / f"{live.spec.host_of(0)}.alive").read_text())
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)


def test_pools_of_any_name_are_written_as_xml(tmp_path: Path):
    names = ["A", 'of "x" & <y>', "Größe"]
    assert [p.get("name") for p in ElementTree.parse(write_pools(tmp_path, names)).getroot()] == names
