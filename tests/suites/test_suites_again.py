"""What fails is run again: planted tests in a project of their own, run as `make test` runs ours."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.suites.processes import Processes
from tests.suites.run import Runner, Verdict
from tests.suites.summary import summary
from tests.suites.table import COMPUTES, Suite

HERE = Path(__file__).parents[2]
# Fails until somebody has run it so many times.
FAILS = """
from pathlib import Path

def fails(name, times):
    count = Path(__file__).parent / name
    before = int(count.read_text()) if count.exists() else 0
    count.write_text(str(before + 1))
    return before < times
"""
SEEDED = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=None)

@pytest.fixture
def seed(request):
    given = request.config.getoption("seed")
    value = 4711 if given is None else given
    request.node.user_properties.append(("seed", value))
    return value
"""

Project = Callable[..., Path]
Run = Callable[..., tuple[Verdict, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Write the files given and run them as suites; -> what came out, and what is shown of it."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")

    def runs(*suites: Suite, **files: str) -> tuple[Verdict, str]:
        project = tmp_path / "project"
        project.mkdir()
        (project / "pytest.ini").write_text("[pytest]\n")
        for name, text in {"counts": FAILS, **files}.items():
            (project / f"{name}.py").write_text(text)
        verdict = Runner(Processes(project, tmp_path / "outputs")).run(suites or (Suite("planted", 60, ()),))
        return verdict, "\n".join(summary(verdict, tmp_path / "outputs"))

    return runs


def test_a_test_that_fails_once_is_flaky_and_its_name_and_output_are_shown(run: Run):
    verdict, shown = run(
        test_a="from counts import fails\ndef test_it():\n print('looked')\n assert not fails('a', 1)\ndef test_more(): pass\n"
    )
    assert verdict.green
    assert [one.test for one in verdict.flaky] == ["test_a.py::test_it"]
    last = shown.splitlines()[-1]
    assert last.startswith("FLAKY 1: test_a.py::test_it (outputs: ")
    assert "looked" in Path(last.partition("outputs: ")[2].rstrip(")")).read_text()


def test_a_test_that_fails_twice_is_flaky_and_one_that_fails_three_times_is_red(run: Run):
    verdict, _shown = run(
        test_a="from counts import fails\ndef test_it(): assert not fails('a', 2)\n",
        test_b="from counts import fails\ndef test_it(): assert not fails('b', 3)\n",
    )
    assert [one.test for one in verdict.flaky] == ["test_a.py::test_it"]
    assert [one.test for one in verdict.red] == ["test_b.py::test_it"]


def test_a_wrong_test_is_red(run: Run):
    verdict, shown = run(test_a="def test_it(): assert 1 == 2\ndef test_more(): pass\n")
    assert not verdict.green
    assert "RED 1: test_a.py::test_it" in shown


def test_a_test_is_run_again_with_its_whole_file(run: Run):
    """The second test passes behind the first one only: it fails alone, and passes with its file."""
    text = "seen = []\ndef test_first(): seen.append(1)\ndef test_second(): assert seen and not fails('a', 1)\n"
    verdict, _shown = run(test_a="from counts import fails\n" + text)
    assert verdict.green
    assert [one.test for one in verdict.flaky] == ["test_a.py::test_second"]


def test_a_round_with_dice_is_run_again_with_the_same_dice(run: Run):
    luck = "from counts import fails\ndef test_luck(seed): assert seed == 4711 and not fails('l', 1)\n"
    wrong = "def test_wrong(seed): assert seed != 4711\n"
    verdict, shown = run(conftest=SEEDED, test_a=luck + wrong)
    assert [one.name for one in verdict.flaky] == ["test_a.py::test_luck --seed 4711"]
    assert [one.name for one in verdict.red] == ["test_a.py::test_wrong --seed 4711"]
    assert "RED 1: test_a.py::test_wrong --seed 4711" in shown


def test_more_than_twenty_failures_are_red_at_once(run: Run):
    text = "import pytest\nfrom counts import fails\n@pytest.mark.parametrize('n', range(21))\ndef test_it(n): assert not fails(str(n), 1)\n"
    verdict, shown = run(test_a=text)
    assert len(verdict.red) == 21
    assert "BROKEN 21 tests failed" in shown


def test_an_error_of_collection_is_red_at_once(run: Run):
    verdict, shown = run(test_a="import nothing_of_that_name\n", test_b="def test_it(): pass\n")
    assert not verdict.green
    assert "nothing_of_that_name" in shown


@pytest.mark.parametrize("processes", [0, 2])
def test_a_process_of_pytest_that_dies_is_red_at_once(run: Run, processes: int):
    text = "import os\nfrom counts import fails\ndef test_it():\n if fails('a', 1): os._exit(3)\n"
    verdict, shown = run(Suite("planted", 60, (), processes), test_a=text, test_b="def test_it(): pass\n")
    assert not verdict.green
    assert "BROKEN planted: " in shown


def test_suites_of_two_lanes_run_side_by_side_and_each_is_in_the_table(run: Run):
    """Each waits for the other one to come."""
    text = """
import time
from pathlib import Path
def test_it():
    (Path(__file__).parent / "{mine}").touch()
    while not (Path(__file__).parent / "{other}").exists():
        time.sleep(0.01)
"""
    suites = (Suite("one", 60, ("test_a.py",)), Suite("other", 0, ("test_b.py",), lane=COMPUTES))
    verdict, shown = run(*suites, test_a=text.format(mine="a", other="b"), test_b=text.format(mine="b", other="a"))
    assert verdict.green
    one, other, dearest = shown.splitlines()[1:]
    assert one.startswith("one ")
    assert one.endswith("1 passed")
    assert other.endswith("1 passed over its budget")
    lines = Path(dearest.removeprefix("the dearest tests: ")).read_text().splitlines()
    names = [line.split()[2] for line in lines if line]
    tests, files = names[1:3], names[4:]
    assert sorted(tests) == ["test_a.py::test_it", "test_b.py::test_it"]
    assert sorted(files) == ["test_a.py", "test_b.py"]


def test_who_is_interrupted_says_so_and_is_red(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = "import os, signal\ndef test_it(): os.kill(os.getpid(), signal.SIGINT)\n"
    verdict, shown = run(test_a=text)
    assert not verdict.green
    assert "BROKEN planted: pytest ended with status 2" in shown


def test_nobody_waits_for_what_a_test_has_forgotten(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A process that a test left behind holds the output of pytest."""
    monkeypatch.setattr("tests.suites.processes.LEFT", 0.1)
    text = f"""
import subprocess
def test_it(capfd):
    with capfd.disabled():
        child = subprocess.Popen(["sleep", "600"])
    with open("{tmp_path}/pid", "w") as file:
        file.write(str(child.pid))
"""
    try:
        verdict, _shown = run(test_a=text)
        assert verdict.green
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        for reading in [thread for thread in threading.enumerate() if thread.name == "output of pytest"]:
            reading.join(60)
