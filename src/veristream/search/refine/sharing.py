"""Pairs that several workers check together, batch by batch, with the result of one worker.

A batch is a part of a level. First, workers take pieces of it: they expand the states, and list the pairs
that follow, each in the *bucket* of the worker that owns its state of the implementation. Then every worker
goes through its own buckets, in the order in which one worker would have found the pairs, and adds those
that are new: whether a pair is new depends on earlier pairs of the same state alone. Finally the new pairs
of all workers are put into that order.

What a worker cannot know without changing what others read is *open*, and settled between the first two
steps by one of them: new moves of the specification, new offers, divergences. A batch with a violation or
a failure in it is left to one worker alone; nothing was added by then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.native.primitives import fetch_add, half_at, prefetch, set_half, set_word, word_at
from veristream.search.memory import OutOfMemoryError, reserve
from veristream.search.refine.alphabet import TAU
from veristream.search.refine.labelled import Labelled
from veristream.search.refine.normal_form import (
    DIVERGENCES,
    FAILURES,
    NOTHING,
    NOWHERE,
    UNKNOWN_MOVE,
    NormalForm,
    allows_offer,
    find_move,
    known_move,
)
from veristream.search.refine.pairs import (
    BROKEN,
    CURSOR,
    DEPTH,
    HOW,
    LEVEL_END,
    NEXT,
    NOT,
    PAIR_COUNTS,
    PAIRS,
    ROOM_FULL,
    SEEN_STABLE,
    SEEN_VISIBLE,
    TRANSITIONS,
    Pairing,
    Pairs,
    add_pair,
    judge,
    owner_of,
)
from veristream.search.refine.system import CONVERGES, DONE, GROW, Shift, expand_state, offer_of
from veristream.search.refine.tables import address_of
from veristream.search.refine.ways import NO_EVENT, split_event
from veristream.search.threads import LINE

WIDE = 1 << 12  # fewer pairs are not worth sharing
BATCH = 1 << 17  # pairs of a batch at most
PIECE = 512
BUCKET = 1 << 21
ENTRY = 16  # bytes: target and node, then the pair's place in the batch above the edge
EDGE_BITS = 44
AHEAD = 16  # so many entries before a pair is looked up, its state's newest pair is prefetched

# What each worker counts in addition to what one worker counts. FILLS: where each of its buckets ends.
SPOILED, LISTED, OPEN, PIECE_AT, ENTRY_AT, FILLS = range(PAIR_COUNTS, PAIR_COUNTS + 6)

# Per piece and owner of a bucket: where the entries begin and end, and how many are new.
BEGIN, END, NEW, PART = range(4)


class Batch(NamedTuple):
    """The memory of a batch: addresses, after three numbers."""

    size: int
    piece: int  # pairs that a worker takes at a time
    most: int  # entries in all buckets that a worker fills, and in its list of what is open
    pairs: int  # half words
    pieces: int
    open: int  # of the worker: places in the batch, each with an entry, or 0 if the pair itself is open
    cursor: int  # the next piece


@loop
def _spoil(counts):  # type: ignore[no-untyped-def]
    set_word(counts, SPOILED, 1)
    return False


@loop
def _leave_open(batch, counts, place, entry):  # type: ignore[no-untyped-def]
    listed = word_at(counts, OPEN)
    set_word(batch.open, 2 * listed, place)
    set_word(batch.open, 2 * listed + 1, entry)
    set_word(counts, OPEN, listed + 1)


@loop
def _judge_ahead(pairing, batch, place, state, node):  # type: ignore[no-untyped-def]
    """Does what `judge` does, as far as it is known; returns False at a violation."""
    system, normal, counts = pairing.system, pairing.normal, pairing.counts
    if normal.depth == DIVERGENCES and half_at(system.divergence, state) != CONVERGES:
        _leave_open(batch, counts, place, 0)
    elif normal.depth >= FAILURES:
        offer = offer_of(system, normal.offers, state, False)
        if offer == -2:
            _leave_open(batch, counts, place, 0)
        elif offer >= 0:
            set_word(counts, SEEN_STABLE, 1)
            return allows_offer(normal, node, offer)
    return True


@loop
def _list_after(pairing, batch, place):  # type: ignore[no-untyped-def]
    """Lists the pairs after the one at that place of the batch; returns False if the batch is spoiled."""
    counts, system, normal = pairing.counts, pairing.system, pairing.normal
    pair = half_at(batch.pairs, place)
    state, node = half_at(pairing.states, pair), half_at(pairing.nodes, pair)
    if normal.depth == DIVERGENCES and half_at(normal.diverges, node):
        return True
    first, last = word_at(system.first, state) - 1, word_at(system.last, state)
    listed = word_at(counts, LISTED) + last - first + 1
    set_word(counts, LISTED, listed)
    if first < 0 or listed > batch.most or not _judge_ahead(pairing, batch, place, state, node):
        return _spoil(counts)
    if normal.depth == NOTHING and split_event(system, pairing.ways, state) != NO_EVENT:
        return _spoil(counts)
    for edge in range(first, last):
        event, target = half_at(system.events, edge), half_at(system.targets, edge)
        fill = FILLS + owner_of(pairing, target)
        entry, after = word_at(counts, fill), node
        if event != TAU and normal.depth != NOTHING:
            set_word(counts, SEEN_VISIBLE, 1)
            after = known_move(normal, node, event)
            if after == NOWHERE:
                return _spoil(counts)
            if after == UNKNOWN_MOVE:
                _leave_open(batch, counts, place, entry)
        set_word(entry, 0, (target << 32) | (after & 0xFFFFFFFF))
        set_word(entry, 1, (place << EDGE_BITS) | edge)
        set_word(counts, fill, entry + ENTRY)
    set_word(counts, TRANSITIONS, word_at(counts, TRANSITIONS) + last - first)
    return True


@loop
def _mark(pairing, batch, piece, which):  # type: ignore[no-untyped-def]
    """Notes where the entries of a piece begin, or end."""
    for owner in range(pairing.workers):
        part = PART * (piece * pairing.workers + owner)
        set_word(batch.pieces, part + which, word_at(pairing.counts, FILLS + owner))


@loop
def list_pairs(pairing: Pairing, batch: Batch) -> None:
    """Lists the pairs after those of the batch, as one of several workers."""
    while True:
        piece = fetch_add(batch.cursor, 1)
        first = piece * batch.piece
        if first >= batch.size:
            return
        _mark(pairing, batch, piece, BEGIN)
        for place in range(first, min(first + batch.piece, batch.size)):
            if not _list_after(pairing, batch, place):
                return
        _mark(pairing, batch, piece, END)


@loop
def _settle(pairing, batch, place, entry):  # type: ignore[no-untyped-def]
    """Settles what is open of a pair, or of an entry; returns DONE, or why it could not, or BROKEN."""
    pair = half_at(batch.pairs, place)
    state, node = half_at(pairing.states, pair), half_at(pairing.nodes, pair)
    if entry == 0:
        code, how = judge(pairing, state, node)
        return BROKEN if code == DONE and how != NOT else code
    edge = word_at(entry, 1) & ((1 << EDGE_BITS) - 1)
    code, after = find_move(pairing.normal, node, half_at(pairing.system.events, edge))
    if code == DONE and after == NOWHERE:
        return BROKEN
    if code == DONE:
        set_word(entry, 0, (word_at(entry, 0) >> 32 << 32) | after)
    return code


@loop
def settle(pairing: Pairing, batch: Batch, lists: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Settles what all workers left open, in the order of the batch; `lists` are the addresses of what is
    left of each worker's list, and `ends` where these end."""
    while True:
        least, chosen = np.int64(1) << 62, -1
        for worker in range(lists.size):
            if lists[worker] < ends[worker] and word_at(lists[worker], 0) < least:
                least, chosen = word_at(lists[worker], 0), worker
        if chosen < 0:
            return DONE
        code = _settle(pairing, batch, least, word_at(lists[chosen], 1))
        if code != DONE:
            return code
        lists[chosen] += 16


@loop
def expand_rest(pairing: Pairing, batch: Batch) -> int:
    """Expands the states of the batch that several workers left alone."""
    normal = pairing.normal
    for place in range(batch.size):
        pair = half_at(batch.pairs, place)
        if normal.depth == DIVERGENCES and half_at(normal.diverges, half_at(pairing.nodes, pair)):
            continue
        code = expand_state(pairing.system, normal.alphabet, half_at(pairing.states, pair))
        if code != DONE:
            return code
    return DONE


@loop
def _target(entry):  # type: ignore[no-untyped-def]
    """The state of an entry; it may have all of 32 bits."""
    return (word_at(entry, 0) >> 32) & 0xFFFFFFFF


@loop
def _prefetch(pairing, entry, end):  # type: ignore[no-untyped-def]
    """Prefetches what later entries will be compared with."""
    if entry + ENTRY * AHEAD < end:
        prefetch(pairing.heads + 4 * _target(entry + ENTRY * AHEAD))
        newest = half_at(pairing.heads, _target(entry + ENTRY * (AHEAD // 2)))
        prefetch(pairing.nodes + 4 * newest)


@loop
def add_pairs(pairing: Pairing, batch: Batch, worker: int) -> int:
    """Adds what is new in the buckets of a worker; returns DONE, or GROW if it must be called again."""
    counts = pairing.counts
    for piece in range(word_at(counts, PIECE_AT), (batch.size + batch.piece - 1) // batch.piece):
        part = batch.pieces + 8 * PART * (piece * pairing.workers + worker)
        begin, end = word_at(part, BEGIN), word_at(part, END)
        entry = max(begin, word_at(counts, ENTRY_AT))
        new = word_at(part, NEW)
        while entry < end:
            _prefetch(pairing, entry, end)
            pair, edge = word_at(counts, NEXT), word_at(entry, 1)
            parent = half_at(batch.pairs, edge >> EDGE_BITS)
            event = half_at(pairing.system.events, edge & ((1 << EDGE_BITS) - 1))
            node = word_at(entry, 0) & 0xFFFFFFFF
            if add_pair(pairing, _target(entry), node, parent, event) != DONE:
                set_word(counts, PIECE_AT, piece)
                set_word(counts, ENTRY_AT, entry)
                set_word(part, NEW, new)
                return GROW
            if word_at(counts, NEXT) != pair:
                set_word(begin + ENTRY * new, 0, pair)
                set_word(begin + ENTRY * new, 1, edge)
                new += 1
            entry += ENTRY
        set_word(part, NEW, new)
        set_word(counts, PIECE_AT, piece + 1)
        set_word(counts, ENTRY_AT, 0)
    return DONE


@loop
def order_pairs(batch: Batch, workers: int, queue: int) -> None:
    """Puts new pairs into the queue at the address, in the order of the edges that led to them."""
    while True:
        piece = fetch_add(batch.cursor, 1)
        if piece * batch.piece >= batch.size:
            return
        place, last = 0, workers * (piece + 1)
        for part in range(last):
            place += word_at(batch.pieces, PART * part + NEW)
        for part in range(last - workers, last):
            place -= word_at(batch.pieces, PART * part + NEW)
            set_word(batch.pieces, PART * part + END, 0)
        while True:
            least, chosen = np.int64(-1), -1
            for part in range(last - workers, last):
                taken = word_at(batch.pieces, PART * part + END)
                if taken < word_at(batch.pieces, PART * part + NEW):
                    edge = word_at(word_at(batch.pieces, PART * part + BEGIN) + ENTRY * taken, 1)
                    if chosen < 0 or edge < least:
                        least, chosen = edge, part
            if chosen < 0:
                break
            taken = word_at(batch.pieces, PART * chosen + END)
            pair = word_at(word_at(batch.pieces, PART * chosen + BEGIN) + ENTRY * taken, 0)
            set_word(batch.pieces, PART * chosen + END, taken + 1)
            set_half(queue, place, pair)
            place += 1


class SharedPairs(Pairs):
    """An exploration in progress that several workers share, from a number of pairs on."""

    def __init__(
        self, implementation: Labelled, normal: NormalForm, budget: int, shared_from: int = 0
    ) -> None:
        super().__init__(implementation, normal, budget)
        workers = self.workers
        self.shared_from = shared_from  # pairs; with fewer, one thread searches
        self._counts = np.zeros((workers, FILLS + workers + LINE), np.int64)
        self._counts[:, NEXT] = self.room * np.arange(workers)
        self.tally = self._counts[0]
        self._queue = reserve(4 * self.room * workers)
        self._buckets, self._open = (reserve(ENTRY * BUCKET * workers * n) for n in (workers, 1))
        self._pieces = np.zeros(PART * workers * (1 + BATCH // PIECE), np.int64)
        self._cursor = np.zeros(1, np.int64)
        self._most = BATCH

    @property
    def native(self) -> Pairing:
        """The current form for one worker alone."""
        return super().native._replace(queue=self._queue.address)

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        return super().byte_count + 4 * self.state_count

    @property
    def current(self) -> int:
        """The pair that is checked next, or could not be checked."""
        return int(self._queue.words.view(np.uint32)[self.tally[CURSOR]])

    def advance(self, quantum: int) -> None:
        """Checks about `quantum` pairs, and expands about as many states of each side."""
        if self.state_count < self.shared_from or self.tally[HOW] != NOT:
            super().advance(quantum)
            return
        count = min(quantum, self._most, self._left_of_level())
        if count < WIDE:
            super().advance(min(quantum, WIDE))
        elif self._check_together(count):
            if self.byte_count > self.budget:
                raise OutOfMemoryError
        else:
            super().advance(count)

    def tend(self) -> None:
        """Enlarges what is too small; raises OutOfMemoryError if there is no room for another pair."""
        self.tally[ROOM_FULL] = self._counts[:, ROOM_FULL].any()
        super().tend()

    def _left_of_level(self) -> int:
        """How many pairs of a level are left to check: of the next level if one is complete."""
        tally = self.tally
        if tally[CURSOR] == tally[LEVEL_END] < tally[PAIRS]:
            tally[LEVEL_END] = tally[PAIRS]
            tally[DEPTH] += 1
        return int(tally[LEVEL_END] - tally[CURSOR])

    def _check_together(self, count: int) -> bool:
        """Checks a batch; returns False, with nothing changed, if one worker must do it."""
        before, tally = self._counts.copy(), self.tally
        cursor, known = (4 * int(tally[which]) for which in (CURSOR, PAIRS))
        queue, pieces = self._queue.address, address_of(self._pieces)
        batch = Batch(count, PIECE, BUCKET, queue + cursor, pieces, 0, address_of(self._cursor))
        self.allow(count)
        if not self._expand(batch) or not self._list(batch):
            for side in self.sides:
                side.fail_later()
            self._counts[:] = before
            return False
        self._add(batch)
        self._cursor[0] = 0
        self.implementation.crew.run(lambda _: order_pairs(batch, self.workers, queue + known))
        tally[PAIRS] = before[0, PAIRS] + self._pieces[NEW::PART].sum()
        tally[CURSOR] += count
        tally[TRANSITIONS] += self._counts[1:, TRANSITIONS].sum()
        self._counts[1:, TRANSITIONS] = 0
        for seen in (SEEN_VISIBLE, SEEN_STABLE):
            tally[seen] = self._counts[:, seen].any()
        return True

    def _expand(self, batch: Batch) -> bool:
        """Expands the states of a batch; returns False if that was not possible."""
        self._cursor[0] = 0
        shift = Shift(batch.pairs, self.native.states, batch.size, batch.cursor)
        code = GROW if self.implementation.expand_ahead(shift) else DONE
        while code == GROW:
            code = int(expand_rest(self.native, batch))
            if code == GROW:
                self.tend()
        return code == DONE

    def _list(self, batch: Batch) -> bool:
        """Lists the pairs after the batch; returns False if the batch is spoiled."""
        counts, workers = self._counts, self.workers
        counts[:, SPOILED:FILLS] = self._cursor[0] = self._pieces[:] = 0
        buckets = ENTRY * BUCKET * np.arange(workers * workers).reshape(workers, workers)
        counts[:, FILLS : FILLS + workers] = self._buckets.address + buckets
        lists = self._open.address + ENTRY * BUCKET * np.arange(workers)
        pairings = self._pairings()
        self.implementation.crew.run(
            lambda worker: list_pairs(pairings[worker], batch._replace(open=int(lists[worker])))
        )
        if counts[:, SPOILED].any():
            if counts[:, LISTED].max() > batch.most:
                self._most = max(WIDE, batch.size // 2)
            return False
        ends, code = lists + ENTRY * counts[:, OPEN], GROW
        while code == GROW:
            code = int(settle(self.native, batch, lists, ends))
            if code == GROW:
                self.tend()
        return code == DONE

    def _add(self, batch: Batch) -> None:
        """Adds the listed pairs that are new."""
        while GROW in self._add_some(batch):
            self.tend()

    def _add_some(self, batch: Batch) -> list[int]:
        pairings = self._pairings()
        return self.implementation.crew.run(lambda worker: add_pairs(pairings[worker], batch, worker))

    def _pairings(self) -> list[Pairing]:
        """The form for each of several workers."""
        alone = self.native._replace(queue=0)
        return [
            alone._replace(
                system=system,
                end=(worker + 1) * self.room,
                ways=alone.ways + self._ways_size * worker,
                counts=address_of(counts),
            )
            for worker, (system, counts) in enumerate(
                zip(self.implementation.systems(), self._counts, strict=True)
            )
        ]
