"""Who proves users: what the guard, the login API and the permissions ask of it. `LocalProvider` has the users of the deployment.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nadi.server.security.sessions import Sessions
from nadi.server.security.users import User, Users

PAGE = "status"
"""The application that the worker's own page at `/` is. Its cookies go to what the page asks: `/status/apps`."""


@dataclass(frozen=True, slots=True)
class Login:
    """A login that succeeded. `valid` is how long the access token is, in seconds; `refresh` and `id_token` may be empty."""

    user: str
    access: str = field(repr=False)
    refresh: str = field(repr=False)
    valid: int
    id_token: str = field(default="", repr=False)


class Slower(Exception):
    """An address has asked about too many tokens and codes that came to nothing; `seconds` until the next."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = int(seconds) + 1


class Provider(Protocol):
    """Errors of every method: PROVIDER_UNAVAILABLE, where the users are elsewhere and it cannot be asked. All may wait for an answer.

    `address` is where a token comes from. Errors of the methods that take one: Slower, where each costs a question to somebody else.
    """

    @property
    def roles(self) -> Mapping[str, str]:
        """The names of all roles by id."""

    def login(self, name: str, password: str) -> User | None:
        """The user of this name and password; None where there is none."""

    def remembered(self, name: str, password: str) -> User | None:
        """The user, where the password was right a moment ago; None where that is to be checked. Never waits."""

    def user_of(self, token: str, address: str) -> User | None:
        """The user that an access token belongs to; None where it is not known or has expired."""

    def begin(self, name: str, password: str, app: str, app_id: str) -> Login | None:
        """Log a user in to an application; None where there is no user of this name and password."""

    def renew(self, refresh: str, app: str, address: str) -> Login | None:
        """New tokens for a refresh token, which is worth nothing after it; None where it is not known or has expired. Errors: Replayed."""

    def end(self, access: str, app: str, address: str) -> str | None:
        """End the session of an access token; -> the name of its user where it is known."""

    def close(self) -> None:
        """Close what is open."""


class LocalProvider:
    """The local users, with sessions in memory."""

    def __init__(self, users: Users, sessions: Sessions) -> None:
        self._users = users
        self._sessions = sessions

    @property
    def roles(self) -> Mapping[str, str]:
        return self._users.roles

    def login(self, name: str, password: str) -> User | None:
        return self._users.login(name, password)

    def remembered(self, name: str, password: str) -> User | None:
        return self._users.remembered(name, password)

    def user_of(self, token: str, address: str) -> User | None:
        name = self._sessions.user_of(token)
        return None if name is None else self._users.user(name)

    def begin(self, name: str, password: str, app: str, app_id: str) -> Login | None:
        user = self._users.login(name, password)
        if user is None:
            return None
        tokens = self._sessions.begin(user.name, app_id)
        return Login(user.name, tokens.access, tokens.refresh, tokens.valid)

    def renew(self, refresh: str, app: str, address: str) -> Login | None:
        found = self._sessions.renew(refresh)
        if found is None:
            return None
        name, tokens = found
        return Login(name, tokens.access, tokens.refresh, tokens.valid)

    def end(self, access: str, app: str, address: str) -> str | None:
        return self._sessions.end(access)

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """Where a browser has to go to log in. `browser` is what it brings back in a cookie: a login that another one began is none of its own."""

    client_id: str
    authorize_url: str
    callback_url: str
    whole_url: str
    browser: str = field(repr=False)
    seconds: int


class SingleSignOn(Protocol):
    """Logins that end on a page of an identity provider (the code flow of OpenID Connect). Errors of every method: PROVIDER_UNAVAILABLE."""

    @property
    def is_default(self) -> bool:
        """Whether pages should log in this way."""

    def start(self, app: str) -> Redirection | None:
        """Begin a login; None for an application that the provider does not know as one."""

    def finish(self, app: str, code: str, state: str, browser: str, address: str) -> Login | None:
        """The login that a browser comes back from; None where it is not one that it began, or the provider refuses the code. Errors: Slower."""

    def home(self, app: str) -> str:
        """The address of an application, to go to after a login."""

    def sign_out(self, app: str, id_token: str) -> str | None:
        """Where a browser has to go to log out at the provider, "": nowhere; None where the id token is none of it."""
