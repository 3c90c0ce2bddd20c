"""What a worker shows for https: the key store of a listener, the certificate of `nadi.tls`, or one of its own that the first start makes."""

from __future__ import annotations

import ssl
from pathlib import Path

from nadi.config.deployment import Listener
from nadi.config.deployment import Tls as Configured
from nadi.errors import error
from nadi.io.certificate import OwnCertificate
from nadi.io.tls import KeyStore, Tls


def certificate_of(folder: Path, configured: Configured, name: str) -> OwnCertificate:
    """The certificate of the worker that has this security folder. Errors: INVALID_SETTING where a configured file is not there."""
    if not configured.certificate and not configured.key:
        return OwnCertificate(folder, name)
    for field, value in (("certificate", configured.certificate), ("key", configured.key)):
        if not value or not Path(value).is_file():
            raise error("INVALID_SETTING", name=f"nadi.tls.{field}", value=value, wanted="a file in PEM that is there")
    return OwnCertificate(folder, name, Tls(Path(configured.certificate), Path(configured.key)))


def context_of(listener: Listener, own: OwnCertificate, home: Path) -> ssl.SSLContext | None:
    """What a listener needs for https, None for http; paths of key stores begin in `home`. Errors: KEY_STORE_OF_JAVA, CERTIFICATE_UNUSABLE."""
    if listener.scheme == "http":
        return None
    if listener.key_store_file:
        return KeyStore(home / listener.key_store_file, listener.key_store_password or listener.cert_pass).context()
    return own.tls().context()
