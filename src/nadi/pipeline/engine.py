"""The engine that the pipeline runs: kernels with the built-in registry. Tests may name another module with the same functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nadi.config.settings import KERNEL
from nadi.functions.registry import default_registry
from nadi.kernel.columns.choosing import chosen
from nadi.kernel.contract import Kernel
from nadi.kernel.rows.engine import RowsKernel
from nadi.lang import parse_on_demand
from nadi.plan import bind_on_demand
from nadi.plan import plan_app as plan_text
from nadi.plan.columns.islands import Islands
from nadi.plan.nodes import App, OnDemand
from nadi.runtime.sandbox import Sandbox

if TYPE_CHECKING:
    from nadi.kernel.columns.engine import ColumnsKernel


def plan_app(text: str, connections: Mapping[str, str] | None = None) -> App:
    """The plan of a text; `connections` are the values that it does not have itself. Errors: those of the language and of the plan."""
    return plan_text(text, default_registry(), connections=connections)


def plan_on_demand(app: App, text: str) -> OnDemand:
    """An on-demand query over the stores of an app. Errors: SiddhiParserException, OnDemandQueryCreationException."""
    return bind_on_demand(parse_on_demand(text), app, default_registry(), text=text)


def make_kernel(
    app: App, outputs: tuple[str, ...], bucket: int = 0, properties: Mapping[str, str] | None = None
) -> Kernel:
    """A kernel without state; `bucket` keeps what two of them make up (UUIDs) apart, `properties` are those of the node (`Settings.of_kernels`).

    Errors: those of scripts, stores and properties; NOT_SUPPORTED where columns are asked for and the app cannot run there.
    """

    return chosen(app, (properties or {}).get(KERNEL, "rows"), outputs, _Makes(bucket, properties))


@dataclass(frozen=True, slots=True)
class _Makes:
    """What makes the kernels of one bucket."""

    bucket: int
    properties: Mapping[str, str] | None

    def rows(self, app: App, outputs: Collection[str]) -> RowsKernel:
        return RowsKernel(app, default_registry(), outputs, self.bucket, self.properties, Sandbox)

    def columns(self, app: App, outputs: Collection[str], part: Islands) -> ColumnsKernel:
        # imported when it is needed: Numba takes a while
        from nadi.kernel.columns.engine import ColumnsKernel

        return ColumnsKernel(app, default_registry(), outputs, part)
