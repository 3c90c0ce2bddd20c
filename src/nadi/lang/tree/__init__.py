"""The syntax tree of SiddhiQL: frozen dataclasses, one per construct of the grammar.

Every node carries the `span` it was read from; spans take no part in equality, so that two texts which say the same have
equal trees. Comments are kept in `SiddhiApp.comments` with the position of the token they stand before. Names are as written, without back quotes.

Start with `apps.SiddhiApp`.
"""

from nadi.lang.tree.annotations import Annotation, Element
from nadi.lang.tree.apps import Comment, OnDemandQuery, SiddhiApp
from nadi.lang.tree.definitions import (
    AggregationDefinition,
    Attribute,
    Definition,
    FunctionDefinition,
    StreamDefinition,
    TableDefinition,
    TriggerDefinition,
    WindowDefinition,
)
from nadi.lang.tree.expressions import (
    Binary,
    Constant,
    Expression,
    FunctionCall,
    In,
    IsNull,
    IsNullStream,
    Not,
    TimeConstant,
    Variable,
    links,
)
from nadi.lang.tree.inputs import Filter, Handler, JoinInput, JoinKind, SingleInput, StreamFunction, Window
from nadi.lang.tree.outputs import Delete, InsertInto, Output, Return, SetAssignment, Update, UpdateOrInsert
from nadi.lang.tree.queries import AnonymousInput, ExecutionElement, Input, Partition, Query, RangeKey, ValueKey
from nadi.lang.tree.selection import OrderBy, Rate, Selection, SelectItem
from nadi.lang.tree.states import (
    AbsentState,
    CountState,
    EveryState,
    LogicalState,
    NextState,
    State,
    StateInput,
    StreamState,
)
from nadi.lang.tree.types import Events, Source, Type

__all__ = [
    "AbsentState",
    "AggregationDefinition",
    "Annotation",
    "AnonymousInput",
    "Attribute",
    "Binary",
    "Comment",
    "Constant",
    "CountState",
    "Definition",
    "Delete",
    "Element",
    "Events",
    "EveryState",
    "ExecutionElement",
    "Expression",
    "Filter",
    "FunctionCall",
    "FunctionDefinition",
    "Handler",
    "In",
    "Input",
    "InsertInto",
    "IsNull",
    "IsNullStream",
    "JoinInput",
    "JoinKind",
    "LogicalState",
    "NextState",
    "Not",
    "OnDemandQuery",
    "OrderBy",
    "Output",
    "Partition",
    "Query",
    "RangeKey",
    "Rate",
    "Return",
    "SelectItem",
    "Selection",
    "SetAssignment",
    "SiddhiApp",
    "SingleInput",
    "Source",
    "State",
    "StateInput",
    "StreamDefinition",
    "StreamFunction",
    "StreamState",
    "TableDefinition",
    "TimeConstant",
    "TriggerDefinition",
    "Type",
    "Update",
    "UpdateOrInsert",
    "ValueKey",
    "Variable",
    "Window",
    "WindowDefinition",
    "links",
]
