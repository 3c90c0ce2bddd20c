"""Comparing `nadi run` of two checkouts: what is read off its lines and its output, and what the tables say; without Spark."""

from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bench import floor, growth, publicnode, report_public
from bench.checkouts import OTHER, THIS, Checkout, checkouts
from bench.checks import WrongOutputError
from bench.children import ROOT, ChildFailedError
from bench.growth import FileGrowth, line_ends, points, steady_rate
from bench.public_latency import comparison, in_turn
from bench.public_rate import rate_comparison
from bench.publicnode import Ended, PublicNode, TooSlowError, check_end
from bench.report import markdown

RUN = ROOT / "bench" / "run.py"


@pytest.fixture
def fake(tmp_path: Path) -> Checkout:
    """A checkout whose `nadi` is some lines of the test's."""
    (tmp_path / "src" / "nadi").mkdir(parents=True)
    (tmp_path / "src" / "nadi" / "__init__.py").touch()
    return Checkout(THIS, tmp_path, "abc")


def program(checkout: Checkout, text: str) -> None:
    (checkout.sources / "nadi" / "__main__.py").write_text(text)


WAITS = """\
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # it is kept for sigwait, however early it comes
print("a: running · in 5", flush=True)
signal.sigwait([signal.SIGINT])
print("a: stopped, 1,005 events in, 7 out", flush=True)
"""


def test_a_node_runs_the_sources_of_its_checkout_and_its_last_words_are_understood(fake: Checkout) -> None:
    program(fake, WAITS)
    with PublicNode(fake, fake.root / "node", [Path("a.siddhi")]) as node:
        node.until(lambda: node.lines or None, 20.0, "line")
        ended = node.stop(20.0)
    assert check_end("x", ended, "a", node.lines, 1_005).given == 7
    assert (fake.root / "node" / "node.log").read_text().startswith("a: running")


def test_a_node_that_dies_ends_the_wait_with_its_last_line(fake: Checkout) -> None:
    program(fake, "import sys; print('no such app'); sys.exit(3)")
    with (
        PublicNode(fake, fake.root / "node", []) as node,
        pytest.raises(ChildFailedError, match="ended with 3: no such app"),
    ):
        node.until(lambda: None, 20.0, "row")


def test_a_node_that_is_too_slow_is_ended(fake: Checkout) -> None:
    program(fake, WAITS)
    with PublicNode(fake, fake.root / "node", []) as node:
        node.until(lambda: node.lines or None, 20.0, "line")
        with pytest.raises(TooSlowError, match="no row within 0 s; nadi run said last: a: running"):
            node.until(lambda: None, 0.0, "row")
    with pytest.raises(ChildFailedError):
        node.check()


def test_an_app_that_had_trouble_or_took_too_little_gives_no_figure() -> None:
    fine = Ended("a", "stopped", 5, 7, "")
    assert check_end("x", {"a": fine}, "a", [], 5) is fine
    for ended, lines, told in (
        ({}, [], "said nothing of a"),
        ({"a": fine}, ["a: waiting · in 3"], "started again"),
        ({"a": fine}, [], "took 5 of 6"),
        ({"a": Ended("a", "stopped", 6, 7, "2 in the error store")}, [], "2 in the error store"),
        ({"a": Ended("a", "failed", 6, 7, "")}, [], "the app failed"),
    ):
        with pytest.raises(WrongOutputError, match=told):
            check_end("x", ended, "a", lines, 6)


def test_a_folder_without_nadi_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(ChildFailedError, match="has no nadi"):
        checkouts(tmp_path)
    assert [c.label for c in checkouts(ROOT)] == [THIS, OTHER]


def test_who_was_first_in_one_turn_is_last_in_the_next() -> None:
    sides = [Checkout(THIS, Path(), ""), Checkout(OTHER, Path(), "")]
    assert [[c.label for c in in_turn(sides, turn)] for turn in (0, 1)] == [[THIS, OTHER], [OTHER, THIS]]


# ---- rates ---------------------------------------------------------------------------------------------------------


def test_the_growth_of_a_file_is_noted_until_the_end_of_the_block(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with FileGrowth(path) as seen:
        path.write_bytes(b"a\n")
        while not seen.samples:
            pass
        path.write_bytes(b"a\nbc\n")
    assert [size for _, size in seen.samples][-1] == 5
    assert seen.samples == sorted(seen.samples)


def test_a_rate_counts_what_came_behind_the_warm_up() -> None:
    data = b"".join(b"%d\n" % n for n in range(10))
    rows = np.searchsorted(line_ends(data), [4, 12, 20], side="right")
    assert rows.tolist() == [2, 6, 10]
    found = points([1.0, 2.0, 4.0], rows, np.arange(10), np.repeat(np.arange(10), 100))
    assert found == [(1.0, 200), (2.0, 600), (4.0, 1_000)]
    assert steady_rate(found, 1_000) == 200.0
    assert steady_rate(found[:1], 1_000) == 0.0


# ---- tables --------------------------------------------------------------------------------------------------------


def quantiles(value: float) -> dict[str, float]:
    return {"p50": value, "p90": value + 1, "p99": value + 2, "max": value + 3}


def run(value: float) -> dict[str, Any]:
    told = {"append_ms": quantiles(value), "seen_ms": quantiles(value + 5), "rows": 10, "load_late_s": 0.0}
    return {**told, "load": (0.1, 0.2), "cores": {"hosts": 0.5}}


def result(suite: str, apps: dict[str, Any]) -> dict[str, Any]:
    machine = dict.fromkeys(("commit", "cpu", "cores", "memory_gb", "java", "python", "pyspark"), "x")
    bounds = {"rate": 5_000, "seconds": 30.0, "warm": 30.0, "repeat": 2, "events": 10}
    return {
        "suite": suite,
        "started": "now",
        "complete": True,
        "machine": {**machine, "load": [0.0]},
        "settings": {**bounds, "against": "/x", "commits": {THIS: "abc", OTHER: "def"}},
        "apps": apps,
    }


def test_the_table_of_latency_has_both_sides_their_ratio_and_the_floor() -> None:
    runs = {THIS: [run(20), run(40)], OTHER: [run(60), run(60)]}
    spent = {p: {"median": 1.0, "min": 1.0, "max": 1.0, "count": 1} for p in ("events", "batch", *floor.PHASES)}
    chain = {**run(10), "interval_ms": 5.0, "phases_ms": spent}
    told = comparison(runs)
    told["sides"] = {
        s: {k: {q: vars_of(v) for q, v in c.items()} for k, c in kinds.items()} for s, kinds in told["sides"].items()
    }
    text = markdown(result("latency", {"pattern": {"runs": runs, **told, "floor": [chain]}}))
    assert "| pattern, this (abc) | 30 [20–40] |" in text
    assert "| pattern, this / other | 0.50 |" in text
    assert "| pattern, floor without Spark, every 5 ms | 10 |" in text
    assert "against def" in text


def vars_of(told: Any) -> dict[str, float]:
    return {name: getattr(told, name) for name in ("median", "min", "max", "count")}


def test_the_table_of_throughput_has_both_sides_and_their_ratio() -> None:
    def of(rate: float) -> dict[str, Any]:
        return {"events_per_s": rate, "events": 10, "first_row_s": 9.0, "load": (0.1, 0.2)}

    runs = {THIS: [of(300.0), of(100.0)], OTHER: [of(100.0)]}
    told = rate_comparison(runs)
    told["sides"] = {side: vars_of(value) for side, value in told["sides"].items()}
    text = markdown(result("pipeline", {"filter, files": {"runs": runs, **told}}))
    assert "| filter, files | 200 [100–300] | 100 | 2.00 | 10 | 9 / 9 |" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--suite", "rows", "--against", "x"], "--against is for the suites"),
        (["--suite", "latency", "--no-floor"], "--interval and --no-floor are for"),
        (["--suite", "pipeline", "--over", "files"], "--over is for"),
        (["--suite", "rows", "--stage", "idle"], "--stage is for the suite node"),
        (["--suite", "node", "--profile"], "--profile looks into"),
        (["--suite", "node", "--apps", "1"], "2 apps or more"),
    ],
)
def test_an_option_of_another_suite_is_refused(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bench.options import arguments

    monkeypatch.setattr("sys.argv", ["run.py", "--json", "x", *words])
    with pytest.raises(SystemExit):
        arguments()
    assert told in capsys.readouterr().err


def test_the_program_knows_nothing_of_the_inside_of_the_pipeline_until_a_suite_needs_it() -> None:
    look = "import sys; import bench.run; print([m for m in sys.modules if m.startswith('nadi.pipeline.')])"
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['nadi.pipeline.engine']"


@pytest.mark.parametrize("module", [floor, growth, publicnode, report_public])
def test_the_examples_of_the_comparison_are_true(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.failed == 0
    assert found.attempted > 0
