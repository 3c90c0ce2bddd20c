"""`nadi …` that looks at its hosts more often."""

from __future__ import annotations

from nadi.cli import main
from nadi.pipeline.coordinator import hostwatch

hostwatch.BEAT = 2.0

if __name__ == "__main__":
    main()
