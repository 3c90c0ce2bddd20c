"""The complete engine: it takes one arrival at a time. Where the two engines differ, this one is right.

Start with `engine.RowsKernel.process`; `windows.sliding` is a window, `selector` does what `select` says.
"""
