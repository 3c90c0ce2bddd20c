"""Runs apps as `nadi run` would, in a process that tests kill: `python pipeline_node.py <state> <endless: no|yes> <conf json> <app file>…`."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from nadi.pipeline.node import AppText, NodeOptions
from nadi.pipeline.run import Node


def main() -> int:
    state, endless, conf, *apps = sys.argv[1:]
    settings = {"nadi.kernel": "rows", **json.loads(conf)}  # compiling asks nadi's own connectors what it needs
    engine = settings.pop("nadi.engine", "nadi.pipeline.engine")
    options = NodeOptions(
        Path(state), "local[2,4]", settings, endless == "no", engine=engine, connectors="pipeline_testlog"
    )
    node = Node([AppText(Path(a).read_text()) for a in apps], options)
    signal.signal(signal.SIGTERM, lambda *_: node.request_stop())
    report = node.run()
    print(json.dumps({a.app: a.state for a in report.apps}))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
