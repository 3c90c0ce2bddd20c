"""What any manager can tell of the cluster: read from the database in one moment, leader or not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from nadi.cluster.contract import Seen, Store
from nadi.cluster.rows import (
    Actual,
    App,
    AppChange,
    Beat,
    Event,
    Failure,
    Lease,
    ManagerRow,
    Part,
    Placement,
    Row,
    Waiting,
    WorkerRow,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ManagerView:
    """A manager. `heartbeat` is the database's time (ms)."""

    id: str
    address: str
    leads: bool
    heartbeat: int


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker that is there or was. Loads are between 0 and 1, None where they are not measured."""

    id: str
    address: str
    receiver: bool
    state: str  # there, draining, gone
    heartbeat: int | None
    cpu: float | None
    process: float | None
    memory: float | None
    instances: int
    version: str = ""  # of its nadi, as it says


@dataclass(frozen=True, slots=True)
class InstanceView:
    """A partial app. `worker` is "" where it lies with none, and `heartbeat` None where that was never heard; `state` is what the worker said last, or
    "waiting". `failures` counts those in a row, `failed` is why the last one was."""

    instance: str
    app: str
    group: str
    receiver: bool
    text: str
    worker: str
    address: str
    heartbeat: int | None
    epoch: int
    settled: bool  # it is to stay where it lies, with the text that it has there
    state: str  # waiting, ordered, starting, running, stopping, failed, ended
    reason: str
    failures: int
    failed: str

    @property
    def runs(self) -> bool:
        """Whether it runs where it is to run, with the text that it is to have."""
        return self.settled and self.state == "running"


@dataclass(frozen=True, slots=True)
class AppView:
    """An app that a user gave. `waiting` says why it is not placed; "" where it is."""

    name: str
    version: int
    digest: str
    text: str
    waiting: str
    instances: tuple[InstanceView, ...]
    changes: int = 0  # the version that it will be when all instances have drained; 0: it does not change
    generation: str = ""  # what its channels are told by from those of versions before

    @property
    def active(self) -> bool:
        """Whether all of it runs."""
        return not self.waiting and not self.changes and all(one.runs for one in self.instances)

    @property
    def reason(self) -> str:
        """Why it is not active; "" where it is."""
        if self.waiting or self.active:
            return self.waiting
        if self.changes:
            return self._drains
        missing = [one for one in self.instances if not one.runs]
        failed = [f"{one.instance}: {one.failed}" for one in missing if one.failures]
        return "; ".join(failed) or f"starting: {', '.join(one.instance for one in missing)}"

    @property
    def _drains(self) -> str:
        """What a change waits for."""
        waits = [
            f"{one.instance} ({one.failed})" if one.failures else one.instance
            for one in self.instances
            if one.state not in ("drained", "waiting")
        ]
        return f"it becomes version {self.changes} when it has drained; not yet: {', '.join(waits) or 'it stops'}"


@dataclass(frozen=True, slots=True)
class Overview:
    """The cluster at one moment (`now`: the database's time, ms)."""

    now: int
    token: int
    managers: tuple[ManagerView, ...]
    workers: tuple[WorkerView, ...]
    apps: tuple[AppView, ...]

    def app(self, name: str) -> AppView | None:
        """An app, where there is one of the name."""
        return next((app for app in self.apps if app.name == name), None)

    @property
    def present(self) -> tuple[WorkerView, ...]:
        """The workers that are not gone."""
        return tuple(worker for worker in self.workers if worker.state != "gone")


_KINDS: tuple[type[Row], ...] = (
    Lease, ManagerRow, WorkerRow, Beat, App, Part, Placement, Actual, Waiting, Failure, AppChange,
)  # fmt: skip


async def overview(store: Store) -> Overview:
    """All of a cluster. Errors: `StoreAway`."""
    return overview_of(await store.read(*_KINDS))


async def history(store: Store, most: int = 200) -> list[Event]:
    """The last events, the oldest of them first. Errors: `StoreAway`."""
    return (await store.read(Event)).all(Event)[-most:]


def overview_of(seen: Seen) -> Overview:
    """What rows say."""
    leases = seen.all(Lease)
    lease = leases[0] if leases else None
    leader = lease.owner if lease is not None and seen.now < lease.expires else ""
    managers = tuple(ManagerView(m.id, m.address, m.id == leader, m.heartbeat) for m in seen.all(ManagerRow))
    return Overview(seen.now, 0 if lease is None else lease.token, managers, _workers(seen), _apps(seen))


def _workers(seen: Seen) -> tuple[WorkerView, ...]:
    beats = {beat.worker: beat for beat in seen.all(Beat)}
    placed = Counter(row.worker for row in seen.all(Placement))
    found = []
    for row in seen.all(WorkerRow):
        beat = beats.get(row.id)
        state = "gone" if row.gone else "draining" if row.draining else "there"
        heartbeat, loads = (
            (None, (None, None, None)) if beat is None else (beat.at, (beat.cpu, beat.process, beat.memory))
        )
        found.append(
            WorkerView(row.id, row.address, row.receiver, state, heartbeat, *loads, placed[row.id], row.version)
        )
    return tuple(found)


def _apps(seen: Seen) -> tuple[AppView, ...]:
    waiting = {row.app: row.reason for row in seen.all(Waiting)}
    instances = _instances(seen)
    changes = {row.app: row.version for row in seen.all(AppChange)}
    return tuple(
        AppView(
            app.name,
            app.version,
            app.digest,
            app.text,
            waiting.get(app.name, ""),
            tuple(instances.get(app.name, ())),
            changes.get(app.name, 0),
            app.generation,
        )
        for app in seen.all(App)
    )


def _instances(seen: Seen) -> dict[str, list[InstanceView]]:
    """Instances by app, in order of their names."""
    found: dict[str, list[InstanceView]] = {}
    for part in seen.all(Part):
        found.setdefault(part.app, []).append(_instance(seen, part))
    return found


def _instance(seen: Seen, part: Part) -> InstanceView:
    placed, said = seen.get(Placement, part.instance), seen.get(Actual, part.instance)
    failure = seen.get(Failure, part.instance)
    failures, failed = (0, "") if failure is None else (failure.count, failure.reason)
    if placed is None:
        return InstanceView(
            part.instance, part.app, part.group, part.receiver, part.text, "", "", None, 0, False, "waiting", "", failures, failed
        )  # fmt: skip
    worker, beat = seen.get(WorkerRow, placed.worker), seen.get(Beat, placed.worker)
    heard = said if said is not None and (said.worker, said.epoch) == (placed.worker, placed.epoch) else None
    return InstanceView(
        part.instance,
        part.app,
        part.group,
        part.receiver,
        part.text,
        placed.worker,
        "" if worker is None else worker.address,
        None if beat is None else beat.at,
        placed.epoch,
        placed.wanted and placed.digest == part.digest,
        "ordered" if heard is None else heard.state,
        "" if heard is None else heard.reason,
        failures,
        failed,
    )
