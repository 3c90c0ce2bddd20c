"""Java's patterns on Python's engine."""

from __future__ import annotations

import pytest

from nadi.functions.javaregex import PatternError, compiled, replaced, split


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"\d\d(.*)WSO2", "21 products by WSO2", True),
        (r"(?<a>x)\k<a>", "xx", True),
        (r"a++b", "aab", True),
        (r"a++ab", "aab", False),
        (r"(?>a+)b", "aab", True),
        (r"\Qa.b\E+", "a.bb", True),
        (r"\Qa.b\E", "axb", False),
        (r"[a-c[x-z]]+", "abxz", True),
        (r"[a-z&&[^aeiou]]+", "xyz", True),
        (r"[a-z&&[^aeiou]]+", "xaz", False),
        (r"[^a-c[x-z]]", "x", False),
        (r"[^a-c[x-z]]", "m", True),
        (r"[\w&&[^\d]]", "5", False),
        (r"[]a]+", "]a", True),
        (r"[a\-z]+", "-za", True),
        (r"[a-]+", "a-", True),
        (r"\p{Alpha}\p{Punct}", "a[", True),
        (r"\p{Lu}\p{L}\P{L}", "Äß1", True),
        (r"\p{IsAlphabetic}", "é", True),
        (r"\p{Alpha}", "é", False),
        (r"\p{javaLowerCase}", "é", True),
        (r"\w", "é", False),
        (r"(?U)\w", "é", True),
        (r"\d", "٣", False),
        (r"(?i)ÄB", "Äb", True),
        (r"(?i)ÄB", "äb", False),
        (r"(?iu)ÄB", "äb", True),
        (r"a(?i)b|c", "C", True),
        (r"(a(?i)b)c", "aBc", True),
        (r"(a(?i)b)c", "aBC", False),
        (r"(?i:a)b", "Ab", True),
        (r"(?i)a(?-i)b", "AB", False),
        (r"a.b", "a\rb", False),
        (r"(?s)a.b", "a\rb", True),
        (r"(?x) a b # a comment", "ab", True),
        (r"\x41\u0042\0103\x{44}\cA", "ABCD\x01", True),
        (r"\h\R", "\t\r\n", True),
        (r"(a)\11", "aa1", True),
        (r"x\2(a)", "xa", False),
        ("😀+", "😀😀", True),
        (r"\ud83d\ude00", "😀", True),
    ],
)
def test_a_pattern_matches_what_java_lets_it_match(pattern: str, text: str, matches: bool) -> None:
    assert (compiled(pattern).fullmatch(text) is not None) is matches


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"a$", "a\r\n", True),
        (r"a$", "a\u2028", True),
        (r"a$", "a\nb", False),
        (r"(?m)a$", "a\rb", True),
        (r"(?m)^b", "a\r\nb", True),
        (r"^b", "a\nb", False),
        (r"a\z", "a\n", False),
        (r"a\Z", "a\n", True),
    ],
)
def test_lines_end_as_in_java(pattern: str, text: str, found: bool) -> None:
    assert (compiled(pattern).search(text) is not None) is found


@pytest.mark.parametrize(
    "pattern",
    [
        r"(",
        r")",
        r"[a",
        r"\G",
        r"\X",
        r"a{,3}",
        r"(?P<a>x)",
        r"(?#c)",
        r"\y",
        r"\p{InGreek}",
        r"(?<=a+)b",
        "\\",
        r"*a",
        r"[z-a]",
    ],
)
def test_what_cannot_be_used_is_refused_with_a_sentence(pattern: str) -> None:
    with pytest.raises(PatternError, match="cannot be used"):
        compiled(pattern)


def test_replacements_name_groups_as_in_java() -> None:
    pattern = compiled(r"(?<n>\d)(x)?")
    assert replaced(pattern, "1-2x", r"<${n}$2\$>") == "<1$>-<2x$>"
    assert replaced(pattern, "1-2x", "$10", count=1) == "10-2x"
    for wrong in ("$3", "$", "${m}", "\\"):
        with pytest.raises(PatternError):
            replaced(pattern, "1", wrong)


@pytest.mark.parametrize(
    ("pattern", "text", "parts"),
    [
        (",", "a,,b,,", ["a", "", "b"]),
        (",", ",a", ["", "a"]),
        (",", "", [""]),
        (",", ",", []),
        ("", "abc", ["a", "b", "c"]),
        ("(?=b)", "abab", ["a", "ba", "b"]),
        ("x", "abc", ["abc"]),
    ],
)
def test_splitting_leaves_out_empty_parts_at_the_end(pattern: str, text: str, parts: list[str]) -> None:
    assert split(compiled(pattern), text) == parts


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"(?U)\p{Alpha}+", "αβγ漢", True),
        (r"(?U)\p{ALNUM}+", "é٣", True),
        (r"(?U)\p{Lower}", "П", False),
        (r"(?U)\p{XDigit}+", "١Ｆ", True),
        (r"(?U)\p{Print}+", "a b", True),
        (r"(?U)\p{Graph}+", "a b", False),
        (r"\p{Alpha}", "é", False),
        (r"\p{IsAlphabetic}+", "Ⅷ\u0903Ⓐ", True),
        (r"(?U)\w+", "Ⅷ\u200d", True),
        (r"(?i)\p{Lu}+", "é", True),
        (r"\p{Lu}+", "é", False),
        (r"(?i)\p{IsUppercase}+", "ǅé", True),
        (r"(?iU)\p{Lower}+", "ПП", True),
        (r"[a&&]+", "aa", True),
        (r"[&&a]+", "aa", True),
    ],
)
def test_properties_mean_what_java_means_where_flags_change_them(pattern: str, text: str, matches: bool) -> None:
    assert (compiled(pattern).fullmatch(text) is not None) is matches


@pytest.mark.parametrize("pattern", ["[a&&&b]", "[&&]", r"\p{IsGreek}", r"(?<=fo*)bar", r"\p{cased}", r"\p{Isalnum}"])
def test_what_would_match_otherwise_than_in_java_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="cannot be used"):
        compiled(pattern)
