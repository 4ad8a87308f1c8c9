"""UPPAAL's demos: all known verdicts, and least times confirmed by exhaustive search."""

from __future__ import annotations

import heapq
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

import veristream as vs
from tests.known import differences_of
from veristream.expected import KnownModel, find_known
from veristream.verdict import Holds, Violated

FOLDER = Path(__file__).parents[2] / "models" / "uppaal"
KNOWN = [pytest.param(known, id=known.name) for known in find_known(FOLDER.parent, [FOLDER.name])]


@pytest.mark.parametrize("known", KNOWN)
def test_every_verdict_is_the_expected_one(known: KnownModel) -> None:
    assert differences_of(known) == []


@pytest.mark.parametrize(
    ("name", "query", "value"),
    [
        ("vikings", "inf", "= 60"),
        ("job_shop", "inf", "= 180"),
        ("csma_cd", "sup", "< 52"),
        ("csma_cd_3", "sup", "< 52"),
        ("coffee_machine", "sup", "= 8"),
        ("coffee_machine_slow", "sup", "= 9"),
        ("coffee_machine_quick", "sup", "= 6"),
    ],
)
def test_least_and_greatest_values(name: str, query: str, value: str) -> None:
    (known,) = find_known(FOLDER.parent, [name])
    (text,) = [one.property for one in known.expectations if one.property.startswith(query)]
    (result,) = vs.check(known.path, [text], constants=known.constants)
    assert isinstance(result.verdict, Holds)
    assert result.verdict.reason.endswith(f" {value}"), result.verdict.reason


def is_reachable(file: str, goal: str) -> bool:
    """Returns whether the goal is reachable."""
    (result,) = vs.check(FOLDER / file, [f"E<> {goal}"])
    assert isinstance(result.verdict, Holds | Violated)
    return isinstance(result.verdict, Holds)


def least_crossing(minutes: tuple[int, ...]) -> int:
    """Returns the least time for all to cross: Dijkstra's algorithm over the sides of Vikings and torch."""
    everybody = frozenset(range(len(minutes)))
    waiting: list[tuple[int, int, list[int], bool]] = [(0, 0, sorted(everybody), True)]
    done: set[tuple[frozenset[int], bool]] = set()
    count = 0
    while waiting:
        time, _, left, torch_is_left = heapq.heappop(waiting)
        near = frozenset(left)
        if not near:
            return time
        if (near, torch_is_left) in done:
            continue
        done.add((near, torch_is_left))
        side = near if torch_is_left else everybody - near
        for size in (1, 2):
            for walkers in combinations(sorted(side), size):
                later = time + max(minutes[walker] for walker in walkers)
                count += 1  # breaks ties between equal times
                heapq.heappush(
                    waiting, (later, count, sorted(near.symmetric_difference(walkers)), not torch_is_left)
                )
    raise AssertionError("they never get across")


def test_the_vikings_need_an_hour() -> None:
    assert least_crossing((5, 10, 20, 25)) == 60
    safe = "Viking1.safe and Viking2.safe and Viking3.safe and Viking4.safe"
    assert is_reachable("vikings.xml", f"{safe} and time <= 60")
    assert not is_reachable("vikings.xml", f"{safe} and time <= 59")


FINANCIAL_TIMES, GUARDIAN, EXPRESS, SUN = range(4)
READERS = (
    ((FINANCIAL_TIMES, 60), (GUARDIAN, 30), (EXPRESS, 2), (SUN, 5)),
    ((GUARDIAN, 75), (EXPRESS, 3), (FINANCIAL_TIMES, 25), (SUN, 10)),
    ((EXPRESS, 5), (GUARDIAN, 15), (FINANCIAL_TIMES, 10), (SUN, 30)),
    ((SUN, 90), (FINANCIAL_TIMES, 1), (GUARDIAN, 1), (EXPRESS, 1)),
)
RISE = (0, 15, 15, 60)
Times = tuple[int, ...]


def replaced(times: Times, position: int, value: int) -> Times:
    return (*times[:position], value, *times[position + 1 :])


@cache
def least_end(turns: Times, ready: Times, free: Times) -> int:
    """Returns the least end: in every order, a reader takes his next paper as soon as both are ready."""
    ends: list[int] = []
    for reader, turn in enumerate(turns):
        if turn < len(READERS[reader]):
            paper, minutes = READERS[reader][turn]
            end = max(ready[reader], free[paper]) + minutes
            ends.append(
                least_end(
                    replaced(turns, reader, turn + 1),
                    replaced(ready, reader, end),
                    replaced(free, paper, end),
                )
            )
    return min(ends, default=max(ready))


def test_the_readers_can_leave_at_half_past_eleven() -> None:
    assert least_end((0, 0, 0, 0), RISE, (0, 0, 0, 0)) == 180
    done = "(forall (i : reader_t) Reader(i).Done)"
    assert is_reachable("job_shop.xml", f"{done} and time <= 180")
    assert not is_reachable("job_shop.xml", f"{done} and time <= 179")
