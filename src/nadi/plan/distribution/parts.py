"""The parts that an app is cut into: its queries and partitions, and its aggregations, each with what it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, field

from nadi.errors import Span
from nadi.lang import print_node, tree
from nadi.plan.context import Context
from nadi.plan.distribution.dist import check_inside, exec_group, parallel, place_of
from nadi.plan.distribution.model import Key
from nadi.plan.distribution.splitkeys import key_of, unfit
from nadi.plan.distribution.streamnames import bare
from nadi.plan.names import Names
from nadi.plan.nodes import App, Expr, InsertIntoStream, Partition, Query, RangeKey, ReturnEvents, ValueKey
from nadi.plan.walk import read, searched


@dataclass(frozen=True, slots=True)
class Part:
    """A query or partition. `ids` are those of its tree's queries, in order (of a partition: its own first), under which their states are kept.

    `keys` are what a partition splits its streams by, None for ranges; `unfit` says why others cannot tell a key.
    `streams` and `stored` are what it reads and looks into; `written` what it changes.
    """

    node: tree.ExecutionElement
    ids: tuple[str, ...]
    queries: tuple[Query, ...]
    exec_group: str
    parallel: int
    keys: dict[str, Key | None] = field(hash=False)
    unfit: dict[str, str] = field(hash=False)
    streams: frozenset[str]
    stored: frozenset[str]
    written: frozenset[str]

    @property
    def id(self) -> str:
        return self.ids[0]

    @property
    def in_partition(self) -> bool:
        return isinstance(self.node, tree.Partition)

    @property
    def span(self) -> Span:
        """Where the reader should look: at its @dist, where it has one."""
        return place_of(self.node.annotations, self.node.span)

    @property
    def touched(self) -> frozenset[str]:
        return self.streams | self.stored | self.written


def parts_of(context: Context, app: tree.SiddhiApp, plan: App) -> tuple[Part, ...]:
    """The queries and partitions of an app, in the order of the text.

    Raises:
        DIST_PARALLEL_INVALID, DIST_INSIDE_PARTITION.
    """
    names = Names(taken={*plan.tables, *plan.windows, *plan.triggers, *plan.aggregations})
    return tuple(_part(context, plan, names, node) for node in app.elements)


def _part(context: Context, plan: App, names: Names, node: tree.ExecutionElement) -> Part:
    keys: dict[str, Key | None] = {}
    reasons: dict[str, str] = {}
    looked: set[str] = set()
    if isinstance(node, tree.Partition):
        check_inside(context, node)
        ids = (names.partition(node.annotations), *(names.query(q.annotations)[1] for q in node.queries))
        bound = next(e for e in plan.elements if isinstance(e, Partition) and e.id == ids[0])
        queries = bound.queries
        for given, key in zip(node.keys, bound.keys):
            keys[key.stream] = None if isinstance(key, RangeKey) else _key(given, key.value)
            if isinstance(key, ValueKey) and (reason := unfit(plan, key.value)):
                reasons[key.stream] = reason
        looked = searched(bound.keys)
    else:
        ids = (names.query(node.annotations)[1],)
        begins = f"{ids[0]}/"
        queries = tuple(q for q in plan.queries if q.id == ids[0] or q.id.startswith(begins))
    # also streams that only bring keys: what has none goes to the keys that were seen
    read_here = {s for q in queries for s in read(q).values()} | keys.keys()
    unnamed = {q.output.target for q in queries if isinstance(q.output, InsertIntoStream) and _is_anonymous(q)}
    own = {s for s in plan.streams if s in unnamed or plan.streams[s].partition is not None}
    stored = {s for s in read_here if s not in plan.streams} | looked.union(*map(searched, queries))
    written = {q.output.target for q in queries if not isinstance(q.output, ReturnEvents)} - own
    annotations = node.annotations
    return Part(
        node,
        ids,
        queries,
        exec_group(annotations),
        parallel(context, annotations),
        keys,
        reasons,
        frozenset({s for s in read_here if s in plan.streams} - own),
        frozenset(stored),
        frozenset(written),
    )


def _is_anonymous(query: Query) -> bool:
    """Whether a query is the one in `from (from … return)`: what it makes stays inside of the part, as inner streams do."""
    return query.id.endswith("/anonymous")


def _key(given: tree.ValueKey | tree.RangeKey, value: Expr) -> Key:
    assert isinstance(given, tree.ValueKey)  # the plan has no ranges here
    return key_of(value, print_node(bare(given.expression)))
