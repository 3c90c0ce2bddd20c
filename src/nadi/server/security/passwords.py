"""Hashes of passwords (argon2id), and the base64 form that the reference keeps in its deployment.yaml."""

from __future__ import annotations

import base64
import binascii
import secrets
import threading
import time
from collections import OrderedDict
from hashlib import blake2b

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

AT_A_TIME = 2  # a check takes 64 MB and a core for some 50 ms
REMEMBERED = 300.0  # seconds that a password which was right is not checked again …
REMEMBERED_AT_MOST = 1_000  # … of so many

_HASHER = PasswordHasher()


def new_password() -> str:
    """A password that nobody guesses: 144 bits."""
    return secrets.token_urlsafe(18)


def hash_password(password: str) -> str:
    """The hash to keep."""
    return _HASHER.hash(password)


def is_hash(text: str) -> bool:
    """Whether a text is a hash of argon2.

    >>> is_hash("YWRtaW4="), is_hash("$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$aGFzaA")
    (False, True)
    """
    return text.startswith("$argon2")


def from_base64(text: str) -> str | None:
    """The password in the reference's form; None where it is none.

    >>> from_base64("YWRtaW4="), from_base64("no base64!")
    ('admin', None)
    """
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _of_nobody() -> str:
    """The form of a hash, with random bytes: no password is known for it, and each is checked against it as long as against any other. None is computed."""
    salt, digest = (_unpadded(secrets.token_bytes(size)) for size in (_HASHER.salt_len, _HASHER.hash_len))
    return f"$argon2id$v=19$m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}${salt}${digest}"


def _unpadded(content: bytes) -> str:
    return base64.b64encode(content).decode().rstrip("=")


NOBODY = _of_nobody()
"""What stands for the hash of a user that is not there, who takes as long as one that is."""


class PasswordCheck:
    """Checks passwords against hashes, few at a time. One that was right a moment ago is known by a digest whose key ends with the process."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, float] = OrderedDict()
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(AT_A_TIME)

    def is_right(self, password: str, hash_: str | None) -> bool:
        """Whether a password belongs to a hash; None is the hash of a user that is not there, and takes as long."""
        mark = self._mark(password, hash_ or "")
        if self._is_remembered(mark):
            return True
        with self._turns:
            right = _matches(password, hash_ or NOBODY)
        if not right or hash_ is None:
            return False
        self._remember(mark)
        return True

    def remembers(self, password: str, hash_: str) -> bool:
        """Whether a password was found to belong to a hash a moment ago."""
        return self._is_remembered(self._mark(password, hash_))

    def _mark(self, password: str, hash_: str) -> bytes:
        return blake2b(f"{hash_}\0{password}".encode(errors="surrogatepass"), key=self._key).digest()

    def _is_remembered(self, mark: bytes) -> bool:
        with self._lock:
            until = self._right.get(mark, 0.0)
            if until > time.monotonic():
                return True
            self._right.pop(mark, None)
            return False

    def _remember(self, mark: bytes) -> None:
        with self._lock:
            self._right[mark] = time.monotonic() + REMEMBERED
            while len(self._right) > REMEMBERED_AT_MOST:
                self._right.popitem(last=False)


def _matches(password: str, hash_: str) -> bool:
    try:
        return _HASHER.verify(hash_, password)
    except (VerificationError, InvalidHashError):
        return False
