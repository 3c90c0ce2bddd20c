"""The part of a node that has cuts made, hands them to Spark's queries, and commits what comes back.

Start with `group.Group`: its methods follow a cut from `look` to `settle`.
"""
