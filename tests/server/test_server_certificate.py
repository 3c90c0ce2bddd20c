from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest
from servers.keystores import Authority, write_java_store, write_store

from nadi.config.deployment import Listener, Tls
from nadi.errors import NadiError
from nadi.io.httpserver import HttpServer
from nadi.server.rest.application import guarded, make_routes
from nadi.server.security.attempts import Attempts
from nadi.server.security.certificate import certificate_of, context_of


def listener(**more: str) -> Listener:
    return Listener.model_validate({"port": 0, "scheme": "https", **more})


@pytest.mark.parametrize("password", ["keyStorePassword", "certPass"])
def test_a_listener_shows_the_certificate_of_its_key_store(tmp_path: Path, password: str) -> None:
    """The path begins in the worker's home."""
    store, root = write_store(tmp_path, "secret")
    given = listener(keyStoreFile=store.name, **{password: "secret"})
    own = certificate_of(tmp_path / "security", Tls(), "node-1")
    routes = guarded(make_routes("t", []), None, Attempts(), ())
    server = HttpServer(routes, "127.0.0.1", 0, context_of(given, own, tmp_path))
    server.start()
    try:
        trusted = ssl.create_default_context(cafile=str(root))
        assert httpx.get(f"https://127.0.0.1:{server.port}/x", verify=trusted).status_code == 404
    finally:
        server.stop()
    assert not (tmp_path / "security").exists()


def test_a_listener_with_a_key_store_of_java_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    own = certificate_of(tmp_path / "security", Tls(), "node-1")
    file = write_java_store(tmp_path)
    with pytest.raises(NadiError, match="keytool -importkeystore") as failure:
        context_of(listener(keyStoreFile=str(file), keyStorePassword="wso2carbon"), own, tmp_path)
    assert failure.value.condition == "KEY_STORE_OF_JAVA"


def test_a_listener_without_https_needs_no_certificate(tmp_path: Path) -> None:
    own = certificate_of(tmp_path / "security", Tls(), "node-1")
    assert context_of(Listener.model_validate({"port": 0}), own, tmp_path) is None
    assert not (tmp_path / "security").exists()


def test_a_certificate_that_was_renewed_is_shown_without_a_restart(tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    certificate, key = old.sign("node")
    own = certificate_of(tmp_path / "security", Tls(certificate=str(certificate), key=str(key)), "node-1")
    routes = guarded(make_routes("t", []), None, Attempts(), ())
    server = HttpServer(routes, "127.0.0.1", 0, context_of(listener(), own, tmp_path))
    server.start()

    def answers(authority: Authority) -> bool:
        try:
            trusted = ssl.create_default_context(cafile=str(authority.file))
            return httpx.get(f"https://127.0.0.1:{server.port}/x", verify=trusted).status_code == 404
        except httpx.ConnectError:
            return False

    try:
        assert answers(old)
        whole = key.read_bytes()
        key.write_text("half of a k")
        assert answers(old), "files that are just being written change nothing"
        key.write_bytes(whole)
        new.sign("node")
        assert answers(new)
        assert not answers(old)
    finally:
        server.stop()
