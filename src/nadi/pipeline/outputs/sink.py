"""The Python data sink of a query. As with its source (`nadi.pipeline.inputs.source`), a process that only makes it loads no more than that."""

# mypy: disallow-subclassing-any=False
# PySpark's types are not followed (see pyproject.toml), and its interfaces are base classes.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from nadi.pipeline.daemon import freeze_first

if TYPE_CHECKING:
    from nadi.pipeline.outputs.sinkstage import AppWriter


class AppSink(DataSource):
    """Options: `spec`, the AppSpec as JSON; `jvm`, the process id of the driver's JVM."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._described = options["spec"]
        self._jvm = int(options["jvm"])

    @classmethod
    def name(cls) -> str:
        return "nadi_sink"

    def streamWriter(self, schema: object, overwrite: bool) -> AppWriter:  # noqa: N802
        from nadi.pipeline.outputs.sinkstage import AppWriter
        from nadi.pipeline.spec import AppSpec

        freeze_first()
        return AppWriter(AppSpec.from_json(self._described), self._jvm)
