"""Whether an app can run: `nadi check` tells it, and `nadi run` goes by it. They are the same, over apps of our own, of the examples, and samples of others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nadi.errors import Diagnostic, NadiError
from nadi.io.registry import (
    MAPPERS,
    SINKS,
    SOURCES,
    mapper_kind,
    sink_kind,
    source_kind,
)
from nadi.lang.refs import Refs
from nadi.pipeline.admission import Admission
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.runnable import remarks
from nadi.plan.nodes import App

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("NADI_SAMPLE_APPS") or ROOT.parent / "shared" / "sample-apps")
CASES_OF_SIDDHI = Path(os.environ.get("NADI_CONFORMANCE") or ROOT.parent / "shared" / "conformance") / "cases.jsonl"
S = "define stream S (a int, ts long, text string);\n"
FILE = "a.siddhi"


@pytest.fixture(scope="module")
def admission(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admission]:
    with ExitStack() as started:
        yield Admission(NodeOptions(tmp_path_factory.mktemp("node")), lambda _app, _said: None, started)


def problems(text: str, variables: dict[str, str], file: str = "", refs: Refs | None = None) -> tuple[Diagnostic, ...]:
    """The errors that check tells."""
    return tuple(d for d in remarks(text, variables, file, refs) if not d.warning)


def prepared(admission: Admission, text: str) -> App | NadiError:
    """What `nadi run` makes of a text before it starts anything."""
    try:
        return admission.planned(AppText.of(text, {}, FILE, {})).app
    except NadiError as refused:
        return refused


def agreed(admission: Admission, text: str) -> App | None:
    """The app of a text that check and run both take, None where both refuse it: run with one of the errors that check tells."""
    made, found = prepared(admission, text), problems(text, {}, FILE)
    if isinstance(made, NadiError):
        assert made.diagnostic in found, f"run says\n{made}\nand check\n" + "\n".join(d.render() for d in found)
        return None
    assert found == (), "run takes it, and check says\n" + "\n".join(d.render() for d in found)
    return made


# ---- what is refused, and where ------------------------------------------------------------------------------------

# annotations of a stream, and for each error: condition, the text that is underlined, a part of what is said
CASES = {
    "a type of source that nobody has": (
        "@source(type='kafak', topic.list='t', bootstrap.servers='b:1')",
        [("EXTENSION_NOT_FOUND", "type='kafak'", "did you mean 'kafka'?")],
    ),
    "a type of sink that nobody has": (
        "@sink(type='lgo')",
        [("EXTENSION_NOT_FOUND", "type='lgo'", "did you mean 'log'?")],
    ),
    "a type of mapper that nobody has": (
        "@sink(type='log', @map(type='xlm'))",
        [("EXTENSION_NOT_FOUND", "type='xlm'", "did you mean 'xml'?")],
    ),
    "source and mapper are both wrong": (
        "@source(type='tcp', @map(type='binary'))",
        [("EXTENSION_NOT_FOUND", "type='tcp'", "of source"), ("EXTENSION_NOT_FOUND", "type='binary'", "of mapper")],
    ),
    "options that nobody has, all of them": (
        "@sink(type='log', prefx='a', priorty='INFO')",
        [
            ("OPTION_UNKNOWN", "prefx='a'", "did you mean 'prefix'?"),
            ("OPTION_UNKNOWN", "priorty='INFO'", "did you mean 'priority'?"),
        ],
    ),
    "an option of a mapper that nobody has": (
        "@source(type='inMemory', topic='t', @map(type='json', enclosing.elment='$.x'))",
        [("OPTION_UNKNOWN", "enclosing.elment='$.x'", "did you mean 'enclosing.element'?")],
    ),
    "an option that is missing": (
        "@sink(type='kafka', topic='t')",
        [("OPTION_MISSING", "@sink(type='kafka', topic='t')", "'bootstrap.servers'")],
    ),
    "one that is missing, and one that looks like it": (
        "@source(type='inMemory', topik='t')",
        [("OPTION_UNKNOWN", "topik='t'", "did you mean 'topic'?")],
    ),
    "an option with another value": (
        "@sink(type='log', priority='LOUD')",
        [("OPTION_INVALID", "priority='LOUD'", "one of")],
    ),
    "a number that is none": (
        "@source(type='file', dir.uri='x', file.settle='--5')",
        [("OPTION_INVALID", "file.settle='--5'", "a whole number")],
    ),
    "a time that is no attribute": (
        "@source(type='inMemory', topic='t', event.time='a')",
        [("OPTION_INVALID", "event.time='a'", "a long attribute")],
    ),
    "a mapping of what is no attribute": (
        "@source(type='inMemory', topic='t', @map(type='json', @attributes(b='$.b')))",
        [("MAPPING_INVALID", "@map(type='json', @attributes(b='$.b'))", "'b' is not an attribute")],
    ),
    "a file source without a file": ("@source(type='file')", [("OPTION_MISSING", "@source(type='file')", "dir.uri")]),
    "a file sink without a file": ("@sink(type='file')", [("OPTION_MISSING", "@sink(type='file')", "dir.uri")]),
    "a file without a file, with a mapper": (
        "@source(type='file', @map(type='json'))",
        [("OPTION_MISSING", "@source(type='file', @map(type='json'))", "dir.uri")],
    ),
    "a file and a folder": (
        "@sink(type='file', file.uri='x', dir.uri='y', @map(type='json'))",
        [("OPTION_INVALID", "dir.uri='y'", "nothing where 'file.uri' is given")],
    ),
    "a file that is elsewhere": (
        "@source(type='file', file.uri='ftp://host/x')",
        [("NOT_SUPPORTED", "file.uri='ftp://host/x'", "mounted folder")],
    ),
    "an address that is none": (
        "@source(type='http', receiver.url='localhost')",
        [("OPTION_INVALID", "receiver.url='localhost'", "http://host:port/path")],
    ),
    "an address in half a bracket": (
        "@source(type='http', receiver.url='http://[::1')",
        [("OPTION_INVALID", "receiver.url='http://[::1'", "http://host:port/path")],
    ),
    "a broker in half a bracket": (
        "@source(type='mqtt', url='tcp://[x]', topic='t')",
        [("OPTION_INVALID", "url='tcp://[x]'", "tcp://host:port")],
    ),
    "a user without a password": (
        "@source(type='http', basic.auth.enabled='true', basic.auth.username='ada')",
        [("OPTION_MISSING", None, "'basic.auth.password'")],
    ),
    "a time of silence below 1": (
        "@source(type='http', socket.idle.timeout='0')",
        [("OPTION_INVALID", "socket.idle.timeout='0'", "above 0")],
    ),
    "no key can be remembered": (
        "@source(type='http', idempotency.keys='0')",
        [("OPTION_INVALID", "idempotency.keys='0'", "above 0")],
    ),
    "a subject that is not named": (
        "@source(type='nats')",
        [("OPTION_MISSING", "@source(type='nats')", "'destination'")],
    ),
    "a subject by its other name": (
        "@sink(type='nats', subject='a b')",
        [("OPTION_INVALID", "subject='a b'", "a subject")],
    ),
    "offsets by their other name": (
        "@source(type='kafka', topic.list='t', bootstrap.servers='b:1', topic.offset.map='t:5')",
        [("OPTION_INVALID", "topic.offset.map='t:5'", "topic=offset")],
    ),
    "a key of a channel that is no expression": (
        "@sink(type='channel', transport='nats', name='c', key='a b')",
        [("OPTION_INVALID", "key='a b'", "an expression over the attributes")],
    ),
    "a place to begin at that is none": (
        "@source(type='nats', destination='d', start.position='soon')",
        [("OPTION_INVALID", "start.position='soon'", "beginning, end")],
    ),
    "the same of Kafka": (
        "@source(type='kafka', topic.list='t', bootstrap.servers='b:1', start.position='soon')",
        [("OPTION_INVALID", "start.position='soon'", "beginning, end")],
    ),
    "partitions that are no numbers": (
        "@source(type='kafka', topic.list='t', bootstrap.servers='b:1', partition.no.list='a,b')",
        [("OPTION_INVALID", "partition.no.list='a,b'", "whole numbers")],
    ),
    "offsets that are none": (
        "@source(type='kafka', topic.list='t', bootstrap.servers='b:1', topic.offsets.map='t:5')",
        [("OPTION_INVALID", "topic.offsets.map='t:5'", "topic=offset")],
    ),
    "topics that have no name": (
        "@source(type='kafka', topic.list=' , ', bootstrap.servers='b:1')",
        [("OPTION_INVALID", "topic.list=' , '", "names of topics")],
    ),
    "a key with what is no attribute": (
        "@sink(type='kafka', topic='t', bootstrap.servers='b:1', key='{{b}}')",
        [("OPTION_INVALID", "key='{{b}}'", "an attribute in the braces")],
    ),
    "a topic with what is no attribute": (
        "@sink(type='inMemory', topic='{{b}}')",
        [("OPTION_INVALID", "topic='{{b}}'", "an attribute in the braces")],
    ),
    "a database that is not named": ("@sink(type='rdbms')", [("OPTION_MISSING", "@sink(type='rdbms')", "'url'")]),
    "a database of another kind": (
        "@sink(type='rdbms', jdbc.url='jdbc:oracle:thin:@h:1521/x')",
        [("DATABASE_UNKNOWN", "jdbc.url='jdbc:oracle:thin:@h:1521/x'", "names no database")],
    ),
    "an update without keys": (
        "@sink(type='rdbms', url='sqlite:///x', operation='update')",
        [("OPTION_MISSING", None, "'keys'")],
    ),
    "a key that is no attribute": (
        "@sink(type='rdbms', url='sqlite:///x', operation='delete', keys='b')",
        [("OPTION_INVALID", "keys='b'", "attributes of the stream")],
    ),
    "several targets of one sink": (
        "@sink(type='log', @distribution(strategy='roundRobin', @destination(prefix='a')))",
        [("NOT_SUPPORTED", "@distribution(strategy='roundRobin', @destination(prefix='a'))", "one @sink per target")],
    ),
    "two sinks into one file": (
        "@sink(type='file', file.uri='x', @map(type='json')) @sink(type='file', file.uri='./x', @map(type='csv'))",
        [("OPTION_INVALID", "@sink(type='file', file.uri='./x', @map(type='csv'))", "a target of its own")],
    ),
    "no type at all": ("@source(topic='t')", [("INVALID_ANNOTATION", "@source(topic='t')", "it needs a type")]),
    "a type of store that nobody has": (
        "@sink(type='log') define stream U (a int); @store(type='mongodb', uri='u') define table T (a int); @sink(type='log')",
        [("EXTENSION_NOT_FOUND", "type='mongodb'", "of store")],
    ),
    "a database that nadi does not reach": (
        "@store(type='rdbms', jdbc.url='jdbc:h2:./x') define table T (a int); @sink(type='log')",
        [
            (
                "DATABASE_UNKNOWN",
                "@store(type='rdbms', jdbc.url='jdbc:h2:./x')",
                "postgresql, postgres, mysql, mariadb, sqlite",
            )
        ],
    ),
    "an option of a store that is none": (
        "@store(type='rdbms', jdbc.ulr='jdbc:sqlite:x') define table T (a int); @sink(type='log')",
        [("OPTION_UNKNOWN", "jdbc.ulr='jdbc:sqlite:x'", "did you mean 'jdbc.url'?")],
    ),
    "a store without a database": (
        "@store(type='rdbms') define table T (a int); @sink(type='log')",
        [("OPTION_MISSING", "@store(type='rdbms')", "'jdbc.url'")],
    ),
    "a length of what is no text": (
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:x', field.length='b:5') define table T (a int, bb string); @sink(type='log')",
        [("OPTION_INVALID", "field.length='b:5'", "did you mean 'bb'?")],
    ),
    "an object in a store": (
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:x') define table T (a object); @sink(type='log')",
        [("NOT_SUPPORTED", "@store(type='rdbms', jdbc.url='jdbc:sqlite:x')", "an object")],
    ),
    "a data source that the node does not have": (
        "@store(type='rdbms', datasource='ORDERS_DB') define table T (a int); @sink(type='log')",
        [("OPTION_INVALID", "datasource='ORDERS_DB'", "there are: none")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_run_refuses_is_told_by_check_at_its_place(admission: Admission, case: str) -> None:
    annotations, wanted = CASES[case]
    text = annotations + " " + S + "from S select a insert into Out;"
    assert agreed(admission, text) is None
    found = problems(text, {}, FILE)
    assert [d.condition for d in found] == [condition for condition, _at, _said in wanted]
    for d, (_condition, at, said) in zip(found, wanted):
        assert said in d.render()
        assert d.file == FILE
        assert text[d.span.start : d.span.end] == (at or annotations)


def test_errors_of_queries_and_of_connectors_are_told_together_in_the_order_of_the_text(admission: Admission) -> None:
    text = (
        "@sink(type='lgo') " + S + "define window W (a int) lenght(2);\n@source(type='fiel') define stream U (a int);"
    )
    text += "from S select b insert into O;"
    assert agreed(admission, text) is None
    assert [d.condition for d in problems(text, {})] == [
        "EXTENSION_NOT_FOUND",
        "WINDOW_NOT_FOUND",
        "EXTENSION_NOT_FOUND",
        "ATTRIBUTE_NOT_FOUND",
    ]


T = "@store(type='mongodb', uri='u') define table T (k int, v int);\n"


@pytest.mark.parametrize(
    "query",
    [
        "from S select a as k, a as v insert into T;",
        "from S select a update T set T.v = a on T.k == a;",
        "from S select a delete T on T.k == a;",
        "from S select a as k, a as v update or insert into T on T.k == k;",
        "from S join T on S.a == T.k select S.a as a insert into O; from O select a insert into P;",
        "from S[T.k == a in T] select a insert into O; from O[a > 5] select a insert into P;",
        "define aggregation G from S select sum(a) as n aggregate every sec; from S[T.k == a in T] insert into O;",
    ],
)
def test_what_uses_a_table_whose_store_is_wrong_is_no_second_error(admission: Admission, query: str) -> None:
    text = S + T + query
    assert agreed(admission, text) is None
    assert [d.condition for d in problems(text, {})] == ["EXTENSION_NOT_FOUND"]


def test_what_is_wrong_in_such_a_query_for_another_reason_is_told(admission: Admission) -> None:
    text = S + T + "from S join T on S.a == T.key select S.a as a insert into O;"
    assert agreed(admission, text) is None
    assert [d.condition for d in problems(text, {})] == ["EXTENSION_NOT_FOUND", "ATTRIBUTE_NOT_FOUND"]


@pytest.mark.parametrize(
    ("definition", "condition", "query"),
    [
        ("define table T (k int, k int);", "DUPLICATE_ATTRIBUTE", "from S[T.k == a in T] select a insert into O;"),
        ("define table T (k int, k int);", "DUPLICATE_ATTRIBUTE", "from S select a delete T on T.k == a;"),
        (
            "define stream R (k int, k int);",
            "ATTRIBUTE_DEFINED_TWICE",
            "from R select k insert into O; from O insert into P;",
        ),
        ("define stream R (k int, k int);", "ATTRIBUTE_DEFINED_TWICE", "from !R select k insert into O;"),
        (
            "define stream R (k int, k int);",
            "ATTRIBUTE_DEFINED_TWICE",
            "define aggregation G from R select sum(k) as n aggregate every sec; from S join G on S.a == G.n "
            "within 1L, 2L per 'sec' select S.a as a insert into O;",
        ),
        (
            "define stream R (k int, k int);",
            "ATTRIBUTE_DEFINED_TWICE",
            "partition with (k of R) begin from R insert into O; end;",
        ),
        (
            "define window W (k int) lenght(5);",
            "WINDOW_NOT_FOUND",
            "from W select k insert into O; from S[W.k == a in W] insert into P;",
        ),
        ("define trigger G at 'never';", "INVALID_CRON", "from G select triggered_time insert into O;"),
        ("@OnError(action='SHOUT') define stream R (k int);", "INVALID_ANNOTATION", "from !R select k insert into O;"),
        ("@async(buffer.size='0') define stream R (k int);", "INVALID_ANNOTATION", "from R select k insert into O;"),
        ("@index('z') define table T (k int);", "ATTRIBUTE_NOT_FOUND", "from S[T.k == a in T] select a insert into O;"),
    ],
)
def test_what_reads_a_definition_that_is_wrong_is_no_second_error(
    admission: Admission, definition: str, condition: str, query: str
) -> None:
    text = S + definition + "\n" + query
    assert agreed(admission, text) is None
    assert [d.condition for d in problems(text, {})] == [condition]


def test_a_client_that_is_not_installed_is_told_where_the_type_stands(
    admission: Admission, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The type is known all the same: what is near it, and what is not, is said without any client."""
    (tmp_path / "source_of_nobody.py").write_text("import a_client_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(SOURCES, "nobody", "source_of_nobody")
    text = "@source(type='nobody', option='x') " + S
    assert agreed(admission, text) is None
    (found,) = problems(text, {}, FILE)
    assert found.condition == "CLIENT_MISSING"
    assert "a_client_that_nobody_has" in found.message
    assert text[found.span.start : found.span.end] == "type='nobody'"
    (near,) = problems("@source(type='noboby') " + S, {}, FILE)
    assert near.next_step == "did you mean 'nobody'?"


def test_a_ref_that_nobody_has_named_hides_nothing_else_and_brings_no_other_error() -> None:
    text = "@source(ref='ordes', event.time='q') @sink(ref='oders') @sink(type='lgo') @OnError(action='STREAM') " + S
    found = problems(text + "from !S select z insert into O;", {}, FILE, {"orders": ("http", {})})
    told = [(d.condition, text[d.span.start : d.span.end]) for d in found]
    assert told[:3] == [
        ("REF_UNKNOWN", "ref='ordes'"),
        ("REF_UNKNOWN", "ref='oders'"),
        ("EXTENSION_NOT_FOUND", "type='lgo'"),
    ]
    assert "did you mean 'orders'?" in found[0].render()


def test_an_option_that_a_ref_brings_is_wrong_at_the_ref() -> None:
    text = "@source(ref='orders') " + S
    (found,) = problems(text, {}, FILE, {"orders": ("http", {"reciever.url": "http://127.0.0.1:1/x"})})
    assert (found.condition, text[found.span.start : found.span.end]) == ("OPTION_UNKNOWN", "ref='orders'")
    assert found.source == text


# ---- check and run are the same ------------------------------------------------------------------------------------


def _misspelt(name: str, at: int) -> str:
    at %= len(name)
    return name[:at] + name[at + 1 :]


def _names(known: list[str]) -> st.SearchStrategy[str]:
    """A name that is known, most of the time."""
    right = st.sampled_from(sorted(known))
    return st.one_of(right, right, right, st.builds(_misspelt, right, st.integers(0, 20)))


VALUES = st.sampled_from(
    """x|true|5|0|-1|--5|a|ts|text|{{a}}|{{b}}|{{|tcp://[|http://[x]/|beginning|$.a|<a>|2/3|9/3|a,ts|http://127.0.0.1:8006/in|https://h|tcp://h:1|ssl://h:x|h:1|h:1,i:2|
sqlite:///x|jdbc:oracle:x|ftp://h/x|linger.ms:5|plugin.library.paths:/x|'Nadi:x'|insert|update|upsert|INFO|PKCS12|active|STREAM|t=5|nats|""".replace(
        "\n", ""
    ).split("|")
)


def _element(option: tuple[str, str]) -> str:
    key, value = option
    quote = '"' if "'" in value else "'"
    return f"{key}={quote}{value}{quote}"


@st.composite
def mappers(draw: st.DrawFn, kind: str) -> str:
    if draw(st.integers(0, 4)) == 0:
        return ""
    name = draw(_names([*MAPPERS]))
    made = mapper_kind(name) if name in MAPPERS else mapper_kind("json")
    known = [o.name.replace("*", "a") for o in (made.source_options if kind == "source" else made.sink_options)]
    options = draw(st.lists(st.tuples(_names(known or ["delimiter"]), VALUES), max_size=2, unique_by=lambda o: o[0]))
    elements = [f"type='{name}'", *map(_element, options)]
    if draw(st.integers(0, 2)) == 0:
        inner = draw(st.lists(st.tuples(st.sampled_from(["a", "ts", "text", "b"]), VALUES), max_size=3))
        elements.append(
            f"@attributes({', '.join(map(_element, inner))})" if kind == "source" else "@payload('{{a}} {{ts}}')"
        )
    return f", @map({', '.join(elements)})"


@st.composite
def annotations(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["source", "sink"]))
    table = SOURCES if kind == "source" else SINKS
    name = draw(_names([*table]))
    made = (source_kind if kind == "source" else sink_kind)(name if name in table else "file")
    known = [o.name for o in made.options] + ["event.time" if kind == "source" else "on.error"]
    options = {o.name: draw(VALUES) for o in made.options if o.required and draw(st.integers(0, 5))}
    options |= dict(draw(st.lists(st.tuples(_names(known), VALUES), max_size=3)))
    shown = name.title() if draw(st.booleans()) else name
    elements = ", ".join([f"type='{shown}'", *map(_element, options.items())])
    return f"@{kind}({elements}{draw(mappers(kind))})"


QUERIES = [
    "from S[a > 5] select a insert into O;",
    "from S select b insert into O;",
    "from S join T on S.a == T.k select S.a as a insert into P;",
    "from S select a delete T on T.k == a;",
    "from S[T.k == a in T] select a insert into Q;",
    "from !S select a insert into R;",
    "from S select f(a) as a insert into F;",
]
DEFINITIONS = [
    "",
    "define table T (k int);",
    "@store(type='inMemory') define table T (k int);",
    "@store(type='rdbms', jdbc.url='x') define table T (k int);",
    "@primaryKey('z') define table T (k int);",
    "define table T (k int, k long);",
    "define function f[javascript] return int { return data[0]; };",
    "define function f[javascript] return int { return data[0; };",
]


@st.composite
def apps(draw: st.DrawFn) -> str:
    given_to_s = draw(st.lists(st.one_of(annotations(), st.just("@OnError(action='STREAM')")), max_size=2))
    others = draw(st.lists(annotations(), max_size=2))
    streams = [
        f"{annotation}\ndefine stream S{n} (a int, ts long, text string);" for n, annotation in enumerate(others)
    ]
    queries = draw(st.lists(st.sampled_from(QUERIES), max_size=2, unique=True))
    return "\n".join(["\n".join(given_to_s), S, *streams, draw(st.sampled_from(DEFINITIONS)), *queries])


@given(text=apps())
@settings(max_examples=100, deadline=None)
def test_check_and_run_say_the_same_of_generated_apps(admission: Admission, text: str) -> None:
    agreed(admission, text)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.siddhi")), ids=lambda path: path.name)
def test_check_and_run_say_the_same_of_the_examples(admission: Admission, path: Path) -> None:
    agreed(admission, path.read_text(encoding="utf-8"))


def test_check_and_run_say_the_same_of_sample_apps_of_others(admission: Admission) -> None:
    """Apps that others have published, one a file; those who have them name their folder."""
    files = sorted(SAMPLES.rglob("*.siddhi"))
    if not files:
        pytest.skip("no sample apps: set NADI_SAMPLE_APPS to a folder of them")
    for path in files:
        agreed(admission, path.read_text(encoding="utf-8-sig"))


def test_check_and_run_say_the_same_of_the_apps_of_the_language_cases(admission: Admission) -> None:
    """Of some of them: all are many."""
    if not CASES_OF_SIDDHI.exists():
        pytest.skip("no conformance cases: set NADI_CONFORMANCE to their folder")
    for line in CASES_OF_SIDDHI.read_text(encoding="utf-8").splitlines()[::8]:
        for text in json.loads(line)["apps"]:
            agreed(admission, text)
