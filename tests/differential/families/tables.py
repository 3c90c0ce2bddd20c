"""Tables, their conditions and what is asked of them on demand."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from families.inputs import Made, Step, steps

KEYS = (
    "",
    "@primaryKey('b') ",
    "@primaryKey('a') ",
    "@primaryKey('a', 'b') ",
    "@index('b') ",
    "@index('a') ",
    "@primaryKey('a') @index('b') ",
    "@primaryKey('b') @index('a') ",
    "@index('a') @index('b') ",
)
COLUMNS = "a int, b string, c double"
WHOLE = "[not (a is null) and not (b is null) and not (c is null)]"


APART: dict[str, Sequence[int]] = {"gaps": (1, 1, 2, 3), "chunks": (0,)}
"""How events come to a table that has indexes alone. Siddhi keeps its rows in hash sets by their attributes and timestamps: no two events have one
timestamp, and which rows come first is not asked: not for a limit, nor for a mean as it is after some of the rows."""


def _comes(key: str) -> dict[str, Sequence[int]]:
    return APART if key.startswith("@index") else {}


def condition(r: random.Random, own: Callable[[str], str], depth: int = 2) -> str:
    """A condition on a row of U and what `own` makes of an attribute of the other side."""
    k = r.random()
    if depth and k < 0.4:
        return f"({condition(r, own, depth - 1)} {r.choice(['and', 'and', 'or'])} {condition(r, own, depth - 1)})"
    if depth and k < 0.5:
        return f"not ({condition(r, own, depth - 1)})"
    if k < 0.65:
        return f"U.b {r.choice(['==', '==', '!='])} {own('b')}"
    if k < 0.8:
        return f"U.a {r.choice(['==', '==', '<', '>', '<=', '>=', '!='])} {own('a')}"
    if k < 0.88:
        return f"{own('a')} {r.choice(['==', '<', '>=', '>'])} U.a"
    if k < 0.94:
        return r.choice(["U.a + 1", "U.a * 2"]) + f" {r.choice(['==', '<', '>'])} {own('a')}"
    return f"U.c {r.choice(['<', '>', '<=', '==', '!='])} {own('c')}"


def constant(r: random.Random) -> Callable[[str], str]:
    def own(name: str) -> str:
        return r.choice({"a": ["0", "1", "2", "3"], "b": ["'x'", "'y'", "'z'"], "c": ["1.5", "2.5", "0.0"]}[name])

    return own


def _insertion(key: str) -> str:
    """How a query inserts into U: a row with the primary key of another one takes its place."""
    named = re.search(r"@primaryKey\(([^)]*)\)", key)
    if named is None:
        return "insert into U"
    attributes = re.findall(r"\w+", named[1])
    return "update or insert into U on " + " and ".join(f"U.{name} == {name}" for name in attributes)


def _writes(r: random.Random, key: str) -> list[str]:
    """Queries that change U: one that inserts, and one or two more."""
    found = [f"from T{WHOLE} select a, b, c {_insertion(key)};"]
    for _ in range(r.choice([1, 1, 2])):
        setting = r.choice(
            [
                *([] if key.startswith("@index") else [""]),
                "set U.c = c ",
                "set U.c = U.c + c ",
                "set U.c = c * 2 ",
                *([] if key.startswith("@index") else ["set U.b = b ", "set U.c = U.a + c, U.a = a "]),
                "set U.c = c, U.a = U.a ",
            ]
        )
        on = condition(r, str, 1)
        change = r.choice(
            [f"update U {setting}on {on}", f"update or insert into U {setting}on {on}", f"delete U on {on}"]
        )
        found.append(f"from S{WHOLE} select a, b, c {change};")
    return found


def _reads(r: random.Random) -> str:
    own = "S.{}".format
    on = condition(r, own)
    return r.choice(
        [
            f"from S{r.choice(['', '#window.length(2)'])} {r.choice(['join', 'left outer join'])} U on {on} select S.a as p0, U.a as p1, U.b as p2, U.c as p3 insert into Out;",  # noqa: E501
            f"from S join U on {on} select S.b as p0, count() as p1, sum(U.c) as p2, max(U.a) as p3 group by S.b insert into Out;",
            f"from S[{on.replace('S.', '')} in U] select a, b, c insert into Out;",
            f"from S[not ({on.replace('S.', '')} in U)] select a, b, c insert into Out;",
            f"from S select a, b, ifThenElse({on.replace('S.', '')} in U, 1, 0) as p2 insert into Out;",
            "from U right outer join S on U.a == S.a select S.a as p0, U.b as p1 insert into Out;",
        ]
    )


def tables_written(r: random.Random) -> Made:
    """Tables with each kind of key, written and read by each kind of condition."""
    key = r.choice(KEYS)
    queries = _writes(r, key)
    queries.insert(r.randrange(len(queries) + 1), "@info(name='q') " + _reads(r))
    return Made(
        f"{key}define table U ({COLUMNS}); " + " ".join(queries),
        steps(r, **_comes(key)),
        queries=("q",),
        unordered=bool(_comes(key)),
    )


SELECTS = (
    "select a, b, c",
    "select *",
    "",
    "select b, count() as n group by b",
    "select sum(c) as total, max(a) as most",
    "select a, b order by a desc",
    "select a, b, c order by b, a limit 2",
    "select a, b, c order by c desc, a limit 2 offset 1",
    "select b, avg(c) as mean group by b having mean > 1.0",
    "select a * 2 as twice, b having twice > 2",
    "select b group by b order by b desc",
    "select distinctCount(b) as n",
)


def question(r: random.Random, source: str = "U", selects: Sequence[str] = SELECTS) -> str:
    """An on-demand query that finds rows."""
    own = constant(r)
    on = f" on {condition(r, own, 1)}".replace("U.", f"{source}.") if r.random() < 0.7 else ""
    return f"from {source}{on} {r.choice(selects)}".strip()


def order(r: random.Random, hashed: bool) -> str:
    """An on-demand query that changes U. What it inserts has no timestamp of its own."""
    own = constant(r)
    on, values = condition(r, own, 1), f"{own('a')} as a, {own('b')} as b, {own('c')} as c"
    changes = [
        f"delete U on {on}",
        f"update U set U.c = {own('c')} on {on}",
        f"select {values} update U set U.c = c on {condition(r, str, 1)}",
        f"select {values} delete U on {condition(r, str, 1)}",
        f"from U on {on} select a, b, c insert into V",
    ]
    inserts = [
        f"select {values} insert into U",
        f"select {values} update or insert into U set U.c = c on {condition(r, str, 1)}",
        f"select {values} update or insert into U on {condition(r, str, 1)}",
        f"select {values} update U set U.c = c, U.a = a on {condition(r, str, 1)}",
    ]
    return r.choice(changes if hashed else [*changes, *inserts])


def tables_asked(r: random.Random) -> Made:
    """On-demand queries that find, insert, update and delete rows of tables."""
    key = r.choice(KEYS)
    fed = f"from T{WHOLE} select a, b, c {_insertion(key)};"
    app = f"{key}define table U ({COLUMNS}); define table V ({COLUMNS}); {fed}"
    hashed = key.startswith("@index")
    selects = [text for text in SELECTS if not (hashed and ("limit" in text or "having mean" in text))]

    def between(r: random.Random, ts: int) -> list[Step]:
        asked = [question(r, selects=selects)] if r.random() < 0.5 else []
        if r.random() < 0.25:
            asked += [order(r, hashed), "from U select a, b, c", "from V select a, b, c"]
        return [["?", ts, text] for text in asked]

    return Made(app, steps(r, streams="T", nulls=(0,), between=between, **_comes(key)), unordered=hashed)


WINDOWS = (
    "length(3)",
    "lengthBatch(3)",
    "time(250)",
    "timeBatch(250)",
    "batch()",
    "timeLength(300, 3)",
    "externalTime(d, 250)",
    "sort(3, d)",
    "frequent(2, b)",
    "session(250 milliseconds, b)",
    "delay(200)",
    "lengthBatch(2, true)",
)


def windows_asked(r: random.Random) -> Made:
    """On-demand queries to named windows, that several queries fill and read."""
    app = f"define window U (a int, b string, c double, d long) {r.choice(WINDOWS)}{r.choice(['', ' output all events', ' output expired events'])}; "
    app += "from S select a, b, c, d insert into U; "
    if r.random() < 0.4:
        app += f"from T[f] select a, b, c, d insert {r.choice(['', 'all events '])}into U; "
    app += f"@info(name='q') from U select b, sum(a) as n group by b insert {r.choice(['', 'all events ', 'expired events '])}into Out;"

    def between(r: random.Random, ts: int) -> list[Step]:
        return [["?", ts, question(r)]] if r.random() < 0.6 else []

    return Made(app, steps(r, between=between), queries=("q",))
