"""Distribution changes nothing, on real processes: a dozen generated apps on one cluster give what each gives in one process, per key in order.

Apps, groups and events are made of one number, another one in each run unless it is given: `--seed 7`.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from clusternodes import Cluster, Ground, cluster, rows
from servers import asking
from servers.ports import free_ports

from nadi.errors import NadiError
from nadi.functions.registry import default_registry
from nadi.io import registry as connectors
from nadi.kernel.rows.events import Chunk
from nadi.plan.distribution import Topology, distribute
from nadi.runtime import Runtime

_SPEC = importlib.util.spec_from_file_location(
    "generated", Path(__file__).parents[1] / "plan" / "distribution" / "generated.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
generated = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = generated
_SPEC.loader.exec_module(generated)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

APPS = 12
EVENTS = 40  # of each app
MOST = 2  # instances of a group
ROWS = 8  # that an app gives at least
SOURCE = "@source(type='http', receiver.url='http://127.0.0.1:{port}/{name}', @map(type='json')) define stream {name} (k string, v int);"
SINK = "@sink(type='rdbms', url='jdbc:sqlite:{database}', table.name='{name}') define stream {name} (k string, v int, at long);"

Told = dict[str, dict[str, list[int]]]
"""By stream and key: the values, in order."""


@dataclass(frozen=True)
class Case:
    """An app on its way through a cluster."""

    name: str
    text: str
    topology: Topology
    outputs: tuple[str, ...]
    ports: dict[str, int]
    database: Path
    sent: list[tuple[str, str, int]]
    wanted: Told

    def reads(self, stream: str) -> bool:
        """Whether anybody takes events of an input."""
        return any(
            f"define stream {stream} (" in i.text or f"passthrough{stream}" in i.text for i in self.topology.instances
        )

    def found(self) -> Told:
        """What its tables have: what came out first stands first."""
        return {s: _by_key(rows(self.database, f"select k, v from {s} order by at, rowid")) for s in self.outputs}

    def count(self) -> int:
        return sum(len(values) for keys in self.found().values() for values in keys.values())


def _by_key(found: list[tuple[Any, ...]]) -> dict[str, list[int]]:
    told: dict[str, list[int]] = {}
    for key, value in found:
        told.setdefault(key, []).append(value)
    return told


def _whole(text: str, outputs: tuple[str, ...], sent: list[tuple[str, str, int]]) -> Told:
    """What an app gives in this process."""
    app = Runtime(text, now=1_000, connected=False)
    noted: dict[str, list[tuple[Any, ...]]] = {stream: [] for stream in outputs}

    def note(stream: str) -> Any:
        def take(chunk: Chunk) -> None:
            noted[stream] += [(event.row[0], event.row[1]) for event in chunk]

        return take

    for stream in outputs:
        app.on_stream(stream, note(stream))
    app.start()
    for stream, key, value in sent:
        app.advance(10)
        app.send(stream, [(key, value)])
    return {stream: _by_key(found) for stream, found in noted.items()}


def _case(number: int, chance: random.Random, ports: dict[str, int], folder: Path) -> Case:
    """An app that can be cut, has several groups, and gives something of its events."""
    sent = [(chance.choice("SR"), chance.choice("abcde"), chance.randint(0, 9)) for _ in range(EVENTS)]
    while True:
        made = generated.generated(chance.randint, timed=False, most=MOST)
        name, database = f"Generated{number}", folder / f"generated{number}.db"
        text, outputs = _connected(made, name, ports, database)
        try:
            topology = distribute(text, default_registry(), connectors)
        except NadiError as refused:
            if refused.condition.startswith("DIST_"):
                continue
            raise
        wanted = _whole(text, outputs, sent)
        rows_wanted = sum(len(values) for keys in wanted.values() for values in keys.values())
        if rows_wanted >= ROWS and 3 <= len(topology.instances) <= 6:
            return Case(name, text, topology, outputs, ports, database, sent, wanted)


def _connected(made: Any, name: str, ports: dict[str, int], database: Path) -> tuple[str, tuple[str, ...]]:
    """The text of an app whose inputs are fed over HTTP, and whose outputs go into tables with the times of their events; the names of these."""
    definitions = [d for d in made.definitions if not any(f"define stream {s} " in d for s in made.inputs)]
    definitions += [SOURCE.format(name=s, port=ports[s]) for s in made.inputs]
    outputs = tuple(f"Heard{s}" for s in made.outputs)
    definitions += [SINK.format(name=s, database=database) for s in outputs]
    elements = list(made.elements)
    for stream, heard in zip(made.outputs, outputs, strict=True):
        dist = next(e for e in made.elements if f"into {stream};" in e).partition("partition with")[0]
        group = dist[dist.index("@dist(") :].partition(")")[0] + ") " if "@dist(" in dist else ""
        elements.append(f"{group}from {stream} select k, v, eventTimestamp() as at insert into {heard};")
    return "\n".join([f"@app:name('{name}')", *definitions, *elements]) + "\n", outputs


def _deploy(nodes: Cluster, case: Case) -> None:
    answer = nodes.manager.ask("POST", "/siddhi-apps", content=case.text, headers={"content-type": "text/plain"})
    assert answer.status_code == 201, f"{answer.text}\n{case.text}"


def _feed(cases: list[Case]) -> None:
    """The events of all apps, those of an app one after the other and never two of them in one millisecond."""
    with asking.client(timeout=60) as client:
        for place in range(EVENTS):
            for case in cases:
                stream, key, value = case.sent[place]
                if case.reads(stream):
                    url = f"http://127.0.0.1:{case.ports[stream]}/{stream}"
                    _send(client, url, {"event": {"k": key, "v": value}})
            time.sleep(0.002)  # clocks tell milliseconds


def _send(client: httpx.Client, url: str, body: object) -> None:
    """Until it is taken: a source may be on the way to another worker."""
    until = time.monotonic() + 60
    while True:
        try:
            answer = client.post(url, json=body)
        except httpx.ConnectError:
            assert time.monotonic() < until
        else:
            assert answer.status_code in (202, 503), answer.text
            if answer.status_code == 202:
                return
        time.sleep(0.1)


def test_a_dozen_generated_apps_on_two_workers_give_what_they_give_in_one_process(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--seed") or random.randrange(1 << 32)
    print(f"--seed {seed}")
    chance, ports = random.Random(seed), iter(free_ports(2 * APPS))
    cases = [_case(n, chance, {s: next(ports) for s in "SR"}, tmp_path) for n in range(APPS)]
    assert sum(g.parallel > 1 for case in cases for g in case.topology.groups) >= APPS / 2
    ground = replace(
        Ground.in_folder(tmp_path / "shared"), settings="  kernel: rows\n"
    )  # columns are compiled for long
    with cluster(tmp_path, ground=ground) as nodes:
        for case in cases:
            _deploy(nodes, case)
        nodes.until(lambda: all(nodes.is_active(case.name) for case in cases))
        _feed(cases)
        nodes.until(lambda: all(case.count() >= sum(map(len, _values(case.wanted))) for case in cases))
        for case in cases:
            assert case.found() == case.wanted, f"--seed {seed}\n{case.text}# sent: {case.sent}"


def _values(told: Told) -> list[list[int]]:
    return [values for keys in told.values() for values in keys.values()]
