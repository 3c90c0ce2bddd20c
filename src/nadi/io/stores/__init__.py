"""The types of `@store` that nadi brings: where the rows of tables live that are not in the app's state.

Start with `rdbms.RdbmsStore`, a table in a relational database; `transactions` says what a cut writes there, and how often.
"""
