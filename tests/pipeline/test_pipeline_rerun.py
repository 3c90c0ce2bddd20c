"""A stretch of history run again: which rows are written, and what is said of the files that the live app wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pipeline_history import COUNT, TO_LINES, live, made

from nadi.pipeline.history.rerun import Edge, Report, Stretch, rerun
from nadi.pipeline.spec import AppSpec


def ran(spec: AppSpec, stretch: Stretch | None = None) -> tuple[Report, list[dict[str, Any]]]:
    out = BytesIO()
    report = rerun(spec, stretch or Stretch(), out)
    return report, [json.loads(line) for line in out.getvalue().splitlines()]


def said(report: Report) -> tuple[bool | None, str]:
    (sink,) = report.sinks
    return sink.equal, sink.said


def test_rows_are_written_with_cut_numbers_and_time(tmp_path: Path):
    report, rows = ran(made(tmp_path))
    assert (report.first, report.last, report.events, report.rows) == (1, 6, COUNT, COUNT)
    assert len(rows) == COUNT
    mine = [row for row in rows if row["event"]["k"] == "k1"]
    assert [row["event"] for row in mine[:2]] == [{"k": "k1", "n": 1, "total": 1}, {"k": "k1", "n": 5, "total": 6}]
    assert (mine[0]["stream"], mine[0]["cut"], mine[0]["timestamp"]) == ("Out", 1, 1_000_100)
    numbers = [row["number"] for row in rows if row["group"] == mine[0]["group"]]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize(
    ("stretch", "cuts"),
    [
        (Stretch(Edge(3), None), (3, 6)),
        (Stretch(None, Edge(2)), (1, 2)),
        (Stretch(Edge(2), Edge(4)), (2, 4)),
        (Stretch(Edge(1_002_000, True), Edge(1_003_900, True)), (3, 4)),
        (Stretch(Edge(7), None), (0, 0)),
    ],
    ids=["from", "to", "both", "times", "beyond"],
)
def test_a_stretch_has_the_rows_of_its_cuts_with_the_numbers_of_the_whole(
    tmp_path: Path, stretch: Stretch, cuts: tuple[int, int]
):
    spec = made(tmp_path)
    live(spec)
    report, rows = ran(spec, stretch)
    assert (report.first, report.last) == cuts
    whole = ran(spec)[1]
    assert rows == [row for row in whole if cuts[0] <= row["cut"] <= cuts[1]]
    assert said(report)[0] is (True if cuts[0] else None)


KINDS = [
    TO_LINES,
    {"place": "file.uri", "target": "out.csv", "map": "csv"},
    {"place": "dir.uri", "target": "out", "map": "json"},
    {"place": "dir.uri", "target": "out", "map": "csv"},
    {"place": "dir.uri", "target": "out", "map": "parquet"},
    {"place": "dir.uri", "target": "out", "map": "arrow"},
]


@pytest.mark.parametrize("target", KINDS, ids=lambda t: f"{t['place']}-{t['map']}")
def test_what_the_live_app_wrote_is_equal_to_its_replay(tmp_path: Path, target: dict[str, str]):
    spec = made(tmp_path, **target)
    live(spec)
    for stretch in (Stretch(), Stretch(Edge(2), Edge(4))):
        report, _rows = ran(spec, stretch)
        assert said(report)[0] is True, said(report)


@pytest.mark.parametrize("target", KINDS[:3:2], ids=lambda t: f"{t['place']}-{t['map']}")
def test_a_changed_file_differs_and_the_cut_is_named(tmp_path: Path, target: dict[str, str]):
    spec = made(tmp_path, **target)
    live(spec)
    (path,) = [p for p in _written(tmp_path / target["target"]) if b'"n":33,' in p.read_bytes()]
    path.write_bytes(path.read_bytes().replace(b'"n":33,', b'"n":34,'))
    report, _rows = ran(spec)
    equal, why = said(report)
    assert equal is False
    assert report.differs
    assert "differs in cut 4" in why
    assert said(ran(spec, Stretch(Edge(5), None))[0])[0] is True


def _written(target: Path) -> Sequence[Path]:
    return [target] if target.is_file() else sorted(target.glob("part-*"))


def test_another_version_of_the_app_differs_and_the_first_rows_are_shown(tmp_path: Path):
    spec = made(tmp_path)
    live(spec)
    changed = AppSpec("Sums", spec.text.replace("length(3)", "length(4)"), spec.state, buckets=2, outputs=("Out",))
    equal, why = said(ran(changed)[0])
    assert equal is False
    assert '"total":' in why
    assert "where the replay gives" in why


def test_a_file_that_had_lines_before_the_app_began_is_compared_behind_them(tmp_path: Path):
    (tmp_path / "out.jsonl").write_text("something else\n")
    spec = made(tmp_path)
    live(spec)
    assert said(ran(spec)[0])[0] is True


def test_cuts_that_are_not_written_yet_are_replayed_and_not_compared(tmp_path: Path):
    spec = made(tmp_path)
    live(spec, cuts=4)
    report, rows = ran(spec)
    assert len(rows) == COUNT
    assert said(report) == (True, "equal to what was emitted in cuts 1 to 4")
    assert said(ran(spec, Stretch(Edge(5), None))[0])[0] is None


def test_parts_that_were_taken_away_are_told(tmp_path: Path):
    spec = made(tmp_path, **KINDS[2])
    live(spec)
    _written(tmp_path / "out")[0].unlink()
    equal, why = said(ran(spec)[0])
    assert equal is True
    assert "1 parts are no longer there" in why


def test_of_a_sink_that_cannot_be_read_back_it_is_said_so(tmp_path: Path):
    spec = made(tmp_path)
    text = spec.text.replace("@sink(type='file', file.uri='" + str(tmp_path) + "/out.jsonl'", "@sink(type='log'")
    equal, why = said(ran(AppSpec("Sums", text, spec.state, buckets=2, outputs=("Out",)))[0])
    assert (equal, why) == (None, "cannot be read back, so it was not compared")
