"""Matches that are linked one after the other, brought in the order of a time, without any memory but their links."""

from __future__ import annotations

from nadi.kernel.columns.jit import bare


@bare
def by_time(words, head, link, time, unbound):  # type: ignore[no-untyped-def]
    """Sort the nodes of a list, stable, by the word `time` of each; a time of `unbound` stands last. The first one comes back.

    `link` is the word that names the next node, 0 behind the last one. Merges runs of 1, 2, 4, … nodes.
    """
    size, merges = 1, 2
    while merges > 1:
        merges = tail = 0
        one, head = head, 0
        while one != 0:
            merges += 1
            other, ones = one, 0
            while ones < size and other != 0:
                other = words[other + link]
                ones += 1
            others = size
            while ones > 0 or (others > 0 and other != 0):
                mine = others == 0 or other == 0 or not_after(words[one + time], words[other + time], unbound)
                if ones > 0 and mine:
                    node, one = one, words[one + link]
                    ones -= 1
                else:
                    node, other = other, words[other + link]
                    others -= 1
                if tail != 0:
                    words[tail + link] = node
                else:
                    head = node
                tail = node
            one = other
        words[tail + link] = 0
        size *= 2
    return head


@bare
def not_after(ts, other, unbound):  # type: ignore[no-untyped-def]
    """Whether a time may stand before another one."""
    return other == unbound or (ts != unbound and ts <= other)
