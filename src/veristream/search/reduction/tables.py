"""The relations as tables of 64-bit words, for the native closure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.layout import Layout, Slot
from veristream.search.reduction.conditions import Condition, Of
from veristream.search.reduction.relations import Needs, Relations

Words = NDArray[np.int64]

# The words of the header: sizes, then the addresses of tables.
(
    ACTIONS,
    WIDTH,
    GOALS,
    MAY_FAULT,
    CLASHES,
    CONDITIONS,
    NECESSARY,
    NEEDS_FIRST,
    NEEDS,
    REST,
    GOAL_FIRST,
    GOAL_NEEDS,
    GOAL_REST,
    VISIBLE,
    RETURNING,
    WATCHED,
    SCRATCH,
    SCRATCH_SIZE,
    HEADER_COUNT,
) = range(19)

# A condition's words: where the number is stored, how it is compared, and with what.
CONDITION_WORDS = 5
OPS = ("==", "!=", "<", "<=", ">", ">=")

# A worker's scratch: counters, then bit sets, a stack of actions, the stamps of necessary sets, segments.
STAMP, TRIED, REDUCED, POSSIBLE, LEFT_OUT, COUNTERS = range(6)
SEGMENTS = 256
SEGMENT_WORDS = 5


@dataclass(frozen=True, slots=True)
class Tables:
    """The header and what its addresses point at; they are valid as long as this value lives."""

    header: Words
    parts: tuple[Words, ...]

    @property
    def address(self) -> int:
        """The address of the header."""
        return int(self.header.ctypes.data)

    @property
    def reduced_count(self) -> int:
        """In how many states the search has left out a step, at first at least."""
        scratch = self.parts[-1].reshape(-1, int(self.header[SCRATCH_SIZE]))
        return int(scratch[:, REDUCED].sum())


def scratch_words(action_count: int, width: int, necessary_count: int) -> int:
    """The size of one worker's scratch, in whole cache lines."""
    words = COUNTERS + 4 * width + action_count + necessary_count + SEGMENTS * SEGMENT_WORDS
    return -(-words // 16) * 16


def tabulate(relations: Relations, layout: Layout, workers: int) -> Tables:
    """The tables of the relations, with scratch for the workers."""
    count = len(relations.actions)
    width = max(1, -(-count // 64))
    needs, wanted = relations.actions, [goal.needs for goal in relations.goals]
    size = scratch_words(count, width, len(relations.necessary))
    parts = (
        _bit_rows(relations.clashes, width),
        _words(word for one in relations.conditions for word in _condition(one, layout)),
        _bit_rows(relations.necessary, width),
        *_listed(needs),
        _words(one.rest for one in needs),
        *_listed(wanted),
        _words(one.rest for one in wanted),
        _bit_rows([goal.visible for goal in relations.goals], width),
        _bit_rows([relations.returning], width),
        _bit_rows([relations.watched], width),
        np.zeros(size * workers, np.int64),
    )
    addresses = [int(part.ctypes.data) for part in parts]
    header = [count, width, len(relations.goals), int(relations.may_fault), *addresses, size]
    assert len(header) == HEADER_COUNT
    return Tables(np.array(header, np.int64), parts)


def _words(numbers: Iterable[int]) -> Words:
    return np.array([*numbers, 0], np.int64)  # never empty, so that it has an address


def _bit_rows(masks: Sequence[int], width: int) -> Words:
    data = b"".join(mask.to_bytes(8 * width, "little") for mask in masks)
    return np.frombuffer(data + bytes(8), np.int64).copy()


def _listed(needs: Sequence[Needs]) -> tuple[Words, Words]:
    """Where the conditions of each begin, and the numbers of all conditions in a row."""
    firsts = accumulate((len(one.conditions) for one in needs), initial=0)
    return _words(firsts), _words(number for one in needs for number in one.conditions)


def _condition(condition: Condition, layout: Layout) -> tuple[int, ...]:
    slot, index = _slot(condition, layout)
    word, shift = slot.place(index) if slot.width else (0, 0)
    mask = (1 << slot.width) - 1
    stored = condition.value - slot.low
    return word, shift, mask if mask < 1 << 63 else -1, OPS.index(condition.op), stored


def _slot(condition: Condition, layout: Layout) -> tuple[Slot, int]:
    """The slot that the condition's number is stored in, and its index there."""
    match condition.of:
        case Of.LOCATION:
            return layout.locations[condition.number], 0
        case Of.VALUE:
            return _nth(list(layout.variables.values()), condition.number)
        case Of.LENGTH:
            return _nth([queue.length for queue in layout.queues.values()], condition.number)


def _nth(slots: list[Slot], number: int) -> tuple[Slot, int]:
    """The slot of the element with this number, counted through all slots."""
    for slot in slots:
        if number < slot.count:
            return slot, number
        number -= slot.count
    raise AssertionError("there is no such element")
