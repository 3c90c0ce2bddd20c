"""An app through the whole pipeline in this process: the test plays Spark, the coordinator's and the hosts' code is called as it is.

node = LocalNode(spec)
node.run()                      # cuts until nothing more comes
node.batch(recorded=False)      # a cut that is all done except for its commit record: the group begins again and repeats it

As a program that a test can kill, `python pipeline_local.py <spec json>` runs an app to the end, from what its state folder has.
"""

from __future__ import annotations

import sys

import pytest
from pipeline_bucket import Within

from nadi.pipeline.coordinator.group import Group
from nadi.pipeline.coordinator.receipts import Receipt, gather
from nadi.pipeline.coordinator.tasks import Work, one_stage, two_stages
from nadi.pipeline.executor.cutwork import CutWork
from nadi.pipeline.hosting.lane import RECEIPT
from nadi.pipeline.spec import AppSpec


class LocalNode:
    """One life of a node with one app: its group, and the one host that all its buckets live in. `spread`: in two stages."""

    def __init__(self, spec: AppSpec, patch: pytest.MonkeyPatch | None = None, spread: bool = False) -> None:
        self._patch = patch or pytest.MonkeyPatch()
        self._spread = spread
        self._hosts = Within(spec.place.state / "scratch")
        self._work = CutWork(self._hosts.apps)
        self._given = spec
        self.group = Group(spec, _nobody)

    @property
    def spec(self) -> AppSpec:
        """As this run of the group has it."""
        return self.group.spec

    def close(self) -> None:
        """Let go of connections: a process that dies does so too."""
        self.group.close()
        for app in self._hosts.apps._apps.values():
            app.close()

    def run(self) -> int:
        """Cuts as long as there is something to do; how many."""
        count = 0
        while self.batch():
            count += 1
        return count

    def batch(self, settled: bool = True, recorded: bool = True) -> bool:
        """A cut; False where there is nothing to do. Errors: what the group failed with.

        Without `settled` the node dies before sinks commit, without `recorded` just before the record: another run of the group goes on.
        """
        if not self.group.look():
            self._raise_failure()
            return False
        work = self.group.begin()
        assert work is not None
        receipt = self.asked(work)
        while receipt.state == "need":
            self.group.again(tell_all=True)
            work = self.group.begin()
            assert work is not None
            receipt = self.asked(work)
        if receipt.state == "failed":
            raise receipt.failure()
        assert receipt.state == "done", receipt
        if settled and recorded:
            self.group.settle(receipt)
        else:
            if settled:
                with self._patch.context() as cut_off:
                    cut_off.setattr(self.group._commits, "append", _power_cut)
                    self.group.settle(receipt)
                assert _CUT in str(self.group.failure)
            self.restart()
        self._raise_failure()
        return True

    def restart(self) -> None:
        """Another run of the group; the host lives on."""
        self.group.close()
        self.group = Group(self._given, _nobody)

    def asked(self, work: Work) -> Receipt:
        """What the hosts tell of a cut."""
        packed = []
        rows = []
        for task in two_stages(work) if self._spread else one_stage([work], None, ""):
            for row in self._work.read(task.request):
                (packed if row.host == RECEIPT else rows).append(row.body)
        if rows:
            packed.append(self._work.write(rows))
        return gather(packed)[self.group.key]

    def _raise_failure(self) -> None:
        if self.group.failure is not None:
            raise self.group.failure


_CUT = "the power went"


def _power_cut(_commit: object) -> None:
    raise RuntimeError(_CUT)


def _nobody() -> None:
    """Nobody looks on."""


def main(described: str) -> None:
    node = LocalNode(AppSpec.from_json(described))
    node.run()
    node.close()


if __name__ == "__main__":
    main(sys.argv[1])
