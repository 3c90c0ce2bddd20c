"""`/permissions`: which permissions there are and which roles have them. For administrators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from nadi.errors import NadiError
from nadi.server.rest.answers import declared, text
from nadi.server.rest.bodies import Body
from nadi.server.security.changes import about
from nadi.server.security.grants import PermissionStore, Unknown, is_name
from nadi.server.security.permissions import ADMINS, Permission
from nadi.server.security.providers import Provider

FAILED, DONE = 1, 4  # the codes of this API


class PermissionBody(Body):
    """A permission."""

    appName: str = ""  # noqa: N815 - the contract's name
    permissionString: str = ""  # noqa: N815 - the contract's name

    @property
    def permission(self) -> Permission:
        """As it is checked."""
        return Permission(self.appName, self.permissionString)

    def __str__(self) -> str:
        return f"Permission[appName={self.appName}, permissionString={self.permissionString}]"


def routes(store: PermissionStore, provider: Provider) -> APIRouter:
    """The paths. Roles are those of the provider."""
    found = APIRouter(
        prefix="/permissions", tags=["Permissions"], dependencies=[ADMINS], responses=declared(400, 401, 404, 500)
    )

    @found.post("", summary="Register a permission")
    async def add(body: PermissionBody, request: Request) -> Response:
        if not _is_whole(body):
            return _said(400, _WHOLE)
        about(request, f"add {body}")
        return await _answered(lambda: text(200, store.add(body.permission)))

    @found.delete("/{id_}", summary="Forget a permission, and who has it")
    async def drop(id_: str) -> Response:
        return await _answered(lambda: _done(store.drop, f"Deleted permission with ID: {id_}", id_))

    @found.get("/app/{app}", summary="The permissions of an application")
    async def of_app(app: str) -> Response:
        return await _answered(
            lambda: JSONResponse(
                [{"permissionID": one.id, "permissionString": one.permission.text} for one in store.of_app(app)]
            )
        )

    @found.get("/{id_}/roles", summary="The roles that have a permission")
    async def roles_of(id_: str) -> Response:
        def asked() -> Response:
            names = provider.roles
            return JSONResponse([{"id": role, "name": names.get(role, role)} for role in store.roles_of(id_)])

        return await _answered(asked)

    @found.get("/auth/{id_}/{role}", summary="Whether a role has a permission: 200, or 404 where it has not")
    async def has(id_: str, role: str) -> Response:
        def asked() -> Response:
            checked = f"Checking permission for app:{id_} role: {role}"
            if store.has(id_, role):
                return _said(200, f"{checked} successful")
            return _said(404, f"{checked} failed: the role does not have it")

        return await _answered(asked)

    @found.post("/roles/{role}", summary="Give a permission to a role, or take it away")
    async def change(role: str, body: PermissionBody, request: Request, action: str = "") -> Response:
        if not _is_whole(body):
            return _said(400, _WHOLE)
        changes = {"grant": store.grant, "revoke": store.revoke}
        chosen = changes.get(action.lower())
        if chosen is None:
            return _said(400, f"Invalid input. Action should be grant/revoke. But found {action}")
        about(request, f"{action.lower()} {body} role {role}")

        def asked() -> Response:
            if chosen == store.grant and role not in provider.roles:
                return _said(404, f"There is no role with the id {role}")
            return _done(chosen, f"Action, {action} for permission, {body} successful.", body.permission, role)

        return await _answered(asked)

    @found.post("/revoke/{id_}", summary="Take a permission from all roles")
    async def revoke_all(id_: str) -> Response:
        return await _answered(
            lambda: _done(store.revoke_all, f"Permission revoke for permissionID {id_} success.", id_)
        )

    return found


_WHOLE = "appName and permissionString are texts of 1 to 255 characters that can be printed"


def _is_whole(body: PermissionBody) -> bool:
    return is_name(body.appName) and is_name(body.permissionString)


def _done(change: Callable[..., None], message: str, *arguments: Any) -> Response:
    change(*arguments)
    return _said(200, message)


def _said(status: int, message: str) -> JSONResponse:
    code, kind = (DONE, "ok") if status == 200 else (FAILED, "error")
    return JSONResponse({"code": code, "type": kind, "message": message}, status)


async def _answered(answer: Callable[[], Response]) -> Response:
    try:
        return await run_in_threadpool(answer)
    except Unknown as unknown:
        return _said(404, f"There is no permission with the ID {unknown}")
    except NadiError as reason:
        return _said(500, str(reason))
