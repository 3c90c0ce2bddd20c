"""Letting apps into a node: whether they can run, and what they need besides Spark, which is a journal, servers that listen for them, and compiled loops.

planned = [admission.planned(text)]
(admitted,) = admission.admit(planned, beside=[])
admitted.held.close()       # when it leaves the node
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from nadi.config.settings import KERNEL
from nadi.io import circuits, refused
from nadi.io.contract import Ingress
from nadi.io.errorstores import note_store
from nadi.io.faultlog import FAULTS
from nadi.io.journalseal import seal
from nadi.io.natsserver import NatsServer
from nadi.io.registry import SOURCES, sink_traits, source_kind, source_traits
from nadi.kernel.control import CONTROL
from nadi.pipeline.apart import check_cluster
from nadi.pipeline.compilequeue import Asked, CompileQueue
from nadi.pipeline.live import remove_live
from nadi.pipeline.lives import settle_in
from nadi.pipeline.loopcompiler import Compiled, Compiling
from nadi.pipeline.node import AppText, NodeOptions, make_spec, needed_outputs, spec_to_restore, spread
from nadi.pipeline.profile import forget_profile
from nadi.pipeline.revision.inheritance import inherit
from nadi.pipeline.revision.restore import Planned as Updates
from nadi.pipeline.revision.update import plan_update, update
from nadi.pipeline.runnable import runnable
from nadi.pipeline.sparksecret import authenticated
from nadi.pipeline.spec import AppSpec, Connectors, Engine
from nadi.plan.nodes import App


@dataclass(frozen=True, slots=True)
class Planned:
    """An app whose text is right."""

    text: AppText
    app: App


@dataclass(frozen=True, slots=True)
class Admitted:
    """An app that may run, and what is to be closed when it leaves the node."""

    spec: AppSpec
    held: contextlib.ExitStack


class Admission:
    """Lets apps into one node; used by one thread at a time. `tell` is called with the name of an app and a sentence; what all apps share is closed with
    `started`. Errors: INVALID_SETTING, CLUSTER_WITHOUT_SECRET."""

    def __init__(self, options: NodeOptions, tell: Callable[[str, str], None], started: contextlib.ExitStack) -> None:
        self._options = options
        self._tell = tell
        self._started = started
        self._settings = options.settings()
        authenticated(options.master, options.spark())  # else it would be told when all else has started
        self._properties = self._settings.of_kernels()
        self._reach = options.reach()
        self._engine: Engine = import_module(options.engine)
        self._registry: Connectors = import_module(options.connectors)
        self._journal = self._settings.journal_url
        self._on_rows = self._properties.get(KERNEL, "rows") == "rows"
        self._queue = CompileQueue(tell)
        started.callback(self._queue.close)

    def planned(self, text: AppText) -> Planned:
        """What a text says, if that can run here. Errors: those of the text, its connectors, its scripts and stores."""
        app = runnable(text, self._engine, self._registry, self._properties, self._reach)
        check_cluster(app, self._registry, self._options)
        return Planned(text, app)

    def update(self, planned: Planned) -> None:
        """Make the state that an app has fit its text, where the node is to do so, or give it that which it inherits. Errors: those of
        `nadi.pipeline.revision.update`, of `inherit`, and of `nadi.pipeline.lives`."""
        options = self._options
        settle_in(spec_to_restore(planned.text, planned.app, options, os.cpu_count() or 1, 1))
        inherit(planned.text, planned.app, options)
        if options.updates:
            became = update(planned.text, planned.app, self._options, self.journal_for([planned.app]))
            if became is not None:
                for fate in became.state.dropped:
                    self._tell(
                        planned.app.name,
                        f"state that does not fit the new text was reset: {fate.what} of {fate.old} ({fate.reason})",
                    )

    def plan_update(self, planned: Planned) -> Updates | None:
        """What an update would do. Errors: likewise."""
        return plan_update(planned.text, planned.app, self._options, self._journal)

    def compiling(self, planned: Sequence[Planned]) -> Compiling | None:
        """The compiling of what runs on columns, begun in a process of its own; None where nothing does."""
        if self._on_rows:
            return None
        made = Compiling([Compiled(one.app, needed_outputs(one.app)) for one in planned], self._tell)
        made.start()
        return made

    def compiling_behind(self, planned: Planned) -> Asked | None:
        """The compiling of what an app has on columns that comes while others run; None where nothing does."""
        return None if self._on_rows else self._queue.ask(Compiled(planned.app, needed_outputs(planned.app)))

    def admit(self, planned: Sequence[Planned], beside: Sequence[AppSpec]) -> list[Admitted]:
        """Begin to listen for apps, and say how they run `beside` those that are there; tell the warnings of their texts. Errors: those of their state
        and sources, SERVER_NOT_STARTED; then nothing listens."""
        options, cores = self._options, os.cpu_count() or 1
        for one in planned:
            for warning in one.app.warnings:
                self._tell(one.app.name, replace(warning, file=one.text.file).render())
        journal = self.journal_for([one.app for one in planned])
        specs = spread([make_spec(one.text, one.app, options, cores, journal) for one in planned], beside)
        for spec in specs:
            remove_live(spec.place.state)  # a killed node may have left it
            circuits.forget(spec.place.state)
            forget_profile(spec.place.state)
            note_store(spec.place.state, spec.open_errors())
        with contextlib.ExitStack() as undone:
            admitted = [Admitted(spec, undone.enter_context(contextlib.ExitStack())) for spec in specs]
            made: list[Ingress] = []
            for one, ready in zip(planned, admitted, strict=True):
                ready.held.callback(refused.forget, ready.spec.place.state)
                made += self._ingresses(one.app, ready)
            for ingress in made:  # when all are known, as some share a server
                ingress.start()
            undone.pop_all()
        return admitted

    def _ingresses(self, app: App, admitted: Admitted) -> list[Ingress]:
        """The ingresses of an app, which stop when it leaves. One that drains has none, and nobody else appends to its journal either."""
        spec = admitted.spec
        if spec.drains:
            for connector in spec.sources(app):
                if connector.type in SOURCES and source_kind(connector.type).ingress is not None:
                    seal(spec.journal, spec.identity, connector.ordinal)
            return []
        made = []
        place = replace(admitted.spec.place, listening=self._options.listening())
        for connector in admitted.spec.sources(app):
            if connector.stream in (CONTROL, FAULTS):
                continue
            ingress = self._registry.make_ingress(connector, place)
            if ingress is not None:
                admitted.held.callback(ingress.stop)
                made.append(ingress)
        return made

    def journal_for(self, apps: Sequence[App]) -> str:
        """The URL of the journal's server: the one configured, an embedded one from when an app needs it, or ""."""
        if not self._journal and any(needs_journal(app, self._registry) for app in apps):
            server = NatsServer(self._options.state.resolve() / "nats")
            server.start()
            self._started.callback(server.stop)
            self._journal = server.url
        return self._journal


def needs_journal(app: App, registry: Connectors) -> bool:
    """Whether an input of the app is kept in the node's journal, or a topic of it is."""
    traits = [source_traits(source.type) for source in registry.connectors(app, "source")]
    targets = [sink_traits(sink.type) for sink in registry.connectors(app, "sink")]
    return any(of is not None and of.journal for of in (*traits, *targets))
