"""`nadi app`: apps that enter and leave a node while it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from nadi.cli.revision import deployed
from nadi.cli.run import read_app
from nadi.errors import NadiError
from nadi.errors.readable import readable
from nadi.lang.refs import Refs
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.nodesocket import Asked, Told, ask_node
from nadi.pipeline.runnable import runnable
from nadi.pipeline.spec import Connectors, Engine

STOPPED = 130


def add(files: Sequence[Path], state: Path, env: Sequence[str] = (), config: Path | None = None) -> int:
    """Have the node on a state folder run more apps; -> exit status: 1 where one was not taken or ended at once, 130 after Ctrl-C. `config`: the
    deployment.yaml of the node, for refs.

    All texts are checked before the node is asked; each app is then taken by itself. Errors: those of the texts, NODE_NOT_RUNNING.
    """
    refs = deployed(config, state).refs
    texts = [checked(file, env, refs) for file in files]
    failed = False
    for text in texts:
        try:
            print(
                sentence(ask_node(state, Asked(add=text.text, file=text.file, variables=dict(text.variables)))),
                flush=True,
            )
        except NadiError as reason:
            if reason.condition == "NODE_NOT_RUNNING":
                raise
            failed = True
            print(reason, file=sys.stderr)
        except KeyboardInterrupt:
            print(f"the node goes on with {text.file}; nobody waits for it any more", file=sys.stderr)
            return STOPPED
    return 1 if failed else 0


def checked(file: Path, env: Sequence[str] = (), refs: Refs | None = None) -> AppText:
    """The text of a file whose app can run. Errors: as `nadi run` has them."""
    text, options = read_app(file, env, refs), NodeOptions()
    engine: Engine = import_module(options.engine)
    registry: Connectors = import_module(options.connectors)
    runnable(text, engine, registry, options.settings().of_kernels(), None)
    return text


def sentence(told: Told) -> str:
    """What became of an app that the node has taken.

    >>> sentence(Told("A", "running")), sentence(Told("A", "waiting", "[SPARK_FAILED] it broke"))
    ('A: running', 'A: waiting for its next attempt: [SPARK_FAILED] it broke')
    """
    if told.state == "waiting":
        return f"{told.app}: waiting for its next attempt: {told.last_error.splitlines()[0]}"
    return f"{told.app}: {told.state}"


def remove(app: str, state: Path) -> int:
    """Have the node on a state folder stop an app and let go of it; -> exit status, 130 after Ctrl-C.

    Errors: NODE_NOT_RUNNING, APP_NOT_ON_NODE, NODE_STOPPING.
    """
    try:
        told = ask_node(state, Asked(remove=app))
    except KeyboardInterrupt:
        print(f"the node goes on to stop {app}; nobody waits for it any more", file=sys.stderr)
        return STOPPED
    print(sentence(told))
    if told.last_error:
        print(readable(told.last_error, "\n"), file=sys.stderr)
    return 0
