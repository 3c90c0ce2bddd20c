"""Script functions: their language exists, and what stands in the braces can be compiled. What is wrong is shown in the text of the app."""

from __future__ import annotations

from nadi.errors import Span, did_you_mean
from nadi.lang import tree
from nadi.plan.catalog import ScriptProblem
from nadi.plan.context import Context


def check_script(context: Context, definition: tree.FunctionDefinition) -> None:
    """See the module's text.

    Raises:
        ExtensionNotFoundException: SCRIPT_LANGUAGE_NOT_FOUND.
        SiddhiAppCreationException: SCRIPT_INVALID, at its place in the body.
    """
    language = context.catalog.script(definition.language)
    if language is None:
        hint = did_you_mean(definition.language, context.catalog.names("script"))
        raise context.fail(
            "SCRIPT_LANGUAGE_NOT_FOUND",
            definition.span,
            language=definition.language,
            name=definition.name,
            hint=hint,
        )
    problem = language.check(definition.body)
    if problem is not None:
        raise context.fail(
            "SCRIPT_INVALID",
            _place(context.text, definition, problem),
            language=language.title,
            name=definition.name,
            reason=problem.reason,
        )


def _place(text: str, definition: tree.FunctionDefinition, problem: ScriptProblem) -> Span:
    """Where in the text of the app a place in the body is; the whole definition where the text is not known."""
    body, whole = definition.body, definition.span
    first = whole.end - 1 - len(body)  # the body ends before the last brace
    if first < 0 or text[first : whole.end - 1] != body:
        return whole
    inside = 0
    for _ in range(problem.line - 1):
        inside = body.index("\n", inside) + 1
    start = min(first + inside + problem.column - 1, whole.end - 1)
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    return Span(start, start + 1, line, column, line, column + 1)
