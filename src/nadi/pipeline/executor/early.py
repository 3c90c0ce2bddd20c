"""Writing the outputs of a cut as soon as its kernel has answered, while Spark still keeps the state.

The task that asks for the write finds it under way or done. The cut is in the log before, so whatever fails afterwards, the same cut is made again with
the same rows under the same numbers, and sinks know them: to them it is a repeated batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from nadi.pipeline.hosting.protocol import Frame

Place = tuple[str, int]
"""Query and bucket."""


@dataclass(slots=True)
class Planned:
    """A write that nobody has asked for yet; `begun` where somebody is at it."""

    token: str
    begun: bool = False
    done: Future[Frame] = field(default_factory=Future)


class EarlyWrites:
    """`write` writes what a request for it names (`query`, `bucket`, `cut`, `token`)."""

    def __init__(self, write: Callable[[Mapping[str, Any]], Frame]) -> None:
        self._write = write
        self._planned: dict[Place, Planned] = {}
        self._lock = threading.Lock()

    def plan(self, head: Mapping[str, Any]) -> None:
        """Note that the outputs of a cut can be written: by `work`, or by who asks for it before."""
        place, token = (head["query"], head["bucket"]), head["token"]
        with self._lock:
            known = self._planned.get(place)
            if known is None or known.token != token:
                self._planned[place] = Planned(token)

    def begin(self, head: Mapping[str, Any]) -> None:
        """Write what was planned beside what is to be done next: the kernel of another bucket need not wait for a transaction of this one."""
        threading.Thread(target=self.work, args=(head,), name="early write", daemon=True).start()

    def work(self, head: Mapping[str, Any]) -> None:
        """Write what was planned, unless somebody does already. Never fails: who asks for the write is told."""
        with self._lock:
            known = self._planned.get((head["query"], head["bucket"]))
            if known is None or known.token != head["token"] or known.begun:
                return
            known.begun = True
        try:
            known.done.set_result(self._write(head))
        except BaseException as reason:
            known.done.set_exception(reason)

    def result(self, head: Mapping[str, Any]) -> Frame:
        """What writing a cut gave; who asks once more has it written again. Errors: those of the write."""
        place = (head["query"], head["bucket"])
        with self._lock:
            known = self._planned.get(place)
            if known is not None and known.token == head["token"]:
                del self._planned[place]
            else:
                known = None
        return self._write(head) if known is None or not known.begun else known.done.result()
