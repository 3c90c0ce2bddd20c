"""Aggregators over values of which any may leave next: their lines, over what `bags` holds (semantics/selection.md#aggregators)."""

from __future__ import annotations

from dataclasses import dataclass

from nadi.kernel.columns.bags import LEFT, RIGHT
from nadi.kernel.columns.code import Term, Writer
from nadi.kernel.columns.remembering import guarded, indented
from nadi.kernel.columns.stretch import DTYPES
from nadi.lang.tree import Type

_WHOLE = (Type.INT, Type.LONG)


@dataclass(frozen=True, slots=True)
class Ranked:
    """`min` and `max`: `s` the value that is shown; `n` is 1 where a number is held, and 2 more for each NaN, which stand in no bag (see `Extreme`)."""

    number: int
    function: str
    argument: int
    kind: Type
    forever = False

    @property
    def whole(self) -> bool:
        """Whether values are int or long."""
        return self.kind in _WHOLE

    @property
    def arrays(self) -> dict[str, str]:
        """Name → dtype, by group."""
        return {f"n{self.number}": "int64", f"s{self.number}": DTYPES[self.kind]}

    def add(self, write: Writer, value: Term, group: str) -> None:
        """The lines for a value that comes."""
        n, g, v = self.number, group, value.text
        better = ">" if self.function == "max" else "<"
        lines = [
            f"bag_add({self._bag}, int({g}), {v})",
            f"if n{n}_ == 0 or {v} {better} s{n}_: s{n}_ = {v}",
            f"n{n}_ |= 1",
        ]
        if not self.whole:
            nans = [f"if n{n}_ == 0: s{n}_ = {v}", f"n{n}_ += 2"]
            lines = [f"if {v} == {v}:", *indented(lines), "else:", *indented(nans)]
        self._written(write, value, g, [*lines, f"s{n}[{g}] = s{n}_", f"n{n}[{g}] = n{n}_"])

    def take(self, write: Writer, value: Term, group: str) -> None:
        """The lines for a value that goes."""
        n, g, v = self.number, group, value.text
        gone = f"bag_take({self._bag}, int({g}), {v}) == 0 and {v} == s{n}_"
        if self.whole:
            lines = [f"if {gone}:", *indented(self._end(g))]
        else:
            lines = [
                f"if {v} == {v}:",
                f"    if {gone}: s{n}_ = nan",  # to be looked for
                f"elif n{n}_ > 1: n{n}_ -= 2",
                f"if s{n}_ != s{n}_:",
                *indented(self._end(g)),
            ]
        self._written(write, value, g, [*lines, f"s{n}[{g}] = s{n}_", f"n{n}[{g}] = n{n}_"])

    def _end(self, group: str) -> list[str]:
        """The lines that let the least (or greatest) number be shown; where there is none, NaN if there is one."""
        n, g = self.number, group
        side = RIGHT if self.function == "max" else LEFT
        return [
            f"if br{n}[{g}] != 0:",
            f"    n{n}_ |= 1",
            f"    s{n}_ = {self._converted}(bv{n}[bag_end(bw{n}, br{n}, int({g}), {side})])",
            "else:",
            f"    n{n}_ &= -2",
            f"    if n{n}_ == 0: s{n}_ = {'0' if self.whole else '0.0'}",
        ]

    def _written(self, write: Writer, value: Term, group: str, lines: list[str]) -> None:
        n = self.number
        write.line(f"n{n}_ = int(n{n}[{group}])")
        write.line(f"s{n}_ = {self._converted}(s{n}[{group}])")
        guarded(write, value, lines)

    @property
    def _bag(self) -> str:
        return _bag(self.number)

    @property
    def _converted(self) -> str:
        return "int" if self.whole else "float"

    def clear(self, group: str) -> tuple[str, ...]:
        """The lines that let a group be as if it had seen nothing."""
        return (*(f"{name}[{group}] = 0" for name in self.arrays), _cleared(self.number, group))

    def shown(self, write: Writer) -> Term:
        """The value now."""
        return Term(f"s{self.number}_", write.name(f"n{self.number}_ == 0"))

    def fresh(self) -> str:
        """The text that is true where a group is as if it had seen nothing, after `add` or `take`."""
        return f"n{self.number}_ == 0"


@dataclass(frozen=True, slots=True)
class Different:
    """`distinctCount`: `n` how many different values are held. Strings are numbers."""

    number: int
    function: str
    argument: int
    kind: Type
    forever = False
    whole = True

    @property
    def arrays(self) -> dict[str, str]:
        """Name → dtype, by group."""
        return {f"n{self.number}": "int64"}

    def add(self, write: Writer, value: Term, group: str) -> None:
        """The lines for a value that comes."""
        self._written(write, value, group, "bag_add", "1", "+=")

    def take(self, write: Writer, value: Term, group: str) -> None:
        """The lines for a value that goes."""
        self._written(write, value, group, "bag_take", "0", "-=")

    def _written(self, write: Writer, value: Term, group: str, call: str, left: str, op: str) -> None:
        n = self.number
        write.line(f"n{n}_ = int(n{n}[{group}])")
        called = f"{call}({_bag(n)}, int({group}), int({value.text}))"
        guarded(write, value, [f"if {called} == {left}:", f"    n{n}_ {op} 1", f"    n{n}[{group}] = n{n}_"])

    def clear(self, group: str) -> tuple[str, ...]:
        """The lines that let a group be as if it had seen nothing."""
        return f"n{self.number}[{group}] = 0", _cleared(self.number, group)

    def shown(self, write: Writer) -> Term:
        """The value now."""
        return Term(f"n{self.number}_")

    def fresh(self) -> str:
        """The text that is true where a group is as if it had seen nothing, after `add` or `take`."""
        return f"n{self.number}_ == 0"


def _bag(number: int) -> str:
    return ", ".join(f"b{letter}{number}" for letter in "wvmlr")


def _cleared(number: int, group: str) -> str:
    return f"bag_clear(bw{number}, bm{number}, bl{number}, br{number}, int({group}))"
