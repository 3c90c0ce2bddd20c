"""What expressions and windows can call: scalar functions, aggregators, stream functions and the signatures of windows, in one registry."""

from nadi.functions.entries import Aggregator, ScalarFunction, StreamFunctionSpec, WindowSpec
from nadi.functions.public import function
from nadi.functions.registry import Registry, default_registry

__all__ = [
    "Aggregator",
    "Registry",
    "ScalarFunction",
    "StreamFunctionSpec",
    "WindowSpec",
    "default_registry",
    "function",
]
