"""Relational databases: how they are named and reached, and what their errors mean. Everything else is SQLAlchemy's."""

from nadi.databases.engines import Address, connect, make_tables, passes, translated

__all__ = ["Address", "connect", "make_tables", "passes", "translated"]
