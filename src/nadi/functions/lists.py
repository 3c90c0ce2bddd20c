"""The namespace `list`: lists of values, after Siddhi's extension siddhi-execution-list.

A function that changes a list gives a new one; Siddhi's changes the list itself, so that what holds it as well sees the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nadi.functions.declare import GIVEN, anything, failed, on_objects, returning, scalar, thing, whole
from nadi.functions.entries import Accumulator, Aggregator, Bag, Entry, State, StreamFunctionSpec
from nadi.functions.signatures import Arguments, Overload, Parameter, constant, match
from nadi.functions.valuewords import kind_of
from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import ON_ROWS
from nadi.plan.catalog import Column, SignatureError

Values = list[Any]
_LIST, _GIVEN_LIST, _INDEX, _VALUE = thing("list"), thing("given.list"), whole("index"), anything("value")
_DISTINCT = constant("is.distinct", Type.BOOL)
_ORDERS = ("ASC", "DESC", "REV")
_NUMBERS = (int, float)


# ---- values that are equal -------------------------------------------------------------------------------------------


def _same(one: Any, other: Any) -> bool:
    """Whether values are equal in Java: of one class, and NaN is equal to itself."""
    return type(one) is type(other) and bool(one == other or (one != one and other != other))


def _place(values: Iterable[Any], value: Any) -> int:
    """Where a value stands first, -1 where it does not."""
    return next((n for n, held in enumerate(values) if _same(held, value)), -1)


def _key(value: Any) -> tuple[type, Any]:
    """What is equal for values that are the same: lists are compared with as many steps as they have values, not with their product."""
    return (type(value), None if value != value else _frozen(value))


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return (dict, frozenset((key, _frozen(held)) for key, held in value.items()))
    return value


def _kept(values: Iterable[Any]) -> set[tuple[type, Any]]:
    return set(map(_key, values))


def _joined(values: Values, more: Iterable[Any], distinct: bool = False) -> Values:
    """Values behind others; with `distinct` those only that are not there yet."""
    if not distinct:
        return [*values, *more]
    made, held = list(values), _kept(values)
    for value in more:
        if (key := _key(value)) not in held:
            held.add(key)
            made.append(value)
    return made


def _without(values: Values, value: Any) -> Values:
    """Values without the first one that is equal to `value`."""
    place = _place(values, value)
    return list(values) if place < 0 else [*values[:place], *values[place + 1 :]]


# ---- functions -------------------------------------------------------------------------------------------------------


def _within(name: str, values: Values, index: int | None, end: int) -> int:
    """An index that is at least 0 and less than `end`."""
    if index is None or not 0 <= index < end:
        raise failed(name, f"the index {'null' if index is None else index} is not within a list of {len(values)}")
    return index


def _add(values: Values, value: Any, *index: int | None) -> Values:
    at = _within("list:add", values, index[0], len(values) + 1) if index else len(values)
    return [*values[:at], value, *values[at:]]


def _get(values: Values, index: int | None) -> Any:
    return values[_within("list:get", values, index, len(values))]


def _remove_by_index(values: Values, index: int | None) -> Values:
    at = _within("list:removeByIndex", values, index, len(values))
    return [*values[:at], *values[at + 1 :]]


def _set_value(values: Values, index: int | None, value: Any) -> Values:
    at = _within("list:setValue", values, index, len(values))
    return [*values[:at], value, *values[at + 1 :]]


def _last_index(values: Values, value: Any) -> int:
    behind = _place(reversed(values), value)
    return behind if behind < 0 else len(values) - 1 - behind


def _retained(values: Values, given: Values, kept: bool) -> Values:
    held = _kept(given)
    return [value for value in values if (_key(value) in held) is kept]


def _holds_all(values: Values, given: Values) -> bool:
    return _kept(given) <= _kept(values)


def _holds_any(values: Values, given: Values) -> bool:
    return not _kept(given).isdisjoint(_kept(values))


def _checked_order(args: Arguments) -> Type:
    if len(args) == 2 and str(args[1].value).upper() not in _ORDERS:
        raise SignatureError(f"'order' must be 'ASC', 'DESC' or 'REV', not {args[1].value!r}")
    return Type.OBJECT


def _make_sort(args: Arguments, _kind: Type) -> Callable[..., Any]:
    order = str(args[1].value).upper() if len(args) == 2 else "REV"  # as in Siddhi: without an order it is turned round

    def sort(values: Values, *_order: Any) -> Values:
        if order == "REV":
            return values[::-1]
        texts = all(isinstance(value, str) for value in values)
        if not texts and not all(isinstance(v, _NUMBERS) and not isinstance(v, bool) for v in values):
            raise failed("list:sort", "only texts can be sorted, or numbers")
        made = sorted(values, key=_ignoring_case if texts else _number)
        return made[::-1] if order == "DESC" else made

    return on_objects("list:sort", list, sort)


def _ignoring_case(value: str) -> str:
    return value.upper().lower()


def _number(value: float) -> tuple[bool, float]:
    """NaN is greater than all numbers."""
    return (value != value, value)


def _entry(
    name: str,
    doc: str,
    example: str,
    result: Type,
    overloads: Iterable[Overload],
    function: Callable[..., Any],
    lists: int = 1,
) -> Entry:
    checked = on_objects(f"list:{name}", list, function, lists)
    return scalar(f"list:{name}", doc, (f"list:{name}({example}",), result, list(overloads), checked, nulls=GIVEN)


# ---- tokenize --------------------------------------------------------------------------------------------------------


def _check_tokenize(args: Arguments) -> tuple[Column, ...]:
    match(args, (_LIST, Parameter("list", (Type.OBJECT,), rest=True)))
    return (Column("index", Type.INT), Column("value", Type.OBJECT))


def _make_tokenize(types: tuple[Type, ...]) -> Callable[[tuple[Any, ...]], Any]:
    def tokenize(*lists: Values) -> list[tuple[int, Any]]:
        if len(lists) == 1:
            return list(enumerate(lists[0]))
        longest = max(map(len, lists))
        return [(n, [values[n] if n < len(values) else None for values in lists]) for n in range(longest)]

    checked = on_objects("list:tokenize", list, tokenize, len(types))
    return lambda values: checked(*values)


# ---- aggregators -----------------------------------------------------------------------------------------------------


def _collecting(name: str, values_of: Callable[[Any], Iterable[Any]]) -> Callable[[Arguments, bool], Accumulator]:
    """The state is the list. What leaves takes the first equal value along, also of a list of distinct ones, as in Siddhi."""

    def make(args: Arguments, removes: bool) -> Accumulator:
        distinct = len(args) > 1 and args[1].value is True

        def add(state: State, value: Any, bag: Bag | None, group: object) -> Values:
            state[:] = _joined(state, values_of(value), distinct)
            return list(state)

        def remove(state: State, value: Any, bag: Bag | None, group: object) -> Values:
            for one in values_of(value):
                state[:] = _without(state, one)
            return list(state)

        return Accumulator(list, add, remove)

    return make


def _one(value: Any) -> tuple[Any]:
    return (value,)


def _each(value: Any) -> Values:
    if not isinstance(value, list):
        raise failed("list:merge", f"parameter 1 must be a list, not {kind_of(value)}")
    return value


_O, _B, _I = Type.OBJECT, Type.BOOL, Type.INT
_ABA = "list:create('a', 'b', 'a')"

ENTRIES: tuple[Entry, ...] = (
    scalar(
        "list:create",
        "A list of values; an empty one without any.",
        ("list:create('a', 1, 2.5) → [\"a\",1,2.5]", "list:create() → []"),
        _O,
        [(anything("value", rest=True),)],
        lambda *values: list(values),
        nulls=GIVEN,
    ),
    scalar(
        "list:isList",
        "Whether a value is a list.",
        ("list:isList('a') → false", f"list:isList({_ABA}) → true"),
        _B,
        [(anything("arg"),)],
        lambda value: isinstance(value, list),
        nulls=GIVEN,
    ),
    _entry(
        "add",
        "A list with one value more: at its end, or at an index.",
        f'{_ABA}, \'x\', 1) → ["a","x","b","a"]',
        _O,
        [(_LIST, _VALUE), (_LIST, _VALUE, _INDEX)],
        _add,
    ),
    _entry(
        "addAll",
        "A list with all values of another one behind its own; with `is.distinct` those only that are not there yet.",
        f'{_ABA}, list:create(\'b\', \'c\'), true) → ["a","b","a","c"]',
        _O,
        [
            (thing("to.list"), thing("from.list")),
            (thing("to.list"), thing("from.list"), Parameter("is.distinct", (_B,))),
        ],
        lambda to, given, distinct=False: _joined(to, given, distinct is True),
        2,
    ),
    _entry("clear", "An empty list.", f"{_ABA}) → []", _O, [(_LIST,)], lambda values: []),
    _entry("clone", "A copy of a list.", f'{_ABA}) → ["a","b","a"]', _O, [(_LIST,)], list),
    _entry(
        "contains",
        "Whether a list has a value.",
        f"{_ABA}, 'b') → true",
        _B,
        [(_LIST, _VALUE)],
        lambda values, value: _place(values, value) >= 0,
    ),
    _entry(
        "containsAll",
        "Whether a list has all values of another one.",
        f"{_ABA}, list:create('b', 'x')) → false",
        _B,
        [(_LIST, _GIVEN_LIST)],
        _holds_all,
        2,
    ),
    _entry(
        "containsAny",
        "Whether a list has a value of another one.",
        f"{_ABA}, list:create('b', 'x')) → true",
        _B,
        [(_LIST, _GIVEN_LIST)],
        _holds_any,
        2,
    ),
    _entry("get", "The value at an index, from 0.", f'{_ABA}, 1) → "b"', _O, [(_LIST, _INDEX)], _get),
    _entry(
        "indexOf",
        "Where a value stands first, -1 where it does not.",
        f"{_ABA}, 'a') → 0",
        _I,
        [(_LIST, _VALUE)],
        _place,
    ),
    _entry(
        "isEmpty", "Whether a list has no values.", "list:create()) → true", _B, [(_LIST,)], lambda values: not values
    ),
    _entry(
        "lastIndexOf",
        "Where a value stands last, -1 where it does not.",
        f"{_ABA}, 'a') → 2",
        _I,
        [(_LIST, _VALUE)],
        _last_index,
    ),
    _entry(
        "remove",
        "A list without the first value that is equal to one.",
        f'{_ABA}, \'a\') → ["b","a"]',
        _O,
        [(_LIST, _VALUE)],
        _without,
    ),
    _entry(
        "removeAll",
        "A list without all values of another one.",
        f"{_ABA}, list:create('a')) → [\"b\"]",
        _O,
        [(_LIST, _GIVEN_LIST)],
        lambda values, given: _retained(values, given, False),
        2,
    ),
    _entry(
        "removeByIndex",
        "A list without the value at an index.",
        f'{_ABA}, 1) → ["a","a"]',
        _O,
        [(_LIST, _INDEX)],
        _remove_by_index,
    ),
    _entry(
        "retainAll",
        "The values of a list that another one has.",
        f'{_ABA}, list:create(\'a\')) → ["a","a"]',
        _O,
        [(_LIST, _GIVEN_LIST)],
        lambda values, given: _retained(values, given, True),
        2,
    ),
    _entry(
        "setValue",
        "A list with another value at an index.",
        f'{_ABA}, 1, \'x\') → ["a","x","a"]',
        _O,
        [(_LIST, _INDEX, _VALUE)],
        _set_value,
    ),
    _entry("size", "How many values a list has.", f"{_ABA}) → 3", _I, [(_LIST,)], len),
    scalar(
        "list:sort",
        "A list in the order 'ASC' or 'DESC' of its numbers or texts (capitals do not matter), or turned round: 'REV', the default.",
        ("list:sort(list:create(3, 1, 2), 'ASC') → [1,2,3]", "list:sort(list:create(3, 1, 2)) → [2,1,3]"),
        _checked_order,
        [(_LIST,), (_LIST, constant("order", Type.STRING))],
        make=_make_sort,
        nulls=GIVEN,
    ),
    StreamFunctionSpec(
        "list:tokenize",
        _check_tokenize,
        _make_tokenize,
        "The event goes on once for each place of the lists, with the attributes `index` and `value` (of several lists the list of their values).",
        ("list", "…"),
        ("#list:tokenize(list:create('a', 'b')) → (0, \"a\"), (1, \"b\")",),
        many=True,
    ),
    Aggregator(
        "list:collect",
        returning(_O, (_VALUE,), (_VALUE, _DISTINCT)),
        _collecting("list:collect", _one),
        "The list of the values; each once if distinct.",
        ("value", "is.distinct"),
        (
            "list:collect(x) over 'a', 'b', 'a' → [\"a\",\"b\",\"a\"]",
            "list:collect(x, true) over 'a', 'b', 'a' → [\"a\",\"b\"]",
        ),
        traits=ON_ROWS,
    ),
    Aggregator(
        "list:merge",
        returning(_O, (_LIST,), (_LIST, _DISTINCT)),
        _collecting("list:merge", _each),
        "The list of the values of all lists; each once if distinct.",
        ("list", "is.distinct"),
        ("list:merge(list:create(x, 1)) over 2, 3 → [2,1,3,1]",),
        traits=ON_ROWS,
    ),
)
