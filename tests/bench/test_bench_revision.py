"""Batches at a pace, and revisions beside them, in the suite of large states: pure parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.checks import WrongOutputError
from bench.pace import Pace, PacedCutMaker, write_pace
from bench.plan import Batch
from bench.report import markdown
from bench.state import BATCH, StateSetting, app_text, by_renewal, disk_figures, events_of, write_input
from bench.state_revision import Asked, read_back, revision_figures
from bench.state_run import batches_to_renewal
from nadi.metrics import Progress
from nadi.persistence.files import FileStore
from nadi.persistence.revisions import meta_of, write_revision
from nadi.pipeline.cutting.cutlog import take_over
from nadi.pipeline.cutting.cuts import Cut
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
    asked = [Asked(BEGIN + 20.8, BEGIN + 25.9, "r")]
    found = revision_figures(paced({20: 900, 22: 700}), PACED, asked)
    assert found["ms"]["before"] == {"median": 500.0, "p90": 500.0, "p99": 500.0, "max": 500.0, "count": 17}
    assert found["ms"]["during"]["count"] == 5  # released at 21 … 25
    assert found["ms"]["during"]["max"] == pytest.approx(1000)
    assert 1.9 < found["p99_ratio"] < 2.0
    assert found["seconds"] == [5.1]


def test_a_batch_that_begins_late_is_late_from_when_its_events_were_there() -> None:
    batches = paced({})
    batches[-1] = msgspec.structs.replace(batches[-1], begin=batches[-1].begin + 2000)
    found = revision_figures(batches, PACED, [Asked(BEGIN + 29.6, BEGIN + 33, "r")])
    assert found["ms"]["during"]["max"] == pytest.approx(2500)
    assert found["own_ms"]["during"]["max"] == 400


def test_only_what_the_pace_gives_is_cut(tmp_path: Path) -> None:
    setting = StateSetting(tmp_path, "flat", 1, 1, "local")
    write_input(setting)
    write_pace(tmp_path / "pace.json", Pace(3 * BATCH, 2 * BATCH))
    epoch = take_over(tmp_path / "state" / "cuts")
    spec = AppSpec("a", app_text(setting), str(tmp_path / "state"), epoch=epoch, until_end=True)
    maker = PacedCutMaker(spec, tmp_path / "pace.json")

    def after(cut: Cut) -> Cut | None:
        """The next cut; an input looks through its file piece by piece."""
        for _ in range(1_000):
            if (found := maker.next(cut, Progress(cut.n))) is not None:
                return found
        return None

    try:
        first = after(maker.initial())
        assert first is not None
        assert first.ends[0, 0] == 2 * BATCH
        second = after(first)
        assert second is not None
        assert second.ends[0, 0] == 3 * BATCH
        assert second.clock == events_of(setting, 0, 3 * BATCH).ts[-1]  # not the machine's
        assert after(second) is None
        assert maker.next_look(None) <= 0.01
        assert not maker.status.finished
        write_pace(tmp_path / "pace.json", Pace(4 * BATCH, BATCH, over=True))
        third = after(second)
        assert third is not None
        assert third.ends[0, 0] == 4 * BATCH
        assert after(third) is None
        assert maker.status.finished
    finally:
        maker.close()


def told(cut: int, **more: int) -> dict[str, Any]:
    """What a bucket told of a cut."""
    usual = {"bucket": 0, "loading": 0.0, "memory": 1, "snapshot": "", "state_bytes": 1, "delta": 0, "base": 0}
    return {"p": "bucket", "t": float(cut), "d": 0.0, "cut": cut, "events": BATCH, **usual, **more}


def test_a_renewal_is_as_far_away_as_deltas_are_lighter_than_the_bases(tmp_path: Path) -> None:
    notes = [told(1, delta=10**9), told(2, base=50_000_000, base_wait=100_000_000)]
    assert batches_to_renewal(tmp_path) == 0  # nothing is known
    notes += [told(cut, events=5 * BATCH, delta=20_000_000 - 16 * 1024) for cut in (3, 4)]
    (tmp_path / "1.jsonl").write_bytes(b"".join(msgspec.json.encode(x) + b"\n" for x in notes))
    assert batches_to_renewal(tmp_path) == 14  # 60 MB are left, a batch is a fifth of 20 MB and a piece
    notes.append(told(5, base=10_000_000, base_wait=30_000_000, delta=5))
    (tmp_path / "1.jsonl").write_bytes(b"".join(msgspec.json.encode(x) + b"\n" for x in notes))
    assert batches_to_renewal(tmp_path) == 0  # there was nothing since


def test_a_revision_that_was_written_must_be_the_one_that_is_read_back(tmp_path: Path) -> None:
    app = Runtime("@app:name('A') define stream S (v int); from S#window.length(3) select sum(v) as s insert into O;")
    app.start()
    app.send("S", [(None, (1,))])
    store = FileStore(tmp_path / "siddhi-app-persistence")
    name = write_revision(store, meta_of(app.app, {"n": 1, "clock": app.now}), [app.kernel.dump()], now=1)
    told = read_back(tmp_path, "A", [Asked(0, 0, name)])
    assert 0 < told["stored"] < 10_000
    with pytest.raises(WrongOutputError, match="2__A was written"):
        read_back(tmp_path, "A", [Asked(0, 0, "2__A")])
    blob = next((tmp_path / "siddhi-app-persistence" / "A" / "segments").iterdir())
    blob.write_bytes(b"damaged")
    with pytest.raises(Exception, match="NO_GOOD_REVISION"):
        read_back(tmp_path, "A", [Asked(0, 0, name)])


def test_revisions_have_a_table() -> None:
    asked = [Asked(BEGIN + 20.8, BEGIN + 25.9, "r")]
    told = {**revision_figures(paced({}), PACED, asked), "bytes": 5e6, "stored": 1e6}
    app = {
        "revision": told,
        "state_bytes": 1,
        "batch_ms": dict.fromkeys(("median", "p90", "p99", "max"), 1),
        "by_renewal": by_renewal({}, set()),
        "written": {"mean": 1, "p99": 1},
        "written_per_event": 1,
        "batches": 1,
        "pieces": {"deltas": 1, "bases": 1},
        "disk": disk_figures([], []),
        "host_ms": {p: {"count": 0} for p in ("kernel", "delta", "base")},
        "dumps_s": [],
        "memory_used": 1,
        "memory_of_hosts": 1,
        "recovery_of_hosts": {},
        "recovery_of_node": {},
        "took_s": {"filling": 7},
    }
    machine = dict.fromkeys(("commit", "cpu", "cores", "memory_gb", "java", "python", "pyspark"), 1)
    result = {"suite": "state", "apps": {"flat, 1 MB": app}, "machine": {**machine, "load": [0.0]}, "settings": {}}
    made = markdown({**result, "started": "now", "complete": True})
    assert "| flat, 1 MB | 5.1 | – | 5, 1 | 1.00 | 500 / 500 / 500 (17) |" in made
    assert "| flat, 1 MB | 7 | 7 |" in made
