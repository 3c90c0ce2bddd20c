"""Differences from Siddhi that stay, each with an entry of the same name in `docs/internals/differences.md`.

The comparison calls `deliberate` for each case whose rows differ. A predicate must be no wider than its entry: it looks at the app's text and, where
that does not suffice, at what came out.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tests.differential.siddhidefects import EMPTIED, SMALL, with_defects
from tests.differential.siddhiheld import DELETES, SETS

Calls = list[list[Any]]
"""What the callbacks got: lists of query, current rows or None, expired rows or None."""
Case = dict[str, Any]
"""`app`, `queries`, `streams`, `events`, and `id` with the family before its slash."""


# ---- what came out


def _same(one: Any, other: Any) -> bool:
    """Equal but for what rounding makes of doubles."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (one, other))
    if numbers:
        return (one != one and other != other) or math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-9)
    return type(one) is type(other) and bool(one == other)


def _by_query(calls: Calls) -> dict[str, Calls]:
    found: dict[str, Calls] = {}
    for query, *rows in calls:
        found.setdefault(query, []).append(rows)
    return found


def _differing(siddhi: Calls, nadi: Calls) -> set[str]:
    """The queries whose calls differ."""
    theirs, ours = _by_query(siddhi), _by_query(nadi)
    return {query for query in theirs.keys() | ours.keys() if not _same(theirs.get(query, []), ours.get(query, []))}


# ---- the text of an app


def _queries(app: str) -> dict[str, str]:
    """The named queries of an app, and each query by the stream into which it alone puts its rows."""
    named = dict(re.findall(r"@info\(name='(\w+)'\)([^;]*)", app))
    writers: dict[str, list[str]] = {}
    for text, target in re.findall(r"(?:^|(?<=[;})])|begin) ?(from [^;]*? into (\w+));", app):
        writers.setdefault(target, []).append(f" {text}")
    return {target: texts[0] for target, texts in writers.items() if len(texts) == 1} | named


def _selected(query: str) -> list[str]:
    """The items of a query's selection."""
    text = re.split(r" (?:group by|having|order by|limit|output|insert) ", query.partition("select ")[2])[0]
    items, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            items.append(text[start:at].strip())
            start = at + 1
    return [*items, text[start:].strip()]


def _only_in_columns(case: Case, siddhi: Calls, nadi: Calls, functions: str) -> bool:
    """Whether calls have the same rows but for the columns of some aggregators."""
    queries = _queries(case["app"])
    for name in _differing(siddhi, nadi):
        items = _selected(queries.get(name, next(iter(queries.values()), "")))
        columns = [at for at, item in enumerate(items) if re.match(rf"(?:{functions})\(", item)]
        theirs, ours = (_without(_by_query(calls).get(name, []), columns) for calls in (siddhi, nadi))
        if not columns or not _same(theirs, ours):
            return False
    return True


def _without(calls: Calls, columns: list[int]) -> Calls:
    return [
        [rows and [[v for at, v in enumerate(row) if at not in columns] for row in rows] for rows in kinds]
        for kinds in calls
    ]


# ---- the entries

_AGGREGATORS = "sum|avg|count|min|max|stdDev|minForever|maxForever|distinctCount|and|or"
_BATCHES = "lengthBatch|timeBatch|externalTimeBatch|batch"
_UNORDERED = re.compile(r"[. )](?:sort|session|frequent|lossyFrequent|expression)\(")
_FILTERED = re.compile(rf"#window\.(?:{_BATCHES})\([^)]*\)\[")
_TICKS = re.compile(r" output (?:all |last )?every \d+ (?:milliseconds|sec)")
_HIDING = re.compile(r"define window W \([^)]*\) batch\(\) output current events;")


def _never_ticks(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    ticking = {name for name, text in _queries(case["app"]).items() if _TICKS.search(text)}
    ticking |= set(case["streams"]) if ticking else set()
    return _differing(siddhi, nadi) <= ticking - _by_query(siddhi).keys()


def _least_is_lost(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    app = case["app"]
    if any(v != v for _stream, _ts, rows in case["events"] if isinstance(rows, list) for row in rows for v in row):
        return _only_in_columns(case, siddhi, nadi, "min|max")
    reads = re.search(r" from W.* insert (?:current events )?into ", _queries(app).get("q", ""))
    if not (_UNORDERED.search(app) or reads):
        return False
    return _only_in_columns(case, siddhi, nadi, "min|max") or _passes_by_least(case, siddhi, nadi)


def _passes_by_least(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """Whether `having` asks for what min or max shows, in every query that differs."""
    queries = _queries(case["app"])
    least = [
        re.search(rf"(?:min|max)\(\w+\) as {asked[1]}\b", queries[name])
        for name in _differing(siddhi, nadi)
        if (asked := re.search(r" having [^;]*\b(o\d) is null", queries.get(name, "")))
    ]
    return len(least) == len(_differing(siddhi, nadi)) and all(least)


def _rows_pile_up(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """Snapshots with an item in which an aggregator does not stand alone."""
    queries = _queries(case["app"])
    asked = [queries.get(name, "") for name in _differing(siddhi, nadi)]
    return all(" output snapshot every " in query and any(map(_computed, _selected(query))) for query in asked)


def _computed(item: str) -> bool:
    alone = re.fullmatch(rf"(?:{_AGGREGATORS})\([^()]*\)(?: as \w+)?", item)
    return alone is None and re.search(rf"\b(?:{_AGGREGATORS})\(", item) is not None


def _reset_is_filtered(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    if not _FILTERED.search(case["app"]):
        return False
    counts = all(" output first every " in _queries(case["app"]).get(name, "") for name in _differing(siddhi, nadi))
    return counts or _only_in_columns(case, siddhi, nadi, _AGGREGATORS)


def _join_finds_less(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """A join finds nothing in a window `session`, or in a `batch` that puts out current events alone; what it finds in an `expressionBatch` is kept."""
    window = re.search(r"define window W \([^)]*\) (\w+)\(", case["app"])
    if window is None or "@info(name='j')" not in case["app"]:
        return False
    if window[1] == "expressionBatch":
        return _differing(siddhi, nadi) == {"q"}
    empty = window[1] == "session" or _HIDING.search(case["app"]) is not None
    return empty and _differing(siddhi, nadi) == {"j"} and "j" not in _by_query(siddhi)


_OF_SESSION = re.compile(r"from (\w+)\S*#window\.session\(")
_LATE = re.compile(r"#window\.(?:lengthBatch|timeBatch|externalTimeBatch|expressionBatch|delay)\(.* into (\w+)$")


def _session_was_over(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """Sessions of what a window has put out late."""
    queries = _queries(case["app"])
    late = {found[1] for text in queries.values() if (found := _LATE.search(text))}
    fewer = sum(len(x or ()) for _q, _c, x in siddhi) <= sum(len(x or ()) for _q, _c, x in nadi)
    asked = [queries.get(name, "") for name in _differing(siddhi, nadi)]
    return fewer and all((found := _OF_SESSION.search(text)) and found[1] in late for text in asked)


# ---- defects that nadi can be given

ORDERS = 24
"""How many orders of Siddhi's hash sets are tried."""


def _by_defect(entry: str) -> Callable[[Case, Calls, Calls], bool]:
    """Whether nadi gives what Siddhi gives as soon as its tables and aggregators have Siddhi's defects, and that of the entry shows."""

    def holds(case: Case, siddhi: Calls, _nadi: Calls) -> bool:
        given = (
            re.search(r"define table |math:percentile\(|str:groupConcat\(\w+\)|\b(?:min|max|unionSet)\(", case["app"])
            is not None
            and "@store(" not in case["app"]
        )
        return given and entry in _shown(json.dumps([case, siddhi]))

    return holds


@lru_cache(maxsize=1)
def _shown(given: str) -> frozenset[str]:
    """The entries of the defects that together make of nadi's rows those of Siddhi: none where they do not."""
    case, siddhi = json.loads(given)
    for order in range(ORDERS):
        result, moment = with_defects(case, order)
        made = [[query, *(rows or None for rows in kinds)] for query, _ts, *kinds in result["got"] if any(kinds)]
        loose = [SETS] if moment.loose else []
        if not _differing(siddhi, made) or (loose and not _differing(_sorted(siddhi), _sorted(made))):
            return frozenset([*moment.noted, *loose])
    return frozenset()


def _sorted(calls: Calls) -> Calls:
    return [[query, *(rows and sorted(rows, key=json.dumps) for rows in kinds)] for query, *kinds in calls]


# ---- partitions

_SHARED = re.compile(r"[.](?:timeBatch\(|expression(?:Batch)?\('[^']*(?:count|sum)\()")
_OPEN_END = re.compile(r"(?:\?|\*|<0:\d*>|<:\d+>)(?: within [^;]*)? select ")
"""The last element of a pattern or sequence needs no event."""
_WAITS = re.compile(r"\bnot \w+(?:\[[^\]]*\])? for ")
_LOSES_KEY = re.compile(r"define window W .* begin .* into W; .* end;")
"""A query in the partition puts rows into a named window."""
_FORGOTTEN = re.compile(r"[.]batch\(\)[^;]* insert (?:current events )?into ")


def _keys_are_not_apart(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """Windows that all keys share, or that are forgotten; a pattern whose end needs no event; queries that lost the key; or the same rows in another order,
    without those of sessions and absent elements that ended late, as timers of several keys were due at once."""
    app = case["app"]
    if "partition with " not in app:
        return False
    if (
        _SHARED.search(app)
        or _OPEN_END.search(app)
        or _LOSES_KEY.search(app)
        or (_FORGOTTEN.search(app) and _sizes(siddhi) == _sizes(nadi))
    ):
        return True
    theirs, ours = _all_rows(siddhi), _all_rows(nadi)
    return theirs <= ours if ".session(" in app or _WAITS.search(app) else theirs == ours


def _sizes(calls: Calls) -> list[list[int]]:
    return [[len(rows or ()) for rows in kinds] for _query, *kinds in calls]


def _all_rows(calls: Calls) -> Counter[str]:
    return Counter(
        str((query, at, row)) for query, *kinds in calls for at, rows in enumerate(kinds) for row in rows or ()
    )


# ---- patterns

_LOSES = re.compile(r"\bnot (\w+)\[[^\]]*\] and |\band not (\w+)\[[^\]]*\](?! for)")


def _rows_linked(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    return _rows_lost(case, siddhi, nadi) or _shown_again(case, siddhi, nadi)


def _shown_again(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """The same calls, some with more rows behind theirs, of a pattern whose end needs no event."""
    alike = len(siddhi) == len(nadi) and all(_begins(*p) or _begins(*p[::-1]) for p in zip(siddhi, nadi, strict=True))
    return alike and _OPEN_END.search(case["app"]) is not None


def _rows_lost(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """Siddhi has some of nadi's calls in their order, some of these with only the first rows."""
    mine = iter(nadi)
    return _LOSES.search(case["app"]) is not None and all(any(_begins(one, other) for other in mine) for one in siddhi)


def _begins(one: list[Any], other: list[Any]) -> bool:
    """Whether a call has the first current rows of another one; no pattern gives expired ones."""
    rows = one[1] or []
    return one[0] == other[0] and rows == (other[1] or [])[: len(rows)] and not one[2]


# ---- sets, having, nulls

_UNIONS = re.compile(r"#window\.[^;]*\bunionSet\(")
_IN_HAVING = re.compile(rf" having [^;]*?\b(?:{_AGGREGATORS}|unionSet)\([^;]* insert ")
_LEAVES_NULLS_OUT = re.compile(r"@index\(|@primaryKey\('\w+'\)")
_OF_DATES = re.compile(r"\btime:(?:date|dateAdd|dateSub|dateDiff|dateFormat|dayOfWeek|timestampInMilliseconds)\(")


def _has_null(case: Case) -> bool:
    return any(None in row for stream, _ts, rows in case["events"] if isinstance(rows, list) for row in rows)


def _value_came_back(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """Behind a window, and in nothing but the unions."""
    return bool(_UNIONS.search(case["app"])) and _only_in_columns(case, siddhi, nadi, r"sizeOfSet\(unionSet|unionSet")


def _having_counts(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    queries = _queries(case["app"])
    asked = [queries.get(name, "") for name in _differing(siddhi, nadi)]
    return all(_IN_HAVING.search(query) for query in asked)


def _null_is_lost(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """A table with an index, or a primary key of one attribute, and nulls among the events."""
    return bool(_LEAVES_NULLS_OUT.search(case["app"])) and _has_null(case)


def _dates_are_null(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """The extension that the comparison runs fails on null."""
    failed, here = ([call for call in calls if call[0] == "faults"] for calls in (siddhi, nadi))
    return bool(_OF_DATES.search(case["app"])) and _all_rows(failed).total() > _all_rows(here).total()


def _counts_as_int(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """Siddhi refuses to aggregate what an aggregation has of distinctCount."""
    counted = re.search(r"define aggregation [^;]*\bdistinctCount\(\w+\) as (\w+)", case["app"])
    if counted is None or _differing(siddhi, nadi) != {"?"}:
        return False
    asked = [text for stream, _ts, text in case["events"] if stream == "?"]
    theirs, ours = (_by_query(calls)["?"] for calls in (siddhi, nadi))
    differ = [
        text
        for text, one, other in zip(asked, theirs, ours, strict=True)
        if not _same(one, other) and one[0] == [["refused"]]
    ]
    rest = sum(not _same(one, other) for one, other in zip(theirs, ours, strict=True)) - len(differ)
    return not rest and all(re.search(rf"\b(?:{_AGGREGATORS})\({counted[1]}\)", text) for text in differ)


_TEMPLATES = re.compile(r"str:fillTemplate\('")
_TURNED = re.compile(r"#window\.session\([^)]*\)\S*#pol2Cart\(")


def _older_template(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """The extension that the comparison runs fills a constant template once, for the first event."""
    queries = _queries(case["app"])
    return all(name == "faults" or _TEMPLATES.search(queries.get(name, "")) for name in _differing(siddhi, nadi))


def _timer_is_turned(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    """What leaves a session behind which `pol2Cart` stands stays counted, and is not put out."""
    if not _TURNED.search(case["app"]) or _differing(siddhi, nadi) - {"q"}:
        return False
    came = ([[query, rows] for query, rows, _expired in calls if rows] for calls in (siddhi, nadi))
    counted = _only_in_columns(case, *([[query, rows, None] for query, rows in side] for side in came), _AGGREGATORS)
    return counted and not any(expired for _query, _rows, expired in siddhi)


_SMALL = (_dates_are_null, _value_came_back, _counts_as_int, _older_template, _timer_is_turned, _by_defect(SMALL))


def _stricter(case: Case, siddhi: Calls, nadi: Calls) -> bool:
    return any(holds(case, siddhi, nadi) for holds in _SMALL)


ENTRIES: Mapping[str, Callable[[Case, Calls, Calls], bool]] = {
    "Output rates by time in playback": _never_ticks,
    EMPTIED: lambda *given: _least_is_lost(*given) or _by_defect(EMPTIED)(*given),
    "Snapshots of what is computed of aggregators": _rows_pile_up,
    "A filter behind a batch window": _reset_is_filtered,
    "Joins with some named windows": _join_finds_less,
    "Events that come when their session is over": _session_was_over,
    DELETES: _by_defect(DELETES),
    SETS: lambda *given: _by_defect(SETS)(*given) or _null_is_lost(*given),
    "Keys of a partition that share what is their own": _keys_are_not_apart,
    "Rows of matches that are linked": _rows_linked,
    "Aggregators in having": _having_counts,
    SMALL: _stricter,
}
"""By the name of the entry: whether it is why a case differs, from the case, Siddhi's calls and nadi's."""


def deliberate(case: Case, siddhi: Calls, nadi: Calls) -> str:
    """The name of the entry that explains the difference, or ""."""
    return next((name for name, holds in ENTRIES.items() if holds(case, siddhi, nadi)), "")
