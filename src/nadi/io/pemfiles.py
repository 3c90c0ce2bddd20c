"""Looks into certificates and keys in PEM before anybody connects with them, and says what is wrong with them."""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from nadi.errors import NadiError, error
from nadi.io.tls import LARGEST


def check_certificates(path: str) -> list[x509.Certificate]:
    """Those of a file, at least one. Errors: CERTIFICATE_UNUSABLE."""
    try:
        return x509.load_pem_x509_certificates(_content(path))
    except ValueError as reason:
        raise _unusable(path, "it has no certificate in PEM") from reason


def check_pair(certificate: str, key: str) -> None:
    """Whether the first certificate of one file is that of the key in the other one. Errors: CERTIFICATE_UNUSABLE."""
    first, own = check_certificates(certificate)[0], _key(key)
    if first.public_key() != own.public_key():
        raise _unusable(certificate, f"it is not the certificate of the key {key}")


def _key(path: str) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(_content(path), None)
    except TypeError as reason:
        raise _unusable(path, "its key has a password, and nobody can say it here") from reason
    except (ValueError, UnsupportedAlgorithm) as reason:
        raise _unusable(path, "it has no key in PEM") from reason


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as reason:
        raise _unusable(path, reason.strerror or reason) from reason
    if len(content) > LARGEST:
        raise _unusable(path, f"it has more than {LARGEST:,} bytes")
    return content


def _unusable(path: str, reason: object) -> NadiError:
    return error("CERTIFICATE_UNUSABLE", path=path, reason=reason)
