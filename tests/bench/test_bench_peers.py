"""The suite of the peers: the same events and check values as theirs, and nothing without them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench import peers
from bench.checks import WrongOutputError
from bench.children import ROOT
from bench.peers import NoPeersError, Peers, find_peers, measure_peers, run_nadi
from bench.peers_apps import SHAPES, Shape, Values, arrivals, peer_events, values_of
from bench.peers_kafka import wanted_rows
from bench.report import markdown
from nadi.io.registry import connectors
from nadi.pipeline.engine import plan_app

# What Siddhi 5.1.30 gave for the first 20,000 events, sent one by one.
GOLDEN = {
    "pattern": Values(638, 9761400031412115, -2266772651764688819, 121526.63),
    "ppattern1k": Values(638, 9761400031412115, -2266772651764688819, 121526.63),
    "pseq1k": Values(6050, 260211852, 2122463552805541524, 834626.46),
    "lengthavg": Values(20000, 1996796354419, 1799971285529936245, 998393.188173),
    "join": Values(100121, 2550298652, -2149450731076441276, 10001599.76),
    "timebatch": Values(0, 0, 0, 0.0),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_nadi_gives_the_rows_of_siddhi_whatever_the_batch(name: str) -> None:
    shape = SHAPES[name]
    for size in (20_000, 999):
        fed = list(arrivals(shape, peer_events(20_000, shape.keys), size))
        _, values, _ = run_nadi(shape, fed, 20_000)
        assert values.out == GOLDEN[name].out
        assert values.dsum == pytest.approx(GOLDEN[name].dsum, rel=1e-9)
        if not shape.averages:
            assert (values.sum, values.hash) == (GOLDEN[name].sum, GOLDEN[name].hash)


def test_the_events_are_those_of_the_peers() -> None:
    events = peer_events(2_000_000, 1_000)
    price = events.cents / 100
    row = events.ts + 2 * events.key + 3 * np.floor(price * 100 + 0.5).astype(np.int64) + 4 * events.vol
    with np.errstate(over="ignore"):
        assert int(row.sum()) == 3400000052324073178


def test_check_values_tell_an_order_and_a_value_apart() -> None:
    rows = pa.record_batch({"sym": ["S1", "S2"], "p": [1.5, 2.5]})
    other = pa.record_batch({"sym": ["S2", "S1"], "p": [2.5, 1.5]})
    one, two = values_of([rows], False), values_of([other], False)
    assert (one.out, one.sum) == (two.out, two.sum) == (2, 1 + 2 + 2 * (150 + 250))
    assert not one.same(two, False)
    assert one.same(two, True)
    assert not one.same(replace_sum(one), True)


def replace_sum(values: Values) -> Values:
    return Values(values.out, values.sum, values.hash, values.dsum + 1)


def test_rows_that_differ_from_siddhis_give_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    shape: Shape = replace(SHAPES["filter"], few=1_000)
    said = Values(1, 2, 3, 4.0)
    monkeypatch.setattr(peers, "run_siddhi", lambda *_: ([1.0, 2.0], said))
    with pytest.raises(WrongOutputError, match="filter"):
        measure_peers(Peers(Path(), Path()), shape, 1_000, 1, lambda _line: None)


def test_the_ratio_is_nadi_to_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = replace(SHAPES["filter"], few=1_000)
    fed = list(arrivals(shape, peer_events(1_000, 1_000), 100))
    right = run_nadi(shape, fed, 1_000)[1]
    monkeypatch.setattr(peers, "run_siddhi", lambda *_: ([100.0, 50.0, 400.0], right))
    told = measure_peers(Peers(Path(), Path()), shape, 1_000, 3, lambda _line: None)
    assert told["events_per_s"]["siddhi"].median == 100.0
    assert told["ratio"] == pytest.approx(told["events_per_s"]["nadi"].median / 100.0)
    assert told["small_ratio"] == pytest.approx(told["events_per_s"]["small"].median / 100.0)


def test_the_filter_over_kafka_lets_through_what_its_text_says() -> None:
    events = peer_events(1_000, 1_000)
    rows = wanted_rows(events)
    assert rows["price"].min() > 5_000
    assert len(rows["ts"]) == int((events.cents > 5_000).sum())
    assert all(not connectors(plan_app(shape.text), "source") for shape in SHAPES.values())


def test_without_peers_the_suite_says_so_and_ends_with_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NADI_PEERS", raising=False)
    with pytest.raises(NoPeersError, match="--peers"):
        find_peers(None)
    monkeypatch.setenv("NADI_PEERS", str(tmp_path))
    with pytest.raises(NoPeersError, match="no siddhi"):
        find_peers(None)
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--suite", "peers", "--json", str(tmp_path / "p.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no peers to compare with" in done.stdout
    assert not (tmp_path / "p.json").exists()


def test_the_report_has_a_line_for_each_shape() -> None:
    rates = {"median": 2.0, "min": 1.0, "max": 3.0, "count": 3}
    told = {"label": "pass", "kernel": "rows", "ratio": 0.25, "load": [0.1, 0.2]}
    machine = {"cpu": "c", "cores": 2, "memory_gb": 1, "commit": "x", "java": "17", "python": "3", "pyspark": "4"}
    text = markdown(
        {
            "suite": "peers",
            "complete": True,
            "started": "now",
            "machine": {**machine, "load": [0.0]},
            "settings": {"events": 5, "repeat": 3},
            "apps": {
                "pass": {
                    **told,
                    "events_per_s": {"nadi": rates, "small": rates, "siddhi": rates},
                    "small_ratio": 0.125,
                    "goal": 5.0,
                },
                "kafka": {**told, "label": "Kafka", "events_per_s": {"nadi": rates, "spark": rates}},
            },
        }
    )
    assert "| pass | 2 [1–3] | siddhi | 2 [1–3] | 0.25 | 5 | 2 [1–3] | 0.1 | 2.5 | rows | 0.1–0.2 |" in text
    assert "| Kafka | 2 [1–3] | spark |" in text
