"""What made a cut, and whether this nadi may go on after it.

A cut that is taken twice must give the same rows under the same numbers. Kernels of other semantics need not do so. So a nadi goes on where an older one has
committed, and nowhere else: not after a newer one, and not with a cut that an older one has logged and not committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from nadi.config.release import release
from nadi.errors import error
from nadi.kernel.semantics import SEMANTICS, check_semantics

if TYPE_CHECKING:
    from nadi.pipeline.cutting.cuts import Cut
    from nadi.pipeline.spec import AppSpec

DIGITS = 8


@dataclass(frozen=True, slots=True)
class Maker:
    """The version of nadi, the number of its kernels' semantics, and what tells the app's text and the settings of its kernels from others. Cuts of before say
    nothing: ("", 0, "", "")."""

    nadi: str = ""
    semantics: int = 0
    text: str = ""
    settings: str = ""

    @staticmethod
    def of(spec: AppSpec) -> Maker:
        """What makes the cuts of a run."""
        settings = "\n".join(f"{name}={value}" for name, value in sorted(spec.properties.items()))
        return Maker(release(), SEMANTICS, _digest(spec.text), _digest(settings))

    @staticmethod
    def from_json(found: Sequence[Any]) -> Maker:
        """The inverse of `to_json`.

        >>> Maker.from_json(Maker("1.2.0", 3, "ab", "cd").to_json())
        Maker(nadi='1.2.0', semantics=3, text='ab', settings='cd')
        """
        nadi, semantics, text, settings = (*found, *("", 0, "", "")[len(found) :])[:4]
        return Maker(str(nadi), int(semantics), str(text), str(settings))

    def to_json(self) -> list[Any]:
        return [self.nadi, self.semantics, self.text, self.settings]


@cache
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def check_newest(app: str, cut: Cut | None) -> None:
    """Errors: MADE_BY_NEWER where the last cut of an app was made with later semantics than those of this nadi."""
    if cut is not None:
        check_semantics(f"cut {cut.n} of '{app}'", cut.by.nadi, cut.by.semantics)


def check_left(app: str, cut: Cut | None) -> None:
    """Errors: CUT_LEFT_BY_OLDER where a cut that was logged and not committed was made with other semantics than those of this nadi, as far as it says so."""
    if cut is not None and cut.by.semantics not in (0, SEMANTICS):
        by = cut.by
        raise error(
            "CUT_LEFT_BY_OLDER", n=cut.n, app=app, nadi=by.nadi, theirs=by.semantics, ours=release(), mine=SEMANTICS
        )
