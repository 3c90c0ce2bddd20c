"""Generated loops: compiled once, kept on disk, and never in the way where the disk is."""

from __future__ import annotations

import numpy as np
import pytest

from nadi.kernel.columns.jit import PLAIN, generated, interpreted

TEXT = "def summed(n, values, total):\n    for i in range(n):\n        total[0] += values[i]\n"
PARAMETERS = (("n", "int64"), ("values", "const float64[]"), ("total", "float64[]"))

pytestmark = pytest.mark.skipif(PLAIN, reason="Numba is switched off: nothing is compiled")


def _sum(loop, count=10):
    total = np.zeros(1)
    loop(count, np.full(count, 0.1), total)
    return float(total[0])


def _made():
    return generated(TEXT, "summed", PARAMETERS, {}, {})


def test_a_loop_adds_from_left_to_right_compiled_and_as_python(tmp_path, monkeypatch):
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))
    with interpreted():
        plain = _made()
    expected = 0.0
    for _ in range(1_000):
        expected += 0.1
    assert _sum(_made(), 1_000) == _sum(plain, 1_000) == expected


def test_a_loop_is_compiled_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))
    _made()
    (source,) = (tmp_path / "loops").glob("loop_*.py")
    assert source.read_text(encoding="utf-8") == TEXT
    again = _made()
    assert sum(again.stats.cache_hits.values()) == 1
    assert _sum(again) == pytest.approx(1.0)


def test_without_a_folder_to_write_loops_are_compiled_all_the_same(tmp_path, monkeypatch):
    taken = tmp_path / "taken"
    taken.write_text("a file is no folder")
    monkeypatch.setenv("NADI_CACHE", str(taken))
    assert _sum(_made()) == pytest.approx(1.0)


def test_a_damaged_file_in_the_folder_is_told_and_does_no_harm(tmp_path, monkeypatch):
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))
    _made()
    files = list(tmp_path.rglob("*.nbc"))
    assert files
    for file in files:
        file.write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        again = _made()
    assert _sum(again) == pytest.approx(1.0)
