"""`@purge` on columns: which queries of a partition can forget a key there.

All queries of such a partition run on the same kernel, as the keys are those of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from nadi.plan.aggregatortraits import PURGED
from nadi.plan.chains import as_led, as_run
from nadi.plan.columns.matchsums import sums
from nadi.plan.columns.turns import by_arrival
from nadi.plan.columns.windowsupport import shows_expired
from nadi.plan.nodes import App, JoinInput, Query, SingleInput, StateInput
from nadi.plan.owners import keys_of
from nadi.plan.walk import read
from nadi.plan.windowtraits import SLIDING


def obstacles(query: Query, app: App) -> Iterator[str]:
    """What keeps a query in a partition with `@purge` on rows."""
    if not keys_of(query, app):
        return
    source, selection = query.input, query.selection
    if app.playback is not None:
        yield "@purge goes by the clock of arrivals, which columns do not have in playback"
    for stream in dict.fromkeys(read(query).values()):
        inner = stream in app.streams and app.streams[stream].partition is not None
        if not inner and not by_arrival(stream, app):
            yield f"@purge meets events of '{stream}' that come by timers, of which only rows know whether they come before it"
    if isinstance(source, JoinInput):
        yield "@purge of what a join holds has no operator yet"
    if shows_expired(query):
        yield "@purge of a window whose expired events come out has no operator yet"
    if query.rate is not None:
        yield "@purge of what an output rate holds has no operator yet"
    if sums(query):
        yield "@purge of aggregators over matches has no operator yet"
    if isinstance(source, SingleInput):
        if source.window is not None and not source.window.has(SLIDING):
            yield f"@purge of the window '{source.window.name}' has no operator yet"
        for aggregate in selection.aggregates:
            if not aggregate.has(PURGED):
                yield f"@purge of {aggregate.function}() has no operator yet"
    if isinstance(source, StateInput) and source.sequence and as_run(source, app.compat) is None:
        yield "@purge of sequences with logical or absent elements has no operator yet"
    if isinstance(source, StateInput) and not source.sequence:
        chain = as_led(source, app.compat)
        if chain is None or chain.waiting is not None:
            yield "@purge of patterns other than chains of plain elements has no operator yet"
