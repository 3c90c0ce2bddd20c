"""A generated loop over a stretch: its text while it is written, and its calls.

    text = LoopText(types)
    text.writer.line(f"if not {text.writer.truth(condition)}: continue")
    text.output("sum", "float64")
    compiled = text.compiled("sliding")
    compiled(stretch, state={"head": …}, outputs={"sum": …})

The loop's body stands in `for i in range(n)`; `before` and `after` it stand lines of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import is_
from typing import Any

import numpy as np

from nadi.kernel.columns.arithmetic import COMPILED, PLAIN
from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.jit import generated
from nadi.kernel.columns.memory import lying, peek, plain_lying, plain_peek
from nadi.kernel.columns.numbers import Numbers
from nadi.kernel.columns.places import FIRST, MARKS, NULLS, ROW, VALUES
from nadi.kernel.columns.stretch import Array, Stretch
from nadi.lang.tree import Type

_LONG = np.dtype(np.int64)


class LoopText:
    """The text of a loop. `own` are the parameters that the operator gives: name → dtype; `names` what its lines call beside arithmetic."""

    def __init__(self, types: tuple[Type, ...]) -> None:
        self.writer = Writer(types)
        self.own: dict[str, str] = {}
        self.names: dict[str, object] = {}
        self.before: list[str] = []
        self.after: list[str] = []

    @contextmanager
    def apart(self, indent: str = "        ") -> Iterator[list[str]]:
        """Lines that are written meanwhile are collected, to be put where they belong; those behind the loop are indented by four."""
        writer = self.writer
        lines, before = writer.lines, writer.indent
        writer.lines, writer.indent = [], indent
        try:
            yield writer.lines
        finally:
            writer.lines, writer.indent = lines, before

    def compiled(self, name: str) -> Loop:
        """The loop, compiled for the types of its parameters."""
        return Loop(self, name)


class Loop:
    """A compiled loop. What it reads of a stretch lies where the stretch's table says: to make an array of each column takes longer than a short loop does."""

    def __init__(self, text: LoopText, name: str) -> None:
        writer = text.writer
        before, body, after = [*writer.opening, *text.before], writer.lines, text.after
        lines = [*before, *body, *after]
        marks = [m for m in MARKS if any(re.search(rf"\b{m}\b", line) for line in lines)]
        read = [(mark, MARKS.index(mark), VALUES, _LONG) for mark in marks]
        prepared = []
        for parameter, dtype in writer.parameters.items():
            row = FIRST + int(parameter[1:])
            if parameter[0] == "p":
                prepared.append((parameter, dtype))
            else:
                read.append((parameter, row, VALUES if parameter[0] == "c" else NULLS, _dtype(dtype)))
        arrays = [f"{p} = lying(peek(table + {8 * (ROW * row + word)}), n, {d.name}_)" for p, row, word, d in read]
        self._read = tuple((row, dtype if word == VALUES else None) for _p, row, word, dtype in read)
        told = [*enumerate(writer.prepared, 2)]
        self._prepared = tuple((at, one) for at, one in told if not isinstance(one, Numbers))
        parameters = [("n", "int64"), ("table", "int64"), *prepared, *text.own.items()]
        head = f"def {name}({', '.join(p for p, _dtype in parameters)}):"
        before, after = ([f"    {line}" for line in lines] for lines in (arrays + before, after))
        self.source = "\n".join([head, *before, "    for i in range(n):", *body, *after, ""])
        names, plain = {**COMPILED, **_COMPILED, **text.names}, {**PLAIN, **_PLAIN, **text.names}
        self._call: Any = generated(self.source, name, parameters, names, plain)
        first = 2 + len(prepared)
        self._place = {name: first + at for at, name in enumerate(text.own)}
        self._held: tuple[Mapping[str, Array | int], ...] = ()
        self._empty: list[Any] = [None] * len(parameters)
        for at, one in told:
            if isinstance(one, Numbers):
                self._empty[at] = one.made()
        self._arguments = self._empty  # with what is held

    def __call__(self, given: Stretch, own: Mapping[str, Array | int], *held: Mapping[str, Array | int]) -> None:
        """Run over a stretch. `own`, and `held`, have an array (or number) for each of the operator's parameters, and may have more.

        A mapping in `held` that is the very one of the last call has what it had then: it is not looked into.
        """
        if len(held) != len(self._held) or not all(map(is_, held, self._held)):
            self._hold(held)
        arguments, place = self._arguments.copy(), self._place
        arguments[0], arguments[1] = given.size, given.reads(self._read)
        for at, one in self._prepared:
            arguments[at] = one.made(given.columns)
        for name, value in own.items():
            if name in place:
                arguments[place[name]] = value
        self._call(*arguments)

    def _hold(self, held: tuple[Mapping[str, Array | int], ...]) -> None:
        self._held = held
        self._arguments = self._empty.copy()
        for mapping in held:
            for name, value in mapping.items():
                if name in self._place:
                    self._arguments[self._place[name]] = value


def _dtype(text: str) -> np.dtype[Any]:
    return np.dtype(text.removeprefix("const ").removesuffix("[]"))


_DTYPES = {f"{name}_": getattr(np, name) for name in ("int32", "int64", "float32", "float64")} | {"bool_": np.bool_}
_COMPILED: dict[str, object] = {"lying": lying, "peek": peek, **_DTYPES}
_PLAIN: dict[str, object] = {"lying": plain_lying, "peek": plain_peek, **_DTYPES}
