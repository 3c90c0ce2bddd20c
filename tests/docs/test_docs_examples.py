"""What the documentation shows is so: apps plan and give the rows shown, commands print what is shown, programs run, links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from docpages import ALL, IN_THE_SITE, PAGES, ROOT, Block, blocks, examples, of_kind
from typer.main import get_command
from typer.testing import CliRunner

from nadi.cli.main import cli
from nadi.config.deployment import deployment_of, environment_lookups
from nadi.functions.registry import default_registry
from nadi.io.contract import Messages
from nadi.io.registry import (
    SINK_OPTIONS,
    SINKS,
    SOURCE_OPTIONS,
    SOURCES,
    connectors,
    make_source_mapper,
    mapper_kind,
    sink_kind,
    source_kind,
)
from nadi.kernel.rows.windows import WINDOWS
from nadi.pipeline.engine import plan_on_demand
from nadi.plan import plan_app
from nadi.runtime import Runtime
from tests.onespark import OneSpark

# ---- apps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", of_kind("sql"), ids=str)
def test_an_app_that_is_shown_can_be_planned_and_its_connectors_exist(block: Block):
    app = plan_app(block.text, default_registry())
    connectors(app, "source")
    connectors(app, "sink")


def test_the_queries_shown_for_a_running_app_fit_its_tables_and_windows():
    page = ROOT / "docs" / "operations" / "query.md"
    (app,) = (plan_app(b.text, default_registry()) for b in blocks(page) if b.kind == "sql")
    queries = re.findall(r'nadi query Orders "(.+)"', page.read_text())
    assert len(queries) == 5
    for text in queries:
        assert plan_on_demand(app, text).kind in ("find", "insert", "update", "delete")


def test_the_configuration_of_the_error_store_that_is_shown_is_one():
    page = ROOT / "docs" / "operations" / "errors.md"
    (block,) = (b for b in blocks(page) if b.kind == "yaml")
    found = deployment_of(
        yaml.safe_load(block.text), {**environment_lookups(), "env": {"ERROR_STORE_PASSWORD": "p"}.get}
    ).error_store
    assert found.datasource is not None
    assert found.datasource.name == "ERROR_STORE_DB"


def _lines(block: Block) -> Iterator[tuple[str, str, list[Any]]]:
    for line in block.text.splitlines():
        at, stream, values = (*line.split(maxsplit=2), "", "")[:3]
        yield at, stream, json.loads(f"[{values}]")


def _chunks(block: Block) -> list[tuple[int, str, list[list[Any]]]]:
    chunks: list[tuple[int, str, list[list[Any]]]] = []
    for at, stream, values in _lines(block):
        if at == "&":
            assert chunks[-1][1] == stream, f"{block}: & continues a chunk of another stream"
            chunks[-1][2].append(values)
        else:
            chunks.append((int(at), stream, [values] if stream else []))
    return chunks


def _given(app: Block, events: Block, streams: set[str]) -> list[tuple[str, str, list[Any]]]:
    chunks = _chunks(events)
    runtime = Runtime(app.text)
    rows: list[tuple[str, str, list[Any]]] = []

    def note(stream: str) -> None:
        clock = runtime.kernel.flow
        runtime.on_stream(stream, lambda chunk: rows.extend((str(clock.now), stream, list(e.row)) for e in chunk))

    for stream in streams:
        note(stream)
    runtime.start(chunks[0][0])
    for at, stream, values in chunks:
        runtime.advance_to(at)
        if stream:
            runtime.send(stream, [(at, v) for v in values])
    assert [f for f in runtime.failures if not f.routed] == []
    return rows


@pytest.mark.parametrize(("app", "events", "rows"), examples(), ids=str)
def test_an_app_with_events_gives_the_rows_shown(app: Block, events: Block, rows: Block):
    shown = list(_lines(rows))
    assert _given(app, events, {stream for _at, stream, _values in shown}) == shown


def test_every_block_of_events_belongs_to_an_app_and_rows():
    paired = {id(b) for example in examples() for b in example}
    assert [str(b) for b in ALL if b.kind in ("events", "rows") and id(b) not in paired] == []


def test_some_examples_are_there():
    assert len(examples()) >= 8
    assert len(of_kind("sql")) >= 20
    assert len(of_kind("python")) >= 3


# ---- commands ------------------------------------------------------------------------------------------------------


def _commands(block: Block) -> list[tuple[list[str], str]]:
    """(words of a command, what it is shown to print)."""
    found = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    pairs = [part.partition("\n") for part in found]
    return [(shlex.split(command, comments=True), printed) for command, _, printed in pairs]


RUN = [
    (block, words, printed)
    for block in of_kind("console")
    for words, printed in _commands(block)
    if Path(words[0]).name == "nadi" and words[1] in ("check", "explain", "test")
]


@pytest.mark.parametrize(
    ("block", "words", "printed"), RUN, ids=lambda given: str(given) if isinstance(given, Block) else ""
)
def test_a_command_prints_what_is_shown(block: Block, words: list[str], printed: str, tmp_path, monkeypatch):
    for file in blocks(block.page):
        if file.name:
            (tmp_path / file.name).write_text(file.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(cli, words[1:])
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    assert answer.output.rstrip() == printed.rstrip()


def test_commands_are_shown_and_run():
    assert {words[1] for _block, words, _printed in RUN} == {"check", "explain", "test"}


# ---- programs ------------------------------------------------------------------------------------------------------


def _programs() -> list[Any]:
    pages = [page for page in PAGES if any(b.kind == "python" for b in blocks(page))]
    return [
        pytest.param(
            page,
            id=str(page.relative_to(ROOT)),
            marks=[pytest.mark.spark] if "spark" in page.read_text(encoding="utf-8") else [],
        )
        for page in pages
    ]


@pytest.fixture
def session(one_spark: OneSpark) -> Any:
    """One session for all programs: theirs is this one, through `getOrCreate`."""
    return one_spark.session("programs", _built)


def _built() -> Any:
    from pyspark.sql import SparkSession

    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # nothing of it runs long enough for the second compiler
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraJavaOptions", quick)
    made = builder.config("spark.ui.enabled", "false").getOrCreate()
    made.conf.set("spark.sql.shuffle.partitions", "1")  # tasks cost more than the few rows of the examples
    return made


def _put_back(windows: dict[str, Any]) -> None:
    """Leave the table of windows as it was."""
    WINDOWS.clear()
    WINDOWS.update(windows)


@pytest.mark.parametrize("page", _programs())
def test_the_programs_of_a_page_run_and_print_what_is_shown(page: Path, request, tmp_path, monkeypatch):
    found = [b for b in blocks(page) if b.kind in ("python", "output")]
    if any("spark" in b.text for b in found):
        request.getfixturevalue("session")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    request.addfinalizer(partial(_put_back, dict(WINDOWS)))  # a page may add a window
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        if after is not None and after.kind == "output":
            assert printed.getvalue().rstrip() == after.text.rstrip(), str(after)


# ---- links, generated pages, tables --------------------------------------------------------------------------------


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", h).strip().lower()) for h in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings_that_exist(page: Path):
    text = re.sub(r"^```.*?^```$|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(target)
    assert broken == []


def test_every_page_is_in_the_navigation():
    listed = re.findall(r":\s+(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(str(p.relative_to(ROOT / "docs")) for p in IN_THE_SITE)


def test_what_is_made_from_the_code_is_current():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import generate
    finally:
        sys.path.pop(0)
    stale = [str(p) for p, text in generate.pages().items() if p.read_text(encoding="utf-8") != text]
    assert stale == [], "run .venv/bin/python docs/generate.py"


def _section(page: Path, heading: str) -> str:
    text = page.read_text(encoding="utf-8")
    return re.split(r"^#{2,3} ", text.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def _told(page: Path, heading: str) -> list[str]:
    """The first words of the rows of the tables in a section, as they stand in backticks."""
    return re.findall(r"^\| `([^`]+)`", _section(page, heading), re.MULTILINE)


def _options(found: Any, direction: str) -> set[tuple[str, str]]:
    return {(option.name, direction) for option in found}


IO_PAGE = ROOT / "docs" / "operations" / "io.md"


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_the_options_of_a_source_are_those_of_the_code(name: str):
    heading = next(h for h in _headings(IO_PAGE) if h.lower() == f"source {name}")
    assert sorted(_told(IO_PAGE, heading)) == sorted(o.name for o in source_kind(name).options)


@pytest.mark.parametrize("name", sorted(SINKS))
def test_the_options_of_a_sink_are_those_of_the_code(name: str):
    heading = next(h for h in _headings(IO_PAGE) if h.lower() == f"sink {name}")
    told = [o for o in _told(IO_PAGE, heading) if not o.startswith("Nadi-")]
    assert sorted(told) == sorted(o.name for o in sink_kind(name).options)


@pytest.mark.parametrize("name", ["json", "csv", "text", "xml", "arrow"])
def test_the_options_of_a_mapper_are_those_of_the_code(name: str):
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", _section(IO_PAGE, f"Mapper {name}"), re.MULTILINE)
    told = {(option, direction.strip()) for option, both in rows for direction in both.split(",")}
    kind = mapper_kind(name)
    assert told == _options(kind.source_options, "source") | _options(kind.sink_options, "sink")


def test_the_common_options_are_those_of_the_code():
    common = [o.name for o in (*SOURCE_OPTIONS, *SINK_OPTIONS)]
    assert sorted(_told(IO_PAGE, "Options of all sources and sinks")) == sorted(common)


def test_the_options_of_the_command_are_those_of_the_code():
    told = [t.split()[0] for t in _told(ROOT / "docs" / "operations" / "run.md", "Options")]
    command = get_command(cli).commands["run"]
    assert sorted(told) == sorted(p.opts[0] for p in command.params if p.param_type_name == "option")


def _headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_reasons_shown_for_bad_input_are_those_of_the_mapper():
    page = ROOT / "docs" / "operations" / "faults.md"
    app = next(b for b in blocks(page) if b.name == "hot.siddhi")
    lines = next(b for b in blocks(page) if b.kind == "json").text.encode().splitlines()
    (source,) = connectors(plan_app(app.text, default_registry()), "source")
    places = np.arange(len(lines), dtype=np.int64)
    failures = make_source_mapper(source).decode(Messages(places, places, lines)).failures
    assert [f.position for f in failures] == [1, 2, 4]
    shown = page.read_text(encoding="utf-8").replace('\\"', '"')
    for failure in failures:
        assert failure.reason[:29] in shown
