"""What is remembered of a provider's answers for a while, by digests of what was asked: tokens and passwords themselves are not kept."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, TypeVar

MOST = 10_000

T = TypeVar("T")


class Remembered(Generic[T]):
    """Values by texts, each until a moment. From any thread."""

    def __init__(self, clock: Callable[[], float] = time.time, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._key = secrets.token_bytes(32)
        self._values: OrderedDict[bytes, tuple[T, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, text: str) -> T | None:
        """The value of a text; None where there is none, or no longer."""
        digest = self.digest(text)
        with self._lock:
            found = self._values.get(digest)
            if found is None or found[1] <= self._clock():
                self._values.pop(digest, None)
                return None
            return found[0]

    def put(self, text: str | bytes, value: T, seconds: float) -> None:
        """Remember a value for some seconds; by a text, or the digest of one."""
        digest = self.digest(text) if isinstance(text, str) else text
        with self._lock:
            self._values.pop(digest, None)
            if seconds > 0:
                self._values[digest] = (value, self._clock() + seconds)
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def drop(self, text: str) -> None:
        """Forget the value of a text."""
        digest = self.digest(text)
        with self._lock:
            self._values.pop(digest, None)

    def digest(self, text: str) -> bytes:
        """What a text is remembered by."""
        return blake2b(text.encode(errors="surrogatepass"), key=self._key, digest_size=32).digest()
