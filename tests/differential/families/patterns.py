"""Nested patterns and sequences: groups under `every`, each quantifier, absence, logic, `within` of a part."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from families.inputs import Made, steps

WITHIN = ("", "", "", " within 200 milliseconds", " within 500 milliseconds", " within 1 sec")


@dataclass
class _Names:
    """The names of the elements so far: all of them, and those that take several events."""

    all: list[str] = field(default_factory=list)
    counted: set[str] = field(default_factory=set)

    def new(self) -> str:
        self.all.append(f"e{len(self.all) + 1}")
        return self.all[-1]


def _filter(r: random.Random, names: _Names) -> str:
    k = r.random()
    if k < 0.3:
        return ""
    if k < 0.6 or not names.all:
        return f"[{r.choice(['a', 'c', 'a', 'd'])} {r.choice(['<', '>', '>=', '!='])} {r.choice([-1, 0, 1, 2])}]"
    other = r.choice(names.all)
    if other in names.counted:
        other += r.choice(["[0]", "[last]", "[1]", "[last - 1]"])
    return r.choice(
        [
            f"[b == {other}.b]",
            f"[a > {other}.a]",
            f"[a >= {other}.a or b != {other}.b]",
            f"[{other}.a is null]",
            f"[not ({other}.f) and f]",
            f"[d - {other}.d < 400L]",
        ]
    )


def _one(r: random.Random, names: _Names, counts: tuple[str, ...] = ("",)) -> str:
    stream, condition = r.choice("SST"), _filter(r, names)
    name, count = names.new(), r.choice(counts)
    if count:
        names.counted.add(name)
    return f"{name}={stream}{condition}{count}"


def _absent(r: random.Random, names: _Names, timed: bool) -> str:
    wait = f" for {r.choice(['100', '250', '400'])} milliseconds" if timed else ""
    return f"not {r.choice('ST')}{_filter(r, names)}{wait}"


def _logical(r: random.Random, names: _Names) -> str:
    k = r.random()
    if k < 0.5:
        return f"{_one(r, names)} {r.choice(['and', 'or'])} {_one(r, names)}"
    if k < 0.65:
        absent = _absent(r, names, False)
        return f"{absent} and {_one(r, names)}"
    if k < 0.8:
        absent = _absent(r, names, True)
        return f"{absent} {r.choice(['and', 'or'])} {_one(r, names)}"
    if k < 0.9:
        return f"{_one(r, names)} {r.choice(['and', 'or'])} {_absent(r, names, True)}"
    return f"{_absent(r, names, True)} {r.choice(['and', 'or'])} {_absent(r, names, True)}"


COUNTS = ("", "", "", "<1:2>", "<2>", "<2:3>", "<0:2>", "<1:>", "<:2>", "<0:1>", "<2:>")
STARS = ("", "", "", "+", "*", "?")


def _element(r: random.Random, names: _Names, counts: tuple[str, ...]) -> str:
    k = r.random()
    if k < 0.2:
        return _logical(r, names)
    if k < 0.28:
        return _absent(r, names, True)
    return _one(r, names, counts)


def _group(r: random.Random, names: _Names) -> str:
    """A part in parentheses, with or without `every`, perhaps with a time of its own."""
    inner = " -> ".join(_element(r, names, COUNTS) for _ in range(r.choice([1, 2, 2, 3])))
    return f"{r.choice(['every ', 'every ', ''])}({inner}){r.choice(WITHIN) if r.random() < 0.4 else ''}"


def nested(r: random.Random) -> Made:
    names, parts = _Names(), []
    for _ in range(r.choice([1, 2, 2, 3])):
        if r.random() < 0.5:
            parts.append(_group(r, names))
        else:
            parts.append(r.choice(["every ", ""]) + _element(r, names, COUNTS))
    return _matching(r, names, " -> ".join(parts) + r.choice(WITHIN))


def nested_sequences(r: random.Random) -> Made:
    names = _Names()
    parts = [_element(r, names, STARS) for _ in range(r.choice([2, 3, 3, 4]))]
    if r.random() < 0.2 and len(parts) > 2:
        parts[1:3] = [f"({parts[1]}, {parts[2]})"]
    return _matching(r, names, r.choice(["every ", "every ", ""]) + ", ".join(parts) + r.choice(WITHIN))


def _matching(r: random.Random, names: _Names, text: str) -> Made:
    items = []
    for at, name in enumerate(names.all[:5]):
        index = (
            r.choice(["", "[0]", "[last]", "[1]", "[last - 1]"])
            if name in names.counted
            else r.choice(["", "", "", "[0]", "[last]"])
        )
        items.append(f"{name}{index}.{r.choice('abd')} as p{at}")
    if names.all and r.random() < 0.2:
        items.append(f"ifThenElse({r.choice(names.all)} is null, 'none', 'some') as q0")
    select = "select " + (", ".join(items) or "1 as p0")
    if items and r.random() < 0.1:
        select += r.choice([" having not (p0 is null)", " group by e1.b"])
    if r.random() < 0.1:
        select = "select count() as n"
    partition = r.random() < 0.2
    query = f"from {text} {select} insert into Out;"
    if partition:
        return Made(f"partition with (b of S, b of T) begin {query} end;", steps(r), streams=("Out",))
    return Made(f"@info(name='q') {query}", steps(r), queries=("q",))
