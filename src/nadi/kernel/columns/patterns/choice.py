"""Which operator runs a pattern or sequence."""

from __future__ import annotations

from nadi.kernel.columns.patterns.absentend import AbsentEnd
from nadi.kernel.columns.patterns.chain import ChainPattern
from nadi.kernel.columns.patterns.matching import Automaton
from nadi.kernel.columns.patterns.run import Sequence
from nadi.kernel.columns.patterns.sequencing import SequenceAutomaton, TimedSequence
from nadi.kernel.columns.patterns.timedmatching import TimedAutomaton
from nadi.plan.chains import as_led, as_run, waits
from nadi.plan.nodes import App, Query, StateInput


def pattern(query: Query, app: App) -> ChainPattern | AbsentEnd | Sequence | Automaton:
    """The operator of a query without aggregators over matches."""
    source = query.input
    assert isinstance(source, StateInput)  # the caller has looked
    if source.sequence:
        if as_run(source, app.compat) is not None:
            return Sequence(query, app)
        return TimedSequence(query, app) if waits(source) else SequenceAutomaton(query, app)
    chain = as_led(source, app.compat)
    if chain is None or (chain.waiting is not None and query.partition is not None):
        return TimedAutomaton(query, app) if waits(source) else Automaton(query, app)
    return ChainPattern(query, app) if chain.waiting is None else AbsentEnd(query, app)
