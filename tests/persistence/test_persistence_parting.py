"""Keyed state of some instances is shared out among other ones, as their channels are: by runs of key-groups that need not be even."""

from __future__ import annotations

import pytest

from nadi.kernel.keys import key_group
from nadi.persistence.restoredstate import Restored
from nadi.pipeline.revision.inheritance import Heritage, JoinedState
from nadi.plan.distribution.shares import assigned, key_groups
from tests.persistence.columnsrig import ColumnsNode
from tests.persistence.restorerig import Message, Node

APP = """@app:name('A')
define stream S (k string, v long);
partition with (k of S) begin
  @info(name='sums') from S#window.length(3) select k, sum(v) as total, count() as n insert into OutSums;
  @info(name='slow') from S#window.time(50) select k, v insert expired events into OutLate;
end;
"""
KEYS = [f"k{n}" for n in range(40)]


class Instances:
    """The instances of a group, each a node of one bucket; events go to them by key."""

    def __init__(self, kind: type[Node], count: int, parts: int, begin: bool = True) -> None:
        self.firsts = tuple(key_groups(assigned(parts, count, n + 1), parts).start for n in range(count))
        self.heritage = Heritage((), 0, self.firsts)
        self.nodes = [kind(APP, begin=0 if begin else None) for _ in range(count)]

    def feed(self, messages: list[Message], until: int) -> None:
        for number, node in enumerate(self.nodes):
            node.feed([m for m in messages if self.heritage.home(key_group(m[2][0])) == number], until)

    def rows(self) -> list[tuple[object, ...]]:
        return sorted(row for node in self.nodes for row in node.taken())

    def go_on(self, count: int, parts: int) -> Instances:
        """Others with the state of these."""
        made = Instances(type(self.nodes[0]), count, parts, begin=False)
        state = JoinedState([node.state() for node in self.nodes])
        plan = self.nodes[0].plan(APP)
        for number, node in enumerate(made.nodes):
            app, clock = self.nodes[0].app, self.nodes[0].clock
            parted = Restored(
                state,
                plan,
                app,
                node.app,
                count,
                clock,
                lambda of, _n, node=node: node.kernel(of, 0),
                made.heritage.home,
            )
            node.kernels[0].load(parted.parts(number))
            node.clock, node.position = clock, 1_000
        return made


def messages(start: int, count: int) -> list[Message]:
    return [("S", 10 * n, (KEYS[n * 7 % len(KEYS)], n)) for n in range(start, start + count)]


@pytest.mark.parametrize("kind", [Node, ColumnsNode])
@pytest.mark.parametrize("deltas", [False, True])
def test_one_then_three_then_two_instances_give_what_one_gives(kind: type[Node], deltas: bool) -> None:
    whole, group = Instances(kind, 1, 1), Instances(kind, 1, 1)
    for step, (count, parts) in enumerate([(1, 1), (3, 7), (2, 5), (1, 1)]):
        if step:
            group = group.go_on(count, parts)
        if deltas:
            for node in group.nodes:
                node.base()
        given = messages(100 * step, 100)
        for one in (whole, group):
            one.feed(given[:60], 1_000 * step + 600)
            one.feed(given[60:], 1_000 * (step + 1))
        assert group.rows() == whole.rows()


def test_a_state_that_is_of_the_columns_kernel_stays_there() -> None:
    group = Instances(ColumnsNode, 1, 1)
    group.feed(messages(0, 30), 300)
    parted = group.go_on(3, 3)
    assert all(node.on_columns for node in parted.nodes)  # type: ignore[attr-defined]


def test_numbers_of_outputs_go_with_their_key_groups() -> None:
    group = Instances(Node, 2, 2)
    group.feed(messages(0, 80), 800)
    before = {(row[0], row[1]): row[2] for row in group.rows()}
    after = group.go_on(3, 3)
    after.feed(messages(80, 80), 1_600)
    for stream, of, number, *_ in sorted(after.rows()):
        assert number == before.get((stream, of), -1) + 1
        before[stream, of] = number
