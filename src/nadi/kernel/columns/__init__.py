"""Queries over whole batches: numpy and Arrow buffers, loops compiled by Numba. What it is made of: docs/internals/columns.md."""
