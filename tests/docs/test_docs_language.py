"""The pages of the language are right and complete: each trace is what comes out, and everything that an app can say is shown in one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from docpages import ALL, ROOT, Block, blocks
from languagetraces import _fill, pairs, parts, step, traced

from nadi.functions.registry import default_registry
from nadi.kernel.rows.windows import WINDOWS
from nadi.lang import parse, parse_on_demand, tree

PAGES = ROOT / "docs" / "language"
REGISTRY = default_registry()
PAIRS = pairs()


def _lines(trace: list[tuple[str, list[str]]]) -> list[str]:
    """Without the blanks that line things up."""
    return [" ".join(line.split()) for given, out in trace for line in (given, *out)]


@pytest.mark.parametrize(("app", "trace"), PAIRS, ids=str)
def test_a_trace_shows_what_comes_out(app: Block, trace: Block):
    assert _lines(traced(app.text, trace.text)) == _lines(parts(trace.text))


def test_every_trace_belongs_to_an_app():
    paired = {id(trace) for _app, trace in PAIRS}
    assert [str(b) for b in ALL if b.kind == "trace" and id(b) not in paired] == []


def test_every_app_of_a_page_of_the_language_is_run():
    """An app on these pages has a trace, or events and rows; only those that `nadi explain` or Spark is shown with have a name and none."""
    followed = {id(a) for a, after in pairwise(ALL) if after.kind in ("trace", "events")}
    bare = [b for b in ALL if b.kind == "sql" and b.page.parent == PAGES and not b.name and id(b) not in followed]
    assert [str(b) for b in bare] == []


# ---- that the test itself can fail ---------------------------------------------------------------------------------

_APP = "define stream In (n int); from In[n > 1] select n insert into Out;"


@pytest.mark.parametrize(
    "shown",
    [
        "0 In (2)",
        "0 In (2)\n→ 0 Out (3)",
        "0 In (2)\n→ 1 Out (2)",
        "0 In (1)\n→ 0 Out (1)",
        "0 In (2)\n→ 0 Out (2) (2)",
    ],
)
def test_a_trace_that_shows_something_else_is_noticed(shown: str):
    assert _lines(traced(_APP, shown)) != _lines(parts(shown))


def test_a_trace_tells_rows_expired_events_answers_failures_and_logs():
    app = """
        define stream In (n int, m object);
        define table T (n int);
        @info(name = 'q') from In#window.length(1)#log('text') select n insert all events into Kept;
        from In select n insert into T;
        from In select map:get(m, 'k') as v insert into Out;
    """
    given = '0 In (1, {"k": [1, null]})\n5 In (2, {}) (3, {})\n6 ? from T select n\n7 ? from T on n > 9 select n\n8 ? delete T on T.n > 0\n9 In (1, 5)'
    assert [out for _line, out in traced(app, given)] == [
        ["→ 0  log  INFO text", "→ 0  q  +(1)", "→ 0  Out  ([1,null])"],
        [
            "→ 5  log  INFO text",
            "→ 5  log  INFO text",
            "→ 5  log  INFO text",
            "→ 5  log  INFO text",
            "→ 5  q  +(2) +(3) -(1) -(2)",
            "→ 5  Out  (null) (null)",
        ],
        ["→ 6  answer  (1) (2) (3)"],
        ["→ 7  answer  null"],
        ["→ 8  answer  done"],
        ["→ 9  log  INFO text", "→ 9  log  INFO text", "→ 9  q  +(1) -(3)", "→ 9  failed  In (1, 5): FUNCTION_FAILED"],
    ]


@pytest.mark.parametrize("line", ["soon In (1)", "0 In 1", "0 In (1", "0 In (1) 2"])
def test_a_line_that_is_no_line_of_a_trace_is_an_error(line: str):
    with pytest.raises(ValueError, match=r"trace|parentheses|Expecting"):
        traced(_APP, line)


def test_what_comes_out_is_filled_into_traces_that_show_nothing(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(f"```sql\n{_APP}\n```\n\n```trace\n0  In  (1)\n1  In  (2)\n```\nend\n", encoding="utf-8")
    _fill(page)
    assert blocks(page)[1].text == "0  In  (1)\n1  In  (2)\n  → 1  Out  (2)\n"
    assert page.read_text(encoding="utf-8").endswith("```\nend\n")


# ---- everything is shown -------------------------------------------------------------------------------------------


def _nodes(value: Any) -> Iterator[Any]:
    """A tree, all that is in it, and the members of enumerations."""
    if isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)
    elif is_dataclass(value) and not isinstance(value, type):
        yield value
        for field in fields(value):
            yield from _nodes(getattr(value, field.name))
    elif isinstance(value, Enum):
        yield value


@cache
def _run() -> tuple[Any, ...]:
    """All nodes of apps and on-demand queries that traces of the language's pages run."""
    found: list[Any] = []
    for app, trace in PAIRS:
        if trace.page.parent == PAGES:
            found += _nodes(parse(app.text))
            asked = [s.given for line, _ in parts(trace.text) if (s := step(line)).stream == "?"]
            for question in asked:
                found += _nodes(parse_on_demand(question))
    return tuple(found)


KINDS = sorted(n for n in tree.__all__ if is_dataclass(getattr(tree, n)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_construct_of_the_language_is_run_in_an_example(kind: str):
    assert any(type(node) is getattr(tree, kind) for node in _run())


@pytest.mark.parametrize("member", [m for e in (tree.Type, tree.Events, tree.JoinKind) for m in e], ids=str)
def test_every_type_kind_of_events_and_kind_of_join_is_run_in_an_example(member: Enum):
    assert member in _run()


def _said(kind: type, field: str) -> set[Any]:
    return {getattr(node, field) for node in _run() if type(node) is kind}


def test_every_operator_sign_and_rate_is_run_in_an_example():
    assert _said(tree.Binary, "op") == {"*", "/", "%", "+", "-", "<", "<=", ">", ">=", "==", "!=", "and", "or"}
    assert _said(tree.LogicalState, "op") == {"and", "or"}
    assert _said(tree.CountState, "sign") == {"", "*", "+", "?"}
    assert _said(tree.StateInput, "kind") == {"pattern", "sequence"}
    assert _said(tree.Rate, "kind") == {"", "all", "first", "last", "snapshot"}
    assert _said(tree.OrderBy, "order") == {"", "asc", "desc"}
    assert _said(tree.JoinInput, "unidirectional") >= {None, "left"}
    for what in ("insert", "update", "delete", "updateorinsert"):
        assert any(type(n.output).__name__.lower().startswith(what) for n in _run() if type(n) is tree.OnDemandQuery), (
            what
        )


def _calls(kind: type) -> set[str]:
    return {f"{c.namespace}:{c.name}" if c.namespace else c.name for n in _run() if type(n) is kind for c in (n.call,)}


@pytest.mark.parametrize("name", sorted({*REGISTRY.names("window"), *WINDOWS}))
def test_every_window_is_run_in_an_example_of_its_own_section(name: str):
    assert name in _calls(tree.Window) | {_window(n.window) for n in _run() if type(n) is tree.WindowDefinition}
    page = (PAGES / "windows.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert f"window.{name}(" in section
    assert "```trace" in section


def _window(call: tree.FunctionCall) -> str:
    return f"{call.namespace}:{call.name}" if call.namespace else call.name


@pytest.mark.parametrize("name", REGISTRY.names("stream_function"))
def test_every_stream_function_is_run_in_an_example(name: str):
    assert name in _calls(tree.StreamFunction)


@pytest.mark.parametrize("name", REGISTRY.names("aggregator"))
def test_every_aggregator_is_run_in_an_example(name: str):
    assert name in {_window(n) for n in _run() if type(n) is tree.FunctionCall}


@pytest.mark.parametrize("name", REGISTRY.names("function"))
def test_every_function_has_an_example_on_its_page(name: str):
    """The page is made from the registry; `tests/functions` evaluates all of its examples."""
    page = (PAGES / "functions.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
    entry = REGISTRY.function(name)
    assert entry is not None
    assert entry.examples
    assert all(f"`{e}`".replace("|", "\\|") in row for e in entry.examples)


# ---- annotations ---------------------------------------------------------------------------------------------------

_LOOKUPS = {"first", "found", "all"}


@cache
def _looked_up() -> set[str]:
    """The names of annotations that the code looks for: `first(…, "name")`, `found(…, "name")`, `a.all("name")`, `a.name.lower() == "name"`."""
    names = set()
    for file in (ROOT / "src" / "nadi").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name(id=called) | ast.Attribute(attr=called), args=[*_, ast.Constant(value=str(name))]
                ) if called in _LOOKUPS:
                    names.add(name.lower())
                case ast.Compare(
                    left=ast.Call(func=ast.Attribute(value=ast.Attribute(attr="name"), attr="lower")),
                    comparators=[ast.Constant(value=str(name))],
                ):
                    names.add(name.lower())
    return names


def test_every_annotation_that_the_code_knows_is_told():
    page = (PAGES / "annotations.md").read_text(encoding="utf-8").lower()
    assert len(_looked_up()) > 12
    assert sorted(n for n in _looked_up() if not re.search(rf"@{re.escape(n)}\b", page)) == []


def _options() -> set[str]:
    """The options of annotations that planning asks for: `element(…, "key")`, `is_true(…, "key")`, `check_positive(…, "key")`, `a.get("key")`."""
    asked = {"element", "is_true", "check_positive", "get"}
    keys = set()
    for file in (ROOT / "src" / "nadi" / "plan").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in asked:
                keys |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return {k for k in keys if re.fullmatch(r"[\w.]+", k)}  # a default of `get` may be a sentence


def test_every_option_of_an_annotation_that_planning_asks_for_is_told():
    page = (PAGES / "annotations.md").read_text(encoding="utf-8")
    page += (ROOT / "docs" / "operations" / "io.md").read_text(
        encoding="utf-8"
    )  # options of sources that a plan looks at
    assert {"idle.time", "execGroup", "action"} <= _options()
    assert sorted(o for o in _options() if not re.search(rf"(?<![\w.]){re.escape(o)}(?![\w.])", page)) == []
