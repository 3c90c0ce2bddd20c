"""Before an app changes, workers try what it is to become: what they find that would keep an instance from running refuses the change, and the app goes on.

One instance of each group is tried, as those of a group differ only in the keys that they have: where it runs now, else on any worker. What could not be found
out (nobody answers, the worker is of an older version, it would take too long) is told in the log and stops nobody: then the change is as one without a trial.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle
from urllib.parse import quote

import msgspec
import structlog

from nadi.cluster.contract import NoAnswer, Seen
from nadi.cluster.messages import Deploy, PartText
from nadi.cluster.rows import Part, Placement, WorkerRow
from nadi.errors import error
from nadi.pipeline.revision.inheritance import Ancestor, Heritage
from nadi.pipeline.revision.trial import Told
from nadi.server.distributed.wire import Network

WITHIN = 35_000  # ms: who deploys waits for a minute

log = structlog.get_logger("nadi.server")


@dataclass(frozen=True, slots=True)
class Trial:
    """An instance with the text that it is to have, what it keeps is known by, and what it would begin with."""

    instance: str
    text: str
    home: str
    heritage: str


def trials_of(deploy: Deploy, before: Mapping[str, Part]) -> tuple[Trial, ...]:
    """One instance of each group in which something is new; `before` are the instances that there are. One that goes on where it is begins with what it has.

    >>> trials_of(Deploy("A", "", (PartText("A-g-1", "A-g", "new"),)), {})
    (Trial(instance='A-g-1', text='new', home='', heritage=''),)
    """
    found: dict[str, Trial] = {}
    for part in deploy.parts:
        old = before.get(part.instance)
        if part.group in found or (old is not None and (old.text, old.home) == (part.text, part.home)):
            continue
        found[part.group] = Trial(part.instance, part.text, part.home, _heritage(deploy, part, old))
    return tuple(found.values())


def _heritage(deploy: Deploy, part: PartText, old: Part | None) -> str:
    if deploy.base is not None or old is None:
        return part.heritage
    return Heritage((Ancestor(old.home or old.instance, old.text),)).to_json()


def placed(trials: Iterable[Trial], seen: Seen) -> dict[str, WorkerRow]:
    """Who tries which instance: its own worker, or those that are there in turn; nobody, where no worker is."""
    there = [row for row in seen.all(WorkerRow) if not row.gone]
    turns = cycle([row for row in there if not row.draining] or there)
    found = {}
    for trial in trials:
        at = seen.get(Placement, trial.instance)
        own = None if at is None else next((row for row in there if row.id == at.worker), None)
        chosen = own or next(turns, None)
        if chosen is not None:
            found[trial.instance] = chosen
    return found


class Trials:
    """Asks workers. Used in the event loop of its manager."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def check(self, app: str, deploy: Deploy, before: Mapping[str, Part], seen: Seen) -> None:
        """Have a version tried; `seen` has workers and placements. Errors: CHANGE_REFUSED, where something speaks against it."""
        trials = trials_of(deploy, before)
        workers = placed(trials, seen)
        wanted = [(trial, workers[trial.instance]) for trial in trials if trial.instance in workers]
        answers = await asyncio.gather(*(self._ask(trial, worker) for trial, worker in wanted))
        reasons = []
        for (trial, worker), told in zip(wanted, answers, strict=True):
            if told.refused:
                reasons.append(f"{trial.instance} on {worker.id}: {told.refused}")
            elif told.untried:
                log.warning(
                    "not tried before the change", instance=trial.instance, worker=worker.id, reason=told.untried
                )
        if reasons:
            log.warning("change refused", app=app, reasons=reasons)
            raise error("CHANGE_REFUSED", app=app, reasons="; ".join(reasons))

    async def _ask(self, trial: Trial, worker: WorkerRow) -> Told:
        body = msgspec.json.encode({"text": trial.text, "home": trial.home, "heritage": trial.heritage})
        path = f"/cluster/instances/{quote(trial.instance, safe='')}/trial"
        try:
            answer = await self._network.request(worker.address, "POST", path, body, WITHIN)
            if answer.status != 200:
                return Told(untried=f"{worker.id} answers {answer.status}")
            return msgspec.json.decode(answer.body or b"", type=Told)
        except (NoAnswer, msgspec.MsgspecError) as reason:
            return Told(untried=str(reason))
