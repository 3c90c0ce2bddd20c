"""Generated apps with random groups, parallelism, partitions, sources and sinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

SCHEMA = "(k string, v int)"
GRID = 100_000
"""ms. Events come at multiples of it and LATER more, triggers fire at multiples, and each timer adds whole ones and a power of 2 of its own: so nothing that
comes over two ways comes at one moment, where its order would be a matter of ways."""
LATER = 1 << 15
Messages = list[tuple[int, str, str, int, int]]
"""Steps of the GRID that pass before, stream, key, value, how often the message has them: events of one message that differ may come together in another order
where they take two ways."""


@dataclass(frozen=True)
class Generated:
    """An app in pieces that may stand in any order, within definitions and within elements. `inputs` are fed, `outputs` have no reader, or a sink."""

    definitions: tuple[str, ...]
    elements: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(["@app:name('Gen')", *self.definitions, *self.elements]) + "\n"

    def __repr__(self) -> str:
        return f"\n{self.text}"


@dataclass
class _Maker:
    """`roots` has the inputs that a stream comes from. What comes from one input over two ways is not brought together: their order would be a matter of ways.

    `number` takes one from a range, as chance has it; without `timed` nothing depends on when events come. `wide` is how many instances each group has; `made`
    the streams that a group makes. `single` has the streams whose events of one moment are all equal. Where they differ, a partition by value gives those
    of one key in the order of its buckets: there is an order within each value only.
    """

    number: Callable[[int, int], int]
    timed: bool = True
    wide: dict[str, int] = field(default_factory=dict)
    roots: dict[str, frozenset[str]] = field(default_factory=dict)
    made: dict[str, set[str]] = field(default_factory=dict)
    definitions: list[str] = field(default_factory=list)
    elements: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    timers: int = 0
    kept: set[str] = field(default_factory=set)
    single: set[str] = field(default_factory=set)
    functions: tuple[str, ...] = ()

    def one(self, *options: Any) -> Any:
        return options[self.number(0, len(options) - 1)]

    def duration(self) -> int:
        """ms that no other timer takes."""
        self.timers += 1
        return self.number(1, 3) * GRID + (1 << (self.timers - 1))

    def dist(self, group: str) -> str:
        if not group:
            return ""
        wide = f", parallel='{self.wide[group]}'"
        return f"@dist(execGroup='{group}'{self.one('', wide) if self.wide[group] == 1 else wide})"

    def target(self, roots: frozenset[str]) -> str:
        """Where to: a new stream, now and then one that comes from other inputs."""
        others = [s for s, of in self.roots.items() if s.startswith("M") and not of & roots and s not in self.read]
        if others and self.number(0, 3) == 0:
            return self.one(*others)
        name = f"M{len(self.roots)}"
        self.definitions.append(f"{_definition(name, self.one('', '', LOG))}{SCHEMA};")
        return name


def _plain(m: _Maker, source: str, target: str) -> str:
    return (
        f"from {source}{m.one('', '[v > 1]', f'[{source}.v != 3]', '[v % 2 == 0][v < 9]')} "
        f"select {m.one('*', 'k, v + 1 as v', f'{source}.k, {source}.v', *m.functions)} insert into {target};"
    )


def _kept(m: _Maker, source: str, other: str, target: str, timed: bool = True) -> str:
    """A query with state; in a partition or in a group of one instance."""
    timed = timed and m.timed
    lasts = f"{m.duration()} millisec" if timed else ""
    window = m.one(f"time({lasts})", f"timeLength({lasts}, 2)", f"delay({lasts})") if timed else "length(2)"
    shapes = [
        f"from {source}#window.lengthBatch({m.number(1, 3)}) select k, max(v) as v insert into {target}",
        f"from {source}#window.{window} select k, min(v) as v insert all events into {target}",
        f"from every e1={source} -> e2={source}[v > e1.v] select e1.k as k, e2.v as v insert into {target}",
        f"from every e1={source}, e2={source}[v >= e1.v] select e1.k as k, e2.v as v insert into {target}",
        f"from {source} select k, convert(sum(v), 'int') as v group by k insert into {target}",
        f"from {source} select k, v output last every 2 events insert into {target}",
    ]
    if other:
        joined = f"from {source}#window.length(2) join {other}#window.length(2) on {source}.k == {other}.k"
        shapes += [f"{joined} select {source}.k as k, {other}.v as v insert into {target}"] * 2
        shapes.append(f"from every e1={source} -> e2={other} select e1.k as k, e2.v as v insert into {target}")
        if timed:
            shapes.append(
                f"from every e1={source} -> not {other} for {lasts} select e1.k as k, e1.v as v insert into {target}"
            )
            joined = (
                f"from {source}#window.time({lasts}) left outer join {other}#window.length(1) on {source}.v > {other}.v"
            )
            shapes.append(f"{joined} select {source}.k as k, {source}.v as v insert all events into {target}")
    return f"{m.one(*shapes)};"


def generated(
    number: Callable[[int, int], int], scripts: bool = False, sinks: bool = False, timed: bool = True, most: int = 5
) -> Generated:
    """An app whose results do not depend on how two ways from one input to one query are timed.

    Args:
        number: takes one from a range, as chance has it.
        scripts: with functions that need a process to run.
        sinks: every output has one, and what has one is an output.
        timed: with windows and patterns that take time, and triggers.
        most: how many instances a group may have.
    """
    names = ("", "g", "h", "i")
    m = _Maker(number, timed)
    m.wide = {n: min(most, m.one(1, 2, 3, 5)) if n else 1 for n in names}
    if scripts:
        m.functions = ("k, twice(v) as v",)
        m.definitions.append("define function twice[javascript] return int { return data[0] * 2; };")
    inputs = ("S", "R")
    for name in inputs:
        source = m.one("", f"@source(type='http', receiver.url='http://{name}') ", "@source(type='http') " * 2)
        m.definitions.append(f"{source}define stream {name} {SCHEMA};")
        m.roots[name] = frozenset((name,))
        m.single.add(name)
    if timed:
        m.definitions.append(f"define trigger T at every {3 * GRID} millisec;")
    for place in range(m.number(2, 7)):
        _element(m, f"q{place}", m.one(*names))
    outputs = tuple(s for s in m.roots if s not in m.read and s.startswith("M"))
    if sinks:
        m.definitions = [_heard(d, outputs) for d in m.definitions]
        outputs = tuple(s for s in m.roots if any(d.startswith(_definition(s, LOG)) for d in m.definitions))
    return Generated(tuple(m.definitions), tuple(m.elements), inputs, outputs)


@st.composite
def apps(draw: st.DrawFn, scripts: bool = True, sinks: bool = False) -> Generated:
    """As `generated`."""
    return generated(lambda least, most: draw(st.integers(least, most)), scripts, sinks)


LOG = "@sink(type='log') "


def _definition(stream: str, sink: str = "") -> str:
    return f"{sink}define stream {stream} "


def _heard(definition: str, outputs: tuple[str, ...]) -> str:
    return f"{LOG}{definition}" if any(definition.startswith(_definition(s)) for s in outputs) else definition


def _element(m: _Maker, name: str, group: str) -> None:
    wide = m.wide[group] > 1
    own = m.made.setdefault(group, set())
    bold = m.number(0, 2) == 2  # what is refused, unless it happens to be right
    sources = [s for s in m.roots if bold or not (wide and s in own)]
    source = m.one(*sources, *(s for s in sources if s.startswith("M")))
    others = [s for s in sources if not m.roots[s] & m.roots[source]]
    other = m.one("", *others) if others else ""
    shape = _shape(m, source, other, narrow=bold or not wide)
    read = [s for s in _read(shape, source, other) if s]
    roots = frozenset().union(*(m.roots.get(s, {s}) for s in read))
    target = m.target(roots)
    if shape == "trigger" or (shape == "plain" and source in m.single):
        m.single |= {target} - m.roots.keys()
    else:
        m.single.discard(target)
    for n, query in enumerate(_queries(m, shape, source, other, target)):
        named = query.replace("begin", f"begin @info(name='{name}a')")
        m.elements.append(f"@info(name='{name}{'b' * n}') {m.dist(group)} {named}")
    m.read.update(read)
    m.roots[target] = m.roots.get(target, frozenset()) | roots
    own.add(target)


def _shape(m: _Maker, source: str, other: str, narrow: bool) -> str:
    """What an element does. `narrow`: it may keep what cannot be divided."""
    shapes = ["plain", "partition", "partition", "broadcast"]
    shapes += ["by value"] if source in m.single else []
    shapes += ["trigger"] if m.timed else []
    if narrow:
        shapes += ["kept"]
        shapes += ["asked"] if m.timed and "T" not in m.roots[source] else []
        once = ("window", *(("table", *(("aggregation",) if m.timed else ())) if other else ()))
        shapes += [s for s in once if s not in m.kept]
    shape = str(m.one(*shapes))
    m.kept.add(shape)
    return shape


def _read(shape: str, source: str, other: str) -> tuple[str, ...]:
    """What an element reads."""
    match shape:
        case "trigger":
            return ("T",)
        case "asked":
            return source, "T"
        case "plain" | "by value" | "window":
            return (source,)
    return source, other


def _queries(m: _Maker, shape: str, source: str, other: str, target: str) -> tuple[str, ...]:
    match shape:
        case "plain":
            return (_plain(m, source, target),)
        case "kept":
            return (_kept(m, source, other, target),)
        case "trigger":
            return (f"from T select 't' as k, convert(triggered_time % 7, 'int') as v insert into {target};",)
        case "asked":
            joined = f"from T join {source}#window.length(2)"
            return (f"{joined} select {source}.k as k, {source}.v as v insert into {target};",)
        case "window":
            kind = m.one("length(3)", f"time({m.duration()} millisec)") if m.timed else "length(3)"
            m.definitions.append(f"define window Named {SCHEMA} {kind} output all events;")
            summed = f"from Named select k, convert(sum(v), 'int') as v group by k insert into {target};"
            return f"from {source} select k, v insert into Named;", summed
        case "table":
            m.definitions.append(f"define table Last {SCHEMA};")
            kept = f"from {source} select k, v update or insert into Last set Last.v = v on Last.k == k;"
            joined = f"from {other} join Last on {other}.k == Last.k select {other}.k as k, Last.v as v"
            return kept, f"{joined} insert into {target};"
        case "aggregation":
            total = f"from {source} select k, sum(v) as v group by k aggregate every sec ... hour;"
            m.definitions.append(f"define aggregation Total {total}")
            joined = f"from {other} join Total on {other}.k == Total.k within 0L, 99999999999L per 'hours'"
            return (f"{joined} select {other}.k as k, convert(Total.v, 'int') as v insert into {target};",)
        case "by value":
            return (f"partition with (v of {source}) begin {_kept(m, source, '', target, timed=False)} end;",)
        case "broadcast":
            return (f"partition with (k of {source}) begin {_kept(m, source, other, target)} end;",)
    keys = ", ".join(f"k of {s}" for s in (source, other) if s)
    return (f"partition with ({keys}) begin {_kept(m, source, other, target)} end;",)


messages = st.lists(
    st.tuples(
        st.integers(1, 3), st.sampled_from(("S", "R")), st.sampled_from("abcde"), st.integers(0, 9), st.integers(1, 2)
    ),
    min_size=8,
    max_size=40,
)
