"""Which metrics a reporter tells of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nadi.metrics.annotation import matches


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
