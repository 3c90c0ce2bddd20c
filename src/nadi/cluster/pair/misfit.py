"""Whether two nodes can stand in for each other: their versions, settings and apps are the same."""

from __future__ import annotations

from nadi.eventsync.contract import Hello


def differs(mine: Hello, other: Hello) -> str:
    """What catching up cannot make equal; "" where nothing differs.

    >>> one = Hello("n1", "i1", "4f", 1, "1.0", "3", "ab", {"A": "d1"})
    >>> differs(one, Hello("n2", "i2", "5c", 1, "1.1", "3", "ab", {"A": "d2"}))
    'version 1.0 and 1.1'
    """
    pairs = (
        ("version", mine.version, other.version),
        ("kernel semantics", mine.semantics, other.semantics),
        ("settings", mine.settings, other.settings),
    )
    return ", ".join(f"{name} {one} and {two}" for name, one, two in pairs if one != two)


def apps_differ(mine: Hello, other: Hello) -> str:
    """Which apps have other texts, or are at one node only; "" where none.

    >>> one = Hello("n1", "i1", "4f", 1, "1.0", "3", "ab", {"A": "d1", "B": "d2"})
    >>> apps_differ(one, Hello("n2", "i2", "5c", 1, "1.0", "3", "ab", {"A": "d3"}))
    'apps A, B'
    """
    names = sorted(n for n in mine.apps.keys() | other.apps.keys() if mine.apps.get(n) != other.apps.get(n))
    return f"apps {', '.join(names)}" if names else ""
