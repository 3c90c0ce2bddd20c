"""`nadi worker`: a server that apps are deployed to; exit status 0 (stopped), 1 (it could not start), 130 (stopped at once)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from nadi.cli.interrupts import stops
from nadi.config.deployment import Deployment, environment_lookups, read_deployment
from nadi.errors import error
from nadi.errors.readable import readable
from nadi.errors.redaction import redacted
from nadi.metrics import logs
from nadi.server.frontdoor import Say
from nadi.server.home import Home, make_folder, open_home
from nadi.server.worker import Worker

if TYPE_CHECKING:
    from nadi.server.distributed.workerserver import ClusterWorker
    from nadi.server.pair.pairworker import PairWorker


def worker(config: Path | None, home: Path) -> int:
    """Run a worker until Ctrl-C or SIGTERM; -> exit status. Errors: those of `Worker`, LOG_NOT_WRITTEN."""
    lookups = environment_lookups(home.resolve())
    deployment = Deployment() if config is None else read_deployment(config, lookups)
    place = open_home(home, deployment.sections.deployment.repository_location)
    tell, say = mouths(deployment, place)
    for notice in deployment.notices:
        tell(f"warning: {notice}")
    made = _worker_of(deployment, place, tell, say)
    leaves = deployment.sections.deployment_config.is_distributed
    sentence = "leaving the cluster after the batches under way" if leaves else "stopping after the batches under way"
    with stops(made.request_stop, tell, sentence):
        made.run()
    tell("stopped")
    return 0


def _worker_of(deployment: Deployment, place: Home, tell: Say, say: Say) -> Worker | ClusterWorker | PairWorker:
    """One that lives alone, one of a pair, or one of a cluster."""
    if deployment.sections.deployment_config.is_pair:
        from nadi.server.pair.pairworker import PairWorker

        return PairWorker(deployment, place, tell, say)
    if not deployment.sections.deployment_config.is_distributed:
        return Worker(deployment, place, tell, say)
    from nadi.server.distributed.workerserver import ClusterWorker

    return ClusterWorker(deployment, place, tell, say)


def mouths(deployment: Deployment, home: Home) -> tuple[Say, Say]:
    """Begin to log; -> as `_mouth`. Errors: LOG_NOT_WRITTEN, FOLDER_NOT_MADE."""
    return _mouth(_logging(deployment, home))


def _logging(deployment: Deployment, home: Home) -> logs.Logging:
    """Begin to log. Errors: LOG_NOT_WRITTEN, FOLDER_NOT_MADE."""
    wanted = deployment.sections.own.log
    file = home.folder / wanted.file if wanted.file else None
    how = logs.Logging(wanted.format, wanted.level, "" if file is None else str(file))
    if file is not None:
        make_folder(file.parent)
    try:
        logs.begin(how, lambda text: redacted(text, deployment.secrets))
    except OSError as reason:
        raise error("LOG_NOT_WRITTEN", path=file, reason=reason.strerror) from reason
    return how


def _mouth(how: logs.Logging) -> tuple[Say, Say]:
    """What tells an operator something: in the log, where that is for machines or in a file; and what no file may keep, on standard error only."""
    log = structlog.get_logger("nadi.worker")

    def say(text: str) -> None:
        shown = json.dumps({"event": text}) if how.format == logs.JSON else readable(text, "\n")
        print(shown, file=sys.stderr, flush=True)

    def tell(text: str) -> None:
        if how.file or how.format == logs.JSON:
            log.info(text)
        if how.file or how.format == logs.TEXT:
            say(text)

    return tell, say
