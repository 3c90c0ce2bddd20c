"""The local users of a worker: those of its deployment.yaml and, where it names none, the administrator that the first start has made.

security/users.json     {"admin": {"hash": "$argon2id$…", "roles": ["1"]}}, 0600
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nadi.config.auth import UserManager
from nadi.errors import error
from nadi.received import read_json
from nadi.server.security.passwords import PasswordCheck, from_base64, hash_password, is_hash, new_password

ADMIN, ADMIN_ROLE_ID = "admin", "1"
FILE = "users.json"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may log in, with the names and the ids of the roles. `is_admin`: may do everything."""

    name: str
    roles: tuple[str, ...]
    is_admin: bool
    role_ids: tuple[str, ...] = ()


class _Kept(msgspec.Struct, frozen=True):
    """A user as the file has it; `roles` are ids."""

    hash: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """The users, what to warn of, and the password of the administrator where this start has made it ("": it has not)."""

    users: Users
    notices: tuple[str, ...] = ()
    password: str = ""


class Users:
    """Who may log in."""

    def __init__(self, kept: Mapping[str, _Kept], roles: Mapping[str, str], admin_role: str) -> None:
        """`roles` are names by id."""
        self._kept = dict(kept)
        self._roles = dict(roles)
        self._admin_role = admin_role
        self._check = PasswordCheck()

    @property
    def roles(self) -> Mapping[str, str]:
        """The names of all roles by id."""
        return self._roles

    def login(self, name: str, password: str) -> User | None:
        """The user of this name and password; None where there is none, after as much time."""
        kept = self._kept.get(name)
        if not self._check.is_right(password, None if kept is None else kept.hash):
            return None
        return self.user(name)

    def remembered(self, name: str, password: str) -> User | None:
        """The user, where the password was right a moment ago; None where that is to be checked. Takes no time."""
        kept = self._kept.get(name)
        return self.user(name) if kept is not None and self._check.remembers(password, kept.hash) else None

    def user(self, name: str) -> User | None:
        """The user of a name."""
        kept = self._kept.get(name)
        if kept is None:
            return None
        ids = tuple(id_ for id_ in kept.roles if id_ in self._roles)
        roles = tuple(self._roles[id_] for id_ in ids)
        return User(name, roles, self._admin_role in roles, ids)


def make_users(folder: Path, manager: UserManager) -> Made:
    """The users of a worker whose security folder this is. Errors: INVALID_SETTING, USERS_DAMAGED."""
    roles = {str(e.role.id): e.role.display_name or str(e.role.id) for e in manager.user_store.roles}
    roles = roles or {ADMIN_ROLE_ID: manager.admin_role}
    listed = manager.user_store.users
    if listed:
        notices: list[str] = []
        kept: dict[str, _Kept] = {}
        for i, entry in enumerate(listed):
            user = entry.user
            if user.username in kept:
                path = f"auth.configs.userManager.userStore.users[{i}].user.username"
                raise error("INVALID_SETTING", name=path, value=user.username, wanted="a name that no other user has")
            hashed, notice = _hashed(user.username, user.password, i)
            kept[user.username] = _Kept(hashed, user.role_ids)
            notices += [notice] if notice else []
            notices += [
                f"user '{user.username}' has a role with the id '{id_}', which userStore.roles does not name: it counts for nothing"
                for id_ in user.role_ids
                if id_ not in roles
            ]
        return Made(Users(kept, roles, manager.admin_role), tuple(notices))
    roles.setdefault(ADMIN_ROLE_ID, manager.admin_role)
    found, password = _read(folder / FILE), ""
    if found is None:
        password = new_password()
        found = {ADMIN: _Kept(hash_password(password), (ADMIN_ROLE_ID,))}
        _write(folder / FILE, found)
    return Made(Users(found, roles, manager.admin_role), (), password)


def _hashed(name: str, password: str, at: int) -> tuple[str, str]:
    """The hash of a configured password, and what to warn of."""
    if is_hash(password):
        return password, ""
    plain = from_base64(password)
    if plain is None:
        path = f"auth.configs.userManager.userStore.users[{at}].user.password"
        raise error("INVALID_SETTING", name=path, value="…", wanted="a hash that 'nadi password' makes, or base64")
    return hash_password(plain), (
        f"the password of user '{name}' stands in deployment.yaml for all to read (base64): replace it by the hash that 'nadi password' makes"
    )


def _read(file: Path) -> dict[str, _Kept] | None:
    try:
        return read_json(file.read_bytes(), dict[str, _Kept])
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as reason:
        raise error("USERS_DAMAGED", path=file, reason=reason) from reason


def _write(file: Path, users: Mapping[str, _Kept]) -> None:
    fresh = file.with_name(f".{secrets.token_hex(8)}.new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(users)))
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
