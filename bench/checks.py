"""What the apps must put out, computed in numpy without anything of nadi, and comparing what came with it.

A benchmark of wrong results is worth nothing: every run is checked row by row, and a difference fails it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from bench.apps import FILTER_CENTS, PATTERN_CENTS, WINDOW_MS
from bench.events import Events, Ints

Column = npt.NDArray[Any]
Rows = Mapping[str, Column]
"""Columns of one length. Prices are in cents; only `mean` is a float."""

TOLERANCE = 1e-9  # relative: a running sum of doubles against exact integers
SKEW_MS = 500  # how far the time of sending may be from the server's
US = 1_000


class WrongOutputError(Exception):
    """The output of an app is not what it must be."""


# ---- what must come ------------------------------------------------------------------------------------------------


def expected(app: str, events: Events, window: int = WINDOW_MS) -> Rows:
    """All rows that `app` must put out for these events; `window` in the unit of `ts`."""
    if app == "identity":
        return _same(events, np.ones(len(events), bool))
    if app == "filter":
        return _same(events, events.cents >= FILTER_CENTS)
    if app == "window":
        return window_rows(events, window)
    if app == "pattern":
        return pattern_rows(events, window)
    raise ValueError(f"no app {app}")


def _same(events: Events, kept: npt.NDArray[np.bool_]) -> Rows:
    return {"ts": events.ts[kept], "key": events.key[kept], "price": events.cents[kept], "vol": events.vol[kept]}


def _by_key(events: Events) -> tuple[Events, Ints]:
    """The events ordered by key, else as they came, and for each one number that grows with key, then time."""
    order = np.argsort(events.key, kind="stable")
    ordered = Events(events.ts[order], events.key[order], events.cents[order], events.vol[order])
    since = ordered.ts - (events.ts.min() if len(events) else 0)
    span = int(since.max(initial=0)) + 1
    return ordered, ordered.key * (4 * span) + span + since


def window_rows(events: Events, window: int = WINDOW_MS) -> Rows:
    """For each event mean and count of the prices of its key that are less than `window` older."""
    ordered, place = _by_key(events)
    low = place - np.minimum(window, int(np.ptp(ordered.ts)) + 1 if len(events) else window)
    first = np.searchsorted(place, low, side="right")
    sums = np.concatenate([[0], np.cumsum(ordered.cents)])
    at = np.arange(len(events))
    count = at + 1 - first
    mean = (sums[at + 1] - sums[first]) / (100.0 * np.maximum(count, 1))
    return {"ts": ordered.ts, "key": ordered.key, "n": count, "mean": mean}


def length_rows(events: Events, length: int) -> Rows:
    """For each event mean and count of the last `length` prices of its key, whatever their times."""
    ordered, _ = _by_key(events)
    at = np.arange(len(events))
    begins = np.flatnonzero(np.diff(ordered.key, prepend=-1))  # where each key begins
    first = np.maximum(at - length + 1, begins[np.searchsorted(begins, at, side="right") - 1] if len(begins) else at)
    sums = np.concatenate([[0], np.cumsum(ordered.cents)])
    count = at + 1 - first
    mean = (sums[at + 1] - sums[first]) / (100.0 * np.maximum(count, 1))
    return {"ts": ordered.ts, "key": ordered.key, "n": count, "mean": mean}


def pattern_rows(events: Events, within: int = WINDOW_MS) -> Rows:
    """Each high price with the first higher one of its key that comes after it, if it comes within the time."""
    return rising_rows(events, within, PATTERN_CENTS)


def rising_rows(events: Events, within: int, least: int = 0) -> Rows:
    """Each price of at least `least` cents with the first higher one of its key that comes after it, if it comes within the time."""
    ordered, _ = _by_key(events)
    start = np.flatnonzero(ordered.cents >= least)
    at = start + 1
    starts: list[Ints] = []
    ends: list[Ints] = []
    while len(start):
        in_range = at < len(ordered)
        start, at = start[in_range], at[in_range]
        alive = (ordered.key[at] == ordered.key[start]) & (ordered.ts[at] - ordered.ts[start] <= within)
        start, at = start[alive], at[alive]
        hit = ordered.cents[at] > ordered.cents[start]
        starts.append(start[hit])
        ends.append(at[hit])
        start, at = start[~hit], at[~hit] + 1
    first = np.concatenate([*starts, np.zeros(0, np.int64)]).astype(np.int64)
    last = np.concatenate([*ends, np.zeros(0, np.int64)]).astype(np.int64)
    order = np.lexsort([first, last])
    first, last = first[order], last[order]
    return {
        "ts": ordered.ts[last],
        "key": ordered.key[last],
        "since": ordered.ts[first],
        "low": ordered.cents[first],
        "high": ordered.cents[last],
    }


# ---- what came -----------------------------------------------------------------------------------------------------


def parse(payloads: Iterable[bytes]) -> tuple[Rows, Ints]:
    """The rows of JSON messages, and for each the number of its message. Raises WrongOutputError for what is no such message."""
    found: list[dict[str, Any]] = []
    origin: list[int] = []
    decode = msgspec.json.Decoder().decode
    for number, payload in enumerate(payloads):
        try:
            told = decode(payload)
            several = told if isinstance(told, list) else [told]
            found.extend(one["event"] for one in several)
        except (msgspec.DecodeError, KeyError, TypeError) as reason:
            raise WrongOutputError(f"message {number} is not JSON events: {payload[:80]!r}") from reason
        origin.extend([number] * len(several))
    return rows_of(found), np.array(origin, np.int64)


def rows_of(found: list[dict[str, Any]]) -> Rows:
    """Columns of rows as the apps name them."""
    if not found:
        return {}
    rows: dict[str, Column] = {}
    for name in found[0]:
        try:
            values = [row[name] for row in found]
            if name == "sym":
                rows["key"] = np.array([int(v[1:]) for v in values], np.int64)
            elif name in ("price", "low", "high"):
                rows[name] = np.rint(np.array(values, np.float64) * 100).astype(np.int64)
            else:
                rows[name] = np.array(values, np.float64 if name == "mean" else np.int64)
        except (KeyError, TypeError, ValueError, OverflowError) as reason:
            raise WrongOutputError(f"column {name}: {reason!r}") from reason
    return rows


# ---- comparing -----------------------------------------------------------------------------------------------------


def size(rows: Rows) -> int:
    return len(rows["ts"]) if rows else 0


def compare(wanted: Rows, found: Rows) -> dict[str, int | float]:
    """Check that both hold the same rows and that those of each key come in time order; -> row count and sums of the columns.

    Raises WrongOutputError.
    """
    if size(wanted) != size(found):
        raise WrongOutputError(f"{size(found):,} rows came, {size(wanted):,} must come")
    if not size(wanted):
        return {"rows": 0}
    if set(found) != set(wanted):
        raise WrongOutputError(f"columns {sorted(found)} came, {sorted(wanted)} must come")
    in_key_order(found)
    left, right = _sorted(wanted), _sorted(found)
    for name, values in left.items():
        same = np.isclose(values, right[name], rtol=TOLERANCE, atol=0.0) if name == "mean" else values == right[name]
        if not same.all():
            at = int(np.argmin(same))
            row = {n: c[at].item() for n, c in left.items()}
            raise WrongOutputError(f"{name} is {right[name][at]} in a row that must be {row}")
    return {"rows": size(found), **{name: column.sum().item() for name, column in found.items()}}


def _sorted(rows: Rows) -> Rows:
    exact = sorted(name for name in rows if name != "mean")
    order = np.lexsort([rows[name] for name in exact])
    return {name: column[order] for name, column in rows.items()}


def in_key_order(found: Rows) -> None:
    """Check that the rows of each key came in the order of their times. Raises WrongOutputError."""
    order = np.argsort(found["key"], kind="stable")
    key, ts = found["key"][order], found["ts"][order]
    wrong = (key[1:] == key[:-1]) & (ts[1:] < ts[:-1])
    if wrong.any():
        at = int(np.argmax(wrong))
        raise WrongOutputError(f"S{key[at]}: time {ts[at + 1]} came after {ts[at]}")


def check_live(app: str, sent: Events, found: Rows) -> dict[str, int | float]:
    """The same for events that were stamped (µs) when they were sent, but ordered and timed by the server.

    What hangs on the server's time may differ by `SKEW_MS`. Raises WrongOutputError.
    """
    if app in ("identity", "filter"):
        return compare(expected(app, sent), found)
    short, long = ((WINDOW_MS + skew) * US for skew in (-SKEW_MS, SKEW_MS))
    if app == "window":
        return _live_window(window_rows(sent, short), window_rows(sent, long), found)
    return _live_pattern(pattern_rows(sent, short), pattern_rows(sent, long), found)


def _live_window(least: Rows, most: Rows, found: Rows) -> dict[str, int | float]:
    if size(found) != size(least):
        raise WrongOutputError(f"{size(found):,} rows came, {size(least):,} must come")
    if not size(found):
        return {"rows": 0}
    in_key_order(found)
    order = np.lexsort([found["ts"], found["key"]])
    came = {name: column[order] for name, column in found.items()}
    for name in ("ts", "key"):
        if not (came[name] == least[name]).all():
            raise WrongOutputError(f"the rows are not those of the events that were sent ({name})")
    if ((came["n"] < least["n"]) | (came["n"] > most["n"])).any():
        raise WrongOutputError("a window held more or fewer events than its length allows")
    sure = least["n"] == most["n"]
    if not np.isclose(came["mean"][sure], least["mean"][sure], rtol=TOLERANCE, atol=0.0).all():
        raise WrongOutputError("the mean of a window is wrong")
    return {"rows": size(found), "compared exactly": int(sure.sum())}


def _live_pattern(least: Rows, most: Rows, found: Rows) -> dict[str, int | float]:
    came, must, may = _tuples(found), set(_tuples(least)), set(_tuples(most))
    if len(came) != len(set(came)):
        raise WrongOutputError(f"{len(came) - len(set(came))} matches came twice")
    if missing := must - set(came):
        raise WrongOutputError(f"{len(missing)} matches did not come, for instance {sorted(missing)[0]}")
    if extra := set(came) - may:
        raise WrongOutputError(f"{len(extra)} matches came that are none, for instance {sorted(extra)[0]}")
    if size(found):
        in_key_order(found)
    return {"rows": len(came), "certain": len(must)}


def _tuples(rows: Rows) -> list[tuple[int, ...]]:
    names = ("ts", "key", "since", "low", "high")
    return list(zip(*(rows[n].tolist() for n in names), strict=True)) if size(rows) else []
