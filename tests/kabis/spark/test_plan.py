"""Which events a read covers and which task reads them, without Spark and without a cluster."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kabis.chain import Chain, batch_of, chain_with_topic, submitted
from veristream.errors import ModelError
from veristream.kabis.client.errors import BelowLowWaterError
from veristream.kabis.protocol.actions import Hole, LowWater
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.spark.plan import (
    Bounds,
    Choice,
    Edge,
    PlainPart,
    Range,
    choose,
    find_ranges,
    first_offset,
    from_offset,
    keep_bounds,
    limit_rows,
    next_ends,
    next_starts,
    split_admitted,
    split_plain,
    to_offset,
)

ORDERS = ("orders", 0)
OTHER = ("orders", 1)
BOUNDS = {ORDERS: Bounds(2, 10), OTHER: Bounds(0, 4)}


def chain_of(*sizes: int) -> Chain:
    """The partition `orders-0` with batches of these sizes, by alice."""
    chain = chain_with_topic()
    sequence, previous = 0, ZERO_DIGEST
    for size in sizes:
        values = [f"event {number}".encode() for number in range(sequence, sequence + size)]
        batch = batch_of(*values, sequence=sequence, previous=previous)
        chain.block(submitted(batch))
        sequence, previous = sequence + size, batch.digest()
    return chain


def test_edges_and_indices_are_chosen_per_place() -> None:
    choice = Choice(Edge.EARLIEST, {OTHER: 3})
    assert choose("startingIndex", choice, BOUNDS) == {ORDERS: 2, OTHER: 3}
    assert choose("endingIndex", Choice(Edge.LATEST, {ORDERS: Edge.EARLIEST}), BOUNDS) == {
        ORDERS: 2,
        OTHER: 4,
    }
    assert choose("endingIndex", Choice(Edge.LATEST, {ORDERS: 10}), BOUNDS)[ORDERS] == 10


@pytest.mark.parametrize(
    ("place", "index", "told"),
    [
        (ORDERS, 11, "option startingIndex: orders-0 ends at 10, before 11"),
        (ORDERS, 1, "orders-0: index 1 is below the low-water mark 2"),
        (("orders", 2), 0, "option startingIndex: orders has no partition 2"),
    ],
)
def test_an_index_that_is_not_there_is_told(place: tuple[str, int], index: int, told: str) -> None:
    with pytest.raises(ModelError) as caught:
        choose("startingIndex", Choice(Edge.EARLIEST, {place: index}), BOUNDS)
    assert caught.value.message == told


def test_ranges_are_what_lies_between() -> None:
    starts, ends = {ORDERS: 2, OTHER: 4}, {OTHER: 4, ORDERS: 5}
    assert find_ranges(starts, ends) == [Range(ORDERS, 2, 5)]


@pytest.mark.parametrize(
    ("first", "end", "rows_max", "parts"),
    [
        (0, 12, 100, [(0, 12, [0, 3, 6, 11])]),
        (0, 12, 6, [(0, 6, [0, 3]), (6, 12, [6, 11])]),
        (0, 12, 5, [(0, 3, [0]), (3, 6, [3]), (6, 11, [6]), (11, 12, [11])]),
        (0, 12, 1, [(0, 3, [0]), (3, 6, [3]), (6, 11, [6]), (11, 12, [11])]),
        (0, 6, 100, [(0, 6, [0, 3])]),
        (4, 7, 100, [(4, 7, [3, 6])]),
        (4, 7, 3, [(4, 7, [3, 6])]),
        (4, 7, 2, [(4, 6, [3]), (6, 7, [6])]),
        (5, 5, 2, []),
    ],
)
def test_parts_have_whole_batches(
    first: int, end: int, rows_max: int, parts: list[tuple[int, int, list[int]]]
) -> None:
    ledger = chain_of(3, 3, 5, 1).ledger
    found = split_admitted(Range(ORDERS, first, end), ledger, rows_max) if first < end else iter(())
    assert [
        (part.covered.first, part.covered.end, [each.first_index for each in part.admissions])
        for part in found
    ] == parts


def test_a_part_has_the_keys_of_its_producers_and_no_holes() -> None:
    chain = chain_of(2, 2)
    admission = next(chain.ledger.admissions(*ORDERS, 0))
    chain.block(chain.act("admin", Hole(*ORDERS, 0, admission.digest)))
    (part,) = split_admitted(Range(ORDERS, 0, 4), chain.ledger, 100)
    assert [each.first_index for each in part.admissions] == [2]
    key = chain.ledger.key("alice", 0)
    assert key is not None
    assert part.keys == {("alice", 0): key.public}


def test_below_the_mark_nothing_is_planned() -> None:
    chain = chain_of(2, 2)
    chain.block(chain.act("admin", LowWater(*ORDERS, 3)))
    with pytest.raises(IndexError):
        list(split_admitted(Range(ORDERS, 2, 4), chain.ledger, 100))
    (part,) = split_admitted(Range(ORDERS, 3, 4), chain.ledger, 100)
    assert [each.first_index for each in part.admissions] == [2]


def test_offsets_are_split_evenly() -> None:
    assert list(split_plain(Range(ORDERS, 3, 8), "s1", 2)) == [
        PlainPart(Range(ORDERS, first, end), "s1") for first, end in ((3, 5), (5, 7), (7, 8))
    ]


@given(
    counts=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    rows_max=st.integers(1, 200),
)
def test_a_limit_is_used_up_and_never_passed(counts: list[int], rows_max: int) -> None:
    ranges = [Range(("t", number), 7, 7 + count) for number, count in enumerate(counts)]
    ends = limit_rows(ranges, rows_max)
    taken = {each.place: ends[each.place] - each.first for each in ranges}
    assert sum(taken.values()) == min(rows_max, sum(counts))
    assert all(0 <= taken[each.place] <= each.count for each in ranges)
    short = [taken[each.place] for each in ranges if taken[each.place] < each.count]
    assert not short or max(short) - min(short) <= 1


def test_an_offset_is_json_in_one_order() -> None:
    indices: dict[tuple[str, int], int | str] = {("b", 0): 3, ("a", 10): 2, ("a", 9): "latest"}
    offset = to_offset(indices)
    assert json.dumps(offset) == '{"a": {"9": "latest", "10": 2}, "b": {"0": 3}}'
    assert from_offset(json.loads(json.dumps(offset))) == indices


def test_latest_stays_a_word_until_the_first_batch_ends() -> None:
    begun = first_offset(Choice(Edge.LATEST, {OTHER: 1}), BOUNDS)
    assert begun == {ORDERS: "latest", OTHER: 1}
    # The first batch ends where the partitions do; planned again later, it is still without old events.
    later = {ORDERS: Bounds(2, 30), OTHER: Bounds(0, 30)}
    assert next_starts(begun, {ORDERS: 10, OTHER: 4}, later) == {ORDERS: 10, OTHER: 1}


def test_a_batch_ends_where_the_partitions_do_or_did() -> None:
    begun: dict[tuple[str, int], int | str] = {ORDERS: 4, OTHER: "latest"}
    assert next_ends(begun, BOUNDS) == {ORDERS: 10, OTHER: 4}
    assert next_ends(begun, BOUNDS, {ORDERS: 7, OTHER: 2}) == {ORDERS: 7, OTHER: 2}
    assert next_ends(begun, BOUNDS, {ORDERS: 3}) == {ORDERS: 4}
    with pytest.raises(ModelError, match="orders-0 ends at 10, but the stream is already at 11"):
        next_ends({ORDERS: 11}, BOUNDS)


def test_a_new_partition_begins_with_its_first_event() -> None:
    bounds = {**BOUNDS, ("orders", 2): Bounds(5, 9)}
    ends = {ORDERS: 10, ("orders", 2): 9}
    assert next_starts({ORDERS: 4}, ends, bounds) == {ORDERS: 4, ("orders", 2): 5}


def test_what_was_let_go_is_an_error_or_skipped() -> None:
    ranges = [Range(ORDERS, 0, 6), Range(OTHER, 1, 4)]
    assert keep_bounds(ranges, BOUNDS, strict=False) == [Range(ORDERS, 2, 6), Range(OTHER, 1, 4)]
    assert keep_bounds([Range(ORDERS, 0, 2)], BOUNDS, strict=False) == []
    with pytest.raises(BelowLowWaterError, match="index 0 is below the low-water mark 2"):
        keep_bounds(ranges, BOUNDS, strict=True)
    with pytest.raises(ModelError, match="ends at 10, but the stream is already at 11"):
        keep_bounds([Range(ORDERS, 4, 11)], BOUNDS, strict=True)
