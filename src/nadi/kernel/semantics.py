"""The number of the kernels' semantics.

It becomes one more with each change after which a kernel could give other rows, other numbers of rows or another state for a cut than it gave before. What was
cut stays as it was cut: so cuts and revisions say with which number they were made.
"""

from __future__ import annotations

from nadi.config.release import release
from nadi.errors import error

SEMANTICS = 8


def check_semantics(what: str, nadi: str, semantics: int) -> None:
    """Errors: MADE_BY_NEWER where something was made with later semantics than those of this nadi.

    >>> check_semantics("cut 7 of 'A'", "0.1.0", SEMANTICS)
    """
    if semantics > SEMANTICS:
        raise error("MADE_BY_NEWER", what=what, nadi=nadi, theirs=semantics, ours=release(), mine=SEMANTICS)
