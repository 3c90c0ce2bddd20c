"""An app that is killed, undeployed, updated or restored at any moment of its first batches goes on: each event counts once."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_home import Home, rows
from pipeline_local import LocalNode

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nadi.errors import NadiError
from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.coordinator.ledger import Ledger
from nadi.pipeline.cutting.cutlog import CutLog
from nadi.pipeline.cutting.cutlogs import open_commit_log
from nadi.pipeline.engine import plan_app
from nadi.pipeline.executor import liveapp
from nadi.pipeline.executor.delivery import Delivery
from nadi.pipeline.executor.livekernels import LiveKernels
from nadi.pipeline.inputs.pieces import Decoding
from nadi.pipeline.node import AppText
from nadi.pipeline.revision.update import update
from tests.generate.budget import dice

SECONDS = 3.0  # of this process's time

STEPS = (
    (Group, "look"),
    (CutLog, "append"),
    (liveapp, "open_input"),
    (Decoding, "__call__"),
    (LiveKernels, "stand"),
    (LiveKernels, "process"),
    (LiveKernels, "keep"),
    (Delivery, "deliver"),
    (Group, "settle"),
    (Ledger, "commit"),
)
"""The steps of a batch, in their order; moments are before and behind each of them."""

STREAM = (
    "@source(type='file', dir.uri='{folder}/{name}', file.settle='0', @map(type='json')) define stream {name} (n int);"
)
OUT = (
    "@sink(type='file', file.uri='{folder}/out.jsonl', @map(type='json')) define stream Out (k string, c long, n int);"
)
COUNTED = "@info(name='{name}') from {name}#window.length(1000) select '{name}' as k, count() as c, n insert into Out;"
OF_KEYS = "partition with (n of {name}) begin {counted} end;"
BESIDE = (
    "@info(name='sums') from A#window.lengthBatch(2) select sum(n) as s insert into Sums;",
    "from A select n insert into T;",
    "@info(name='pattern') from every e1=A -> e2=A[n > e1.n] select e1.n as a, e2.n as b insert into Pairs;",
    "partition with (n of A) begin from A select n, count() as c insert into Each; end;",
)


class Died(BaseException):
    """The process is dead, whatever it was at."""


class Life:
    """What an app lives through in one folder. It counts what its streams bring, which are 0, 1, 2 …: over all events, or per number (`sharded`)."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir()
        self._dice, self._folder = random.Random(seed), folder
        self._sharded = self._dice.random() < 0.3
        self._brought = {"A": 0, "B": 0}
        for name in self._brought:
            (folder / name).mkdir()
        options = {"batch.events": str(self._dice.randint(1, 6))}
        self._home = Home(folder, pytest.MonkeyPatch(), **options)
        self._text = self._made("A")
        self._may_restore = True

    def _made(self, names: str) -> str:
        counted = [COUNTED.format(name=name) for name in names]
        if self._sharded:
            queries = [OF_KEYS.format(name=name, counted=query) for name, query in zip(names, counted, strict=True)]
        else:
            queries = [*counted, *self._dice.sample(BESIDE, self._dice.randrange(3))]
        streams = [STREAM.format(folder=self._folder, name=name) for name in names]
        definitions = [*streams, OUT.format(folder=self._folder), "define table T (n int);"]
        return "\n".join(["@app:name('Moments')", *definitions, *queries])

    def live(self) -> None:
        """Some runs that come to no good end, with changes between them."""
        for _ in range(self._dice.randint(1, 3)):
            self._bring()
            self._run()
            self._dice.choice((self._update, self._restore, lambda: None))()

    def _bring(self) -> None:
        for name, count in self._brought.items():
            if f"define stream {name} " in self._text:
                numbers = range(count, count + self._dice.randint(1, 12))
                lines = [json.dumps({"event": {"n": n}}) + "\n" for n in numbers]
                (self._folder / name / f"{count:06}.json").write_text("".join(lines))
                self._brought[name] = numbers.stop

    def _run(self) -> None:
        """Run to some moment, at which the process dies, or the app is undeployed while its host is still at the batch."""
        left, dies = self._dice.randint(1, 60), self._dice.random() < 0.5
        ended = False

        def passed() -> None:
            nonlocal left, ended
            left -= 1
            if left == 0:
                ended = True
                if dies or node is None:
                    raise Died
                node.group.close()
                for id_ in list(node._hosts.apps._apps):
                    node._hosts.apps.forget(id_)

        node: LocalNode | None = None
        spec = replace(self._home.spec(self._text), order_idle=0)
        with pytest.MonkeyPatch.context() as patch:
            for place, name in STEPS:
                patch.setattr(place, name, _around(getattr(place, name), passed))
            try:
                node = LocalNode(spec, patch, spread=spec.buckets > 1)
                node.run()
            except Died:
                pass
            except AssertionError:
                assert ended  # a group that was closed has nothing to do: who plays Spark does not know
            finally:
                if node is not None:
                    node.close()

    def _update(self) -> None:
        names = "AB" if "define stream B " in self._text else self._dice.choice(("A", "AB"))
        wanted = self._made(names)
        try:
            update(AppText(wanted), plan_app(wanted), self._home.options, "")
        except NadiError as reason:
            if reason.condition != "UPDATE_NOT_POSSIBLE":  # its first batch is under way: the old text goes on
                raise
        else:
            self._text, self._may_restore = wanted, False

    def _restore(self) -> None:
        """From a cut that was committed, as long as the cut log has all since the beginning."""
        if not self._may_restore:
            return
        found = open_commit_log(self._home.spec(self._text)).recovered()
        if found is not None:
            self._home.revise(self._text, at=self._dice.randint(1, found.n))
            self._home.restore(self._text)
            self._may_restore = False

    def check(self) -> None:
        """Run to the end: each event was counted once, in its order."""
        spec = replace(self._home.spec(self._text), order_idle=0)
        node = LocalNode(spec, spread=spec.buckets > 1)
        node.run()
        node.close()
        found = rows(self._folder / "out.jsonl")
        for name, count in self._brought.items():
            got = [(row["c"], row["n"]) for row in found if row["k"] == name]
            if self._sharded:
                assert sorted(got) == [(1, n) for n in range(count)]
            else:
                assert got == [(n + 1, n) for n in range(count)]


def _around(step: Callable[..., object], passed: Callable[[], None]) -> Callable[..., object]:
    def stepped(*given: object, **named: object) -> object:
        passed()
        found = step(*given, **named)
        passed()
        return found

    return stepped


def test_whatever_happens_to_an_app_at_whatever_moment_of_its_first_batches_each_event_counts_once(
    tmp_path: Path,
) -> None:
    for number, seed in enumerate(dice.cases(SECONDS)):
        life = Life(tmp_path / str(number), seed)
        life.live()
        life.check()
