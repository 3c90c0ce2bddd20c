"""Every window with every form of its parameters."""

from __future__ import annotations

from collections.abc import Callable

from tests.generate.choices import Maker


def _time(m: Maker) -> str:
    return f"{m.of((1, 10, 25, 60, 1200))} milliseconds"


def _size(m: Maker, least: int = 1) -> str:
    return str(m.number(least, 4))


def _flag(m: Maker) -> str:
    return m.one("true", "false")


def _keys(m: Maker) -> str:
    return m.one("k", "k, b", "v")


def _external_batch(m: Maker, opening: str = "externalTimeBatch(") -> str:
    more = [m.one("0", "7", "5L"), _time(m), _flag(m)][: m.number(0, 3)]
    return f"{opening}{', '.join(['l', _time(m), *more])})"


def _session(m: Maker) -> str:
    return m.one(f"session({_time(m)})", f"session({_time(m)}, k)", "session(25 milliseconds, k, 10 milliseconds)")


def _sort(m: Maker) -> str:
    return f"sort({_size(m)}, {m.one('v', 'd', 'k')}{m.one('', ', ' + chr(39) + 'desc' + chr(39), ', l')})"


def _expression_batch(m: Maker) -> str:
    more = [_flag(m), _flag(m)][: m.number(0, 2)]
    return f"expressionBatch({', '.join([_kept(m), *more])})"


def _kept(m: Maker) -> str:
    return m.one("'count() <= 3'", "'last.l - first.l < 30L'", "'sum(v) < 6'", "'v > 1 or count() < 2'")


WINDOWS: dict[str, Callable[[Maker], str]] = {
    "length": lambda m: f"length({_size(m, 0)})",
    "lengthBatch": lambda m: f"lengthBatch({_size(m, 0)}{m.one('', ', true', ', false')})",
    "time": lambda m: f"time({_time(m)})",
    "timeBatch": lambda m: f"timeBatch({_time(m)}{m.one('', ', 7', ', true', ', 3 milliseconds, true')})",
    "timeLength": lambda m: f"timeLength({_time(m)}, {_size(m)})",
    "externalTime": lambda m: f"externalTime(l, {_time(m)})",
    "externalTimeBatch": _external_batch,
    "batch": lambda m: m.one("batch()", f"batch({_size(m)})"),
    "session": _session,
    "delay": lambda m: f"delay({_time(m)})",
    "sort": _sort,
    "frequent": lambda m: f"frequent({_size(m)}{m.one('', ', k', ', k, b')})",
    "lossyFrequent": lambda m: f"lossyFrequent({m.one('0.3', '0.5, 0.2', '0.5, 0.2, k', '0.3, 0.1, k, b')})",
    "expression": lambda m: f"expression({_kept(m)})",
    "expressionBatch": _expression_batch,
    "unique:ever": lambda m: f"unique:ever({_keys(m)})",
    "unique:first": lambda m: f"unique:first({_keys(m)})",
    "unique:length": lambda m: f"unique:length(k, {_size(m)})",
    "unique:time": lambda m: f"unique:time(k, {_time(m)})",
    "unique:lengthBatch": lambda m: f"unique:lengthBatch(k, {_size(m)})",
    "unique:firstLengthBatch": lambda m: f"unique:firstLengthBatch(k, {_size(m)})",
    "unique:timeBatch": lambda m: f"unique:timeBatch(k, {_time(m)}{m.one('', ', 7')})",
    "unique:firstTimeBatch": lambda m: f"unique:firstTimeBatch(k, {_time(m)}{m.one('', ', 7')})",
    "unique:timeLengthBatch": lambda m: f"unique:timeLengthBatch(k, {_time(m)}, {m.one('', '7, ')}{_size(m)})",
    "unique:externalTimeBatch": lambda m: _external_batch(m, "unique:externalTimeBatch(k, "),
    "cron": lambda m: f"cron('*/{m.number(1, 3)} * * * * ?')",
}

JOINED = (
    "long",
    "length",
    "lengthBatch",
    "time",
    "timeBatch",
    "timeLength",
    "externalTime",
    "batch",
    "sort",
    "session",
)
"""A side of a join has one of these or none."""


def window(m: Maker, names: tuple[str, ...] = tuple(WINDOWS)) -> str:
    """The call of a window."""
    name = m.of(names)
    return "length(40)" if name == "long" else WINDOWS[name](m)  # "long": long enough for an index
