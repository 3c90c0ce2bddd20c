"""The secrets that `${sec:alias}` in a deployment.yaml stands for, in a file of their own, encrypted.

<home>/security/secrets.json    {"version": 1, "secrets": {alias: base64 of nonce and AES-256-GCM}}
<home>/security/secrets.key     the key, base64, 0600: made with the first secret, unless the operator names another place

The alias is sealed in with its value: a value cannot be put under another name. Where the key is:

| environment | key |
|---|---|
| `NADI_SECRETS_KEY` | it is the key, base64 of 32 bytes |
| `NADI_SECRETS_KEY_FILE` | a file that has it |
| neither | `secrets.key` beside the secrets |
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import secrets as random
from collections.abc import Mapping
from pathlib import Path

import msgspec

from nadi.config.placeholders import Lookup
from nadi.errors import did_you_mean, error
from nadi.received import read_json

FILE, KEY = "secrets.json", "secrets.key"
VARIABLE, VARIABLE_FILE = "NADI_SECRETS_KEY", "NADI_SECRETS_KEY_FILE"
KEY_BYTES, NONCE_BYTES = 32, 12
LONGEST = 100_000  # characters of a secret
_ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}")


class Secrets:
    """Those of one home. `folder` is its security folder, which is closed to others; `environment` says where the key is."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._path, self._own_key = folder / FILE, folder / KEY
        self._environment = os.environ if environment is None else environment

    def aliases(self) -> list[str]:
        """The names, in order; it takes no key. Errors: SECRETS_DAMAGED."""
        return sorted(self._sealed())

    def set(self, alias: str, value: str) -> None:
        """Keep a secret; one of this name is replaced. Errors: SECRET_INVALID, SECRETS_KEY_WRONG, SECRETS_DAMAGED, SECRETS_NOT_SAVED."""
        if _ALIAS.fullmatch(alias) is None:
            raise error("SECRET_INVALID", reason="its name has up to 100 letters, digits, '_', '-' and '.'")
        if not value or len(value) > LONGEST:
            raise error("SECRET_INVALID", reason=f"its value has between 1 and {LONGEST:,} characters")
        sealed = self._sealed()
        key = self._key(make=not sealed)
        for other in sealed:  # with another key than the rest, it would make a file that no key opens
            self._opened(other, sealed[other], key)
            break
        self._save({**sealed, alias: _seal(alias, value, key)})

    def delete(self, alias: str) -> None:
        """Forget a secret. Errors: SECRET_UNKNOWN, SECRETS_DAMAGED, SECRETS_NOT_SAVED."""
        sealed = self._sealed()
        if alias not in sealed:
            raise self._unknown(alias, sealed)
        self._save({name: value for name, value in sealed.items() if name != alias})

    def value(self, alias: str) -> str:
        """A secret. Errors: SECRET_UNKNOWN with the nearest known one, SECRETS_KEY_WRONG, SECRETS_DAMAGED."""
        sealed = self._sealed()
        if alias not in sealed:
            raise self._unknown(alias, sealed)
        return self._opened(alias, sealed[alias], self._key(make=False))

    # ---- the file

    def _sealed(self) -> dict[str, str]:
        try:
            found = read_json(self._path.read_bytes())
            listed = found["secrets"]
            if found["version"] != 1 or not all(isinstance(v, str) for v in listed.values()):
                raise ValueError("it is of another version")
            return dict(listed)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, msgspec.MsgspecError) as reason:
            raise error("SECRETS_DAMAGED", path=self._path, reason=_said(reason)) from reason

    def _save(self, sealed: Mapping[str, str]) -> None:
        content = json.dumps({"version": 1, "secrets": dict(sorted(sealed.items()))}, indent=1)
        _write(self._path, content)

    # ---- the key

    def _key(self, make: bool) -> bytes:
        if given := self._environment.get(VARIABLE):
            return _decoded(given, f"the variable {VARIABLE}")
        path = Path(named) if (named := self._environment.get(VARIABLE_FILE)) else self._own_key
        if make and path == self._own_key and not path.exists():
            _write(path, base64.b64encode(random.token_bytes(KEY_BYTES)).decode())
        try:
            if path.stat().st_mode & 0o077:
                raise error("SECRETS_KEY_WRONG", where=path, reason="others may read it: chmod 600")
            return _decoded(path.read_text(encoding="ascii"), str(path))
        except (OSError, UnicodeDecodeError) as reason:
            raise error("SECRETS_KEY_WRONG", where=path, reason=_said(reason)) from reason

    def _opened(self, alias: str, sealed: str, key: bytes) -> str:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            data = base64.b64decode(sealed, validate=True)
            return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], alias.encode()).decode()
        except (InvalidTag, binascii.Error, ValueError) as reason:
            why = f"it does not open the secret '{alias}' of {self._path}"
            raise error("SECRETS_KEY_WRONG", where="the key", reason=why) from reason

    def _unknown(self, alias: str, sealed: Mapping[str, str]) -> Exception:
        return error("SECRET_UNKNOWN", alias=alias, path=self._path, hint=did_you_mean(alias, sealed))


def secret_lookup(folder: Path | None) -> Lookup:
    """What `${sec:alias}` stands for, in the secrets of a security folder; None: where there are no secrets.

    Errors, when it is asked: SECRET_UNKNOWN, SECRETS_KEY_WRONG, SECRETS_DAMAGED.
    """

    def value(alias: str) -> str | None:
        return None if folder is None else Secrets(folder).value(alias)

    return value


def _seal(alias: str, value: str, key: bytes) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # half of the commands never need it

    nonce = random.token_bytes(NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(key).encrypt(nonce, value.encode(), alias.encode())).decode()


def _decoded(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise error("SECRETS_KEY_WRONG", where=where, reason=f"it is no base64 of {KEY_BYTES} bytes")
    return key


def _write(path: Path, content: str) -> None:
    """Put a file in place, whole or not at all, for this user alone. Errors: SECRETS_NOT_SAVED."""
    fresh = path.parent / f".{random.token_hex(8)}.new"
    try:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as reason:
        raise error("SECRETS_NOT_SAVED", path=path, reason=_said(reason)) from reason


def _said(reason: BaseException) -> str:
    return getattr(reason, "strerror", None) or str(reason)
