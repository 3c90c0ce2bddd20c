"""Queries over whole batches: numpy and Arrow buffers, loops compiled by Numba. What it is made of: docs/internals/columns/index.md.

Start with `engine.ColumnsKernel.process`, then `operators.operator`: it chooses what runs a query.
"""
