"""Tables in a store (semantics/tables.md#stores): what `@store` and `@cache` say, and how conditions are put to a store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nadi.errors import did_you_mean, error, nearest
from nadi.lang.tree import Annotation
from nadi.plan.annotations import check_positive, element, first, time_of
from nadi.plan.context import Context
from nadi.plan.nodes import (
    TABLE,
    Arithmetic,
    Attr,
    Cache,
    Call,
    Comparison,
    Const,
    Expr,
    InTable,
    Logic,
    Negation,
    NullCheck,
    Storage,
    links,
)
from nadi.plan.walk import inside

IN_STATE = ("inmemory", "in-memory")
"""Types of store that mean what a table without @store is."""

POLICIES = ("FIFO", "LRU", "LFU")
CACHE_OPTIONS = ("size", "cache.policy", "retention.period", "purge.interval")


# ---- annotations ---------------------------------------------------------------------------------------------------


def storage_of(context: Context, annotations: tuple[Annotation, ...]) -> Storage | None:
    """From `@store(type='…', …, @cache(…))`; None where the rows are kept in the app's state.

    Raises:
        ExtensionNotFoundException: EXTENSION_NOT_FOUND, nothing is registered for the type.
        SiddhiAppCreationException: INVALID_ANNOTATION, there is no type, or a @cache that is none, also where rows in the state need no cache.
        OperationNotSupportedException: NOT_SUPPORTED, `ref`, or `ownership='app'`.
    """
    store = first(annotations, "store")
    if store is None:
        return None
    for key, value, alternative in (
        ("ref", None, "name it in siddhi.refs of a deployment.yaml, or write the options in the app"),
        ("ownership", "app", "leave @store out: the table is then a part of the app's state"),
    ):
        given = element(store, key)
        if given is not None and (value is None or given.value.lower() == value):
            what = f"{key}='{given.value}' in @store"
            raise context.fail("NOT_SUPPORTED", given.span, what=what, alternative=alternative)
    kind = store.get("type")
    if kind is None:
        raise context.fail("INVALID_ANNOTATION", store.span, name=store.name, reason="it needs a type, as in type='…'")
    kind = kind.strip().lower()
    caches = store.all("cache")
    if kind in IN_STATE:
        if caches:
            _cache(context, caches[0])
        return None
    known = context.catalog.store(kind)
    if known is None:
        hint = did_you_mean(kind, [*context.catalog.names("store"), IN_STATE[0]])
        raise context.fail("EXTENSION_NOT_FOUND", store.place("type"), name=kind, what="store", hint=hint)
    options = tuple((e.key.lower(), e.value) for e in store.elements if e.key.lower() != "type")
    return Storage(kind, options, _cache(context, caches[0]) if caches else None, known.once)


def _cache(context: Context, given: Annotation) -> Cache:
    for option in given.elements:
        if option.key.lower() not in CACHE_OPTIONS:
            near = nearest(option.key.lower(), CACHE_OPTIONS)
            hint = f": did you mean '{near}'?" if near else ""
            reason = f"it takes {', '.join(CACHE_OPTIONS)}, not '{option.key or option.value}'{hint}"
            raise context.fail("INVALID_ANNOTATION", option.span, name=given.name, reason=reason)
    size = element(given, "size")
    if size is None:
        raise context.fail("INVALID_ANNOTATION", given.span, name=given.name, reason="it needs a size, as in size='10'")
    check_positive(context, given, "size")
    policy = (given.get("cache.policy") or "FIFO").upper()
    if policy not in POLICIES:
        reason = f"cache.policy is {', '.join(POLICIES)}, not '{policy}'"
        raise context.fail("INVALID_ANNOTATION", given.span, name=given.name, reason=reason)
    retention, interval = element(given, "retention.period"), element(given, "purge.interval")
    if retention is None:
        return Cache(int(size.value), policy)
    kept = time_of(context, retention)
    return Cache(int(size.value), policy, kept, kept if interval is None else time_of(context, interval))


# ---- conditions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """What is put to a store: condition and changes over a row of values (slot 0) and the table's row, and how the values are computed."""

    condition: Expr | None
    changes: tuple[tuple[int, Expr], ...] = ()
    values: tuple[Expr, ...] = ()


def asked(condition: Expr | None, changes: tuple[tuple[int, Expr], ...] = (), slot: int = TABLE) -> Asked:
    """Divides a condition, and what `set` assigns, into what only the store can evaluate and what the kernel can beforehand.

    Every part that does not mention the row of the table (which stands in `slot`) and is no constant becomes a value.

    Raises:
        OperationNotSupportedException: NOT_SUPPORTED, `in` over the row of the table, which is one table's condition about another.

    >>> from nadi.lang.tree import Type
    >>> price, mine = Attr(TABLE, 1, Type.DOUBLE), Attr(0, 0, Type.DOUBLE)
    >>> double = Arithmetic("*", mine, Const(2, Type.INT), Type.DOUBLE)
    >>> found = asked(Comparison(">", price, double))
    >>> found.values == (double,), found.condition == Comparison(">", price, Attr(0, 0, Type.DOUBLE))
    (True, True)
    """
    division = _Division(slot)
    divided = None if condition is None else division.of(condition)
    assigned = tuple((column, division.of(value)) for column, value in changes)
    return Asked(divided, assigned, tuple(division.values))


@dataclass(slots=True)
class _Division:
    slot: int
    values: list[Expr] = field(default_factory=list)

    def of(self, expr: Expr) -> Expr:
        if isinstance(expr, Const):
            return expr
        if not self._mentions(expr):
            return self._value(expr)
        match expr:
            case Attr():
                return replace(expr, slot=TABLE)
            case Arithmetic() | Comparison() | Logic():
                return self._chain(expr)
            case Negation() | NullCheck():
                return replace(expr, operand=self.of(expr.operand))
            case Call():
                return replace(expr, args=tuple(self.of(a) for a in expr.args))
            case _:
                what = "a condition on a table in a store that asks another table about its row"
                raise error("NOT_SUPPORTED", what=what, alternative="join the two tables' rows in a query of its own")

    def _chain(self, expr: Arithmetic | Comparison | Logic) -> Expr:
        """Operators in a row lean to the left: as many of them as do not mention the row are one value."""
        chain = links(expr)
        mine = 0
        if not self._mentions(chain[0].left):
            mine = next(n for n, link in enumerate(chain) if self._mentions(link.right))
        made = self.of(chain[mine].left)
        for link in chain[mine:]:
            made = replace(link, left=made, right=self.of(link.right))
        return made

    def _mentions(self, expr: Expr) -> bool:
        """Whether the row of the table takes part; the row in the condition of an `in` is another table's, where both are called TABLE."""
        return any(isinstance(part, Attr) and part.slot == self.slot for part in _own(expr, self.slot))

    def _value(self, expr: Expr) -> Expr:
        if expr not in self.values:
            self.values.append(expr)
        return Attr(0, self.values.index(expr), expr.type)


def _own(expr: Expr, slot: int) -> list[object]:
    """The parts of an expression, without the conditions of `in` where the slot means their row."""
    inner = {id(part) for e in inside(expr) if slot == TABLE and isinstance(e, InTable) for part in inside(e.condition)}
    return [part for part in inside(expr) if id(part) not in inner]
