"""Making cuts, and the two logs that decide where an app stands: the cut log and the commit record.

Start with `cutmaker.CutMaker.next`; `cuts.plan_cut` decides, `cutlog.CutLog.append` makes the cut durable.
"""
