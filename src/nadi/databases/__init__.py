"""Relational databases: how they are named and reached, and what their errors mean. Everything else is SQLAlchemy's."""

from nadi.databases.engines import Address, connect, passes, translated

__all__ = ["Address", "connect", "passes", "translated"]
