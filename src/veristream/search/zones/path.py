"""Replays a zone path without extrapolation, to compute the clock values in which it ends.

If steps of greater priority remove part of a zone, or waiting leads from one part of a condition to
another, there are several ways to continue; they are tried until one reaches the end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.federation import subtract
from veristream.kernel.layout import Row
from veristream.kernel.load import Kernel
from veristream.kernel.zones import copy, set_zero
from veristream.search.zones.stay import STUCK, Parts, cross, ends, settle
from veristream.search.zones.steps import (
    EMPTY,
    ENTERED,
    Scratch,
    Shape,
    TimedCode,
    enter,
    is_still,
    leaving,
    set_clocks,
    stuck,
    tested,
)
from veristream.search.zones.trace import Hop, list_successors, zone_bounds

_PROPOSITIONS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)

Zone = NDArray[np.int32]
Finish = Callable[[int, Zone], Iterator[Zone]]
"""The parts of a zone in which the path may end, given the address of its row."""


@dataclass(frozen=True, slots=True)
class Walker:
    """Replays zone paths; `parts` is given if runs stay in the parts of a condition."""

    code: TimedCode
    shape: Shape
    scratch: Scratch
    kernel: Kernel
    parts: Parts | None = None

    def walk(self, hops: Sequence[Hop], finish: Finish) -> tuple[list[Hop], Zone] | None:
        """The path, with the clock values to leave each state in if they matter, and the zone in which it
        ends."""
        begin = np.zeros(self.shape.n**2, np.int32)
        set_zero(begin, self.shape.n)
        open_ = [self._enter(hops[0], begin)]
        gone: list[Hop] = []
        while open_:
            found = next(open_[-1], None)
            if found is None:
                open_.pop()
                if gone:
                    gone.pop()
                continue
            zone, left_in = found
            if gone and left_in is not None:
                gone[-1] = replace(gone[-1], leaving=zone_bounds(left_in, self.shape.n))
            here = hops[len(open_) - 1]
            if len(open_) == len(hops):
                row = here.row.view(np.int64).copy()
                for end in finish(int(row.ctypes.data), zone):
                    return [*gone, here], end
                continue
            gone.append(here)
            open_.append(self._go(here, hops[len(open_)], zone))
        return None

    def _enter(self, hop: Hop, zone: Zone) -> Iterator[tuple[Zone, Zone | None]]:
        """The zone in the hop's state and part, including delays."""
        row = hop.row.view(np.int64).copy()
        found = self._settle(int(row.ctypes.data), hop.part, zone)
        if found == ENTERED:
            yield zone, None

    def _settle(self, row: int, part: int | None, zone: Zone) -> int:
        if part is None or self.parts is None:
            return int(enter(self.code, self.shape, self.scratch, row, zone))
        return int(settle(self.code, self.shape, self.scratch, self.parts, row, part, zone, False))

    def _go(self, here: Hop, there: Hop, zone: Zone) -> Iterator[tuple[Zone, Zone | None]]:
        """Each continuation from the zone, with the part of the zone that it leaves from, if not all of
        it."""
        scratch, shape = self.scratch, self.shape
        if there.cause is not None:
            after = zone.copy()
            if self._keep(there, there.cause, after):
                yield from self._enter(there, after)
            return
        if there.successor is None:
            row = there.row.view(np.int64).copy()
            assert self.parts is not None and there.part is not None
            for side in range(2):
                copy(zone, scratch.zone, shape.n)
                args = (self.parts, int(row.ctypes.data), there.part, side)
                if cross(self.code, shape, scratch, *args) == ENTERED:
                    yield scratch.zone.copy(), None
            return
        kept = here.row.view(np.int64).copy()
        source = int(kept.ctypes.data)
        count = list_successors(self.kernel, source, scratch.out_rows, scratch.out_actions)
        target = scratch.out_rows.ctypes.data + 8 * shape.stride * there.successor
        pieces = leaving(self.code, shape, scratch, zone, count, there.successor)
        for piece in scratch.ready[:pieces].copy():
            list_successors(self.kernel, source, scratch.out_rows, scratch.out_actions)
            after = piece.copy()
            set_clocks(after, shape, target)
            if self._settle(target, there.part, after) == ENTERED:
                yield after, piece if shape.priorities.size else None

    def _keep(self, hop: Hop, part: int, zone: Zone) -> bool:
        """Keeps what satisfies the clock constraints of a part."""
        row = hop.row.view(np.int64).copy()
        return bool(
            tested(self.code, self.shape, self.scratch, int(row.ctypes.data), part, zone) == ENTERED
        )

    def part_of(self, row: Row, zone: Zone, part: int, bit: int) -> tuple[int, Zone]:
        """The subset of a zone, in the row's state, that is in a part if the bit of its condition is set,
        with EMPTY, ENTERED or FAILED."""
        words = row.view(np.int64).copy()
        address = int(words.ctypes.data)
        kept = zone.copy()
        if not _PROPOSITIONS(self.code.propositions)(address) >> bit & 1:
            return EMPTY, kept
        return int(tested(self.code, self.shape, self.scratch, address, part, kept)), kept

    def anywhere(self, row: int, zone: Zone) -> Iterator[Zone]:
        """The whole zone."""
        yield zone

    def departing(self, action: int) -> Finish:
        """Where the action is possible, even if it fails."""

        def finish(row: int, zone: Zone) -> Iterator[Zone]:
            scratch = self.scratch
            count = list_successors(self.kernel, row, scratch.out_rows, scratch.out_actions)
            for k in range(count):
                if scratch.out_actions[k] & 0xFFFFFFFF == action:
                    left = leaving(self.code, self.shape, scratch, zone, count, k)
                    yield from scratch.ready[: max(left, 0)].copy()

        return finish

    def ending(self, row: int, zone: Zone) -> Iterator[Zone]:
        """Where no step is possible and the condition never ends."""
        assert self.parts is not None
        scratch = self.scratch
        count = list_successors(self.kernel, row, scratch.out_rows, scratch.out_actions)
        still = is_still(self.code, scratch, row)
        bits = int(_PROPOSITIONS(self.code.propositions)(row))
        args = (self.parts, row, bits, still, zone, count)
        if ends(self.code, self.shape, scratch, *args) == STUCK:
            yield scratch.pieces[0].copy()

    def satisfying(self, part: int, deadlock: bool | None) -> Finish:
        """Where a watched part holds, with or without a deadlock if it mentions deadlocks."""

        def finish(row: int, zone: Zone) -> Iterator[Zone]:
            scratch, shape = self.scratch, self.shape
            if tested(self.code, shape, scratch, row, part, zone) != ENTERED:
                return
            if deadlock is None:
                yield zone
                return
            count = list_successors(self.kernel, row, scratch.out_rows, scratch.out_actions)
            still = is_still(self.code, scratch, row)
            left = stuck(self.code, shape, scratch, row, zone, count, still)
            dead = [piece.copy() for piece in scratch.pieces[:left]]
            yield from dead if deadlock else self._without(zone, dead)

        return finish

    def _without(self, zone: Zone, dead: Sequence[Zone]) -> Iterator[Zone]:
        """The zone without the dead pieces."""
        pieces = [zone]
        room = np.zeros((self.shape.n**2, self.shape.n**2), np.int32)
        for taken in dead:
            kept: list[Zone] = []
            for piece in pieces:
                kept += [one.copy() for one in room[: subtract(piece, taken, self.shape.n, room)]]
            pieces = kept
        yield from pieces
