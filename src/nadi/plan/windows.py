"""Window calls: the window exists, and its arguments fit (language text §6)."""

from __future__ import annotations

from nadi.errors import did_you_mean
from nadi.lang import tree
from nadi.plan.catalog import SignatureError
from nadi.plan.context import Context
from nadi.plan.expressions import Expressions, described_arguments, registered
from nadi.plan.nodes import WindowCall
from nadi.plan.scopes import Scope


def bind_window(context: Context, scope: Scope, call: tree.FunctionCall, element_id: str) -> WindowCall:
    """A checked window; its arguments see the rows that enter it.

    Raises:
        WINDOW_NOT_FOUND: there is none of this name.
        WRONG_ARGUMENTS: the arguments do not fit it.
    """
    name = registered(call)
    entry = context.catalog.window(name)
    if entry is None:
        hint = did_you_mean(name, context.catalog.names("window"))
        raise context.fail("WINDOW_NOT_FOUND", call.span, name=name, hint=hint)
    args = Expressions(context, scope, where="window").arguments(call)
    try:
        entry.check(described_arguments(args))
    except SignatureError as reason:
        raise context.fail("WRONG_ARGUMENTS", call.span, name=name, reason=reason) from reason
    return WindowCall(element_id, name, args)
