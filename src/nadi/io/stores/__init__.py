"""Stores that nadi brings itself: where the rows of `@store` tables live (`nadi.functions.stores` says what a store is).

`rdbms` is the one of relational databases.
"""
