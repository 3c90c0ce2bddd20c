"""Inputs of a single stream: filters, stream functions and at most one window (semantics/events.md#filters)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nadi.errors import Span, did_you_mean
from nadi.lang import tree
from nadi.plan.catalog import SignatureError
from nadi.plan.context import Context
from nadi.plan.expressions import Expressions, described_arguments, registered
from nadi.plan.nodes import Column, FilterStep, FunctionStep, Schema, SingleInput, Step, WindowStep
from nadi.plan.scopes import Place, Scope
from nadi.plan.windows import bind_window


@dataclass(slots=True)
class Steps:
    """Binds handlers one after another; each stream function widens the row that the next ones see.

    `path` starts the ids of the elements; `others` are further places that filters may refer to (patterns).
    """

    context: Context
    place: Place
    path: str
    windows_allowed: str = ""  # the reason why no window may stand here; empty where one may
    others: tuple[Place, ...] = ()
    functions: int = 0

    def bind(self, handlers: tuple[tree.Handler, ...]) -> tuple[Step, ...]:
        """The steps in order; afterwards `place.schema` is what comes out of them."""
        return tuple(self._bind(h) for h in handlers)

    def _scope(self) -> Scope:
        if self.others:
            return Scope(((self.place,), self.others), indexed=True, latest=True)
        return Scope(((self.place,),), indexed=self.place.own)

    def _bind(self, handler: tree.Handler) -> Step:
        match handler:
            case tree.Filter(condition):
                return FilterStep(Expressions(self.context, self._scope()).condition(condition, "filter"))
            case tree.StreamFunction(call):
                return self._function(call)
            case tree.Window(call):
                if self.windows_allowed:
                    raise self.context.fail("INVALID_QUERY", handler.span, reason=self.windows_allowed)
                self.windows_allowed = "a stream has at most one window here, this is the second"
                return WindowStep(bind_window(self.context, self._scope(), call, f"{self.path}window"))

    def _function(self, call: tree.FunctionCall) -> FunctionStep:
        context, name = self.context, registered(call)
        entry = context.catalog.stream_function(name)
        if entry is None:
            if context.catalog.window(name) is not None:
                hint = f"it is a window: write '#window.{name}(…)'"
            else:
                hint = did_you_mean(name, context.catalog.names("stream_function"))
            raise context.fail("STREAM_FUNCTION_NOT_FOUND", call.span, name=name, hint=hint)
        args = Expressions(context, self._scope(), where="stream function").arguments(call)
        try:
            added = entry.adds(described_arguments(args))
        except SignatureError as reason:
            raise context.fail("WRONG_ARGUMENTS", call.span, name=name, reason=reason) from reason
        columns = tuple(Column(c.name, c.type) for c in added)
        self._widen(columns, call.span, name)
        self.functions += 1
        return FunctionStep(f"{self.path}{call.name}_{self.functions}", name, args, columns)

    def _widen(self, columns: tuple[Column, ...], span: Span, name: str) -> None:
        schema = self.place.schema
        for c in columns:
            if schema.position(c.name) is not None:
                raise self.context.fail("DUPLICATE_ATTRIBUTE", span, name=c.name, where=f"the output of '{name}'")
        wider = Schema((*schema.columns, *columns))
        self.place = replace(self.place, schema=wider)


def no_window_reason(context: Context, source: tree.Source) -> str:
    """Why a source takes no window; empty where it may have one."""
    if context.key(source) in context.windows:
        return f"'{source}' is a window itself and takes no other one"
    return ""


def bind_single(context: Context, node: tree.SingleInput, path: str) -> tuple[SingleInput, Scope]:
    """One stream or named window through its handlers, and the scope of what comes out."""
    schema = context.schema_of(node.source)
    names = (node.alias, str(node.source)) if node.alias else (str(node.source),)
    steps = Steps(context, Place(0, names, schema), path, no_window_reason(context, node.source))
    bound = steps.bind(node.handlers)
    made = SingleInput(context.key(node.source), bound, steps.place.schema, node.alias or "")
    return made, Scope(((steps.place,),))
