"""What is wrong with certificates and keys is said in words of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from servers.keystores import Authority

from nadi.errors import NadiError
from nadi.io.natstrust import Trust
from nadi.io.tls import LARGEST, Tls


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An authority, a node that it has signed, another one, the node's key under a password, and files that are none of these."""
    authority = Authority(tmp_path)
    key = load_pem_private_key(authority.sign("node")[1].read_bytes(), None)
    authority.sign("other")
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (tmp_path / "sealed.key").write_bytes(sealed)
    (tmp_path / "text").write_text("nothing of this kind")
    (tmp_path / "large").write_bytes(b" " * (LARGEST + 1))
    return tmp_path


def trust(folder: Path, names: tuple[str, str, str]) -> Trust:
    return Trust(*(str(folder / name) if name else "" for name in names))


RIGHT = [("authority.pem", "", ""), ("authority.pem", "node.pem", "node.key"), ("", "node.pem", "node.key")]


@pytest.mark.parametrize("names", RIGHT)
def test_files_that_belong_together_are_taken(folder: Path, names: tuple[str, str, str]) -> None:
    named = trust(folder, names)
    named.check()
    named.context()


WRONG = {
    ("none.pem", "", ""): ("none.pem", "No such file or directory"),
    ("text", "", ""): ("text", "it has no certificate in PEM"),
    ("node.key", "", ""): ("node.key", "it has no certificate in PEM"),
    ("large", "", ""): ("large", "it has more than 1,000,000 bytes"),
    ("", "node.pem", "other.key"): ("node.pem", "it is not the certificate of the key {}/other.key"),
    ("", "node.pem", "text"): ("text", "it has no key in PEM"),
    ("", "node.pem", ""): ("node.pem", "it has no key in PEM"),
    ("", "node.pem", "sealed.key"): ("sealed.key", "its key has a password, and nobody can say it here"),
}


@pytest.mark.parametrize("names", WRONG)
def test_the_file_that_is_wrong_is_named_with_the_reason(folder: Path, names: tuple[str, str, str]) -> None:
    with pytest.raises(NadiError) as refused:
        trust(folder, names).check()
    file, reason = WRONG[names]
    assert (
        str(refused.value).splitlines()[0].endswith(f"{folder / file} cannot be used for TLS: {reason.format(folder)}")
    )


def test_a_key_under_a_password_is_refused_and_nobody_is_asked_for_it(folder: Path) -> None:
    with pytest.raises(OSError, match="PEM lib"):
        Trust("", str(folder / "node.pem"), str(folder / "sealed.key")).context()
    with pytest.raises(NadiError, match="CERTIFICATE_UNUSABLE"):
        Tls(folder / "node.pem", folder / "sealed.key").context()
