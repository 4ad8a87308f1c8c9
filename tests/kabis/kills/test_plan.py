"""What a seed draws: as many victims as a kind of round says, and changes that the rules allow."""

from __future__ import annotations

from dataclasses import replace as changed
from random import Random

import pytest

from tests.kabis.kills.changes import (
    EXCHANGES,
    Change,
    Members,
    Wanted,
    draw_change,
    spread_changes,
)
from tests.kabis.kills.plan import COMMAND, Kind, Round, Shape, choose_shape, draw_rounds

MEMBERS = Members(
    tuple(f"validator-{number}" for number in range(1, 5)),
    tuple(f"storage-{number}" for number in range(1, 4)),
    ("anna", "bert", "cleo"),
    1,
)
GROWN = Members(
    tuple(f"validator-{number}" for number in range(1, 8)),
    tuple(f"storage-{number}" for number in range(1, 6)),
    ("anna", "bert", "cleo"),
    2,
)


def draw(count: int, *wanted: Wanted, members: Members = MEMBERS) -> list[Round]:
    return list(draw_rounds(Random(1), lambda: members, count, wanted))


def count_victims(each: Round) -> tuple[int, int, int]:
    groups = (MEMBERS.validators, MEMBERS.storage, MEMBERS.producers)
    return tuple(len(set(each.victims) & set(names)) for names in groups)  # type: ignore[return-value]


def test_rounds_kill_as_many_as_their_kind_says() -> None:
    rounds = draw(400)
    assert [each.kind for each in rounds].count(Kind.WITHIN) == 240
    assert [each.kind for each in rounds[:10]].count(Kind.BEYOND) == 2
    assert rounds == draw(400)
    counts = {kind: {count_victims(each) for each in rounds if each.kind is kind} for kind in Kind}
    assert counts[Kind.POWER_CUT] == {(4, 3, 3)}
    assert counts[Kind.WITHIN] == {
        (validators, storage, producers)
        for validators in (0, 1)
        for storage in (0, 1)
        for producers in range(4)
        if validators + storage + producers
    }
    assert all(validators > 1 or storage > 1 for validators, storage, _ in counts[Kind.BEYOND])
    assert {each[:2] for each in counts[Kind.BEYOND]} >= {(4, 3), (2, 0), (0, 2), (4, 0), (0, 3)}
    assert all(len(set(each.victims)) == len(each.victims) for each in rounds)
    assert {each.change for each in rounds} == {None}


@pytest.mark.parametrize(("wanted", "members"), [(Wanted.GROW, MEMBERS), (Wanted.SHRINK, GROWN)])
def test_who_joins_or_leaves_is_among_the_victims(wanted: Wanted, members: Members) -> None:
    """No more than F of the smaller set are killed while events must flow, more than F of the larger."""
    rounds = draw(400, *[wanted] * 400, members=members)
    seen = set[str]()
    for each in rounds:
        assert each.change is not None
        parties = [name for name in each.victims if name.startswith(("validator-", "storage-"))]
        counts = [sum(name.startswith(role) for name in parties) for role in ("validator-", "storage-")]
        match each.kind:
            case Kind.WITHIN:
                assert max(counts) <= 1
            case Kind.BEYOND:
                assert max(counts) >= 3
            case Kind.POWER_CUT:
                assert COMMAND in each.victims
                assert set(parties) == {*members.parties, *each.change.joining}
        seen |= {name for name in each.victims if name in (*each.change.joining, *each.change.leaving)}
    assert len(seen) > 5
    interrupted = [COMMAND in each.victims for each in rounds if each.kind is not Kind.POWER_CUT]
    assert 0.2 < sum(interrupted) / len(interrupted) < 0.4


def test_changes_come_once_each_and_an_addition_before_what_undoes_it() -> None:
    wanted = (*EXCHANGES, Wanted.ADD_STORAGE, Wanted.REMOVE_STORAGE)
    orders = set[tuple[Wanted, ...]]()
    for seed in range(100):
        found = spread_changes(Random(seed), wanted, 10)
        order = tuple(found[number] for number in sorted(found))
        assert sorted(order, key=str) == sorted(wanted, key=str)
        assert order.index(Wanted.ADD_STORAGE) < order.index(Wanted.REMOVE_STORAGE)
        assert set(found) <= set(range(10))
        orders.add(order)
        assert len(spread_changes(Random(seed), wanted, 3)) == 3
    assert len(orders) > 20


def test_changes_are_words_of_the_command() -> None:
    def drawn(wanted: Wanted, members: Members = MEMBERS) -> Change:
        return draw_change(Random(1), members, wanted, 7)

    replaced = drawn(Wanted.REPLACE_STORAGE)
    assert replaced.words == ("replace", *replaced.leaving, "storage-71")
    assert set(replaced.leaving) <= set(MEMBERS.storage)
    grown = drawn(Wanted.GROW)
    assert grown.words == (
        "add",
        "validator-71",
        "validator-72",
        "validator-73",
        "storage-71",
        "storage-72",
    )
    assert (grown.joining, grown.faults) == (grown.words[1:], 2)
    shrunk = drawn(Wanted.SHRINK, GROWN)
    assert (shrunk.words, shrunk.faults) == (("remove", *shrunk.leaving), 1)
    assert len(set(shrunk.leaving) & set(GROWN.validators)) == 3
    assert len(set(shrunk.leaving) & set(GROWN.storage)) == 2
    rotated = drawn(Wanted.ROTATE_VALIDATOR)
    assert rotated.words == ("rotate", *rotated.rotated)
    assert set(rotated.rotated) <= set(MEMBERS.validators)


def test_shapes_come_in_turn() -> None:
    shapes = [choose_shape(seed) for seed in range(5)]
    assert changed(shapes[0], wanted=()) == Shape(4, prunes=True, supervised=True)
    assert changed(shapes[4], wanted=()) == Shape(7, prunes=True, supervised=True)
    assert [each.prunes for each in shapes].count(True) == 4
    assert [each.supervised for each in shapes].count(True) == 3
    assert [len(each.wanted) for each in shapes] == [3, 6, 6, 6, 6]
    assert all({*EXCHANGES} <= {*each.wanted} for each in shapes)
    assert {wanted for each in shapes for wanted in each.wanted} == {*Wanted}
    assert [choose_shape(seed) for seed in range(5, 10)] == shapes
