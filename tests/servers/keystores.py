"""Key stores as people have them."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(subject: str, key: Key, issuer: str, by: Key, authority: bool) -> x509.Certificate:
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(by, hashes.SHA256())
    )


def write_store(folder: Path, password: str) -> tuple[Path, Path]:
    """A store with a key, its certificate and the one in between; the certificate in PEM that clients trust."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
    root = _signed("root", keys[0], "root", keys[0], True)
    middle = _signed("middle", keys[1], "root", keys[0], True)
    leaf = _signed("leaf", keys[2], "middle", keys[1], False)
    sealed = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    store, trusted = folder / "node.p12", folder / "root.pem"
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"node", keys[2], leaf, [middle], sealed))
    trusted.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    return store, trusted


class Authority:
    """An authority of a cluster's own: what it signs is for nodes on 127.0.0.1, as server and as client."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        own = _signed(name, self._key, name, self._key, True)
        self.file.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str) -> tuple[Path, Path]:
        """The files of a certificate and its key; those that have the name are replaced."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, secret = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        signed = _signed(name, key, self._name, self._key, False)
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
        return certificate, secret


def write_java_store(folder: Path) -> Path:
    """The beginning of a file as keytool made them until Java 8."""
    file = folder / "wso2carbon.jks"
    file.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01")
    return file
