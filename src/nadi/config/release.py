"""Which nadi this is, for people and for what it leaves behind."""

from __future__ import annotations

import os
from importlib.metadata import version

VARIABLE = "NADI_RELEASE"


def release() -> str:
    """The version of nadi; who runs a build of their own names it in the variable NADI_RELEASE of the environment. Nothing is decided by it.

    >>> release()[:1].isdigit()
    True
    """
    return os.environ.get(VARIABLE, "")[:100] or version("nadi")
