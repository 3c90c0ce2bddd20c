"""Which tests a change touches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites import quick
from tests.suites.choice import ABOVE, IMPORTS, MIRRORS, TestFile, chosen
from tests.suites.quick import importers, imports_of, known_seconds, test_files
from tests.suites.record import Record

FILES = (
    TestFile("tests/io/test_io_journal.py", frozenset({"nadi.io.journal"}), 10),
    TestFile("tests/io/test_io_other.py", frozenset({"nadi.io.other"}), 5),
    TestFile("tests/cli/test_cli_run.py", frozenset({"nadi.cli.run"}), 1),
    TestFile("tests/lang/test_lang_parser.py", frozenset({"nadi.lang.parser"}), 1),
    TestFile("tests/docs/test_docs_links.py", frozenset(), 1),
)
IMPORTERS = {"nadi.io.journal": frozenset({"nadi.cli.run"})}


def run(changed: list[str], budget: float = 100) -> list[str]:
    return [file.path for file in chosen(changed, FILES, IMPORTERS, budget).run]


def test_who_imports_a_changed_module_comes_first_then_its_package_then_those_above():
    assert run(["src/nadi/io/journal.py"]) == [
        "tests/io/test_io_journal.py",
        "tests/io/test_io_other.py",
        "tests/cli/test_cli_run.py",
    ]


@pytest.mark.parametrize(
    ("budget", "left"),
    [
        (
            14,
            {
                MIRRORS,
            },
        ),
        (10, {MIRRORS, ABOVE}),
        (4, {IMPORTS, MIRRORS}),
    ],
)
def test_what_does_not_fit_is_left_out_and_named(budget: float, left: set[str]):
    found = chosen(["src/nadi/io/journal.py"], FILES, IMPORTERS, budget)
    assert set(found.left_out) == left


def test_a_changed_test_runs_whatever_it_costs():
    assert run(["tests/io/test_io_journal.py"], budget=0) == ["tests/io/test_io_journal.py"]


def test_what_tests_share_runs_those_beside_it():
    assert run(["tests/io/conftest.py"]) == ["tests/io/test_io_other.py", "tests/io/test_io_journal.py"]


def test_pages_run_the_tests_of_pages():
    assert run(["docs/internals/where.md"]) == ["tests/docs/test_docs_links.py"]


def test_files_are_known_with_their_seconds_from_the_runs_that_were_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(quick, "OUTPUTS", tmp_path)
    for run_of, seconds in (
        ("suites/1", {"tests/test_a.py": 1.5, "tests/test_b.py": 2.0}),
        ("suites/2", {"tests/test_a.py": 0.5}),
    ):
        (tmp_path / run_of).mkdir(parents=True)
        record = Record(tmp_path / run_of / "tests.jsonl")
        record._files.update(seconds)
        record.pytest_sessionfinish(0)
        record.pytest_unconfigure()
    (tmp_path / "suites/3").mkdir()
    (tmp_path / "suites/3/tests.jsonl").touch()  # of a run that was killed
    assert known_seconds() == {"tests/test_a.py": 0.5, "tests/test_b.py": 2.0}


def test_the_graph_of_imports_knows_who_stands_above():
    found = importers(["src/nadi/io/journal.py", "README.md"])
    assert "nadi.cli.run" in found["nadi.io.journal"] or any(
        name.startswith("nadi.cli") for name in found["nadi.io.journal"]
    )


def test_each_file_of_tests_is_known_with_what_it_imports():
    found = {file.path: file.imports for file in test_files()}
    assert "tests/suites/test_suites_quick.py" in found
    assert "nadi.persistence.remoteturns" in found["tests/persistence/test_persistence_turns.py"]


def test_a_name_that_is_imported_may_be_a_module():
    assert imports_of("import nadi.app\nfrom nadi.io import journal\nimport os") == {
        "nadi.app",
        "nadi.io",
        "nadi.io.journal",
    }
