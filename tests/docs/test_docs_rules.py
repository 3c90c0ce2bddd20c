"""The documentation stands alone: each reference to a rule finds it, and none leads to a text that is not in the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from docpages import ROOT

from nadi.functions.registry import default_registry
from nadi.runtime import Runtime

DOCS = ROOT / "docs"
INTERNALS = DOCS / "internals"
SEMANTICS = INTERNALS / "semantics"
CODE = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *(
        file
        for folder in ("src", "tests", "bench", "docs", "scripts", "examples")
        for file in sorted((ROOT / folder).rglob("*"))
        if file.suffix in (".py", ".java", ".md", ".toml", ".sh", ".siddhi", ".yaml")
        and file != Path(__file__).resolve()
    ),
)
REFERENCE = re.compile(r"(?<![\w/.])(?<!\]\()((?:[\w-]+/)*[\w-]+\.md)#([\w-]+)")
"""As it stands in a comment: `semantics/windows.md#session`, from docs/internals or docs on. Links in pages are for mkdocs to check."""
_NUMBER = r"(?:P(?:[1-9]|1[0-2])|C(?:[1-9]|1[0-4]))"
OUTSIDE = re.compile(
    rf"language text|\bdesign §|§ ?\d|protocols? P\d|\({_NUMBER}(?:, {_NUMBER})*\)|spark-notes|siddhi-language\.md|security-findings"
)
"""What comments once called texts that are elsewhere."""


def slug(heading: str) -> str:
    """The anchor that mkdocs gives a heading."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@cache
def anchors(page: Path) -> frozenset[str]:
    """Those of the headings of a page, code blocks left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return frozenset(slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE))


def references(text: str) -> Iterator[tuple[str, str]]:
    """The references in the text of a module: page and anchor."""
    for page, anchor in REFERENCE.findall(text):
        yield page.removeprefix("docs/").removeprefix("internals/"), anchor


def found(page: str) -> Path | None:
    return next((folder / page for folder in (INTERNALS, DOCS) if (folder / page).is_file()), None)


def test_each_reference_to_a_rule_finds_its_heading():
    lost = []
    seen = 0
    for file in CODE:
        if file.suffix == ".md":
            continue
        for name, anchor in references(file.read_text(encoding="utf-8")):
            seen += 1
            page = found(name)
            if page is None or anchor not in anchors(page):
                lost.append(f"{file.relative_to(ROOT)}: {name}#{anchor}")
    assert not lost
    assert seen > 100


def test_each_page_that_a_comment_names_is_there():
    named = re.compile(r"(?<![\w/.])((?:docs/internals/|docs/)?(?:semantics|columns)/[\w-]+\.md)")
    lost = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in CODE
        if file.suffix == ".py"
        for name in named.findall(file.read_text(encoding="utf-8"))
        if found(name.removeprefix("docs/").removeprefix("internals/")) is None
    ]
    assert not lost


def test_no_reference_leads_to_a_text_outside_of_the_repository():
    assert [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in CODE
        for line in file.read_text(encoding="utf-8").splitlines()
        if OUTSIDE.search(line) and "lang" not in file.parts  # the tests of the lexer have strange characters
    ] == []


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ("the aggregators (language text §5)", True),
        ("order inside a cut (design §1)", True),
        ("a bucket stays (P7)", True),
        ("both (P7, C9)", True),
        ("Spark's slow habits (spark-notes)", True),
        ("`cut(P41)`, `cut(P41, 'kafka')` and C3 @ 5", False),
        ("a rule (semantics/windows.md#session)", False),
    ],
)
def test_a_reference_to_a_text_outside_is_noticed(text: str, outside: bool):
    assert bool(OUTSIDE.search(text)) is outside


def test_a_reference_is_read_as_page_and_anchor():
    assert list(references("see (semantics/windows.md#session, docs/internals/rules.md#p7) [x](../a.md#b)")) == [
        ("semantics/windows.md", "session"),
        ("rules.md", "p7"),
    ]


def test_each_finding_that_a_test_names_is_told():
    told = set(re.findall(r"^## Finding (\d+)", (INTERNALS / "security.md").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        number
        for file in CODE
        if file.suffix == ".py"
        for numbers in re.findall(r"\b[Ff]indings? (\d+(?: and \d+)*)", file.read_text(encoding="utf-8"))
        for number in numbers.split(" and ")
    }
    assert named
    assert named <= told


# ---- the rules are complete ----------------------------------------------------------------------------------------


def test_each_window_has_its_rule():
    text = (SEMANTICS / "windows.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^### (\w+)$", text, re.MULTILINE))
    assert [
        name for name in default_registry().names("window") if name not in headings and f"`{name}(" not in text
    ] == []


def test_each_aggregator_has_its_rule():
    text = (SEMANTICS / "selection.md").read_text(encoding="utf-8")
    assert [name for name in default_registry().names("aggregator") if f"`{name}`" not in text] == []


def test_each_rule_of_pipeline_cluster_and_pair_names_a_test_that_is_there():
    text = (INTERNALS / "rules.md").read_text(encoding="utf-8")
    rules = dict(re.findall(r"^### (\w+)\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(rules) == [*(f"P{n}" for n in range(1, 13)), *(f"C{n}" for n in range(1, 15))]
    assert [name for name, said in rules.items() if "`test_" not in said] == []
    tests = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py"))
    assert [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in tests] == []


# ---- the tables of matches are what comes out ----------------------------------------------------------------------

_STREAMS = "define stream A (v int); define stream B (v int); define stream C (v int);"


def matches(pattern: str, events: str) -> list[str]:
    """What a pattern finds in events such as "A1 B10": "(1,2 / 10)", a counted element as a list, – for nothing (null, or a list without values)."""
    names = re.findall(r"(e\d)=", pattern)
    selected = ", ".join(f"{name}.v as {name}" for name in names)
    app = Runtime(f"{_STREAMS} from {pattern} select {selected} insert into Found;")
    rows: list[str] = []

    def shown(value: object) -> str:
        text = ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
        return text or "–"

    app.on_stream("Found", lambda chunk: rows.extend(f"({' / '.join(map(shown, e.row))})" for e in chunk))
    app.start()
    for word in events.split():
        app.send(word[0], [(int(word[1:]),)])
    return rows


def tables() -> Iterator[tuple[str, str, list[str]]]:
    """(pattern, events, matches) of each row of the tables that follow a line of events."""
    events = ""
    for line in (SEMANTICS / "patterns.md").read_text(encoding="utf-8").splitlines():
        if given := re.match(r"((?:[A-C]\d+ )+)give", line):
            events = given[1]
        elif line.startswith("#"):
            events = ""
        elif events and (row := re.match(r"\| `(.+?)` \| (.+) \|$", line)):
            yield row[1], events, re.findall(r"\([^)]*\d[^)]*\)", row[2].partition(";")[0])


@pytest.mark.parametrize(("pattern", "events", "expected"), list(tables()))
def test_a_row_of_the_tables_of_matches_is_what_comes_out(pattern: str, events: str, expected: list[str]):
    assert matches(pattern, events) == expected


def test_there_are_rows_for_patterns_and_for_sequences():
    assert len([p for p, _e, _m in tables() if "->" in p]) >= 4
    assert len([p for p, _e, _m in tables() if ", " in p]) >= 8
