"""How many tasks Spark runs at a time on a node.

A task of nadi waits most of its time: for a host that computes, for a transaction of its target, for a target that is away. With no more slots than
cores, the tasks of one app can hold all of them: the others stand still until its target is back. Slots are not cores: hosts compute, and there are
as many of those as cores. So there are many more slots than cores, and the operating system shares the cores out. A slot that nobody uses costs nothing,
and their number cannot change while Spark runs: apps that are added later find as many as those that were there.
"""

from __future__ import annotations

import os
import re

PER_CORE = 4
_LOCAL = re.compile(r"local\[(\*|\d+)(,\d+)?\]")


def with_slots(master: str, apps: int, asked: int | None = None) -> str:
    """A local master with `PER_CORE` slots a core; never less than it says. `asked` (`nadi.slots`) goes before.

    A node that starts with one app has the slots that the master says, if that is a number. Other masters stay as they are.

    >>> with_slots("local[200]", 2), with_slots("local[*,4]", 2, asked=3)
    ('local[200]', 'local[3,4]')
    >>> with_slots("local[2,4]", 1), with_slots("spark://host:7077", 2)
    ('local[2,4]', 'spark://host:7077')
    """
    found = _LOCAL.fullmatch(master)
    if found is None:
        return master
    said, tries = found[1], found[2] or ""
    if asked:
        return f"local[{asked}{tries}]"
    if apps == 1 and said != "*":
        return master
    least = 1 if said == "*" else int(said)
    return f"local[{max(least, PER_CORE * (os.cpu_count() or 1))}{tries}]"
