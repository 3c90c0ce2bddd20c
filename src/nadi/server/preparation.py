"""What the text of an app goes through before the node gets it: variables, refs, checks, a name that a file can have."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from nadi.errors import NadiError, error
from nadi.functions.registry import default_registry
from nadi.kernel.rows.stores import wrong_store_options
from nadi.lang import settled
from nadi.lang.refs import Refs
from nadi.pipeline.apart import check_apart, check_cluster
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.runnable import runnable
from nadi.pipeline.spec import Connectors, Engine
from nadi.plan.annotations import first
from nadi.plan.nodes import App
from nadi.server.appfiles import AppFile, check_name
from nadi.server.claims import At, listens_at


def named(app: App) -> str:
    """The name of an app that others are to know. Errors: APP_NAME_MISSING, APP_NAME_INVALID, APP_NAME_RESERVED."""
    if first(app.annotations, "app:name") is None:
        raise error("APP_NAME_MISSING")
    return check_name(app.name)


class AppPreparation:
    """For the apps of one node. `variables` are what `${name}` may stand for, `refs` what `ref='name'` may: only those that the operator has named. `runs`:
    the apps run here, and not on other nodes, which have settings of their own."""

    def __init__(
        self, options: NodeOptions, variables: Mapping[str, str], refs: Refs | None = None, runs: bool = True
    ) -> None:
        self._variables = dict(variables)
        self._refs = refs or {}
        self._engine: Engine = import_module(options.engine)
        self._registry: Connectors = import_module(options.connectors)
        self._options = options
        self._properties = options.settings().of_kernels()
        self._reach = options.reach()
        self._runs = runs

    def name_of(self, text: str) -> str:
        """The name of the app of a text that can run here. Errors: those of `nadi.pipeline.runnable`, APP_NAME_MISSING, APP_NAME_INVALID."""
        if not self._runs:
            return named(self._planned(text))
        app = runnable(self.filled(text), self._engine, self._registry, self._properties, self._reach)
        check_cluster(app, self._registry, self._options)
        return named(app)

    def checked(self, file: AppFile) -> AppText:
        """The text of a file as it runs; the node that gets it makes its kernels next. Errors: those of the text and its connectors, APP_NAME_MISSING,
        APP_NAME_INVALID, APP_NOT_READABLE, APP_FILE_MISNAMED."""
        if file.problem:
            raise error("APP_NOT_READABLE", reason=file.problem)
        name = named(self._planned(file.text))
        if name != file.name:
            raise error("APP_FILE_MISNAMED", path=f"{file.name}.siddhi", app=name)
        return self.filled(file.text, f"{file.name}.siddhi")

    def filled(self, text: str, file: str = "") -> AppText:
        """A text with its variables and refs. Errors: VARIABLE_NOT_SET, VARIABLE_NOT_PLAIN, REF_UNKNOWN, REF_OF_ANOTHER_TYPE."""
        return AppText.of(text, self._variables, file, self._refs)

    def addresses(self, text: AppText) -> list[At]:
        """Where the sources of an app that was checked listen. Errors: those of the text."""
        return listens_at(text.planned(self._engine))

    def name_in(self, text: AppText) -> str:
        """The name of the app of a text that was checked. Errors: those of the text."""
        return text.planned(self._engine).name

    def check_apart(self, text: str) -> None:
        """Whether an app can run where hosts are on other machines than its node, and have a journal and a state log that all of these reach.

        Errors: those of the text and its connectors, NEEDS_STATE_FOLDER.
        """
        check_apart(self._planned(text), self._registry, journal=True)

    def with_variables(self, text: str) -> str:
        """A text with its variables but those of connections; refs stay. Errors: VARIABLE_NOT_SET, VARIABLE_NOT_PLAIN."""
        return settled(text, self._variables)[0]

    def plan(self, text: str) -> App | None:
        """The plan of a text; None where it has errors."""
        try:
            return self.filled(text).planned(self._engine)
        except NadiError:
            return None

    def _planned(self, text: str) -> App:
        app = self.filled(text).planned(self._engine)
        for kind in ("source", "sink"):
            self._registry.connectors(app, kind)
        for table in app.tables.values():
            for problem in wrong_store_options(table, default_registry()):
                raise problem
        return app
