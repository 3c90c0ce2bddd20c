"""How two nodes know each other before a byte of what they have is sent: each proves with a fresh question that it has the secret of the cluster.

    client                                              server
      magic, purpose, 32 random bytes        -->
                                             <--          32 random bytes
      HMAC("client", all that was said)      -->
                                             <--          HMAC("server", all that was said)

It goes over TLS, and the check-sum of the server's certificate is part of what both sign. So nobody can stand between the two with a certificate of his own,
and certificates that nodes make for themselves are as good as others. What was recorded is of no use: the questions are never the same. Without a certificate
nothing leaves the machine: both ends take loopback addresses only.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from nadi.config.loopback import is_here
from nadi.errors import error
from nadi.eventsync.contract import SessionOver
from nadi.io.tls import Tls

MAGIC = b"nadi-es1"
MAIN, BULK = b"M", b"B"
RANDOM = 32
PATIENCE = 5.0  # seconds for a handshake
SHORTEST = 16  # characters of a secret
_END = b"-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Keys:
    """`secret` is `nadi.cluster.secret`; `tls` the certificate that this node shows, None for two nodes on one machine. With `authority` (a file of
    certificates in PEM) the partner's certificate must have been signed by it, too, for the host by which the partner is reached."""

    secret: str = field(repr=False)
    tls: Tls | None
    authority: Path | None = None

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST:
            wanted = "a text of at least 32 random characters, the same on both nodes"
            raise error("INVALID_SETTING", name="nadi.cluster.secret", value="too short", wanted=wanted)

    def listens(self) -> tuple[ssl.SSLContext | None, bytes]:
        """What the listener shows, and the check-sum of it. Errors: CERTIFICATE_UNUSABLE."""
        if self.tls is None:
            return None, b""
        try:
            context = self.tls.loaded()  # it stays as it is: the handshake proves the certificate of this check-sum
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            first = self.tls.certificate.read_bytes().partition(_END)[0] + _END
            der = ssl.PEM_cert_to_DER_cert(first[first.index(b"-----BEGIN") :].decode("ascii"))
        except (OSError, ValueError) as reason:
            raise error("CERTIFICATE_UNUSABLE", path=self.tls.certificate, reason=reason) from reason
        return context, hashlib.sha256(der).digest()

    def connects(self) -> ssl.SSLContext | None:
        """How this node connects to its partner. Errors: INVALID_SETTING."""
        if self.tls is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.authority is not None:
                context.load_verify_locations(self.authority)
        except OSError as reason:
            wanted = f"a file of certificates in PEM ({reason})"
            raise error(
                "INVALID_SETTING", name="nadi.cluster.authority", value=self.authority, wanted=wanted
            ) from reason
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if self.authority is None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # the handshake proves whose certificate it is
        return context

    def check_host(self, host: str) -> None:
        """Errors: INVALID_SETTING, for a host that is elsewhere where there is no certificate."""
        if self.tls is None and not is_here(host):
            wanted = "a loopback address, as event sync has no certificate"
            raise error("INVALID_SETTING", name="eventSyncServer", value=host, wanted=wanted)

    def sign(self, who: bytes, said: bytes) -> bytes:
        return hmac.digest(self.secret.encode(), who + b"\n" + said, "sha256")


async def greet(keys: Keys, purpose: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The client's half. Errors: SessionOver."""
    tls = writer.get_extra_info("ssl_object")
    shown = hashlib.sha256(tls.getpeercert(binary_form=True)).digest() if tls is not None else b""
    asked = MAGIC + purpose + secrets.token_bytes(RANDOM)
    try:
        async with asyncio.timeout(PATIENCE):
            writer.write(asked)
            said = asked + await reader.readexactly(RANDOM) + shown
            writer.write(keys.sign(b"client", said))
            proof = await reader.readexactly(RANDOM)
    except (OSError, EOFError, TimeoutError) as reason:
        raise SessionOver(f"the partner does not take this node for one of its cluster: {reason!r}") from reason
    if not hmac.compare_digest(proof, keys.sign(b"server", said)):
        raise SessionOver("what answers at the partner's address does not have the secret of the cluster")


async def greeted(keys: Keys, shown: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The server's half; `shown` is the check-sum of its certificate. -> the purpose. A stranger gets some random bytes, and nothing of it is kept. Errors:
    SessionOver."""
    try:
        async with asyncio.timeout(PATIENCE):
            asked = await reader.readexactly(len(MAGIC) + 1 + RANDOM)
            purpose = asked[len(MAGIC) : len(MAGIC) + 1]
            if not asked.startswith(MAGIC) or purpose not in (MAIN, BULK):
                raise SessionOver("somebody who is no node connected")
            question = secrets.token_bytes(RANDOM)
            writer.write(question)
            said = asked + question + shown
            proof = await reader.readexactly(RANDOM)
    except (OSError, EOFError, TimeoutError) as reason:
        raise SessionOver(f"somebody connected and did not prove to be a node: {reason!r}") from reason
    if not hmac.compare_digest(proof, keys.sign(b"client", said)):
        raise SessionOver("somebody connected who does not have the secret of the cluster")
    writer.write(keys.sign(b"server", said))
    return purpose
