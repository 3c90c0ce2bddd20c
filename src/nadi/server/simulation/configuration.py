"""What a simulation is, as its JSON document says: `{"properties": {…}, "sources": [{…}, …]}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from nadi.databases.engines import Address
from nadi.errors import error
from nadi.received import read_json
from nadi.server.simulation.events import UNSET
from nadi.server.simulation.shelf import is_name

SOURCES = 100
ATTRIBUTES = 1_000
DEPTH = 16
LONGEST_INTERVAL = 86_400_000  # ms
LONGEST_TIME = 1 << 62
DELIMITERS = {"\\t": "\t", "": ","}
MASK = "*****"
"""What stands for a password where a simulation is shown."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CsvSource:
    """Rows of a file. `timestamp` is the index of the column of timestamps, `indices` are those of the columns of the attributes, in their order."""

    app: str
    stream: str
    interval: int
    file: str
    delimiter: str
    timestamp: int | None
    ordered: bool
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DatabaseSource:
    """Rows of a table. `timestamp` is the name of a column, "" where there is none; no `columns`: those named like the attributes."""

    app: str
    stream: str
    interval: int
    address: Address
    table: str
    timestamp: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RandomSource:
    """Values by chance, an entry per attribute (`nadi.server.simulation.chance`)."""

    app: str
    stream: str
    interval: int
    attributes: tuple[Mapping[str, Any], ...]


Source = CsvSource | DatabaseSource | RandomSource


@dataclass(frozen=True, slots=True)
class Configuration:
    """A simulation. `interval` (ms) lies between two of its events; `start` and `end` are of event time, ms; `count` is how many events there are at most;
    UNSET: no bound. `seed` makes random sources give the same values again. `document` is what it was made of."""

    name: str
    interval: int
    start: int
    end: int
    count: int
    seed: int | None
    sources: tuple[Source, ...]
    document: Json

    @property
    def shown(self) -> Json:
        """The document without its passwords."""
        return {**self.document, "sources": [_masked(each) for each in self.document["sources"]]}


def configuration_of(body: bytes, kept: Json | None = None) -> Configuration:
    """A simulation from its JSON. Masked passwords are those of `kept`, the document that it replaces. Errors: SIMULATION_INVALID."""
    document = json_object(body)
    try:
        properties = _object(document.get("properties"), "properties")
        given = document.get("sources")
        if not isinstance(given, list) or not 1 <= len(given) <= SOURCES:
            raise ValueError(f"'sources' is a list of 1 to {SOURCES} sources")
        listed = [_object(each, "sources") for each in given]
        document["sources"] = listed = [_with_password(each, kept) for each in listed]
        name = _text(properties, "simulationName")
        if not is_name(name):
            raise ValueError(
                "'simulationName' takes letters, digits, '_', '-', '.' and spaces, at most 100, and no '.' first"
            )
        start = _number(properties, "startTimestamp", UNSET, UNSET, LONGEST_TIME)
        end = _number(properties, "endTimestamp", UNSET, UNSET, LONGEST_TIME)
        if end != UNSET and end < start:
            raise ValueError("'endTimestamp' is before 'startTimestamp'")
        own = _object(document.get("nadi", {}), "nadi")
        return Configuration(
            name,
            _number(properties, "timeInterval", 1_000, 0, LONGEST_INTERVAL),
            start,
            end,
            _number(properties, "noOfEvents", UNSET, UNSET, LONGEST_TIME),
            _number(own, "seed", 0, 0, LONGEST_TIME) if "seed" in own else None,
            tuple(map(_source, listed)),
            document,
        )
    except ValueError as reason:
        raise error("SIMULATION_INVALID", reason=reason) from reason


def json_object(body: bytes) -> Json:
    """A JSON object that is not nested more than DEPTH deep. Errors: SIMULATION_INVALID."""
    try:
        found = read_json(body)
    except msgspec.DecodeError as reason:
        raise error("SIMULATION_INVALID", reason=f"it is no JSON: {reason}") from reason
    if not isinstance(found, dict):
        raise error("SIMULATION_INVALID", reason="it is no JSON object")
    if _is_deeper(found, DEPTH):
        raise error("SIMULATION_INVALID", reason=f"it is nested more than {DEPTH} deep")
    return found


def address_of(source: Mapping[str, Any]) -> Address:
    """The database that a source, or a question about one, names. Raises ValueError."""
    return Address(_text(source, "dataSourceLocation"), _optional(source, "username"), _optional(source, "password"))


# ---- sources


def _source(source: Json) -> Source:
    kind = source.get("simulationType")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"'simulationType' is one of {', '.join(_KINDS)}")
    interval = _number(source, "timestampInterval", 1_000, 0, LONGEST_INTERVAL)
    return _KINDS[kind](source, _text(source, "siddhiAppName"), _text(source, "streamName"), interval)


def _csv(source: Json, app: str, stream: str, interval: int) -> CsvSource:
    file = _text(source, "fileName")
    if not is_name(file) or not file.lower().endswith(".csv"):
        raise ValueError("'fileName' is the name of a .csv file")
    delimiter = _optional(source, "delimiter", strip=False)
    delimiter = DELIMITERS.get(delimiter, delimiter)
    if len(delimiter) != 1 or delimiter in '\r\n"':
        raise ValueError("'delimiter' is one character, no quotation mark, or \\t")
    timestamp = _number(source, "timestampAttribute", UNSET, UNSET, ATTRIBUTES)
    ordered = source.get("isOrdered")
    if isinstance(ordered, str) and ordered.strip():
        ordered = {"true": True, "false": False}.get(ordered.strip().lower(), ordered)
    if ordered in (None, "") and timestamp == UNSET:
        ordered = True
    if not isinstance(ordered, bool):
        raise ValueError("'isOrdered' is true or false, and has to be given with 'timestampAttribute'")
    indices = _indices(source.get("indices"))
    return CsvSource(
        app, stream, interval, file, delimiter, None if timestamp == UNSET else timestamp, ordered, indices
    )


def _indices(given: object) -> tuple[int, ...]:
    parts = given.split(",") if isinstance(given, str) else given
    if given is None or given == "":
        return ()
    if not isinstance(parts, list) or len(parts) > ATTRIBUTES:
        raise ValueError("'indices' are numbers of columns, with commas between them")
    return tuple(_number({"indices": part}, "indices", None, 0, ATTRIBUTES) for part in parts)


def _database(source: Json, app: str, stream: str, interval: int) -> DatabaseSource:
    columns = source.get("columnNamesList")
    names = columns.split(",") if isinstance(columns, str) else columns or []
    if not isinstance(names, list) or len(names) > ATTRIBUTES or not all(isinstance(name, str) for name in names):
        raise ValueError("'columnNamesList' are names of columns, with commas between them")
    chosen = tuple(name.strip() for name in names if name.strip())
    timestamp = _optional(source, "timestampAttribute")
    return DatabaseSource(app, stream, interval, address_of(source), _text(source, "tableName"), timestamp, chosen)


def _random(source: Json, app: str, stream: str, interval: int) -> RandomSource:
    entries = source.get("attributeConfiguration")
    if not isinstance(entries, list) or not 1 <= len(entries) <= ATTRIBUTES:
        raise ValueError(f"'attributeConfiguration' is a list of 1 to {ATTRIBUTES} entries, one per attribute")
    return RandomSource(app, stream, interval, tuple(_object(each, "attributeConfiguration") for each in entries))


_KINDS: dict[str, Callable[[Json, str, str, int], Source]] = {
    "CSV_SIMULATION": _csv,
    "DATABASE_SIMULATION": _database,
    "RANDOM_DATA_SIMULATION": _random,
}


# ---- values


def _object(value: object, key: str) -> Json:
    if not isinstance(value, dict):
        raise ValueError(f"'{key}' is missing, or has something else than a JSON object")
    return value


def _text(of: Mapping[str, Any], key: str) -> str:
    found = _optional(of, key)
    if not found:
        raise ValueError(f"'{key}' is missing")
    return found


def _optional(of: Mapping[str, Any], key: str, strip: bool = True) -> str:
    found = of.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise ValueError(f"'{key}' is a text")
    return found.strip() if strip else found


def _number(of: Mapping[str, Any], key: str, default: int | None, least: int, most: int) -> int:
    """A number, or its text; `default` where it is not there or blank."""
    found = of.get(key)
    if found is None or (isinstance(found, str) and not found.strip()):
        if default is None:
            raise ValueError(f"'{key}' is missing")
        return default
    if isinstance(found, str) and len(found) < 32 and found.strip().removeprefix("-").isdecimal():
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise ValueError(f"'{key}' is a whole number from {least} to {most}")
    return found


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    if levels == 0:
        return True
    return any(_is_deeper(each, levels - 1) for each in (value.values() if isinstance(value, dict) else value))


def _masked(source: Json) -> Json:
    return {**source, "password": MASK} if source.get("password") else source


def _with_password(source: Json, kept: Json | None) -> Json:
    """A source with the password that its mask stands for: only for the same database and user, so that it goes nowhere else."""
    if source.get("password") != MASK:
        return source
    same = ("simulationType", "dataSourceLocation", "username")
    for old in kept["sources"] if kept else ():
        if all(old.get(key) == source.get(key) for key in same):
            return {**source, "password": old.get("password")}
    raise ValueError(
        f"'password' is {MASK}, which stands for the one before, and there was none for this database and user"
    )
