"""Each type of source, sink and mapper describes itself, whole; no module beside it knows its name."""

from __future__ import annotations

import ast
import re
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path

import pytest
from io_build import annotation, schema

import nadi
from nadi.io import registry, warmup
from nadi.io.contract import Announcing
from nadi.io.registry import (
    MAPPERS,
    SINKS,
    SOURCES,
    MapperKind,
    SinkKind,
    SourceKind,
    mapper_kind,
    sink_kind,
    source_kind,
)
from nadi.lang.tree import Annotation
from nadi.plan.connectortraits import AT_LEAST_ONCE, EXACTLY_ONCE, Divided, SinkTraits, SourceTraits
from nadi.plan.nodes import App, Stream

ROOT = Path(nadi.__file__).parent


def _loops() -> list[tuple[str, registry.Loops]]:
    kinds: list[SourceKind | SinkKind | MapperKind] = [source_kind(name) for name in SOURCES]
    kinds += [sink_kind(name) for name in SINKS]
    kinds += [mapper_kind(name) for name in MAPPERS]
    return [(loops.name, loops) for kind in kinds for loops in kind.loops]


@pytest.mark.parametrize("traits", [SourceTraits, SinkTraits])
def test_no_trait_can_be_left_out(traits: type[SourceTraits | SinkTraits]) -> None:
    assert [f.name for f in fields(traits) if f.default is not MISSING or f.default_factory is not MISSING] == []
    with pytest.raises(TypeError, match="missing"):
        traits()


@pytest.mark.parametrize("kind", [SourceKind, SinkKind, MapperKind])
def test_no_kind_can_leave_out_what_has_to_be_known_of_it(kind: type[SourceKind | SinkKind | MapperKind]) -> None:
    needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    assert needed >= {"loops"} | ({"content_type"} if kind is MapperKind else {"traits", "options", "open"})


@pytest.mark.parametrize("name", SOURCES)
def test_the_traits_of_a_source_fit_what_it_has(name: str) -> None:
    kind = source_kind(name)
    options = {option.name for option in kind.options}
    if kind.ingress is not None:  # it appends to the app's own journal, and nothing can say that no more will come
        assert kind.traits.owned
        assert kind.traits.journal
        assert kind.traits.endless
    assert (kind.traits.listens is None) is (kind.address is None)
    assert kind.traits.listens is None or kind.traits.listens.option in options
    assert ("share" in options) is (kind.traits.divided is Divided.SHARES)
    assert not (kind.traits.endless and "until.end" in options)


@pytest.mark.parametrize("name", SINKS)
def test_a_sink_says_why_its_guarantee_holds_and_announces_only_where_it_can(name: str) -> None:
    kind = sink_kind(name)
    assert kind.traits.why
    classes = [
        c for c in vars(import_module(SINKS[name])).values() if isinstance(c, type) and c.__module__ == SINKS[name]
    ]
    wanted = [m for m in dir(Announcing) if not m.startswith("_")]
    announcing = any(all(hasattr(c, m) for m in wanted) for c in classes)
    assert kind.traits.announces is announcing


def test_guarantees_are_told_by_the_types() -> None:
    told = {name: sink_kind(name).traits.guarantee for name in SINKS}
    assert {name for name, guarantee in told.items() if guarantee is AT_LEAST_ONCE} == {"http", "log", "mqtt"}
    assert {guarantee for name, guarantee in told.items() if name not in ("http", "log", "mqtt")} == {EXACTLY_ONCE}
    assert registry.sink_traits("jms") is None
    assert registry.source_traits("jms") is None


@pytest.mark.parametrize(("name", "loops"), _loops())
def test_loops_can_be_compiled_and_have_a_text(name: str, loops: registry.Loops) -> None:
    assert callable(import_module(loops.warmed).warm)
    assert warmup.text(loops).startswith(name)
    assert len(warmup.text(loops)) > 1000


@pytest.mark.parametrize(
    ("what", "options", "topics"),
    [
        ("source", {"type": "kafka", "topic.list": "a, b"}, "a, b"),
        ("source", {"type": "kafkaMultiDC", "topic": "a"}, "a"),
        ("source", {"type": "channel", "transport": "kafka", "name": "A.S"}, "A.S"),
        ("source", {"type": "channel", "transport": "nats", "name": "A_S"}, ""),
        ("source", {"type": "nats", "destination": "a"}, None),
        ("sink", {"type": "kafka", "topic": "a"}, "a"),
        ("sink", {"type": "kafkaMultiDC", "topic": "a"}, "a"),
        ("sink", {"type": "channel", "transport": "kafka", "name": "A.S"}, "A.S"),
        ("sink", {"type": "inMemory", "topic": "a"}, None),
    ],
)
def test_topics_of_kafka_are_told_by_the_types(what: str, options: dict[str, str], topics: str | None) -> None:
    traits = registry.source_traits if what == "source" else registry.sink_traits
    of = traits(options["type"].lower())
    assert of is not None
    assert (None if of.topics is None else of.topics.named(annotation(what, options))) == topics


def test_only_files_can_be_compared_with_a_replay_and_hand_on_how_they_are_numbered() -> None:
    assert [name for name in SINKS if sink_kind(name).read_back is not None] == ["file"]
    default = {f.name: f.default for f in fields(SourceKind)}["take_over"]
    assert [name for name in SOURCES if source_kind(name).take_over is not default] == ["file"]


def _app(**streams: list[Annotation]) -> App:
    made = {n: Stream(n, n, schema("a int"), annotations=tuple(a)) for n, a in streams.items()}
    return App("app", made, {}, {}, {}, {}, {}, ())


def test_an_app_needs_the_loops_of_its_connectors_and_mappers_each_once() -> None:
    def source(kind: str, mapped: str) -> Annotation:
        options = {"type": kind, "topic.list": "t"} if kind == "kafka" else {"type": kind, "topic": "t"}
        return annotation("source", {**options, "bootstrap.servers": "a:1,b:1"}, [annotation("map", {"type": mapped})])

    log = annotation("sink", {"type": "log"}, [annotation("map", {"type": "json"})])
    assert [one.name for one in warmup.needed(_app(A=[source("kafka", "json")], B=[source("kafka", "csv"), log]))] == [
        "kafka",
        "json",
    ]
    assert [one.name for one in warmup.needed(_app(A=[source("kafkaMultiDC", "xml")]))] == ["kafka"]
    assert list(warmup.needed(_app(A=[annotation("sink", {"type": "log"})]))) == []


# Types whose names mean nothing else in our code, unlike `file`, `http`, `mqtt`, `kafka` and `nats`, which are schemes and transports of channels, too.
_PLAIN = {"kafkamultidc", "natsmultidc", "rdbms", "inmemory"}
_OF_THE_TYPES = ("io/sources/", "io/sinks/", "io/mappers/", "io/registry.py", "channels/")
_OTHERWISE = {
    "plan/stores.py": "types of stores",
    "functions/builtinstores.py": "types of stores, too: not of sinks",
    "runtime/transport.py": "the topics of apps in this process: the runtime's own connector",
}


def _named(path: Path) -> set[str]:
    """Names of types that a module compares with or keeps in a collection."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Set | ast.Tuple | ast.List):
            parts = [*node.elts]
        elif isinstance(node, ast.Dict):
            parts = [*node.keys]
        found |= {p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)} & _PLAIN
    return found


def test_no_module_beside_the_types_keeps_their_names() -> None:
    here = {str(path.relative_to(ROOT)): path for path in ROOT.rglob("*.py")}
    others = {name: path for name, path in here.items() if not name.startswith(_OF_THE_TYPES)}
    assert {name for name, path in others.items() if _named(path)} == _OTHERWISE.keys()


# A comparison of one of these with the name of a type asks for a type; `scope["type"]` is that of a request.
_ASKING = re.compile(r"(\.type|\btype_|\bkind|\.get\('type'\).*)$")


def _asked(path: Path) -> list[str]:
    """The comparisons of a module that ask for a type of source or sink by its name."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Compare)
        if any(isinstance(p, ast.Constant) and p.value in {*SOURCES, *SINKS} for p in (node.left, *node.comparators))
        if any(_ASKING.search(ast.unparse(p)) for p in (node.left, *node.comparators))
    ]


def test_no_module_beside_the_types_asks_for_one_of_them_by_its_name() -> None:
    here = {str(path.relative_to(ROOT)): path for path in ROOT.rglob("*.py")}
    others = {name: path for name, path in here.items() if not name.startswith(_OF_THE_TYPES)}
    asked = {name: found for name, path in others.items() if (found := _asked(path))}
    assert asked.keys() == {"runtime/transport.py"}, asked
