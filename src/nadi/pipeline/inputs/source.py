"""The one Python data source of a query.

Spark makes it in half a dozen processes of its own before the first batch, most of which only ask for its name or schema: each loads what it
needs, and no more.
"""

# mypy: disallow-subclassing-any=False
# PySpark's types are not followed (see pyproject.toml), and its interfaces are base classes.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from nadi.pipeline.inputs.reader import AppReader

SCHEMA = "bk int, head binary, body binary"
"""Of fat rows (`nadi.pipeline.inputs.fatrows`)."""


class AppSource(DataSource):
    """Options: `spec`, the AppSpec as JSON."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._described = options["spec"]

    @classmethod
    def name(cls) -> str:
        return "nadi_app"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: object) -> AppReader:  # noqa: N802
        from nadi.pipeline.inputs.reader import AppReader
        from nadi.pipeline.spec import AppSpec

        return AppReader(AppSpec.from_json(self._described))
