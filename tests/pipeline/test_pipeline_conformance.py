"""Apps of the conformance set on Spark: the same rows as in one process, whether their events come in one batch or in many.

Sixty apps that have streams only are put side by side into one app (their names get a prefix), so that two queries are enough for all of them.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pipeline_testlog import committed

from nadi.errors import NadiError
from nadi.kernel.arrow import arrow_schema
from nadi.kernel.contract import NUMBER
from nadi.pipeline.cutting.cutmaker import acts_by_itself
from nadi.pipeline.engine import plan_app
from nadi.pipeline.node import AppText, NodeOptions, make_spec
from nadi.pipeline.stoprequest import StopRequest
from nadi.pipeline.supervisor import supervise
from nadi.plan.nodes import App
from nadi.runtime import Runtime
from tests.conformance.engine import folder

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

WANTED = 60
PLAIN_STEPS = {"create", "add_callback", "start", "send", "sleep", "wait", "check", "shutdown"}
OTHER = re.compile(r"define\s+(table|window|trigger|function|aggregation)|@source|@sink|@OnError|@app", re.I)
TEXT_OR_WORD = re.compile(r"'[^']*'|\"[^\"]*\"|\w+")
QUIET = 3_600_000  # ms between the last event and now: everything that events have set going has happened by then

DEFINITION = re.compile(r"(?:@\w+\s*\([^)]*\)\s*)*define\s+stream\s+(\w+)\s*\([^)]*\)\s*;", re.I)

Arrival = tuple[int, str, list[list[Any]]]  # time, stream, rows of one chunk


@dataclass(frozen=True, slots=True)
class Case:
    """An app with what comes in, at times from 0 on."""

    id: str
    text: str
    app: App
    arrivals: Sequence[Arrival]

    @property
    def inputs(self) -> list[str]:
        return sorted({stream for _, stream, _ in self.arrivals})

    @property
    def outputs(self) -> list[str]:
        """The streams that queries insert into."""
        written = re.findall(r"\binto\s+(\w+)", self.text)
        return sorted({name for name in written if name in self.app.streams} - set(self.inputs))


def plain(value: Any) -> Any:
    """A value of the case file as Python has it."""
    if isinstance(value, dict):
        ((kind, inner),) = value.items()
        return inner if kind in ("long", "float") else str(value)
    return value


def arrivals_of(case: dict[str, Any]) -> Iterator[Arrival]:
    now = begin = case["config"]["virtual_start_ms"]
    for step in case["steps"]:
        if "send" in step:
            given = step.get("events") or [step.get("event") or step]
            yield now - begin, step["send"], [[plain(v) for v in each["data"]] for each in given]
        now += step.get("sleep", 0)


def case_of(told: dict[str, Any], number: int) -> Case | None:
    """A case whose app has streams only, acts on events only, and is no error; its streams get a prefix."""
    if len(told["apps"]) != 1:
        return None
    steps = {next(iter(s)) for s in told["steps"]}
    text = re.sub(r"@(app:name|info)\s*\([^)]*\)", "", told["apps"][0], flags=re.I)
    if not steps <= PLAIN_STEPS or OTHER.search(text):
        return None
    try:
        names = {name.lstrip("#!") for name in plan_app(text).streams}
    except NadiError:
        return None
    text = TEXT_OR_WORD.sub(lambda m: f"C{number}_{m[0]}" if m[0] in names else m[0], text)
    app = plan_app(text)
    found = Case(told["id"], text, app, [(t, f"C{number}_{s}", rows) for t, s, rows in arrivals_of(told)])
    usable = found.inputs and found.outputs and all(s in app.streams for s in found.inputs)
    typed = usable and all(fits(found, stream, row) for _, stream, rows in found.arrivals for row in rows)
    return found if typed and not acts_by_itself(app) else None


def fits(case: Case, stream: str, row: Sequence[Any]) -> bool:
    """Whether all values are of the types of their columns: others go to the error store, as inputs and as outputs."""
    fields = arrow_schema(case.app.streams[stream].schema)
    try:
        return bool([pa.scalar(value, field.type) for value, field in zip(row, fields, strict=True)])
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError):
        return False


def cases() -> list[Case]:
    """Sixty of the cases that can be used, from all areas."""
    place = folder()
    if place is None or not (place / "cases.jsonl").exists():
        pytest.skip("no conformance cases: set NADI_CONFORMANCE to their folder")
    found: list[Case] = []
    for line in (place / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        made = case_of(json.loads(line), len(found))
        rows = {} if made is None else in_process(made, 0)
        if made is not None and rows and all(fits(made, stream, row) for stream in rows for row in rows[stream]):
            found.append(made)
    return [found[len(found) * i // WANTED] for i in range(WANTED)]


Rows = dict[str, list[tuple[Any, ...]]]


def in_process(case: Case, begin: int) -> Rows:
    """What the runtime in this process makes of a case whose events begin at a time (ms): rows per output, {} where nothing comes out."""
    app = Runtime(case.text)
    found: Rows = {}
    for output in case.outputs:
        app.on_stream(output, lambda chunk, output=output: found.setdefault(output, []).extend(e.row for e in chunk))
    app.start(begin)
    for at, stream, rows in sorted(case.arrivals, key=lambda a: a[:2]):  # as cuts order them: by time, then by input
        app.advance_to(begin + at)
        app.send(stream, [(begin + at, tuple(row)) for row in rows])
    app.advance_to(begin + case.arrivals[-1][0] + QUIET)
    return {} if app.failures else found


def together(given: Sequence[Case], target: Path, begin: int) -> str:
    """All cases as one app on the connectors of the tests; their logs are written beside it."""
    definitions, queries = [], []
    for case in given:
        for stream in case.inputs:
            lines = [f"{begin + at}\t{json.dumps(rows)}\n" for at, s, rows in case.arrivals if s == stream]
            (target / f"{stream}.log").write_text("".join(lines))
            definitions.append(f"@source(type='test', file='{target}/{stream}.log') {definition(case, stream)}")
        for stream in case.outputs:
            definitions.append(f"@sink(type='test', file='{target}/{stream}') {definition(case, stream)}")
        for stream in set(DEFINITION.findall(case.text)) - {*case.inputs, *case.outputs}:
            definitions.append(definition(case, stream))
        queries.append(DEFINITION.sub("", case.text).strip().rstrip(";") + ";")
    return "\n".join(["@app:name('Cases')", *definitions, *queries])


def definition(case: Case, stream: str) -> str:
    columns = ", ".join(f"{c.name} {c.type}" for c in case.app.streams[stream].schema.columns)
    return f"define stream {stream} ({columns});"


@pytest.mark.parametrize("events", ["0", "5"], ids=["one batch", "many batches"])
def test_sixty_apps_give_on_spark_what_they_give_in_one_process(spark: Any, tmp_path: Path, events: str):
    given = cases()
    assert len(given) == WANTED
    last = max(case.arrivals[-1][0] for case in given)
    begin = time.time_ns() // 1_000_000 - last - QUIET - 60_000
    text = together(given, tmp_path, begin)
    options = NodeOptions(
        tmp_path / "state", conf={"nadi.batch.events": events}, until_end=True, connectors="pipeline_testlog"
    )
    options.state.mkdir()
    spec = make_spec(AppText(text), plan_app(text), options, 2, "")
    report = supervise(spark, [spec], options, StopRequest(), lambda _progress: None)
    assert [a.state for a in report.apps] == ["finished"], report
    assert (report.apps[0].progress.batches > 20) == (events != "0")
    for case in given:
        wanted = in_process(case, begin)
        for output in case.outputs:
            told = committed(tmp_path / output)
            assert [row[NUMBER] for row in told] == list(range(len(told))), f"{case.id} {output}"
            names = case.app.streams[output].schema.names
            assert [tuple(row[n] for n in names) for row in told] == wanted.get(output, []), f"{case.id} {output}"
