"""A process that dies at a step of a restore or an upgrade: before it, after it, or half-way through."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nadi.io import durablefiles
from nadi.pipeline.coordinator import ledger as cutledger
from nadi.pipeline.cutting import commitlog, cutlog, restored
from nadi.pipeline.revision import upgrade

STEPS = (
    (durablefiles, "write"),
    (durablefiles, "rename"),
    (durablefiles, "remove"),
    (shutil, "rmtree"),
    (shutil, "copyfile"),
    (restored, "take_over"),
    (upgrade, "take_over"),
    (upgrade, "copy_state"),
    (commitlog.CommitLog, "clear"),
    (commitlog.CommitLog, "append"),
    (cutlog.CutLog, "append"),
    (cutledger, "write_progress"),
)


class Death(BaseException):
    """The process ends here."""


class Doomed:
    """Dies at the n-th step; `done` are the names of the steps that were begun. Without `at` it lives."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int = 0, how: str = "before") -> None:
        self.done: list[str] = []
        self._at, self._how = at, how
        self._dead = False
        for module, name in STEPS:
            patch.setattr(module, name, self._wrapped(name, getattr(module, name)))
        patch.setattr(durablefiles, "sync", lambda _descriptor: None)  # no power fails here: quicker

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **named: Any) -> Any:
            if self._dead:
                raise Death  # no handler does anything any more
            self.done.append(name)
            if len(self.done) != self._at:
                return real(*given, **named)
            if self._how == "half":
                half(name, real, *given)
            elif self._how == "after":
                real(*given, **named)
            self._dead = True
            raise Death

        return step


def half(name: str, real: Callable[..., Any], *given: Any) -> None:
    """Some of what a step does, where it has parts."""
    if name == "write":
        real(given[0], bytes(given[1])[: len(given[1]) // 2])
    elif name == "rmtree" and Path(given[0]).exists():
        for path in sorted(p for p in Path(given[0]).rglob("*") if p.is_file())[::2]:
            path.unlink()


def through(life: Callable[[], object], patch: pytest.MonkeyPatch, at: int = 0, how: str = "before") -> list[str]:
    """One life that dies at step `at`; the steps that it began."""
    with patch.context() as dying:
        doomed = Doomed(dying, at, how)
        try:
            life()
        except Death:
            assert at
        else:
            assert not at, f"it lives, after {len(doomed.done)} steps"
    return doomed.done
