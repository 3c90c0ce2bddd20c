"""The reference replay: the cut log and the inputs give the rows again, in one process, and the same ones whatever the buckets and the cuts."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pipeline_reference import APP, expected, write_input
from pipeline_testlog import LineLog

from nadi.errors import NadiError
from nadi.kernel.contract import GROUP, NUMBER
from nadi.pipeline.cutting.cutlog import CutLog, take_over
from nadi.pipeline.cutting.cuts import Cut
from nadi.pipeline.engine import plan_app
from nadi.pipeline.history.replay import Emitted, Inputs, Replayer, Start, check_harmless, logged
from nadi.pipeline.spec import AppSpec
from nadi.plan.nodes import Storage

FAR = 1 << 50


def made_spec(folder: Path, buckets: int = 1, text: str = APP) -> AppSpec:
    app = text.format(folder=folder, endless="false")
    return AppSpec(
        "Rises", app, str(folder / "state"), buckets=buckets, outputs=("Out",), connectors="pipeline_testlog"
    )


def logged_cuts(folder: Path, ends: Sequence[int]) -> Path:
    """A cut log whose cuts end at these positions; each clock is the time of the last message, that of the last one is far away."""
    cuts = folder / "state" / "cuts"
    log = CutLog(cuts, take_over(cuts))
    times = LineLog({"file": str(folder / "in"), "kind": "known"}).times(0, 0, 1 << 30)
    log.append(Cut(0, 1, 0, 0, {(0, 0): 0}))
    for n, end in enumerate(ends, 1):
        start = 0 if n == 1 else ends[n - 2]
        high = {(0, 0): int(times[start - 1])} if start else {}
        clock = FAR if n == len(ends) else int(times[end - 1])
        log.append(Cut(n, 1, clock, int(times[0]), {(0, 0): end}, {}, high))
    return cuts


def numbered(emitted: Sequence[Emitted]) -> dict[tuple[int, int], tuple[object, ...]]:
    """(key-group, number) → row with its timestamp; fails where numbers do not follow each other."""
    found: dict[tuple[int, int], tuple[object, ...]] = {}
    seen: dict[int, int] = {}
    for each in emitted:
        for row in each.batches["Out"].to_pylist() if "Out" in each.batches else ():
            assert row[NUMBER] == seen.get(row[GROUP], -1) + 1
            seen[row[GROUP]] = row[NUMBER]
            found[row[GROUP], row[NUMBER]] = tuple(row[n] for n in ("k", "low", "high", "total", "__ts"))
    return found


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_replay_of_any_cuts_gives_the_rows_and_numbers_of_the_whole_input(tmp_path: Path, buckets: int, seed: int):
    write_input(tmp_path / "in", 900, seed)
    size = len((tmp_path / "in").read_text().splitlines())
    ends = sorted({*random.Random(seed).choices(range(size), k=17), size})
    cuts = logged_cuts(tmp_path, ends)
    spec = made_spec(tmp_path, buckets)
    with Inputs(spec) as inputs:
        emitted = list(Replayer(spec).all(inputs, logged(CutLog(cuts, 0))))
    assert [e.bucket for e in emitted] == list(range(buckets)) * len(ends)
    found = numbered(emitted)
    assert len(found) > 100
    assert found == expected(spec.text, tmp_path / "in")


def test_a_replay_goes_on_from_the_state_after_a_cut(tmp_path: Path):
    write_input(tmp_path / "in", 600)
    size = len((tmp_path / "in").read_text().splitlines())
    cuts = logged_cuts(tmp_path, [size // 3, size // 2, size])
    spec = made_spec(tmp_path, 2)
    with Inputs(spec) as inputs:
        whole = Replayer(spec)
        pairs = list(logged(CutLog(cuts, 0)))
        emitted = [e for before, cut in pairs[:2] for e in whole.take(cut, inputs.read(before, cut))]
        states = {bucket: list(kernel.dump()) for bucket, kernel in enumerate(whole._kernels)}
        rest = list(whole.all(inputs, pairs[2:]))
        again = list(Replayer(spec, Start(pairs[1][1], states)).all(inputs, logged(CutLog(cuts, 0), after=2)))
    assert sum(e.batches["Out"].num_rows for e in again if "Out" in e.batches) > 20
    for one, other in zip(rest, again, strict=True):
        assert (one.bucket, one.cut) == (other.bucket, other.cut)
        assert one.batches["Out"].equals(other.batches["Out"])
    assert numbered([*emitted, *again]) == expected(spec.text, tmp_path / "in")


def test_a_cut_log_that_was_trimmed_is_no_place_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nadi.pipeline.cutting.cutlog.CUTS_PER_FILE", 2)
    write_input(tmp_path / "in", 30)
    log = CutLog(logged_cuts(tmp_path, [3, 4, 5, 6, 7, 8]), 1)
    log.trim(4)
    with pytest.raises(NadiError, match=r"CUTS_TRIMMED.*no longer holds cut 0, it begins with cut 4"):
        list(logged(log))
    assert [cut.n for _before, cut in logged(log, after=4)] == [5, 6]


def test_an_input_that_changed_gives_other_rows(tmp_path: Path):
    write_input(tmp_path / "in", 300)
    lines = (tmp_path / "in").read_text().splitlines()
    cuts = logged_cuts(tmp_path, [len(lines)])
    spec = made_spec(tmp_path)
    before = expected(spec.text, tmp_path / "in")
    time, rows = lines[100].split("\t")
    lines[100] = f"{time}\t{json.dumps([[k, n + 1] for k, n in json.loads(rows)])}"
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    with Inputs(spec) as inputs:
        assert numbered(list(Replayer(spec).all(inputs, logged(CutLog(cuts, 0))))) != before


def test_messages_that_cannot_be_decoded_are_counted(tmp_path: Path):
    write_input(tmp_path / "in", 50)
    with (tmp_path / "in").open("a") as out:
        out.write("9000000\tthis is no JSON\n")
    size = len((tmp_path / "in").read_text().splitlines())
    cuts = logged_cuts(tmp_path, [size])
    spec = made_spec(tmp_path)
    with Inputs(spec) as inputs:
        (emitted,) = Replayer(spec).all(inputs, logged(CutLog(cuts, 0)))
    assert (emitted.undecodable, emitted.events) == (1, {"In": 50})


def test_cuts_are_taken_one_after_another_only(tmp_path: Path):
    replayer = Replayer(made_spec(tmp_path))
    with pytest.raises(ValueError, match="does not follow"):
        replayer.take(Cut(2, 1, 5, 5, {}), [])


def test_an_app_that_writes_into_a_foreign_store_is_refused():
    app = plan_app("define table T (k string); define stream In (k string); from In select k insert into T;")
    check_harmless(app)
    stored = dataclasses.replace(app.tables["T"], storage=Storage("mongodb"))
    with pytest.raises(NadiError, match=r"NOT_SUPPORTED.*foreign store"):
        check_harmless(dataclasses.replace(app, tables={"T": stored}))
