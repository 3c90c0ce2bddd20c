"""The users of an identity provider: passwords, tokens and roles are its own, and it is asked about them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from nadi.config.auth import Auth
from nadi.errors import NadiError
from nadi.server.security.allowances import Allowance
from nadi.server.security.external.applications import DEFAULT, Applications
from nadi.server.security.external.remembered import Remembered
from nadi.server.security.external.service import Granted, Service, plain_name
from nadi.server.security.providers import Login, Slower
from nadi.server.security.users import User

ROLES_FOR = 60.0  # seconds in which a change of a user's roles may not be seen
PASSWORD_FOR = 300.0  # seconds in which a password that was right is not asked about again
ASKED_AT_A_TIME = 16  # questions of strangers: a provider that hangs would otherwise take all threads of the worker
UNKNOWN_FOR = 10.0  # seconds in which a token that is not known is not asked about again …
UNKNOWN = 1_000  # … and how many of them are remembered: strangers do not fill the place of users
ACCESS = frozenset({"bearer", "access_token"})


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Token:
    """What a token is: whose, or ("") none that counts."""

    user: str


class ExternalProvider:
    """Implements `nadi.server.security.providers.Provider`. From any thread."""

    def __init__(
        self, auth: Auth, service: Service, applications: Applications, clock: Callable[[], float] = time.time
    ) -> None:
        self._auth = auth
        self._given = auth.properties
        self._service = service
        self._applications = applications
        self._clock = clock
        self._tokens: Remembered[_Token] = Remembered(clock)
        self._unknown: Remembered[bool] = Remembered(clock, UNKNOWN)
        self._strangers = Allowance(auth.rest.unknown_tokens, clock)
        self._turns = threading.BoundedSemaphore(ASKED_AT_A_TIME)
        self._passwords: Remembered[str] = Remembered(clock)
        self._users: Remembered[User] = Remembered(clock)
        self._roles: Remembered[dict[str, str]] = Remembered(clock)

    @property
    def roles(self) -> Mapping[str, str]:
        found = self._roles.get("")
        if found is None:
            found = self._service.roles()
            self._roles.put("", found, ROLES_FOR)
        return found

    def login(self, name: str, password: str) -> User | None:
        pair = f"{name}\0{password}"
        known = self._passwords.get(pair)
        if known is None:
            login = self.begin(name, password, DEFAULT, "")
            if login is None:
                return None
            known = login.user
            self._passwords.put(pair, known, min(PASSWORD_FOR, self._given.cache_timeout))
        return self._user(known)

    def remembered(self, name: str, password: str) -> User | None:
        return None  # the roles of one whose password is remembered may have to be asked for

    def user_of(self, token: str, address: str) -> User | None:
        name = self._owner_for(token, address)
        return self._user(name) if name else None

    def begin(self, name: str, password: str, app: str, app_id: str) -> Login | None:
        if not name or not password:
            return None
        client = self._applications.client(app)
        grant = {"grant_type": "password", "username": name, "password": password}
        return self.logged_in(self._service.grant(client, grant))

    def renew(self, refresh: str, app: str, address: str) -> Login | None:
        client = self._applications.client(app)
        grant = {"grant_type": "refresh_token", "refresh_token": refresh}
        return self.logged_in(self.asked(address, lambda: self._service.grant(client, grant)))

    def end(self, access: str, app: str, address: str) -> str | None:
        name = self._owner_for(access, address)
        if not name:
            return None
        self.refuse(access)  # first: whether or not the provider hears of it, it is worth nothing here
        self._service.revoke(self._applications.client(app), access)
        return name

    def close(self) -> None:
        self._service.close()
        self._applications.close()

    # ---- for logins by the code flow, too

    def logged_in(self, granted: Granted | None) -> Login | None:
        """A login with tokens that the provider has given; None where it has not, or says of the token that it is nobody's."""
        if granted is None:
            return None
        name = self._owner(granted.access)
        if not name:
            return None
        return Login(name, granted.access, granted.refresh, granted.valid, granted.id_token)

    def mark(self, access: str) -> bytes:
        """A digest, by which a token can be refused later."""
        return self._tokens.digest(access)

    def refuse(self, access: str | bytes) -> None:
        """Take a token no longer, whatever the provider says of it; a token or its mark."""
        self._tokens.put(access, _Token(""), max(self._given.cache_timeout, self._given.session_timeout))

    def asked(self, address: str, ask: Callable[[], T | None]) -> T | None:
        """What the provider answers to what anybody may send; an address may have so many answers of None, and few ask at a time.

        Errors: Slower, PROVIDER_UNAVAILABLE.
        """
        if not self._turns.acquire(blocking=False):
            raise Slower(1.0)
        try:
            wait = self._strangers.take(address)
            if wait > 0:
                raise Slower(wait)
            try:
                found = ask()
            except NadiError:
                self._strangers.give_back(address)
                raise
            if found is not None:
                self._strangers.give_back(address)
            return found
        finally:
            self._turns.release()

    def _owner(self, token: str) -> str:
        """The name of the user that a token belongs to, "" where it is not one that counts."""
        known = self._tokens.get(token)
        if known is None:
            found = self._service.introspect(token)
            known = _Token("" if found is None else self._name(found))
            # of what is refused nothing is kept here: strangers would fill the place of users
            if known.user and found is not None:
                self._tokens.put(token, known, self._for(found))
        return known.user

    def _owner_for(self, token: str, address: str) -> str:
        """The same, for a token that a stranger may have made up. Errors: Slower."""
        known = self._tokens.get(token)
        if known is not None:
            return known.user
        if self._unknown.get(token):
            return ""
        name = self.asked(address, lambda: self._owner(token) or None)
        if name is None:
            self._unknown.put(token, True, UNKNOWN_FOR)
        return name or ""

    def _name(self, found: Mapping[str, Any]) -> str:
        """The user of an active token; "" where it was not given to nadi, is not for requests, or its time has not come or has gone."""
        kind = str(found.get("token_type") or "bearer").lower()
        if kind not in ACCESS or not self._is_for_nadi(found):
            return ""
        now = self._clock()
        if _moment(found.get("exp"), now + 1) <= now or _moment(found.get("nbf"), now) > now + 60:
            return ""
        name = found.get("username") or found.get("sub")
        return plain_name(name, self._given.default_user_store) if isinstance(name, str) else ""

    def _is_for_nadi(self, found: Mapping[str, Any]) -> bool:
        """Whether a token was given to one of nadi's applications. One of another would let whoever runs that in as its users."""
        audience = found.get("aud")
        ids = [found.get("client_id"), *(audience if isinstance(audience, list) else [audience])]
        return any(isinstance(one, str) and one and self._applications.is_own(one) for one in ids)

    def _for(self, found: Mapping[str, Any]) -> float:
        """How long the provider is not asked about a token again, in seconds."""
        now = self._clock()
        return min(self._given.cache_timeout, _moment(found.get("exp"), now + self._given.cache_timeout) - now)

    def _user(self, name: str) -> User | None:
        known = self._users.get(name)
        if known is not None:
            return known
        account = self._service.account(name)
        if account is None:
            return None
        names, admin = tuple(account.groups), self._auth.user_manager.admin_role
        user = User(name, names, admin in names, tuple(id_ for id_ in account.groups.values() if id_))
        self._users.put(name, user, min(ROLES_FOR, self._given.cache_timeout))
        return user


def _moment(value: object, otherwise: float) -> float:
    """A moment in seconds since the epoch."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return otherwise
    return float(value)
