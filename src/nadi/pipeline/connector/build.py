"""Building the connector's jar from its Java sources, with javac or with Janino, the compiler that Spark brings: then a Java without javac will do.

Needs nothing but Python: the hook that builds the jar into a wheel runs where nothing is installed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parent
SHIPPED = FOLDER / "connector.jar"
"""Where the jar is that was built with the package."""

_STAMP = "Nadi-Stamp"
_MANIFEST = "META-INF/MANIFEST.MF"
_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can name: the same sources give the same jar
_WITHIN = 300.0  # seconds
_RELEASE = "17"
_JANINO = "org.codehaus.commons.compiler.samples.CompilerDemo"


class NotCompiled(Exception):
    """A compiler has failed; the message is what it said."""


def sources() -> list[Path]:
    """The Java sources."""
    return sorted((FOLDER / "java").rglob("*.java"))


def stamp(pyspark: Path) -> str:
    """Tells one state of the sources, and the PySpark (the folder of the package) that they are compiled for, from another."""
    told = hashlib.sha256(_version(pyspark).encode())
    for source in sources():
        told.update(f"\0{source.name}\0".encode() + source.read_bytes())
    return told.hexdigest()


def _version(pyspark: Path) -> str:
    found = re.search(r'__version__[^=]*=\s*"([^"]+)"', (pyspark / "version.py").read_text(encoding="utf-8"))
    return found[1] if found else ""


def stamp_of(jar: Path) -> str:
    """The stamp of what a jar was made of; empty where it is none of ours, or not there."""
    try:
        with zipfile.ZipFile(jar) as opened:
            manifest = opened.read(_MANIFEST).decode()
    except (OSError, KeyError, zipfile.BadZipFile):
        return ""
    lines = (line.partition(": ") for line in manifest.splitlines())
    return next((value for name, _, value in lines if name == _STAMP), "")


def javac_of(java: str | None) -> str | None:
    """The javac that came with a Java (the path of its program), else the one on the path, else None."""
    if java is not None:
        beside = Path(java).resolve().with_name("javac")
        if beside.exists():
            return str(beside)
    return shutil.which("javac")


Compiler = Callable[[Path, Path], None]
"""Compiles the sources for a PySpark (the first folder) into classes (in the second). Errors: NotCompiled."""


def by_javac(javac: str) -> Compiler:
    """Compile with a javac (the path of its program)."""

    def compiled(pyspark: Path, classes: Path) -> None:
        options = ["--release", _RELEASE, "-proc:none", "-nowarn", "-encoding", "UTF-8", "-cp", f"{pyspark}/jars/*"]
        _run([javac, *options, "-d", str(classes), *map(str, sources())])

    return compiled


def by_janino(java: str) -> Compiler:
    """Compile with Spark's Janino, in a Java (the path of its program) that ends with it."""

    def compiled(pyspark: Path, classes: Path) -> None:
        jars = sorted(str(jar) for jar in (pyspark / "jars").glob("*.jar"))
        small = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", f"{pyspark}/jars/*"]
        options = ["-g", "-encoding", "UTF-8", "-classpath", os.pathsep.join(jars), "-d", str(classes)]
        _run([java, *small, _JANINO, *options, *map(str, sources())])

    return compiled


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WITHIN, check=False)
    except (OSError, subprocess.TimeoutExpired) as reason:
        raise NotCompiled(str(reason)) from reason
    if done.returncode != 0:
        told = (done.stderr + done.stdout).decode(errors="replace").strip()
        raise NotCompiled(f"{Path(command[0]).name} ended with status {done.returncode}: {told[:1000]}")


def build(compiler: Compiler, pyspark: Path, jar: Path) -> None:
    """Make the jar, in one step for whoever looks for it. Errors: NotCompiled, OSError."""
    with tempfile.TemporaryDirectory(prefix="nadi-connector-") as made:
        classes = Path(made)
        jar.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        compiler(pyspark, classes)
        descriptor, fresh = tempfile.mkstemp(dir=jar.parent, prefix=f".{jar.name}-")
        try:
            with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w") as archive:
                _pack(archive, classes, stamp(pyspark))
            Path(fresh).chmod(0o644)
            Path(fresh).replace(jar)
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise


def _pack(archive: zipfile.ZipFile, classes: Path, told: str) -> None:
    def add(name: str, content: bytes) -> None:
        entry = zipfile.ZipInfo(name, _TIME)
        entry.external_attr = 0o644 << 16
        archive.writestr(entry, content, zipfile.ZIP_DEFLATED)

    add(_MANIFEST, f"Manifest-Version: 1.0\r\n{_STAMP}: {told}\r\n\r\n".encode())
    for file in sorted(classes.rglob("*.class")):
        add(file.relative_to(classes).as_posix(), file.read_bytes())
