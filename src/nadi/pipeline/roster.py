"""The apps that a node has, whoever runs them at the moment: those it began with, those added and removed since, and what became of each.

entering ──► started ──► carried ──► ended
                ▲           │ the JVM dies
                └───────────┘

The node's thread, those who add and remove apps, and the supervisor's use it at a time.
"""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nadi.errors import did_you_mean, error
from nadi.pipeline.admission import Admitted
from nadi.pipeline.node import AppExit, AppProgress, ExitReport
from nadi.pipeline.spec import AppSpec
from nadi.pipeline.supervised import lost


class Carrier(Protocol):
    """What runs apps while Spark lives: the supervisor."""

    def add(self, spec: AppSpec) -> bool: ...
    def remove(self, name: str) -> None: ...


@dataclass(slots=True)
class Member:
    """An app of the node. `started`: it may run; `carried`: a query carries it; `crashed`: with what the JVM took it along; `ended`: it goes on no more."""

    admitted: Admitted
    shown: AppProgress
    started: bool = False
    carried: bool = False
    leaving: bool = False
    crashed: AppExit | None = None
    ended: AppExit | None = None

    @property
    def runs(self) -> bool:
        """Whether Spark is to run it."""
        return self.started and self.ended is None and not self.leaving


class Roster:
    """See the module's text. `folder` is the node's state folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = threading.Condition()
        self._members: dict[str, Member] = {}
        self._carrier: Carrier | None = None
        self._given: set[str] = set()  # what the carrier has, or will have once it is made
        self._over = False

    # ---- who adds and removes apps

    def free(self, name: str) -> None:
        """See to it that an app of this name may enter: what an ended one has left is closed. Errors: APP_RUNS, NODE_STOPPING."""
        with self._changed:
            self._check_goes_on()
            found = self._members.get(name)
            if found is not None and found.ended is None:
                raise error("APP_RUNS", app=name, folder=self._folder)
        if found is not None:
            found.admitted.held.close()

    def enter(self, admitted: Admitted) -> None:
        """An app that is about to start. Errors: NODE_STOPPING."""
        name = admitted.spec.app
        with self._changed:
            self._check_goes_on()
            self._members[name] = Member(admitted, AppProgress(name))

    def start(self, name: str) -> None:
        """Have an app run that has entered. Errors: NODE_STOPPING; APP_NOT_ON_NODE where it was removed meanwhile."""
        with self._changed:
            self._check_goes_on()
            member = self._of(name)
            member.started = True
            if self._carrier is not None and self._carrier.add(member.admitted.spec):
                self._given.add(name)

    def drop(self, name: str) -> None:
        """Let go of an app that has entered and could not start."""
        with self._changed:
            found = self._members.pop(name, None)
        if found is not None:
            found.admitted.held.close()

    def until_carried(self, name: str) -> AppProgress:
        """Wait until a query carries an app, or it waits for another attempt; -> its progress. Errors: what it ended with, NODE_STOPPING."""
        with self._changed:
            member = self._of(name)
            self._changed.wait_for(
                lambda: self._over or member.carried or member.ended is not None or member.shown.state == "waiting"
            )
            ended, shown = member.ended, member.shown
            if ended is None and not member.carried:
                self._check_goes_on()
        if ended is not None and ended.error is not None:
            raise ended.error
        if ended is not None and ended.state == "stopped":
            raise error("NODE_STOPPING", folder=self._folder)
        return dataclasses.replace(shown, state="running") if member.carried and ended is None else shown

    def leave(self, name: str) -> AppExit:
        """Have an app stop, wait until it has, and let go of it. Errors: APP_NOT_ON_NODE, NODE_STOPPING."""
        with self._changed:
            self._check_goes_on()
            member = self._of(name)
            member.leaving = True
        member.admitted.held.close()  # from here on its servers take nothing
        with self._changed:
            if name not in self._given:  # nobody carries it: it waits, or the JVM took it along
                self._end(member, AppExit(name, "stopped", member.shown))
            elif self._carrier is not None:  # else it is told to leave as soon as there is a carrier
                self._carrier.remove(name)
            self._changed.wait_for(lambda: self._over or member.ended is not None)
            if self._members.get(name) is member:
                del self._members[name]
            if member.ended is None:
                self._check_goes_on()
        assert member.ended is not None
        return member.ended

    # ---- the node

    def folder_of(self, name: str) -> Path:
        """The state folder of an app. Errors: APP_NOT_ON_NODE."""
        with self._changed:
            return self._of(name).admitted.spec.place.state

    def specs(self) -> list[AppSpec]:
        """The apps that are there now."""
        with self._changed:
            return [m.admitted.spec for m in self._members.values() if m.ended is None]

    def given(self) -> list[AppSpec]:
        """The apps to run, for a carrier that is about to be made."""
        with self._changed:
            wanted = [m.admitted.spec for m in self._members.values() if m.runs]
            self._given = {spec.app for spec in wanted}
            for name in self._given:
                self._members[name].crashed = None
            return wanted

    def carried_by(self, carrier: Carrier | None) -> None:
        """From now on apps are added to a carrier, and removed from it; None: there is none."""
        with self._changed:
            self._carrier = carrier
            if carrier is None:
                self._given.clear()
                return
            for name, member in self._members.items():
                if member.leaving and name in self._given:
                    carrier.remove(name)
                elif member.runs and name not in self._given and carrier.add(member.admitted.spec):
                    self._given.add(name)

    def moved(self, name: str, ended: AppExit | None) -> None:
        """A query carries an app now (None), or it has ended."""
        with self._changed:
            member = self._members.get(name)
            if member is None:
                return
            member.carried = ended is None
            if ended is not None:
                self._given.discard(name)
                if lost(ended) and member.leaving:
                    member.ended = AppExit(name, "stopped", ended.progress)
                elif lost(ended):
                    member.crashed = ended
                else:
                    member.ended = ended
            self._changed.notify_all()

    def note(self, progress: AppProgress) -> None:
        """What is told of an app."""
        with self._changed:
            member = self._members.get(progress.app)
            if member is not None:
                member.shown = progress
                self._changed.notify_all()

    def shown(self, name: str) -> AppProgress:
        """What was told of an app last."""
        with self._changed:
            member = self._members.get(name)
            return AppProgress(name) if member is None else member.shown

    def crashed(self) -> list[AppProgress]:
        """What was told last of those that the JVM took along."""
        with self._changed:
            return [m.shown for m in self._members.values() if m.crashed is not None and m.ended is None]

    def batches(self) -> int:
        """Of all apps together."""
        with self._changed:
            return sum(m.shown.batches for m in self._members.values())

    def goes_on(self, stays: bool) -> bool:
        """Whether there is an app to run, or the node `stays` without; if not, none is taken from now on."""
        with self._changed:
            self._over = not stays and not any(m.runs for m in self._members.values())
            self._changed.notify_all()
            return not self._over

    def end(self) -> None:
        """No app is taken any more; who waits for one hears it."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def close(self) -> None:
        """Close what the apps hold."""
        with self._changed:
            held = [m.admitted.held for m in self._members.values()]
        for one in held:
            one.close()

    def report(self) -> ExitReport:
        """How the apps ended that were not removed."""
        with self._changed:
            return ExitReport(
                tuple(
                    m.ended or m.crashed or AppExit(name, "stopped", m.shown)
                    for name, m in self._members.items()
                    if m.started
                )
            )

    def _end(self, member: Member, ended: AppExit) -> None:
        member.ended = ended
        self._changed.notify_all()

    def _of(self, name: str) -> Member:
        found = self._members.get(name)
        if found is None:
            raise error("APP_NOT_ON_NODE", app=name, folder=self._folder, hint=did_you_mean(name, self._members))
        return found

    def _check_goes_on(self) -> None:
        if self._over:
            raise error("NODE_STOPPING", folder=self._folder)
