"""The namespace `str`: text functions, the aggregator `str:groupConcat` and the stream function `str:tokenize`.

Text is counted in UTF-16 units, as Java does. Except where an entry says otherwise, null is an error (`NULL_VALUE`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nadi.functions import javaregex, utf16
from nadi.functions.arithmetic import java_text
from nadi.functions.boundedpatterns import Pattern
from nadi.functions.declare import (
    GIVEN,
    VALUES,
    anything,
    failed,
    returning,
    scalar,
    text,
    thing,
    whole,
)
from nadi.functions.entries import Accumulator, Aggregator, Bag, Entry, State, StreamFunctionSpec
from nadi.functions.signatures import Arguments, Parameter, constant, match, one_type
from nadi.lang.tree import Type
from nadi.plan.aggregatortraits import ON_ROWS
from nadi.plan.catalog import Column, SignatureError

_MOST = 64 * 2**20
_STRING = text("input.string")


def pattern_for(name: str, pattern: str) -> Pattern:
    """A Java pattern that an event brought; one that cannot be used is the event's error."""
    try:
        return javaregex.compiled(pattern)
    except javaregex.PatternError as reason:
        raise failed(name, reason) from reason


def check_pattern(argument: Any) -> None:
    """Refuses a constant pattern that cannot be used, when the app is made."""
    if argument.is_constant:
        try:
            javaregex.compiled(str(argument.value))
        except javaregex.PatternError as reason:
            raise SignatureError(str(reason)) from reason


def _pattern_at(position: int, result: Type) -> Callable[[Arguments], Type]:
    def returns(args: Arguments) -> Type:
        if args[position].type is Type.STRING:
            check_pattern(args[position])
        return result

    return returns


# ---- parts of a text -----------------------------------------------------------------------------------------------


def _char_at(source: str, index: int) -> str:
    units = utf16.units(source)
    if not 0 <= index < len(units):
        raise failed("str:charAt", f"the index {index} is not within {source!r}")
    return utf16.joined(units[index])


def _make_substr(args: Arguments, result: Type) -> Callable[..., Any]:
    if args[1].type is Type.STRING:
        return _matched
    return _cut


def _cut(source: str, begin: int, length: int | None = None) -> str:
    units = utf16.units(source)
    end = len(units) if length is None else begin + length
    if not 0 <= begin <= end <= len(units):
        raise failed("str:substr", f"{begin} to {end} is not within {source!r}")
    return utf16.joined(units[begin:end])


def _matched(source: str, pattern: str, group: int = 0) -> str | None:
    compiled = pattern_for("str:substr", pattern)
    found = compiled.search(source)
    if found is None:
        return ""
    if not 0 <= group <= compiled.groups:
        raise failed("str:substr", f"the pattern has no group {group}")
    part: str | None = found[group]
    return part


def _substr_type(args: Arguments) -> Type:
    if args[1].type is Type.STRING:
        check_pattern(args[1])
    return Type.STRING


def _part(source: str, pattern: str, index: int) -> str:
    parts = javaregex.split(pattern_for("str:split", pattern), source)
    if not 0 <= index < len(parts):
        raise failed("str:split", f"there is no part {index} of {source!r}")
    return parts[index]


def _locate(wanted: str, source: str, begin: int = 0) -> int:
    units = utf16.units(source)
    if not 0 <= begin <= len(units):
        raise failed("str:locate", f"the position {begin} is not within {source!r}")
    found = units[begin:].find(utf16.units(wanted))
    return found + begin  # Siddhi adds the position to -1 too where nothing is found


def _frequency(source: str, char: str) -> int:
    if len(utf16.units(char)) != 1:
        raise failed("str:charFrequency", f"'char' must be one character, not {char!r}")
    return source.count(char)


# ---- new texts -----------------------------------------------------------------------------------------------------


def _make_concat(args: Arguments, result: Type) -> Callable[..., Any]:
    kinds = [a.type for a in args]
    return lambda *values: "".join(java_text(v, k) for v, k in zip(values, kinds) if v is not None)


def _repeat(source: str, times: int) -> str:
    if len(source) * times > _MOST:
        raise failed("str:repeat", f"{len(source) * times} characters are more than {_MOST}")
    return source * times


def _unhex(source: str) -> str:
    try:
        return "".join(chr(int(source[i : i + 2], 16)) for i in _pairs(source))
    except ValueError as reason:
        raise failed("str:unhex", f"{source!r} is not hexadecimal") from reason


def _pairs(source: str) -> range:
    if source and (len(source) % 2 or not source.isalnum()):
        raise ValueError(source)
    return range(0, len(source), 2)


def _replace(name: str, count: int) -> Callable[[str, str, str], str]:
    def replace(source: str, pattern: str, replacement: str) -> str:
        try:
            return javaregex.replaced(javaregex.compiled(pattern), source, replacement, count)
        except javaregex.PatternError as reason:
            raise failed(name, reason) from reason

    return replace


def _make_fill(args: Arguments, result: Type) -> Callable[..., Any]:
    kinds = [a.type for a in args]

    def fill(template: str | None, *values: Any) -> str:
        if template is None:
            raise failed("str:fillTemplate", "the template is null")
        parts = javaregex.split(_BRACES, template)
        filled = [chosen(key, values) for key in parts[1::2]]
        if sum(map(len, filled)) > _MOST:
            raise failed("str:fillTemplate", f"the values have more than {_MOST} characters")
        parts[1::2] = filled
        return "".join(parts)

    def chosen(key: str, values: tuple[Any, ...]) -> str:
        name = key.strip()
        if isinstance(values[0], dict):
            value = values[0].get(name)
            return key if value is None else java_text(value)
        if not name.isdecimal() or not 1 <= int(name) <= len(values):
            raise failed("str:fillTemplate", f"there is no value for '{{{{{name}}}}}'")
        value = values[int(name) - 1]
        return key if value is None else java_text(value, kinds[int(name)])

    return fill


_BRACES = javaregex.compiled(r"\{\{|}}")


# ---- comparisons ---------------------------------------------------------------------------------------------------


def _contains(source: str | None, wanted: str | None) -> bool:
    if source is None:
        return False
    if wanted is None:
        raise failed("str:contains", "'search.string' is null")
    return wanted in source


def _equals_ignore_case(source: str | None, other: str | None) -> bool:
    if source is None:
        raise failed("str:equalsIgnoreCase", "'arg1' is null")
    if other is None or len(source) != len(other):
        return False
    return source == other or all(a == b or _fold(a) == _fold(b) for a, b in zip(source, other))


def _fold(char: str) -> str:
    """Java folds character by character: one that becomes several stays as it is."""
    upper = char.upper()
    lower = (upper if len(upper) == 1 else char).lower()
    return lower if len(lower) == 1 else char


def _compare(left: str, right: str) -> int:
    one, other = utf16.units(left), utf16.units(right)
    for a, b in zip(one, other):
        if a != b:
            return ord(a) - ord(b)
    return len(one) - len(other)


# ---- groupConcat ---------------------------------------------------------------------------------------------------


_CONCAT = (
    (text("key"),),
    (text("key"), constant("separator", Type.STRING)),
    (text("key"), constant("separator", Type.STRING), constant("distinct", Type.BOOL)),
    (
        text("key"),
        constant("separator", Type.STRING),
        constant("distinct", Type.BOOL),
        constant("order", Type.STRING),
    ),
)


def _concat_type(args: Arguments) -> Type:
    if len(args) == 4 and str(args[3].value).upper() not in ("ASC", "DESC"):
        raise SignatureError(f"'order' must be 'ASC' or 'DESC', not {args[3].value!r}")
    return Type.STRING


def _make_concat_group(args: Arguments, removes: bool) -> Accumulator:
    """Equal keys stand together, where the first of them came; with one argument a null key is left out, with more it is the text "null"."""
    separator = "," if len(args) < 2 else str(args[1].value)
    distinct = len(args) > 2 and args[2].value is True
    order = str(args[3].value).upper() if len(args) == 4 else ""
    skips_null = len(args) == 1

    def shown(bag: Bag, group: object) -> str:
        keys: Any = bag.values(group)
        if order:
            keys = sorted(keys, key=utf16.units, reverse=order == "DESC")
        return separator.join(key for key in keys for _ in range(1 if distinct else bag.count(group, key)))

    def step(adding: bool) -> Callable[[State, Any, Bag | None, object], Any]:
        def change(state: State, value: Any, bag: Bag | None, group: object) -> Any:
            if bag is None:
                raise ValueError("str:groupConcat needs a bag")
            if value is not None or not skips_null:
                (bag.add if adding else bag.remove)(group, "null" if value is None else value)
            return shown(bag, group)

        return change

    return Accumulator(list, step(True), step(False), bag=True)


# ---- tokenize ------------------------------------------------------------------------------------------------------


def _check_tokenize(args: Arguments) -> tuple[Column, ...]:
    pattern = constant("regex", Type.STRING)
    match(args, (_STRING, pattern), (_STRING, pattern, constant("distinct", Type.BOOL)))
    check_pattern(args[1])
    return (Column("token", Type.STRING),)


def _make_tokenize(types: tuple[Type, ...]) -> Callable[[tuple[Any, ...]], Any]:
    def tokenize(values: tuple[Any, ...]) -> list[tuple[str]]:
        if values[0] is None:
            raise failed("str:tokenize", "'input.string' is null")
        words = javaregex.split(pattern_for("str:tokenize", values[1]), values[0])
        kept = dict.fromkeys(words) if len(values) == 3 and values[2] is True else words
        return [(word,) for word in kept]

    return tokenize


# ---- entries -------------------------------------------------------------------------------------------------------

_S, _I, _B = Type.STRING, Type.INT, Type.BOOL
_PATTERN, _REPLACEMENT = text("regex"), text("replacement.string")

ENTRIES: tuple[Entry, ...] = (
    scalar(
        "str:charAt",
        "The character at an index, counted from 0; an index outside the text is an error.",
        ("str:charAt('WSO2', 1) → 'S'",),
        _S,
        [(text("input.value"), whole("index"))],
        _char_at,
    ),
    scalar(
        "str:charFrequency",
        "How often one character occurs.",
        ("str:charFrequency('WSO2,ABM,NSFT', ',') → 2L",),
        Type.LONG,
        [(_STRING, text("char"))],
        _frequency,
    ),
    scalar(
        "str:coalesce",
        "The first argument that is not null; all are of one type.",
        ("str:coalesce('BBB', 'CCC') → 'BBB'",),
        one_type,
        [(anything("args"), anything("args", rest=True))],
        lambda *values: next((v for v in values if v is not None), None),
        nulls=GIVEN,
    ),
    scalar(
        "str:concat",
        "The texts of the arguments, one after the other; nulls are left out.",
        ("str:concat('D533', '8JU^', 'XYZ') → 'D5338JU^XYZ'", "str:concat('n=', 5) → 'n=5'"),
        _S,
        [(anything("argn"), anything("argn"), anything("argn", rest=True))],
        make=_make_concat,
        nulls=GIVEN,
    ),
    scalar(
        "str:contains",
        "Whether a text contains another one; false if the first is null.",
        ("str:contains('21 products are produced by WSO2', 'WSO2') → true",),
        _B,
        [(_STRING, text("search.string"))],
        _contains,
        nulls=GIVEN,
    ),
    scalar(
        "str:equalsIgnoreCase",
        "Whether two texts are equal if case is ignored; false if the second is null.",
        ("str:equalsIgnoreCase('WSO2', 'wso2') → true",),
        _B,
        [(text("arg1"), text("arg2"))],
        _equals_ignore_case,
        nulls=GIVEN,
    ),
    scalar(
        "str:fillTemplate",
        "A template whose `{{1}}`, `{{2}}` … are filled with the values, or whose `{{key}}` from a map; what is null or missing leaves the key.",
        (
            "str:fillTemplate('{{1}} > 100 && {{2}} < 10000', 200, 300) → '200 > 100 && 300 < 10000'",
            "str:fillTemplate('{{prize}} of {{all}}', map:create('prize', 300, 'all', 2)) → '300 of 2'",
        ),
        _S,
        [
            (text("template"), thing("map")),
            (text("template"), Parameter("replacement", VALUES), Parameter("replacement", VALUES, rest=True)),
        ],
        make=_make_fill,
        nulls=GIVEN,
    ),
    scalar(
        "str:hex",
        "The numbers of the characters, hexadecimal.",
        ("str:hex('MySQL') → '4d7953514c'",),
        _S,
        [(_STRING,)],
        lambda s: "".join(f"{ord(c):x}" for c in utf16.units(s)),
    ),
    scalar(
        "str:length",
        "The length of a text.",
        ("str:length('Hello World') → 11",),
        _I,
        [(_STRING,)],
        lambda s: len(utf16.units(s)),
    ),
    scalar(
        "str:locate",
        "Where a text is found in another one, from 0; -1 if it is not (plus the position, if one to begin at is given).",
        ("str:locate('@wso2.com', 'streaming@wso2.com') → 9", "str:locate('a', 'banana', 2) → 3"),
        _I,
        [
            (text("string.to.search.for"), text("string.to.search.in")),
            (text("string.to.search.for"), text("string.to.search.in"), whole("searching.start.position")),
        ],
        _locate,
    ),
    scalar("str:lower", "In small letters.", ("str:lower('WSO2 cep ') → 'wso2 cep '",), _S, [(_STRING,)], str.lower),
    scalar(
        "str:regexp",
        "Whether a whole text matches a Java pattern.",
        ("str:regexp('WSO2 abcdh', 'WSO(.*h)') → true",),
        _pattern_at(1, _B),
        [(_STRING, _PATTERN)],
        lambda s, p: pattern_for("str:regexp", p).fullmatch(s) is not None,
    ),
    scalar(
        "str:repeat",
        "A text a number of times; nothing for 0 and less.",
        ("str:repeat('ab', 3) → 'ababab'",),
        _S,
        [(_STRING, whole("times"))],
        _repeat,
    ),
    scalar(
        "str:replaceAll",
        "Replaces all that matches a Java pattern; `$1` in the replacement is the first group.",
        ("str:replaceAll('hello hi hello', 'hello', 'test') → 'test hi test'",),
        _pattern_at(1, _S),
        [(_STRING, _PATTERN, _REPLACEMENT)],
        _replace("str:replaceAll", 0),
    ),
    scalar(
        "str:replaceFirst",
        "Replaces the first part that matches a Java pattern.",
        ("str:replaceFirst('hello WSO2 A hello', 'WSO2(.*)A', 'XXXX') → 'hello XXXX hello'",),
        _pattern_at(1, _S),
        [(_STRING, _PATTERN, _REPLACEMENT)],
        _replace("str:replaceFirst", 1),
    ),
    scalar(
        "str:reverse", "The text backwards.", ("str:reverse('abcd') → 'dcba'",), _S, [(_STRING,)], lambda s: s[::-1]
    ),
    scalar(
        "str:split",
        "The part of a text at an index, where a Java pattern separates parts; empty parts at the end do not count.",
        ("str:split('WSO2,ABM,NSFT', ',', 0) → 'WSO2'",),
        _pattern_at(1, _S),
        [(_STRING, text("split.string"), whole("group.number"))],
        _part,
    ),
    scalar(
        "str:strcmp",
        "Less than 0, 0 or more than 0, as the first text comes before, is equal to or comes after the second.",
        ("str:strcmp('AbCDefghiJ KLMN', 'Hello') → -7",),
        _I,
        [(text("arg1"), text("arg2"))],
        _compare,
    ),
    scalar(
        "str:substr",
        "A part of a text: from an index (of a length), or what a Java pattern (or a group of it) matches first, empty if nothing does.",
        (
            "str:substr('AbCDefghiJ KLMN', 4) → 'efghiJ KLMN'",
            "str:substr('AbCDefghiJ KLMN', 2, 4) → 'CDef'",
            "str:substr('WSO2D efghiJ KLMN', '^WSO2(.*)') → 'WSO2D efghiJ KLMN'",
            "str:substr('WSO2 cep WSO2 XX E hi hA WSO2 heAllo', 'WSO2(.*)A(.*)', 2) → 'llo'",
        ),
        _substr_type,
        [
            (_STRING, whole("begin.index")),
            (_STRING, whole("begin.index"), whole("length")),
            (_STRING, _PATTERN),
            (_STRING, _PATTERN, whole("group.number")),
        ],
        make=_make_substr,
    ),
    scalar(
        "str:trim",
        "Without white space and control characters at both ends.",
        ("str:trim('  AbC  ') → 'AbC'",),
        _S,
        [(_STRING,)],
        lambda s: s.strip("".join(map(chr, range(33)))),
    ),
    scalar(
        "str:unhex",
        "The text of hexadecimal numbers of characters, two digits each.",
        ("str:unhex('4d7953514c') → 'MySQL'",),
        _S,
        [(_STRING,)],
        _unhex,
    ),
    scalar("str:upper", "In capital letters.", ("str:upper('Wso2') → 'WSO2'",), _S, [(_STRING,)], str.upper),
    Aggregator(
        "str:groupConcat",
        returning(_concat_type, *_CONCAT),
        _make_concat_group,
        "The keys of all events, joined by a separator (a comma), equal ones side by side; each once if distinct, sorted if ordered.",
        ("key", "separator", "distinct", "order"),
        (
            "str:groupConcat(x) over 'A', 'B', 'A' → 'A,A,B'",
            "str:groupConcat(x, '-', true, 'DESC') over 'A', 'B', 'A' → 'B-A'",
        ),
        traits=ON_ROWS,
    ),
    StreamFunctionSpec(
        "str:tokenize",
        _check_tokenize,
        _make_tokenize,
        "Splits a text where a Java pattern matches; the event goes on once for each part, which is its attribute `token`.",
        ("input.string", "regex", "distinct"),
        ("#str:tokenize('Android,Windows8,iOS', ',') → ('Android'), ('Windows8'), ('iOS')",),
        many=True,
    ),
)
