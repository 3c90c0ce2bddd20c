"""Patterns and sequences (semantics/patterns.md): one machine, whose elements differ in a few rules, and a lighter one for chains of plain elements.

Start with `machine`; `chain` is the lighter one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nadi.kernel.rows.patterns.chain import ChainRuntime
from nadi.kernel.rows.patterns.runtime import StateRuntime
from nadi.plan.chains import as_chain

if TYPE_CHECKING:
    from nadi.functions.registry import Registry
    from nadi.kernel.rows.compile import Searchable
    from nadi.kernel.rows.events import Group
    from nadi.kernel.rows.flow import Flow
    from nadi.plan.nodes import StateInput

__all__ = ["ChainRuntime", "StateRuntime", "state_runtime"]


def state_runtime(
    plan: StateInput,
    flow: Flow,
    tables: Mapping[str, Searchable],
    registry: Registry,
    emit: Callable[[Group], None],
) -> ChainRuntime | StateRuntime:
    """What runs a pattern or sequence; completed matches go to `emit`, as `StateRuntime` says."""
    chain = as_chain(plan, flow.compat)
    if chain is None:
        return StateRuntime(plan, flow, tables, registry, emit)
    return ChainRuntime(chain, plan, flow, tables, registry, emit)
