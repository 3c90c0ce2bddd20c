from __future__ import annotations

import ssl
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from log_contract import payloads
from rawclient import RawClient, raw
from sample import connector
from servers.keystores import write_java_store, write_store

from nadi.errors import NadiError
from nadi.io import postserver
from nadi.io.certificate import OwnCertificate
from nadi.io.contract import Place
from nadi.io.listeners import Limits, Listening
from nadi.io.natsserver import NatsServer
from nadi.io.reach import Reach
from nadi.io.registry import open_log
from nadi.io.sources.http import HttpIngress
from nadi.io.tls import KeyStore, Tls

GOOD = b'{"event":{"name":"a","size":1}}'
ANY = "https://127.0.0.1:0/orders"


@pytest.fixture
def place(nats: NatsServer, tmp_path: Path) -> Place:
    listening = Listening(Limits(), OwnCertificate(tmp_path / "security"))
    return Place(
        tmp_path.name.replace("_", ""), tmp_path, nats.url, reach=Reach(files=str(tmp_path)), listening=listening
    )


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, Path]:
    return write_store(tmp_path, "secret")


def listening(place: Place, **options: str) -> Iterator[HttpIngress]:
    given = {"receiver.url": ANY} | {name.replace("_", "."): value for name, value in options.items()}
    ingress = HttpIngress(connector("http", given), place)
    ingress.start()
    try:
        yield ingress
    finally:
        ingress.stop()


def test_a_source_shows_the_certificate_of_its_node_and_takes_messages(place: Place, tmp_path: Path) -> None:
    for ingress in listening(place):
        trusted = ssl.create_default_context(cafile=str(tmp_path / "security/certificate.pem"))
        assert ingress.url.startswith("https://127.0.0.1:")
        with httpx.Client(verify=trusted) as client:
            assert [client.post(ingress.url, content=GOOD).status_code for _ in range(3)] == [202, 202, 202]
            assert client.post(ingress.url, content=b"{").status_code == 400
        with pytest.raises(httpx.ConnectError):
            httpx.post(ingress.url, content=GOOD)  # it is nobody's whom the system trusts
        assert stat.S_IMODE((tmp_path / "security/key.pem").stat().st_mode) == 0o600
    assert len(payloads(open_log(connector("http", {}), place))) == 3


@pytest.mark.parametrize("option", ["https_keystore_password", "https_cert_password"])
def test_a_source_shows_the_certificate_of_its_key_store_with_what_vouches_for_it(
    place: Place, store: tuple[Path, Path], option: str
) -> None:
    file, root = store
    for ingress in listening(place, https_keystore_file=str(file), **{option: "secret"}):
        trusted = ssl.create_default_context(cafile=str(root))
        assert httpx.post(ingress.url, content=GOOD, verify=trusted).status_code == 202
    assert not (place.state / "security").exists()  # none was needed


def test_bounds_hold_under_tls(place: Place, tmp_path: Path) -> None:
    """Finding 9."""
    strict = replace(place, listening=replace(place.listening, limits=Limits(head=200)))
    for ingress in listening(strict):
        trusted = ssl.create_default_context(cafile=str(tmp_path / "security/certificate.pem"))
        with raw(ingress.url, trusted) as client:
            client.send(b"POST /orders HTTP/1.1\r\n")
            assert client.hear().status == 408
        with raw(ingress.url, trusted) as client:
            client.post(length=30_000_000)
            for _ in range(30):
                client.send(b" " * 1_000_000)
            assert client.hear().status == 413
        with raw(ingress.url, trusted) as client:
            client.post(GOOD, "Connection: close")
            assert client.hear().status == 202
            assert client.over()


def test_what_is_no_tls_is_not_answered_and_others_are(place: Place, tmp_path: Path) -> None:
    for ingress in listening(place):
        with raw(ingress.url) as client:
            client.post(GOOD)
            assert client.over()
        trusted = ssl.create_default_context(cafile=str(tmp_path / "security/certificate.pem"))
        assert httpx.post(ingress.url, content=GOOD, verify=trusted).status_code == 202


def test_connections_that_do_not_agree_on_tls_count_and_end(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 9: a client that opens connections and says nothing kept their files for ever."""
    monkeypatch.setattr(postserver, "HANDSHAKE_WITHIN", 0.3)
    few = replace(place, listening=replace(place.listening, limits=Limits(connections=2)))
    for ingress in listening(few):
        with raw(ingress.url) as first, raw(ingress.url) as second, raw(ingress.url) as third:
            assert third.over()
            assert first.over()
            assert second.over()
        monkeypatch.setattr(postserver, "HANDSHAKE_WITHIN", 10.0)  # a busy machine has this time
        trusted = ssl.create_default_context(cafile=str(tmp_path / "security/certificate.pem"))
        assert httpx.post(ingress.url, content=GOOD, verify=trusted).status_code == 202


def test_old_versions_of_tls_are_refused(place: Place, tmp_path: Path) -> None:
    for ingress in listening(place):
        old = ssl.create_default_context(cafile=str(tmp_path / "security/certificate.pem"))
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            RawClient(ingress.url, old)


def test_a_port_speaks_one_way(place: Place) -> None:
    for ingress in listening(place):
        plain = {"receiver.url": f"http://127.0.0.1:{ingress._shared.common.port}/more"}
        with pytest.raises(NadiError, match="other settings of https"):
            HttpIngress(connector("http", plain, ordinal=1), place)


def test_https_without_a_node_wants_a_key_store(nats: NatsServer, tmp_path: Path) -> None:
    with pytest.raises(NadiError, match=r"https\.keystore\.file") as failure:
        HttpIngress(connector("http", {"receiver.url": ANY}), Place("App", tmp_path, nats.url))
    assert failure.value.condition == "NOT_SUPPORTED"


def test_a_store_of_another_type_is_refused_by_name(place: Place, store: tuple[Path, Path]) -> None:
    options = {"receiver.url": ANY, "https.keystore.file": str(store[0]), "tls.store.type": "JKS"}
    with pytest.raises(NadiError, match=r"tls\.store\.type") as failure:
        HttpIngress(connector("http", options), place)
    assert failure.value.condition == "OPTION_INVALID"


def test_an_app_may_name_a_key_store_only_where_the_node_lets_it(place: Place, store: tuple[Path, Path]) -> None:
    """An app's author is not the node's operator: another key of the machine is not theirs to show."""
    options = {"receiver.url": ANY, "https.keystore.file": str(store[0]), "https.keystore.password": "secret"}
    for folder in ("", str(place.state / "elsewhere")):
        with pytest.raises(NadiError) as failure:
            HttpIngress(connector("http", options), replace(place, reach=Reach(files=folder)))
        assert failure.value.condition == "FILE_NOT_ALLOWED"


# ---- key stores


def test_a_key_store_of_java_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    file = write_java_store(tmp_path)
    with pytest.raises(NadiError) as failure:
        KeyStore(file, "wso2carbon").context()
    assert failure.value.condition == "KEY_STORE_OF_JAVA"
    said = str(failure.value)
    assert f"keytool -importkeystore -srckeystore {file} -destkeystore {tmp_path / 'wso2carbon.p12'}" in said


def test_a_key_store_that_cannot_be_used_says_why(tmp_path: Path, store: tuple[Path, Path]) -> None:
    (tmp_path / "text").write_text("no key store")
    wrong = {
        KeyStore(store[0], "other"): "another password",
        KeyStore(store[0]): "another password",
        KeyStore(tmp_path / "text", "x"): "no PKCS#12",
        KeyStore(tmp_path / "none", "x"): "No such file",
        KeyStore(tmp_path, "x"): "directory",
    }
    for given, said in wrong.items():
        with pytest.raises(NadiError, match=said) as failure:
            given.context()
        assert failure.value.condition == "CERTIFICATE_UNUSABLE"
        assert "other" not in repr(given)


def test_a_key_store_without_a_password_is_read(tmp_path: Path) -> None:
    file, _root = write_store(tmp_path, "")
    assert isinstance(KeyStore(file).context(), ssl.SSLContext)


def test_no_file_with_the_key_is_left_behind(
    tmp_path: Path, store: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    KeyStore(store[0], "secret").context()
    assert list(scratch.iterdir()) == []


def test_a_certificate_in_pem_that_cannot_be_used_says_which(tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_text("nothing")
    with pytest.raises(NadiError, match=r"c\.pem") as failure:
        Tls(tmp_path / "c.pem", tmp_path / "k.pem").context()
    assert failure.value.condition == "CERTIFICATE_UNUSABLE"
