"""Generated loops: compiled once, kept on disk, and never in the way where the disk is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from nadi.kernel.columns import cached, jit, sweeping
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


def test_kernels_of_a_process_share_a_loop_but_not_one_of_other_types(tmp_path, monkeypatch):
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))
    made = _made()
    assert _made() is made
    floats = [(name, dtype.replace("64[]", "32[]")) for name, dtype in PARAMETERS]
    total = np.zeros(1, np.float32)
    generated(TEXT, "summed", floats, {}, {})(10, np.ones(10, np.float32), total)
    assert total[0] == 10


def test_a_process_does_not_keep_loops_without_end(tmp_path, monkeypatch):
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))
    monkeypatch.setattr(jit, "_READY", 1)
    made = _made()
    generated(TEXT.replace("summed", "other"), "other", PARAMETERS, {}, {})
    assert _made() is not made


def test_a_loop_is_compiled_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))
    _made()
    (source,) = (tmp_path / "loops").glob("loop_*.py")
    assert source.read_text(encoding="utf-8") == TEXT
    monkeypatch.setattr(jit, "_ready", {})  # as in another process
    again = _made()
    assert sum(again.stats.cache_hits.values()) == 1
    assert _sum(again) == pytest.approx(1.0)


def test_a_loop_is_kept_in_its_place_also_while_another_thread_makes_a_function_of_this_package(tmp_path, monkeypatch):
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))
    jit._ready.clear()
    made = threading.Thread(target=_made)
    with jit._folder_of(_doubled):
        made.start()
        made.join(0.5)  # it must not be done with the folder of this thread
    made.join()
    (path,) = tmp_path.rglob("loop_*.nbi")
    assert path.parent == tmp_path / "loops" / "__pycache__"


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
    monkeypatch.setattr(jit, "_ready", {})
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        again = _made()
    assert _sum(again) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "calls",
    [
        "@jit.loop\ndef twice(value):\n    return parts.step(value) + parts.step(value)\n",
        "@jit.loop\ndef twice(value):\n    return below(value) + below(value)\n"
        "@jit.part\ndef below(value):\n    return parts.step(value)\n",
    ],
    ids=["calls it", "calls what calls it further down"],
)
def test_a_loop_is_compiled_again_when_what_it_calls_in_another_module_has_changed(tmp_path, calls):
    (tmp_path / "loops.py").write_text(f"import parts\nfrom nadi.kernel.columns import jit\n{calls}")

    def told(step):
        text = f"from nadi.kernel.columns import jit\n@jit.part\ndef step(value):\n    return value + {step}\n"
        (tmp_path / "parts.py").write_text(text)
        own = {
            **os.environ,
            "NADI_CACHE": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        }
        command = [sys.executable, "-c", "import loops; print(loops.twice(5))"]
        return subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout.strip()

    assert (told("1"), told("1"), told("20")) == ("12", "12", "50")


# ---- what is deleted -------------------------------------------------------------------------------------------------


def _aged(path, days):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    then = path.stat().st_mtime - days * 86_400
    os.utime(path, (then, then))
    if path.parent.parent.name == "own":
        os.utime(path.parent, (then, then))


def _files(folder):
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()} - {"users", "swept"}


def _starts(folder, monkeypatch):
    """As another process; -> its lock."""
    monkeypatch.setattr(sweeping, "_held", {})
    sweeping.use(folder)
    return sweeping._held[folder]


def _run(folder, monkeypatch):
    os.close(_starts(folder, monkeypatch))


WITH_LOCKS = pytest.mark.skipif(sweeping.FILES is None, reason="nothing is deleted where files cannot be locked")


@WITH_LOCKS
def test_what_nobody_has_used_for_a_month_is_deleted_once_a_day(tmp_path, monkeypatch):
    for name in ("own/old/code.nbc", "loop_1.py", "loop_1.lock", "app_3"):
        _aged(tmp_path / name, 31)
    for name in ("own/new/code.nbc", "loop_2.py", "loop_2.lock", "app_4", "__pycache__/loop_1.run-1.py311.nbi"):
        _aged(tmp_path / name, 29)
    _aged(tmp_path / "__pycache__/loop_2.run-1.py311.nbi", 200)  # machine code is as old as its loop's last use
    _starts(tmp_path, monkeypatch)
    left = {"own/new/code.nbc", "loop_2.py", "loop_2.lock", "app_4", "__pycache__/loop_2.run-1.py311.nbi"}
    assert _files(tmp_path) == left
    _aged(tmp_path / "app_3", 31)
    _run(tmp_path, monkeypatch)
    assert _files(tmp_path) == {*left, "app_3"}


@WITH_LOCKS
def test_a_folder_that_nobody_has_used_for_long_stays_as_it_is(tmp_path, monkeypatch):
    for name in ("own/old/code.nbc", "loop_1.py", "app_3", "users"):
        _aged(tmp_path / name, 400)
    _run(tmp_path, monkeypatch)
    assert len(_files(tmp_path)) == 3
    _aged(tmp_path / "swept", 400)
    _run(tmp_path, monkeypatch)
    assert not _files(tmp_path)


@WITH_LOCKS
def test_nothing_is_deleted_while_another_process_may_use_it(tmp_path, monkeypatch):
    others = [_starts(tmp_path, monkeypatch) for _ in range(2)]
    _aged(tmp_path / "own/old/code.nbc", 31)
    _aged(tmp_path / "swept", 2)
    for lock in others:
        _run(tmp_path, monkeypatch)
        assert _files(tmp_path) == {"own/old/code.nbc"}
        os.close(lock)
    _run(tmp_path, monkeypatch)
    assert _files(tmp_path) == set()


def _doubled(value):
    return value + value


def test_what_is_used_is_as_young_as_its_last_use(tmp_path, monkeypatch):
    monkeypatch.setenv("NADI_CACHE", str(tmp_path))

    def paths():
        jit.loop(_doubled)
        _made()
        cached.note_compiled("app", ())
        monkeypatch.setattr(jit, "_ready", {})
        return [next((tmp_path / "loops").glob(pattern)) for pattern in ("own/*", "loop_*.py", "app_*")]

    for path in paths():
        os.utime(path, (1.0, 1.0))
    assert cached.is_compiled("app", ())
    assert all(path.stat().st_mtime > 1e9 for path in paths())
