"""Expressions of the tree become typed expressions of the plan (semantics/expressions.md).

Constants are not folded: "must be a constant" means a literal (`1/2` is none), and the arithmetic belongs to the functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from nadi.errors import Span, did_you_mean
from nadi.lang import tree
from nadi.lang.tree import Type
from nadi.plan.catalog import AggregatorEntry, Argument, ScalarEntry, SignatureError
from nadi.plan.context import Context
from nadi.plan.nodes import (
    TABLE,
    Aggregate,
    Arithmetic,
    Attr,
    AttrList,
    Call,
    Comparison,
    Const,
    Expr,
    InTable,
    Logic,
    Negation,
    NullCheck,
    SlotNullCheck,
)
from nadi.plan.scopes import Place, Scope, is_bare, resolve
from nadi.plan.types import comparable, promoted
from nadi.plan.walk import inside, replaced


@dataclass(slots=True)
class Expressions:
    """Binds expressions in one scope.

    `aggregates` collects the aggregators met, None where none may stand; `outputs` are the values behind the output columns:
    arguments of an aggregator in `having` mean those, because aggregators read the input. `everything` are the names that `*` means, where these are not the
    attributes in view.
    """

    context: Context
    scope: Scope
    aggregates: list[Aggregate] | None = None
    outputs: tuple[Expr, ...] = ()
    where: str = "filter"
    everything: tuple[str, ...] | None = None

    def bind(self, node: tree.Expression) -> Expr:
        """The typed expression.

        Raises:
            NadiError: with the place of the innermost part that is wrong.
        """
        match node:
            case tree.Constant(value, kind):
                return Const(value, kind)
            case tree.TimeConstant(milliseconds):
                return Const(milliseconds, Type.LONG)
            case tree.Variable():
                return resolve(self.context, self.scope, node)
            case tree.FunctionCall():
                return self._call(node)
            case tree.Not(operand):
                return Negation(self.condition(operand, "'not'"))
            case tree.Binary():
                return self._chain(node)
            case tree.In():
                return self._in(node)
            case tree.IsNull():
                return self._is_null(node)
            case tree.IsNullStream():
                return self._is_null_stream(node)

    def condition(self, node: tree.Expression, where: str) -> Expr:
        """An expression that must be a bool; `where` says of what it is a part."""
        return self._bool(self.bind(node), node, where)

    def _bool(self, bound: Expr, node: tree.Expression, where: str) -> Expr:
        if bound.type is not Type.BOOL:
            raise self.context.fail("CONDITION_NOT_BOOL", node.span, where=where, type=bound.type)
        return bound

    # ---- operators -------------------------------------------------------------------------------------------------

    def _chain(self, node: tree.Binary) -> Expr:
        """Operators, the innermost left one first: a chain may be thousands long."""
        chain = tree.links(node)
        bound = self.bind(chain[0].left)
        for link in chain:
            if link.op in ("and", "or"):
                left = self._bool(bound, link.left, f"'{link.op}'")
                bound = Logic(link.op, left, self.condition(link.right, f"'{link.op}'"))
            else:
                bound = self._binary(link, bound)
        return bound

    def _binary(self, node: tree.Binary, left: Expr) -> Expr:
        right = self.bind(node.right)
        common = promoted(left.type, right.type)
        if node.op in ("+", "-", "*", "/", "%"):
            if common is None:
                raise self._operands(node, left, right)
            return Arithmetic(node.op, left, right, common)
        if not comparable(node.op, left.type, right.type):
            raise self._operands(node, left, right)
        return Comparison(node.op, left, right, common)

    def _operands(self, node: tree.Binary, left: Expr, right: Expr) -> Exception:
        return self.context.fail("WRONG_OPERANDS", node.span, operator=node.op, left=left.type, right=right.type)

    def _in(self, node: tree.In) -> Expr:
        context = self.context
        store = context.tables.get(node.table) or context.windows.get(node.table)
        if store is None:
            hint = did_you_mean(node.table, [*context.tables, *context.windows])
            raise context.fail("TABLE_NOT_DEFINED", node.span, name=node.table, hint=hint)
        if any(p.slot == TABLE for p in self.scope.places()):
            what = "'in' within the condition of another table"
            raise context.fail("NOT_SUPPORTED", node.span, what=what, alternative="join the tables, or use two queries")
        scope = self.scope.with_last(Place(TABLE, (node.table,), store.schema))
        inner = Expressions(context, scope, None, self.outputs, self.where)
        return InTable(node.table, inner.condition(node.condition, "condition of 'in'"))

    def _is_null(self, node: tree.IsNull) -> Expr:
        operand = node.operand
        if isinstance(operand, tree.Variable) and is_bare(operand) and (place := self._stream_reference(operand)):
            return SlotNullCheck(place.slot, None)
        return NullCheck(self.bind(operand))

    def _is_null_stream(self, node: tree.IsNullStream) -> Expr:
        name = ("#" if node.inner else "!" if node.fault else "") + node.stream
        place = self.scope.called(name)
        if place is None or place.slot < 0:
            known = [n for p in self.scope.places() for n in p.names if p.slot >= 0]
            hint = did_you_mean(name, known)
            raise self.context.fail("STREAM_NOT_DEFINED", node.span, name=name, hint=hint)
        return SlotNullCheck(place.slot, node.index)

    def _stream_reference(self, variable: tree.Variable) -> Place | None:
        """The place that a bare name means, if it is no attribute."""
        if any(p.schema.position(variable.name) is not None for p in self.scope.places()):
            return None
        place = self.scope.called(variable.name)
        return place if place is not None and place.slot >= 0 else None

    # ---- functions -------------------------------------------------------------------------------------------------

    def _call(self, node: tree.FunctionCall) -> Expr:
        """Scripts win over functions, functions over aggregators (semantics/expressions.md#functions)."""
        context, name = self.context, registered(node)
        if not node.namespace and node.name in context.scripts:
            return Call(name, self.arguments(node), context.scripts[node.name].type)
        if (entry := context.catalog.function(name)) is not None:
            if name == "eventTimestamp" and (of_stream := self._timestamp_of(node, entry)) is not None:
                return of_stream
            args = self.arguments(node)
            return Call(name, args, self._returns(entry, args, node.span))
        if (entry := context.catalog.aggregator(name)) is not None:
            return self._aggregate(node, entry)
        known = [*context.scripts, *context.catalog.names("function"), *context.catalog.names("aggregator")]
        raise context.fail("FUNCTION_NOT_FOUND", node.span, name=name, hint=did_you_mean(name, known))

    def _timestamp_of(self, node: tree.FunctionCall, entry: ScalarEntry) -> Expr | None:
        """`eventTimestamp(e1)`: the argument is an element, not an attribute."""
        if len(node.args) != 1 or not isinstance(argument := node.args[0], tree.Variable) or not is_bare(argument):
            return None
        place = self._stream_reference(argument)
        if place is None:
            return None
        return Call("eventTimestamp", (), self._returns(entry, (), node.span), place.slot)

    def _aggregate(self, node: tree.FunctionCall, entry: AggregatorEntry) -> Expr:
        if self.aggregates is None:
            reason = f"the aggregator '{entry.name}' cannot stand in a {self.where}, only in select and having"
            raise self.context.fail("INVALID_QUERY", node.span, reason=reason)
        inner = Expressions(self.context, self.scope, None, self.outputs, "aggregator", self.everything)
        args = tuple(replaced(a, lambda leaf: behind(leaf, self.outputs)) for a in inner.arguments(node))
        if any(isinstance(part, Aggregate) for part in inside(args)):
            reason = f"the aggregator '{entry.name}' cannot take what is an aggregate itself"
            raise self.context.fail("INVALID_QUERY", node.span, reason=reason)
        if entry.name == "count" and self.context.compat < 5:
            args = args[:1]  # 4.x takes any number of arguments and counts events
        returned = self._returns(entry, args, node.span)
        made = Aggregate(entry.name, args, returned, len(self.aggregates), entry.traits)
        self.aggregates.append(made)
        return made

    def arguments(self, node: tree.FunctionCall) -> tuple[Expr, ...]:
        """The bound arguments; `*` means all attributes in view, in `having` those of the input, as far as the output has them."""
        if not node.star:
            return tuple(self.bind(a) for a in node.args)
        if self.everything is not None:
            return tuple(self.bind(tree.Variable(name, span=node.span)) for name in self.everything)
        return tuple(
            Attr(p.slot, i, c.type, None, c.name) for p in self.scope.layers[0] for i, c in enumerate(p.schema.columns)
        )

    def _returns(self, entry: ScalarEntry, args: tuple[Expr, ...], span: Span) -> Type:
        try:
            return entry.returns(described_arguments(args))
        except SignatureError as reason:
            raise self.context.fail("WRONG_ARGUMENTS", span, name=entry.name, reason=reason) from reason


def registered(node: tree.FunctionCall) -> str:
    """The name in the registry: "ns:name" or "name"."""
    return f"{node.namespace}:{node.name}" if node.namespace else node.name


def described_arguments(args: tuple[Expr, ...]) -> tuple[Argument, ...]:
    """Arguments as signatures see them."""
    return tuple(_described(a) for a in args)


def _described(expr: Expr) -> Argument:
    match expr:
        case Const(value, kind):
            return Argument(kind, True, value)
        case Attr() | AttrList():
            return Argument(expr.type, attribute=expr.name)
        case _:
            return Argument(expr.type)


def behind(expr: Expr, outputs: tuple[Expr, ...]) -> Expr:
    """The value behind an output column: aggregators in `having` name outputs and read inputs."""
    if isinstance(expr, Attr) and expr.slot == -1 and expr.position < len(outputs):
        return outputs[expr.position]
    return expr
