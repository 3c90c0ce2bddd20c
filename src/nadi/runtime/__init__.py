"""Runs an app in this process, on a virtual clock: for tests, previews and small work without Spark.

Start with `runtime.Runtime`.
"""

from nadi.runtime.broker import Broker
from nadi.runtime.manager import RuntimeManager
from nadi.runtime.runtime import Runtime

__all__ = ["Broker", "Runtime", "RuntimeManager"]
