"""A writer asks here before it writes to a service that has a copy on another node.

Start with `contract`.
"""
