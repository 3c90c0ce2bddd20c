"""What a target refuses for good, and what `on.error` of the sink says about it.

| `on.error` | what follows |
|---|---|
| none | REFUSED: the app stops |
| `WAIT` | it is tried again, as if the target were away |
| `LOG`, `STORE`, `STREAM` | the sink goes on with the next payload and names this one in its receipt |

A payload is delivered or refused, not both: refusals are written down before `write` returns, and a cut that is written again does not try them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nadi.io.contract import Connector, Delivery, Place, Refusal
from nadi.io.sinks import ledger
from nadi.io.sinks.ledger import KeptNote
from nadi.io.sinks.notes import Note
from nadi.io.sinks.numbers import numbers


def action(connector: Connector) -> str:
    """`on.error` of a sink in upper case, "" where it is not given."""
    return connector.options.get("on.error", "").upper()


class Refusals:
    """The refusals of one sink. Those of the last cut that had some are in `<state>/sinks/<ordinal>/refused-<bucket>.json`."""

    def __init__(self, connector: Connector, place: Place) -> None:
        self.waits = action(connector) == "WAIT"
        self.goes_on = action(connector) in ("LOG", "STORE", "STREAM")
        self._folder = ledger.shared(connector, place)

    def known(self, delivery: Delivery) -> dict[int, str]:
        """What an earlier write of the same cut has found refused: index of the payload → reason."""
        if not self.goes_on:
            return {}
        found: Any = ledger.read(self._path(delivery))
        if found is None or found["cut"] != delivery.cut:
            return {}
        reasons = {(group, number): reason for group, number, reason in found["refused"]}
        places = [(of.group, of.number) for of in numbers(delivery)]
        return {i: reasons[place] for i, place in enumerate(places) if place in reasons}

    def keep(self, delivery: Delivery, refused: Mapping[int, str]) -> tuple[Refusal, ...]:
        """Write down what is refused of a delivery; -> what its receipt names."""
        if not refused:
            return ()
        of = numbers(delivery)
        listed = [[of[i].group, of[i].number, reason] for i, reason in sorted(refused.items())]
        ledger.replace(self._path(delivery), {"cut": delivery.cut, "refused": listed})
        return named(refused)

    def _path(self, delivery: Delivery) -> Path | Note | KeptNote:
        return self._folder / f"refused-{delivery.bucket}.json"


def named(refused: Mapping[int, str]) -> tuple[Refusal, ...]:
    """As a receipt has them."""
    return tuple(Refusal(i, reason) for i, reason in sorted(refused.items()))
