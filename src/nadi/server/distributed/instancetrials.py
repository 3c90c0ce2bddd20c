"""A worker tries the text that an instance is to have, for a manager that is about to change an app."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from nadi.errors import NadiError
from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.revision.inheritance import Ancestor, Heritage
from nadi.pipeline.revision.trial import Told, Untried, Wish, tried_aside, wish_of

WITHIN = 25.0  # seconds that a trial may take: a manager waits a little longer


class Preparation(Protocol):
    """What a text goes through: `nadi.server.preparation.AppPreparation`."""

    def filled(self, text: str, file: str = "") -> AppText: ...


class InstanceTrials:
    """See the module's text. `aside` tries a wish in a process of its own, in so many seconds; there is one at a time. From any thread."""

    def __init__(
        self, options: NodeOptions, preparation: Preparation, aside: Callable[[Wish, float], Told] = tried_aside
    ) -> None:
        self._options = options
        self._preparation = preparation
        self._aside = aside
        self._turn = threading.Lock()

    def tried(self, text: str, home: str, heritage: str) -> Told:
        """What speaks against a text; `home` and `heritage` as in `nadi.cluster.messages.PartText`, but that the heritage may be of an instance that runs."""
        try:
            wish = self._wish(replace(self._preparation.filled(text), home=home), heritage)
        except NadiError as problem:
            return Told(refused=str(problem))
        except Untried as problem:
            return Told(untried=str(problem))
        if not self._turn.acquire(timeout=WITHIN):
            return Told(untried="the worker tries others")
        try:
            return self._aside(wish, WITHIN)
        finally:
            self._turn.release()

    def _wish(self, text: AppText, heritage: str) -> Wish:
        if not heritage:
            return wish_of(text, self._options)
        found = Heritage.from_json(heritage)
        before = [self._before(ancestor) for ancestor in found.ancestors]
        return wish_of(text, self._options, before, found.number, found.firsts)

    def _before(self, ancestor: Ancestor) -> AppText:
        try:
            return replace(self._preparation.filled(ancestor.text), home=ancestor.home)
        except NadiError as problem:
            raise Untried(f"the text before cannot be filled in here: {problem}") from problem
