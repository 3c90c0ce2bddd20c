"""Apps of three groups with random shapes: a keyed pattern, a window, a join; what they keep does not depend on time, only on the events and their order."""

from __future__ import annotations

import random
from dataclasses import dataclass

from nadi.testing.app import AppUnderTest

KEYS = 8
Event = tuple[str, str, int]
"""Stream, key, value."""
Row = tuple[object, ...]

HEAD = """@app:name('{name}')
@source(type = 'http', receiver.url = 'http://127.0.0.1:{one}/in', @map(type = 'json')) define stream S (k string, v long);
@source(type = 'http', receiver.url = 'http://127.0.0.1:{two}/in', @map(type = 'json')) define stream R (k string, v long);
define stream M (k string, v long);
@sink({sink}, table.name = '{table}') define stream Out (k string, a long, b long);
@dist(execGroup = 'pass', parallel = '{first}') from S[v % {sieve} != 0] select k, v insert into M;
@dist(execGroup = 'kept', parallel = '{wide}') partition with ({keys}) begin {query} end;
@dist(execGroup = 'end') from P select k, a, b insert into Out;
"""


@dataclass(frozen=True)
class Made:
    """An app, the ports of its sources by the streams that it reads, the table that it fills."""

    name: str
    text: str
    ports: dict[str, int]
    table: str


def pattern(dice: random.Random) -> tuple[str, str]:
    more = dice.choice(["v > e1.v", "v % 3 == e1.v % 3", "v != e1.v"])
    arrow = dice.choice([" ->", ","])
    return "k of M", f"from every e1 = M{arrow} e2 = M[{more}] select e1.k as k, e1.v as a, e2.v as b insert into P;"


def window(dice: random.Random) -> tuple[str, str]:
    kind = dice.choice([f"length({dice.randint(2, 5)})", f"lengthBatch({dice.randint(2, 4)})", "sort(3, v)"])
    what = dice.choice(["sum(v) as a, count() as b", "max(v) as a, min(v) as b"])
    return "k of M", f"from M#window.{kind} select k, {what} insert into P;"


def join(dice: random.Random) -> tuple[str, str]:
    left, right = (f"#window.length({dice.randint(1, 4)})" for _ in range(2))
    on = dice.choice(["M.k == R.k", "M.v > R.v"])
    way = dice.choice(["join", "left outer join"])
    return "k of M, k of R", f"from M{left} {way} R{right} on {on} select M.k as k, M.v as a, R.v as b insert into P;"


SHAPES = (pattern, window, join)


def made(dice: random.Random, number: int, ports: tuple[int, int], sink: str) -> Made:
    """An app with the shape of this number."""
    keys, query = SHAPES[number](dice)
    name, table = f"Random{number}", f"random{number}"
    text = HEAD.format(
        name=name,
        one=ports[0],
        two=ports[1],
        sink=sink,
        table=table,
        first=dice.randint(1, 2),
        wide=dice.randint(2, 4),
        sieve=dice.randint(5, 9),
        keys=keys,
        query=query,
    )
    return Made(name, text, {"S": ports[0], "R": ports[1]} if "of R" in keys else {"S": ports[0]}, table)


def events(dice: random.Random, count: int) -> list[Event]:
    return [(dice.choice("SSR"), f"k{dice.randrange(KEYS)}", dice.randrange(100)) for _ in range(count)]


def by_key(rows: list[Row]) -> dict[object, list[Row]]:
    """The rows of each key, in their order."""
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def expected(app: Made, given: list[Event]) -> list[Row]:
    """The rows that the app gives in one process."""
    whole = AppUnderTest(app.text)
    for stream, k, v in given:
        whole.send(stream, [[k, v]])
    return whole.rows("Out")
