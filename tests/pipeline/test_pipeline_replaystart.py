"""A replay that begins with a revision gives what one from the first cut gives from there on; and says why it cannot where it cannot."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pipeline_history import live, made
from pipeline_reference import APP, write_input
from pipeline_testlog import LineLog

from nadi.errors import NadiError
from nadi.kernel.contract import Kernel, Segment
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import meta_of, read_revision, write_revision
from nadi.pipeline.cutting.cutlog import CutLog, take_over
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.history.replay import Inputs, Replayer, Start, logged
from nadi.pipeline.history.replaystart import named_start, newest_start
from nadi.pipeline.history.rerun import Edge, Stretch, rerun
from nadi.pipeline.spec import AppSpec

TIMED = """@app:name('Rises')
@source(type='test', file='{folder}/in', endless='{endless}') define stream In (k string, n long);
define table Seen (k string, n long);
define trigger Tick at every 700 millisec;
@sink(type='test', file='{folder}/out') define stream Out (k string, low long, high long, total long);
from In#window.time(1 sec) select k, n as low, n as high, count() as total group by k insert into Out;
from In[n > 900] select k, n insert into Seen;
from Tick join Seen select 'tick' as k, min(Seen.n) as low, max(Seen.n) as high, count() as total insert into Out;
from e1=In[n > 500] -> not In[n > 500] for 60 millisec select e1.k as k, e1.n as low, 0L as high, 0L as total insert into Out;
"""


def spec_of(folder: Path, text: str, buckets: int) -> AppSpec:
    given = text.format(folder=folder, endless="false")
    return AppSpec(
        "Rises", given, str(folder / "state"), buckets=buckets, outputs=("Out",), connectors="pipeline_testlog"
    )


def cut_log(folder: Path, count: int = 12) -> CutLog:
    """An app that has run over 400 events in so many cuts."""
    write_input(folder / "in", 400)
    size = len((folder / "in").read_text().splitlines())
    times = LineLog({"file": str(folder / "in"), "kind": "known"}).times(0, 0, size)
    assert times is not None
    log = CutLog(folder / "state" / "cuts", take_over(folder / "state" / "cuts"))
    log.append(Cut(0, 1, 0, 0, {(0, 0): 0}))
    ends = [*sorted(random.Random(7).sample(range(1, size), count - 1)), size]
    for n, end in enumerate(ends, 1):
        high = {(0, 0): int(times[ends[n - 2] - 1])} if n > 1 else {}
        log.append(Cut(n, 1, int(times[end - 1]), int(times[0]), {(0, 0): end}, {}, high))
    return log


def revise(spec: AppSpec, store: FileStore, cuts: Sequence[int], deltas: bool = False) -> dict[int, str]:
    """Revisions after these cuts: dumps, or a dump after the first of them and what changed since; their names by cut."""
    replayer = Replayer(spec)
    notes = [_Noting(kernel) for kernel in replayer._kernels]
    replayer._kernels[:] = notes  # type: ignore[list-item]
    names: dict[int, str] = {}
    with Inputs(spec) as inputs:
        for before, cut in logged(CutLog(spec.place.state / "cuts", 0)):
            replayer.take(cut, inputs.read(before, cut))
            if cut.n in cuts:
                if not deltas or not names:
                    for note in notes:
                        note.parts = list(note.kernel.dump())
                meta = meta_of(replayer.app, cut.to_offset(), "", spec.inputs)
                now = 1_700_000_000_000 + cut.clock
                names[cut.n] = write_revision(store, meta, [note.parts for note in notes], now)
    return names


class _Noting:
    """A kernel that keeps what it gave: its last dump, then the deltas since."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.parts: list[Segment | bytes] = []

    def delta(self) -> bytes:
        found = self.kernel.delta()
        if found:
            self.parts.append(found)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)


def lines(spec: AppSpec, start: Start | None = None, stretch: Stretch | None = None) -> list[dict[str, Any]]:
    out = BytesIO()
    rerun(spec, stretch or Stretch(), out, start)
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(("text", "buckets"), [(APP, 1), (APP, 3), (TIMED, 1)], ids=["one", "three", "timed"])
@pytest.mark.parametrize("deltas", [False, True], ids=["dumps", "deltas"])
def test_from_every_revision_come_the_rows_and_numbers_of_a_replay_from_the_first_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, buckets: int, deltas: bool
) -> None:
    monkeypatch.setattr("nadi.pipeline.cutting.cutlog.CUTS_PER_FILE", 2)
    log, store = cut_log(tmp_path), FileStore(tmp_path / "revisions")
    spec = spec_of(tmp_path, text, buckets)
    whole = lines(spec)
    names = revise(spec, store, (1, 4, 5, 9, 11), deltas)
    assert read_revision(store, "Rises", names[9]).revision.has_deltas == deltas
    for n, name in names.items():
        tail = [row for row in whole if row["cut"] > n]
        assert len(tail) >= 10
        assert lines(spec, named_start(spec, read_revision(store, "Rises", name), log)) == tail
    log.trim(8)  # the oldest revision that is kept is that of cut 9
    with pytest.raises(NadiError, match=r"CUTS_TRIMMED.*no longer holds cut 0"):
        lines(spec)
    kept = CutLog(tmp_path / "state" / "cuts", 0)
    for n in (9, 11):
        start = named_start(spec, read_revision(store, "Rises", names[n]), kept)
        assert lines(spec, start) == [row for row in whole if row["cut"] > n]
    with pytest.raises(NadiError, match=r"CUTS_TRIMMED.*no longer holds cut 5, it begins with cut 8"):
        named_start(spec, read_revision(store, "Rises", names[5]), kept)


def test_a_revision_in_other_buckets_is_spread_over_those_that_there_are(tmp_path: Path) -> None:
    log, store = cut_log(tmp_path), FileStore(tmp_path / "revisions")
    names = revise(spec_of(tmp_path, APP, 3), store, (5,))
    spec = spec_of(tmp_path, APP, 2)
    found = lines(spec, named_start(spec, read_revision(store, "Rises", names[5]), log))
    assert found == [row for row in lines(spec) if row["cut"] > 5]


def test_for_a_time_or_a_cut_the_newest_whole_revision_before_it_is_taken(tmp_path: Path) -> None:
    log, store = cut_log(tmp_path), FileStore(tmp_path / "revisions")
    spec = spec_of(tmp_path, APP, 2)
    names = revise(spec, store, (2, 6, 9))
    whole = lines(spec)
    seventh = log.at(7)
    assert seventh is not None
    for edge, expected in (
        (Edge(seventh.clock, True), 6),
        (Edge(7), 6),
        (Edge(6), 2),
        (Edge(1 << 50, True), 9),
        (Edge(2), None),
        (Edge(0, True), None),
    ):
        start, problems = newest_start(spec, store, edge, log)
        assert (None if start is None else start.cut.n, problems) == (expected, [])
        stretch = Stretch(edge, None)
        assert lines(spec, start, stretch) == lines(spec, None, stretch)
    for path in (tmp_path / "revisions" / "Rises" / "segments").iterdir():
        own = path.stem in read_revision(store, "Rises", names[6]).revision.addresses
        if own and path.stem not in read_revision(store, "Rises", names[2]).revision.addresses:
            path.write_bytes(path.read_bytes()[:-3])
    start, problems = newest_start(spec, store, Edge(7), log)
    assert start is not None
    assert (start.cut.n, [p.condition for p in problems]) == (2, ["REVISION_DAMAGED"])
    assert lines(spec, start, Stretch(Edge(7), None)) == [row for row in whole if row["cut"] >= 7]


def test_a_revision_that_is_not_of_this_app_and_log_is_refused_with_the_reason(tmp_path: Path) -> None:
    log, store = cut_log(tmp_path), FileStore(tmp_path / "revisions")
    spec = spec_of(tmp_path, APP, 2)
    stored = read_revision(store, "Rises", revise(spec, store, (5,))[5])

    def reason(of: AppSpec, cuts: CutLog) -> str:
        with pytest.raises(NadiError) as caught:
            named_start(of, stored, cuts)
        assert caught.value.condition == "REVISION_NOT_REPLAYABLE"
        return str(caught.value.parameters["reason"])

    changed = replace(spec, text=spec.text.replace("length(4)", "length(5)"))
    assert reason(changed, log) == "another text of the app made it"
    assert newest_start(changed, store, Edge(9), log)[0] is None
    other = tmp_path / "other"
    empty = CutLog(other, take_over(other) if other.mkdir() is None else 0)
    assert reason(spec, empty) == "it stands after cut 5, and the cut log is empty"
    for n in range(4):
        empty.append(Cut(n, 1, n, 0, {(0, 0): n}))
    assert reason(spec, empty) == "it stands after cut 5, and the cut log ends with cut 3"
    for n in range(4, 7):
        empty.append(Cut(n, 1, n, 0, {(0, 0): n}))
    assert reason(spec, empty) == "the cut log has another cut 5: it is that of another state folder"


@pytest.mark.parametrize("n", [1, 3, 5])
def test_what_comes_of_a_revision_is_compared_with_what_was_emitted(tmp_path: Path, n: int) -> None:
    spec = made(tmp_path)
    live(spec)
    store = FileStore(tmp_path / "revisions")
    name = revise(spec, store, (n,))[n]

    def said() -> tuple[bool | None, str]:
        start = named_start(spec, read_revision(store, "Sums", name), CutLog(spec.place.state / "cuts", 0))
        report = rerun(spec, Stretch(Edge(n + 1), None), BytesIO(), start)
        assert (report.begun, report.first, report.last) == (n, n + 1, 6)
        (sink,) = report.sinks
        return sink.equal, sink.said

    assert said() == (True, f"equal to what was emitted in cuts {n + 1} to 6")
    out = tmp_path / "out.jsonl"
    out.write_text(out.read_text().replace('"n":55,', '"n":56,'))
    equal, why = said()
    assert (equal, "differs in cut 6" in why) == (False, True), why
