"""Builds the connector's jar into the package where there is a javac and Spark; elsewhere the first start builds it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConnectorHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # Not imported by its name: what the package needs is not installed here.
        described = importlib.util.spec_from_file_location(
            "connector_build", Path(self.root, "src/nadi/pipeline/connector/build.py")
        )
        build = importlib.util.module_from_spec(described)
        described.loader.exec_module(build)
        home = os.environ.get("JAVA_HOME")
        javac = build.javac_of(shutil.which("java", path=f"{home}/bin" if home else None))
        # pip hides what is installed from whoever builds, but not where.
        pyspark = Path(sysconfig.get_path("purelib"), "pyspark")
        if javac is None or not (pyspark / "jars").is_dir():
            return
        if build.stamp_of(build.SHIPPED) != build.stamp(pyspark):
            with contextlib.suppress(build.NotCompiled):
                build.build(build.by_javac(javac), pyspark, build.SHIPPED)
