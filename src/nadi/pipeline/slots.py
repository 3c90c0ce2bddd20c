"""How many tasks Spark runs at a time on a node.

A task of nadi waits most of its time: for a host that computes, for a transaction of its target, for a target that is away. With no more slots than
cores, the tasks of one app can hold all of them: the others stand still until its target is back. Slots are not cores: hosts compute, and there are
as many of those as cores. So there are as many slots as all apps can use at a time, and the operating system shares the cores out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from nadi.pipeline.spec import AppSpec

COPIES = "revisions"
"""The pool of the jobs that copy states for revisions."""

PER_CORE = 4  # a slot at work has up to two Python processes of about 150 MB each
_LOCAL = re.compile(r"local\[(\*|\d+)(,\d+)?\]")


def wanted(spec: AppSpec) -> int:
    """How many tasks an app can have at a time: its stages follow one another, and reading is split over the hosts."""
    return max(spec.partitions, spec.hosts)


def with_slots(master: str, specs: Sequence[AppSpec], copies: bool, asked: int | None = None) -> str:
    """A local master with as many slots as all apps can use at a time, at most `PER_CORE` a core; never less than it says. `asked` (`nadi.slots`) goes before.

    With `copies` there is one more, for those of revisions. One app has the slots that the master says, if that is a number. Other masters stay as they are.

    >>> two = [AppSpec("A", "", "", buckets=2, hosts=1), AppSpec("B", "", "", buckets=1, hosts=1)]
    >>> with_slots("local[2,4]", two, copies=False), with_slots("local[2,4]", two, copies=True)
    ('local[3,4]', 'local[4,4]')
    >>> with_slots("local[20]", two, copies=False), with_slots("local[*,4]", two, copies=False, asked=3)
    ('local[20]', 'local[3,4]')
    >>> with_slots("local[2,4]", two[:1], copies=True), with_slots("spark://host:7077", two, copies=True)
    ('local[2,4]', 'spark://host:7077')
    """
    found = _LOCAL.fullmatch(master)
    if found is None:
        return master
    said, tries = found[1], found[2] or ""
    if asked:
        return f"local[{asked}{tries}]"
    if len(specs) == 1 and said != "*":
        return master
    cores = os.cpu_count() or 1
    least = cores if said == "*" else int(said)
    return f"local[{max(least, min(sum(map(wanted, specs)), PER_CORE * cores)) + copies}{tries}]"
