"""Finding 13: a state that was tampered with is a named error, or is loaded; no loop reads or writes outside of its arrays, then or later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import NadiError
from nadi.kernel.columns.flat import Block, decode, elements_of, encode
from nadi.kernel.columns.keytable import KeyTable

BLOCKS = [
    Block("q/window", 3, "s", {"ts": np.arange(5), "there": np.array([True, False]), "d": np.array([0.5, np.nan])}),
    Block("q/selector", 0, "g", {"ends": np.array([0, 1], np.int32), "texts": np.array([97], np.uint8)}),
]
GOOD = encode(BLOCKS)
PROGRAM = Path(__file__).with_name("hostilestate.py")


def head(payload: bytes) -> list[list[object]]:
    length = int.from_bytes(payload[4:8], "little")
    return list(msgspec.msgpack.decode(payload[8 : 8 + length]))


def with_head(told: object) -> bytes:
    packed = msgspec.msgpack.encode(told)
    body = GOOD[8 + int.from_bytes(GOOD[4:8], "little") :]
    start = GOOD[:4] + len(packed).to_bytes(4, "little") + packed
    return start + b"\0" * (-len(start) % 8) + body


def test_what_was_encoded_is_decoded() -> None:
    found = list(decode(GOOD))
    assert [(b.element, b.group, b.letter) for b in found] == [("q/window", 3, "s"), ("q/selector", 0, "g")]
    assert found[0].arrays["ts"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", ["|O", "O8", "<M8[us]", "|V8", "<U4", ">i8", "object", "i4,i4", "", "<f8" * 100])
def test_an_array_of_anything_but_numbers_is_a_named_error(dtype: str) -> None:
    told = head(GOOD)
    told[0][4][0][1] = dtype
    with pytest.raises(NadiError, match="STATE_NOT_READABLE"):
        list(decode(with_head(told)))


@pytest.mark.parametrize("size", [-1, -(2**63), 2**40, 2**63 - 1, 10_000])
def test_an_array_of_more_or_less_than_there_is_is_a_named_error(size: int) -> None:
    told = head(GOOD)
    told[0][4][0][2] = size
    with pytest.raises(NadiError, match="STATE_NOT_READABLE"):
        list(decode(with_head(told)))


@pytest.mark.parametrize(
    "told", [{}, [], 5, [["q"]], [["q", -1, "s", 1, []]], [["q", 1 << 40, "s", 1, []]], [["q", 0, "s", -1, []]]]
)
def test_a_head_of_another_shape_is_a_named_error(told: object) -> None:
    if told == []:
        assert list(decode(with_head(told))) == []
        return
    with pytest.raises(NadiError, match="STATE_NOT_READABLE"):
        list(decode(with_head(told)))


def test_truth_values_that_are_none_are_a_named_error() -> None:
    damaged = encode([Block("q", 0, "s", {"b": np.array([2, 255], np.uint8)})]).replace(b"|u1", b"|b1")
    with pytest.raises(NadiError, match="truth values"):
        list(decode(damaged))


@settings(max_examples=300)
@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255), st.integers(0, len(GOOD)))
def test_any_byte_that_was_changed_and_any_end_that_was_lost_is_read_or_named(place: int, by: int, end: int) -> None:
    for payload in (bytes([*GOOD[:place], GOOD[place] ^ by, *GOOD[place + 1 :]]), GOOD[:end]):
        assert condition(lambda payload=payload: list(decode(payload))) in ("", "STATE_NOT_READABLE")
        assert condition(lambda payload=payload: elements_of(payload)) in ("", "STATE_NOT_READABLE")


def condition(reading: Callable[[], object]) -> str:
    """The name of the error that reading a state is, "" where it is read."""
    try:
        reading()
    except NadiError as named:
        return named.condition
    return ""


@pytest.mark.parametrize(
    ("ends", "texts"),
    [
        ([0, 5], [97]),
        ([0, 1 << 30], [97]),
        ([-5, 1], [97]),
        ([1, 0], [97]),
        ([0, 2, 1], [97, 98]),
        ([], [97]),
        ([0, 1], [255]),
        ([0, -(1 << 31)], [97]),
    ],
)
def test_texts_that_are_not_where_a_state_says_are_refused(ends: list[int], texts: list[int]) -> None:
    with pytest.raises(ValueError):
        KeyTable().unpacked(np.array(ends, np.int32), np.array(texts, np.uint8))


def attacked(seed: int, times: int, *names: str) -> list[list[object]]:
    """What a process told that loads states of some apps, each tampered with so many times; its loops run as Python."""
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": f"{root / 'src'}:{root}"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(seed), str(times), *names],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


ATTACKED = {
    "windows": (
        "time",
        "groups of keys",
        "extremes of keys",
        "sort",
        "unique in a partition",
        "groups of what leaves",
        "delay in a partition",
    ),
    "batches": (
        "length batch",
        "time batch",
        "waiting batch",
        "batch of keys in a partition",
        "groups in batches of keys",
    ),
    "sessions": ("session", "session of keys in a partition", "late events in a partition"),
    "rates": ("last groups of keys", "all of keys", "all of some", "snapshot of groups", "snapshot of a batch"),
    "patterns": (
        "pattern of keys",
        "pair",
        "absent",
        "either",
        "waits in a partition",
        "count",
        "sequence of keys",
        "sequence that waits",
    ),
    "joins": ("join", "join: totals in a partition", "join: a time and a length", "join: batches of keys"),
    "tables": ("table", "table of two keys", "table that is changed", "rows without a key"),
}
"""Apps that hold their state in different ways; one process attacks several."""


@pytest.mark.parametrize("what", ATTACKED)
def test_a_state_that_was_tampered_with_is_a_named_error_or_is_loaded_and_nothing_fails_on_it_later(what: str) -> None:
    assert attacked(7, 12, *ATTACKED[what]) == []


LOOPS = """
import numpy as np
from nadi.kernel.columns.jit import bare, loop

@bare
def inner(array, i):
    return array[i]

@loop
def outer(array, i):
    return inner(array, i)

for i in (3, 1 << 40, -(1 << 40)):
    try:
        outer(np.zeros(3, np.int64), i)
    except IndexError:
        print("refused")
"""


def test_loops_that_check_their_indices_refuse_one_outside_of_an_array(tmp_path: Path) -> None:
    """`NADI_CHECKED=1`: for states of strangers, whatever the checks at loading do not see."""
    (tmp_path / "loops.py").write_text(LOOPS)
    environment = {**os.environ, "NADI_CHECKED": "1", "NADI_CACHE": str(tmp_path / "cache")}
    environment.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "loops.py")], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["refused"] * 3, done.stderr[-2000:]
    assert (tmp_path / "cache" / "checked").is_dir()
