"""The plan: immutable nodes with every name resolved, every expression typed, every parameter checked.

A plan that exists can run. The kernel is built from these nodes alone and never looks at the syntax tree. Each stateful node has an `id` that
is stable over restarts and edits elsewhere in the app: `<query name or position>/<path>`, such as `alerts/left.window` or `unnamed_2/window` (the
second query without a name).

Rows are tuples of Python values in attribute order: str, int (int and long), float (float rounded to 32 bits, and double), bool,
any object, None for null. Times are milliseconds.

Start with `app.App`.
"""

from nadi.plan.nodes.app import App, Playback, Sharding
from nadi.plan.nodes.definitions import Aggregation, Cache, NamedWindow, Script, Storage, Stream, Table, Trigger
from nadi.plan.nodes.expressions import (
    OUTPUT,
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
    Operator,
    SlotNullCheck,
    links,
)
from nadi.plan.nodes.inputs import (
    FilterStep,
    FunctionStep,
    JoinInput,
    JoinSide,
    SingleInput,
    Step,
    WindowCall,
    WindowStep,
)
from nadi.plan.nodes.ondemand import OnDemand
from nadi.plan.nodes.outputs import (
    DeleteFromTable,
    InsertIntoStream,
    InsertIntoTable,
    Output,
    ReturnEvents,
    UpdateOrInsertTable,
    UpdateTable,
)
from nadi.plan.nodes.queries import Input, Partition, Query, RangeKey, ValueKey
from nadi.plan.nodes.schema import Column, Schema
from nadi.plan.nodes.selection import Rate, Selection
from nadi.plan.nodes.states import (
    AbsentElement,
    CountElement,
    EveryElement,
    LogicalElement,
    NextElement,
    StateElement,
    StateInput,
    StreamElement,
)

__all__ = [
    "OUTPUT",
    "TABLE",
    "AbsentElement",
    "Aggregate",
    "Aggregation",
    "App",
    "Arithmetic",
    "Attr",
    "AttrList",
    "Cache",
    "Call",
    "Column",
    "Comparison",
    "Const",
    "CountElement",
    "DeleteFromTable",
    "EveryElement",
    "Expr",
    "FilterStep",
    "FunctionStep",
    "InTable",
    "Input",
    "InsertIntoStream",
    "InsertIntoTable",
    "JoinInput",
    "JoinSide",
    "Logic",
    "LogicalElement",
    "NamedWindow",
    "Negation",
    "NextElement",
    "NullCheck",
    "OnDemand",
    "Operator",
    "Output",
    "Partition",
    "Playback",
    "Query",
    "RangeKey",
    "Rate",
    "ReturnEvents",
    "Schema",
    "Script",
    "Selection",
    "Sharding",
    "SingleInput",
    "SlotNullCheck",
    "StateElement",
    "StateInput",
    "Step",
    "Storage",
    "Stream",
    "StreamElement",
    "Table",
    "Trigger",
    "UpdateOrInsertTable",
    "UpdateTable",
    "ValueKey",
    "WindowCall",
    "WindowStep",
    "links",
]
