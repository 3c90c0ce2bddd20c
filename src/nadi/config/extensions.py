"""`siddhi.refs`, `siddhi.properties` and `siddhi.extensions`: what the apps of a node have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ConfigDict, Field

from nadi.config.section import Section

_SHARED = ("shardId", "partitionById")


class _Named(Section):
    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, coerce_numbers_to_str=True)

    name: str = Field(min_length=1)
    properties: Mapping[str, str | bool] = Field(default_factory=dict)

    @property
    def texts(self) -> dict[str, str]:
        """The properties, as an app would write them."""
        return {k: str(v).lower() if isinstance(v, bool) else v for k, v in self.properties.items()}


class Ref(_Named):
    """What `@source(ref='name')`, `@sink(ref='name')` and `@store(ref='name')` stand for: a type and options."""

    type: str = Field(min_length=1)


class RefEntry(Section):
    ref: Ref


class Extension(_Named):
    """Properties of an extension of the reference."""

    namespace: str = ""


class ExtensionEntry(Section):
    extension: Extension


def properties_of(given: Mapping[str, Any]) -> dict[str, str]:
    """`siddhi.properties` as settings: what `env:getYAMLProperty` and the like read.

    >>> properties_of({"region": "eu", "shardId": "a"})
    {'nadi.properties.region': 'eu'}
    """
    return {
        f"nadi.properties.{name}": str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
        if name not in _SHARED
    }


def notices(extensions: tuple[ExtensionEntry, ...], properties: Mapping[str, Any]) -> Iterator[str]:
    """What of it has no effect."""
    for one in extensions:
        name = ":".join(filter(None, (one.extension.namespace, one.extension.name)))
        yield f"'siddhi.extensions' of {name} has no effect: no extension here reads properties of the node but those of 'siddhi.properties'"
    shared = [name for name in _SHARED if name in properties]
    if shared:
        yield f"'siddhi.properties.{shared[0]}' has no effect: the aggregations of a node are its own, and no other node adds to them"
