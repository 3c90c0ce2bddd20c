"""Batches at a pace, and revisions beside them, in the suite of large states: pure parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.checks import WrongOutputError
from bench.node import Batch
from bench.pace import PACE, Pace, PacedCutMaker, write_pace
from bench.report import markdown
from bench.state import BATCH, StateSetting, app_text, events_of, write_input
from bench.state_revision import Asked, read_back, revision_figures
from bench.state_run import batches_to_renewal
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import meta_of, write_revision
from nadi.pipeline.cutting.cutlog import take_over
from nadi.pipeline.spec import AppSpec
from nadi.runtime import Runtime

BEGIN = 1_000.0  # s
PACED = Pace(BATCH * 100, BATCH, 1.0, BEGIN, BATCH * 2)


def paced(late: dict[int, int]) -> list[Batch]:
    """Two batches that do not count, then one each second that takes 500 ms, but for those that take longer."""
    found = [Batch(n, int((BEGIN - 10 + n) * 1000), BATCH, {"triggerExecution": 900}) for n in range(2)]
    for n in range(30):
        ms = {"triggerExecution": late.get(n, 400) + 100, "latestOffset": 100}
        found.append(Batch(n + 2, int((BEGIN + n + 1) * 1000), BATCH, ms))
    return found


def test_batches_beside_a_revision_are_compared_with_those_before() -> None:
    asked = [Asked(BEGIN + 20.8, BEGIN + 22.8, BEGIN + 25.9, "r")]
    found = revision_figures(paced({20: 900, 22: 700}), PACED, asked)
    assert found["ms"]["before"] == {"median": 500.0, "p99": 500.0, "max": 500.0, "count": 17}
    assert found["ms"]["during"]["count"] == 5  # released at 21 … 25
    assert found["ms"]["during"]["max"] == pytest.approx(1000)
    assert (found["ms"]["while it is copied"]["count"], found["ms"]["while it is written"]["count"]) == (2, 3)
    assert found["ms"]["while it is written"]["max"] == pytest.approx(800)
    assert 1.9 < found["p99_ratio"] < 2.0
    assert found["seconds"] == [5.1]
    assert found["copying_s"] == [2.0]


def test_a_batch_that_begins_late_is_late_from_when_its_events_were_there() -> None:
    batches = paced({})
    batches[-1] = msgspec.structs.replace(batches[-1], begin=batches[-1].begin + 2000)
    found = revision_figures(batches, PACED, [Asked(BEGIN + 29.6, BEGIN + 29.7, BEGIN + 33, "r")])
    assert found["ms"]["during"]["max"] == pytest.approx(2500)
    assert found["own_ms"]["during"]["max"] == 400


def test_only_what_the_pace_gives_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = StateSetting(tmp_path, "flat", 1, 1, "local")
    write_input(setting)
    monkeypatch.setenv(PACE, str(tmp_path / "pace.json"))
    write_pace(tmp_path / "pace.json", Pace(3 * BATCH, 2 * BATCH))
    epoch = take_over(tmp_path / "state" / "cuts")
    maker = PacedCutMaker(AppSpec("a", app_text(setting), str(tmp_path / "state"), epoch=epoch, until_end=True))
    try:
        cuts = [maker.initial()]
        cuts.append(maker.latest(cuts[-1], unlimited=False))
        assert cuts[-1].ends[0, 0] == 2 * BATCH
        cuts.append(maker.latest(cuts[-1], unlimited=False))
        assert cuts[-1].ends[0, 0] == 3 * BATCH
        assert cuts[-1].clock == events_of(setting, 0, 3 * BATCH).ts[-1]  # not the machine's
        assert maker.latest(cuts[-1], unlimited=False) == cuts[-1]
        write_pace(tmp_path / "pace.json", Pace(4 * BATCH, BATCH))
        assert maker.latest(cuts[-1], unlimited=False).ends[0, 0] == 4 * BATCH
    finally:
        maker.close()


def test_a_renewal_is_as_far_away_as_deltas_are_lighter_than_the_base(tmp_path: Path) -> None:
    def note(p: str, t: float, **more: int) -> dict[str, Any]:
        return {"p": p, "t": t, "d": 0.1, **more}

    told = [note("delta", 1.0, bytes=10**9), note("dump", 2.0, bytes=100_000_000)]
    assert batches_to_renewal(tmp_path, 1) == 0  # nothing is known
    for t in (3.0, 4.0):
        told += [note("kernel", t, events=5 * BATCH), note("delta", t, bytes=20_000_000 - 16 * 1024)]
    (tmp_path / "1.jsonl").write_bytes(b"".join(msgspec.json.encode(x) + b"\n" for x in told))
    assert batches_to_renewal(tmp_path, 1) == 15
    assert batches_to_renewal(tmp_path, 2) == 40


def test_a_revision_that_was_written_must_be_the_one_that_is_read_back(tmp_path: Path) -> None:
    app = Runtime("@app:name('A') define stream S (v int); from S#window.length(3) select sum(v) as s insert into O;")
    app.start()
    app.send("S", [(None, (1,))])
    store = FileStore(tmp_path / "siddhi-app-persistence")
    name = write_revision(store, meta_of(app.app, {"n": 1, "clock": app.now}), [app.kernel.dump()], now=1)
    told = read_back(tmp_path, "A", [Asked(0, 0, 0, name)])
    assert 0 < told["stored"] < 10_000
    with pytest.raises(WrongOutputError, match="2__A was written"):
        read_back(tmp_path, "A", [Asked(0, 0, 0, "2__A")])
    blob = next((tmp_path / "siddhi-app-persistence" / "A" / "segments").iterdir())
    blob.write_bytes(b"damaged")
    with pytest.raises(Exception, match="NO_GOOD_REVISION"):
        read_back(tmp_path, "A", [Asked(0, 0, 0, name)])


def test_revisions_have_a_table() -> None:
    asked = [Asked(BEGIN + 20.8, BEGIN + 22.8, BEGIN + 25.9, "r")]
    told = {**revision_figures(paced({}), PACED, asked), "bytes": 5e6, "stored": 1e6}
    app = {
        "revision": told,
        "state_bytes": 1,
        "batch_ms": dict.fromkeys(("median", "p90", "p99", "max"), 1),
        "written": {"mean": 1, "p99": 1},
        "written_per_event": 1,
        "batches": 1,
        "host_ms": {p: {"count": 0} for p in ("kernel", "delta")},
        "stage_ms": {p: {"count": 0} for p in ("alone", "dumping", "copying")},
        "dumps_s": [],
        "memory_of_hosts": 1,
        "recovery_of_hosts": {},
        "recovery_of_node": {},
        "took_s": {"filling": 7},
    }
    machine = dict.fromkeys(("commit", "cpu", "cores", "memory_gb", "java", "python", "pyspark"), 1)
    result = {"suite": "state", "apps": {"flat, 1 MB": app}, "machine": {**machine, "load": [0.0]}, "settings": {}}
    made = markdown({**result, "started": "now", "complete": True})
    assert "| flat, 1 MB | 5.1 = 2.0 + 3.1 | – | 5, 1 | 1.00 | 500 / 500 / 500 (17) |" in made
    assert "| flat, 1 MB | 7 | 7 |" in made
