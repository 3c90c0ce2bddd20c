"""`nadi explain app.siddhi`: what will run, and why; with `--dist`, how a cluster would run it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nadi.cli.apptext import app_text
from nadi.config.variables import variables_of
from nadi.functions.registry import default_registry
from nadi.io import registry
from nadi.io.moves import notes_on_moves
from nadi.lang import parse, settled
from nadi.plan import explained, explanation, plan_app
from nadi.plan.distribution import Placement, Topology, distribute, drawn, record, svg
from nadi.plan.nodes import App


def explain(path: Path, env: Sequence[str] = ()) -> str:
    """The plan of the app in a file, for people: groups, inputs, keys, buckets, queries, state, sinks.

    Raises:
        NadiError: the file cannot be read, or its text makes no app.
    """
    return explained(_planned(path, env), registry)


def explain_json(path: Path, env: Sequence[str] = ()) -> str:
    """The same as a JSON object (`--json`); its keys are those of `nadi.plan.explanation`."""
    return json.dumps(explanation(_planned(path, env), registry), indent=2, ensure_ascii=False) + "\n"


def explain_dist(
    path: Path,
    env: Sequence[str] = (),
    transport: str = "nats",
    picture: Path | None = None,
    as_json: bool = False,
    spark: bool = False,
) -> str:
    """The groups, channels and instances of the app, for people (`--dist`) or tools (`--json`); with `spark` as they are where a Spark cluster runs them. A
    `picture` is written as an SVG file.

    Raises:
        NadiError: the file cannot be read, its text makes no app, or the app cannot be cut as its @dist say.
    """
    kept, connections = _text(path, env)
    topology = _cut(kept, connections, path, transport, spark)
    # The text and not its plan: an app that can be cut may have what a node cannot plan yet, and the notes of the topology say so.
    topology = replace(topology, notes=(*topology.notes, *notes_on_moves(parse(kept))))
    if picture is not None:
        picture.write_text(svg(topology), encoding="utf-8")
    return json.dumps(record(topology), indent=2, ensure_ascii=False) + "\n" if as_json else drawn(topology)


def partial_apps(
    path: Path, folder: Path, env: Sequence[str] = (), transport: str = "nats", spark: bool = False
) -> list[Path]:
    """Writes each partial app into a file `<name>.siddhi` of a folder (`--apps`), and returns the files. Raises as `explain_dist`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for instance in _cut(*_text(path, env), path, transport, spark).instances:
        files.append(folder / f"{instance.name}.siddhi")
        files[-1].write_text(instance.text, encoding="utf-8")
    return files


def _cut(kept: str, connections: Mapping[str, str], path: Path, transport: str, spark: bool) -> Topology:
    placement = Placement.SPARK if spark else Placement.INSTANCES
    return distribute(
        kept,
        default_registry(),
        registry,
        transport=transport,
        file=str(path),
        connections=connections,
        placement=placement,
    )


def _planned(path: Path, env: Sequence[str]) -> App:
    kept, connections = _text(path, env)
    return plan_app(kept, default_registry(), file=str(path), connections=connections)


def _text(path: Path, env: Sequence[str]) -> tuple[str, Mapping[str, str]]:
    """The text of the app in a file, and the values for connections in it."""
    return settled(app_text(path), variables_of(env), file=str(path))
