"""`nadi check`, `nadi run`, a worker and a manager refuse an app with the same condition, at the same place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from servers.keystores import Authority, write_store

from nadi.cli.check import deployable
from nadi.errors import Diagnostic, NadiError
from nadi.functions import StoreKind, default_registry
from nadi.kernel.rows.memorystore import MemoryStore
from nadi.pipeline.admission import Admission
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.runnable import remarks
from nadi.plan.options import Option
from nadi.server.distributed.deployment import Deployment
from nadi.server.distributed.execution import Execution
from nadi.server.preparation import AppPreparation

Place = tuple[str, int, int]
"""Condition, line and column of an error."""

NAME = "@app:name('A')\n"
IN = "define stream In (a int, b string, t long);\n"
QUERY = "from In select a, b insert into Out;\n"
OUT = "define stream Out (a int, b string);\n"


def source(options: str, mapper: str = "@map(type='json')") -> str:
    return f"{NAME}@source({options}, {mapper})\n{IN}{QUERY}"


def sink(options: str, mapper: str = "@map(type='json')") -> str:
    return f"{NAME}{IN}@sink({options}, {mapper})\n{OUT}{QUERY}"


def two_sources(first: str, second: str) -> str:
    return (
        f"{NAME}@source(type='http', receiver.url='{first}')\n{IN}"
        f"@source(type='http', receiver.url='{second}')\ndefine stream B (a int);\n"
    )


TO_FILE = "@sink(type='file', file.uri='{}', @map(type='json'))"


def app(text: str) -> str:
    return NAME + IN + text


# One fault each, and where it is.
EVERYWHERE: dict[str, tuple[str, Place]] = {
    "a type of source": (source("type='htpp'"), ("EXTENSION_NOT_FOUND", 2, 9)),
    "a type of sink": (sink("type='lgo'"), ("EXTENSION_NOT_FOUND", 3, 7)),
    "a type of mapper": (sink("type='log'", "@map(type='jsn')"), ("EXTENSION_NOT_FOUND", 3, 24)),
    "a type of store": (app("@store(type='rdbm')\ndefine table T (a int);\n"), ("EXTENSION_NOT_FOUND", 3, 8)),
    "a ref": (source("ref='x'"), ("REF_UNKNOWN", 2, 9)),
    "a ref of a store": (app("@store(ref='x')\ndefine table T (a int);\n"), ("REF_UNKNOWN", 3, 8)),
    "an option that is unknown": (sink("type='log', prefx='x'"), ("OPTION_UNKNOWN", 3, 19)),
    "an option that is missing": (sink("type='kafka', bootstrap.servers='h:1'"), ("OPTION_MISSING", 3, 1)),
    "a number": (source("type='file', file.uri='x', file.settle='soon'"), ("OPTION_INVALID", 2, 36)),
    "a bool": (source("type='file', file.uri='x', until.end='yes'"), ("OPTION_INVALID", 2, 36)),
    "a choice": (sink("type='log', priority='LOUD'"), ("OPTION_INVALID", 3, 19)),
    "a number that is too small": (source("type='http', journal.retention.hours='-4'"), ("OPTION_INVALID", 2, 22)),
    "an option of a mapper": (sink("type='log'", "@map(type='json', validate='true')"), ("OPTION_UNKNOWN", 3, 37)),
    "a mapping": (source("type='nats', destination='d'", "@map(type='json', @attributes(q='$.q'))"), ("MAPPING_INVALID", 2, 39)),
    "a payload": (sink("type='log'", "@map(type='json', @payload('{{nope}}'))"), ("MAPPING_INVALID", 3, 19)),
    "a pattern": (
        source("type='nats', destination='d'", "@map(type='text', regex.A='(', @attributes(a='A', b='A', t='A'))"),
        ("MAPPING_INVALID", 2, 39),
    ),
    "a time": (source("type='nats', destination='d', event.time='a'"), ("OPTION_INVALID", 2, 39)),
    "an address of NATS": (sink("type='nats', destination='d', url='http://h'"), ("OPTION_INVALID", 3, 37)),
    "a subject": (sink("type='nats', destination='a b'"), ("OPTION_INVALID", 3, 20)),
    "brokers of Kafka": (sink("type='kafka', topic='t', bootstrap.servers='h:x'"), ("OPTION_INVALID", 3, 32)),
    "a setting of Kafka": (
        sink("type='kafka', topic='t', bootstrap.servers='h:1', optional.configuration='linger.ms:x'"),
        ("OPTION_INVALID", 3, 57),
    ),
    "a setting that is refused": (
        sink("type='kafka', topic='t', bootstrap.servers='h:1', optional.configuration='debug:all'"),
        ("CLIENT_PROPERTY_REFUSED", 3, 57),
    ),
    "a file twice": (
        app(f"{TO_FILE.format('x')}\n{TO_FILE.format('./x')}\n{OUT}"),
        ("OPTION_INVALID", 4, 1),
    ),
    "an address twice": (two_sources("http://h:1/x", "http://h:1/x"), ("OPTION_INVALID", 4, 22)),
    "http and https on a port": (two_sources("http://h:1/x", "https://h:1/y"), ("OPTION_INVALID", 4, 22)),
    "several destinations": (sink("type='log', @distribution(strategy='all')"), ("NOT_SUPPORTED", 3, 19)),
    "a file by attribute": (sink("type='file', file.uri='/x/{{a}}'"), ("NOT_SUPPORTED", 3, 20)),
    "a database": (sink("type='rdbms', url='h2:x'", "@map(type='passThrough')"), ("DATABASE_UNKNOWN", 3, 21)),
    "a word": (app("from In selct a insert into Out;\n"), ("MISSPELT_KEYWORD", 3, 9)),
    "an attribute": (app("from In select c insert into Out;\n"), ("ATTRIBUTE_NOT_FOUND", 3, 16)),
    "a window": (app("from In#window.nope(1) select a insert into Out;\n"), ("WINDOW_NOT_FOUND", 3, 16)),
    "a variable": (source("type='file', file.uri='${X}'"), ("VARIABLE_NOT_SET", 2, 32)),
    "a script": (app("define function f[python] return int { def };\n"), ("SCRIPT_INVALID", 3, 44)),
    "a name that a folder cannot have": ("@app:name('a/b')\n" + IN + QUERY, ("APP_NAME_UNSAFE", 1, 11)),
}  # fmt: skip

# What a node with its own settings, files and folders says; a manager has none of them, and asks the workers.
OF_NODES: dict[str, tuple[str, Place]] = {
    "a folder": (sink("type='file', file.uri='/proc/x'"), ("PATH_NOT_ALLOWED", 3, 20)),
    "a file of a database": (sink("type='rdbms', url='sqlite:////proc/x'", "@map(type='passThrough')"), ("PATH_NOT_ALLOWED", 3, 21)),
    "a key store": (source("type='http', receiver.url='https://h:1/x', https.keystore.file='/x'"), ("FILE_NOT_ALLOWED", 2, 52)),
    "a shard": (app("@PartitionById define aggregation G from In select sum(a) as n aggregate every sec;\n"), ("INVALID_ANNOTATION", 3, 1)),
}  # fmt: skip

# What a manager says, who cuts the app.
OF_MANAGERS: dict[str, tuple[str, Place]] = {
    "how many": (app(f"@dist(execGroup='g', parallel='x')\n{QUERY}"), ("DIST_PARALLEL_INVALID", 3, 22)),
    "an option of @dist": (app(f"@dist(execGrup='g')\n{QUERY}"), ("OPTION_UNKNOWN", 3, 7)),
    "a table of several": (
        app("define table T (a int);\n@dist(execGroup='g', parallel='2')\nfrom In select a insert into T;\n"),
        ("DIST_TABLE_PARALLEL", 4, 1),
    ),
    "inside of a partition": (
        app("partition with (a of In) begin @dist(execGroup='g') from In select a insert into O; end;\n"),
        ("DIST_INSIDE_PARTITION", 3, 32),
    ),
}


@dataclass(frozen=True, slots=True)
class Askers:
    """Those who are asked about an app; each raises what it says."""

    options: NodeOptions
    run: Callable[[str], object]
    worker: Callable[[str], object]
    manager: Callable[[str], object]

    def check(self, text: str) -> list[Place]:
        """What `nadi check` prints."""

        def further(planned: Any, filled: AppText) -> None:
            deployable(True, planned, filled)

        return [place(d) for d in remarks(text, {}, "A.siddhi", {}, self.options, further) if not d.warning]


def place(d: Diagnostic) -> Place:
    return d.condition, d.span.line, d.span.column


def said(ask: Callable[[str], object], text: str) -> Place | None:
    try:
        ask(text)
    except NadiError as refused:
        return place(refused.diagnostic)
    return None


@pytest.fixture(scope="module")
def askers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Askers]:
    options = NodeOptions(tmp_path_factory.mktemp("node"))
    nobody: Any = None
    channels: Any = SimpleNamespace(transport="nats", servers="")
    managed = Deployment(nobody, nobody, nobody, channels, nobody, Execution(), {}, {}, nobody)
    with ExitStack() as started:
        admission = Admission(options, lambda _app, _said: None, started)
        yield Askers(
            options,
            lambda text: admission.planned(AppText.of(text, {}, "A.siddhi", {})),
            AppPreparation(options, {}, {}).name_of,
            lambda text: managed.topology(text, ""),
        )


@pytest.mark.parametrize("case", EVERYWHERE)
def test_all_refuse_an_app_that_can_run_nowhere(askers: Askers, case: str) -> None:
    text, wanted = EVERYWHERE[case]
    assert askers.check(text) == [wanted]
    assert [said(ask, text) for ask in (askers.run, askers.worker, askers.manager)] == [wanted] * 3


@pytest.mark.parametrize("case", OF_NODES)
def test_check_and_a_node_refuse_what_the_node_does_not_have(askers: Askers, case: str) -> None:
    text, wanted = OF_NODES[case]
    assert askers.check(text) == [wanted]
    assert [said(ask, text) for ask in (askers.run, askers.worker)] == [wanted] * 2


@pytest.mark.parametrize("case", OF_MANAGERS)
def test_check_refuses_an_app_with_dist_that_a_manager_cannot_cut(askers: Askers, case: str) -> None:
    text, wanted = OF_MANAGERS[case]
    assert askers.check(text) == [wanted]
    assert said(askers.manager, text) == wanted


def test_an_app_without_a_name_is_for_nadi_run_only(askers: Askers) -> None:
    text = IN + QUERY
    assert said(askers.run, text) is None
    wanted = ("APP_NAME_MISSING", 0, 0)
    assert askers.check(text) == [wanted]
    assert [said(ask, text) for ask in (askers.worker, askers.manager)] == [wanted] * 2


def test_an_app_that_others_machines_cannot_run_is_refused_before_it_is_kept(tmp_path: Path) -> None:
    conf = {"nadi.state.url": "s3://bucket/x", "nadi.journal.url": "nats://h:1"}
    options = NodeOptions(tmp_path, "spark://h:7077", conf)
    text, wanted = sink("type='log'"), ("NEEDS_STATE_FOLDER", 3, 7)
    told = remarks(text, {}, "A.siddhi", {}, options)
    assert [place(d) for d in told] == [wanted]
    assert said(AppPreparation(options, {}, {}).name_of, text) == wanted
    alone = replace(options, master="local[*]")
    assert said(AppPreparation(alone, {}, {}).name_of, text) is None


MANY = f"""{NAME}@source(type='htpp')
{IN}@sink(type='kafka', topik='x', @map(type='jsn'))
@sink(type='log', priority='x', @map(type='json', @payload('{{{{q}}}}')))
{OUT}@store(type='rdbm')
define table T (a int);
from In select c, b insert into Out;
from In#nope:x() select a insert into Z;
"""


def test_check_tells_all_faults_of_an_app_and_the_others_one_of_them(askers: Askers) -> None:
    told = askers.check(MANY)
    assert told == [
        ("EXTENSION_NOT_FOUND", 2, 9),
        ("OPTION_MISSING", 4, 1),
        ("OPTION_UNKNOWN", 4, 21),
        ("EXTENSION_NOT_FOUND", 4, 37),
        ("OPTION_INVALID", 5, 19),
        ("MAPPING_INVALID", 5, 33),
        ("EXTENSION_NOT_FOUND", 7, 8),
        ("ATTRIBUTE_NOT_FOUND", 9, 16),
        ("STREAM_FUNCTION_NOT_FOUND", 10, 9),
    ]
    for ask in (askers.run, askers.worker, askers.manager):
        assert said(ask, MANY) in told


def test_all_refuse_an_option_that_a_store_does_not_take(askers: Askers, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = default_registry()
    registry.add(StoreKind("told", MemoryStore, options=(Option("pool", kind="int"),)))
    for module in ("pipeline.engine", "pipeline.runnable", "server.preparation", "server.distributed.deployment"):
        monkeypatch.setattr(f"nadi.{module}.default_registry", lambda: registry)
    text = app("@store(type='told', pol='5', pool='x')\ndefine table T (a int);\n")
    wanted = [("OPTION_UNKNOWN", 3, 21), ("OPTION_INVALID", 3, 30)]
    assert askers.check(text) == wanted
    assert [said(ask, text) for ask in (askers.run, askers.worker, askers.manager)] == wanted[:1] * 3


@pytest.mark.parametrize(("password", "wanted"), [("secret", None), ("wrong", "CERTIFICATE_UNUSABLE")])
def test_a_key_store_that_cannot_be_used_is_refused_where_the_folder_of_certificates_is(
    tmp_path: Path, password: str, wanted: str | None
) -> None:
    file, _certificate = write_store(tmp_path, "secret")
    given = (
        f"type='http', receiver.url='https://h:1/x', https.keystore.file='{file}', https.keystore.password='{password}'"
    )
    text = source(given)
    options = NodeOptions(tmp_path / "node", conf={"nadi.connector.files": str(tmp_path)})
    expected = None if wanted is None else (wanted, 2, 52)
    told = [place(d) for d in remarks(text, {}, "A.siddhi", {}, options)]
    assert told == ([] if expected is None else [expected])
    assert said(AppPreparation(options, {}, {}).name_of, text) == expected
    elsewhere = NodeOptions(tmp_path / "node", conf={"nadi.connector.files": "/nowhere"})
    nowhere = source(given.replace(str(file), "/nowhere/x.p12"))
    assert remarks(nowhere, {}, "A.siddhi", {}, elsewhere) == ()


TRUSTED = "?authority={0}/authority.pem&certificate={0}/node.pem&key={0}/{1}"
# By type: what names the files of a folder, {1} the key, and where a finding about them is.
FILES: dict[str, tuple[Callable[[str], str], str, tuple[int, int]]] = {
    "source of NATS": (source, "type='nats', destination='d', bootstrap.servers='tls://h:1" + TRUSTED, (2, 39)),
    "sink of NATS": (sink, "type='nats', destination='d', bootstrap.servers='tls://h:1" + TRUSTED, (3, 37)),
    "sink of NATS in centres": (
        sink,
        "type='natsMultiDC', destination='d', bootstrap.servers='nats://g:1,tls://h:1" + TRUSTED,
        (3, 44),
    ),
    "source of Kafka": (source, "type='kafka', topic.list='t', bootstrap.servers='ssl://h:1" + TRUSTED, (2, 39)),
    "sink of Kafka": (sink, "type='kafka', topic='t', bootstrap.servers='ssl://h:1" + TRUSTED, (3, 32)),
    "properties of Kafka": (
        sink,
        "type='kafka', topic='t', bootstrap.servers='h:1', optional.configuration='security.protocol:ssl,"
        "ssl.ca.location:{0}/authority.pem,ssl.certificate.location:{0}/node.pem,ssl.key.location:{0}/{1}",
        (3, 57),
    ),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("key", ["node.key", "authority.key", "nothing.key", "authority.pem"])
def test_certificates_and_keys_of_clients_are_looked_into_where_their_folder_is(
    tmp_path: Path, kind: str, key: str
) -> None:
    Authority(tmp_path).sign("node")
    (tmp_path / "authority.key").write_bytes(Authority(tmp_path, "other").sign("own")[1].read_bytes())
    where, named, at = FILES[kind]
    text = where(named.format(tmp_path, key) + "'")
    options = NodeOptions(tmp_path / "home", conf={"nadi.connector.files": str(tmp_path)})
    wanted = [] if key == "node.key" else [("CERTIFICATE_UNUSABLE", *at)]
    assert [place(d) for d in remarks(text, {}, "A.siddhi", {}, options)] == wanted
    assert said(AppPreparation(options, {}, {}).name_of, text) == (wanted[0] if wanted else None)


def test_properties_by_which_the_client_of_kafka_cannot_speak_tls_are_refused() -> None:
    text = sink(
        "type='kafka', topic='t', bootstrap.servers='h:1', "
        "optional.configuration='security.protocol:ssl,ssl.certificate.pem:none'"
    )
    (found,) = remarks(text, {}, "A.siddhi", {}, NodeOptions(Path("home")))
    assert place(found) == ("OPTION_INVALID", 3, 57)
    assert "ssl.certificate.pem" in found.message
