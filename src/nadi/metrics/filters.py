"""Which metrics there are, by their names, and which of them a reporter tells of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nadi.metrics.annotation import matches

_DEBUG = ("jvm.gc", "jvm.threads")  # names that there are from this level on; all others from INFO on
_ORDER = ("OFF", "INFO", "DEBUG", "TRACE", "ALL")


@dataclass(frozen=True, slots=True)
class Shown:
    """Which metrics there are: `root` is the level of all, `levels` are those of names and of all names below them; the longest name counts.

    >>> Shown().of("jvm.threads.count"), Shown(levels={"jvm.threads": "DEBUG"}).of("jvm.threads.count")
    (False, True)
    """

    root: str = "INFO"
    levels: Mapping[str, str] | None = None

    def of(self, name: str) -> bool:
        """Whether there is a metric of this whole name."""
        own = "DEBUG" if name.startswith(_DEBUG) else "INFO"
        near = [known for known in self.levels or {} if name == known or name.startswith(f"{known}.")]
        level = (self.levels or {})[max(near, key=len)] if near else self.root
        return _ORDER.index(own) <= _ORDER.index(level)


@dataclass(frozen=True, slots=True)
class Filter:
    """Names that match `includes` (none: all) and none of `excludes`: globs, or regular expressions of whole names.

    >>> Filter(includes=("jvm.*",), excludes=("jvm.os.*",))("jvm.memory.heap.used")
    True
    >>> Filter(includes=(r"jvm\\.(os|gc)\\..*",), regex=True)("jvm.memory.heap.used")
    False
    """

    includes: Sequence[str] = ()
    excludes: Sequence[str] = ()
    regex: bool = False

    def __call__(self, name: str) -> bool:
        """Whether a whole name passes."""
        return (not self.includes or self._matches(name, self.includes)) and not self._matches(name, self.excludes)

    def _matches(self, name: str, patterns: Sequence[str]) -> bool:
        if self.regex:
            return any(re.fullmatch(pattern, name) for pattern in patterns)
        return matches(name, patterns)
