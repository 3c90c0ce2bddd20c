"""Checks id tokens of OpenID Connect: who signed them, for whom, until when, and for which login."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from nadi.server.security.external.service import Service

ALGORITHMS = ["RS256", "PS256", "ES256"]  # those with a key that only the provider has
LEEWAY = 60  # seconds that clocks may differ
LOOKED_AT = 60.0  # seconds in which the provider's keys are not asked for again
LONGEST = 16_384  # characters of a token


class IdTokens:
    """See the module's text."""

    def __init__(self, service: Service, issuer: str, clock: Callable[[], float] = time.time) -> None:
        self._service = service
        self._issuer = issuer
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: KeySet | None = None
        self._asked = float("-inf")

    def checked(self, token: str, client_id: str, nonce: str, access: str) -> dict[str, Any] | None:
        """The claims of a login's id token; None where one of them does not hold. Errors: PROVIDER_UNAVAILABLE."""
        params = {"nonce": nonce, "client_id": client_id, "access_token": access}
        return self._checked(token, client_id, params, int(self._clock()))

    def was_given(self, token: str, client_id: str) -> bool:
        """Whether the provider gave an id token to a client, be it for a login that has ended. Errors: PROVIDER_UNAVAILABLE."""
        return self._checked(token, client_id, {"client_id": client_id}, None) is not None

    def _checked(self, token: str, client_id: str, params: dict[str, Any], now: int | None) -> dict[str, Any] | None:
        """`now` None: the moment in which the token was made."""
        if len(token) > LONGEST:
            return None
        try:
            read = self._read(token)
            options = {
                "iss": {"essential": True, "value": self._issuer},
                "aud": {"essential": True, "value": client_id},
            }
            claims = CodeIDToken(read.claims, read.header, options, params)
            claims.validate(int(claims["iat"]) if now is None else now, LEEWAY)
        except (JoseError, ValueError, ArithmeticError, KeyError, TypeError, RecursionError):
            return None
        return dict(claims)

    def _read(self, token: str) -> jwt.Token:
        """A token whose signature is right. A key that is not known may be new. Errors: JoseError, ValueError, PROVIDER_UNAVAILABLE."""
        try:
            return jwt.decode(token, self._key_set(), algorithms=ALGORITHMS)
        except InvalidKeyIdError:
            return jwt.decode(token, self._key_set(again=True), algorithms=ALGORITHMS)

    def _key_set(self, again: bool = False) -> KeySet:
        with self._lock:
            now = self._clock()
            if self._keys is None or (again and now - self._asked >= LOOKED_AT):
                self._asked = now
                self._keys = KeySet.import_key_set(self._service.keys())  # type: ignore[arg-type]
            return self._keys
