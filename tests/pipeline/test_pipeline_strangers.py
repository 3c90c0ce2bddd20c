"""Finding 3: what Spark's driver answers a stranger."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nadi.pipeline.session import driver_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REQUEST, FAILURE = 3, 5  # kinds of Spark's messages


def asked(port: int, body: bytes) -> tuple[int, str]:
    """(kind, text) of the answer to a request that is a Java object, which a driver without a secret makes from it."""
    head = struct.pack("!qbqi", 8 + 1 + 8 + 4 + len(body), REQUEST, 1, len(body))
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger, stranger.makefile("rb") as answer:
        stranger.sendall(head + body)
        length, kind = struct.unpack("!qb", answer.read(9))
        return kind, answer.read(length - 9)[12:].decode(errors="replace")


def listening(pid: int) -> dict[int, str]:
    """The TCP ports on which a process listens, and at which address, as the system writes it."""
    held = {os.readlink(p) for p in Path(f"/proc/{pid}/fd").iterdir() if p.is_symlink()}
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in held:
                address, _, port = fields[1].partition(":")
                found[int(port, 16)] = address
    return found


def test_the_driver_and_its_blocks_answer_nobody_who_does_not_know_the_secret(spark: SparkSession):
    """The third port is Py4J's, which has a token of its own."""
    ports = set(listening(driver_jvm(spark))) - {spark.sparkContext._gateway.gateway_parameters.port}
    assert int(spark.sparkContext.getConf().get("spark.driver.port")) in ports
    assert len(ports) == 2
    for port in ports:
        kind, said = asked(port, b"\xac\xed\x00\x05stranger")
        assert kind == FAILURE
        assert said.startswith("java.lang.IllegalStateException: Expected SaslMessage")
        assert "ObjectInputStream" not in said


def test_java_listens_on_the_loopback_interface_only(spark: SparkSession):
    addresses = set(listening(driver_jvm(spark)).values())
    assert addresses
    assert addresses <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_no_secret_stands_in_the_command_line_of_java(spark: SparkSession):
    command = Path(f"/proc/{driver_jvm(spark)}/cmdline").read_bytes().split(b"\0")
    assert b"spark.authenticate=true" in command
    assert not [word for word in command if b"secret" in word.lower()]


def test_the_sockets_of_python_are_in_a_folder_of_this_user(spark: SparkSession):
    folder = Path(spark.sparkContext.getConf().get("spark.python.unix.domain.socket.dir"))
    assert folder.stat().st_mode & 0o777 == 0o700
