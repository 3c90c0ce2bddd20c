"""The benchmark of nadi. `run.py` measures, `report.py` prints; see README.md."""
