"""Generated cases within a budget of seconds, with dice that change from run to run.

`--seed 7` rolls what a run rolled that said so; `NADI_GENERATE=2000` runs so many examples of each test instead (`make generated`).
"""

from __future__ import annotations

import functools
import itertools
import os
import secrets
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, is_hypothesis_test, seed, settings

from tests.naming import plain

ASKED = os.environ.get("NADI_GENERATE")
SLICE = 4
"""Examples at a time: so many are run in any case."""
AGAIN = 4
"""Who gives the seed looks for a case that has failed, maybe on a slower machine: each test has so many times its seconds."""

GENERATED = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # to explain a failure takes minutes
    suppress_health_check=list(HealthCheck),
)
"""How cases are generated: a slow machine, and dice that give a large case or one that does not count, are no failures."""


class Dice:
    """What the dice of a run begin with: a seed that somebody gave, or one that is chosen, which all processes of the run find in the environment.

    It is a plugin of pytest, which shows the seed and notes it where a test that has rolled the dice fails.
    """

    VARIABLE = "NADI_DICE"

    def __init__(self) -> None:
        self.given, self.seed = False, 0
        self._rolled: set[str] = set()  # the tests of this process that have

    def begin(self, config: pytest.Config) -> None:
        """A run of pytest with these options begins."""
        given: int | None = config.getoption("seed")
        self.given = given is not None
        self.seed = given if given is not None else int(os.environ.setdefault(self.VARIABLE, str(secrets.randbits(31))))
        config.pluginmanager.register(self, "dice")

    def rolls(self) -> Iterator[int]:
        """What the slices of the test that runs begin with: the same numbers for the same seed."""
        test = plain(os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0])
        self._rolled.add(test)
        for number in itertools.count():
            yield zlib.crc32(f"{self.seed} {test} {number}".encode())

    def cases(self, seconds: float) -> Iterator[int]:
        """What one case after the other begins with: at least one, for so many seconds of this process's processor time, or as many as somebody asked for."""
        begun, allowed = time.process_time(), seconds * (AGAIN if self.given else 1)
        for number, begin in enumerate(self.rolls(), 1):
            yield begin
            if number >= int(ASKED) if ASKED is not None else time.process_time() - begun >= allowed:
                return

    def pytest_report_header(self) -> str:
        return f"dice of generated cases: --seed {self.seed}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark tests of hypothesis, and all of the modules that use this one, before marks choose: `make generated` runs those."""
        of_module = functools.cache(lambda module: any(map(self._generates, vars(module).values())))
        for item in items:
            if isinstance(item, pytest.Function) and (is_hypothesis_test(item.obj) or of_module(item.module)):
                item.add_marker("generated")

    def _generates(self, value: object) -> bool:
        return value is self or value is Examples or isinstance(value, Examples)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None and plain(item.nodeid) in self._rolled:
            item.user_properties.append(("seed", self.seed))


dice = Dice()


@dataclass(frozen=True, slots=True)
class Examples:
    """Runs a test of hypothesis for some seconds of this process's processor time, in slices, each with dice of its own; `most` examples, where that is sooner.

    It stands where `settings` would: above `given`.
    """

    chosen: settings
    seconds: float
    most: int | None = None

    def __call__(self, test: Callable[..., None]) -> Callable[..., None]:
        if ASKED is not None:
            return settings(self.chosen, max_examples=int(ASKED))(test)
        part = settings(self.chosen, max_examples=SLICE)(test)

        @functools.wraps(part)
        def within(*args: Any, **named: Any) -> None:
            most = None if self.most is None else -(-self.most // SLICE)
            for number in itertools.islice(dice.cases(self.seconds), most):
                seed(number)(part)
                part(*args, **named)

        return within
