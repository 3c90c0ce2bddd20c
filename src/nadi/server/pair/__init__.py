"""A node of a pair for high availability: what it does in its roles, what its partner gets to know of it, and how people see it.

Start with `pairworker.PairWorker`.
"""
