"""The pages for those who open the source for the first time: what they name is there, and what they say of imports is what the contracts say."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest
from docnames import exists, is_function, named_in
from docpages import ROOT

from nadi.config import settings_table

DOCS = ROOT / "docs"
ARCHITECTURE = DOCS / "internals" / "architecture.md"
WHERE = DOCS / "internals" / "where.md"
GLOSSARY = DOCS / "glossary.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
ADDING = DOCS / "internals" / "adding.md"
CHANGELOG = ROOT / "CHANGELOG.md"
SETTINGS = {setting.name for setting in settings_table()}


@pytest.fixture(scope="module")
def packages() -> Iterator[ModuleType]:
    """The module of the documentation that reads packages and contracts."""
    sys.path.insert(0, str(DOCS))
    try:
        import packages

        yield packages
    finally:
        sys.path.remove(str(DOCS))


def _rows(page: Path) -> dict[str, list[str]]:
    """The rows of the tables of packages, by the name of the package."""
    rows = [line.strip("| ").split(" | ") for line in page.read_text(encoding="utf-8").splitlines()]
    return {row[0].strip("`"): row for row in rows if len(row) == 4 and re.fullmatch(r"`[\w.]+`", row[0])}


# ---- packages ------------------------------------------------------------------------------------------------------


def _source() -> set[str]:
    """All packages of the source but `nadi` itself, and the modules directly below it, without `nadi.`."""
    top = ROOT / "src" / "nadi"
    found = {".".join(f.parent.relative_to(top).parts) for f in top.rglob("__init__.py")}
    return (found | {f.stem for f in top.glob("*.py")}) - {"", "__init__"}


def test_each_package_of_the_source_has_a_row_and_each_row_a_package():
    assert set(_rows(ARCHITECTURE)) == _source()


def test_each_package_says_what_it_is_for_and_where_to_start(packages: ModuleType):
    for one in packages.packages():
        if (ROOT / "src" / Path(*one.name.split("."))).is_dir():
            assert one.purpose.endswith("."), one.name
            assert one.start.endswith("."), f"the docstring of {one.name} ends with a paragraph 'Start with …'"


def test_where_to_start_exists(packages: ModuleType):
    """The first name in backticks is a module or something in one."""
    missing = []
    for one in packages.packages():
        names = re.findall(r"`([\w.]+)`", one.start)
        if one.start and not (names and exists(f"{one.name}.{names[0]}")):
            missing.append(one.name)
    assert missing == []


def test_each_package_below_nadi_has_a_floor(packages: ModuleType):
    floors = {name for floor in packages.layers()["nadi"].floors for name in floor}
    folders = {name for name in _source() if "." not in name and (ROOT / "src" / "nadi" / name).is_dir()}
    assert floors >= folders


_IMPORT = re.compile(r"^\s*(?:from|import) (nadi(?:\.\w+)+)", re.MULTILINE)


def _imported(package: str) -> set[str]:
    """What the modules of a package import of nadi, wherever the line stands."""
    folder = ROOT / "src" / Path(*package.split("."))
    return {name for file in folder.rglob("*.py") for name in _IMPORT.findall(file.read_text(encoding="utf-8"))}


def test_what_a_package_imports_is_what_its_row_allows(packages: ModuleType):
    """For each contract of layers, package by package: the row names the floors below, and the source keeps to it."""
    for container, contract in packages.layers().items():
        for floor in contract.floors:
            for child in floor:
                allowed = {*contract.below(child), child}
                siblings = {name for row in contract.floors for name in row}
                names = {
                    name.removeprefix(f"{container}.").split(".")[0]
                    for name in _imported(f"{container}.{child}")
                    if name.startswith(f"{container}.")
                }
                assert names & siblings <= allowed, f"{container}.{child}"


def test_a_row_says_what_the_contract_says(packages: ModuleType):
    rows = _rows(ARCHITECTURE)
    for container, contract in packages.layers().items():
        for number, floor in enumerate(contract.floors):
            for child in floor:
                row = rows[f"{container}.{child}".removeprefix("nadi.")]
                below = contract.floors[number + 1 :]
                named = set(re.findall(r"`([\w.]+)`", row[2].partition(", but not")[0]))
                if below and number not in contract.open:
                    assert named == set(below[0]), child
                deeper = len(below) > 1 or (number in contract.open and len(below) > 0)
                assert ("all floors below" in row[2]) == deeper, child


def test_a_contract_that_forbids_is_told(packages: ModuleType):
    assert packages.forbidden("nadi.kernel.rows") == ("nadi.kernel.columns",)
    assert _rows(ARCHITECTURE)["kernel.rows"][2].endswith("but not `kernel.columns`")


# ---- modules -------------------------------------------------------------------------------------------------------


def _told(page: Path, heading: str, ending: str) -> set[tuple[str, str]]:
    """(package, module) of a table whose first column is the package, empty where it is that of the row before."""
    section = page.read_text(encoding="utf-8").partition(f"\n{heading}\n")[2].partition(ending)[0]
    found, package = set(), ""
    for line in section.splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 3 and cells[0] != "package":
            package = cells[0] or package
            found |= {(package, name) for name in re.findall(r"`(\w+)`", line.split("|")[2])}
    return found


def test_the_page_on_the_pipeline_tells_each_module():
    top = ROOT / "src" / "nadi" / "pipeline"
    source = {(".".join(f.parent.relative_to(top).parts), f.stem) for f in top.rglob("*.py") if f.stem != "__init__"}
    told = _told(DOCS / "internals" / "pipeline.md", "## Packages", "\n## ")
    assert told == source


def test_the_page_on_columns_tells_each_module():
    page = (DOCS / "internals" / "columns" / "index.md").read_text(encoding="utf-8").partition("\n## Modules\n")[2]
    source = {f.name for f in (ROOT / "src/nadi/kernel/columns").glob("*.py") if f.stem != "__init__"}
    assert source - set(re.findall(r"`([\w/]+\.py)`", page)) == set()


# ---- the picture ---------------------------------------------------------------------------------------------------


def test_the_picture_has_each_floor_and_each_step(packages: ModuleType):
    root = ET.parse(DOCS / "internals" / "architecture.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    told = tomllib.loads((DOCS / "internals" / "architecture.toml").read_text(encoding="utf-8"))
    assert {name for floor in packages.layers()["nadi"].floors for name in floor} <= set(texts)
    assert [text for text in texts if text and text.isdecimal()] == [str(n + 1) for n in range(len(told["step"]))]
    drawn = " ".join(text or "" for text in texts)
    assert all(step["does"] in drawn for step in told["step"])
    assert all(exists(f"nadi.{step['floor']}.{step['at']}") for step in told["step"])


def test_the_picture_and_the_page_tell_the_same_number_of_steps():
    told = tomllib.loads((DOCS / "internals" / "architecture.toml").read_text(encoding="utf-8"))
    section = ARCHITECTURE.read_text(encoding="utf-8").partition("\n## The way of an event\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\d+\. ", section, re.MULTILINE)) == len(told["step"])


# ---- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [ARCHITECTURE, WHERE, GLOSSARY, ADDING], ids=lambda page: page.name)
def test_each_name_of_the_source_exists(page: Path):
    assert [name for name in named_in(page) if name not in SETTINGS and not exists(name)] == []


def test_a_name_that_does_not_exist_is_noticed():
    assert exists("nadi.io.journal.Journal.submit")
    assert exists("nadi.kernel.contract.ORDER")
    assert not exists("nadi.io.journal.Journal.submitt")
    assert not exists("nadi.io.journall")
    assert not exists("nadi.kernel.contract.Kernel.nothing")


def test_a_step_of_a_trace_is_a_function_or_a_class():
    page = WHERE.read_text(encoding="utf-8")
    steps = re.findall(r"^ *\d+\. `(nadi[\w.]+)`", page, re.MULTILINE)
    assert len(steps) > 50
    assert [name for name in steps if not is_function(name)] == []


@pytest.mark.parametrize("heading", ["One event", "One expiry", "One cut", "One JSON message", "One alert"])
def test_each_trace_is_there(heading: str):
    section = WHERE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"`nadi[\w.]+`", section)) >= 5


# ---- the glossary --------------------------------------------------------------------------------------------------

MUST = (
    "base", "bucket", "cut", "cut log", "delta", "epoch", "fence", "group", "host", "island", "lane", "ledger", "parcel", "pool",
    "spread", "stretch", "turn",
)  # fmt: skip


def _terms() -> list[tuple[str, str, str]]:
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return [(row[0], row[1], row[2].strip("` ")) for row in rows if row[0] != "term"]


def test_the_glossary_is_in_order_and_has_each_term_once():
    terms = [term.lower() for term, _meaning, _where in _terms()]
    assert terms == sorted(set(terms))
    assert set(MUST) <= set(terms)


def test_each_term_has_a_sentence_and_a_place():
    for term, meaning, where in _terms():
        assert meaning.endswith("."), term
        assert meaning[0].isupper(), term
        assert exists(where), term


# ---- how to add a part ---------------------------------------------------------------------------------------------


def test_each_file_that_is_named_exists():
    for page in (CONTRIBUTING, ADDING, ARCHITECTURE):
        named = re.findall(r"`((?:src|tests|docs)/[\w./-]*)`", page.read_text(encoding="utf-8"))
        assert [name for name in named if not (ROOT / name).exists()] == []


def test_each_table_that_is_named_is_in_its_file():
    """Rows such as | 2 | `file` | the entry, in `ENTRIES` |: what is written in capitals stands in the file."""
    for file, what in re.findall(r"^\| \d+ \| `([^`]+)` \| (.+) \|$", ADDING.read_text(encoding="utf-8"), re.MULTILINE):
        for name in re.findall(r"`(_?[A-Z][A-Z_]{3,})`", what):
            where = ROOT / file
            text = (
                where.read_text(encoding="utf-8")
                if where.is_file()
                else "".join(f.read_text(encoding="utf-8") for f in where.rglob("*.py"))
            )
            assert re.search(rf"\b{name}\b", text), f"{file} has no {name}"


# ---- the changelog -------------------------------------------------------------------------------------------------


def test_the_newest_release_of_the_changelog_is_the_version_of_the_project():
    heads = re.findall(r"^## \[([^\]]+)\](.*)$", CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert heads[0] == ("Unreleased", "")
    assert heads[1][0] == version
    assert all(re.fullmatch(r" - \d{4}-\d{2}-\d{2}", date) for _version, date in heads[1:])


def test_the_changelog_groups_what_has_changed_by_the_kinds_of_the_form():
    kinds = set(re.findall(r"^### (.+)$", CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
