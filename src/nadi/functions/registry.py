"""The registry: everything that an app can call by name. It is the catalogue of the plan and the shelf of the kernel.

Names are "ns:name", or "name" without a namespace, and case-sensitive. An extension registers entries like the built-in ones:

>>> from nadi.functions.entries import ScalarFunction
>>> from nadi.lang.tree import Type
>>> registry = default_registry()
>>> registry.add(ScalarFunction("str:upper", lambda args: Type.STRING, lambda args, result: str.upper))
>>> registry.function("str:upper").name
'str:upper'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache

from nadi.functions import (
    aggregators,
    builtinstores,
    coordination,
    core,
    environment,
    jsons,
    lists,
    maps,
    mathematics,
    public,
    regexes,
    reorder,
    stats,
    streams,
    strings,
    throttler,
    times,
    unique,
    unitconversion,
    windows,
)
from nadi.functions.entries import Aggregator, Entry, ScalarFunction, StreamFunctionSpec, WindowSpec
from nadi.functions.languages import LANGUAGES, Language
from nadi.functions.stores import StoreKind


@dataclass(slots=True)
class Registry:
    """See the module's text. Implements `nadi.plan.catalog.Catalog`."""

    _functions: dict[str, ScalarFunction] = field(default_factory=dict)
    _aggregators: dict[str, Aggregator] = field(default_factory=dict)
    _windows: dict[str, WindowSpec] = field(default_factory=dict)
    _stream_functions: dict[str, StreamFunctionSpec] = field(default_factory=dict)
    _stores: dict[str, StoreKind] = field(default_factory=dict)

    def add(self, *entries: Entry) -> None:
        """Register entries; one of the same kind and name is replaced."""
        for entry in entries:
            match entry:
                case ScalarFunction():
                    self._functions[entry.name] = entry
                case Aggregator():
                    self._aggregators[entry.name] = entry
                case WindowSpec():
                    self._windows[entry.name] = entry
                case StreamFunctionSpec():
                    self._stream_functions[entry.name] = entry
                case StoreKind():
                    self._stores[entry.name.lower()] = entry

    def function(self, name: str) -> ScalarFunction | None:
        return self._functions.get(name)

    def aggregator(self, name: str) -> Aggregator | None:
        return self._aggregators.get(name)

    def window(self, name: str) -> WindowSpec | None:
        return self._windows.get(name)

    def stream_function(self, name: str) -> StreamFunctionSpec | None:
        return self._stream_functions.get(name)

    def store(self, name: str) -> StoreKind | None:
        """A type of store; other than functions they are called in any case."""
        return self._stores.get(name.lower())

    def script(self, language: str) -> Language | None:
        """A language of script functions; capitals do not matter."""
        return LANGUAGES.get(language.lower())

    def names(self, kind: str) -> Sequence[str]:
        """All names of a kind: "function", "aggregator", "window", "stream_function", "store" or "script"."""
        shelves: dict[str, Iterable[str]] = {
            "function": self._functions,
            "aggregator": self._aggregators,
            "window": self._windows,
            "stream_function": self._stream_functions,
            "store": self._stores,
            "script": LANGUAGES,
        }
        return sorted(shelves[kind])

    def copy(self) -> Registry:
        """A registry of its own with the same entries: for the scripts of one app."""
        return Registry(
            dict(self._functions),
            dict(self._aggregators),
            dict(self._windows),
            dict(self._stream_functions),
            dict(self._stores),
        )


BUILT_IN: tuple[tuple[Entry, ...], ...] = (
    core.FUNCTIONS,
    aggregators.AGGREGATORS,
    windows.WINDOWS,
    streams.STREAM_FUNCTIONS,
    strings.ENTRIES,
    mathematics.ENTRIES,
    regexes.ENTRIES,
    maps.ENTRIES,
    lists.ENTRIES,
    jsons.ENTRIES,
    times.ENTRIES,
    unitconversion.ENTRIES,
    environment.ENTRIES,
    coordination.ENTRIES,
    unique.ENTRIES,
    reorder.ENTRIES,
    stats.ENTRIES,
    throttler.ENTRIES,
    builtinstores.ENTRIES,
)
"""The table of modules: what each adds to a new registry."""


def default_registry() -> Registry:
    """A new registry with everything that is built in, and what installed packages bring (see `public`)."""
    known = _known()
    return Registry(*(dict(getattr(known, kind.name)) for kind in fields(Registry)))


@cache
def _known() -> Registry:
    """Put together once per process: there are hundreds of entries, and to look through the packages takes milliseconds."""
    registry = Registry()
    for entries in (*BUILT_IN, public.installed()):
        registry.add(*entries)
    return registry
