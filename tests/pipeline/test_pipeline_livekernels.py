"""What a host tells of its live kernels: how much their elements hold, and how much memory the host has."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline_reference import APP as RISES
from pipeline_reference import write_input
from pipeline_work import Rig, Within, cuts_of, sides, spec_of, sweep

from nadi.pipeline.executor import livekernels

TEXT = """@app:name('Work')
@source(type='test', file='{folder}/in') define stream In (k string);
@sink(type='test', file='{folder}/out') define stream Out (k string);
@info(name='q') from In#window.length(100) select 'x' as k insert into Out;"""


@pytest.fixture
def within(tmp_path: Path) -> Iterator[Within]:
    for made in sides(tmp_path, 1):
        yield made[0]


def _rig(folder: Path, texts: list[str]) -> Rig:
    (folder / "in").write_text("".join(f"{i * 10}\t{json.dumps([text])}\n" for i, text in enumerate(texts)))
    return Rig(spec_of(folder, TEXT), cuts_of(folder / "in", (10, 20, 30)))


def test_what_elements_hold_is_told_of_a_large_state_too(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(livekernels, "SIZES_EVERY", -1.0)
    rig = _rig(tmp_path, [_unpackable(i) for i in range(30)])
    told = [rig.step(within)["buckets"][0] for _ in range(3)]
    assert told[-1]["state_bytes"] > 20_000_000
    assert [t["entries"]["q/window"] for t in told] == [10, 20, 30]


def test_a_receipt_tells_how_much_memory_its_host_holds(tmp_path: Path, within: Within):
    told = _rig(tmp_path, ["a"] * 30).step(within)["buckets"][0]
    ours = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert 0.5 * ours < told["memory"] <= 1.5 * ours


def _unpackable(seed: int) -> str:
    """A megabyte of text of which packing takes little off."""
    return base64.b64encode(random.Random(seed).randbytes(750_000)).decode()


def test_a_bucket_whose_deltas_lie_beside_many_of_others_is_renewed_so_that_these_can_go(
    tmp_path: Path, within: Within
):
    spec = spec_of(tmp_path, RISES, buckets=2, engine="pipeline_beside")
    write_input(tmp_path / "in", 1_200)
    rig = Rig(spec, cuts_of(tmp_path / "in", range(10, 401, 10)))
    kept = []
    for _ in range(40):
        rig.step(within)
        sweep(rig)
        kept.append(sum(len(rig.store.get(name, 0, 1 << 30)) for name in rig.store.list("d-")))
    assert all(line.base is not None and line.base.cut > 20 for line in rig.lines.values())
    largest = max(line.base_bytes for line in rig.lines.values())
    assert (
        max(kept) < 4 * max(4_000, largest) + 10_000 < sum(t["state_written"] for cut in rig.told for t in cut.values())
    )
    rig.check()
