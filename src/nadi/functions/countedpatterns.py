"""Patterns that are matched step by step, and given up after a number of steps: the same number on every machine and in every replay.

For what RE2 cannot take, and for texts that are too long for Python's `re`, which cannot be stopped. `counted(tree)` makes a program of a pattern, as
`re._parser` gives it; `match` and `search` try one way after the other, as Java and Python do, and keep the ways that are left on a stack. Marks of groups and
counters of repetitions are one tuple, so going back is taking an older one. What one character may be, and where a place is (`\\b`), `re` is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from re import _compiler as compiler  # type: ignore[attr-defined]  # CPython has compiler, parser and constants in these since 3.11
from re import _constants as op
from re import _parser as parser
from typing import Any, NamedTuple

from nadi.functions.linearpatterns import Spans, combined
from nadi.functions.patternbounds import is_single

RUN_PER_STEP = 64
"""Characters that `re` goes through at once count less."""
ENDLESS = int(op.MAXREPEAT)

CHAR, ONE, RUN, JUMP, SPLIT, MARK, BEGIN, LOOP, PLACE, REFERENCE, LOOK, ATOM, CONDITION, FAIL, ACCEPT = range(15)


class StepsExceeded(ValueError):
    """Matching would take more steps than it may."""


class Step(NamedTuple):
    """One instruction; what `a`, `b`, `c`, `d` are depends on it."""

    code: int
    a: Any = None
    b: Any = None
    c: Any = None
    d: Any = None


@dataclass(frozen=True, slots=True)
class Counted:
    """A program; the registers are two marks for each group, then two for each repetition."""

    steps: tuple[Step, ...]
    groups: int
    registers: int
    first: Callable[..., Any] | None
    """Finds where a match can begin at the earliest, where one character must come first."""


@dataclass(slots=True)
class Allowance:
    """The steps that are left."""

    left: int

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise StepsExceeded


def counted(tree: Any) -> Counted:
    """The program of a pattern.

    >>> from re import _parser
    >>> program = counted(_parser.parse("(a+)(?=b)"))
    >>> search(program, "xaab", 0, Allowance(100))
    ((1, 3), (1, 3))
    """
    groups = tree.state.groups - 1
    writer = _Writer(registers=2 * groups + 2)
    writer.sequence(tree, tree.state.flags)
    writer.add(ACCEPT)
    return Counted(tuple(writer.steps), groups, writer.registers, writer.first())


def match(program: Counted, text: str, at: int, allowance: Allowance, whole: bool = False) -> Spans | None:
    """The groups of a match that begins at a character; the first is all of it. `whole`: it must end with the text.

    Raises:
        StepsExceeded: the steps were not enough.
    """
    found = _run(program, text, 0, at, (-1,) * program.registers, allowance, whole)
    if found is None:
        return None
    end, marks = found
    groups = ((marks[i], marks[i + 1]) for i in range(2, 2 * program.groups + 2, 2))
    return (at, end), *((a, b) if a >= 0 and b >= 0 else (-1, -1) for a, b in groups)


def search(program: Counted, text: str, at: int, allowance: Allowance) -> Spans | None:
    """The first match at or behind a character; see `match`."""
    while at <= len(text):
        if program.first is not None:
            begin = program.first(text, at)
            allowance.take(1 + ((len(text) if begin is None else begin.start()) - at) // RUN_PER_STEP)
            if begin is None:
                return None
            at = begin.start()
        found = match(program, text, at, allowance)
        if found is not None:
            return found
        at += 1
    return None


def _run(
    program: Counted, text: str, pc: int, at: int, marks: tuple[int, ...], allowance: Allowance, whole: bool
) -> tuple[int, tuple[int, ...]] | None:
    """Where a match ends that begins at a step and a character, and the marks then."""
    steps = program.steps
    ways: list[tuple[int, int, tuple[int, ...], int]] = []  # step, character, marks, and down to which character
    going = True
    while True:
        allowance.take(1)
        if not going:
            if not ways:
                return None
            pc, at, marks, lowest = ways.pop()
            if lowest < at:
                ways.append((pc, at - 1, marks, lowest))
            going = True
        code, a, b, c, d = steps[pc]
        pc += 1
        if code == CHAR:
            going = text.startswith(a, at)
            at += 1
        elif code == ONE:
            going = a(text, at) is not None
            at += 1
        elif code == RUN:
            end = a(text, at).end()
            allowance.take((end - at) // RUN_PER_STEP)
            going = end - at >= b
            if going and c and end - at > b:
                ways.append((pc, end - 1, marks, at + b))
            at = end
        elif code == JUMP:
            pc = a
        elif code == SPLIT:
            ways.append((b, at, marks, at))
            pc = a
        elif code == MARK:
            marks = (*marks[:a], at, *marks[a + 1 :])
        elif code == BEGIN:
            marks = (*marks[:a], 0, -1, *marks[a + 2 :])
        elif code == LOOP:
            least, most, greedy = b
            times, begun = marks[a], marks[a + 1]
            again = times < least or (times < most and (times == 0 or at != begun))
            if not again:
                pc = d
                continue
            more = (*marks[:a], times + 1, at, *marks[a + 2 :])
            if times < least:
                pc, marks = c, more
            elif greedy:
                ways.append((d, at, marks, at))
                pc, marks = c, more
            else:
                ways.append((c, at, more, at))
                pc = d
        elif code == PLACE:
            going = a(text, at) is not None
        elif code == REFERENCE:
            begin, end = marks[a], marks[a + 1]
            allowance.take(max(0, end - begin) // RUN_PER_STEP)
            going = begin >= 0 and end >= 0 and _equal(text[begin:end], text[at : at + end - begin], b)
            at += end - begin
        elif code == LOOK:
            held = None if at < b else _run(program, text, pc, at - b, marks, allowance, False)
            going = (held is not None) == c
            if held is not None and c:
                marks = held[1]
            pc = a
        elif code == ATOM:
            held = _run(program, text, pc, at, marks, allowance, False)
            going = held is not None
            if held is not None:
                at, marks = held
            pc = a
        elif code == CONDITION:
            pc = pc if marks[a] >= 0 and marks[a + 1] >= 0 else b
        elif code == ACCEPT:
            if not whole or at == len(text):
                return at, marks
            going = False
        else:
            going = False


def _equal(one: str, other: str, flags: int) -> bool:
    if one == other or not flags & re.IGNORECASE or len(one) != len(other):
        return one == other
    if flags & re.ASCII:
        return one.translate(_ASCII_LOWER) == other.translate(_ASCII_LOWER)
    return all(a.lower() == b.lower() for a, b in zip(one, other))


_ASCII_LOWER = {n: n + 32 for n in range(65, 91)}


# ---- writing a program ---------------------------------------------------------------------------------------------


def _asked(item: Any, flags: int) -> re.Pattern[str]:
    """One item of a pattern alone, for Python's `re`."""
    state = parser.State()
    state.flags = flags
    found: re.Pattern[str] = compiler.compile(parser.SubPattern(state, [item]))
    return found


@dataclass(slots=True)
class _Writer:
    registers: int
    steps: list[Step] = field(default_factory=list)

    def add(self, code: int, *operands: Any) -> int:
        self.steps.append(Step(code, *operands))
        return len(self.steps) - 1

    def change(self, at: int, **operands: Any) -> None:
        self.steps[at] = self.steps[at]._replace(**operands)

    def first(self) -> Callable[..., Any] | None:
        for step in self.steps:
            if step.code == MARK:
                continue
            if step.code == CHAR:
                return re.compile(re.escape(step.a)).search
            return step.d if step.code in (ONE, RUN) else None
        return None

    def sequence(self, items: Any, flags: int) -> None:
        for item in items:
            self._item(item, flags)

    def _item(self, item: Any, flags: int) -> None:
        code, value = item
        match code:
            case op.LITERAL if not flags & re.IGNORECASE:
                self.add(CHAR, chr(value))
            case op.LITERAL | op.NOT_LITERAL | op.ANY | op.IN:
                one = _asked(item, flags)
                self.add(ONE, one.match, None, None, one.search)
            case op.AT:
                self.add(PLACE, _asked(item, flags).match)
            case op.BRANCH:
                self._branch(value[1], flags)
            case op.SUBPATTERN:
                number, added, removed, inner = value
                if number is not None:
                    self.add(MARK, 2 * number)
                self.sequence(inner, combined(flags, added, removed))
                if number is not None:
                    self.add(MARK, 2 * number + 1)
            case op.MAX_REPEAT | op.MIN_REPEAT | op.POSSESSIVE_REPEAT:
                self._repeat(code, int(value[0]), int(value[1]), value[2], flags)
            case op.ATOMIC_GROUP:
                self._apart(ATOM, value, flags)
            case op.ASSERT | op.ASSERT_NOT:
                behind = value[1].getwidth()[0] if value[0] < 0 else 0
                self._apart(LOOK, value[1], flags, behind, code is op.ASSERT)
            case op.GROUPREF:
                self.add(REFERENCE, 2 * value, flags)
            case op.GROUPREF_EXISTS:
                self._condition(value, flags)
            case op.FAILURE:
                self.add(FAIL)
            case _:
                raise ValueError(f"no program for {code}")

    def _apart(self, code: int, inner: Any, flags: int, *operands: Any) -> None:
        at = self.add(code, None, *operands)
        self.sequence(inner, flags)
        self.add(ACCEPT)
        self.change(at, a=len(self.steps))

    def _branch(self, branches: list[Any], flags: int) -> None:
        ends = []
        for branch in branches[:-1]:
            split = self.add(SPLIT, len(self.steps) + 1)
            self.sequence(branch, flags)
            ends.append(self.add(JUMP))
            self.change(split, b=len(self.steps))
        self.sequence(branches[-1], flags)
        for end in ends:
            self.change(end, a=len(self.steps))

    def _condition(self, value: Any, flags: int) -> None:
        number, yes, no = value
        begin = self.add(CONDITION, 2 * number)
        self.sequence(yes, flags)
        end = self.add(JUMP)
        self.change(begin, b=len(self.steps))
        self.sequence(no or (), flags)
        self.change(end, a=len(self.steps))

    def _repeat(self, code: Any, least: int, most: int, inner: Any, flags: int) -> None:
        if is_single(inner) and code is not op.MIN_REPEAT:
            most_as = op.MAXREPEAT if most >= ENDLESS else most
            run = _asked((op.MAX_REPEAT, (0, most_as, inner)), flags)
            self.add(RUN, run.match, least, code is op.MAX_REPEAT, _asked(inner[0], flags).search if least else None)
        elif code is op.POSSESSIVE_REPEAT:
            whole = self.add(ATOM)
            self._loop(least, most, True, lambda: self._apart(ATOM, inner, flags))
            self.add(ACCEPT)
            self.change(whole, a=len(self.steps))
        else:
            self._loop(least, most, code is op.MAX_REPEAT, lambda: self.sequence(inner, flags))

    def _loop(self, least: int, most: int, greedy: bool, body: Callable[[], None]) -> None:
        register = self.registers
        self.registers += 2
        self.add(BEGIN, register)
        loop = self.add(LOOP, register, (least, most, greedy), len(self.steps) + 1)
        body()
        self.add(JUMP, loop)
        self.change(loop, d=len(self.steps))
