"""Steps of zones, in native code: the effect of an action or of a delay on a set of clock values.

The kernel encodes in words which bounds a step requires and which clocks it sets (see `kernel.clocks`);
here those words are applied to difference bound matrices, independently of how zones are stored or
searched.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.clocks import NO_DELAY
from veristream.kernel.extrapolate import extrapolate_lu
from veristream.kernel.federation import NO_ROOM, subtract_all
from veristream.kernel.zones import (
    INFINITY,
    Zone,
    complement,
    constrain,
    copy,
    down,
    implies,
    includes,
    reset,
    set_universe,
    up_within,
)
from veristream.native.loop import loop
from veristream.native.primitives import call_2, call_3, call_4, load_word

EMPTY, ENTERED, FAILED = range(3)

Bounds = Annotated[NDArray[np.int32], 2]
"""Rows of numbers that are bounds, or zones."""


class TimedCode(NamedTuple):
    """Addresses of a timed kernel's entries; `urgent` is 0 if no channel is urgent."""

    successors: int
    propositions: int
    measure: int
    timing: int
    tests: int
    places: int
    urgent: int


class Shape(NamedTuple):
    """Properties of all zones of a search: sizes, clock bounds by location, and priorities of actions."""

    word_count: int
    stride: int  # words from one successor to the next
    n: int  # clocks, including the constant zero
    component_count: int
    first: NDArray[np.int64]  # per location, and at the end: where its rows of `bounds` begin
    bounds: Bounds  # rows of clock, lower, upper: what the location still compares it with
    differences: Bounds  # rows of left, right, bound
    priorities: NDArray[np.int64]  # per action; empty if all are the same


class Scratch(NamedTuple):
    """Working memory, one for each worker."""

    out_rows: NDArray[np.int64]
    out_actions: NDArray[np.int64]
    urgent_rows: NDArray[np.int64]
    urgent_actions: NDArray[np.int64]
    words: NDArray[np.int64]  # bounds of invariants or tests
    places: NDArray[np.int64]
    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    limits: NDArray[np.int32]
    zone: NDArray[np.int32]
    other: NDArray[np.int32]
    pieces: Bounds  # federations: the current one and the next
    more: Bounds
    ready: Bounds  # a zone before a step, and its normalised result
    cuts: Bounds
    room: NDArray[np.int32]  # for a zone, as `zone` and `other` are
    marks: NDArray[np.int64]  # of a zone that is compared with those kept


@loop
def step_bounds(shape, row):  # type: ignore[no-untyped-def]
    """The address of the bounds of a successor's step, given the address of its row."""
    return row + 8 * (shape.word_count + shape.n - 1)


@loop
def bound_left(word: int) -> int:
    """The left clock of a bound."""
    return (word >> 48) & 0xFFFF


@loop
def bound_right(word: int) -> int:
    """The right clock of a bound."""
    return (word >> 32) & 0xFFFF


@loop
def bound_limit(word: int) -> int:
    """The bound on the difference, encoded as in matrices."""
    low = word & 0xFFFFFFFF
    return low - 0x100000000 if low >= 0x80000000 else low


@loop
def constrain_all(zone, n, address):  # type: ignore[no-untyped-def]
    """Restricts the zone to the bounds at the address; returns False if nothing is left."""
    for k in range(load_word(address)):
        word = load_word(address + 8 * (k + 1))
        if not constrain(zone, n, bound_left(word), bound_right(word), bound_limit(word)):
            return False
    return True


@loop
def set_clocks(zone: Zone, shape: Shape, row: int) -> None:
    """Sets the clocks that the step sets."""
    first = row + 8 * shape.word_count
    for clock in range(1, shape.n):
        value = load_word(first + 8 * (clock - 1))
        if value >= 0:
            reset(zone, shape.n, clock, value)


@loop
def is_still(code: TimedCode, scratch: Scratch, row: int) -> int:
    """Whether no time passes in the state: 1 or 0, -1 if an invariant cannot be evaluated.

    Leaves the bounds of the clock invariants in the scratch's words.
    """
    flags = call_2(code.timing, row, scratch.words.ctypes.data)
    if flags < 0:
        return -1
    if flags & NO_DELAY:
        return 1
    if code.urgent == 0:
        return 0
    rows, actions = scratch.urgent_rows.ctypes.data, scratch.urgent_actions.ctypes.data
    return 1 if call_4(code.urgent, row, rows, actions, scratch.urgent_actions.size) != 0 else 0


@loop
def enter(code: TimedCode, shape: Shape, scratch: Scratch, row: int, zone: Zone) -> int:
    """The zone after entering a state and any delay there: EMPTY, ENTERED or FAILED."""
    still = is_still(code, scratch, row)
    if still < 0:
        return FAILED
    invariants = scratch.words.ctypes.data
    if not constrain_all(zone, shape.n, invariants):
        return EMPTY
    if still == 0:
        up_within(zone, shape.n, upper_limits(scratch, shape.n))
    return ENTERED


@loop
def upper_limits(scratch, n):  # type: ignore[no-untyped-def]
    """The upper limit of each clock under the invariants in the scratch's words; their differences and
    lower bounds stay true as time passes."""
    limits = scratch.limits
    limits[:] = INFINITY
    for k in range(scratch.words[0]):
        word = scratch.words[k + 1]
        if bound_right(word) == 0:
            clock = bound_left(word)
            limits[clock] = min(limits[clock], bound_limit(word))
    return limits


@loop
def set_limits(code, shape, scratch, row):  # type: ignore[no-untyped-def]
    """Writes the constants L and U of all clocks to the scratch, given the locations of the components."""
    call_2(code.places, row, scratch.places.ctypes.data)
    lower, upper = scratch.lower, scratch.upper
    lower[:] = -1
    upper[:] = -1
    for component in range(shape.component_count):
        place = scratch.places[component]
        if place >= 0:
            for k in range(shape.first[place], shape.first[place + 1]):
                clock = shape.bounds[k, 0]
                lower[clock] = max(lower[clock], shape.bounds[k, 1])
                upper[clock] = max(upper[clock], shape.bounds[k, 2])


@loop
def extrapolate(code, shape, scratch, row, zone):  # type: ignore[no-untyped-def]
    """Extrapolates: forgets what no later test can distinguish. Leaves L and U in the scratch."""
    set_limits(code, shape, scratch, row)
    extrapolate_lu(zone, shape.n, scratch.lower, scratch.upper)


@loop
def cut(shape, zone, pieces):  # type: ignore[no-untyped-def]
    """Cuts the zone into pieces at every difference of clocks that is ever tested; returns their number, or
    -1 if there is no room."""
    n = shape.n
    copy(zone, pieces[0], n)
    count = 1
    for g in range(shape.differences.shape[0]):
        left, right, bound = shape.differences[g]
        for k in range(count):
            if implies(pieces[k], n, left, right, bound):
                continue
            if implies(pieces[k], n, right, left, complement(bound)):
                continue
            if count == len(pieces):
                return -1
            copy(pieces[k], pieces[count], n)
            constrain(pieces[k], n, left, right, bound)
            constrain(pieces[count], n, right, left, complement(bound))
            count += 1
    return count


@loop
def extrapolate_piece(code, shape, scratch, row, piece):  # type: ignore[no-untyped-def]
    """Extrapolates a piece of `cut`, keeping it on its side of every difference."""
    n = shape.n
    copy(piece, scratch.other, n)
    extrapolate(code, shape, scratch, row, piece)
    for g in range(shape.differences.shape[0]):
        left, right, bound = shape.differences[g]
        if implies(scratch.other, n, left, right, bound):
            constrain(piece, n, left, right, bound)
        else:
            constrain(piece, n, right, left, complement(bound))


@loop
def normalise(code: TimedCode, shape: Shape, scratch: Scratch, row: int, zone: Zone) -> int:
    """Extrapolates the entered zone into pieces, in the scratch's `cuts`; returns their number.

    Leaves L and U in the scratch.
    """
    if shape.differences.shape[0] == 0:
        copy(zone, scratch.cuts[0], shape.n)
        extrapolate(code, shape, scratch, row, scratch.cuts[0])
        return 1
    count = cut(shape, zone, scratch.cuts)
    for k in range(count):
        extrapolate_piece(code, shape, scratch, row, scratch.cuts[k])
    return count


@loop
def enabling(code, shape, scratch, row, zone):  # type: ignore[no-untyped-def]
    """All clock values in which the step to the successor at `row` is possible; False if there are none.

    They satisfy the bounds of the step and, once it has set its clocks, the invariants of its target.
    """
    n = shape.n
    set_universe(zone, n)
    if not constrain_all(zone, n, step_bounds(shape, row)):
        return False
    if call_2(code.timing, row, scratch.words.ctypes.data) < 0:
        return True
    first = row + 8 * shape.word_count
    for k in range(scratch.words[0]):
        word = scratch.words[k + 1]
        left, right, bound = bound_left(word), bound_right(word), bound_limit(word)
        if left > 0 and load_word(first + 8 * (left - 1)) >= 0:
            bound -= 2 * load_word(first + 8 * (left - 1))
            left = 0
        if right > 0 and load_word(first + 8 * (right - 1)) >= 0:
            bound += 2 * load_word(first + 8 * (right - 1))
            right = 0
        if left == right:
            if bound < 1:
                return False
        elif not constrain(zone, n, left, right, bound):
            return False
    return True


@loop
def _ways_out(code, shape, scratch, row, k, still):  # type: ignore[no-untyped-def]
    """Writes to the scratch's `other` the clock values, in the state at `row`, from which step k is
    possible, now or after a delay unless time stands still; False if there are none."""
    if scratch.out_actions[k] < 0:
        return False  # it fails, and has no row
    target = scratch.out_rows.ctypes.data + 8 * shape.stride * k
    if not enabling(code, shape, scratch, target, scratch.other):
        return False
    # A step must become possible while the invariants of the state still hold.
    if call_2(code.timing, row, scratch.words.ctypes.data) < 0:
        return False
    if not constrain_all(scratch.other, shape.n, scratch.words.ctypes.data):
        return False
    if still == 0:
        down(scratch.other, shape.n)
    return True


@loop
def stuck(
    code: TimedCode, shape: Shape, scratch: Scratch, row: int, zone: Zone, count: int, still: int
) -> int:
    """The part of the zone, in the state at `row`, from which none of the `count` steps in the scratch is
    possible, now or after any delay, as pieces in the scratch's `pieces`; their number, or -1 if there is
    no room."""
    for k in range(count):  # mostly one step alone shows that nothing is stuck
        if _ways_out(code, shape, scratch, row, k, still) and includes(scratch.other, zone, shape.n):
            return 0
    copy(zone, scratch.pieces[0], shape.n)
    left = 1
    for k in range(count):
        if not _ways_out(code, shape, scratch, row, k, still):
            continue
        left = take_away(shape, scratch, left, 1)  # the delays are in it already
        if left <= 0:
            return left
    return left


@loop
def take_away(shape, scratch, left, still):  # type: ignore[no-untyped-def]
    """Subtracts the scratch's `other`, and unless time stands still all that reaches it by waiting, from
    the `left` pieces; returns their new number, or -1 if there is no room."""
    if still == 0:
        down(scratch.other, shape.n)
    left = subtract_all(scratch.pieces, left, scratch.other, shape.n, scratch.more, scratch.room)
    if left == NO_ROOM:
        return -1
    for piece in range(left):
        copy(scratch.more[piece], scratch.pieces[piece], shape.n)
    return left


@loop
def leaving(code: TimedCode, shape: Shape, scratch: Scratch, zone: Zone, count: int, chosen: int) -> int:
    """The part of the zone in which the chosen one of the `count` steps in the scratch is possible, by its
    bounds and the steps of greater priority, as pieces in the scratch's `ready`; their number, or -1 if
    there is no room."""
    n = shape.n
    rows = scratch.out_rows.ctypes.data
    copy(zone, scratch.ready[0], n)
    if not constrain_all(scratch.ready[0], n, step_bounds(shape, rows + 8 * shape.stride * chosen)):
        return 0
    if shape.priorities.size == 0:
        return 1
    copy(scratch.ready[0], scratch.pieces[0], n)
    left = 1
    own = shape.priorities[scratch.out_actions[chosen] & 0xFFFFFFFF]
    for k in range(count):
        if scratch.out_actions[k] < 0 or shape.priorities[scratch.out_actions[k] & 0xFFFFFFFF] <= own:
            continue
        if not enabling(code, shape, scratch, rows + 8 * shape.stride * k, scratch.other):
            continue
        left = take_away(shape, scratch, left, 1)
        if left <= 0:
            return left
    for piece in range(left):
        copy(scratch.pieces[piece], scratch.ready[piece], n)
    return left


@loop
def tested(code: TimedCode, shape: Shape, scratch: Scratch, row: int, number: int, zone: Zone) -> int:
    """Restricts the zone to the watched constraints of that number: EMPTY, ENTERED or FAILED."""
    words = scratch.words.ctypes.data
    if call_3(code.tests, row, number, words) < 0:
        return FAILED
    return ENTERED if constrain_all(zone, shape.n, words) else EMPTY
