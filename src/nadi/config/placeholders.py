"""`${env:NAME}`, `${sys:name}`, `${sec:alias}` and `${carbon.home}` in the values of a deployment.yaml, each with a default after a comma:
`${env:PORT,9090}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from nadi.errors import error

_PLACEHOLDER = re.compile(r"\$\{(?:(env|sys|sec):([^,}]+)|(carbon\.home))(?:,([^}]*))?\}")
_VALUES = 100_000  # of a file; anchors and aliases of YAML can make many out of few

Lookup = Callable[[str], str | None]


def fill(content: Any, lookups: Mapping[str, Lookup]) -> Any:
    """A tree of dicts, lists and values, with the placeholders of its texts filled in; `lookups` has a function for each of `env`, `sys` and `sec`.

    A text that is nothing but one placeholder stays a text: who reads it makes a number of it.

    Raises:
        CannotLoadConfigurationException: INVALID_SETTING with the path, where a name has no value and no default, or the tree has over 100,000 values.

    >>> fill({"a": ["${env:HOME}/x", "${sys:port,9090}"]}, {"env": {"HOME": "/h"}.get, "sys": {}.get})
    {'a': ['/h/x', '9090']}
    """
    left = _VALUES

    def walk(value: Any, path: str) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise error("INVALID_SETTING", name="deployment.yaml", value="it", wanted=f"at most {_VALUES:,} values")
        if isinstance(value, dict):
            return {key: walk(inner, f"{path}.{key}" if path else str(key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner, f"{path}[{i}]") for i, inner in enumerate(value)]
        return _filled(value, path, lookups) if isinstance(value, str) else value

    return walk(content, "")


def _filled(text: str, path: str, lookups: Mapping[str, Lookup]) -> str:
    def value(found: re.Match[str]) -> str:
        kind, name, home, default = found.groups()
        given = lookups["sys"]("carbon.home") if home else lookups[kind](name.strip())
        if given is None and default is None:
            raise error("INVALID_SETTING", name=path, value=found[0], wanted=_WANTED[kind or "sys"].format(name=name))
        return default if given is None else given

    return _PLACEHOLDER.sub(value, text)


_WANTED = {
    "env": "a placeholder with a value: set {name} in the environment, or give a default after a comma",
    "sys": "a placeholder with a value: set {name} in the environment, or give a default after a comma",
    "sec": "a placeholder with a value: secrets are those of a worker's home, which '--home' names",
}
