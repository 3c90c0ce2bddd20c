"""A session of Spark that does nothing: `python -m bench.idle_spark FILE`, where FILE holds the master. Ends with its standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from bench.load import tell


def main() -> None:
    master = Path(sys.argv[1]).read_text()
    session = SparkSession.builder.master(master).config("spark.ui.enabled", "false").appName("idle").getOrCreate()
    tell("ready")
    sys.stdin.buffer.read()
    session.stop()


if __name__ == "__main__":
    main()
