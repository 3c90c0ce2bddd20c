"""The connector's jar: the one that was built with the package, else one that this user has built before, else one that is built now."""

from __future__ import annotations

from pathlib import Path

from nadi.errors import error
from nadi.kernel.columns.cached import java_folder
from nadi.pipeline.connector import build
from nadi.pipeline.connector.build import NotCompiled, by_janino, by_javac, javac_of, stamp_of


def ensure_jar(java: str) -> Path:
    """The jar for the installed PySpark, with the compiler of a Java (the path of its program) where it has to be built.

    Errors: CONNECTOR_NOT_BUILT.
    """
    import pyspark

    installed = Path(pyspark.__file__).parent
    stamp = build.stamp(installed)
    if stamp_of(build.SHIPPED) == stamp:
        return build.SHIPPED
    kept = java_folder() / f"connector-{stamp[:16]}.jar"
    if stamp_of(kept) != stamp:
        _build(java, installed, kept)
    return kept


def _build(java: str, installed: Path, jar: Path) -> None:
    javac = javac_of(java)
    compilers = ([by_javac(javac)] if javac else []) + [by_janino(java)]
    failed = []
    for compiler in compilers:
        try:
            return build.build(compiler, installed, jar)
        except NotCompiled as reason:
            failed.append(str(reason))
        except OSError as reason:
            raise error("CONNECTOR_NOT_BUILT", reason=reason, folder=jar.parent) from reason
    raise error("CONNECTOR_NOT_BUILT", reason="; ".join(failed), folder=jar.parent)
