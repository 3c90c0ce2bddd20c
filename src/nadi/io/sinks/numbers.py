"""What identifies a payload for whoever receives it: the producer and the numbers of its rows.

| header | value |
|---|---|
| `Nadi-Producer` | `app/output/ordinal of the sink/bucket` |
| `Nadi-Group` | key-group of the rows, 0 where the app is not sharded by key |
| `Nadi-Number` | number of the first row within (output, key-group), from 0 |
| `Nadi-Count` | how many rows the payload has |

Numbers are consecutive per (output, sink, group). A replay makes the same ones, so a receiver keeps the last number of each and drops what it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nadi.errors import NOWHERE, Span, did_you_mean, error
from nadi.io.contract import Connector, Delivery, Place
from nadi.io.mappers.mapannotation import Template
from nadi.kernel import contract

PRODUCER, GROUP, NUMBER, COUNT = "Nadi-Producer", "Nadi-Group", "Nadi-Number", "Nadi-Count"


@dataclass(frozen=True, slots=True)
class Numbers:
    """The rows of one payload."""

    group: int
    number: int
    count: int


def numbers(delivery: Delivery) -> list[Numbers]:
    """The numbers of each payload of a delivery."""
    groups, found, counts = number_columns(delivery)
    return [Numbers(*of) for of in zip(groups.tolist(), found.tolist(), counts.tolist())]


def number_columns(delivery: Delivery) -> tuple[npt.NDArray[np.int64], ...]:
    """The same as three arrays: group, number and count of each payload."""
    firsts = np.asarray(delivery.firsts, np.int64)
    groups, found = (delivery.batch.column(c).to_numpy(zero_copy_only=False) for c in (contract.GROUP, contract.NUMBER))
    counts = np.diff(firsts, append=delivery.batch.num_rows)
    return groups[firsts].astype(np.int64), found[firsts].astype(np.int64), counts


def producer(connector: Connector, place: Place, bucket: int) -> str:
    """Who made a payload."""
    return f"{place.identity}/{connector.stream}/{connector.ordinal}/{bucket}"


def headers(made_by: str, of: Numbers) -> dict[str, str]:
    """The headers of one payload."""
    return {
        PRODUCER: made_by,
        GROUP: str(of.group),
        NUMBER: str(of.number),
        COUNT: str(of.count),
    }


@dataclass(frozen=True, slots=True)
class TextOption:
    """An option that may have `{{attribute}}` in it."""

    template: Template
    connector: Connector

    def values(self, delivery: Delivery) -> list[str]:
        """Its value for each payload: from the attributes of the payload's first row."""
        if not self.template.attributes:
            return [self.template.texts[0]] * len(delivery.payloads)
        return [str(v) for v in self.texts(delivery).to_pylist()]

    def texts(self, delivery: Delivery) -> pa.StringArray:
        """The same as an array."""
        if not self.template.attributes:
            return pa.repeat(pa.scalar(self.template.texts[0], pa.string()), len(delivery.payloads))
        firsts = delivery.batch.take(pa.array(delivery.firsts, pa.int64()))
        return self.template.fill(firsts, self.connector.schema)


def text_option(connector: Connector, name: str, value: str, span: Span = NOWHERE) -> TextOption:
    """A checked option. Errors: OPTION_INVALID (it names what is not an attribute)."""
    pieces = [p for part in value.split("{{") for p in part.split("}}", 1)]
    texts, names = tuple(pieces[::2]), tuple(p.strip() for p in pieces[1::2])
    if value.count("{{") != len(names) or len(texts) != len(names) + 1:
        wanted = "text with {{attribute}} in it"
        raise error("OPTION_INVALID", span, where=f"@sink of {connector.stream}", name=name, value=value, wanted=wanted)
    for attribute in names:
        if attribute not in connector.schema.names:
            wanted = f"an attribute in the braces ({did_you_mean(attribute, connector.schema.names)})"
            raise error(
                "OPTION_INVALID", span, where=f"@sink of {connector.stream}", name=name, value=value, wanted=wanted
            )
    return TextOption(Template(texts, names), connector)
