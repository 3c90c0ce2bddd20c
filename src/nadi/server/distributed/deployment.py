"""What a manager does with an app that a user gives it: checks it, cuts it, has workers try it where it changes one that runs, makes its channels, and has the
leader place it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from nadi.cluster.changes import digest_of
from nadi.cluster.contract import Clock, Seen, Store, StoreAway
from nadi.cluster.manager import Manager
from nadi.cluster.messages import Delete, Deploy, Done, Drain, Message, Move, PartText, Restart, Unknown, Write
from nadi.cluster.rows import App, AppChange, Part, Placement, Row, Stale, WorkerRow
from nadi.cluster.sockets import written
from nadi.errors import NadiError, error
from nadi.functions.registry import default_registry
from nadi.io import registry
from nadi.lang import settled
from nadi.pipeline.node import NodeOptions
from nadi.plan.distribution import Topology, distribute
from nadi.plan.migration import RESET
from nadi.server.apps import AppExists, AppNotThere, Saved
from nadi.server.distributed.channelplace import ChannelPlace
from nadi.server.distributed.execution import Execution
from nadi.server.distributed.httpsockets import http_sockets
from nadi.server.distributed.leftovers import Leftovers
from nadi.server.distributed.succession import Version, goes_on, heritages, rows
from nadi.server.distributed.trials import Trials
from nadi.server.preparation import AppPreparation

ENDS_WITHIN = 40.0  # seconds: less than those who ask wait
WAITS = "until all that runs of it has taken what it has"
LOOK = 500  # ms between two looks at whether an app has ended everywhere
KINDS: tuple[type[Row], ...] = (App, Part, AppChange, WorkerRow, Placement)  # what a change begins with

log = structlog.get_logger("nadi.server")


class Deployment:
    """See the module's text. Used in the event loop of its manager."""

    def __init__(
        self,
        manager: Manager,
        store: Store,
        clock: Clock,
        channels: ChannelPlace,
        leftovers: Leftovers,
        execution: Execution,
        variables: Mapping[str, str],
        refs: Mapping[str, tuple[str, dict[str, str]]],
        trials: Trials,
    ) -> None:
        self._manager = manager
        self._store = store
        self._clock = clock
        self._channels = channels
        self._leftovers = leftovers
        self._execution = execution
        self._trials = trials
        self._variables = dict(variables)
        self._preparation = AppPreparation(NodeOptions(), variables, refs, runs=False)
        self._ends: dict[str, asyncio.Task[None]] = {}

    # ---- changes

    async def save(self, text: str, fresh: bool) -> Saved:
        """Deploy an app, or with `fresh` False update it, too.

        Errors: those of the text and of its @dist, APP_NAME_MISSING, GROUPS_CHANGED, CHANGE_REFUSED (then nothing has changed), those of channels and of what
        is left of an app before, CLUSTER_UNDECIDED, StoreAway; AppExists where it is to be `fresh`.
        """
        name, topology = await asyncio.to_thread(self._checked, text)
        seen = await self._store.read(*KINDS)
        known = seen.get(App, name)
        if fresh and known is not None:
            raise AppExists(name)
        pending = seen.get(AppChange, name)
        if pending is not None and pending.text == text:
            return Saved(name, True, WAITS)
        if known is not None:
            deploy, topology = await self._tried(Known.of(seen, known), text, seen)
        else:
            await self._begin_anew(name, topology)
            deploy = Deploy(name, text, await asyncio.to_thread(self._parts, topology))
        await asyncio.to_thread(self._channels.create, topology)
        done = await self._ask(deploy)
        waiting = WAITS if done.what == "changing" else done.waiting
        return Saved(name, known is not None, waiting)

    async def _tried(self, known: Known, text: str, seen: Seen) -> tuple[Deploy, Topology]:
        """As `_changed`, where nothing is found that speaks against it. Errors: GROUPS_CHANGED, CHANGE_REFUSED."""
        deploy, topology = await asyncio.to_thread(self._changed, known, text)
        await self._trials.check(known.app.name, deploy, {part.instance: part for part in known.parts}, seen)
        return deploy, topology

    def _changed(self, known: Known, text: str) -> tuple[Deploy, Topology]:
        """How an app becomes one of another text: where it is, or once it has drained; and how that one is cut. Errors: GROUPS_CHANGED."""
        app, after = known.app, known.version
        before = self._version(app.name, app.text, app.generation, known.execution, known.homes)
        same = self._version(app.name, text, app.generation, self._execution, known.homes)
        if not known.changes and goes_on(before.topology, same.topology):
            parts = self._parts(same.topology, known.homes, known.heritages)
            return Deploy(app.name, text, parts, after, False, app.generation), same.topology
        generation = generation_of(after + 1, text)
        new = self._version(app.name, text, generation, self._execution)
        begun = {name: heritage.to_json() for name, heritage in heritages(before, new).items()}
        homes = {instance.name: home_of(instance.name, generation) for instance in new.topology.instances}
        parts = self._parts(new.topology, homes, begun)
        return Deploy(app.name, text, parts, after, False, generation, app.version), new.topology

    def _version(
        self, name: str, text: str, generation: str, execution: Execution, homes: Mapping[str, str] | None = None
    ) -> Version:
        connections = settled(text, self._variables)[1]
        return Version(self._cut(name, text, execution, generation), homes or {}, connections)

    async def plan(self, text: str) -> dict[str, Any]:
        """What deploying an app would do, without doing it. Errors: those of the text and of its @dist, APP_NAME_MISSING, GROUPS_CHANGED, CHANGE_REFUSED."""
        name, topology = await asyncio.to_thread(self._checked, text)
        seen = await self._store.read(*KINDS)
        known = seen.get(App, name)
        names = ", ".join(instance.name for instance in topology.instances)
        if known is None:
            return {"app": name, "summary": f"it would run as {names}", "elements": [], "inputs": []}
        there = Known.of(seen, known)
        await self._tried(there, text, seen)
        return await asyncio.to_thread(self._planned, there, text, names)

    def _planned(self, known: Known, text: str, names: str) -> dict[str, Any]:
        app = known.app
        before = self._version(app.name, app.text, app.generation, known.execution, known.homes)
        after = self._version(app.name, text, app.generation, self._execution)
        drains = bool(known.changes) or not goes_on(before.topology, after.topology)
        if drains:
            heritages(before, after)
        found = rows(before, after)
        lost = [f"{element} of {group}" for group, element, _keeps, fate, _why in found if fate == RESET]
        what = f"lost: {', '.join(lost)}" if lost else "no state is lost"
        how = "the app drains, then it runs" if drains else "it goes on where it is"
        keys = ("group", "element", "keeps", "fate", "reason")
        elements = [dict(zip(keys, row, strict=True)) for row in found]
        return {"app": app.name, "summary": f"{what}; {how} as {names}", "elements": elements, "inputs": []}

    async def delete(self, name: str) -> None:
        """Undeploy an app; when it has ended everywhere, its channels and its state are removed. Errors: CLUSTER_UNDECIDED, StoreAway; AppNotThere."""
        seen = await self._store.read(App, Part, AppChange)
        known = seen.get(App, name)
        if known is None:
            raise AppNotThere
        there = Known.of(seen, known)
        topology = await asyncio.to_thread(self._cut, name, known.text, there.execution, known.generation)
        done = await self._ask(Delete(name, there.version))
        if done.what == "absent":
            raise AppNotThere
        ending = self._end(name, topology, known.generation)
        self._ends[name] = asyncio.get_running_loop().create_task(ending)

    async def restart(self, name: str) -> None:
        """Have all instances of an app stopped and started again, from where they stood. Errors: CLUSTER_UNDECIDED; AppNotThere."""
        if (await self._ask(Restart(name))).what == "absent":
            raise AppNotThere

    async def move(self, instance: str) -> None:
        """Move an instance off its worker. Errors: CLUSTER_UNDECIDED; AppNotThere."""
        if (await self._ask(Move(instance))).what == "absent":
            raise AppNotThere

    async def drain(self, worker: str, on: bool) -> bool:
        """Use a worker no more, or again; whether there is one. Errors: CLUSTER_UNDECIDED."""
        return (await self._ask(Drain(worker, on))).what != "absent"

    async def _ask(self, write: Write) -> Done:
        answer: Message = await self._manager.answer(write)
        if isinstance(answer, Done) and answer.what == "stale":
            raise error("CLUSTER_UNDECIDED", reason="somebody else has changed the app meanwhile")
        if isinstance(answer, Done):
            return answer
        raise error("CLUSTER_UNDECIDED", reason=answer.reason if isinstance(answer, Unknown) else "nobody answered")

    # ---- texts

    def topology(self, text: str, generation: str) -> Topology:
        """A version of an app as it is cut; this takes a while. Errors: those of the text and of its @dist."""
        return self._cut(self._preparation.name_of(text), text, self._execution, generation)

    def _checked(self, text: str) -> tuple[str, Topology]:
        name = self._preparation.name_of(text)
        topology = self._cut(name, text, self._execution)
        if self._execution.is_spark:
            for instance in topology.instances:
                self._preparation.check_apart(instance.text)
        return name, topology

    def _cut(self, name: str, text: str, execution: Execution, generation: str = "") -> Topology:
        kept, connections = settled(text, self._variables)
        return distribute(
            kept,
            default_registry(),
            registry,
            transport=self._channels.transport,
            servers=self._channels.servers,
            connections=connections,
            file=f"{name}.siddhi",
            placement=execution.placement,
            least_buckets=execution.least_buckets,
            generation=generation,
        )

    def _parts(
        self, topology: Topology, homes: Mapping[str, str] | None = None, begun: Mapping[str, str] | None = None
    ) -> tuple[PartText, ...]:
        """The instances; with the names by which what they keep is known, and with what they begin."""
        where, with_what = homes or {}, begun or {}
        return tuple(
            PartText(
                instance.name,
                group.name,
                instance.text,
                group.receiver,
                listens=written(http_sockets(group, instance, self._variables)),
                home=where.get(instance.name, ""),
                heritage=with_what.get(instance.name, ""),
            )
            for group in topology.groups
            for instance in group.instances
        )

    # ---- what is left

    async def _begin_anew(self, name: str, topology: Topology) -> None:
        """Remove what an app of the name has left that was undeployed: a manager may have died before it did.

        Errors: CLUSTER_UNDECIDED, where it has not ended yet; those of channels and of what is left.
        """
        try:
            async with asyncio.timeout(ENDS_WITHIN):
                if name in self._ends:
                    await asyncio.shield(self._ends[name])
                if await self._is_over(name, topology.every_name):
                    await asyncio.to_thread(self._remove, topology, "")
        except TimeoutError:
            reason = "an app of this name was undeployed, and has not ended everywhere yet"
            raise error("CLUSTER_UNDECIDED", reason=reason) from None

    def _remove(self, topology: Topology, generation: str) -> None:
        self._channels.remove(topology)
        self._leftovers.remove(sorted(home_of(name, generation) for name in topology.every_name))

    def homes_of(self, row: Stale) -> frozenset[str]:
        """The homes of the instances of a version that is no more."""
        found = self._cut(row.app, row.text, self._execution, row.generation)
        return frozenset(home_of(name, row.generation) for name in found.every_name)

    def remove(self, row: Stale) -> None:
        """Remove what a version that is no more has left. Errors: those of channels and of what is left."""
        self._remove(self._cut(row.app, row.text, self._execution, row.generation), row.generation)

    async def _end(self, name: str, topology: Topology, generation: str) -> None:
        """Remove what an app has left, once it runs nowhere."""
        try:
            if not await self._is_over(name, topology.every_name):
                return  # it is there again, and goes on with what it has
            await asyncio.to_thread(self._remove, topology, generation)
            log.info("app removed", app=name)
        except NadiError as reason:
            log.error("what an app has left was not removed", app=name, reason=str(reason))
        finally:
            if self._ends.get(name) is asyncio.current_task():
                del self._ends[name]

    async def _is_over(self, name: str, instances: frozenset[str]) -> bool:
        """Wait until no instance has a place any more; False where the app was deployed again meanwhile. Other managers place it, so the database is asked."""
        while True:
            try:
                seen = await self._store.read(App, Placement)
            except StoreAway:
                await self._clock.sleep(LOOK)
                continue
            if seen.get(App, name) is not None:
                return False
            if not any(row.instance in instances for row in seen.all(Placement)):
                return True
            await self._clock.sleep(LOOK)


@dataclass(frozen=True, slots=True)
class Known:
    """An app that the cluster has, its instances, and what it is about to become, if anything."""

    app: App
    parts: tuple[Part, ...]
    changes: AppChange | None

    @classmethod
    def of(cls, seen: Seen, app: App) -> Known:
        parts = tuple(part for part in seen.all(Part) if part.app == app.name)
        return cls(app, parts, seen.get(AppChange, app.name))

    @property
    def version(self) -> int:
        """The last one that there is to be."""
        return self.app.version if self.changes is None else self.changes.version

    @property
    def execution(self) -> Execution:
        """How it was cut."""
        return Execution.of_parts(part.text for part in self.parts)

    @property
    def homes(self) -> dict[str, str]:
        return {part.instance: part.home for part in self.parts}

    @property
    def heritages(self) -> dict[str, str]:
        return {part.instance: part.heritage for part in self.parts}


def generation_of(version: int, text: str) -> str:
    """What tells a version of an app from all others, also from one that somebody else has asked for at the same time.

    >>> generation_of(3, "from S select a insert into T;")
    'v3-e3b0ce'
    """
    return f"v{version}-{digest_of(text)[:6]}"


def home_of(instance: str, generation: str) -> str:
    """The name by which what an instance of a version keeps is known.

    >>> home_of("A-g-1", "v3-e3b0ce"), home_of("A-g-1", "")
    ('A-g-1~v3-e3b0ce', 'A-g-1')
    """
    return f"{instance}~{generation}" if generation else instance
