"""The server's side of TLS: a context for ssl, made of a pair of files in PEM or of a key store in PKCS#12.

context(Tls(Path("certificate.pem"), Path("key.pem")))
KeyStore(Path("node.p12"), "its password").context()
"""

from __future__ import annotations

import contextlib
import secrets
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from nadi.errors import error

LARGEST = 1_000_000  # bytes of a key store, or of a file in PEM
JAVA = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
"""How files begin that only Java reads."""


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate chain and its key, files in PEM."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """What a server needs of them while it runs: who connects after they were renewed is shown the new ones. Errors: CERTIFICATE_UNUSABLE."""
        try:
            return _Renewed(self).first
        except (OSError, ssl.SSLError) as reason:
            raise error("CERTIFICATE_UNUSABLE", path=self.certificate, reason=reason) from reason

    def loaded(self) -> ssl.SSLContext:
        """What a server needs of them as they are now. Errors: OSError."""
        made = _context()
        made.load_cert_chain(self.certificate, self.key, password="")  # without, OpenSSL asks at the terminal
        return made


class _Renewed:
    """The newest certificate of two files, for the context of a server that goes on."""

    def __init__(self, files: Tls) -> None:
        """Errors: OSError."""
        self._files = files
        self._stamp = self._stamped()
        self.first = self._newest = files.loaded()
        self.first.sni_callback = self._show

    def _show(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        """Called in each handshake. Files that are half renewed, or cannot be read, leave things as they are; the next handshake looks again."""
        with contextlib.suppress(OSError):
            stamp = self._stamped()
            if stamp != self._stamp:
                self._newest, self._stamp = self._files.loaded(), stamp
        if self._newest is not self.first:
            connection.context = self._newest

    def _stamped(self) -> tuple[tuple[int, int], ...]:
        found = (path.stat() for path in (self._files.certificate, self._files.key))
        return tuple((stat.st_mtime_ns, stat.st_ino) for stat in found)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A file in PKCS#12 with a key, its certificate and, where it has them, those that vouch for it. It has one password."""

    file: Path
    password: str = field(default="", repr=False)

    def context(self) -> ssl.SSLContext:
        """What a server needs of it. Errors: KEY_STORE_OF_JAVA, CERTIFICATE_UNUSABLE."""
        key, chain = self._read()
        made = _context()
        # ssl takes files only: the key is in this one for a moment, under a password that nobody else has
        word = secrets.token_hex(32)
        sealed = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(word.encode()),
        )
        try:
            with tempfile.NamedTemporaryFile(suffix=".pem") as file:
                file.write(sealed + chain)
                file.flush()
                made.load_cert_chain(file.name, password=word)
        except (OSError, ssl.SSLError) as reason:
            raise self._unusable(reason) from reason
        return made

    def _read(self) -> tuple[PrivateKeyTypes, bytes]:
        """The key, and the certificates in PEM."""
        try:
            with self.file.open("rb") as file:
                data = file.read(LARGEST + 1)
        except OSError as reason:
            raise self._unusable(reason.strerror or reason) from reason
        if data[:4] in JAVA:
            raise error("KEY_STORE_OF_JAVA", path=self.file, kind=JAVA[data[:4]], made=self.file.with_suffix(".p12"))
        if len(data) > LARGEST:
            raise self._unusable(f"it has more than {LARGEST:,} bytes")
        try:
            store = pkcs12.load_pkcs12(data, self.password.encode() or None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as reason:
            raise self._unusable(f"it is no PKCS#12 file, or has another password ({reason})") from reason
        if store.key is None or store.cert is None:
            raise self._unusable("it has no key with a certificate")
        chain = [store.cert, *store.additional_certs]
        return store.key, b"".join(c.certificate.public_bytes(serialization.Encoding.PEM) for c in chain)

    def _unusable(self, reason: object) -> Exception:
        return error("CERTIFICATE_UNUSABLE", path=self.file, reason=reason)


def _context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    return made
