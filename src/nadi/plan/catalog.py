"""What planning must know of functions, aggregators, stream functions and windows.

The plan may not import the functions (they stand above it); it is handed a `Catalog`, which `nadi.functions` implements.
Each entry checks its own arguments and tells its result type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from nadi.lang.tree import Type


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
    """A scalar function or aggregator: `name` is "ns:name" or "name"."""

    @property
    def name(self) -> str: ...
    @property
    def returns(self) -> Returns: ...


class WindowEntry(Protocol):
    """A window; `check` raises SignatureError."""

    @property
    def name(self) -> str: ...
    @property
    def check(self) -> Callable[[tuple[Argument, ...]], None]: ...


class StreamFunctionEntry(Protocol):
    """A stream function; `adds` gives the columns that it appends, raises SignatureError."""

    @property
    def name(self) -> str: ...
    @property
    def adds(self) -> Callable[[tuple[Argument, ...]], tuple[Column, ...]]: ...


class Catalog(Protocol):
    """Look-up by registered name ("ns:name" or "name"); None where there is no such entry."""

    def function(self, name: str) -> ScalarEntry | None: ...
    def aggregator(self, name: str) -> ScalarEntry | None: ...
    def window(self, name: str) -> WindowEntry | None: ...
    def stream_function(self, name: str) -> StreamFunctionEntry | None: ...
    def names(self, kind: str) -> Iterable[str]:
        """All names of a kind: "function", "aggregator", "window" or "stream_function"."""
        ...
