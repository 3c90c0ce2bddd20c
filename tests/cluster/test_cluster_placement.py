from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nadi.cluster.placement import Placed, Seat, Tally, Wish, moves, place
from nadi.cluster.rows import Part
from nadi.cluster.settings import Placing
from nadi.cluster.sockets import Occupied, Socket, sockets_of, written

ALGORITHMS = ("round-robin", "least-cpu", "weight")


def part(instance: str, group: str = "", weight: float = 1.0, receiver: bool = False, listens: str = "") -> Part:
    return Part(instance, "A", group or instance, "", "", receiver, weight, listens)


def seats(number: int) -> list[Seat]:
    return [Seat(f"w{n:03d}") for n in range(number)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_instances_of_a_group_go_to_different_workers(algorithm: str) -> None:
    tally = Tally.of(seats(3), [(part("x", weight=9.0), "w000")], Placing(algorithm))
    placed = place([part(f"g-{n}", "g") for n in range(3)], tally)
    assert sorted(placed.workers.values()) == ["w000", "w001", "w002"]


def test_round_robin_goes_on_where_it_was() -> None:
    tally = Tally.of(seats(3), [], Placing())
    assert list(place([part("a"), part("b")], tally).workers.values()) == ["w000", "w001"]
    assert list(place([part("c"), part("d")], tally).workers.values()) == ["w002", "w000"]


def test_least_cpu_takes_the_idlest_and_counts_what_it_has_placed_since() -> None:
    busy = [Seat("idle", cpu=0.1), Seat("busy", cpu=0.9), Seat("half", cpu=0.5)]
    tally = Tally.of(busy, [(part(str(n)), "half") for n in range(5)], Placing("least-cpu"))
    placed = list(place([part(f"p{n}") for n in range(5)], tally).workers.values())
    assert tally.share == pytest.approx(0.3)  # five instances on one and a half busy machines
    assert placed == ["idle", "idle", "half", "idle", "half"]


def test_a_worker_without_metrics_counts_as_one_of_the_middle() -> None:
    tally = Tally.of([Seat("a", cpu=0.2), Seat("b"), Seat("c", cpu=0.8)], [], Placing("least-cpu"))
    assert tally.busy["b"] == 0.5


def test_weight_takes_who_has_the_least() -> None:
    has = [(part("x", weight=5.0), "w000"), (part("y", weight=1.0), "w001")]
    tally = Tally.of(seats(2), has, Placing("weight"))
    assert list(place([part("a", weight=2.0), part("b")], tally).workers.values()) == ["w001", "w001"]


def test_receivers_go_to_receiver_nodes_and_nothing_else_does() -> None:
    tally = Tally.of([Seat("r", receiver=True), Seat("w")], [], Placing())
    placed = place([part("in", receiver=True), part("a"), part("b")], tally)
    assert placed.workers == {"in": "r", "a": "w", "b": "w"}


def test_receivers_go_to_workers_where_there_are_no_receiver_nodes() -> None:
    tally = Tally.of([Seat("w")], [], Placing())
    assert place([part("in", receiver=True)], tally).workers == {"in": "w"}


@pytest.mark.parametrize(
    ("there", "least", "reason"),
    [
        ([], 1, "0 of 1 workers are there (minResourceCount)"),
        ([Seat("w")], 2, "1 of 2 workers are there (minResourceCount)"),
        ([Seat("r", receiver=True)], 0, "no worker is there that is not a receiver node"),
    ],
)
def test_an_app_that_cannot_be_placed_says_why_and_leaves_no_trace(there: list[Seat], least: int, reason: str) -> None:
    tally = Tally.of(there, [], Placing(least=least))
    placed = place([part("in", receiver=True), part("a")], tally)
    assert (placed.workers, placed.reason) == ({}, reason)
    assert not +tally.counts


def test_wishes_are_followed_as_far_as_there_are_workers() -> None:
    tally = Tally.of(seats(2), [], Placing())
    wishes = {"a": Wish(to="w001"), "b": Wish(away="w000"), "c": Wish(to="gone")}
    placed = place([part("a"), part("b"), part("c")], tally, wishes).workers
    assert placed == {"a": "w001", "b": "w001", "c": "w000"}
    alone = Tally.of(seats(1), [], Placing())
    assert place([part("b")], alone, wishes).workers == {"b": "w000"}


layout = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.5, 1.0, 2.0, 3.0]), st.integers(0, 3)), max_size=30)


@given(layout, st.sampled_from(ALGORITHMS))
def test_balance_ends_and_moves_no_more_than_is_too_much(has: list[tuple[int, float, int]], algorithm: str) -> None:
    placed = [(part(f"p{n}", f"g{g}", weight), f"w{at:03d}") for n, (at, weight, g) in enumerate(has)]
    tally = Tally.of(seats(6), placed, Placing(algorithm))
    moved = moves(placed, tally, 1_000)
    where = {p.instance: worker for p, worker in placed} | moved
    again = [(p, where[p.instance]) for p, _worker in placed]
    assert moves(again, Tally.of(seats(6), again, Placing(algorithm)), 1_000) == {}
    assert all(where[name] != worker for (p, worker) in placed if (name := p.instance) in moved)


@given(layout)
def test_numbers_are_even_afterwards_where_groups_allow_it(has: list[tuple[int, float, int]]) -> None:
    placed = [(part(f"p{n}"), f"w{at:03d}") for n, (at, _weight, _group) in enumerate(has)]
    counts = Counter(worker for _part, worker in placed)
    moved = moves(placed, Tally.of(seats(6), placed, Placing()), 1_000)
    after = Counter({f"w{n:03d}": 0 for n in range(6)})
    after.update(moved.get(p.instance, worker) for p, worker in placed)
    assert max(after.values()) - min(after.values()) <= 1
    most = -(-len(placed) // 6)
    assert len(moved) <= sum(max(0, count - most + 1) for count in counts.values())


def test_a_move_never_brings_instances_of_a_group_together() -> None:
    placed = [(part("g-1", "g"), "w000"), (part("x"), "w000"), (part("y"), "w000"), (part("g-2", "g"), "w001")]
    assert "g-1" not in moves(placed, Tally.of(seats(2), placed, Placing()), 10)


def test_instances_of_a_group_part_when_a_worker_joins_though_another_one_could_go() -> None:
    together = [(part("f", "f"), "w001"), (part("g-1", "g"), "w001"), (part("g-2", "g"), "w001")]
    moved = moves(together, Tally.of(seats(2), together, Placing()), 10)
    assert len(moved) == 1
    assert set(moved) < {"g-1", "g-2"}


def test_two_thousand_instances_find_two_hundred_workers_evenly() -> None:
    tally = Tally.of(seats(200), [], Placing())
    for app in range(500):
        place([part(f"{app}-{n}", f"g{app}") for n in range(4)], tally)
    assert set(tally.counts.values()) == {10}


# ---- ports


def on(port: int, path: str = "/in", secure: bool = False) -> str:
    return written([Socket("S", port, path, secure)])


def test_two_that_listen_on_one_port_do_not_go_to_one_worker() -> None:
    tally = Tally.of(seats(3), [(part("x", listens=on(8006)), "w001")], Placing())
    placed = place([part("a", listens=on(8006)), part("b", listens=on(8006)), part("c")], tally)
    assert {placed.workers["a"], placed.workers["b"]} == {"w000", "w002"}


def test_nor_to_two_workers_of_one_machine() -> None:
    two = [Seat("w1", host="m"), Seat("w2", host="m")]
    tally = Tally.of(two, [(part("x", listens=on(8006)), "w1")], Placing())
    assert place([part("a", listens=on(8006))], tally).reason == "no worker has port 8006 free"
    assert place([part("a", listens=on(8006, "/other"))], tally).workers == {"a": "w1"}
    assert place([part("b", listens=on(8007))], tally).workers


def test_sources_of_one_worker_share_a_port_by_paths_where_they_speak_alike() -> None:
    tally = Tally.of([Seat("w1")], [(part("x", listens=on(8006)), "w1")], Placing())
    assert place([part("a", listens=on(8006, "/other"))], tally.copy()).workers == {"a": "w1"}
    assert place([part("a", listens=on(8006, "/other", secure=True))], tally).reason == "no worker has port 8006 free"


def test_an_app_that_waits_for_a_port_takes_nothing_meanwhile() -> None:
    tally = Tally.of(seats(2), [(part("x", listens=on(1)), "w000"), (part("y", listens=on(1)), "w001")], Placing())
    before = (dict(tally.counts), dict(tally.busy), tally.last)
    placed = place([part("a"), part("b", listens=on(2)), part("c", listens=on(1))], tally)
    assert placed == Placed({}, "no worker has port 1 free")
    assert (dict(tally.counts), dict(tally.busy), tally.last) == before
    assert place([part("b", listens=on(2)), part("d", listens=on(2))], tally).workers


def test_a_port_on_a_worker_that_is_given_nothing_is_held_on_its_machine() -> None:
    tally = Tally.of([Seat("w1", host="m")], [(part("x", listens=on(1)), "drained")], Placing(), {"drained": "m"})
    assert place([part("a", listens=on(1))], tally).reason == "no worker has port 1 free"


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.booleans()), max_size=6),
    st.lists(st.sampled_from(["m1", "m2", ""]), min_size=1, max_size=4),
)
def test_what_is_placed_or_moved_has_its_ports_for_itself(
    wanted: list[tuple[int, str, bool]], hosts: list[str]
) -> None:
    listening = [part(f"p{n}", listens=on(*one)) for n, one in enumerate(wanted)]
    tally = Tally.of([Seat(f"w{n}", host=host) for n, host in enumerate(hosts)], [], Placing())
    where: dict[str, str] = {}
    for one in listening:
        where |= place([one], tally).workers
    placed = [(one, where[one.instance]) for one in listening if one.instance in where]
    _check_ports(placed, tally.occupied)
    moved = moves(placed, tally, 3)
    _check_ports([(one, moved.get(one.instance, worker)) for one, worker in placed], tally.occupied)


def _check_ports(placed: list[tuple[Part, str]], occupied: Occupied) -> None:
    for i, (one, worker) in enumerate(placed):
        for other, holder in placed[:i]:
            (mine,), (its,) = sockets_of(one.listens), sockets_of(other.listens)
            if mine.port == its.port:
                assert (
                    worker == holder or occupied.hosts[worker] != occupied.hosts[holder] or not occupied.hosts[worker]
                )
                assert worker != holder or not mine.clashes(its)
