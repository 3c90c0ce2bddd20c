"""`nadi worker`: a server that apps are deployed to; exit status 0 (stopped), 1 (it could not start), 130 (stopped at once)."""

from __future__ import annotations

import sys
from pathlib import Path

import structlog

from nadi.cli.interrupts import stops
from nadi.config.deployment import Deployment, environment_lookups, read_deployment
from nadi.errors.readable import readable
from nadi.server.home import open_home
from nadi.server.worker import Worker


def worker(config: Path | None, home: Path) -> int:
    """Run a worker until Ctrl-C or SIGTERM; -> exit status. Errors: those of `Worker`."""
    # what the command says goes to standard error; structlog's own choice is standard output
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    lookups = environment_lookups(home.resolve())
    deployment = Deployment() if config is None else read_deployment(config, lookups)
    for notice in deployment.notices:
        say(f"warning: {notice}")
    made = Worker(deployment, open_home(home, deployment.sections.deployment.repository_location), say)
    with stops(made.request_stop, say, "stopping after the batches under way"):
        made.run()
    say("stopped")
    return 0


def say(text: str) -> None:
    """A line for the operator."""
    print(readable(text, "\n"), file=sys.stderr, flush=True)
