"""A Kafka broker of one node on this machine, until Ctrl-C; its jars come from Maven and are kept in ~/.cache/nadi.

    python examples/kafka/broker.py [--port 19092] [--data FOLDER]

Port 0 takes a free one. Without --data, everything is in a temporary folder that goes with the broker.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nadi.io.guard import Guarded, guarded
from nadi.io.natsserver import free_port

POM = Path(__file__).with_name("pom.xml")
CLUSTER = base64.urlsafe_b64encode(b"nadi-example-bkr").decode().rstrip("=")
READY_WITHIN = 60.0  # seconds

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={protocol}://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name={protocol}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocol}:{protocol}
log.dirs={data}
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
"""
TLS = """\
ssl.keystore.type=PEM
ssl.keystore.location={store}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
ssl.client.auth=required
"""
QUICK = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of Java for a broker that is there in seconds and small; one that has much to do is faster with Java's own compiler."""


class NotPossible(Exception):
    """The broker cannot be had here; the text is one line for people."""


class NotStarted(Exception):
    """The broker is here and did not come up; the text has the last lines that it wrote."""


@dataclass(slots=True)
class Broker:
    """A running broker. `pid` is the process of the JVM's guard."""

    address: str
    guard: Guarded

    def stop(self) -> None:
        self.guard.stop()


def classpath() -> str:
    """The class path of the jars, through Maven the first time. Errors: NotPossible."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nadi"
    kept = cache / f"kafka-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}.classpath"
    if kept.exists() and all(Path(jar).exists() for jar in kept.read_text().split(os.pathsep)):
        return kept.read_text()
    maven = shutil.which("mvn")
    if maven is None:
        raise NotPossible(
            "the broker's jars come through Maven, and there is no mvn: install it (Debian: apt-get install maven)"
        )
    cache.mkdir(parents=True, exist_ok=True)
    print("fetching the jars of the broker (once)", file=sys.stderr)
    made = kept.with_suffix(f".{os.getpid()}")
    command = [maven, "-q", "-B", "-f", str(POM), "dependency:build-classpath", f"-Dmdep.outputFile={made}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not made.exists():
        lines = [line for line in done.stdout.splitlines() if "ERROR" in line] or ["no reason given"]
        raise NotPossible(f"Maven could not fetch the broker's jars: {lines[0]}")
    made.replace(kept)
    return kept.read_text()


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM of a broker that speaks TLS, and of the authority that has signed those of its clients."""

    authority: Path
    certificate: Path
    key: Path


def start(folder: Path, port: int = 0, java_options: Sequence[str] = QUICK, tls: Certificates | None = None) -> Broker:
    """Start a broker with its data in `folder` and wait until it answers; it ends with this process. Errors: NotPossible, NotStarted."""
    home = os.environ.get("JAVA_HOME")
    java = (shutil.which("java", path=f"{home}/bin") if home else None) or shutil.which("java")
    if java is None:
        raise NotPossible("the broker needs Java 17 or newer, and there is no java: run `make java`")
    jars = classpath()
    folder.mkdir(parents=True, exist_ok=True)
    # None of those that the system gives to connections that go out: it would be taken, or answer to ourselves, before the broker has it.
    port = port or free_port()
    while (controller := free_port()) == port:
        continue
    config, log = folder / "server.properties", folder / "broker.log"
    protocol = "PLAINTEXT" if tls is None else "SSL"
    properties = PROPERTIES.format(protocol=protocol, port=port, controller=controller, data=folder / "data")
    if tls is not None:
        store = folder / "broker.pem"
        store.touch(mode=0o600)
        store.write_text(tls.key.read_text() + tls.certificate.read_text())
        properties += TLS.format(store=store, authority=tls.authority)
    config.write_text(properties)
    if not (folder / "data" / "meta.properties").exists():
        tool = [java, "-cp", jars, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(config)]
        done = subprocess.run(tool, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotPossible(
                f"the broker's folder could not be prepared: {(done.stderr or done.stdout).strip().splitlines()[-1]}"
            )
    command = [java, *java_options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", jars, "kafka.Kafka"]
    guard = guarded([*command, str(config)], log, folder / "lock")
    until = time.monotonic() + READY_WITHIN
    while time.monotonic() < until and guard.running():
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return Broker(f"127.0.0.1:{port}", guard)
        except OSError:
            time.sleep(0.1)
    guard.stop()
    last = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise NotStarted(f"the broker did not start on port {port}, see {log}; it ends with:\n{last}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=19092)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    folder = arguments.data or Path(tempfile.mkdtemp(prefix="nadi-kafka-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process is started deaf to it
    try:
        broker = start(folder.resolve(), arguments.port)
        try:
            print(f"Kafka broker on {broker.address}; Ctrl-C stops it", flush=True)
            code = broker.guard.wait()
            print(f"the broker ended with {code}, see {folder / 'broker.log'}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("stopped")
            return 0
        finally:
            broker.stop()
    except (NotPossible, NotStarted) as reason:
        print(reason, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        if not arguments.data:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
