"""What a request needs: every route says which permissions let a user through, and a route that says nothing is for administrators.

    from nadi.server.security.permissions import EVERYBODY, SAPP, SIGNED_IN, needs

    @router.get("/siddhi-apps", dependencies=[needs(SAPP.view, SAPP.manage)])   # one of the two is enough
    @router.post("/siddhi-apps", dependencies=[needs(SAPP.manage)])
    @router.post("/query", dependencies=[SIGNED_IN])                            # every user
    @router.get("/health", dependencies=[EVERYBODY])                            # strangers too; the guard must let them through
    APIRouter(prefix="/simulation", dependencies=[needs(SIM.manage)])           # all routes of a router

`make_routes` answers 401 with a plain text where a permission is missing. A user of the administrators' role has all of them. Where no user came with the
request (`authEnable: false`, or a path that `exclude` names) nothing is checked, as the contract has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Protocol

from fastapi import Depends, Request
from fastapi.params import Depends as Dependency

from nadi.server.security.audit import Origin, note
from nadi.server.security.users import User

CALLER, NEEDED = "caller", "needed"
"""Where the state of a request has its caller, and what was needed of one that was let through."""


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission: of an application, and its name there."""

    app: str
    text: str

    def __str__(self) -> str:
        return f"{self.app} {self.text}"


@dataclass(frozen=True, slots=True)
class Both:
    """The two permissions of an application: to look, and to change."""

    view: Permission
    manage: Permission


SAPP = Both(Permission("SAPP", "siddhiApp.view"), Permission("SAPP", "siddhiApp.manage"))
"""Apps, their state and statistics, and the node."""
SIM = Both(Permission("SIM", "simulator.view"), Permission("SIM", "simulator.manage"))
"""The event simulator."""
QUERY_CHANGE = Permission("SAPP", "siddhiApp.query.change")
"""On-demand queries that change something."""
SINGLE_EVENT = Permission("SIM", "simulator.single")
"""Single events of the simulator."""


class Grants(Protocol):
    """Which permissions users have."""

    def has_one(self, user: User, wanted: Iterable[Permission]) -> bool:
        """Whether a user who is no administrator has one of some permissions. May wait for a database."""


@dataclass(frozen=True, slots=True)
class OpenChanges:
    """Every user may change something by on-demand queries and send single events, as the contract has it; else the grants say who may."""

    grants: Grants

    def has_one(self, user: User, wanted: Iterable[Permission]) -> bool:
        found = tuple(wanted)
        return QUERY_CHANGE in found or SINGLE_EVENT in found or self.grants.has_one(user, found)


class NoGrants:
    """Nobody but administrators has a permission."""

    def has_one(self, user: User, wanted: Iterable[Permission]) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a user whose credentials were right, and the address that the request came from."""

    user: User
    address: str
    grants: Grants

    def may(self, wanted: Iterable[Permission]) -> bool:
        """Whether the caller has one of some permissions."""
        return self.user.is_admin or self.grants.has_one(self.user, wanted)


def caller_of(request: Request) -> Caller | None:
    """Who asks; None where nobody had to say so."""
    found: Caller | None = request.scope.get("state", {}).get(CALLER)
    return found


class NotPermitted(Exception):
    """The caller has none of the permissions that would do; `str` says which."""


@dataclass(frozen=True, slots=True)
class Needed:
    """A dependency of a route: lets callers through that have one of some permissions, and those that `lets` names."""

    wanted: tuple[Permission, ...] = ()
    lets: Literal["administrators", "users", "everybody"] = "administrators"

    def __call__(self, request: Request) -> None:  # no coroutine: FastAPI runs it aside, as a database may be asked
        """Errors: NotPermitted."""
        caller = caller_of(request)
        if caller is None or self.lets != "administrators" or caller.may(self.wanted):
            request.scope.setdefault("state", {})[NEEDED] = self
            return
        self._refuse(request, caller)

    def also(self, request: Request) -> None:
        """What a request needs beyond its route, which looks into it first. Errors: NotPermitted."""
        caller = caller_of(request)
        if caller is not None and not caller.may(self.wanted):
            self._refuse(request, caller)

    def _refuse(self, request: Request, caller: Caller) -> NoReturn:
        names = " or ".join(map(str, self.wanted)) or "the administrators' role"
        note("not permitted", Origin(caller.user.name, caller.address, request.url.path), "refused", needs=names)
        raise NotPermitted(f"This user has no permission for it: it takes {names}.")


def needs(*wanted: Permission) -> Any:
    """A dependency of routes for users that have one of some permissions."""
    if not wanted:
        raise ValueError("name a permission, or take SIGNED_IN, ADMINS or EVERYBODY")
    return Depends(Needed(wanted))


ADMINS: Any = Depends(Needed())
"""For administrators only."""
SIGNED_IN: Any = Depends(Needed(lets="users"))
"""For every user: the guard has seen the credentials."""
EVERYBODY: Any = Depends(Needed(lets="everybody"))
"""For strangers too: the guard has to know the path as an open one."""


def needed_of(dependencies: Iterable[Dependency]) -> list[Needed]:
    """What the dependencies of a route need."""
    return [one.dependency for one in dependencies if isinstance(one.dependency, Needed)]


async def else_admins(request: Request) -> None:
    """A dependency of all routes of a server: those that say nothing are for administrators. Errors: NotPermitted."""
    if not needed_of(getattr(request.scope.get("route"), "dependencies", ())):
        Needed()(request)
