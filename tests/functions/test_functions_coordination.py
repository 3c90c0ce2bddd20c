"""`coordination:isLeader()`: an app that runs is where it is to run."""

from __future__ import annotations

from typing import Any

from nadi.runtime import Runtime


def test_what_runs_is_the_leader() -> None:
    app = (
        "define stream In (x int); "
        "from In[coordination:isLeader()] select x, coordination:isLeader() as leads insert into Out;"
    )
    runtime, found = Runtime(app), list[Any]()
    runtime.on_stream("Out", lambda events: found.extend(e.row for e in events))
    runtime.start()
    runtime.send("In", [(None, (1,))])
    assert found == [(1, True)]
