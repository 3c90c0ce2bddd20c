"""The bytes of a state: records, frames, and which frames lie where in Spark's state store.

Start with `frames`.
"""
