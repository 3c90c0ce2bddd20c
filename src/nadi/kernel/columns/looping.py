"""A generated loop over a stretch: its text while it is written, and its calls.

    text = LoopText(types)
    text.writer.line(f"if not {text.writer.truth(condition)}: continue")
    text.output("sum", "float64")
    compiled = text.compiled("sliding")
    compiled(stretch, state={"head": …}, outputs={"sum": …})

The loop's body stands in `for i in range(n)`; `before` and `after` it stand lines of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import is_
from typing import Any

from nadi.kernel.columns.arithmetic import COMPILED, PLAIN
from nadi.kernel.columns.code import Writer
from nadi.kernel.columns.jit import generated
from nadi.kernel.columns.stretch import Array, Stretch
from nadi.lang.tree import Type

_ALWAYS = (("n", "int64"), ("ts", "const int64[]"), ("now", "const int64[]"), ("chunk", "const int64[]"))


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
    """A compiled loop."""

    def __init__(self, text: LoopText, name: str) -> None:
        writer = text.writer
        parameters = [*_ALWAYS, *writer.parameters.items(), *text.own.items()]
        head = f"def {name}({', '.join(p for p, _dtype in parameters)}):"
        before, after = ([f"    {line}" for line in lines] for lines in (text.before, text.after))
        self.source = "\n".join([head, *before, "    for i in range(n):", *writer.lines, *after, ""])
        self._call: Any = generated(self.source, name, parameters, {**COMPILED, **text.names}, {**PLAIN, **text.names})
        self._read = tuple((p[0], int(p[1:])) for p in writer.parameters)
        self._prepared = tuple(writer.prepared)
        self._place = {name: len(_ALWAYS) + len(self._read) + at for at, name in enumerate(text.own)}
        self._held: tuple[Mapping[str, Array | int], ...] = ()
        self._arguments: list[Any] = [None] * len(parameters)  # with what is held

    def __call__(self, given: Stretch, own: Mapping[str, Array | int], *held: Mapping[str, Array | int]) -> None:
        """Run over a stretch. `own`, and `held`, have an array (or number) for each of the operator's parameters, and may have more.

        A mapping in `held` that is the very one of the last call has what it had then: it is not looked into.
        """
        if len(held) != len(self._held) or not all(map(is_, held, self._held)):
            self._hold(held)
        arguments, columns, place = self._arguments.copy(), given.columns, self._place
        arguments[:4] = len(given.ts), given.ts, given.now, given.chunk
        at = 4
        for kind, number in self._read:
            if kind == "c":
                arguments[at] = columns[number].values()
            elif kind == "m":
                arguments[at] = columns[number].nulls()
            else:
                arguments[at] = self._prepared[number].made(columns)
            at += 1
        for name, value in own.items():
            if name in place:
                arguments[place[name]] = value
        self._call(*arguments)

    def _hold(self, held: tuple[Mapping[str, Array | int], ...]) -> None:
        self._held = held
        self._arguments = [None] * len(self._arguments)
        for mapping in held:
            for name, value in mapping.items():
                if name in self._place:
                    self._arguments[self._place[name]] = value
