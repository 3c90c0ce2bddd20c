"""Small apps, no two with the same text: an http source, a window, a file sink. What they must put out for what was sent. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench.checks import WrongOutputError
from nadi.io.natsserver import free_port

SKEW = 0.5  # seconds by which the node's time of an event may be beside the sender's
AGGREGATES = ("max", "min", "avg", "sum")


@dataclass(frozen=True, slots=True)
class SmallApp:
    """App `number` of a node: it listens on `port` and appends to `target`.

    Even ones have a window of events, odd ones of seconds; names, filter, arithmetic, length and one aggregate hang on the number.

    >>> SmallApp(7, 8080, Path("/tmp/7.jsonl")).window, SmallApp(4, 8080, Path("/tmp/4.jsonl")).window
    ('time(2 sec)', 'length(7)')
    """

    number: int
    port: int
    target: Path

    @property
    def name(self) -> str:
        return f"small-{self.number:04d}"

    @property
    def path(self) -> str:
        return f"/{self.name}/in"

    @property
    def length(self) -> int:
        """Of the window: events, or seconds."""
        return 2 + self.number % 7 if self.number % 2 else 3 + self.number

    @property
    def by_time(self) -> bool:
        return self.number % 2 == 1

    @property
    def window(self) -> str:
        return f"time({self.length} sec)" if self.by_time else f"length({self.length})"

    @property
    def aggregate(self) -> str:
        return AGGREGATES[self.number // 2 % len(AGGREGATES)]

    @property
    def text(self) -> str:
        i = self.number
        return (
            f"@app:name('{self.name}')\n"
            f"@source(type='http', receiver.url='http://127.0.0.1:{self.port}{self.path}', @map(type='json'))\n"
            f"define stream In{i} (id long, v{i} long);\n"
            f"@sink(type='file', file.uri='{self.target}', append='false', @map(type='json'))\n"
            f"define stream Out{i} (id long, x long, n long, total long, more double);\n"
            f"@info(name='q{i}')\n"
            f"from In{i}[v{i} >= -{i}]#window.{self.window} select id, v{i} * {i + 2} + {i} as x, count() as n, sum(v{i}) as total, "
            f"convert({self.aggregate}(v{i}), 'double') as more insert into Out{i};\n"
        )

    def value(self, event: int) -> int:
        """What event number `event` carries."""
        return (event * 37 + self.number * 11) % 1_000

    def message(self, event: int) -> bytes:
        """An event as it is sent.

        >>> SmallApp(7, 8080, Path()).message(2)
        b'{"event":{"id":2,"v7":151}}'
        """
        return b'{"event":{"id":%d,"v%d":%d}}' % (event, self.number, self.value(event))


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that was sent: number, between which moments (s since the epoch), and whether the node said that it has it (if not, it may have it)."""

    event: int
    begin: float
    end: float
    accepted: bool


def small_apps(count: int, folder: Path) -> list[SmallApp]:
    """Apps with ports that are free now, each with one of its own. None is of those that the system gives to connections that go out."""
    ports: dict[int, None] = {}
    while len(ports) < count:
        ports[free_port()] = None
    return [SmallApp(i, port, folder / f"{i}.jsonl") for i, port in enumerate(ports)]


def check_rows(app: SmallApp, sent: Sequence[Sent], lines: Sequence[bytes]) -> int:
    """Each accepted event gave one row, in order, with the right sums; -> number of rows. Errors: WrongOutputError."""
    rows = [_row(app, line) for line in lines]
    known = {s.event: s for s in sent}
    came = [row["id"] for row in rows]
    if strange := set(came) - set(known):
        raise WrongOutputError(f"{app.name}: rows of events that were not sent: {sorted(strange)[:5]}")
    if len(set(came)) != len(came):
        raise WrongOutputError(f"{app.name}: {len(came) - len(set(came))} rows came twice")
    if lost := {s.event for s in sent if s.accepted} - set(came):
        raise WrongOutputError(f"{app.name}: {len(lost)} accepted events gave no row, for instance {min(lost)}")
    if came != sorted(came):
        raise WrongOutputError(f"{app.name}: the rows are not in the order of the events")
    values = [app.value(event) for event in came]
    for at, row in enumerate(rows):
        _check_row(app, row, values[: at + 1], [known[event] for event in came[: at + 1]])
    return len(rows)


def _row(app: SmallApp, line: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = msgspec.json.decode(line)["event"]
        return {"id": found["id"], "x": found["x"], "n": found["n"], "total": found["total"], "more": found["more"]}
    except (msgspec.DecodeError, KeyError, TypeError) as reason:
        raise WrongOutputError(f"{app.name}: {line[:80]!r} is no row") from reason


def _check_row(app: SmallApp, row: dict[str, Any], values: Sequence[int], sent: Sequence[Sent]) -> None:
    least, most = _held(app, sent)
    if not least <= row["n"] <= most:
        raise WrongOutputError(f"{app.name}: event {row['id']}: the window held {row['n']}, not {least} to {most}")
    held = values[len(values) - row["n"] :]
    wanted = {"x": values[-1] * (app.number + 2) + app.number, "total": sum(held), "more": _aggregate(app, held)}
    for name, value in wanted.items():
        if abs(row[name] - value) > 1e-9 * max(1.0, abs(value)):
            raise WrongOutputError(f"{app.name}: event {row['id']}: {name} is {row[name]}, not {value}")


def _held(app: SmallApp, sent: Sequence[Sent]) -> tuple[int, int]:
    """How many events, the last one included, the window holds at least and at most."""
    if not app.by_time:
        exact = min(app.length, len(sent))
        return exact, exact
    last = sent[-1]
    surely = sum(last.end - s.begin < app.length - SKEW for s in sent)
    possibly = sum(last.begin - s.end <= app.length + SKEW for s in sent)
    return surely, possibly


def _aggregate(app: SmallApp, held: Sequence[int]) -> float:
    made = {"max": max(held), "min": min(held), "sum": sum(held), "avg": sum(held) / len(held)}
    return float(made[app.aggregate])
