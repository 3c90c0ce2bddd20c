"""Aggregators that remember more than a sum: the extremes of a sliding window, deviations, truths (semantics/selection.md#aggregators).

The least value of a window is the first one of a chain: the values held, without those that a later one undercuts. An event that comes takes from its end
what it undercuts, and stands there; one that leaves takes itself from its front, if it is there. Chains go by the events' places in the queue and are no
state: `chained` makes them anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.jit import loop
from nadi.kernel.columns.stretch import DTYPES, Array, Longs
from nadi.lang.tree import Type

_WHOLE = (Type.INT, Type.LONG)


@dataclass(frozen=True, slots=True)
class Extreme:
    """`min` and `max` of what a window holds: `s` the value that is shown; `n` is 1 where a number is held, and 2 more for each NaN.

    By group `df` and `dl` have the first and the last place of the chain plus 1, by place `dp` and `dn` those before and after. Of zeros, which are equal
    and yet two, the one that came first is shown as long as one is held (`zr`; `zc` counts them), as on rows. NaN stands in no chain. One that came before
    any number is shown until something leaves; then it is shown only where nothing else is held.
    """

    number: int
    function: str
    argument: int
    kind: Type
    forever = False

    @property
    def _whole(self) -> bool:
        return self.kind in _WHOLE

    @property
    def arrays(self) -> dict[str, str]:
        """Name → dtype, by group."""
        n = self.number
        held = {f"n{n}": "int64", f"s{n}": DTYPES[self.kind]}
        return held if self._whole else held | {f"zc{n}": "int64", f"zr{n}": DTYPES[self.kind]}

    @property
    def by_group(self) -> tuple[str, str]:
        """The ends of the chains."""
        return f"df{self.number}", f"dl{self.number}"

    @property
    def by_place(self) -> tuple[str, str]:
        """The links of the chains."""
        return f"dp{self.number}", f"dn{self.number}"

    def add(self, write: Writer, value: Term, group: str) -> None:
        """The lines for an event that comes, at place `j`."""
        n, g, v = self.number, group, value.text
        better = ">" if self.function == "max" else "<"
        self._load(write, g)
        lines = [
            f"t{n}_ = dl{n}[{g}]",
            f"while t{n}_ != 0 and {v} {better} {self._held(f't{n}_ - 1')}:",
            f"    t{n}_ = dp{n}[t{n}_ - 1]",
            f"dp{n}[j] = t{n}_",
            f"dn{n}[j] = 0",
            f"dl{n}[{g}] = j + 1",
            f"if t{n}_ == 0:",
            f"    df{n}[{g}] = j + 1",
            *indented(self._set(v, g)),
            "else:",
            f"    dn{n}[t{n}_ - 1] = j + 1",
        ]
        if not self._whole:
            zero = [f"if {v} == 0.0:", f"    if zc{n}[{g}] == 0: zr{n}[{g}] = {v}", f"    zc{n}[{g}] += 1"]
            lines = [f"if {v} == {v}:", *indented([*lines, *zero]), "else:", *indented(self._add_nan(v, g))]
        guarded(write, value, lines)

    def take(self, write: Writer, value: Term, group: str) -> None:
        """The lines for an event that leaves place `j`."""
        n, g, v = self.number, group, value.text
        self._load(write, g)
        lines = [
            f"if df{n}[{g}] == j + 1:",
            f"    t{n}_ = dn{n}[j]",
            f"    df{n}[{g}] = t{n}_",
            f"    if t{n}_ == 0: dl{n}[{g}] = 0",
            f"    else: dp{n}[t{n}_ - 1] = 0",
        ]
        if self._whole:
            lines += indented(self._first(g))
        else:
            lines = [
                *lines,
                f"    s{n}_ = nan",  # to be looked for
                f"elif {v} != {v} and n{n}_ > 1: n{n}_ -= 2",
                f"if s{n}_ != s{n}_:",
                *indented(self._first(g)),
            ]
        lines += [f"s{n}[{g}] = s{n}_", f"n{n}[{g}] = n{n}_"]
        if not self._whole:
            lines += [f"if {v} == 0.0 and zc{n}[{g}] > 0:", f"    zc{n}[{g}] -= 1"]
            lines.append(f"    if zc{n}[{g}] == 0: zr{n}[{g}] = 0.0")
        guarded(write, value, lines)

    def _first(self, group: str) -> list[str]:
        """The lines that let the head of the chain be shown; where there is none, NaN if there is one."""
        n, g = self.number, group
        lines = [
            f"t{n}_ = df{n}[{g}]",
            f"if t{n}_ != 0:",
            f"    n{n}_ |= 1",
            f"    s{n}_ = {self._held(f't{n}_ - 1')}",
        ]
        if self._whole:
            return [*lines, "else:", f"    n{n}_ = 0", f"    s{n}_ = 0"]
        zero = f"    if s{n}_ == 0.0: s{n}_ = float(zr{n}[{g}])"
        return [*lines, zero, "else:", f"    n{n}_ &= -2", f"    if n{n}_ == 0: s{n}_ = 0.0"]

    def _add_nan(self, value: str, group: str) -> list[str]:
        n = self.number
        return [f"if n{n}_ == 0: s{n}_ = {value}", f"n{n}_ += 2", f"s{n}[{group}] = s{n}_", f"n{n}[{group}] = n{n}_"]

    def _load(self, write: Writer, group: str) -> None:
        n = self.number
        write.line(f"n{n}_ = int(n{n}[{group}])")
        write.line(f"s{n}_ = {'int' if self._whole else 'float'}(s{n}[{group}])")

    def _held(self, place: str) -> str:
        return f"{'int' if self._whole else 'float'}(h_a{self.argument}[{place}])"

    def _set(self, value: str, group: str) -> list[str]:
        """The lines that let a number be shown, which is less (or greater) than all that is held; a NaN that is shown stays so."""
        n = self.number
        shown = f"s{n}_ = {value}" if self._whole else f"if n{n}_ == 0 or s{n}_ == s{n}_: s{n}_ = {value}"
        return [shown, f"n{n}_ |= 1", f"s{n}[{group}] = s{n}_", f"n{n}[{group}] = n{n}_"]

    def clear(self, group: str) -> tuple[str, ...]:
        """Windows that slide have no ends."""
        raise AssertionError(group)

    def shown(self, write: Writer) -> Term:
        """The value after an event that came."""
        return Term(f"s{self.number}_", write.name(f"n{self.number}_ == 0"))

    def fresh(self) -> str:
        """The text that is true where a group is as if it had seen nothing, after `add` or `take`."""
        return f"n{self.number}_ == 0"

    def chained(self, places: Longs, groups: Array, values: Array, nulls: Array, arrays: dict[str, Array]) -> None:
        """Makes the chains of the events at some places, the oldest first; all links are 0 before. `arrays` has those by group and by place."""
        (df, dl), (dp, dn) = self.by_group, self.by_place
        chain = arrays[df], arrays[dl], arrays[dp], arrays[dn]
        _chained(places, groups, values, nulls, *chain, self.function == "max")


@loop
def _chained(places, groups, values, nulls, df, dl, dp, dn, greatest):  # type: ignore[no-untyped-def]
    for i in range(len(places)):
        j, g = places[i], groups[i]
        value = values[j]
        if nulls[j] or value != value:
            continue
        t = dl[g]
        while t != 0 and (value > values[t - 1] if greatest else value < values[t - 1]):
            t = dp[t - 1]
        dp[j] = t
        dn[j] = 0
        dl[g] = j + 1
        if t == 0:
            df[g] = j + 1
        else:
            dn[t - 1] = j + 1


@dataclass(frozen=True, slots=True)
class Deviation:
    """`stdDev`: `n` how many, `s` their sum, `u` their mean, `w` the sum of squared distances (Welford)."""

    number: int
    function: str
    argument: int
    kind: Type
    forever = False

    @property
    def arrays(self) -> dict[str, str]:
        """Name → dtype, by group."""
        n = self.number
        return {f"n{n}": "int64"} | dict.fromkeys((f"s{n}", f"u{n}", f"w{n}"), "float64")

    def add(self, write: Writer, value: Term, group: str) -> None:
        """The lines for an event that comes."""
        n, g = self.number, group
        lines = [
            f"f{n}_ = float({value.text})",
            f"n{n}_ += 1",
            f"if n{n}_ == 1:",
            f"    s{n}_ = 0.0 + f{n}_",
            f"    u{n}_ = s{n}_",
            f"    w{n}_ = 0.0",
            f"elif n{n}_ != 0:",
            f"    q{n}_ = u{n}_",
            f"    s{n}_ += f{n}_",
            f"    u{n}_ = s{n}_ / n{n}_",
            f"    w{n}_ += (f{n}_ - q{n}_) * (f{n}_ - u{n}_)",
        ]
        self._written(write, value, g, lines)

    def take(self, write: Writer, value: Term, group: str) -> None:
        """The lines for an event that leaves."""
        n, g = self.number, group
        lines = [
            f"f{n}_ = float({value.text})",
            f"n{n}_ -= 1",
            f"q{n}_ = u{n}_",
            f"if n{n}_ == 0:",
            f"    s{n}_ = 0.0",
            f"    u{n}_ = 0.0",
            f"    w{n}_ = 0.0",
            "else:",
            f"    s{n}_ = s{n}_ - f{n}_",
            f"    u{n}_ = s{n}_ / n{n}_",
            f"    w{n}_ -= (f{n}_ - q{n}_) * (f{n}_ - u{n}_)",
        ]
        self._written(write, value, g, lines)

    def _written(self, write: Writer, value: Term, group: str, lines: list[str]) -> None:
        for name in self.arrays:
            write.line(f"{name}_ = {'int' if name.startswith('n') else 'float'}({name}[{group}])")
        guarded(write, value, [*lines, *(f"{name}[{group}] = {name}_" for name in self.arrays)])

    def clear(self, group: str) -> tuple[str, ...]:
        """The lines that let a group be as if it had seen nothing."""
        return tuple(f"{name}[{group}] = 0" for name in self.arrays)

    def shown(self, write: Writer) -> Term:
        """The value after an event that came."""
        n = self.number
        null = write.name(f"n{n}_ == 0")
        square = write.name(f"0.0 if {null} else w{n}_ / n{n}_")
        root = write.name(f"sqrt({square} if {square} >= 0.0 else 0.0)")
        return Term(write.name(f"0.0 if n{n}_ == 1 else {root} if {square} >= 0.0 else nan"), null)

    def fresh(self) -> str:
        """The text that is true where a group is as if it had seen nothing, after `add` or `take`."""
        n = self.number
        return f"n{n}_ == 0 and s{n}_ == 0 and u{n}_ == 0 and w{n}_ == 0"


@dataclass(frozen=True, slots=True)
class Truths:
    """`and` and `or` of what is never null: `n` how many are true, `s` how many are false."""

    number: int
    function: str
    argument: int
    kind: Type
    forever = False

    @property
    def arrays(self) -> dict[str, str]:
        """Name → dtype, by group."""
        return {f"n{self.number}": "int64", f"s{self.number}": "int64"}

    def add(self, write: Writer, value: Term, group: str) -> None:
        """The lines for an event that comes."""
        self._step(write, value, group, "+=")

    def take(self, write: Writer, value: Term, group: str) -> None:
        """The lines for an event that leaves."""
        self._step(write, value, group, "-=")

    def _step(self, write: Writer, value: Term, group: str, op: str) -> None:
        n = self.number
        for name in self.arrays:
            write.line(f"{name}_ = int({name}[{group}])")
        for text in (
            f"if {value.text}:",
            f"    n{n}_ {op} 1",
            "else:",
            f"    s{n}_ {op} 1",
            f"n{n}[{group}] = n{n}_",
            f"s{n}[{group}] = s{n}_",
        ):
            write.line(text)

    def clear(self, group: str) -> tuple[str, ...]:
        """The lines that let a group be as if it had seen nothing."""
        return tuple(f"{name}[{group}] = 0" for name in self.arrays)

    def shown(self, write: Writer) -> Term:
        """The value after an event that came."""
        n = self.number
        return Term(write.name(f"n{n}_ > 0 and s{n}_ == 0" if self.function == "and" else f"n{n}_ > 0"))

    def fresh(self) -> str:
        """The text that is true where a group is as if it had seen nothing, after `add` or `take`."""
        return f"n{self.number}_ == 0 and s{self.number}_ == 0"


def indented(lines: list[str]) -> list[str]:
    """Lines that stand in a block."""
    return [f"    {text}" for text in lines]


def guarded(write: Writer, value: Term, lines: list[str]) -> None:
    """Lines that run unless the value is null."""
    if value.null:
        write.line(f"if not {value.null}:")
    for text in indented(lines) if value.null else lines:
        write.line(text)
