"""A small catalog that follows the protocol, so that planning is tested without the functions of the product."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from nadi.functions.registry import default_registry
from nadi.lang import parse
from nadi.lang.tree import Type
from nadi.plan import bind
from nadi.plan.aggregatortraits import AggregatorTraits
from nadi.plan.catalog import Argument, Column, ScriptProblem, SignatureError
from nadi.plan.nodes import App
from nadi.plan.windowtraits import WindowTraits


@dataclass(frozen=True)
class Scalar:
    name: str
    returns: Callable[[tuple[Argument, ...]], Type]


@dataclass(frozen=True)
class Aggregator(Scalar):
    @property
    def traits(self) -> AggregatorTraits:
        entry = default_registry().aggregator(self.name)
        assert entry is not None
        return entry.traits


@dataclass(frozen=True)
class Window:
    name: str
    check: Callable[[tuple[Argument, ...]], None]
    conditional: bool = False

    @property
    def traits(self) -> WindowTraits:
        spec = default_registry().window(self.name)
        assert spec is not None
        return spec.traits


@dataclass(frozen=True)
class StreamFunction:
    name: str
    adds: Callable[[tuple[Argument, ...]], tuple[Column, ...]]


def gives(kind: Type) -> Callable[[tuple[Argument, ...]], Type]:
    return lambda _args: kind


def first(args: tuple[Argument, ...]) -> Type:
    if not args:
        raise SignatureError("needs an argument")
    return args[0].type


def summed(args: tuple[Argument, ...]) -> Type:
    if len(args) != 1 or args[0].type in (Type.STRING, Type.BOOL, Type.OBJECT):
        raise SignatureError("takes one number")
    return Type.LONG if args[0].type in (Type.INT, Type.LONG) else Type.DOUBLE


def constants(args: tuple[Argument, ...]) -> None:
    if not args or not args[0].is_constant:
        raise SignatureError("needs a constant first")


def anything(_args: tuple[Argument, ...]) -> None:
    return None


def polar(args: tuple[Argument, ...]) -> tuple[Column, ...]:
    if len(args) < 2:
        raise SignatureError("takes two numbers")
    return (Column("cartX", Type.DOUBLE), Column("cartY", Type.DOUBLE))


STORES = ("rdbms", "teststorecontaininginmemorytable", "teststoredummyforcache")


@dataclass(frozen=True)
class Named:
    name: str
    once: bool = False


@dataclass(frozen=True)
class AnyLanguage:
    """Every body is right here."""

    name: str

    @property
    def title(self) -> str:
        return self.name

    def check(self, body: str) -> ScriptProblem | None:
        return None


@dataclass(frozen=True)
class SmallCatalog:
    functions: dict[str, Scalar] = field(
        default_factory=lambda: {
            s.name: s
            for s in (
                Scalar("coalesce", first),
                Scalar("eventTimestamp", gives(Type.LONG)),
                Scalar("instanceOfFloat", gives(Type.BOOL)),
                Scalar("str:concat", gives(Type.STRING)),
                Scalar("currentTimeMillis", gives(Type.LONG)),
                Scalar("UUID", gives(Type.STRING)),
            )
        }
    )
    aggregators: dict[str, Aggregator] = field(
        default_factory=lambda: {
            s.name: s
            for s in (
                Aggregator("sum", summed),
                Aggregator("avg", gives(Type.DOUBLE)),
                Aggregator("max", first),
                Aggregator("count", gives(Type.LONG)),
                Aggregator("minForever", first),
            )
        }
    )
    windows: dict[str, Window] = field(
        default_factory=lambda: {
            **{n: Window(n, constants) for n in ("length", "time", "lengthBatch", "timeBatch", "timeLength", "delay")},
            "expression": Window("expression", constants, conditional=True),
            **{n: Window(n, anything) for n in ("batch", "externalTime", "sort", "unique:ever", "session", "cron")},
        }
    )
    stream_functions: dict[str, StreamFunction] = field(
        default_factory=lambda: {
            "log": StreamFunction("log", lambda _args: ()),
            "pol2Cart": StreamFunction("pol2Cart", polar),
            "unique:deduplicate": StreamFunction("unique:deduplicate", lambda _args: ()),
        }
    )

    def function(self, name: str) -> Scalar | None:
        return self.functions.get(name)

    def aggregator(self, name: str) -> Aggregator | None:
        return self.aggregators.get(name)

    def window(self, name: str) -> Window | None:
        return self.windows.get(name)

    def stream_function(self, name: str) -> StreamFunction | None:
        return self.stream_functions.get(name)

    def store(self, name: str) -> Named | None:
        return Named(name) if name in STORES else None

    def script(self, language: str) -> AnyLanguage | None:
        return AnyLanguage(language) if language in ("py", "python") else None

    def names(self, kind: str) -> Iterable[str]:
        known: dict[str, Iterable[str]] = {
            "function": self.functions,
            "aggregator": self.aggregators,
            "window": self.windows,
            "stream_function": self.stream_functions,
            "store": STORES,
            "script": ("py", "python"),
        }
        return known[kind]


@pytest.fixture
def catalog() -> SmallCatalog:
    return SmallCatalog()


@pytest.fixture
def plan(catalog: SmallCatalog) -> Callable[[str], App]:
    return lambda text: bind(parse(text), catalog, text=text)
