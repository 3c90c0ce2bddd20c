"""How relational databases are named and reached, and what their errors mean. SQLAlchemy does everything else.

Start with `engines.connect`.
"""

from nadi.databases.engines import Address, add_columns, connect, connect_within, make_tables, passes, translated
from nadi.databases.pool import pooled

__all__ = ["Address", "add_columns", "connect", "connect_within", "make_tables", "passes", "pooled", "translated"]
