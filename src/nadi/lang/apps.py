"""Whole apps, on-demand queries and single statements: what ties the grammar together, and recovery from errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from nadi.errors import Diagnostic, NadiError
from nadi.lang import definitions, expressions, queries
from nadi.lang.annotations import annotation_list, app_annotation, at_app_annotation
from nadi.lang.cursor import Cursor
from nadi.lang.inputs import within_per
from nadi.lang.lexer import MOST_ERRORS, tokenise
from nadi.lang.repeated import repeated_attribute
from nadi.lang.selections import selection
from nadi.lang.substitution import substitute_collecting
from nadi.lang.tree import (
    AggregationDefinition,
    Annotation,
    Definition,
    Delete,
    ExecutionElement,
    Expression,
    FunctionDefinition,
    InsertInto,
    OnDemandQuery,
    Partition,
    Query,
    Return,
    Selection,
    SiddhiApp,
    SingleInput,
    Source,
    StreamDefinition,
    TableDefinition,
    TimeConstant,
    TriggerDefinition,
    Update,
    UpdateOrInsert,
    WindowDefinition,
)

Node = TypeVar("Node")


def parse(
    text: str,
    *,
    file: str = "",
    variables: Mapping[str, str] | None = None,
    connections: Mapping[str, str] | None = None,
) -> SiddhiApp:
    """The syntax tree of an app.

    Args:
        text: the app.
        file: its name, for error messages.
        variables: values for `${name}`; None leaves such places as they are.
        connections: values for those in strings that are not to be put into the text, which errors show.

    Raises:
        SiddhiParserException: the first error in the text; where there is none, two attributes of a stream have one name.
        DuplicateAttributeException: two attributes of another definition, or of a selection, have one name.

    >>> parse("define stream S (a int); from S[a > 1] insert into T;").definitions[0].source.name
    'S'
    """
    app, errors = _parse_app(text, file, variables, connections, strict=True)
    if errors:
        raise errors[0]
    return app


def parse_collecting(
    text: str,
    *,
    file: str = "",
    variables: Mapping[str, str] | None = None,
    connections: Mapping[str, str] | None = None,
) -> tuple[SiddhiApp, tuple[Diagnostic, ...]]:
    """The tree of what can be read, and every syntax error, in the order of the text.

    A statement with an error is left out of the tree; reading goes on after it. Attributes with one name are left to who looks at the meaning.
    """
    app, errors = _parse_app(text, file, variables, connections)
    return app, tuple(e.diagnostic for e in errors)


def parse_on_demand(text: str) -> OnDemandQuery:
    """The tree of an on-demand query: `from T on … select …`, `select … insert into T`, `delete T on …`, …

    Raises:
        SiddhiParserException: the text is none.
    """
    return _single(text, _on_demand)


def parse_expression(text: str) -> Expression:
    """The tree of an expression, as in a filter.

    Raises:
        SiddhiParserException: the text is none.
    """
    return _single(text, expressions.expression)


def parse_time(text: str) -> TimeConstant:
    """The tree of a time such as `1 hour 30 min`, as annotations hold them.

    Raises:
        SiddhiParserException: the text is none.

    >>> parse_time("1 min 30 sec").milliseconds
    90000
    """
    return _single(text, expressions.time_constant)


def parse_query(text: str) -> Query:
    """The tree of one query.

    Raises:
        SiddhiParserException: the text is none.
    """
    return _single(text, queries.query)


def parse_partition(text: str) -> Partition:
    """The tree of one partition.

    Raises:
        SiddhiParserException: the text is none.
    """
    return _single(text, lambda c: queries.partition_after(c, annotation_list(c), 0))


def parse_definition(text: str) -> Definition:
    """The tree of one definition of any kind.

    Raises:
        SiddhiParserException: the text is none.
    """
    return _single(text, definitions.definition)


def parse_stream_definition(text: str) -> StreamDefinition:
    """The tree of `define stream …`; SiddhiParserException for anything else."""
    return _definition_of(text, StreamDefinition, "stream")


def parse_table_definition(text: str) -> TableDefinition:
    """The tree of `define table …`; SiddhiParserException for anything else."""
    return _definition_of(text, TableDefinition, "table")


def parse_window_definition(text: str) -> WindowDefinition:
    """The tree of `define window …`; SiddhiParserException for anything else."""
    return _definition_of(text, WindowDefinition, "window")


def parse_trigger_definition(text: str) -> TriggerDefinition:
    """The tree of `define trigger …`; SiddhiParserException for anything else."""
    return _definition_of(text, TriggerDefinition, "trigger")


def parse_function_definition(text: str) -> FunctionDefinition:
    """The tree of `define function …`; SiddhiParserException for anything else."""
    return _definition_of(text, FunctionDefinition, "function")


def parse_aggregation_definition(text: str) -> AggregationDefinition:
    """The tree of `define aggregation …`; SiddhiParserException for anything else."""
    return _definition_of(text, AggregationDefinition, "aggregation")


# ---- single statements ----


def _single(text: str, read: Callable[[Cursor], Node]) -> Node:
    """One statement, alone in its text but for a last `;`."""
    c = Cursor(tokenise(text), text)
    if c.errors:
        raise c.errors[0]
    node = read(c)
    c.accept(";")
    if c.token.kind != "end":
        c.fail("the end of the text")
    if c.errors:
        raise c.errors[0]
    if (repeated := repeated_attribute(node, text)) is not None:
        raise repeated
    return node


def _definition_of(text: str, kind: type[Node], word: str) -> Node:
    def read(c: Cursor) -> Node:
        start = c.position
        marks = annotation_list(c)
        if c.word == "define" and c.peek().word != word:
            c.advance()
            c.fail(f"'{word}'")
        found = definitions.definition_after(c, marks, start)
        assert isinstance(found, kind)
        return found

    return _single(text, read)


def _on_demand(c: Cursor) -> OnDemandQuery:
    if c.accept("from"):
        return _find(c)
    start = c.position
    selected = selection(c)
    if start == c.position and c.word == "insert":
        c.fail("'select'")
    action = queries.output(c)
    wrong = _not_on_demand(action, selected)
    if wrong:
        raise c.error("SYNTAX", action.span, found=wrong[0], expected=wrong[1])
    return OnDemandQuery(None, selected, action, span=c.span(start))


def _not_on_demand(action: object, selected: Selection) -> tuple[str, str] | None:
    """What of an output action an on-demand query cannot have, and what it can."""
    match action:
        case Return():
            return "'return'", "'insert', 'delete', 'update' or 'update or insert into'"
        case Delete(events=events) | Update(events=events) | UpdateOrInsert(events=events) if events is not None:
            return "'for … events'", "'set' or 'on'"
        case InsertInto(events=events) if events is not None:
            return "'… events'", "'into'"
        case UpdateOrInsert() if selected == Selection():
            return "'update or insert into'", "'select' before it"
        case _:
            return None


def _find(c: Cursor) -> OnDemandQuery:
    """What follows the `from` of an on-demand query."""
    start = c.position - 1
    begin = c.position
    source = Source(c.name("the name of a table, window or aggregation"), span=c.span(begin))
    alias = c.name("an alias") if c.accept("as") else None
    read = SingleInput(source, (), alias, span=c.span(begin))
    on = expressions.expression(c) if c.accept("on") else None
    within, per = within_per(c)
    return OnDemandQuery(read, selection(c), Return(), on, within, per, span=c.span(start))


# ---- apps ----


def _parse_app(
    text: str,
    file: str,
    variables: Mapping[str, str] | None,
    connections: Mapping[str, str] | None = None,
    strict: bool = False,
) -> tuple[SiddhiApp, list[NadiError]]:
    """The tree and the errors; where there are none and it is `strict`, the first attribute that has a name again."""
    unset: tuple[NadiError, ...] = ()
    if variables is not None:
        text, unset = substitute_collecting(text, variables, file=file)
    lexed = tokenise(text, file, connections)
    reader = _AppReader(Cursor(lexed, text, file))
    reader.read()
    c = reader.cursor
    everything = SiddhiApp(
        tuple(reader.annotations),
        tuple(reader.definitions),
        tuple(reader.elements),
        tuple(lexed.comments),
        span=c.span(0),
    )
    errors = [*unset, *sorted(c.errors, key=lambda e: e.diagnostic.span.start)]
    repeated = repeated_attribute(everything, text, file) if strict and not errors else None
    return everything, errors if repeated is None else [repeated]


class _AppReader:
    """Reads statements one by one; a statement that cannot be read is reported and skipped."""

    def __init__(self, c: Cursor) -> None:
        self.cursor = c
        self.annotations: list[Annotation] = []
        self.definitions: list[Definition] = []
        self.elements: list[ExecutionElement] = []
        self.attempted_definition = False

    def read(self) -> None:
        c = self.cursor
        while at_app_annotation(c):
            self.guarded(lambda: self.annotations.append(app_annotation(c)))
        while c.token.kind != "end" and len(c.errors) < MOST_ERRORS:
            begin = c.position
            if self.guarded(self.statement):
                self.separator()
            if c.position == begin:
                c.advance()
        if not self.attempted_definition and not c.errors:
            c.errors.append(c.syntax_error(c.tokens[0 if self.elements else -1], ["'define'", "'@'"]))

    def guarded(self, read: Callable[[], None]) -> bool:
        """Run a reader; on an error report it, go on at the next statement, and return False."""
        c = self.cursor
        begin = c.position
        try:
            read()
        except NadiError as problem:
            c.collect(problem, begin)
            c.depth = 0
            self.skip(begin)
            return False
        return True

    def statement(self) -> None:
        """One definition, query or partition."""
        c = self.cursor
        start = c.position
        marks = annotation_list(c)
        match c.word:
            case "from":
                self.elements.append(queries.query_after(c, marks, start))
            case "partition":
                self.elements.append(queries.partition_after(c, marks, start))
            case _:
                c.try_for("'define'")
                if c.word != "define":
                    self.attempted_definition = True
                    c.fail("'from'", "'partition'")
                self.definition(marks, start)

    def definition(self, marks: tuple[Annotation, ...], start: int) -> None:
        c = self.cursor
        self.attempted_definition = True
        at = c.token.span
        self.definitions.append(definitions.definition_after(c, marks, start))
        if self.elements:
            c.errors.append(c.error("MISPLACED", at, what="definitions", where="before the first query"))

    def separator(self) -> None:
        """The `;` after a statement; where it is missing, reading goes on at once if another statement starts there."""
        c = self.cursor
        if c.accept(";") or c.token.kind == "end":
            return
        c.try_for("';'")
        c.errors.append(c.syntax_error(c.token, c.tried))
        if c.word not in ("define", "from", "partition", "@"):
            self.skip(c.position)

    def skip(self, begin: int) -> None:
        """On to the next statement: after a `;`, or where one certainly starts."""
        c = self.cursor
        if c.position == begin and c.word != ";":
            c.advance()
        partition = any(t.word == "partition" for t in c.tokens[begin : c.position + 1])
        while c.token.kind != "end" and not c.accept(";"):
            if c.word == "define" and c.peek().word in definitions.KINDS:
                return
            if partition and c.word == "end":
                partition = False
            c.advance()
