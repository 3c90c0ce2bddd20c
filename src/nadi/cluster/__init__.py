"""Decides in a cluster who leads, who works and what runs where, and keeps two nodes from running the same.

Everything here is written against the four small interfaces of `contract` (clock, store, network, node), so that the simulator of `tests/simulation` runs whole
clusters of these modules in one thread. `docs/internals/coordination.md` tells the rules.

Start with `contract`, then `leader.LeaderTerm`.
"""
