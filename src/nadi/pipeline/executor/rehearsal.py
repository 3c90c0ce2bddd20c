"""What a host does before an app comes to it that is expected: it loads the modules of its connectors and the compiled loops, and runs these once."""

from __future__ import annotations

from collections.abc import Sequence

from nadi.functions.registry import default_registry
from nadi.io import warmup
from nadi.io.registry import connectors, sink_kind, source_kind
from nadi.plan import plan_app
from nadi.plan.columns.islands import islands


def rehearse(text: str, outputs: Sequence[str], columns: bool) -> None:
    """Nothing of it is kept but what the process has loaded. `outputs` are the streams whose rows are wanted; `columns`: kernels may run on these.

    Errors: those of the text and its connectors.
    """
    registry = default_registry()
    app = plan_app(text, registry)
    for connector in connectors(app, "source"):
        source_kind(connector.type)
    for connector in connectors(app, "sink"):
        sink_kind(connector.type)
    if not columns:
        return
    for loops in warmup.needed(app):
        warmup.warm(loops)
    if islands(app).order:
        # imported when it is needed: Numba takes a while
        from nadi.kernel.columns.warming import warm

        warm(app, registry, outputs)
