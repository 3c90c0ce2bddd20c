"""`make flakes` finds what depends on chance: planted tests in a project of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.suites.flakes import Flakes, search
from tests.suites.processes import Processes
from tests.suites.started import test_paths

HERE = Path(__file__).parents[2]

Search = Callable[..., Flakes]


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Write the files given and look for flaky tests in them."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setattr("tests.suites.flakes.PROCESSES", 0)

    def search_in(rounds: int, **files: str) -> Flakes:
        project = tmp_path / "project"
        project.mkdir()
        (project / "pytest.ini").write_text("[pytest]\naddopts = -p no:randomly\n")
        for name, text in files.items():
            (project / f"{name}.py").write_text(text)
        return search(Processes(project, tmp_path / "outputs"), rounds, test_paths(project, ["."]), ["."])

    return search_in


def test_a_test_that_passes_only_after_one_of_another_file_is_found(searched: Search):
    seen = "import sys\ndef test_it(): sys.seen = 1\n"
    looks = "import sys\ndef test_it(): assert sys.seen\n"
    found = searched(0, test_a=seen, test_b=looks)
    assert found.where == {"test_b.py::test_it": ["alone"]}
    assert "no attribute 'seen'" in "\n".join(found.table())


def test_a_test_that_passes_only_after_another_one_of_its_file_is_found(searched: Search):
    """In an order that the seed of a round gives; of eight tests each that stands behind its forerunner passes."""
    head = "seen = [0]\n"
    tests = (f"def test_{n}():\n assert seen[-1] == {n}\n seen.append({n + 1})\n" for n in range(8))
    found = searched(1, test_a=head + "".join(tests))
    assert found.where
    assert all(place.startswith("round 1 (--randomly-seed=") for places in found.where.values() for place in places)


def test_tests_that_do_not_depend_on_chance_are_not_found(searched: Search):
    found = searched(2, test_a="def test_it(): pass\n", test_b="def test_it(): pass\n", test_c="")
    assert list(found.table()) == []
