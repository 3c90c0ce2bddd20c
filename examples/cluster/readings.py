"""What the app is fed with, and what has to come out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from types import TracebackType
from typing import Any

import httpx
from narration import pause

from nadi.testing.app import AppUnderTest

METERS = 7
VARIABLES = ("SOURCE_PORT", "DATABASE", "DATABASE_USER", "DATABASE_PASSWORD")
"""Of the app, for its connectors, which one process does not open here."""
AGAIN = 0.2  # seconds

Reading = tuple[str, int]


def readings() -> Iterator[Reading]:
    """Of some meters in turn; every fifth one is bad."""
    for n in count(1):
        yield f"meter-{n % METERS}", n if n % 5 else -n


class Feeder:
    """Sends readings to the source of the app. One that is on its way to another worker refuses connections: the reading is sent again then."""

    def __init__(self, url: str, left: Iterator[Reading]) -> None:
        self._url = url
        self._left = left
        self._client = httpx.Client(timeout=60)
        self.given: list[Reading] = []

    def __enter__(self) -> Feeder:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._client.close()

    @property
    def sent(self) -> int:
        """So many were taken."""
        return len(self.given)

    def send(self, number: int) -> None:
        """Send so many more."""
        for meter, kwh in islice(self._left, number):
            while not self._is_taken({"event": {"meter": meter, "kwh": kwh}}):
                pause(AGAIN)
            self.given.append((meter, kwh))

    def _is_taken(self, body: dict[str, Any]) -> bool:
        try:
            answer = self._client.post(self._url, json=body)
        except httpx.ConnectError:
            return False
        if answer.status_code not in (202, 503):
            raise SystemExit(f"the source answered {answer.status_code}: {answer.text}")
        return answer.status_code == 202


def expected(app: str, given: list[Reading]) -> list[tuple[Any, ...]]:
    """What the same app gives in this process."""
    whole = AppUnderTest(app, variables=dict.fromkeys(VARIABLES, "0"))
    for reading in given:
        whole.send("Readings", [list(reading)])
    return whole.rows("Totals")
