"""Queries and partitions: input, selection, rate and output together (semantics/events.md#a-query)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nadi.errors import NadiError, did_you_mean
from nadi.lang import tree
from nadi.lang.tree import Annotation, Events
from nadi.plan.annotations import element, first, time_of
from nadi.plan.context import Context
from nadi.plan.expressions import Expressions
from nadi.plan.inputs import bind_single
from nadi.plan.joins import bind_join
from nadi.plan.names import Names
from nadi.plan.nodes import Input, Partition, Query, RangeKey, Rate, ValueKey
from nadi.plan.outputs import bind_output
from nadi.plan.patterns import bind_state
from nadi.plan.scopes import Scope, one_row
from nadi.plan.selection import bind_selection

_DEFAULT_PURGE_INTERVAL = 5 * 60 * 1000
_ANONYMOUS = "anonymous"


@dataclass(slots=True)
class Queries:
    """Binds queries in the order of the text."""

    context: Context
    names: Names

    def query(self, node: tree.Query) -> tuple[Query, ...]:
        """The query, after those of the anonymous streams that it reads."""
        name, query_id = self.names.query(node.annotations)
        return self._named(node, name, query_id)

    def _named(self, node: tree.Query, name: str, query_id: str) -> tuple[Query, ...]:
        before: tuple[Query, ...] = ()
        source = node.input
        if isinstance(source, tree.AnonymousInput):
            before, source = self._anonymous(source, name, query_id)
        path = f"{query_id}/"
        bound, scope, several = self._input(source, path)
        selection = bind_selection(self.context, node.selection, scope, several)
        rate = self._rate(node.rate, path)
        output = bind_output(self.context, self._output(node), selection.schema)
        made = Query(query_id, name, bound, selection, output, rate, self.context.partition, node.annotations)
        return (*before, made)

    def _input(self, node: tree.SingleInput | tree.JoinInput | tree.StateInput, path: str) -> tuple[Input, Scope, bool]:
        match node:
            case tree.SingleInput():
                return (*bind_single(self.context, node, path), False)
            case tree.JoinInput():
                return (*bind_join(self.context, node, path), True)
            case tree.StateInput():
                return (*bind_state(self.context, node, path), True)

    def _anonymous(
        self, node: tree.AnonymousInput, name: str, query_id: str
    ) -> tuple[tuple[Query, ...], tree.SingleInput]:
        """`from (from … return)`: a query of its own into a stream that has no other use."""
        stream = self.names.anonymous_stream()
        while self.context.taken(stream):
            stream = self.names.anonymous_stream()
        target = tree.Source(stream, inner=self.context.partition is not None, span=node.span)
        given = node.query.output
        events = given.events if isinstance(given, tree.Return) else None
        inner = tree.Query(
            node.query.input,
            node.query.selection,
            tree.InsertInto(target, events, span=node.span),
            node.query.rate,
            node.query.annotations,
            span=node.query.span,
        )
        before = self._named(inner, f"{name}_{_ANONYMOUS}", f"{query_id}/{_ANONYMOUS}")
        return before, tree.SingleInput(target, node.handlers, span=node.span)

    def _output(self, node: tree.Query) -> tree.Output:
        """The output; from 5.x on that of a snapshot is of all events: it shows what is held, so it has to learn what comes and what leaves."""
        output, rate = node.output, node.rate
        if rate is None or rate.kind != "snapshot" or self.context.compat < 5:
            return output
        if output.events not in (None, Events.ALL):
            reason = "'output snapshot' shows what is held: it needs 'all events'"
            raise self.context.fail("INVALID_QUERY", output.span, reason=reason)
        return replace(output, events=Events.ALL)

    def _rate(self, node: tree.Rate | None, path: str) -> Rate | None:
        if node is None:
            return None
        if node.events is not None and node.events < 1:
            raise self.context.fail("INVALID_QUERY", node.span, reason="'output … every n events' needs n from 1")
        every = node.every.milliseconds if node.every is not None else None
        if every is not None and every < 1:
            raise self.context.fail("INVALID_QUERY", node.span, reason="'output … every' needs a time above 0")
        return Rate(f"{path}rate", node.kind or "all", every, node.events)


# ---- partitions ----------------------------------------------------------------------------------------------------


def partition_keys(context: Context, node: tree.Partition) -> tuple[ValueKey | RangeKey, ...]:
    """The keys of a partition; their streams must be defined before it.

    Raises:
        STREAM_NOT_DEFINED: a stream is not.
        INVALID_QUERY: a stream has two keys.
    """
    keys: list[ValueKey | RangeKey] = []
    for key in node.keys:
        if any(k.stream == key.stream for k in keys):
            reason = f"the stream '{key.stream}' has two keys in one partition"
            raise context.fail("INVALID_QUERY", key.span, reason=reason)
        keys.append(_key(context, key))
    return tuple(keys)


def _key(context: Context, key: tree.ValueKey | tree.RangeKey) -> ValueKey | RangeKey:
    known = context.streams.get(key.stream) or context.windows.get(key.stream)
    if known is None:
        hint = did_you_mean(key.stream, context.readable())
        raise context.fail("STREAM_NOT_DEFINED", key.span, name=key.stream, hint=hint)
    binder = Expressions(context, one_row(known.schema, key.stream), where="partition key")
    if isinstance(key, tree.ValueKey):
        return ValueKey(key.stream, binder.bind(key.expression))
    ranges = tuple((label, binder.condition(c, "range of a partition")) for c, label in key.ranges)
    return RangeKey(key.stream, ranges)


def purge_times(context: Context, annotations: tuple[Annotation, ...]) -> tuple[int | None, int | None]:
    """Idle period and interval of `@purge`, in ms; None and None where keys are kept.

    Raises:
        INVALID_ANNOTATION: enable or idle.period is missing.
        ANNOTATION_REJECTED: one of them is no time.
    """
    purge = first(annotations, "purge")
    if purge is None:
        return None, None
    enable = element(purge, "enable")
    if enable is None or enable.value.lower() not in ("true", "false"):
        reason = f"it needs enable='true' or enable='false'{'' if enable is None else f', not {enable.value!r}'}"
        raise context.fail("INVALID_ANNOTATION", purge.span, name=purge.name, reason=reason)
    idle = element(purge, "idle.period")
    if idle is None:
        reason = "idle.period is missing: how long a key must be idle before its state is dropped"
        raise context.fail("INVALID_ANNOTATION", purge.span, name=purge.name, reason=reason)
    interval = element(purge, "interval")
    after = time_of(context, idle, purge)
    every = _DEFAULT_PURGE_INTERVAL if interval is None else time_of(context, interval, purge)
    return (after, every) if enable.value.lower() == "true" else (None, None)


def bind_partition(queries: Queries, node: tree.Partition, failed: list[NadiError] | None) -> Partition | None:
    """A partition and its queries.

    Errors are raised, or (where `failed` is given) appended there, query by query; None where its keys cannot be bound.
    """
    context = queries.context
    partition_id = queries.names.partition(node.annotations)
    try:
        keys = partition_keys(context, node)
        idle, interval = purge_times(context, node.annotations)
    except NadiError as found:
        if failed is None:
            raise
        _skip_partition(queries, node, found, failed)
        return None
    context.partition = partition_id
    try:
        bound: list[Query] = []
        for query in node.queries:
            bound.extend(bind_query(queries, query, failed))
    finally:
        context.partition = None
    return Partition(partition_id, keys, tuple(bound), idle, interval, node.annotations)


def _skip_partition(queries: Queries, node: tree.Partition, found: NadiError, failed: list[NadiError]) -> None:
    if not queries.context.unknown & {k.stream for k in node.keys} and not queries.context.follows(found):
        failed.append(found)
    for query in node.queries:
        queries.names.query(query.annotations)
        _forget(queries.context, query)


# ---- going on after an error ---------------------------------------------------------------------------------------


def bind_query(queries: Queries, node: tree.Query, failed: list[NadiError] | None) -> tuple[Query, ...]:
    """A query. An error is raised, or appended to `failed`; then what reads the query's target is not reported again."""
    context = queries.context
    used = sources(node.input) if isinstance(node.output, tree.Return) else [*sources(node.input), node.output.target]
    if failed is not None and context.unknown & {context.key(s) for s in used}:
        queries.names.query(node.annotations)
        _forget(context, node)
        return ()
    try:
        return queries.query(node)
    except NadiError as found:
        if failed is None:
            raise
        if not context.follows(found):
            failed.append(found)
        _forget(context, node)
        return ()


def _forget(context: Context, node: tree.Query) -> None:
    if isinstance(node.output, tree.InsertInto):
        key = context.key(node.output.target)
        if not context.taken(key):
            context.unknown.add(key)


def sources(node: tree.Input) -> list[tree.Source]:
    """What an input reads."""
    match node:
        case tree.SingleInput():
            return [node.source]
        case tree.JoinInput():
            return [node.left.source, node.right.source]
        case tree.AnonymousInput():
            return sources(node.query.input)
        case tree.StateInput():
            return _state_sources(node.state)


def _state_sources(state: tree.State) -> list[tree.Source]:
    match state:
        case tree.StreamState() | tree.AbsentState():
            return [state.input.source]
        case tree.CountState() | tree.EveryState():
            return _state_sources(state.state)
        case tree.LogicalState():
            return [*_state_sources(state.left), *_state_sources(state.right)]
        case tree.NextState():
            return [source for s in state.states for source in _state_sources(s)]
