"""What expressions and windows can call: scalar functions, aggregators, stream functions and the signatures of windows, in one registry.

Start with `registry.Registry`; `entries` says what a function, an aggregator and a window are.
"""

from nadi.functions.entries import Aggregator, ScalarFunction, StreamFunctionSpec, WindowSpec
from nadi.functions.public import function
from nadi.functions.registry import Registry, default_registry
from nadi.functions.stores import Store, StoreKind, StoreTable

__all__ = [
    "Aggregator",
    "Registry",
    "ScalarFunction",
    "Store",
    "StoreKind",
    "StoreTable",
    "StreamFunctionSpec",
    "WindowSpec",
    "default_registry",
    "function",
]
