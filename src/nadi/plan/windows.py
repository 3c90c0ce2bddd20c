"""Window calls: the window exists, and its arguments fit (semantics/windows.md)."""

from __future__ import annotations

from nadi.errors import NadiError, did_you_mean
from nadi.lang import parse_expression, tree
from nadi.plan.catalog import SignatureError
from nadi.plan.context import Context
from nadi.plan.expressions import Expressions, described_arguments, registered
from nadi.plan.nodes import Aggregate, Const, Expr, Schema, WindowCall
from nadi.plan.scopes import Place, Scope

NEWEST, FIRST, LAST = 0, 1, 2
"""The slots of the condition of an `expression` window: the new event, and the ends of the window."""


def bind_window(context: Context, scope: Scope, call: tree.FunctionCall, element_id: str) -> WindowCall:
    """A checked window; its arguments see the rows that enter it.

    Raises:
        WINDOW_NOT_FOUND: there is none of this name.
        WRONG_ARGUMENTS: the arguments do not fit it.
        INVALID_CRON, or what is wrong with the text of an expression: of a constant argument, with the place of the call.
    """
    name = registered(call)
    entry = context.catalog.window(name)
    if entry is None:
        hint = did_you_mean(name, context.catalog.names("window"))
        raise context.fail("WINDOW_NOT_FOUND", call.span, name=name, hint=hint)
    args = Expressions(context, scope, where="window").arguments(call)
    try:
        entry.check(described_arguments(args))
        if entry.conditional and isinstance(args[0], Const):
            bind_condition(context, scope.layers[0][0].schema, str(args[0].value), [])
    except SignatureError as reason:
        raise context.fail("WRONG_ARGUMENTS", call.span, name=name, reason=reason) from reason
    except NadiError as problem:
        raise context.fail(problem.condition, call.span, **problem.parameters) from problem
    return WindowCall(element_id, name, args, entry.traits)


def bind_condition(context: Context, schema: Schema, text: str, aggregates: list[Aggregate]) -> Expr:
    """The text of an `expression` window as an expression over NEWEST, FIRST and LAST; `aggregates` collects its aggregators.

    Raises:
        NadiError: the text is no expression, names what does not exist, or is no bool. Its place counts from the start of the text.
    """
    ends = (Place(FIRST, ("first",), schema), Place(LAST, ("last",), schema))
    scope = Scope(((Place(NEWEST, (), schema, nameless="the window's events"),), ends))
    of_text = Context(context.catalog, text, compat=context.compat)
    return Expressions(of_text, scope, aggregates, where="window").condition(
        parse_expression(text), "window's expression"
    )
