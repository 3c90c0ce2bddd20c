"""The sessions of local users, in memory: what a token belongs to, and until when. Of tokens only digests are kept.

A session is a user's for one `appId`. Each login adds a pair of tokens to it and gives the pairs that are there the full time again; a refresh replaces both
tokens of a pair. A refresh token that was replaced and comes again is somebody else's too: it ends the whole session.
"""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

PAIRS = 20  # of a session; a login more ends the oldest
SESSIONS = 50  # of a user; one more ends the oldest
SPENT = 1_000  # refresh tokens of a session that are remembered as used


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a login gives. `valid` is how long the access token is, in seconds."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    valid: int


@dataclass(slots=True, eq=False)
class _Pair:
    session: _Session
    access: bytes
    refresh: bytes
    until: float
    refresh_until: float


@dataclass(slots=True, eq=False)
class _Session:
    user: str
    app_id: str
    pairs: list[_Pair] = field(default_factory=list)
    spent: OrderedDict[bytes, None] = field(default_factory=OrderedDict)


class Replayed(Exception):
    """A refresh token came a second time; the session of `user` has ended."""

    def __init__(self, user: str) -> None:
        super().__init__(user)
        self.user = user


class Sessions:
    """See the module's text. From any thread."""

    def __init__(self, valid: int, refresh_valid: int, clock: Callable[[], float] = time.time) -> None:
        """`valid` and `refresh_valid`: how long access and refresh tokens are, in seconds."""
        self._valid = valid
        self._refresh_valid = refresh_valid
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[tuple[str, str], _Session] = OrderedDict()
        self._access: dict[bytes, _Pair] = {}
        self._refresh: dict[bytes, _Pair] = {}
        self._spent: dict[bytes, _Session] = {}

    def begin(self, user: str, app_id: str = "") -> Tokens:
        """A pair of tokens for a user whose password was right."""
        with self._lock:
            now = self._clock()
            self._forget(now)
            session = self._sessions.setdefault((user, app_id), _Session(user, app_id))
            self._sessions.move_to_end((user, app_id))
            for pair in session.pairs:
                pair.refresh_until = now + self._refresh_valid
                if pair.until > now:
                    pair.until = now + self._valid
            while len(session.pairs) >= PAIRS:
                self._drop(session.pairs[0])
            tokens = self._add(session, now)
            theirs = [one for one in self._sessions.values() if one.user == user]
            for oldest in theirs[:-SESSIONS]:
                self._end(oldest)
            return tokens

    def renew(self, refresh: str) -> tuple[str, Tokens] | None:
        """The user of a refresh token and a pair that replaces its own; None where it is not known or has expired. Errors: Replayed."""
        digest = self._digest(refresh)
        with self._lock:
            now = self._clock()
            if (replayed := self._spent.get(digest)) is not None:
                self._end(replayed)
                raise Replayed(replayed.user)
            pair = self._refresh.get(digest)
            if pair is None or not secrets.compare_digest(pair.refresh, digest):
                return None
            session = pair.session
            self._drop(pair)
            if pair.refresh_until <= now:
                self._forget(now)
                return None
            session.spent[digest] = None
            self._spent[digest] = session
            while len(session.spent) > SPENT:
                self._spent.pop(session.spent.popitem(last=False)[0], None)
            return session.user, self._add(session, now)

    def user_of(self, access: str) -> str | None:
        """The name of the user that an access token belongs to; None where it is not known or has expired."""
        digest = self._digest(access)
        with self._lock:
            pair = self._access.get(digest)
            if pair is None or not secrets.compare_digest(pair.access, digest) or pair.until <= self._clock():
                return None
            return pair.session.user

    def end(self, access: str) -> str | None:
        """End the session of an access token, with all its pairs; -> its user, None where the token is not known. An expired one will do."""
        digest = self._digest(access)
        with self._lock:
            pair = self._access.get(digest)
            if pair is None or not secrets.compare_digest(pair.access, digest):
                return None
            self._end(pair.session)
            return pair.session.user

    # ---- with the lock

    def _add(self, session: _Session, now: float) -> Tokens:
        tokens = Tokens(str(uuid.uuid4()), str(uuid.uuid4()), self._valid)
        access, refresh = self._digest(tokens.access), self._digest(tokens.refresh)
        pair = _Pair(session, access, refresh, now + self._valid, now + self._refresh_valid)
        session.pairs.append(pair)
        self._access[access] = pair
        self._refresh[refresh] = pair
        return tokens

    def _drop(self, pair: _Pair) -> None:
        pair.session.pairs.remove(pair)
        del self._access[pair.access], self._refresh[pair.refresh]

    def _end(self, session: _Session) -> None:
        for pair in list(session.pairs):
            self._drop(pair)
        for digest in session.spent:
            self._spent.pop(digest, None)
        session.spent.clear()
        self._sessions.pop((session.user, session.app_id), None)

    def _forget(self, now: float) -> None:
        """End what has expired."""
        for session in list(self._sessions.values()):
            for pair in [one for one in session.pairs if max(one.until, one.refresh_until) <= now]:
                self._drop(pair)
            if not session.pairs:
                self._end(session)

    def _digest(self, token: str) -> bytes:
        return blake2b(token.encode(errors="surrogatepass"), key=self._key, digest_size=32).digest()
