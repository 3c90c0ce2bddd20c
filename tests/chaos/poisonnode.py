"""`nadi …` whose hosts are taken for looping after some seconds."""

from __future__ import annotations

from nadi.cli import main
from nadi.pipeline.coordinator import hostwatch, watchdog

watchdog.LONG = 4.0
hostwatch.BEAT = 2.0

if __name__ == "__main__":
    main()
