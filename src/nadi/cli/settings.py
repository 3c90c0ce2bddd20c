"""`--conf key=value`, as several commands take it."""

from __future__ import annotations

from collections.abc import Sequence

from nadi.errors import error


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """`key=value` pairs as a dict. Errors: SETTING_MALFORMED.

    >>> settings(["nadi.kernel=rows", "spark.executor.memory = 2g"])
    {'nadi.kernel': 'rows', 'spark.executor.memory': '2g'}
    """
    made = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise error("SETTING_MALFORMED", text=pair)
        made[key.strip()] = value.strip()
    return made
