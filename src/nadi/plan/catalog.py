"""What planning must know of functions, aggregators, stream functions, windows and stores.

The plan may not import the functions (they stand above it); it is handed a `Catalog`, which `nadi.functions` implements.
Each entry checks its own arguments and tells its result type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import AggregatorTraits
from nadi.plan.windowtraits import WindowTraits


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument as a signature sees it: its type, whether it is a constant (and which), whether a plain attribute (and its name)."""

    type: Type
    is_constant: bool = False
    value: bool | int | float | str | None = None
    attribute: str | None = None


class SignatureError(Exception):
    """The arguments do not fit; the text completes "<function>: …". Planning turns it into WRONG_ARGUMENTS at the call's place."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column that a stream function adds."""

    name: str
    type: Type


Returns = Callable[[tuple[Argument, ...]], Type]
"""Arguments → result type; raises SignatureError."""


class ScalarEntry(Protocol):
    """A scalar function: `name` is "ns:name" or "name"."""

    @property
    def name(self) -> str: ...
    @property
    def returns(self) -> Returns: ...


class AggregatorEntry(ScalarEntry, Protocol):
    """An aggregator."""

    @property
    def traits(self) -> AggregatorTraits: ...


class WindowEntry(Protocol):
    """A window; `check` raises SignatureError, or INVALID_CRON. The first argument of a `conditional` one is the text of an expression.

    `batch` windows send X only where they are wanted, unless they are `cancels` windows.
    """

    @property
    def name(self) -> str: ...
    @property
    def check(self) -> Callable[[tuple[Argument, ...]], None]: ...
    @property
    def conditional(self) -> bool: ...
    @property
    def batch(self) -> bool: ...
    @property
    def cancels(self) -> bool: ...
    @property
    def traits(self) -> WindowTraits: ...


class StreamFunctionEntry(Protocol):
    """A stream function; `adds` gives the columns that it appends, raises SignatureError."""

    @property
    def name(self) -> str: ...
    @property
    def adds(self) -> Callable[[tuple[Argument, ...]], tuple[Column, ...]]: ...


class StoreEntry(Protocol):
    """A type of store for `@store` tables. `once`: what a batch of a node writes counts once, however often it is taken."""

    @property
    def name(self) -> str: ...
    @property
    def once(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ScriptProblem:
    """What is wrong with the body of a script; line and column, from 1, count from its opening brace."""

    reason: str
    line: int
    column: int


class ScriptLanguage(Protocol):
    """A language of script functions; `title` is its name for people."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    def check(self, body: str) -> ScriptProblem | None:
        """What is wrong with a body, the first of it."""
        ...


class Catalog(Protocol):
    """Look-up by registered name ("ns:name" or "name"); None where there is no such entry."""

    def function(self, name: str) -> ScalarEntry | None: ...
    def aggregator(self, name: str) -> AggregatorEntry | None: ...
    def window(self, name: str) -> WindowEntry | None: ...
    def stream_function(self, name: str) -> StreamFunctionEntry | None: ...
    def store(self, name: str) -> StoreEntry | None: ...
    def script(self, language: str) -> ScriptLanguage | None: ...
    def names(self, kind: str) -> Iterable[str]:
        """All names of a kind: "function", "aggregator", "window", "stream_function", "store" or "script"."""
        ...
