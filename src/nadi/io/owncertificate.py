"""Makes certificates that sign themselves, such as the one that a node has of its own, and looks at one that is there.

Few processes need it, and what it imports takes long to load.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from nadi.io.tls import Tls

LASTS = timedelta(days=825)  # the longest that browsers accept
RENEWED_BEFORE = timedelta(days=30)


def is_good(made: Tls) -> bool:
    """Whether it is there, and for longer than a month."""
    if not made.certificate.exists() or not made.key.exists():
        return False
    found = x509.load_pem_x509_certificate(made.certificate.read_bytes())
    return found.not_valid_after_utc > datetime.now(UTC) + RENEWED_BEFORE


def make(made: Tls, name: str) -> None:
    """Write a key and a certificate for a name and this machine. Errors: OSError."""
    hosts = dict.fromkeys(("localhost", socket.gethostname(), socket.getfqdn()))
    addresses = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in hosts if host.isascii()]
    key, certificate = self_signed(
        name[:64] or "nadi",
        timedelta(minutes=5),
        LASTS,
        (x509.SubjectAlternativeName(names + [x509.IPAddress(a) for a in addresses]), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
    )
    _write(made.key, key, 0o600)
    _write(made.certificate, certificate, 0o644)


def self_signed(
    name: str, since: timedelta, lasts: timedelta, *extensions: tuple[x509.ExtensionType, bool]
) -> tuple[bytes, bytes]:
    """A new key and a certificate of it as PEM, good since a while ago, for so long from now on. Extensions are told with whether they are critical."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - since)
        .not_valid_after(now + lasts)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    plain = serialization.NoEncryption()
    return (
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain),
        builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
    )


def _write(file: Path, data: bytes, mode: int) -> None:
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(data)
