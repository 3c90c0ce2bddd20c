"""Syntax trees to text: one layout, one clause a line, no parentheses and back quotes that are not needed.

Comments stay in front of, or behind, what they stood at. Printing what was printed changes nothing.
"""

from __future__ import annotations

from nadi.lang import print_definitions as definitions
from nadi.lang import print_expressions as small
from nadi.lang import print_inputs as inputs
from nadi.lang import print_queries as queries
from nadi.lang.tree import (
    AbsentState,
    AggregationDefinition,
    Annotation,
    AnonymousInput,
    Attribute,
    Binary,
    Constant,
    CountState,
    Definition,
    Delete,
    Element,
    EveryState,
    ExecutionElement,
    Expression,
    Filter,
    FunctionCall,
    FunctionDefinition,
    In,
    InsertInto,
    IsNull,
    IsNullStream,
    JoinInput,
    LogicalState,
    NextState,
    Not,
    OnDemandQuery,
    OrderBy,
    Output,
    Partition,
    Query,
    RangeKey,
    Rate,
    Return,
    Selection,
    SelectItem,
    SetAssignment,
    SiddhiApp,
    SingleInput,
    Source,
    StateInput,
    StreamDefinition,
    StreamFunction,
    StreamState,
    TableDefinition,
    TimeConstant,
    TriggerDefinition,
    Update,
    UpdateOrInsert,
    ValueKey,
    Variable,
    Window,
    WindowDefinition,
)
from nadi.lang.writer import Writer

Node = (
    SiddhiApp
    | Definition
    | ExecutionElement
    | OnDemandQuery
    | Expression
    | Annotation
    | Element
    | Attribute
    | Source
    | Selection
    | SelectItem
    | OrderBy
    | SetAssignment
    | Output
    | Rate
    | ValueKey
    | RangeKey
    | SingleInput
    | JoinInput
    | StateInput
    | AnonymousInput
    | Filter
    | StreamFunction
    | Window
    | StreamState
    | CountState
    | AbsentState
    | LogicalState
    | EveryState
    | NextState
)
"""Whatever can be printed by itself."""


def print_app(app: SiddhiApp) -> str:
    """The text of an app, with its comments, ending in a line break.

    >>> from nadi.lang import parse
    >>> print(print_app(parse("define stream S(a int);from S[(a>5)] insert into T -- ok")), end="")
    define stream S (a int);
    <BLANKLINE>
    from S[a > 5]
    insert into T; -- ok
    """
    w = Writer()
    _app(w, app)
    return w.text(app.comments)


def print_node(node: Node) -> str:
    """The text of any node of a tree, without a `;` and a line break at its end.

    >>> from nadi.lang import parse_expression
    >>> print(print_node(parse_expression("((a+b))*c")))
    (a + b) * c
    """
    w = Writer()
    _node(w, node)
    return w.text().rstrip("\n")


def _node(w: Writer, node: Node) -> None:
    match node:
        case SiddhiApp():
            _app(w, node)
        case Query():
            queries.query(w, node)
        case Partition():
            queries.partition(w, node)
        case OnDemandQuery():
            queries.on_demand(w, node)
        case Selection():
            queries.selection(w, node)
        case Rate():
            queries.rate(w, node)
        case ValueKey() | RangeKey():
            queries.key(w, node)
        case InsertInto() | Delete() | Update() | UpdateOrInsert() | Return():
            queries.output(w, node)
        case SingleInput() | JoinInput() | StateInput() | AnonymousInput():
            inputs.query_input(w, node, queries.query)
        case Filter() | StreamFunction() | Window():
            inputs.handler(w, node)
        case StreamState() | CountState() | AbsentState() | LogicalState() | EveryState() | NextState():
            inputs.state(w, node, "->", False)
        case _:
            _small_node(w, node)


def _small_node(w: Writer, node: object) -> None:
    match node:
        case (
            Constant()
            | TimeConstant()
            | Variable()
            | FunctionCall()
            | Not()
            | Binary()
            | In()
            | IsNull()
            | IsNullStream()
        ):
            small.expression(w, node)
        case Annotation():
            small.annotation(w, node)
        case Element():
            small.element(w, node)
        case Attribute():
            small.attribute(w, node)
        case Source():
            small.source(w, node)
        case SelectItem():
            small.select_item(w, node)
        case OrderBy():
            small.order_by(w, node)
        case SetAssignment():
            small.assignment(w, node)
        case (
            StreamDefinition()
            | TableDefinition()
            | WindowDefinition()
            | TriggerDefinition()
            | FunctionDefinition()
            | AggregationDefinition()
        ):
            definitions.definition(w, node)
        case _:
            raise TypeError(f"{type(node).__name__} is not a node of a syntax tree")


def _app(w: Writer, app: SiddhiApp) -> None:
    small.annotation_lines(w, app.annotations)
    before: Definition | None = None
    for definition in app.definitions:
        together = (
            before is not None and _one_line(before) and _one_line(definition) and type(before) is type(definition)
        )
        w.line(1 if together else 2)
        definitions.definition(w, definition)
        w.put(";")
        before = definition
    for element in app.elements:
        w.line(2)
        if isinstance(element, Query):
            queries.query(w, element)
        else:
            queries.partition(w, element)
        w.put(";")


def _one_line(node: Definition) -> bool:
    return not node.annotations and not isinstance(node, FunctionDefinition | AggregationDefinition)
