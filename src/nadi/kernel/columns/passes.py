"""What Numba does on the way from a function to machine code, without that which has nothing to do in functions of this package.

Each step walks through all instructions of a function, and most of those left out compute anew which variables live where.
"""

from __future__ import annotations

from typing import Any

from numba.core import typed_passes, untyped_passes
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager

_LEFT_OUT: tuple[Any, ...] = (
    untyped_passes.WithLifting,  # there is no `with`
    untyped_passes.InlineClosureLikes,  # … no function or comprehension within another function
    untyped_passes.MakeFunctionToJitFunction,
    untyped_passes.InlineInlinables,  # what is written into its caller is LLVM's business (`jit.part`)
    untyped_passes.FindLiterallyCalls,  # … no `literally` and no `literal_unroll`
    untyped_passes.LiteralUnroll,
    typed_passes.NopythonRewrites,  # … no arithmetic of whole arrays
)


_NUMBAS: Any = DefaultPassBuilder  # numba says no types of these
_Manager: Any = PassManager


class Shortened(CompilerBase):
    """Numba's own steps, in its order, but for those."""

    def define_pipelines(self) -> list[Any]:
        """The steps, as Numba asks for them."""
        made = _Manager("nadi")
        for step, what in _NUMBAS.define_nopython_pipeline(self.state).passes:
            if step not in _LEFT_OUT:
                made.add_pass(step, what)
        made.finalize()
        return [made]
