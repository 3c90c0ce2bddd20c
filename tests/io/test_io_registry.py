from __future__ import annotations

from pathlib import Path

import pytest
from io_build import annotation, schema

from nadi.errors import NadiError
from nadi.io.contract import Place
from nadi.io.registry import MAPPERS, SINKS, SOURCES, connectors, make_ingress, mapper_kind, open_log, open_sink
from nadi.lang.tree import Annotation
from nadi.plan.nodes import App, Stream


def app(**streams: list[Annotation]) -> App:
    made = {n: Stream(n, n, schema("a int, ts long"), annotations=tuple(a)) for n, a in streams.items()}
    return App("app", made, {}, {}, {}, {}, {}, ())


def source(options: dict[str, str], map_: Annotation | None = None) -> Annotation:
    return annotation("source", {"type": "file", **options}, [map_ or annotation("map", {"type": "json"})])


def test_connectors_are_numbered_over_the_whole_app() -> None:
    found = connectors(
        app(
            A=[source({"File.URI": "x"}), annotation("sink", {"type": "log"})],
            B=[annotation("Source", {"TYPE": "File", "dir.uri": "y"}, [annotation("Map", {"type": "CSV"})])],
        ),
        "source",
    )
    assert [(c.stream, c.ordinal, c.type, dict(c.options), c.map.get("type")) for c in found] == [
        ("A", 0, "file", {"file.uri": "x"}, "json"),
        ("B", 1, "file", {"dir.uri": "y"}, "CSV"),
    ]


@pytest.mark.parametrize(
    ("made", "condition"),
    [
        (annotation("source", {"type": "fiel"}), "EXTENSION_NOT_FOUND"),
        (annotation("source", {"file.uri": "x"}), "OPTION_MISSING"),
        (annotation("source", {"ref": "x"}), "NOT_SUPPORTED"),
        (source({"file.uri": "x", "fiel.settle": "1"}), "OPTION_UNKNOWN"),
        (source({"file.uri": "x", "file.settle": "soon"}), "OPTION_INVALID"),
        (source({"file.uri": "x", "event.time": "a"}), "OPTION_INVALID"),
        (source({"file.uri": "x", "event.time": "nope"}), "OPTION_INVALID"),
        (source({"file.uri": "x"}, annotation("map", {"type": "jsn"})), "EXTENSION_NOT_FOUND"),
        (source({"file.uri": "x"}, annotation("map", {"type": "json", "x": "1"})), "OPTION_UNKNOWN"),
        (
            source({"file.uri": "x"}, annotation("map", {"type": "json", "fail.on.missing.attribute": "yes"})),
            "OPTION_INVALID",
        ),
        (
            source({"file.uri": "x"}, annotation("map", {"type": "json"}, [annotation("attributes", {"q": "$.q"})])),
            "MAPPING_INVALID",
        ),
    ],
)
def test_what_does_not_fit_is_refused_when_the_app_is_deployed(made: Annotation, condition: str) -> None:
    with pytest.raises(NadiError) as e:
        connectors(app(A=[made]), "source")
    assert e.value.condition == condition


def test_an_unknown_type_names_the_nearest_known_one() -> None:
    with pytest.raises(NadiError, match="did you mean 'file'") as e:
        connectors(app(A=[annotation("sink", {"type": "fiel"})]), "sink")
    assert e.value.siddhi_class == "ExtensionNotFoundException"


def test_two_sinks_do_not_share_a_file() -> None:
    def sink(path: str) -> Annotation:
        return annotation("sink", {"type": "file", "file.uri": path}, [annotation("map", {"type": "json"})])

    with pytest.raises(NadiError) as e:
        connectors(app(A=[sink("/x/y")], B=[sink("file:/x/z/../y")]), "sink")
    assert e.value.condition == "OPTION_INVALID"
    assert len(connectors(app(A=[sink("/x/y")], B=[sink("/x/z")]), "sink")) == 2


def test_distribution_is_refused() -> None:
    made = annotation("sink", {"type": "log"}, [annotation("distribution", {"strategy": "roundRobin"})])
    with pytest.raises(NadiError) as e:
        connectors(app(A=[made]), "sink")
    assert e.value.condition == "NOT_SUPPORTED"


def test_what_follows_a_refusal_is_one_of_four_things() -> None:
    for action in ("LOG", "wait", "Stream", "STORE"):
        assert connectors(app(A=[annotation("sink", {"type": "log", "on.error": action})]), "sink")
    with pytest.raises(NadiError, match="STORE") as e:
        connectors(app(A=[annotation("sink", {"type": "log", "on.error": "RETRY"})]), "sink")
    assert e.value.condition == "OPTION_INVALID"


def test_every_mapper_in_the_table_exists() -> None:
    for name in MAPPERS:
        assert mapper_kind(name).source is not None
        assert mapper_kind(name).sink is not None
    assert {"file", "nats", "kafka", "http", "inmemory"} <= SOURCES.keys()
    assert {"file", "log", "nats", "kafka", "http", "inmemory"} <= SINKS.keys()


def test_a_file_has_no_ingress_and_opens(tmp_path: Path) -> None:
    [chosen] = connectors(app(A=[source({"dir.uri": str(tmp_path), "event.time": "ts"})]), "source")
    place = Place("app", tmp_path / "state")
    assert make_ingress(chosen, place) is None
    log = open_log(chosen, place)
    assert log.end(0) == 0
    log.close()
    [log_sink] = connectors(app(A=[annotation("sink", {"type": "log"})]), "sink")
    open_sink(log_sink, place).close()
